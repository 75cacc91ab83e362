"""Where the kernel of an estimator comes from: a network, or a function of the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from ..kernels import StaticKernel
from ..kernels.blocks import BLOCK
from ..problem.network import MLP
from ..problem.rules import GradientDescent, LearningRule

KERNELS = ("nngp", "ntk")


class Pair(NamedTuple):
    """The kernel of the regression, and the covariance before training: one array twice if they are the same."""

    kernel: Floats
    prior: Floats


class Source(Protocol):
    """A kernel and the numbers in it that can be adapted to data."""

    @property
    def network(self) -> MLP | None:
        """Whose kernel it is."""

    @property
    def spans(self) -> list[float]:
        """By which factors, up or down, the variances may be changed."""

    def scaled(self, factors: Sequence[float]) -> Source:
        """With its variances times these factors."""

    def __call__(self, x: Floats, x2: Floats | None = None) -> Pair:
        """Between the rows of x and x2; of the training samples x, if there is no x2."""

    def diagonal(self, x: Floats) -> Floats:
        """Covariance of every row with itself before training."""


@dataclasses.dataclass(frozen=True)
class NetworkKernel:
    """The NNGP kernel or the NTK of a network that learns by a rule."""

    network: MLP
    name: str
    rule: LearningRule = dataclasses.field(default_factory=GradientDescent)

    @property
    def spans(self) -> list[float]:
        """Of all weight variances, and of all bias variances if there are any."""
        return [30.0, 1e4] if any(self.network.bias_scales) else [30.0]

    def scaled(self, factors: Sequence[float]) -> NetworkKernel:
        """Weight variances times the first factor, bias variances times the second."""
        network = self.network
        changed = {"weight_variances": _times(network.weight_variances, factors[0])}
        if len(factors) > 1:
            changed["bias_variances"] = _times(network.bias_variances, factors[1])
        return dataclasses.replace(self, network=dataclasses.replace(network, **changed))

    def __call__(self, x: Floats, x2: Floats | None = None) -> Pair:
        """Bayesian inference needs one kernel, trained networks both."""
        inputs = _padded(x), None if x2 is None else _padded(x2)
        shape = len(x), len(x if x2 is None else x2)
        if self.name == "nngp":
            nngp = np.ascontiguousarray(StaticKernel(self.network, self.rule).nngp(*inputs)[: shape[0], : shape[1]])
            return Pair(nngp, nngp)
        found = StaticKernel(self.network, self.rule)(*inputs)
        nngp, ntk = (np.ascontiguousarray(k[: shape[0], : shape[1]]) for k in (found.nngp, found.ntk))
        return Pair(ntk, nngp)

    def diagonal(self, x: Floats) -> Floats:
        """Of the NNGP kernel."""
        return StaticKernel(self.network, self.rule).diagonal(_padded(x)).nngp[: len(x)]


@dataclasses.dataclass(frozen=True)
class OwnKernel:
    """A function k(X1, X2) -> array (rows of X1, rows of X2), as the covariance of a Gaussian process."""

    function: Callable[[Any, Any], Any]
    network: MLP | None = None

    @property
    def spans(self) -> list[float]:
        """Nothing is known about the variances in it."""
        return []

    def scaled(self, factors: Sequence[float]) -> OwnKernel:
        """There is nothing to scale."""
        return self

    def __call__(self, x: Floats, x2: Floats | None = None) -> Pair:
        """Checked: a matrix of the right shape, and a covariance if it is one of the training samples."""
        found = self._between(x, x if x2 is None else x2)
        if x2 is None:
            _check_covariance(found)
        return Pair(found, found)

    def diagonal(self, x: Floats) -> Floats:
        """Computed in blocks, for a function gives no diagonals."""
        parts = [x[start : start + BLOCK] for start in range(0, len(x), BLOCK)]
        return np.concatenate([np.diag(self._between(part, part)) for part in parts])

    def _between(self, x: Floats, x2: Floats) -> Floats:
        found = check.array("kernel(X1, X2)", self.function(x, x2))
        if found.shape != (len(x), len(x2)):
            raise InvalidInput(
                f"kernel(X1, X2) has shape {found.shape} for X1 of shape {x.shape} and X2 of shape {x2.shape}; "
                f"it must be {(len(x), len(x2))}, one row for each row of X1 and one column for each row of X2"
            )
        return np.ascontiguousarray(found)


def source(network: MLP, kernel: Any, rule: Any = None) -> Source:
    """The source that the parameters of an estimator describe."""
    if rule is not None and not isinstance(rule, LearningRule):
        raise InvalidInput(
            f"rule = {rule!r} is no learning rule: use widefield.FeedbackAlignment() or another, or None"
        )
    if callable(kernel):
        if rule is not None:
            raise InvalidInput(f"rule = {rule.kind!r} is given with a kernel of your own, which knows nothing of it")
        return OwnKernel(kernel)
    if not isinstance(kernel, str):
        raise InvalidInput(f"kernel = {kernel!r} must be 'nngp', 'ntk', or a function k(X1, X2) that returns an array")
    name = check.choice("kernel", kernel, KERNELS)
    return NetworkKernel(network, name) if rule is None else NetworkKernel(network, name, rule)


def _check_covariance(kernel: Floats) -> None:
    size = float(np.abs(kernel).max())
    if not np.allclose(kernel, kernel.T, rtol=1e-8, atol=1e-10 * size):
        worst = float(np.abs(kernel - kernel.T).max())
        raise InvalidInput(
            f"kernel(X, X) is not symmetric: entries differ from their transposes by up to {worst:.3g}; a kernel must "
            "be the same function of (x, x') and (x', x)"
        )
    tolerance = 1e-10 * len(kernel) * size + 1e-300
    try:
        np.linalg.cholesky(kernel + tolerance * np.eye(len(kernel)))
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(kernel)[0])
        raise InvalidInput(
            f"kernel(X, X) is not positive semidefinite: its smallest eigenvalue is {smallest:.3g}; use a kernel that "
            "is a covariance, or a sum or product of such kernels"
        ) from None


def _padded(x: Floats) -> Floats:
    """With rows up to a round number, for every new shape has to be compiled, which takes longer than a small kernel.

    The new rows are random, since samples that coincide need the slow integrals of smooth activations.
    """
    if len(x) >= BLOCK:
        return x
    length = next(length for length in (16, 32, *range(64, BLOCK + 1, 64)) if length >= len(x))
    size = float(np.sqrt(np.mean(x**2)))
    return np.concatenate([x, size * np.random.default_rng(0).normal(size=(length - len(x), x.shape[1]))])


def _times(variances: float | tuple[float, ...], factor: float) -> Any:
    return tuple(v * factor for v in variances) if isinstance(variances, tuple) else variances * factor
