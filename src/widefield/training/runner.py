"""Runs a program over all its steps: seeds side by side, records on the way, stops and resumes safely."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import NDArray

from ..base.arrays import Arrays
from ..base.errors import FileProblem
from ..base.session import Session
from ..matrices.substrate import State, Substrate
from . import checkpoint
from .observe import Measured, Observer
from .program import Program, Progress, advance

_CHUNK_SECONDS = 0.5
"""Steps are compiled into chunks of about this long, so that progress shows and Ctrl-C is heard."""

T = TypeVar("T")
Start = Callable[[Sequence[int]], State]


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

    `start` makes the initial state of a group, with a leading axis of seeds. Everything that a resumed run needs is
    in (`finished`, `records`, `state`, `position`), and that is what a checkpoint holds.
    """

    observer: Observer
    start: Start
    groups: Sequence[Sequence[int]]
    steps: NDArray[np.int64]
    session: Session
    fingerprint: str
    finished: list[Arrays] = field(default_factory=list)
    records: list[Arrays] = field(default_factory=list)
    state: State | None = None
    position: int = 0
    seconds: float = 0.0
    largest: State | None = None

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
        outcome = outcome or Outcome(_join(self.finished), self.steps)
        outcome.statistics["seconds"] = self.seconds
        return outcome

    def _run_group(self) -> Outcome | None:
        seeds = self.groups[len(self.finished)]
        if self.state is None:
            self.state = self._with_room(self.start(seeds))
        steps_per_call = 1
        while True:
            if self.position == self.steps[len(self.records)]:
                failure = self._observe()
                if failure is not None:
                    return failure
                if len(self.records) == len(self.steps):
                    break
            if self.session.interrupted:
                return self._stopped("interrupted", f"interrupted at step {self.position}")
            if self.session.checkpoint_due():
                self._save()
            began = time.perf_counter()
            failure = self._advance(min(self.position + steps_per_call, int(self.steps[len(self.records)])))
            if failure is not None:
                return failure
            if time.perf_counter() - began < _CHUNK_SECONDS / 2:
                steps_per_call *= 2
        self.finished.append(_stack(self.records))
        self.largest = self.state if self.state.substrate.grows else None
        self.records, self.state, self.position = [], None, 0
        return None

    def _observe(self) -> Outcome | None:
        measured = self._attempt(lambda state, compiled: compiled.observe(self.observer, state))
        failed = np.asarray(self.observer.program.exploded(measured["loss"]))
        if np.any(failed):
            return self._diverged(self.position, int(np.argmax(failed)))
        self.records.append({name: np.asarray(value) for name, value in measured.items()})
        return None

    def _advance(self, stop: int) -> Outcome | None:
        bounds = (jnp.asarray(self.position, jnp.int32), jnp.asarray(stop, jnp.int32))
        progress = self._attempt(lambda state, compiled: compiled.advance(self.observer.program, state, *bounds))
        failed = np.asarray(progress.diverged_at)
        self.position = stop
        done = len(self.finished) * int(self.steps[-1]) + stop
        self.session.report(done, len(self.groups) * int(self.steps[-1]), float(np.mean(progress.loss)))
        if np.all(failed < 0):
            return None
        index = int(np.argmax(failed >= 0))
        return self._diverged(int(failed[index]), index)

    def _attempt(self, run: Callable[[State, _Compiled], tuple[Any, State, Array]]) -> Any:
        """Run on the state; where the substrate runs out of room, enlarge it and run again from the same state."""
        assert self.state is not None
        if not self.state.substrate.grows:
            result, self.state, _ = run(self.state, _DONATING)
            return result
        while True:
            result, after, exhausted = run(self.state, _KEEPING)
            if not np.any(exhausted):
                self.state = after
                return result
            before, after = _first(self.state), _first(after)
            self.state = self._on(before, before.substrate.grown(after.substrate))

    def _with_room(self, state: State) -> State:
        """With the room that the group before turned out to need, so that its compiled code serves again."""
        if self.largest is None or not state.substrate.grows:
            return state
        first = _first(state)
        return self._on(first, first.substrate.with_room_of(_first(self.largest).substrate))

    def _on(self, state: State, larger: Substrate) -> State:
        batched: State = jax.tree.map(lambda leaf: leaf[None], self.observer.program.on_larger(state, larger))
        return batched

    def _diverged(self, step: int, index: int) -> Outcome:
        seed = self.groups[len(self.finished)][index]
        return self._stopped("diverged", f"the loss exploded at step {step} (seed {seed})")

    def _stopped(self, status: str, message: str) -> Outcome:
        """What there is: finished groups if there are any, otherwise the records of the present one so far."""
        if self.finished:
            return Outcome(_join(self.finished), self.steps, status, message)
        return Outcome(_stack(self.records), self.steps[: len(self.records)], status, message)

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
        for kind, parts in (("finished", self.finished), ("records", self.records)):
            for i, part in enumerate(parts):
                arrays |= {f"{kind}/{i}/{name}": value for name, value in part.items()}
        meta = {
            "fingerprint": self.fingerprint,
            "finished": len(self.finished),
            "records": len(self.records),
            "position": self.position,
            "seconds": self.seconds,
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
        self.records = [_part(arrays, f"records/{i}/") for i in range(meta["records"])]
        self.position, self.seconds = meta["position"], meta["seconds"]
        if "state/0" in arrays:
            like = self.start(self.groups[len(self.finished)])
            kept, needed = len(_part(arrays, "state/")), len(jax.tree.leaves(like))
            if kept != needed:
                raise FileProblem(
                    f"the checkpoint {path} holds {kept} arrays of a state that now has {needed}: another version of "
                    "widefield wrote it; delete it to start again"
                )
            leaves = [jnp.asarray(arrays[f"state/{i}"]) for i in range(needed)]
            self.state = jax.tree.unflatten(jax.tree.structure(like), leaves)


def _first(state: State) -> State:
    """The only seed of a batch of one."""
    first: State = jax.tree.map(lambda leaf: leaf[0], state)
    return first


def record_bytes(observer: Observer, state: State, records: int, seeds: int) -> int:
    """Memory that the records of a run will take, found without running it; `state` may hold shapes only."""
    shapes = eqx.filter_eval_shape(lambda state: observer(state)[0], state)
    return records * seeds * sum(int(leaf.size) * int(leaf.dtype.itemsize) for leaf in jax.tree.leaves(shapes))


def _advance(
    program: Program, state: State, start: Int[Array, ""], stop: Int[Array, ""]
) -> tuple[Progress, State, Array]:
    def one(state: State) -> tuple[Progress, State, Array]:
        state, progress = advance(program, state, start, stop)
        return progress, state, state.substrate.exhausted

    return over_seeds(one, state)


def _observe(observer: Observer, state: State) -> tuple[Measured, State, Array]:
    def one(state: State) -> tuple[Measured, State, Array]:
        measured, state = observer(state)
        return measured, state, state.substrate.exhausted

    return over_seeds(one, state)


class _Compiled(NamedTuple):
    advance: Callable[..., tuple[Progress, State, Array]]
    observe: Callable[..., tuple[Measured, State, Array]]


_KEEPING = _Compiled(eqx.filter_jit(_advance), eqx.filter_jit(_observe))
_DONATING = _Compiled(
    eqx.filter_jit(_advance, donate="all-except-first"), eqx.filter_jit(_observe, donate="all-except-first")
)


def over_seeds(function: Callable[[Any], T], batch: Any) -> T:
    """Batch a function over the leading axis; a single seed goes without, because batching is not free."""
    if len(jax.tree.leaves(batch)[0]) > 1:
        return jax.vmap(function)(batch)
    return cast(T, jax.tree.map(lambda leaf: leaf[None], function(jax.tree.map(lambda leaf: leaf[0], batch))))


def _stack(records: list[Arrays]) -> Arrays:
    """Records at successive times, each with a leading seed axis, as arrays (seed, time, ...)."""
    return {name: np.stack([record[name] for record in records], axis=1) for name in records[0]} if records else {}


def _join(groups: list[Arrays]) -> Arrays:
    """All groups of seeds in one."""
    return {name: np.concatenate([group[name] for group in groups]) for name in groups[0]}


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
