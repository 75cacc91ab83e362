"""Kernels of networks of finite width scatter around their limits: the covariance of all of them at order 1/N."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.renamed import former, renamed
from ..base.statistics import mean_and_error
from ..gaussian.jacobians import feature_jacobian, slope_jacobian
from ..gaussian.sample_pairs import Pairs
from ..problem.network import MLP
from .noise import MOST_EXACT, exact_moments, sampled_moments
from .static import StaticKernel


@dataclass(frozen=True, eq=False)
class SaddlePoint:
    """Kernels of the layers l = 1 .. L at infinite width, at initialisation (BP23 section 3.1, App. D).

        K^l = sigma_{l-1}^2 Phi^{l-1} + beta_{l-1}^2        Phi^l = <phi phi>,  h ~ N(0, K^l)
        G^l = sigma_l^2 G^{l+1} <phi' phi'>                  G^{L+1} = 1

    in `preactivation`, `feature_kernel`, `gradient_kernel` and, for <phi' phi'>, `slopes`; `tangents` are the NTKs of
    the preactivations of the layers 1 .. L + 1, and `weight_variances` sigma_0^2 .. sigma_L^2.
    """

    activation: Activation
    weight_variances: tuple[float, ...]
    preactivation: Float[Floats, "l p p"]
    feature_kernel: Float[Floats, "l p p"]
    slopes: Float[Floats, "l p p"]
    gradient_kernel: Float[Floats, "l p p"]
    tangents: Float[Floats, "l+1 p p"]

    # Nobody but `saddle_point` makes one, so that the constructor need not know old words.
    features = former("SaddlePoint", "features", "feature_kernel")
    gradients = former("SaddlePoint", "gradients", "gradient_kernel")

    @property
    def pregradients(self) -> Float[Floats, "l p p"]:
        """R^l = sigma_l^2 G^{l+1}, the covariance of z^l."""
        above = np.concatenate([self.gradient_kernel[1:], np.ones_like(self.gradient_kernel[:1])])
        return np.asarray(np.asarray(self.weight_variances[1:])[:, None, None] * above)


def saddle_point(
    network: MLP,
    x: Float[Floats, "p d"],
    *,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
) -> SaddlePoint:
    """The kernels of a network for inputs x, with K^0 = x x^T / D in the place of Phi^0; rates as in `StaticKernel`."""
    found = StaticKernel(network, weight_rates=weight_rates, bias_rates=bias_rates).layers(x)
    kernel = x @ x.T / x.shape[1]
    weights, biases = ([scale**2 for scale in scales] for scales in (network.weight_scales, network.bias_scales))
    below = zip(weights, [kernel, *found.feature[:-1]], biases, strict=False)
    covariances = np.stack([w * phi + b for w, phi, b in below])
    kernels = found.feature, found.slope, found.gradient, found.tangents
    return SaddlePoint(network.phi, tuple(weights), covariances, *kernels)


@dataclass(frozen=True, eq=False)
class KernelFluctuations:
    """N times the covariance of the kernels over networks, at leading order in 1/N.

    N is the width of layers of ratio 1. `covariance[i, l, p, j, m, q]` belongs to the pairs p and q in the layers l + 1
    and m + 1 of the feature kernels (i, j = 0) and the gradient kernels (1). `relative_error` is the largest
    one of the variances of a layer (rms over pairs), a standard error from sampled averages; 0 if nothing was sampled.
    """

    pairs: Pairs
    covariance: Float[Floats, "2 l q 2 l q"]
    relative_error: float

    accuracy = former("KernelFluctuations", "accuracy", "relative_error")  # made by `kernel_fluctuations` alone

    @property
    def features(self) -> Float[Floats, "l q l q"]:
        """N Cov(Phi^l_p, Phi^m_q)."""
        return self.covariance[0, :, :, 0]

    @property
    def gradients(self) -> Float[Floats, "l q l q"]:
        """N Cov(G^l_p, G^m_q)."""
        return self.covariance[1, :, :, 1]

    @property
    def mixed(self) -> Float[Floats, "l q l q"]:
        """N Cov(Phi^l_p, G^m_q)."""
        return self.covariance[0, :, :, 1]

    def ntk(
        self, point: SaddlePoint, input_kernel: Float[Floats, "p p"], *, train_biases: bool = False
    ) -> Float[Floats, "q q"]:
        """N Cov(K_p, K_q) of the NTK K = sum_{l=0}^L G^{l+1} (Phi^l + [1 if biases learn]) (BP23 eq. (4))."""
        return combined(self.covariance, ntk_weights(self.pairs, point, input_kernel, train_biases=train_biases))


def ntk_weights(
    pairs: Pairs, point: SaddlePoint, input_kernel: Float[Floats, "p p"], *, train_biases: bool
) -> Float[Floats, "2 l q"]:
    """dK_p / dPhi^l_p = G^{l+1}_p and dK_p / dG^l_p = Phi^{l-1}_p + [biases learn]."""
    above = np.concatenate([point.gradient_kernel[1:], np.ones_like(point.gradient_kernel[:1])])
    below = np.concatenate([input_kernel[None], point.feature_kernel[:-1]])
    return np.stack([pairs.of(above), pairs.of(below) + (1.0 if train_biases else 0.0)])


def combined(covariance: Float[Floats, "2 l q 2 l q"], weights: Float[Floats, "2 l q"]) -> Float[Floats, "q q"]:
    """Covariance of sum_{i, l} weights[i, l, p] kernel[i, l, p]."""
    return np.asarray(np.einsum("ilp,ilpjmq,jmq->pq", weights, covariance, weights, optimize=True))


@renamed(ratios="width_ratios", first_seed="seed")
def kernel_fluctuations(
    point: SaddlePoint,
    width_ratios: tuple[float, ...],
    pairs: Pairs | None = None,
    *,
    points: int = 2**14,
    replicas: int = 4,
    seed: int = 0,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> KernelFluctuations:
    """Joint covariance of all Phi^l and G^l of random networks, at order 1/N.

    The order parameters q have the density exp(N S[q]), so N Cov(q) is the inverse of minus the Hessian of S at the
    saddle point (BP22 App. P.7, BP23 App. H). Its blocks are those of a linear recursion driven by independent noise of
    every layer, and inverting it is solving

        dPhi^l = J^l dK^l + eps^l,                                dK^{l+1} = sigma_l^2 dPhi^l
        dG^l   = sigma_l^2 (<phi' phi'> dG^{l+1} + G^{l+1} J'^l dK^l) + zeta^l,      dG^{L+1} = 0

    with J = d<phi phi>/dK, J' = d<phi' phi'>/dK and N_l Cov(eps, zeta) the covariance of (phi phi, g g) of one neuron.
    That the same matrix is used forwards and, transposed, backwards does not matter at this order: it adds a multiple
    of phi to z, of relative size N^(-1/2), which <phi' phi' phi z> = 0 takes out of G. The forward part is the
    recursion of the four-point vertex, PDLT eq. (4.119), between layers too.

    With one or two samples everything is integrated, to about 1e-9; with more, J and J' still are, but averages of four
    functions are sampled, to 1e-3 or so (`relative_error` says).

    >>> point = saddle_point(MLP(3, "linear"), np.ones((1, 1)))
    >>> kernel_fluctuations(point, (1.0, 1.0, 1.0)).features[:, 0, :, 0].round(9)
    array([[2., 2., 2.],
           [2., 4., 4.],
           [2., 4., 6.]])

    Args:
        point: the kernels at infinite width.
        width_ratios: N_l / N of the layers.
        pairs: pairs of samples to follow; None is all of them.
        points: Sobol points for averages of four functions, in each of
        replicas: independent sets, whose scatter gives `relative_error`.
        seed: of the replicas seed, seed + 1, ...
        report: called with the layers done and the layers in all.
    """
    layers, samples = point.preactivation.shape[:2]
    pairs = Pairs.within(samples) if pairs is None else pairs
    if len(width_ratios) != layers:
        raise InvalidInput(f"width_ratios has {len(width_ratios)} entries; the network has {layers} hidden layers")
    if not np.all(np.isfinite(point.slopes)):
        raise InvalidInput(
            f"activation {point.activation.name!r} has an infinite <phi'^2>: its gradients have no limit"
        )
    size = len(pairs)
    needed = 8 * 4 * size**2 * (3 * layers**2 + replicas * layers)
    check.memory("covariance of the kernels", needed, "use fewer samples or layers")
    onwards, bending = [], []
    for layer, K in enumerate(point.preactivation):
        onwards.append(feature_jacobian(point.activation, K, pairs))
        bending.append(slope_jacobian(point.activation, K, pairs))
        report(layer + 1, layers)
    responses = _responses(point, pairs, onwards, bending)
    noises = _noises(point, pairs, points, replicas, seed)
    total = np.zeros((2 * layers * size, 2 * layers * size))
    spread = np.zeros((len(noises[0]), 2 * layers * size))
    for layer, response in enumerate(responses):
        total += response @ (np.mean(noises[layer], axis=0) / width_ratios[layer]) @ response.T
        for replica, noise in enumerate(noises[layer]):
            spread[replica] += np.einsum("ab,ab->a", response @ (noise / width_ratios[layer]), response)
    covariance = (0.5 * (total + total.T)).reshape(2, layers, size, 2, layers, size)
    return KernelFluctuations(pairs, covariance, _relative_error(spread.reshape(-1, 2 * layers, size)))


def _noises(
    point: SaddlePoint, pairs: Pairs, points: int, replicas: int, seed: int
) -> list[list[Float[Floats, "{2*len(pairs)} {2*len(pairs)}"]]]:
    """Covariance of (eps, zeta) of a neuron of every layer: one if it is exact, else one of every replica."""
    K, R = point.preactivation, point.pregradients
    if K.shape[1] <= MOST_EXACT:
        moments = exact_moments(point.activation, K, pairs)
        return [[moment.noise(r, pairs)] for moment, r in zip(moments, R, strict=True)]
    check.memory("points of averages", 3 * 8 * points * K.shape[1], "reduce points")
    seeds = range(seed, seed + replicas)
    return [
        [sampled_moments(point.activation, k, pairs, number, layer, points).noise(r, pairs) for number in seeds]
        for layer, (k, r) in enumerate(zip(K, R, strict=True))
    ]


def _responses(
    point: SaddlePoint, pairs: Pairs, onwards: list[Float[Floats, "q q"]], bending: list[Float[Floats, "q q"]]
) -> list[Float[Floats, "{2*len(onwards)}*q 2*q"]]:
    """What (eps^k, zeta^k) of every layer k do to all (Phi^l, G^l): the recursions above, driven in one layer.

    `onwards` are the J of every layer and `bending` the J'.
    """
    layers, size = len(point.preactivation), len(pairs)
    variances = point.weight_variances
    slopes, pregradients = pairs.of(point.slopes), pairs.of(point.pregradients)
    unit, nothing = np.eye(size), np.zeros((size, size))
    responses = []
    for source in range(layers):
        features = np.zeros((layers, size, 2 * size))
        gradients = np.zeros((layers, size, 2 * size))
        features[source] = np.concatenate([unit, nothing], axis=1)
        gradients[source] = np.concatenate([nothing, unit], axis=1)
        for layer in range(source + 1, layers):
            features[layer] = variances[layer] * onwards[layer] @ features[layer - 1]
        for layer in reversed(range(layers)):
            if layer > source:
                covariance = variances[layer] * features[layer - 1]
                gradients[layer] += pregradients[layer][:, None] * (bending[layer] @ covariance)
            if layer + 1 < layers:
                gradients[layer] += variances[layer + 1] * slopes[layer][:, None] * gradients[layer + 1]
        responses.append(np.concatenate([features, gradients]).reshape(2 * layers * size, 2 * size))
    return responses


def _relative_error(variances: Float[Floats, "r l q"]) -> float:
    """Largest over layers of the rms standard error of the mean over replicas, relative to the rms of the variances."""
    mean, error = mean_and_error(variances, alone=0.0)
    sizes = np.sum(mean**2, axis=-1)
    return float(np.sqrt(np.max(np.sum(error**2, axis=-1) / np.where(sizes > 0, sizes, 1.0))))
