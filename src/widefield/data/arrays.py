"""Data that the user brings: arrays, or only the Gram matrix of the inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.describe import ByValue, put
from ..base.errors import InvalidInput
from ..gaussian.roots import symmetric_root
from .classes import class_names, encoded
from .frames import columns_of, labels, numbers
from .samples import Samples, column
from .source import DataSource

_ROUNDING = 1e-12
"""Rounding error allowed in a Gram matrix, relative to its largest entry (asymmetry) or eigenvalue (sign)."""


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Data(ByValue, DataSource, kind="arrays"):
    """The user's own arrays (lists, numpy or jax arrays, pandas frames and series), copied.

    Inputs are used as they are: nothing is centred or scaled. The theories see them through
    K^x = x x^T / D, so inputs with |x|^2 of the order of D are the natural scale: see `standardised`.

    Targets that are words are classes: two become y = -1 and +1, in alphabetical order; more become one output each,
    y_c = 1 for the class of the sample and 0 for the others. Numbers that are names of classes: `y.astype(str)`.

    Args:
        x: training inputs, shape (P, D).
        y: training targets, shape (P, C), or (P,) for one output.
        x_test: test inputs, shape (Q, D).
        y_test: test targets, shape (Q, C) or (Q,).
        columns: names of the D inputs, if they have any; those of the frame if x is one.
        classes: names of the classes that targets stand for: two with one output, else one for each output; of targets
            that are words, those words in another order than that of the alphabet.

    >>> Data(x=[[1.0, 2.0], [3.0, 4.0]], y=[1.0, -1.0]).load().kernel()
    array([[ 2.5,  5.5],
           [ 5.5, 12.5]])
    """

    x: Floats
    y: Floats
    x_test: Floats | None = None
    y_test: Floats | None = None
    columns: tuple[str, ...] | None = field(default=None, repr=False)
    classes: tuple[str, ...] | None = field(default=None, repr=False)

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        x_test: ArrayLike | None = None,
        y_test: ArrayLike | None = None,
        *,
        columns: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        """Check and copy the arrays."""
        named = columns_of(x)
        if named is not None and columns_of(x_test) not in (None, named):
            raise InvalidInput(
                f"x and x_test have other columns: {check.shown(named)}, {check.shown(columns_of(x_test))}"
            )
        y, y_test, classes = _targets(y, y_test, classes)
        checked = Samples(numbers("x", x), y, None if x_test is None else numbers("x_test", x_test), y_test)
        put(self, columns=_words("columns", named if columns is None else columns, checked.dimension))
        put(self, classes=_words("classes", classes, max(2, checked.outputs)))
        put(self, x=checked.x, y=checked.y, x_test=None, y_test=None)
        if checked.test_samples:
            put(self, x_test=checked.x_test, y_test=checked.y_test)

    def load(self) -> Samples:
        """Return the arrays."""
        return Samples(self.x, self.y, self.x_test, self.y_test)

    def __repr__(self) -> str:
        """Shapes, never the arrays."""
        shapes = {name: getattr(self, name) for name in ("x", "y", "x_test", "y_test")}
        return f"Data({', '.join(f'{name}: {a.shape}' for name, a in shapes.items() if a is not None)})"


@dataclass(frozen=True, eq=False, init=False)
class Gram(ByValue, DataSource, kind="gram"):
    """Inputs known only by their Gram matrix K = x x^T / D.

    `load` takes D = n, the number of points, and the symmetric square root of K = V diag(k) V^T,

        x = sqrt(n) V diag(sqrt(k)) V^T,      so that x x^T / n = K.

    K may be singular; negative eigenvalues within rounding error count as zero.

    Args:
        kernel: K, shape (n, n), training points first.
        y: training targets, shape (P, C), or (P,) for one output.
        y_test: targets of the other n - P points, if there are any.
    """

    kernel: Floats
    y: Floats
    y_test: Floats | None = None

    def __init__(self, kernel: ArrayLike, y: ArrayLike, y_test: ArrayLike | None = None) -> None:
        """Check that the kernel is a Gram matrix of as many points as there are targets."""
        gram = check.array("kernel", kernel, ndim=2)
        train = column("y", y)
        test = None if y_test is None else column("y_test", y_test)
        points = len(train) + (0 if test is None else len(test))
        if gram.shape != (points, points):
            given = f"y has shape {train.shape}" + ("" if test is None else f" and y_test has shape {test.shape}")
            raise InvalidInput(f"kernel has shape {gram.shape} but {given}: it must be {(points, points)}")
        _check_gram(gram)
        # any inputs of the right shape do for the checks of the targets
        Samples(gram[: len(train)], train, None if test is None else gram[len(train) :], test)
        put(self, kernel=gram, y=train, y_test=test if test is not None and len(test) else None)

    def load(self) -> Samples:
        """Return inputs that have this Gram matrix."""
        x = math.sqrt(len(self.kernel)) * symmetric_root(self.kernel)
        train = len(self.y)
        return Samples(x[:train], self.y, None if self.y_test is None else x[train:], self.y_test)


def own(given: Any) -> DataSource:
    """A data source as it is, or arrays (X, y) or (X, y, X_test, y_test) as one."""
    if isinstance(given, DataSource):
        return given
    if isinstance(given, list | tuple) and len(given) in (2, 4):
        return Data(*given)
    held = f"{len(given)} parts, {check.shown(given)}" if isinstance(given, list | tuple) else check.shown(given)
    raise InvalidInput(
        f"data = {held} must be arrays (X, y) or (X, y, X_test, y_test), or a data source such as "
        "widefield.data.file('mine.csv', target='y')"
    )


def _targets(y: Any, y_test: Any, classes: Sequence[str] | None) -> tuple[Any, Any, Sequence[str] | None]:
    """Targets as numbers, and the names of their classes if they are words."""
    words = labels("y", y)
    if words is None:
        return numbers("y", y), None if y_test is None else numbers("y_test", y_test), classes
    names = class_names(words.tolist()) if classes is None else _words("classes", classes, len(set(words.tolist())))
    assert names is not None
    tested = None if y_test is None else np.asarray(y_test).reshape(-1).astype(str)
    return (
        encoded(words, names, "targets y"),
        None if tested is None else encoded(tested, names, "targets y_test"),
        names,
    )


def _words(name: str, value: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    if value is None:
        return None
    words = (value,) if isinstance(value, str) else tuple(value)
    if len(words) != count or not all(isinstance(word, str) for word in words):
        raise InvalidInput(f"{name} = {check.shown(value)} must be {count} names")
    return words


def _check_gram(kernel: Floats) -> None:
    asymmetry = np.max(np.abs(kernel - kernel.T), initial=0.0)
    if asymmetry > _ROUNDING * np.max(np.abs(kernel), initial=0.0):
        raise InvalidInput(f"kernel is not symmetric: it differs from its transpose by up to {asymmetry:.3g}")
    values = np.linalg.eigvalsh(kernel) if kernel.size else np.zeros(1)
    if values[0] < -_ROUNDING * np.max(np.abs(values)):
        raise InvalidInput(
            f"kernel is not positive semi-definite: its lowest eigenvalue is {values[0]:.6g} "
            f"and its highest {values[-1]:.6g}, so it is not the Gram matrix of any inputs"
        )
