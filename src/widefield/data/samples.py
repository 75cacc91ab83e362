"""The arrays that a data source delivers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.describe import ByValue, put
from ..base.errors import InvalidInput

UNUSUAL = 30.0
"""Sizes of inputs and targets that are off by more than this factor are worth a warning."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Samples(ByValue):
    """Training and test points as read-only float64 arrays, a row per point.

    Points may have positions (time, tokens, sites): then inputs have the shape (P, *positions, D).

    Attributes:
        x: inputs of the P training points, shape (P, D).
        y: their targets, shape (P, C).
        x_test: inputs of the Q test points, shape (Q, D); Q may be 0.
        y_test: their targets, shape (Q, C).
    """

    x: Floats
    y: Floats
    x_test: Floats
    y_test: Floats

    def __init__(
        self, x: ArrayLike, y: ArrayLike, x_test: ArrayLike | None = None, y_test: ArrayLike | None = None
    ) -> None:
        """Check and copy the arrays; targets of shape (P,) become (P, 1)."""
        x, y = _inputs("x", x), column("y", y)
        _same_rows("x", x, "y", y)
        if 0 in (*x.shape, *y.shape):
            raise InvalidInput(
                f"x has shape {x.shape} and y has shape {y.shape}: "
                "at least one training point, one input dimension and one output are needed"
            )
        if (x_test is None) != (y_test is None):
            missing = "x_test" if x_test is None else "y_test"
            raise InvalidInput(f"x_test and y_test go together, but {missing} is missing")
        x_test = np.empty((0, *x.shape[1:])) if x_test is None else _inputs("x_test", x_test)
        y_test = np.empty((0, y.shape[1])) if y_test is None else column("y_test", y_test)
        _same_rows("x_test", x_test, "y_test", y_test)
        _same_columns("x", x, "x_test", x_test)
        _same_columns("y", y, "y_test", y_test)
        put(self, x=x, y=y, x_test=x_test, y_test=y_test)

    def __repr__(self) -> str:
        """Shapes, never the arrays."""
        shapes = {
            name: getattr(self, name).shape for name in ("x", "y", "x_test", "y_test")[: 4 if len(self.x_test) else 2]
        }
        return f"Samples({', '.join(f'{name}: {shape}' for name, shape in shapes.items())})"

    @property
    def samples(self) -> int:
        """Number P of training points."""
        return len(self.x)

    @property
    def test_samples(self) -> int:
        """Number Q of test points."""
        return len(self.x_test)

    @property
    def dimension(self) -> int:
        """Dimension D of the inputs."""
        return int(self.x.shape[-1])

    @property
    def inputs(self) -> tuple[int, ...]:
        """Shape (*positions, D) of one point."""
        return self.x.shape[1:]

    @property
    def reduced_inputs(self) -> tuple[int, ...]:
        """The same in the coordinates of `reduced`."""
        return (*self.inputs[:-1], min(self.dimension, math.prod(self.inputs[:-1]) * len(self.everything)))

    @property
    def outputs(self) -> int:
        """Number C of targets per point."""
        return int(self.y.shape[1])

    @property
    def sizes(self) -> tuple[float, float]:
        """|x|^2 / D and |y| of the training points, mean and root mean square: theories expect about 1 of both."""
        x, y = (max(float(np.abs(part).max(initial=0.0)), np.finfo(np.float64).tiny) for part in (self.x, self.y))
        inputs, targets = (float(np.mean((self.x / x) ** 2)), float(np.mean(np.sum((self.y / y) ** 2, axis=1))))
        with np.errstate(over="ignore"):
            return float(np.float64(x) ** 2 * inputs), y * math.sqrt(targets)

    @property
    def unusual(self) -> bool:
        """Whether `sizes` are far from what theories expect."""
        return not all(1 / UNUSUAL <= size <= UNUSUAL for size in self.sizes)

    @property
    def everything(self) -> Floats:
        """Inputs of the training points, then of the test points, shape (P + Q, D), or with positions."""
        return np.concatenate([self.x, self.x_test])

    def kernel(self, *, everything: bool = False) -> Floats:
        """K^x = x x^T / D over the training points, or over `everything`; the mean over positions if there are any."""
        x = self.everything if everything else self.x
        rows = x.reshape(len(x), -1)
        return np.asarray(rows @ rows.T / rows.shape[1])

    def reduced(self) -> tuple[Floats, Floats]:
        """Return u (P, r) and u_test (Q, r), r = min(P + Q, D), with the inner products of x / sqrt(D).

            [u; u_test] [u; u_test]^T = [x; x_test] [x; x_test]^T / D

        A network with Gaussian first weights and a learning rule that sees inputs only through inner products
        cannot tell u from x / sqrt(D). For D > P + Q, [u; u_test] is the Cholesky factor of the right-hand
        side, lower triangular with a diagonal >= 0, found by a QR factorisation of the inputs, which loses no
        digits and does not need full rank; otherwise it is [x; x_test] / sqrt(D). Positions count as points.
        """
        points = self._factors()[0].reshape(-1, *self.reduced_inputs)
        return points[: self.samples], points[self.samples :]

    def directions(self) -> Floats:
        """Orthonormal rows e (r, D) that `reduced` gives coordinates in: [x; x_test] / sqrt(D) = [u; u_test] e."""
        return self._factors()[1]

    def _factors(self) -> tuple[Floats, Floats]:
        points = self.everything.reshape(-1, self.dimension) / math.sqrt(self.dimension)
        return lq(points) if self.dimension > len(points) else (points, np.eye(self.dimension))


def lq(points: Floats) -> tuple[Floats, Floats]:
    """Factorise points (n, D), n <= D, as L Q: L lower triangular with a diagonal >= 0, Q Q^T = 1."""
    q, r = np.linalg.qr(points.T)
    # without a rule for the signs they would depend on the linear algebra library
    signs = np.where(np.diag(r) < 0, -1.0, 1.0)
    return np.ascontiguousarray(r.T * signs), np.ascontiguousarray((q * signs).T)


def column(name: str, value: ArrayLike) -> Floats:
    """Return targets as an array of two axes; one axis means one output."""
    targets = check.array(name, value)
    return check.array(name, targets[:, None] if targets.ndim == 1 else targets, ndim=2)


def _same_rows(name: str, a: Floats, other: str, b: Floats) -> None:
    if len(a) != len(b):
        raise InvalidInput(f"{name} has shape {a.shape} and {other} has shape {b.shape}: they need as many rows")


def _same_columns(name: str, a: Floats, other: str, b: Floats) -> None:
    if a.shape[1:] != b.shape[1:]:
        raise InvalidInput(f"{name} has shape {a.shape} and {other} has shape {b.shape}: they need as many columns")


def _inputs(name: str, value: ArrayLike) -> Floats:
    found = check.array(name, value)
    return check.array(name, found, ndim=2) if found.ndim < 2 else found
