"""Running couplings: from correlators of a layer to the action of any number of its neurons, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .quartic import NeuronAction
from .wick import checked_covariance, inverse


def raised(covariance: ArrayLike, K: ArrayLike) -> Float[Floats, "p p p p"]:
    """V^(ab)(cd) = K^aa' K^bb' K^cc' K^dd' V_(a'b')(c'd'), PDLT eqs. (4.52), (4.83), (4.120)."""
    upper = inverse(K)
    tensor = check.array("covariance", covariance, ndim=4)
    return np.asarray(np.einsum("abcd,ia,jb,kc,ld->ijkl", tensor, upper, upper, upper, upper, optimize=True))


def quadratic_coupling(K: ArrayLike, shift: ArrayLike, covariance: ArrayLike, neurons: int) -> Float[Floats, "p p"]:
    """g_ab of the action of `neurons` = m neurons, PDLT eqs. (4.108)-(4.109):

        g_ab = K_ab + shift_ab - K^12 (m covariance_(ab)(12) / 2 + covariance_(a1)(b2))

    with shift = G^{1} / n_{l-1} and covariance = V / n_{l-1}. It runs with m, observables do not.
    """
    kernel, upper = checked_covariance(K), inverse(K)
    tensor = check.array("covariance", covariance, ndim=4)
    alone = np.einsum("abij,ij->ab", tensor, upper)
    exchanged = np.einsum("aibj,ij->ab", tensor, upper)
    count = check.integer("neurons", neurons, least=1)
    return np.asarray(kernel + check.array("shift", shift, ndim=2) - 0.5 * count * alone - exchanged)


def inverse_quadratic_coupling(
    K: ArrayLike, shift: ArrayLike, covariance: ArrayLike, neurons: int
) -> Float[Floats, "p p"]:
    """g^ab = K^ab - K^a1 K^b2 (g_12 - K_12), the same to first order with raised indices, PDLT eq. (4.109)."""
    upper = inverse(K)
    change = quadratic_coupling(K, shift, covariance, neurons) - checked_covariance(K)
    return np.asarray(upper - upper @ change @ upper)


def action(K: ArrayLike, shift: ArrayLike, covariance: ArrayLike, neurons: int) -> NeuronAction:
    """The action of some neurons of a layer whose metric has the mean K + shift and this covariance.

    v^(ab)(cd) = V^(ab)(cd) / n_{l-1}, PDLT eqs. (4.50), (4.82).
    """
    g = quadratic_coupling(K, shift, covariance, neurons)
    lowest = float(np.linalg.eigvalsh(g)[0])
    if lowest <= 0:
        raise InvalidInput(
            f"g has the eigenvalue {lowest:g}: the couplings of {neurons} neurons are too strong for first order; "
            "use fewer neurons or a wider layer below"
        )
    return NeuronAction(g, raised(covariance, K), neurons)


@dataclass(frozen=True)
class SingleInputCouplings:
    """S = g_m sum_i z_i^2 / 2 - v (sum_i z_i^2)^2 / 8 of `neurons` = m neurons at one input, PDLT section 4.4.

    `quadratic` is g_m (raised: the inverse of a variance) and `quartic` v.

    >>> some = SingleInputCouplings.from_correlators(metric=1.0, variance=1e-4, neurons=10)
    >>> few = some.marginalised(2)
    >>> abs(some.metric - 1) < 5e-6, abs(few.metric - some.metric) < 5e-6
    (True, True)
    """

    quadratic: float
    quartic: float
    neurons: int

    @classmethod
    def from_correlators(cls, metric: float, variance: float, neurons: int) -> SingleInputCouplings:
        """1/g_m = G - (m+2)/2 Var/G and v = Var/G^4 with Var = V/n_{l-1}, PDLT eqs. (4.102)-(4.103)."""
        G = check.number("metric", metric, above=0.0)
        scatter = check.number("variance", variance, least=0.0)
        m = check.integer("neurons", neurons, least=1)
        bare = G - (m + 2) / 2 * scatter / G
        if bare <= 0:
            raise InvalidInput(
                f"metric = {G:g}, variance = {scatter:g} and neurons = {m}: too strong a coupling for first order"
            )
        return cls(1 / bare, scatter / G**4, m)

    @property
    def metric(self) -> float:
        """G = 1/g_m + (m+2)/2 v/g_m^3, PDLT eq. (4.101)."""
        return 1 / self.quadratic + (self.neurons + 2) / 2 * self.quartic / self.quadratic**3

    @property
    def variance(self) -> float:
        """V / n_{l-1} = v G^4, PDLT eq. (4.103); here with G = 1/g_m, which is the same order."""
        return self.quartic / self.quadratic**4

    def marginalised(self, neurons: int) -> SingleInputCouplings:
        """All but `neurons` = m of the n neurons integrated out: g_m = g_n - (n-m)/2 v/g_n, PDLT eq. (4.100)."""
        m = check.integer("neurons", neurons, least=1, most=self.neurons)
        return SingleInputCouplings(
            self.quadratic - (self.neurons - m) / 2 * self.quartic / self.quadratic, self.quartic, m
        )
