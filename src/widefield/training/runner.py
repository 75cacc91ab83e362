"""Runs a program over all its steps: seeds side by side, records on the way, stops and resumes safely."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import NDArray

from ..base.arrays import Arrays
from ..base.errors import FileProblem
from ..base.session import Session
from ..matrices.conditioned import Conditioned
from ..matrices.spans import Room
from ..matrices.substrate import State
from . import checkpoint
from .course import SHARED, Course, Played, Stretch, named, play, slots_for_records
from .measuring import Measured, Measuring
from .roles import Keeper, Start, Watch

_CALL_SECONDS = 0.5
"""The compiled program is called for about this long, so that progress shows and Ctrl-C is heard."""

_BUFFER = 2**25
"""Bytes of records that the compiled program keeps before it hands them over."""

_MOMENTS = 64
"""The most moments in a call of the compiled program."""

AXIS = "seeds"
"""Name of the axis of seeds that run side by side."""

T = TypeVar("T")


class Sheet:
    """Records of a group of seeds in arrays (seed, time, ...) that are made once, so that none is ever copied."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self.count = 0

    def write(self, records: Arrays, times: int) -> None:
        """Add the records of some more moments; there will be so many `times` in all."""
        for name, value in records.items():
            if name not in self.arrays:
                self.arrays[name] = np.empty((len(value), times, *value.shape[2:]), value.dtype)
            self.arrays[name][:, self.count : self.count + value.shape[1]] = value
        self.count += next((value.shape[1] for value in records.values()), 0)

    @property
    def written(self) -> Arrays:
        """What there is."""
        return {name: array[:, : self.count] for name, array in self.arrays.items()}


@dataclass
class Outcome:
    """Records of a run, arrays with leading axes (seed, time); and how it ended."""

    records: Arrays
    steps: NDArray[np.int64]
    status: str = "complete"
    message: str = ""
    statistics: dict[str, float] = field(default_factory=dict)


@dataclass
class Runner:
    """Runs groups of seeds one after the other, the seeds of a group in one compiled program.

    Everything that a resumed run needs is in (`finished`, `records`, `fields`, `state`, `position`, `room`,
    `crowding`), and that is what a checkpoint holds, with `remarks` of whoever runs it. Without a keeper of fields
    they stay as they are, among the records.
    """

    observer: Measuring
    start: Start
    groups: Sequence[Sequence[int]]
    course: Course
    session: Session
    fingerprint: str
    bytes_per_record: int
    fields: Keeper | None = None
    watch: Watch | None = None
    finished: list[Arrays] = field(default_factory=list)
    records: Sheet = field(default_factory=lambda: Sheet())
    state: State | None = None
    slots: Measured | None = None
    position: int = 0
    seconds: float = 0.0
    room: Room | None = None
    crowding: float = 0.0
    pace: int = 1
    loss: float = math.nan
    remarks: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Outcome:
        """Go on from wherever the run stands until it ends, fails or is interrupted."""
        begun = self.finished or self.state is not None
        if not begun and self.session.checkpoint is not None and self.session.checkpoint.exists():
            self._resume(self.session.checkpoint)
        began = time.perf_counter() - self.seconds
        outcome = None
        while outcome is None and len(self.finished) < len(self.groups):
            outcome = self._run_group()
            self.seconds = time.perf_counter() - began
            if outcome is not None and outcome.status == "interrupted":
                self._save_last(outcome)
        outcome = outcome or Outcome(_join(self.finished), self.course.recorded)
        outcome.statistics["seconds"] = self.seconds
        return outcome

    def take_over(self) -> None:
        """Put a checkpoint of what is known before the first step in the place of another run's, which is over."""
        if self.session.checkpoint is not None:
            self.session.checkpoint.unlink(missing_ok=True)
            self._save_now_and_then()

    def _run_group(self) -> Outcome | None:
        seeds = self.groups[len(self.finished)]
        if self.state is None:
            self.state = self.start(seeds, self.room)
            self.room = _room(self.state)
        slots = self._slots(len(seeds))
        while self.position < self.course.moments:
            if self.session.interrupted:
                return self._stopped("interrupted", f"interrupted at step {self.position}")
            if self.session.checkpoint_due():
                self._save_now_and_then()
            began = time.perf_counter()
            failure = self._play(seeds, slots)
            if failure is not None:
                return failure
            if self.watch is not None and self.watch.ends(self.state, self.position):
                return self._stopped("complete", f"ended after step {self.position}")
            if time.perf_counter() - began < _CALL_SECONDS / 2:
                self.pace = min(2 * self.pace, _MOMENTS)
        self.finished.append(self.records.written)
        if self.fields is not None:
            self.fields.finish_group()
        self.crowding = max(self.crowding, self.state.substrate.crowding)
        self.records, self.state, self.slots, self.position = Sheet(), None, None, 0
        return None

    def _slots(self, seeds: int) -> int:
        """Records in a call: as many as find room, on a coarse ladder."""
        slots = _MOMENTS
        while slots > 1 and slots * seeds * self.bytes_per_record > _BUFFER:
            slots //= 4
        return slots

    def buffer_bytes(self, seeds: int) -> int:
        """Memory of the records that a call of the compiled program hands over."""
        return self._slots(seeds) * seeds * self.bytes_per_record

    def _play(self, seeds: Sequence[int], slots: int) -> Outcome | None:
        """Some more moments; where the substrate runs out of room, enlarge it, and come back."""
        assert self.state is not None
        if self.slots is None:
            self.slots = _slots(self.observer, self.state, slots)
        stretch = self.course.stretch(self.position, _MOMENTS, str(self.observer.program.inputs.dtype))
        most = self.pace if self.watch is None else min(self.pace, self.watch.ahead(self.position))
        stop = jnp.asarray(min(most, self.course.until_full(self.position, slots)), jnp.int32)
        self.state, played = _play((self.observer, stretch, stop), (self.state, self.slots))
        self.slots = played.records
        done = int(played.done)
        loss = float(np.mean(played.loss))  # none if there was no step, as at the last moment
        self.loss = self.loss if math.isnan(loss) else loss
        failure = self._kept(played, seeds, done)
        self.position += done
        if failure is not None:
            return failure
        if isinstance(self.state.substrate, Conditioned) and bool(self.state.substrate.exhausted):
            early = 2 * self.position < self.course.moments
            self.room = self.state.substrate.larger_room(rungs=2 if early else 1)
            self.state = self.start.enlarged(seeds, self.state, self.room)
        last = self.course.moments - 1
        steps = len(self.finished) * last + min(self.position, last)
        self.session.report(steps, len(self.groups) * last, self.loss)
        return None

    def _kept(self, played: Played, seeds: Sequence[int], done: int) -> Outcome | None:
        """Keep the records of the moments that are done, up to the first whose loss exploded."""
        numbers = np.arange(self.position, self.position + done)
        times = numbers[np.isin(numbers, self.course.recorded)]
        failed = np.asarray(played.failed)
        bad = failed[(failed >= 0) & (failed < self.position + done)]
        good = int(np.sum(times < bad.min())) if len(bad) else len(times)
        if good:
            records = {name: np.asarray(value)[:, :good] for name, value in played.records.items()}
            kept = records if self.fields is None else self.fields.take(records)
            self.records.write(kept, len(self.course.recorded))
        if not len(bad):
            return None
        seed = seeds[int(np.flatnonzero(failed == bad.min())[0])]
        stopped = self._stopped("diverged", f"the loss exploded at step {bad.min()} (seed {seed})")
        stopped.statistics["failed_step"] = int(bad.min())
        return stopped

    def _stopped(self, status: str, message: str) -> Outcome:
        """What there is: finished groups if there are any, otherwise the records of the present one so far."""
        if self.finished:
            return Outcome(_join(self.finished), self.course.recorded, status, message)
        return Outcome(self.records.written, self.course.recorded[: self.records.count], status, message)

    def _save_now_and_then(self) -> None:
        """A run that cannot be saved now can still be finished."""
        began = time.monotonic()
        try:
            self._save()
        except FileProblem as error:
            self.session.note(f"no checkpoint at step {self.position}: {error}; the run goes on")
        self.session.checkpoint_done(began)

    def _save_last(self, outcome: Outcome) -> None:
        try:
            self._save()
        except FileProblem as error:  # the records must not be lost with the checkpoint
            outcome.message += f"; no checkpoint to resume from: {error}"

    def _save(self) -> None:
        if self.session.checkpoint is None:
            return
        arrays: Arrays = {}
        leaves = [] if self.state is None else jax.tree.leaves(self.state)
        arrays |= {f"state/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        if self.fields is not None:
            arrays |= {f"fields/{name}": value for name, value in self.fields.arrays().items()}
        written = [self.records.written] if self.records.count else []
        for kind, parts in (("finished", self.finished), ("records", written)):
            for i, part in enumerate(parts):
                arrays |= {f"{kind}/{i}/{name}": value for name, value in part.items()}
        meta = {
            "fingerprint": self.fingerprint,
            "finished": len(self.finished),
            "records": len(written),
            "position": self.position,
            "seconds": self.seconds,
            "room": None if self.room is None else self.room.as_table(),
            "crowding": self.crowding,
            **self.remarks,
        }
        checkpoint.save(self.session.checkpoint, meta, arrays)

    def _resume(self, path: Path) -> None:
        meta, arrays = checkpoint.load(path)
        if meta.get("fingerprint") != self.fingerprint:
            raise FileProblem(
                f"the checkpoint {path} belongs to another problem, theory or version of widefield; "
                "delete it to start again"
            )
        self.finished = [_part(arrays, f"finished/{i}/") for i in range(meta["finished"])]
        parts = [_part(arrays, f"records/{i}/") for i in range(meta["records"])]
        if "room" not in meta:  # of 0.1.0: a part for every record, without an axis of time, the present one included
            parts = parts[: int(np.sum(self.course.recorded < meta["position"]))]
            parts = [{name: value[:, None] for name, value in part.items()} for part in parts]
        for part in parts:
            self.records.write(part, len(self.course.recorded))
        self.position, self.seconds = meta["position"], meta["seconds"]
        self.room = None if meta.get("room") is None else Room.from_table(meta["room"])
        self.crowding = meta.get("crowding", 0.0)
        if self.fields is not None:
            self.fields.restore(_part(arrays, "fields/"))
        if "state/0" in arrays:
            like = self.start(self.groups[len(self.finished)], self.room)
            kept, needed = _part(arrays, "state/"), jax.tree.leaves(like)
            leaves = [jnp.asarray(kept.get(str(i), ())) for i in range(len(needed))]
            if len(kept) != len(needed) or any(a.shape != b.shape for a, b in zip(leaves, needed, strict=True)):
                raise FileProblem(
                    f"the checkpoint {path} holds {len(kept)} arrays of a state that now has {len(needed)}: another "
                    "version of widefield wrote it; delete it to start again"
                )
            self.state = jax.tree.unflatten(jax.tree.structure(like), leaves)


@eqx.filter_jit(donate="all-except-first")
def _play(kept: tuple[Measuring, Stretch, Int[Array, ""]], given: tuple[State, Measured]) -> tuple[State, Played]:
    observer, stretch, count = kept
    alone = not given[0].substrate.grows
    return over_seeds(lambda given: play(observer, given, stretch, count), given, alone=alone)


@eqx.filter_jit
def _slots(observer: Measuring, state: State, count: int) -> Measured:
    return over_seeds(lambda state: slots_for_records(observer, state, count), state, alone=not state.substrate.grows)


def _room(state: State) -> Room | None:
    return state.substrate.room if isinstance(state.substrate, Conditioned) else None


def over_seeds(function: Callable[[Any], T], batch: Any, *, alone: bool = True) -> T:
    """Batch a function over the leading axis of seeds; what they share (`SHARED`) has no such axis, before and after.

    A single seed goes without if it may be `alone`, because batching is not free.
    """
    shared = jax.tree.leaves(named(batch, SHARED))
    seeds = next(len(leaf) for leaf, one in zip(jax.tree.leaves(batch), shared, strict=True) if not one)
    if seeds == 1 and alone:
        one = function(jax.tree.map(lambda leaf: leaf[0], batch))
        return cast(T, jax.tree.map(lambda leaf, shared: leaf if shared else leaf[None], one, named(one, SHARED)))
    axes = jax.tree.map(lambda one: None if one else 0, named(batch, SHARED))
    everywhere = jax.vmap(function, in_axes=(axes,), axis_name=AXIS)(batch)
    result: T = jax.tree.map(lambda leaf, one: leaf[0] if one else leaf, everywhere, named(everywhere, SHARED))
    return result


def _join(groups: list[Arrays]) -> Arrays:
    """All groups of seeds in one; a single one is not copied."""
    if len(groups) == 1:
        return groups[0]
    return {name: np.concatenate([group[name] for group in groups]) for name in groups[0]}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
