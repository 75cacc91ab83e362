"""A stretch of training in one compiled program: steps, and records written into arrays on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import NDArray

from ..matrices.substrate import Backward, Forward, State
from .measuring import Measured, Measuring
from .observe import Observer
from .steps import Moment

_APPENDED = {"rows", "stream", "vectors", "slots", "axes", "noise"}
"""Parts of a substrate to which knowledge is only ever added: to go back, take back how much of it counts."""

SHARED = {"rank", "ranks", "full", "drawn", "done"}
"""Parts of a substrate that are the same for all replicas side by side."""


class Stretch(eqx.Module):
    """Successive moments: which are recorded, and after which a step is made. The last one of a run has no step."""

    numbers: Int[Array, " moments"]
    rates: Float[Array, " moments"]
    batches: Int[Array, "moments b"] | None
    recorded: Bool[Array, " moments"]
    moved: Bool[Array, " moments"]

    def at(self, place: Int[Array, ""]) -> Moment:
        """The moment at a place."""
        batch = None if self.batches is None else self.batches[place]
        return Moment(self.numbers[place], self.rates[place], batch)


@dataclass(frozen=True)
class Course:
    """All moments 0 .. T of a run: the rates and batches of its steps, and which moments are recorded."""

    rates: NDArray[np.float64]
    batches: NDArray[np.int64] | None
    recorded: NDArray[np.int64]

    @property
    def moments(self) -> int:
        """T + 1."""
        return len(self.rates) + 1

    def until_full(self, start: int, slots: int) -> int:
        """How many moments from `start` on have records that find room in so many slots."""
        ahead = self.recorded[self.recorded >= start]
        return int(ahead[slots] if len(ahead) > slots else self.moments) - start

    def stretch(self, start: int, size: int, dtype: str) -> Stretch:
        """The moments from `start` on, padded to `size` of them, so that all stretches share compiled code."""
        numbers = start + np.arange(size)
        steps = np.minimum(numbers, len(self.rates) - 1)
        return Stretch(
            jnp.asarray(numbers, jnp.int32),
            jnp.asarray(self.rates[steps], dtype),
            None if self.batches is None else jnp.asarray(self.batches[steps]),
            jnp.asarray(np.isin(numbers, self.recorded)),
            jnp.asarray(numbers < len(self.rates)),
        )


class Played(eqx.Module):
    """What became of a stretch: records in the order of time, how many moments are done, and the losses of steps.

    `failed` is the first moment whose loss will not come back, -1 if there is none.
    """

    records: Measured
    done: Int[Array, ""]
    loss: Float[Array, ""]
    failed: Int[Array, ""]


class _Carry(eqx.Module):
    state: State
    before: State | None
    records: Measured
    place: Int[Array, ""]
    slot: Int[Array, ""]
    loss: Float[Array, ""]
    failed: Int[Array, ""]


def play(
    observer: Measuring, given: tuple[State, Measured], stretch: Stretch, count: Int[Array, ""]
) -> tuple[State, Played]:
    """The first `count` moments of a stretch; fewer if the substrate runs out of room, in the state before that.

    Records are written into the arrays given, from their first slot on.
    """
    state, records = given
    program = observer.program
    together = isinstance(observer, Observer) and observer.program.one_pass and stretch.batches is None
    moment: Any = _in_one_pass if together else _apart
    grows = state.substrate.grows

    def body(carry: _Carry) -> _Carry:
        before = _small(carry.state) if grows else None
        after = moment(observer, carry, stretch)
        hopeless = program.exploded(after.loss) & stretch.moved[carry.place]
        hopeless |= program.exploded(after.records["loss"][carry.slot]) & stretch.recorded[carry.place]
        failed = jnp.where((after.failed < 0) & hopeless, stretch.numbers[carry.place], after.failed)
        slot = carry.slot + stretch.recorded[carry.place].astype(carry.slot.dtype)
        return _Carry(after.state, before, after.records, carry.place + 1, slot, after.loss, failed)

    zero = jnp.zeros((), jnp.int32)
    nothing = jnp.full((), jnp.nan, program.inputs.dtype)
    start = _Carry(state, _small(state) if grows else None, records, zero, zero, nothing, jnp.full((), -1, jnp.int32))
    end = jax.lax.while_loop(lambda carry: (carry.place < count) & ~carry.state.substrate.exhausted, body, start)
    void = end.state.substrate.exhausted
    done = jnp.where(void, jnp.maximum(end.place - 1, 0), end.place)
    final = _rewound(end.state, end.before, void) if grows else end.state
    return final, Played(end.records, done, end.loss, end.failed)


def _in_one_pass(observer: Observer, carry: _Carry, stretch: Stretch) -> _Carry:
    """A step and a record from the same fields."""
    directions, loss, forward, backward, state = observer.program.passes(carry.state)

    def record(number: Array, kept: tuple[State, Measured]) -> tuple[State, Measured]:
        fields: tuple[Forward, Backward] = _inside(number, (forward, backward))
        measured, state = observer.of_passes(fields[0], fields[1], kept[0])
        return state, _written(kept[1], measured, carry.slot)

    state, records = _if(stretch.recorded[carry.place], record, (state, carry.records))
    state = _if(
        stretch.moved[carry.place],
        lambda _, state: observer.program.moved(state, directions, loss, stretch.at(carry.place)),
        state,
    )
    return _Carry(state, carry.before, records, carry.place, carry.slot, loss, carry.failed)


def _apart(observer: Measuring, carry: _Carry, stretch: Stretch) -> _Carry:
    """A record, then a step."""

    def record(number: Array, kept: tuple[State, Measured]) -> tuple[State, Measured]:
        measured, state = observer(_inside(number, kept[0]))
        return state, _written(kept[1], measured, carry.slot)

    def step(_: Array, kept: tuple[State, Array]) -> tuple[State, Array]:
        return observer.program.step(kept[0], stretch.at(carry.place))

    state, records = _if(stretch.recorded[carry.place], record, (carry.state, carry.records))
    state, loss = _if(stretch.moved[carry.place], step, (state, carry.loss))
    return _Carry(state, carry.before, records, carry.place, carry.slot, loss, carry.failed)


def _if(condition: Bool[Array, ""], action: Any, value: Any) -> Any:
    """`action` on a value, or not: a loop of at most one round changes large arrays in place, a branch does not."""
    return jax.lax.fori_loop(0, condition.astype(jnp.int32), action, value)


def _inside(number: Array, values: Any) -> Any:
    """The same values, but what follows from them is computed in the round of a loop that has this number.

    Otherwise the compiler moves it out of the loop, because it is the same in all rounds: there may be none.
    """
    return jax.lax.optimization_barrier((number, values))[1]  # type: ignore[no-untyped-call]


def slots_for_records(observer: Measuring, state: State, count: int) -> Measured:
    """Arrays for so many records."""
    shapes = jax.eval_shape(lambda state: observer(state)[0], state)
    return {name: jnp.zeros((count, *leaf.shape), leaf.dtype) for name, leaf in shapes.items()}


def _written(records: Measured, measured: Measured, slot: Int[Array, ""]) -> Measured:
    return {name: _put(records[name], value, slot) for name, value in measured.items()}


@custom_vmap
def _put(array: Array, value: Array, slot: Int[Array, "*seeds"]) -> Array:
    """A value in a slot of an array. Of seeds side by side, jax by itself would write all slots anew."""
    whole: Array = jax.lax.dynamic_update_index_in_dim(array, value, slot, 0)
    return whole


@_put.def_vmap
def _put_of_all(
    seeds: int, batched: list[bool], array: Array, value: Array, slot: Int[Array, "*seeds"]
) -> tuple[Array, bool]:
    every = [jnp.broadcast_to(part, (seeds, *part.shape)) for part in (array, value)]
    array, value = (part if own else all_ for part, all_, own in zip((array, value), every, batched[:2], strict=True))
    if batched[2]:  # flows of different seeds may be at different moments
        return jax.vmap(lambda *one: jax.lax.dynamic_update_index_in_dim(*one, 0))(array, value, slot), True
    return jax.lax.dynamic_update_index_in_dim(array, value, slot, 1), True


def named(tree: Any, names: set[str]) -> Any:
    """For every leaf, whether an attribute on the way to it has one of the names."""

    def found(path: tuple[Any, ...], _: Any) -> bool:
        return any(getattr(key, "name", None) in names for key in path)

    return jax.tree_util.tree_map_with_path(found, tree)


def _small(state: State) -> State:
    """All that a moment may change, but for what is appended to."""
    kept = jax.tree.map(lambda large: not large, named(state, _APPENDED | {"full"}))
    small: State = eqx.filter(state, kept)
    return small


def _rewound(state: State, before: State | None, void: Bool[Array, ""]) -> State:
    """The state before, if the last moment is void; what was appended since does not count."""
    here = _small(state)
    chosen = jax.tree.map(lambda new, old: jnp.where(void, old, new), here, before)
    rewound: State = eqx.combine(chosen, state)
    return rewound
