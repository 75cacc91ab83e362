"""Ensembles of trained networks of finite width: mean and covariance of their outputs to order 1/n."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..base.session import counting_bar
from ..base.statistics import mean_and_error
from ..data.samples import column
from ..kernels.fluctuations import saddle_point
from ..problem.network import MLP, per_weight_layer, widths_of
from .flow_of_differentials import climbed_differentials
from .tangent_flow import State, kernels_of
from .trained_terms import Tensors, Trained
from .training_paths import Descent

MEAN_PARTS = ("ntk", "ntk_scatter", "dntk", "first_ddntk", "second_ddntk")
COVARIANCE_PARTS = ("output", "ntk_scatter", "mean_response", "output_ntk", "output_dntk")


@dataclass(frozen=True, eq=False)
class TrainedEnsemble:
    """Outputs z of networks of one width at all samples, the training samples first, then the others.

    E[z] = `infinite_mean` + sum of `mean_parts`, Cov[z] = `infinite_covariance` + sum of `covariance_parts`, with
    errors O(1/n^2); parts have their factor 1/n. Those of the mean (PDLT eqs. (inf.155)-(inf.160)) come from

        ntk            the order 1/n of the mean NTK        ntk_scatter      its fluctuations over networks
        dntk, first_ddntk, second_ddntk                     its learning

    and those of the covariance from

        output         the order 1/n of first outputs       ntk_scatter      the NTKs of two networks
        mean_response  first outputs, on which the order 1/n of the mean depends
        output_ntk     first outputs with the NTK           output_dntk      first outputs with the dNTK
    """

    infinite_mean: Float[Floats, "d k"]
    infinite_covariance: Float[Floats, "d d"]
    """Of every output; different outputs are independent."""

    mean_parts: dict[str, Float[Floats, "d k"]]
    covariance_parts: dict[str, Float[Floats, "d k d k"]]
    mean_error: Float[Floats, "d k"]
    """Standard error of the mean from sampled averages of four activations; 0 for one or two samples."""

    covariance_error: Float[Floats, "d k d k"]
    """The same of the covariance."""

    trained: int
    """Number of training samples."""

    width: int
    """Of the last hidden layer."""

    @property
    def mean_shift(self) -> Float[Floats, "d k"]:
        """What finite width adds to the mean."""
        return np.asarray(sum(self.mean_parts.values()))

    @property
    def covariance_shift(self) -> Float[Floats, "d k d k"]:
        """What finite width adds to the covariance: between different outputs too."""
        return np.asarray(sum(self.covariance_parts.values()))

    @property
    def mean(self) -> Float[Floats, "d k"]:
        """E[z]."""
        return np.asarray(self.infinite_mean + self.mean_shift)

    @property
    def covariance(self) -> Float[Floats, "d k d k"]:
        """Cov[z_ix, z_ky] over x, i, y, k."""
        one = np.eye(self.infinite_mean.shape[1])
        return np.asarray(self.infinite_covariance[:, None, :, None] * one[None, :, None, :] + self.covariance_shift)

    @property
    def variance(self) -> Float[Floats, "d k"]:
        """Of every output; an error where the expansion makes it negative."""
        found = np.einsum("xixi->xi", self.covariance)
        size = float(np.abs(self.infinite_covariance).max() + np.abs(self.covariance_shift).max())
        if found.min() < -1e-9 * size:
            raise InvalidInput(
                f"the order 1/n makes a variance {found.min():.3g}: width = {self.width} is too small for these targets"
            )
        return np.asarray(np.maximum(found, 0.0))

    @property
    def expansion(self) -> float:
        """Largest part of order 1/n relative to infinite width: it should be well below 1."""
        size = float(np.abs(self.infinite_mean).max() + np.sqrt(np.abs(np.diagonal(self.infinite_covariance)).max()))
        mean = max(float(np.abs(part).max()) for part in self.mean_parts.values())
        second = max(float(np.abs(part).max()) for part in self.covariance_parts.values())
        return max(mean / size, second / size**2) if size else 0.0


def trained_ensemble(
    network: MLP,
    x: ArrayLike,
    y: ArrayLike,
    x_test: ArrayLike | None = None,
    *,
    widths: int | Sequence[int],
    time: float = math.inf,
    learning_rate: float | None = None,
    weight_rates: float | tuple[float, ...] = 1.0,
    bias_rates: float | tuple[float, ...] | None = None,
    progress: bool | None = None,
    **sampling: Any,
) -> TrainedEnsemble:
    """Train networks z = last preactivation with the loss sum (z - y)^2 / 2 by descent on all samples.

    Learning rates are eta lambda_b for biases and eta lambda_W / fan-in for weights; networks start at random, and
    nothing is subtracted from their outputs. `richness`, `parameterisation` and `centred` of the network do not count:
    z is what it is before any scale.

    Args:
        network: smooth activation, depth and variances.
        x: training inputs, (samples, dimension).
        y: targets, (samples,) or (samples, outputs).
        x_test: other inputs.
        widths: n_1 .. n_L, or one number for all.
        time: of training, eta times the number of steps; inf is the end.
        learning_rate: eta; None is gradient flow. It must be below 2 / (largest eigenvalue of the NTK).
        weight_rates, bias_rates: lambda_W and lambda_b as in `ntk_flow`.
        progress: as in `ntk_flow`.
        **sampling: `points`, `replicas`, `seed` of `ntk_flow`.
    """
    inputs, tests = check.inputs(x, x_test)
    targets = targets_of(y, len(inputs))
    everything = inputs if tests is None else np.concatenate([inputs, tests])
    rates = {"weight_rates": weight_rates, "bias_rates": bias_rates}
    initial = Initial.of(network, everything, widths, progress=progress, **rates, **sampling)  # type: ignore[arg-type]
    return initial.trained(targets, time=time, learning_rate=learning_rate)


@dataclass(frozen=True, eq=False)
class Initial:
    """Tensors of the outputs before training, times the last width, and for every replica: for many times and rates."""

    tensors: tuple[Tensors, ...]
    width: int

    @classmethod
    def of(
        cls,
        network: MLP,
        x: Float[Floats, "d i"],
        widths: int | Sequence[int],
        *,
        weight_rates: float | tuple[float, ...] = 1.0,
        bias_rates: float | tuple[float, ...] | None = None,
        points: int | None = None,
        replicas: int = 4,
        seed: int = 0,
        progress: bool | None = None,
    ) -> Initial:
        """Of networks at all inputs (see `trained_ensemble`)."""
        refuse_kinks(network)
        sizes, layers = widths_of(network, widths), network.hidden_layers + 1
        replicas = check.integer("replicas", replicas, least=2)
        check.memory("correlators of the outputs", 8 * len(x) ** 4 * 60 * replicas, "use fewer samples")
        point = saddle_point(network, x, weight_rates=weight_rates, bias_rates=bias_rates)
        rates = per_weight_layer("weight_rates", weight_rates, network.hidden_layers, least=0.0)
        with counting_bar("differentials", "layers", progress) as report:
            climb = climbed_differentials(network, point, sizes, rates, points, replicas, seed)
            state, now = next(climb)
            for done in range(1, layers):
                state, now = next(climb)
                report(done, layers - 1)
        kernels = kernels_of(network, point)
        return cls(tuple(_tensors(state, now, kernels, sizes[-1], len(x))), sizes[-1])

    def centred(self) -> Initial:
        """Of networks from whose outputs the first ones are subtracted: nothing correlates with these any more."""
        zero = np.zeros_like(self.tensors[0].K)
        gone = {name: np.zeros_like(self.tensors[0].fours[name]) for name in "DFPQ"}
        return Initial(tuple(Tensors(zero, t.H, zero, t.H1, t.fours | gone) for t in self.tensors), self.width)

    def trained(
        self, y: Float[Floats, "p k"], *, time: float = math.inf, learning_rate: float | None = None
    ) -> TrainedEnsemble:
        """With the first samples trained on these targets."""
        count, H = len(y), self.tensors[0].H
        values, vectors = np.linalg.eigh(H[:count, :count])
        rate = 0.0 if learning_rate is None else learning_rate
        descent = Descent.of(values, rate, _moments(time, learning_rate))
        basis = np.eye(len(H))
        basis[:count, :count] = vectors
        parts = [_parts(tensors, basis, descent, vectors.T @ y, self.width) for tensors in self.tensors]
        (mean, mean_error), (covariance, covariance_error) = (_over_replicas(each) for each in zip(*parts, strict=True))
        found = Trained(rotated(self.tensors[0], basis), descent, vectors.T @ y)
        left = basis @ found.left @ basis.T
        return TrainedEnsemble(
            basis @ found.learned @ found.targets,
            left @ self.tensors[0].K @ left.T,
            mean,
            covariance,
            mean_error,
            covariance_error,
            count,
            self.width,
        )


def _tensors(
    state: State, now: dict[str, Floats], kernels: dict[str, Floats], width: int, samples: int
) -> Iterator[Tensors]:
    found = state.summary()
    G1, H1 = (width * state.pairs.matrix(found[name]) for name in ("shift", "tangent_shift"))
    whole = {name: state.pairs.tensor(state.whole[name]) for name in "DA"} | {name: state.whole[name] for name in "FB"}
    fours = {name: width * values for name, values in (whole | now).items()}
    shape = (samples,) * 4
    for replica in range(max(len(values) for values in fours.values())):
        own = {name: np.broadcast_to(values[replica % len(values)], shape) for name, values in fours.items()}
        yield Tensors(kernels["kernels"][-1], kernels["tangents"][-1], G1, H1, own)


Parts = tuple[dict[str, Floats], dict[str, Floats]]


def _parts(tensors: Tensors, basis: Floats, descent: Descent, targets: Floats, width: int) -> Parts:
    """Of the mean and of the covariance."""
    found = Trained(rotated(tensors, basis), descent, targets)
    forms = found.forms()
    mean = {name: basis @ part / width for name, part in found.mean(forms).items()}
    covariance = {
        name: np.einsum("xa,aibk,yb->xiyk", basis, part, basis, optimize=True) / width
        for name, part in found.covariance(forms).items()
    }
    return mean, covariance


def _over_replicas(found: tuple[dict[str, Floats], ...]) -> tuple[dict[str, Floats], Floats]:
    """Means of the parts, and the standard error of their sum."""
    means = {name: np.mean([each[name] for each in found], axis=0) for name in found[0]}
    return means, mean_and_error(np.stack([sum(each.values()) for each in found]), alone=0.0)[1]


def rotated(tensors: Tensors, basis: Float[Floats, "d d"]) -> Tensors:
    """In another basis of samples."""

    def matrix(values: Floats) -> Floats:
        return np.asarray(basis.T @ values @ basis)

    def four(values: Floats) -> Floats:
        for _ in range(4):  # one axis after another
            values = np.tensordot(values, basis, axes=([0], [0]))
        return values

    K, H, G1, H1 = (matrix(part) for part in (tensors.K, tensors.H, tensors.G1, tensors.H1))
    return Tensors(K, H, G1, H1, {name: four(part) for name, part in tensors.fours.items()})


def refuse_kinks(network: MLP) -> None:
    """Raise `InvalidInput` if second derivatives of the activation are infinite somewhere."""
    if network.phi.kinks:
        raise InvalidInput(
            f"activation = {network.activation!r} has kinks or jumps: trained networks of finite width differ from "
            "infinite ones by more than 1/n. Use a smooth activation, such as 'gelu', or the theory `FiniteWidth`"
        )


def _moments(time: float, learning_rate: float | None) -> float | None:
    """Steps, or time of the flow; None is the end."""
    if not time >= 0:
        raise InvalidInput(f"time = {time!r} must be at least 0 (inf: the end of training)")
    if math.isinf(time):
        return None
    if learning_rate is None:
        return time
    steps = round(time / learning_rate)
    if abs(steps * learning_rate - time) > 1e-6 * max(learning_rate, time):
        raise InvalidInput(f"time = {time:g} is not a whole number of steps of learning_rate = {learning_rate:g}")
    return steps


def targets_of(y: ArrayLike, samples: int) -> Float[Floats, "p k"]:
    """Over samples and outputs."""
    targets = np.asarray(column("y", check.array("y", y)))
    if targets.ndim != 2 or len(targets) != samples:
        raise InvalidInput(f"y has shape {targets.shape}; it must have a row for each of {samples} training inputs")
    return targets
