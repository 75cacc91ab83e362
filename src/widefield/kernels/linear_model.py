"""A network in the lazy limit: a linear model with the static kernel of the network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Floats
from ..base.session import Report
from ..base.statistics import mean_and_error
from ..gaussian.roots import root
from ..problem.problem import Problem
from . import dynamics
from .prediction import spectrum
from .static import StaticKernel

Arrays = dict[str, Floats]


class LinearModel:
    """The kernels of a problem over training and then test samples, and what training makes of the outputs."""

    def __init__(self, problem: Problem, steps: NDArray[np.int64], report: Report) -> None:
        samples = problem.samples
        self.problem, self.steps, self.train, self.report = problem, steps, samples.samples, report
        self.kernel = StaticKernel(problem.network, problem.rule)
        self.x = samples.everything
        found = self.kernel(self.x)
        self.ntk = found.ntk
        if self.random:
            self.prior = found.nngp / problem.network.richness**2

    @property
    def random(self) -> bool:
        """Whether networks begin with outputs of order one; in the mean-field scaling they vanish with the width."""
        network = self.problem.network
        return network.parameterisation == "ntk" and not network.centred and network.richness > 0

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

    def from_zero(self) -> Arrays:
        """Outputs and losses of networks that begin with an output of zero."""
        zero = np.zeros((1, self.train, self.problem.samples.outputs))
        outputs = np.einsum("ap,tpc->tac", self.ntk[:, : self.train], self._accumulated(zero)[:, 0])
        return self._split(outputs, self.problem.losses(outputs))

    def ensemble(self) -> Arrays:
        """Mean and deviation over networks whose initial outputs are N(0, nngp), in closed form."""
        arrays = self.from_zero()
        vectors, weights = self._modes()
        response = self.ntk[:, : self.train] @ vectors
        prior, cross = (
            vectors.T @ self.prior[: self.train, : self.train] @ vectors,
            vectors.T @ self.prior[: self.train],
        )
        variance = np.empty((len(weights), len(self.x)))
        for number, s in enumerate(weights):
            moved = response * s
            change = np.sum((moved @ prior) * moved, axis=1) - 2 * np.sum(moved * cross.T, axis=1)
            variance[number] = np.maximum(np.diag(self.prior) + change, 0.0)
        outputs = self.problem.samples.outputs
        deviation = np.repeat(np.sqrt(variance)[:, :, None], outputs, axis=2)
        arrays |= _named(self._split(deviation, {}), "_deviation")
        for part, rows in self._parts().items():
            # E (f - y)^2 = (E f - y)^2 + variance
            weight = self.problem.loss.weight(rows.stop - rows.start)
            arrays[f"{part}loss"] = arrays[f"{part}loss"] + 0.5 * weight * outputs * variance[:, rows].sum(axis=1)
        return arrays

    def drawn(self, draws: int, seed: int) -> Arrays:
        """Mean, its error and deviation from drawn initial outputs."""
        normals = np.random.default_rng(seed).standard_normal((draws // 2, len(self.x), self.problem.samples.outputs))
        initial = np.einsum("ak,dkc->dac", root(self.prior), np.concatenate([normals, -normals]))
        change = np.einsum("ap,tdpc->tdac", self.ntk[:, : self.train], self._accumulated(initial[:, : self.train]))
        outputs = initial[None] + change
        losses = self.problem.losses(outputs)
        arrays = self._split(outputs.mean(axis=1), {name: loss.mean(axis=1) for name, loss in losses.items()})
        arrays |= _named(self._split(outputs.std(axis=1, ddof=1), {}), "_deviation")
        errors = {name: _paired_error(loss) for name, loss in losses.items()}
        return arrays | _named(self._split(_paired_error(outputs), errors), "_error")

    def _parts(self) -> dict[str, slice]:
        parts = {"": slice(0, self.train)}
        if len(self.x) > self.train:
            parts["test_"] = slice(self.train, len(self.x))
        return parts

    def _split(self, outputs: Floats, losses: Arrays) -> Arrays:
        arrays = {f"{part}outputs": outputs[:, rows] for part, rows in self._parts().items()} | losses
        arrays["outputs"] = arrays["outputs"][:, : self.problem.recorded_samples]
        return arrays


def _named(arrays: Arrays, ending: str) -> Arrays:
    return {f"{name}{ending}": value for name, value in arrays.items()}


def _paired_error(values: Floats) -> Floats:
    """Standard error of the mean over draws (axis 1), which come in pairs of opposite sign."""
    pairs = 0.5 * (values[:, : values.shape[1] // 2] + values[:, values.shape[1] // 2 :])
    return mean_and_error(pairs, axis=1)[1]
