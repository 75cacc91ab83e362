"""Averages of products over up to four Gaussian variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal, overload

import numpy as np

from ..activations.moments import determinant
from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .averages import ROUNDING, TOLERANCE
from .nested import Function, Nested, evaluate, require
from .roots import pivoted_factor
from .smoothed import Smoothed


@dataclass(frozen=True)
class _Variable:
    """One of the distinct variables: index into K, and the functions of it with their scalings."""

    index: int
    functions: tuple[tuple[Function, float], ...]
    kinks: tuple[float, ...]

    def __call__(self, z: Any) -> Any:
        """Product of all functions of this variable."""
        return math.prod(f(scale * z) for f, scale in self.functions)

    def jumps(self) -> bool:
        """Whether the product is discontinuous at one of its kinks."""
        if not self.kinks:
            return False
        kinks = np.array(self.kinks)
        step = 1e-9 * (1 + np.abs(kinks))
        below, above = evaluate(self, kinks - step), evaluate(self, kinks + step)
        return bool(np.any(np.abs(above - below) > 1e-6))


@overload
def average_four(
    f1: Function,
    f2: Function,
    f3: Function,
    f4: Function,
    K: Any,
    *,
    kinks: Sequence[float] | None = None,
    tolerance: float = TOLERANCE,
    with_error: Literal[False] = False,
) -> float: ...
@overload
def average_four(
    f1: Function,
    f2: Function,
    f3: Function,
    f4: Function,
    K: Any,
    *,
    kinks: Sequence[float] | None = None,
    tolerance: float = TOLERANCE,
    with_error: Literal[True],
) -> tuple[float, float]: ...
def average_four(
    f1: Function,
    f2: Function,
    f3: Function,
    f4: Function,
    K: Any,
    *,
    kinks: Sequence[float] | None = None,
    tolerance: float = TOLERANCE,
    with_error: bool = False,
) -> float | tuple[float, float]:
    """Return <f1(z1) f2(z2) f3(z3) f4(z4)> for the 4 x 4 covariance K, as in PDLT eq. (4.40).

    K may be singular: samples that are equal, opposite or proportional are merged exactly. `kinks` holds for
    all four functions; left out, an `Activation` brings its own and other functions have one at 0.

    Three nested integrals at most: the innermost variable enters through its conditional mean alone and is
    tabulated (`Smoothed`).

    With `with_error`, returns the value and an estimate of its absolute error; without, an estimate above
    `tolerance` times <|f1 f2 f3 f4|> raises `InvalidInput`.
    """
    functions = (f1, f2, f3, f4)
    K = covariance(K)
    constant, variables = _merge(functions, [_kinks_of(f, kinks) for f in functions], K)
    if constant == 0 or not variables:
        value, error, size = constant, 0.0, abs(constant)
    else:
        reduced = _product(variables, K, tolerance)
        value, error, size = constant * reduced[0], abs(constant) * reduced[1], abs(constant) * reduced[2]
    if with_error:
        return value, error
    require(np.array([error]), np.array([size]), tolerance, "average over four variables")
    return value


def covariance(K: Any) -> Floats:
    """Return K as an array if it is a 4 x 4 covariance, else name the entries that cannot be."""
    K = check.array("K", K, ndim=2)
    if K.shape != (4, 4):
        raise InvalidInput(f"K has shape {K.shape}; it must be (4, 4)")
    top = float(np.abs(K).max())
    for i in range(4):
        if K[i, i] < 0:
            raise InvalidInput(f"K[{i}, {i}] = {K[i, i]:g} is negative: no variance")
        for j in range(i):
            if abs(K[i, j] - K[j, i]) > ROUNDING * top:
                raise InvalidInput(f"K is not symmetric: K[{i}, {j}] = {K[i, j]:g}, K[{j}, {i}] = {K[j, i]:g}")
            if abs(K[i, j]) > math.sqrt(K[i, i] * K[j, j]) * (1 + ROUNDING):
                raise InvalidInput(
                    f"no covariance: K[{i}, {j}] = {K[i, j]:.17g} exceeds sqrt(K[{i}, {i}] K[{j}, {j}]) "
                    f"= {math.sqrt(K[i, i] * K[j, j]):.17g}"
                )
    lowest = float(np.linalg.eigvalsh(K)[0])
    if lowest < -ROUNDING * top:
        raise InvalidInput(f"K has the negative eigenvalue {lowest:g}; a covariance has none. K = {K.tolist()}")
    symmetric: Floats = 0.5 * (K + K.T)
    return symmetric


def _kinks_of(f: Function, kinks: Sequence[float] | None) -> tuple[float, ...]:
    return tuple(getattr(f, "kinks", (0.0,)) if kinks is None else kinks)


def _merge(
    functions: Sequence[Function], kinks: Sequence[tuple[float, ...]], K: Floats
) -> tuple[float, list[_Variable]]:
    """Take out variables without variance, and let one stand for all that are proportional to it."""
    constant = 1.0
    variables: list[_Variable] = []
    for i, f in enumerate(functions):
        if K[i, i] == 0:
            constant *= float(evaluate(f, np.zeros(1))[0])
            continue
        for place, old in enumerate(variables):
            j = old.index
            if determinant(K[i, i], K[i, j], K[j, j]) == 0:
                scale = math.copysign(math.sqrt(K[i, i] / K[j, j]), K[i, j])
                both = tuple(sorted({*old.kinks, *(k / scale + 0.0 for k in kinks[i])}))
                variables[place] = _Variable(j, (*old.functions, (f, scale)), both)
                break
        else:
            variables.append(_Variable(i, ((f, 1.0),), kinks[i]))
    return constant, variables


def _product(variables: list[_Variable], K: Floats, tolerance: float) -> tuple[float, float, float]:
    """Average of the product over distinct variables: value, error, average of the absolute value."""
    chosen = [v.index for v in variables]
    order, L = pivoted_factor(K[np.ix_(chosen, chosen)])
    variables = [variables[i] for i in order]
    count = len(variables)
    depth = min(count, L.shape[1])
    width = np.zeros(count)
    factors: list[Function] = list(variables)
    table_error = 0.0
    if depth == count >= 3:
        depth = count - 1
        width[-1] = L[-1, -1]
        spread = float(np.linalg.norm(L[-1, :depth]))
        reach = max(10 * spread * math.sqrt(depth), width[-1])
        table = Smoothed(variables[-1], width[-1], variables[-1].kinks, reach, spread, tolerance)
        factors[-1], table_error = table, table.error

    def integrand(level: int, z: list[Floats]) -> Floats:
        complete = [level] if level + 1 < depth else range(level, count)
        return np.asarray(math.prod(evaluate(factors[c], z[c]) for c in complete))

    kinks = tuple(v.kinks for v in variables)
    problem = Nested(L[None, :, :depth], width[None], kinks, integrand, np.zeros((1, count)))
    value, error, size = problem.average(tolerance=tolerance, levels={1: 45, 2: 9}.get(depth, 3))
    relative = table_error + _rounding(variables, K)
    return float(value[0]), float(error[0] + relative * size[0]), float(size[0])


def _rounding(variables: list[_Variable], K: Floats) -> float:
    """Effect of rounding K on two jumps that nearly coincide: an angle psi is known to about 1e-16 / psi."""
    jumping = [v.index for v in variables if v.jumps()]
    sines = [
        math.sqrt(float(determinant(K[i, i], K[i, j], K[j, j])) / (K[i, i] * K[j, j]))
        for i, j in combinations(jumping, 2)
    ]
    return sum(min(sine, 4e-16 / sine) for sine in sines)
