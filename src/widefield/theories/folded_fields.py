"""Two-time quantities of replicas at infinite width: fields are folded while a group runs, and become factors."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base.arrays import Arrays
from ..training.folding import FREE, Folding, folding_tolerance
from ..trajectory import two_time
from ..trajectory.mean_factors import MeanFactors

_AT_THE_END = 4
"""Copies of the coordinates of one seed while they become factors, and those of the mean."""


@dataclass(frozen=True)
class FieldSizes:
    """What is asked of a keeper of fields.

    Families are given by their vectors at a recorded time and the number of their directions that is expected.
    """

    families: tuple[tuple[int, float], ...]
    particles: int
    times: int

    def numbers(self, seeds: int) -> int:
        """How many are kept of seeds that run side by side; what was before them is not more than the mean."""
        return sum(
            rank * (seeds * self.particles + (seeds + _AT_THE_END) * self.times * rows) for rows, rank in self._ranks
        )

    @property
    def flops(self) -> float:
        """Of one replica: two products to fold every moment, and one to turn factors beside those of the mean."""
        return sum(4.0 * self.times * rows * rank * (self.particles + 2 * rank) for rows, rank in self._ranks)

    @property
    def _ranks(self) -> list[tuple[int, int]]:
        return [
            (rows, min(int(expected) + FREE, self.particles, self.times * rows)) for rows, expected in self.families
        ]


@dataclass
class FoldedFields:
    """A `Keeper` of fields: of the present group as coordinates, of all groups before as factors of their mean.

    Response functions are resolved along directions of at least the fraction `rank_tolerance` of a field.
    """

    ratios: tuple[float, ...]
    exact: bool
    rank_tolerance: float
    folding: Folding = field(init=False)
    mean: MeanFactors = field(init=False)

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        self.folding = Folding(folding_tolerance(self.rank_tolerance))
        self.mean = self._pool()

    def take(self, records: Arrays) -> Arrays:
        """Keep the fields of some more moments; gives back all other records."""
        return self.folding.take(records)

    def finish_group(self) -> None:
        """Only factors of the present group are needed from now on."""
        self._pour(self.mean)
        self.folding = Folding(self.folding.tolerance)

    @property
    def factors(self) -> two_time.Factors:
        """Of the mean over finished groups; over the present one so far if there are none."""
        if self.mean.replicas or not self.folding.spans:
            return self.mean.factors
        so_far = self._pool()
        self._pour(so_far)
        return so_far.factors

    def _pool(self) -> MeanFactors:
        return MeanFactors(folding_tolerance(self.rank_tolerance))

    def _pour(self, mean: MeanFactors) -> None:
        """One seed at a time, because factors of all together would take the memory that folding saved."""
        for seed in range(len(self.folding.spans)):
            fields = self.folding.fields(seed)
            made = two_time.factors(fields, exact=self.exact)
            made |= two_time.response_factors(fields, self.ratios, self.rank_tolerance, exact=self.exact)
            mean.add(made)

    def arrays(self) -> Arrays:
        """All that it knows, for a checkpoint."""
        parts = {"folding": self.folding.arrays(), "mean": self.mean.arrays()}
        return {f"{part}/{name}": value for part, known in parts.items() for name, value in known.items()}

    def restore(self, arrays: Arrays) -> None:
        """The reverse of `arrays`."""
        for part, keeper in (("folding/", self.folding), ("mean/", self.mean)):
            keeper.restore({name.removeprefix(part): value for name, value in arrays.items() if name.startswith(part)})
