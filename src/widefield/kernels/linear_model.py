"""A network in the lazy limit: a linear model with the static kernel of the network."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ..base.arrays import Floats
from ..base.session import Report
from ..gaussian.roots import root
from ..problem.problem import Problem
from . import dynamics
from .prediction import spectrum
from .static import StaticKernel


class LinearModel:
    """The kernels of a problem over training and then test samples, and what training makes of the outputs."""

    def __init__(self, problem: Problem, steps: NDArray[np.int64], report: Report) -> None:
        samples = problem.samples
        self.problem, self.steps, self.train, self.report = problem, steps, samples.samples, report
        self.kernel = StaticKernel.of(problem)
        self.x = samples.everything
        found = self.kernel(self.x)
        self.ntk = found.ntk
        self.prior = found.nngp / problem.network.richness**2 if problem.network.starts_at_random else None

    def _accumulated(self, initial: Floats) -> Floats:
        """V for initial outputs (draws, P, C) of the training samples; (times, draws, P, C)."""
        if not dynamics.solvable(self.problem):
            kernel = self.ntk[: self.train, : self.train]
            return dynamics.accumulated(kernel, initial, self.problem, self.steps, self.report)
        vectors, weights = self._modes()
        errors = np.einsum("pk,dpc->dkc", vectors, self.problem.samples.y[None] - initial)
        with np.errstate(over="ignore", invalid="ignore"):  # rates beyond the limit of stability
            return np.asarray(np.einsum("pk,tk,dkc->tdpc", vectors, weights, errors, optimize=True))

    def _modes(self) -> tuple[Floats, Floats]:
        values, vectors = spectrum(self.ntk[: self.train, : self.train])
        return vectors, dynamics.mode_weights(values, self.problem, self.steps)

    def from_zero(self) -> Float[Floats, "t all c"]:
        """Outputs of networks that begin with an output of zero, or means over networks whose first outputs scatter."""
        zero = np.zeros((1, self.train, self.problem.samples.outputs))
        return np.asarray(np.einsum("ap,tpc->tac", self.ntk[:, : self.train], self._accumulated(zero)[:, 0]))

    def variance(self) -> Float[Floats, "t all"]:
        """Of an output over networks whose first outputs are N(0, nngp), in closed form (PDLT eq. (10.41))."""
        assert self.prior is not None
        vectors, weights = self._modes()
        response = self.ntk[:, : self.train] @ vectors
        prior, cross = (
            vectors.T @ self.prior[: self.train, : self.train] @ vectors,
            vectors.T @ self.prior[: self.train],
        )
        found = np.empty((len(weights), len(self.x)))
        for number, s in enumerate(weights):
            moved = response * s
            change = np.sum((moved @ prior) * moved, axis=1) - 2 * np.sum(moved * cross.T, axis=1)
            found[number] = np.maximum(np.diag(self.prior) + change, 0.0)
        return found

    def drawn(self, draws: int, seed: int) -> Float[Floats, "t draws all c"]:
        """Outputs from drawn first ones, in pairs of opposite sign: the second half of the draws against the first."""
        assert self.prior is not None
        normals = np.random.default_rng(seed).standard_normal((draws // 2, len(self.x), self.problem.samples.outputs))
        initial = np.einsum("ak,dkc->dac", root(self.prior), np.concatenate([normals, -normals]))
        change = np.einsum("ap,tdpc->tdac", self.ntk[:, : self.train], self._accumulated(initial[:, : self.train]))
        return np.asarray(initial[None] + change)
