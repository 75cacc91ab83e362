"""Which program and which observer a network needs."""

from __future__ import annotations

import jax.numpy as jnp

from ..base.numbers import Number
from ..problem.network import MLP
from ..problem.problem import Problem
from .graph_program import GraphProgram, compile_graph
from .measuring import Measuring
from .observe import Observer
from .places import PlaceObserver
from .program import Program, compile_problem
from .steps import Steps


def program_of(
    problem: Problem, richness: float, ratios: tuple[Number, ...], dtype: str, kind: type[Program] = Program
) -> Steps:
    """The program of a problem; `kind` is that of an `MLP`."""
    if isinstance(problem.network, MLP):
        return compile_problem(problem, richness, ratios, dtype, kind)
    return compile_graph(problem, richness, ratios, dtype)


def observer_of(problem: Problem, program: Steps, dtype: str) -> Measuring:
    """What measures its states."""
    tested, record = jnp.asarray(problem.samples.y_test, dtype), problem.record.in_program()
    if isinstance(program, GraphProgram):
        return PlaceObserver(program, tested, record)
    assert isinstance(program, Program)
    return Observer(program, tested, record)


def widths_of(problem: Problem, width: int) -> tuple[int, ...]:
    """Numbers of neurons of all populations of real networks."""
    return problem.network.widths(width) if isinstance(problem.network, MLP) else problem.plan.widths(width)


def ratios_at(problem: Problem, width: int) -> tuple[float, ...]:
    """Relative sizes of the populations of real networks; of an `MLP` the last one is 1, of others the width."""
    widths = widths_of(problem, width)
    return tuple(n / (widths[-1] if isinstance(problem.network, MLP) else width) for n in widths)


def limiting_ratios(problem: Problem) -> tuple[float, ...]:
    """The same at width infinity."""
    network = problem.network
    if isinstance(network, MLP):
        return network.normalised_width_ratios
    return tuple(float(population.ratio) for population in problem.plan.populations)


def richness_at(problem: Problem, width: int) -> float:
    """gamma_0 at this width."""
    last = widths_of(problem, width)[-1] if isinstance(problem.network, MLP) else width
    return float(problem.network.effective_richness(last))
