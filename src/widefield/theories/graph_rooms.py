"""How much room the matrices and populations of any network take at infinite width, from its plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..matrices.spans import Room, block_size, on_ladder

if TYPE_CHECKING:
    from ..graphs.plan import Plan
    from ..problem.problem import Problem

Directions = Callable[[int, float], tuple[float, float]]
"""That a matrix and its transpose will be asked about, see `expected_directions`."""


def first_room(problem: Problem, directions: Directions, particles: int) -> Room:
    """Capacities to begin with. More room is made when needed."""
    samples, plan = problem.samples, problem.plan
    rows = samples.samples + samples.test_samples
    matrices = []
    for spec in plan.matrices:
        block = block_size(rows * plan.positions(spec.name))
        forward, backward = (min(on_ladder(count + block), particles) for count in directions(*_asked(plan, spec.name)))
        matrices.append((spec.name, (forward, backward, 0, 0)))
    pools = (min(on_ladder(count), particles) for count in _seen(problem, directions))
    return Room(tuple(pools), (8, 8), tuple(matrices))


def most_seen(problem: Problem, directions: Directions) -> float:
    """Independent vectors that the most crowded population will see, roughly."""
    return max(_seen(problem, directions))


def most_vectors(plan: Plan) -> int:
    """Vectors over the population that has most of them."""
    return max(_vectors(plan))


def _asked(plan: Plan, matrix: str) -> tuple[int, float]:
    """About how many vectors of a sample, and among how many times more dimensions than inputs have they are spread.

    Measured at a tolerance of 0.01: a recurrent matrix that is used three times sees 64 and 69 directions where one
    use would see 24 and 33, and taps of a convolution, which read three times as many numbers, 49 and 68.
    """
    return plan.positions(matrix), plan.uses(matrix) * max(1.0, plan.read / plan.inputs[-1])


def _vectors(plan: Plan) -> list[int]:
    counts = [0] * len(plan.populations)
    for spec in plan.vectors:
        counts[spec.population.index] += spec.count
    return counts


def _seen(problem: Problem, directions: Directions) -> list[float]:
    """c = 1 + vectors over a population + directions of all matrices from and to it."""
    plan, samples = problem.plan, problem.samples
    block = block_size(samples.samples + samples.test_samples)
    seen = [1.0 + block + count for count in _vectors(plan)]
    for spec in plan.matrices:
        both = sum(directions(*_asked(plan, spec.name)))
        for index in (spec.source.index, spec.target.index):
            seen[index] += both
    return seen
