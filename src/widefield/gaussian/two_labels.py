"""Averages of many factors at no more than two different samples: exact, from Hermite series, for all pairs at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..activations import Activation
from ..base.arrays import Floats, Integers
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from .averages import average
from .kinked import TOLERANCE
from .nested import Function
from .pair_table import Orders
from .pairs import Profile, products, profile
from .sample_pairs import Pairs

Factors = tuple[int, ...]
"""Orders of derivatives of s, all at one sample."""


@dataclass(frozen=True, eq=False)
class TwoLabels:
    """<prod_{i in f} s^(i)_a prod_{j in g} s^(j)_b> for all samples a, b, each product expanded once at every sample.

    With kinks, no derivative beyond the first: the delta functions of s'' are not in it.
    """

    activation: Activation
    K: Float[Floats, "p p"]
    profiles: dict[Factors, Profile] = field(default_factory=dict)
    known: dict[tuple[Factors, Factors], Floats] = field(default_factory=dict)

    def __call__(self, f: Factors, g: Factors) -> Float[Floats, "p p"]:
        """The matrix over a (rows) and b (columns); its diagonal has a = b."""
        one, two = tuple(sorted(f)), tuple(sorted(g))
        if (one, two) not in self.known:
            self.known[one, two] = self.known[two, one].T if (two, one) in self.known else self._matrix(one, two)
        return self.known[one, two]

    def _matrix(self, f: Factors, g: Factors) -> Floats:
        if self.activation.kinks and max((*f, *g), default=0) > 1:
            raise InvalidInput(f"{self.activation.name!r} has kinks: averages of four functions know s and s' alone")
        left, right, variances = self._function(f), self._function(g), np.diagonal(self.K)
        with double_precision():
            off = jnp.asarray(self.K - np.diag(variances))
            found = np.array(products(left, right, self._profile(f), off, self._profile(g), self.activation.kinks))
        both = self._function((*f, *g))
        own = np.arange(len(variances))
        found[own, own] = average(both, variances, kinks=self.activation.kinks, tolerance=TOLERANCE)
        return found

    def _profile(self, factors: Factors) -> Profile:
        if factors not in self.profiles:
            f = self._function(factors)
            self.profiles[factors] = profile(f, np.diagonal(self.K), self.activation.kinks)
        return self.profiles[factors]

    def _function(self, factors: Factors) -> Function:
        functions = [self.activation.derivative(order) for order in factors]
        return lambda z: math.prod((f(z) for f in functions[1:]), start=functions[0](z)) if functions else 0 * z + 1.0

    def blocks(self, orders: tuple[Orders, Orders], a: Integers, b: Integers) -> Float[Floats, "m 3 3"]:
        """<s^(p) s^(p) s^(q) s^(q)> of the pairs (a, a), (a, b), (b, b) of every two samples, with themselves.

        `orders` are (p, p) for the rows and (q, q) for the columns.
        """
        (p, _), (q, _) = orders
        found = np.empty((len(a), 3, 3))
        for i in range(3):  # how many of the two factors of a pair stand at b
            for j in range(3):
                f, g = (p,) * (2 - i) + (q,) * (2 - j), (p,) * i + (q,) * j
                found[:, i, j] = self(f, g)[a, b]
        return found


def within_two(activation: Activation, K: Float[Floats, "p p"], left: Pairs, right: Pairs, orders: Factors) -> Floats:
    """<s^(i)_a s^(j)_b s^(k)_c s^(l)_d> over pairs (a, b) and (c, d), for one or two samples."""
    averages, last = TwoLabels(activation, K), len(K) - 1
    ends = np.broadcast_arrays(left.rows[:, None], left.columns[:, None], right.rows[None], right.columns[None])
    at_last = np.stack(ends).reshape(4, -1) == last
    found = np.empty(at_last.shape[1])
    for pattern in np.unique(at_last, axis=1).T:
        f, g = (tuple(o for o, there in zip(orders, pattern, strict=True) if there == side) for side in (False, True))
        found[np.all(at_last == pattern[:, None], axis=0)] = averages(f, g)[0, last]
    return found.reshape(len(left), len(right))
