"""The stochastic metric Ghat of a layer beyond its mean and covariance: third cumulant, inverse and determinant.

Given its metric the neurons of a layer are Gaussian and independent (PDLT eq. (4.69)), so that cumulants of Ghat are
connected correlators of as many different neurons: E[z_i^2 z_j^2 z_k^2]_c = kappa_3(Ghat).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from ..activations import Activation, get
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.statistics import mean_and_error
from ..gaussian import average, average_product
from ..gaussian.kinked import TOLERANCE
from ..gaussian.nested import evaluate
from ..gaussian.roots import root
from ..gaussian.sample_pairs import Pairs
from ..gaussian.sobol import normals
from ..kernels.noise import MOST_EXACT
from .cumulants import Estimate
from .layer_table import after_first, layer_table
from .single_input_flow import single_flow
from .wick import checked_covariance, inverse


def third_cumulant_flow(
    activation: str | Activation,
    kernel: Any,
    depth: int,
    *,
    bias_variance: Any = 0.0,
    weight_variance: Any = 1.0,
    widths: Any = None,
) -> xr.Dataset:
    """`single_flow` with U, kappa_3(Ghat^(l)) = U^(l) / n_{l-1}^2 at leading order, from U = 0 in the first layer.

    Ghat' is a mean over neurons that are independent given Ghat, with mean C_b + C_W g, variance S / n_l and third
    cumulant T / n_l^2, T = C_W^3 (<s^6> - 3 <s^2><s^4> + 2 <s^2>^3) (PDLT eq. (4.59)). The law of total cumulance gives

        U' = T + (n_l / n_{l-1}) 3 chi S'(K) V + (n_l / n_{l-1})^2 (chi^3 U + 3 chi^2 C_W g''(K) V^2).

    With `widths` there are also `third_cumulant` and `skewness`, kappa_3 / Var^(3/2).

    >>> flow = third_cumulant_flow("relu", 1.0, 10, weight_variance=2.0)
    >>> flow["third"][[1, 2, 4, 9], 0].values.round(6).tolist()
    [44.0, 238.0, 1076.0, 5796.0]
    """
    s = get(activation)
    flow = single_flow(s, kernel, depth, bias_variance=bias_variance, weight_variance=weight_variance, widths=widths)
    K, V = flow["kernel"].values, flow["vertex"].values
    if s.homogeneity is None and (K <= 0).any():
        raise InvalidInput("kernel = 0: there is nothing to average over")
    table = layer_table(s, kernel, depth, bias_variance, weight_variance)
    C_W = after_first("weight_variance", weight_variance, depth)[:, None]
    n = None if widths is None else after_first("widths", widths, depth)
    grown = np.ones(len(K)) if n is None else np.append(1.0, n[1:] / n[:-1])
    T, spread_slope = _third_source(s, K[:-1])
    chi, curvature = table.susceptibilities.parallel, C_W * table.moments.square_curvature
    third = np.zeros_like(K)
    for i in range(len(K) - 1):
        mixed = 3 * chi[i] * C_W[i] ** 2 * spread_slope[i] * V[i]
        carried = chi[i] ** 3 * third[i] + 3 * chi[i] ** 2 * curvature[i] * V[i] ** 2
        third[i + 1] = C_W[i] ** 3 * T[i] + grown[i] * mixed + grown[i] ** 2 * carried
    flow["third"] = (("layer", "sample"), third)
    if n is not None:
        flow["third_cumulant"] = flow["third"] / np.append(np.inf, n)[:, None] ** 2
        flow["skewness"] = flow["third_cumulant"] / flow["variance"].where(flow["variance"] > 0) ** 1.5
    return flow


def _third_source(s: Activation, K: Float[Floats, "l i"]) -> tuple[Float[Floats, "l i"], Float[Floats, "l i"]]:
    """<s^6> - 3 <s^2><s^4> + 2 <s^2>^3, and the slope in K of <s^4> - <s^2>^2, with d<F>/dK = <z F'> / 2K."""
    q, value, derivative = s.homogeneity, s.derivative(0), s.derivative(1)
    at = np.ones((1, 1)) if q is not None else K  # where it is homogeneous all are powers of K

    def moment(power: int) -> Floats:
        return average(lambda z: value(z) ** power, at, kinks=s.kinks)

    def raised(power: int) -> Floats:
        return average(lambda z: z * value(z) ** power * derivative(z), at, kinks=s.kinks)

    two, four, six = moment(2), moment(4), moment(6)
    third, slope = six - 3 * two * four + 2 * two**3, (2 * raised(3) - 2 * two * raised(1)) / at
    return (third, slope) if q is None else (third * K ** (3 * q), slope * K ** (2.0 * q - 1))


def second_layer_third_cumulant(
    activation: str | Activation,
    first_kernel: Any,
    weight_variance: float,
    width: int,
    *,
    points: int = 2**13,
    replicas: int = 8,
    seed: int = 0,
) -> Estimate[Float[Floats, "q q q"]]:
    """kappa_3(Ghat_ab, Ghat_cd, Ghat_ef) of the second layer over unordered pairs of inputs, exact at any width.

        C_W^3 / n_1^2 (<123456> - <12><3456> - <34><5612> - <56><1234> + 2 <12><34><56>)        PDLT eq. (4.59)

    with 1 for s(z_a) and so on, z ~ N(0, `first_kernel`), in the order of `Pairs.within(inputs)`. Averages of one or
    two inputs are integrated and have no error; those of more are sampled.

    >>> found = second_layer_third_cumulant("linear", [[1.0]], 1.0, 10)
    >>> round(found.value.item(), 12)  # 8 / n^2
    0.08
    """
    s, K, n = get(activation), checked_covariance(first_kernel), check.integer("width", width, least=1)
    scale = check.number("weight_variance", weight_variance, least=0) ** 3 / n**2
    pairs = Pairs.within(len(K))
    if len(K) <= MOST_EXACT:
        value = scale * _integrated_third(s, K, pairs)
        return Estimate(value, np.zeros_like(value))
    points, replicas = check.integer("points", points, least=2), check.integer("replicas", replicas, least=2)
    check.memory("third cumulants", 8 * (replicas + 2) * len(pairs) ** 3, "use fewer inputs")
    seeds = range(check.integer("seed", seed), seed + replicas)
    drawn = scale * np.stack([_sampled_third(s, K, pairs, points, number) for number in seeds])
    return Estimate(*mean_and_error(drawn))


def _integrated_third(s: Activation, K: Floats, pairs: Pairs) -> Float[Floats, "q q q"]:
    """The joint cumulant of s_a s_b, s_c s_d and s_e s_f for at most two inputs."""
    value = s.derivative(0)

    def moment(first: int, second: int) -> float:
        """<s_1^first s_2^second>."""
        ends = K[0, 0], K[0, -1], K[-1, -1]
        f, g = (lambda z: value(z) ** first), (lambda z: value(z) ** second)
        return float(average_product(f, g, *ends, kinks=s.kinks, tolerance=TOLERANCE))

    ones = [(int(a == 0) + int(b == 0)) for a, b in zip(pairs.rows, pairs.columns, strict=True)]
    powers = {(order, one): moment(one, order - one) for order in (2, 4, 6) for one in range(order + 1)}
    found = np.zeros((len(pairs),) * 3)
    for triple in combinations_with_replacement(range(len(pairs)), 3):
        i, j, k = (ones[number] for number in triple)
        mean = [powers[2, one] for one in (i, j, k)]
        mixed = sum(m * powers[4, i + j + k - one] for m, one in zip(mean, (i, j, k), strict=True))
        for places in permutations(triple):
            found[places] = powers[6, i + j + k] - mixed + 2 * mean[0] * mean[1] * mean[2]
    return found


def _sampled_third(s: Activation, K: Floats, pairs: Pairs, points: int, seed: int) -> Float[Floats, "q q q"]:
    """The same from Sobol points."""
    features = evaluate(s.derivative(0), normals(seed, 0, len(K), points).T @ root(K).T)
    products = features[:, pairs.rows] * features[:, pairs.columns]
    centred = products - products.mean(0)
    return np.asarray(np.einsum("ip,iq,ir->pqr", centred, centred, centred, optimize=True) / points)


def chain_log_density(
    activation: str | Activation,
    first_kernel: Any,
    preactivations: Sequence[Any],
    *,
    bias_variance: float = 0.0,
    weight_variance: float = 1.0,
) -> float:
    """log p(z^1, ..., z^L) of the preactivations of all layers, each (neurons, inputs), PDLT eq. (4.123), exact:

        - sum_l sum_i z_i^T Ghat^-1 z_i / 2 + (n_l / 2) log |2 pi Ghat|,    Ghat = C_b + C_W mean s(z) s(z)^T

    with Ghat of the layer below (PDLT eqs. (4.69), (4.70)) and `first_kernel` for the first layer.

    >>> round(chain_log_density("relu", [[1.0]], [[[0.0]]]), 6)
    -0.918939
    """
    s, metric, total = get(activation), checked_covariance(first_kernel), 0.0
    C_b = check.number("bias_variance", bias_variance, least=0)
    C_W = check.number("weight_variance", weight_variance, least=0)
    for number, layer in enumerate(preactivations, start=1):
        z = check.array(f"layer {number}", layer, ndim=2)
        if z.shape[1] != len(metric) or not len(z):
            raise InvalidInput(f"layer {number} has shape {z.shape}; it must be (neurons, {len(metric)})")
        form = float(np.einsum("ia,ab,ib->", z, inverse(metric), z))
        total -= 0.5 * (form + len(z) * float(np.linalg.slogdet(2 * np.pi * metric)[1]))
        features = evaluate(s.derivative(0), z)
        metric = C_b + C_W * features.T @ features / len(z)
    return total


def inverse_expansion(metric: Any, change: Any) -> Float[Floats, "p p"]:
    """(G + D)^-1 to second order in D = `change`: G^-1 - G^-1 D G^-1 + G^-1 D G^-1 D G^-1, PDLT eq. (4.55)."""
    upper, D = inverse(metric), _symmetric("change", change, metric)
    step = upper @ D
    return np.asarray(upper - step @ upper + step @ step @ upper)


def root_determinant_expansion(metric: Any, change: Any, neurons: int) -> float:
    """|G + D|^(m/2) / |G|^(m/2) of m neurons to second order in D, t = G^-1 D, PDLT eq. (4.57):

    1 + (m/2) tr t + (m^2/8) (tr t)^2 - (m/4) tr t^2
    """
    step = inverse(metric) @ _symmetric("change", change, metric)
    m, trace = check.integer("neurons", neurons, least=1), float(np.trace(step))
    return 1 + m / 2 * trace + m**2 / 8 * trace**2 - m / 4 * float(np.trace(step @ step))


def mean_inverse(metric: Any, covariance: Any) -> Float[Floats, "p p"]:
    """E[Ghat^-1] = G^ab + G^a1 G^23 G^4b Cov(Ghat_12, Ghat_34), the average of PDLT eq. (4.55).

    >>> wishart = np.einsum("ac,bd->abcd", np.eye(2), np.eye(2)) + np.einsum("ad,bc->abcd", np.eye(2), np.eye(2))
    >>> mean_inverse(np.eye(2), wishart / 100).round(6).tolist()  # exactly n / (n - 3) = 1.030928
    [[1.03, 0.0], [0.0, 1.03]]
    """
    upper, tensor = inverse(metric), check.array("covariance", covariance, ndim=4)
    return np.asarray(upper + np.einsum("ai,ijkl,jk,lb->ab", upper, tensor, upper, upper, optimize=True))


def mean_root_determinant(metric: Any, covariance: Any, neurons: int) -> float:
    """E[|Ghat|^(m/2)] / |G|^(m/2) of m neurons, the average of PDLT eq. (4.57):

    1 + Cov(Ghat_12, Ghat_34) ((m^2/8) G^12 G^34 - (m/4) G^13 G^24)
    """
    upper, tensor = inverse(metric), check.array("covariance", covariance, ndim=4)
    m = check.integer("neurons", neurons, least=1)
    apart, crossed = (float(np.einsum(f"abcd,{ends}->", tensor, upper, upper)) for ends in ("ab,cd", "ac,bd"))
    return 1 + m**2 / 8 * apart - m / 4 * crossed


def _symmetric(name: str, value: Any, metric: Any) -> Float[Floats, "p p"]:
    D = check.array(name, value, ndim=2)
    if D.shape != np.shape(metric) or not np.allclose(D, D.T, rtol=1e-10, atol=0):
        raise InvalidInput(f"{name} must be symmetric and have the shape of metric, {np.shape(metric)}")
    return D
