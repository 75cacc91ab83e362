"""Who a runner works with: what starts a run, keeps its fields, and looks at it on its way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..base.arrays import Arrays
from ..matrices.spans import Room
from ..matrices.substrate import State


class Start(Protocol):
    """Makes the initial states of seeds that run side by side, with a leading axis of seeds."""

    def __call__(self, seeds: Sequence[int], room: Room | None) -> State:
        """Of these seeds; `room` is what earlier ones turned out to need."""

    def enlarged(self, seeds: Sequence[int], state: State, room: Room) -> State:
        """The same state with other room."""


class Keeper(Protocol):
    """Keeps fields of many neurons in less room than they have; all other records stay with the runner."""

    def take(self, records: Arrays) -> Arrays:
        """Keep the fields of some more moments of the present group; gives back all other records."""

    def finish_group(self) -> None:
        """The present group is complete."""

    def arrays(self) -> Arrays:
        """All that it knows, for a checkpoint."""

    def restore(self, arrays: Arrays) -> None:
        """The reverse of `arrays`."""


class Watch(Protocol):
    """Looks at the states of seeds that run side by side, at moments of its choice, and may end the run."""

    def ahead(self, position: int) -> int:
        """Moments until it looks again, at least one."""

    def ends(self, state: State, position: int) -> bool:
        """Whether to end here, after so many steps. The memory of the state is used again: copy what you keep."""
