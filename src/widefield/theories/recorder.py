"""What a solver found, cut and named as the record of a problem asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Arrays, Floats
from ..problem.problem import Problem
from ..trajectory import responses, two_time
from .recording import Variables


class Recorder:
    """Cuts and names what a solver found: the one place that knows what is recorded of which samples.

    Arrays may have any leading axes. `rows` are the numbers of the samples (training, then test) that kernels have
    rows of; the first `recorded` of them are the columns.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.parts, self.rows = problem, problem.parts, problem.kernel_rows
        self.recorded = problem.recorded_samples

    def check_memory(self, replicas: int) -> None:
        """Refuse records of so many replicas that would not fit into memory, before the first is computed."""
        samples, record = self.problem.samples, self.problem.record
        numbers, signals = (samples.samples + samples.test_samples) * samples.outputs + 2, samples.outputs**2
        if record.kernels:
            pairs = len(self.rows) * self.recorded
            numbers += pairs * (self.problem.network.hidden_layers * (1 + 3 * signals) + signals)
        needed = 8 * numbers * len(record.at(self.problem.optimiser.steps)) * replicas
        check.memory("records", needed, "reduce replicas, or record less often (record.every) or fewer samples")

    def predictions(self, outputs: Float[Floats, "*t all c"]) -> Arrays:
        """Outputs and losses."""
        return self.outputs(outputs) | self.losses(outputs)

    def outputs(self, values: Float[Floats, "*t all c"], ending: str = "") -> Arrays:
        """Outputs of the samples that are kept, or something else about them, which the ending says."""
        return {f"{part.prefix}outputs{ending}": values[..., part.kept, :] for part in self.parts}

    def losses(self, outputs: Float[Floats, "*t all c"]) -> Arrays:
        """Of all training samples, and of all test samples."""
        return self.problem.losses(outputs)

    def kernels(
        self,
        feature: Float[Floats, "*t l a b"],
        gradient: Float[Floats, "*t l a c b c"],
        alignment: Float[Floats, "*t l a c b c"] | None = None,
        pseudo: Float[Floats, "*t l d c b c"] | None = None,
        ntk: Float[Floats, "*t a c b c"] | None = None,
    ) -> Arrays:
        """Kernels of all samples, or of `rows` by the recorded ones; None: as for gradient descent.

        `pseudo` may have rows of the recorded samples alone, as no others are kept.
        The NTK follows from the others unless it is known better.
        """
        if not self.problem.record.kernels:
            return {}
        feature = self._cut(feature, 2)
        kernels = {"gradient": gradient, "alignment": gradient if alignment is None else alignment}
        cut = {f"{name}_kernel": self._cut(value, 4) for name, value in kernels.items()}
        cut["ntk"] = self.ntk(feature, cut["alignment_kernel"]) if ntk is None else self._cut(ntk, 4)
        pseudo = cut["alignment_kernel"] if pseudo is None else self._cut(pseudo, 4)
        arrays = {"pseudo_gradient_kernel": pseudo[..., : self.recorded, :, :, :]}
        for name, value in {"feature_kernel": feature, **cut}.items():
            arrays |= self.by_part(name, value, 2 if name == "feature_kernel" else 4)
        return arrays

    def by_part(self, name: str, values: NDArray[Any], axis: int) -> Arrays:
        """Split rows, the axis so far from the last, into those of training and of test samples."""
        bounds = {"": slice(self.recorded), "test_": slice(self.recorded, None)}
        chosen = {part.prefix: bounds[part.prefix] for part in self.parts if part.kernels}
        return {
            f"{prefix}{name}": np.moveaxis(np.moveaxis(values, -axis, 0)[rows], 0, -axis)
            for prefix, rows in chosen.items()
        }

    def ntk(
        self, feature: Float[Floats, "*t l a b"], alignment: Float[Floats, "*t l a c b c"]
    ) -> Float[Floats, "*t a c b c"]:
        """K = sum_{l=0}^{L} Gt^{l+1} (w_l Phi^l + b_l) with Gt^{L+1} = 1 (BP23 eq. (4), PDLT eq. (8.12))."""
        samples, rates = self.problem.samples, self.problem.optimiser.layer_rates(self.problem.network)
        x, w, b = samples.everything[self.rows], np.array(rates.weights), np.array(rates.biases)
        inputs = w[0] * (x @ x[: self.recorded].T) / samples.dimension + b[0]
        moved = w[1:, None, None] * feature + b[1:, None, None]
        top = np.einsum("...ab,cd->...acbd", moved[..., -1, :, :], np.eye(samples.outputs))
        first = np.einsum("...acbd,ab->...acbd", alignment[..., 0, :, :, :, :], inputs)
        below = np.einsum("...lacbd,...lab->...acbd", alignment[..., 1:, :, :, :, :], moved[..., :-1, :, :])
        return np.asarray(first + below + top)

    def two_time(self, kernels: Mapping[str, NDArray[Any]]) -> Variables:
        """Factors of kernels and responses at all pairs of recorded times, or of some that do not change (one time).

        Axes: layer, time, sample[, output], time, sample[, output], as in `two_time.from_kernels`. What was not asked
        for is left out.
        """
        record = self.problem.record
        wanted = {name: value for name, value in kernels.items() if record.responses or not name.endswith("_response")}
        if not record.between_times:
            return {}
        times = len(record.at(self.problem.optimiser.steps))
        return two_time.from_kernels(wanted, times, self.recorded)

    def unmoved(
        self,
        feature: Float[Floats, "l p p"],
        gradient: Float[Floats, "l p p"],
        alignment: Float[Floats, "l p p"] | None = None,
        pseudo: Float[Floats, "l t p c t p c"] | None = None,
    ) -> Variables:
        """Factors of kernels that stand still, the same for every output; None: as for gradient descent.

        Responses are of the order of gamma_0, so that all of them vanish with it.
        """
        rule, identity = self.problem.rule, np.eye(self.problem.samples.outputs)
        signals = [
            np.einsum("lpq,ab->lpaqb", kernel, identity)[:, None, :, :, None]
            for kernel in (gradient, gradient if alignment is None else alignment)
        ]
        kernels = {"feature_kernel": feature[:, None, :, None], "gradient_kernel": signals[0]}
        kernels |= {"alignment_kernel": signals[1]}
        kernels |= {"pseudo_gradient_kernel": signals[0] if pseudo is None else pseudo}
        count, outputs = feature.shape[1], len(identity)
        nothing = {"gradient": np.zeros((len(feature) - 1, 1, count, outputs, 1, count))}
        nothing["feature"] = nothing["gradient"].transpose(0, 4, 5, 1, 2, 3)
        if len(feature) > 1:
            names = responses.names(exact=rule.exact, through_weights=rule.through_weights)
            kernels |= {name: nothing[name.split("_")[-2]] for name in names}
        return self.two_time(kernels)

    def _cut(self, values: NDArray[Any], axis: int) -> NDArray[Any]:
        """Rows and columns that are recorded."""
        samples = self.problem.samples
        if values.shape[-axis] == samples.samples + samples.test_samples:
            values = values.take(self.rows, axis=-axis)
        return np.asarray(values[..., : self.recorded] if axis == 2 else values[..., : self.recorded, :])
