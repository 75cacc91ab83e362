"""Two-time quantities of replicas at infinite width: fields are folded while a group runs, and become factors."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..base.arrays import Arrays
from ..training.folding import FREE, Folding, folding_tolerance
from ..trajectory import two_time
from ..trajectory.mean_factors import MeanFactors

_AT_THE_END = 4
"""Copies of the coordinates of one seed while they become factors, and those of the mean."""


def numbers(families: list[tuple[int, float]], particles: int, times: int, seeds: int) -> int:
    """How many numbers are kept of `seeds` that run side by side; replicas before them do not count.

    Families of fields are given by their vectors at a recorded time and the expected number of their directions.
    """
    total = 0
    for rows, expected in families:
        rank = min(int(expected) + FREE, particles, times * rows)
        total += rank * (seeds * particles + (seeds + _AT_THE_END) * times * rows)
    return total


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
