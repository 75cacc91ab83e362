"""What observers of all kinds share: outputs and losses, and which samples are recorded."""

from __future__ import annotations

import equinox as eqx
from jaxtyping import Array, Float

from ..matrices.substrate import State
from ..problem.problem import Part, Record
from .steps import Steps

Measured = dict[str, Array]


class Measuring(eqx.Module):
    """Measures a state. `test_targets` belong to the rows of the program's inputs after the training rows."""

    program: Steps
    test_targets: Float[Array, "q c"]
    record: Record = eqx.field(static=True)

    @property
    def recorded(self) -> int:
        """Number of training samples whose outputs and kernels are recorded."""
        return self.record.recorded(self.program.targets.shape[0])

    @property
    def parts(self) -> tuple[Part, ...]:
        """Training and test samples, and what is recorded of them."""
        return self.record.parts(self.program.targets.shape[0], self.test_targets.shape[0])

    def numbers(self, widths: tuple[int, ...]) -> int:
        """How many numbers a record has, in populations of these widths (or numbers of particles)."""
        raise NotImplementedError(f"{type(self).__name__} must define numbers")

    def __call__(self, state: State) -> tuple[Measured, State]:
        """Everything that the record asks for."""
        raise NotImplementedError(f"{type(self).__name__} must define what it measures")

    def predictions(self, outputs: Float[Array, "all c"], state: State) -> Measured:
        """Outputs and losses, and what the substrate says of itself."""
        loss, measured = self.program.loss, {}
        if state.substrate.ranks is not None:
            measured["rank"] = state.substrate.ranks
        for part, targets in zip(self.parts, (self.program.targets, self.test_targets), strict=False):
            measured[f"{part.prefix}outputs"] = outputs[part.kept]
            measured[f"{part.prefix}loss"] = loss.total(outputs[part.rows], targets)
        return measured

    def by_part(self, name: str, rows: Float[Array, "q ..."]) -> Measured:
        """Rows of a kernel: those of recorded training samples, then of test samples."""
        bounds = {"": slice(self.recorded), "test_": slice(self.recorded, None)}
        return {f"{part.prefix}{name}": rows[bounds[part.prefix]] for part in self.parts if part.kernels}
