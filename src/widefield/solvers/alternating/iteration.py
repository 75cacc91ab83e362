"""The published solver of the mean-field equations: alternating Monte Carlo (BP22 Algorithm 1, BP23 Algorithm 1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from ...base.errors import InvalidInput
from ...kernels.static import LayerKernels
from .equations import Equations
from .layer import Estimate, estimate
from .noise import Sampling, normals
from .order import Order, damped

Watch = Callable[[Order, Array], Any]


@dataclass(frozen=True)
class Iteration:
    """How estimates are combined.

    Args:
        damping: fraction beta of the way to the new estimate that every order parameter moves.
        iterations: most iterations.
        tolerance: stop at this relative change of the kernels per iteration.
        fresh: new random numbers in every iteration; otherwise the same ones (then the iteration converges).
        settle: after this many iterations the damping falls as 1/k, which averages the noise away; None: never.
    """

    damping: float = 0.6
    iterations: int = 20
    tolerance: float = 0.0
    fresh: bool = True
    settle: int | None = None

    def fraction(self, number: int) -> float:
        """beta, or after `settle` iterations 1/k from there on (a running mean of the estimates)."""
        late = 0 if self.settle is None else max(0, number + 1 - self.settle)
        return 1 / (1 / self.damping + late)


@dataclass(frozen=True)
class Solution:
    """Order parameters, and how they were found.

    Args:
        order: kernels and responses at all pairs of times.
        outputs: f, shape (T, P).
        errors: Delta with its weight in the loss, shape (T, P).
        change: largest relative change of a kernel in every iteration.
        seconds: of every iteration; the first one of a new shape compiles.
        converged: whether the tolerance was reached.
        history: what `watch` returned after every iteration.
    """

    order: Order
    outputs: NDArray[np.float64]
    errors: NDArray[np.float64]
    change: NDArray[np.float64]
    seconds: NDArray[np.float64]
    converged: bool
    history: list[Any] = field(default_factory=list)

    @property
    def seconds_per_iteration(self) -> float:
        """Median without the first iteration."""
        return float(np.median(self.seconds[1:] if len(self.seconds) > 1 else self.seconds))

    def at(self, kernel: Array, t: int, s: int) -> NDArray[np.float64]:
        """The (P, P) block of a kernel or response at the times t, s."""
        times, count = self.outputs.shape
        return np.asarray(kernel).reshape(times, count, times, count)[t, :, s, :]


def alternate(
    equations: Equations,
    start: LayerKernels,
    sampling: Sampling | None = None,
    iteration: Iteration | None = None,
    *,
    seed: int = 0,
    watch: Watch | None = None,
) -> Solution:
    """Estimate every layer from the same iterate, move the fraction beta of the way, and repeat.

    Call it in double precision.

    Args:
        equations: of the problem.
        start: kernels that stand still, the initial guess; all responses begin at zero.
        sampling: how the averages over a layer are estimated.
        iteration: how the estimates are combined.
        seed: of the random numbers.
        watch: called with the order parameters and the outputs (n,) after every iteration, outside the timing.
    """
    sampling, iteration = sampling or Sampling(), iteration or Iteration()
    order = resting(equations, start, all_times=sampling.all_times)
    outputs, errors = _outputs(equations, order)
    converged = False
    change: list[float] = []
    seconds: list[float] = []
    history: list[Any] = []
    for number in range(iteration.iterations):
        began = time.perf_counter()
        draw = (seed, number if iteration.fresh else 0)
        fraction = jnp.asarray(iteration.fraction(number))
        order, moved = damped(order, _estimates(draw, equations, order, errors, sampling), fraction)
        outputs, errors = _outputs(equations, order)
        change.append(float(moved))
        outputs.block_until_ready()
        seconds.append(time.perf_counter() - began)
        if not np.isfinite(change[-1]):
            raise InvalidInput(
                f"particles = {sampling.particles}, damping = {iteration.damping:g}: iteration {number + 1} diverged; "
                "use more particles, a smaller damping or a smaller learning_rate, or InfiniteWidth"
            )
        if watch:
            history.append(watch(order, outputs))
        converged = change[-1] <= iteration.tolerance
        if converged:
            break
    shape = (equations.times, equations.count)
    f, delta = (np.asarray(x).reshape(shape) for x in (outputs, errors))
    return Solution(order, f, delta, np.array(change), np.array(seconds), converged, history)


def resting(equations: Equations, start: LayerKernels, *, all_times: bool = False) -> Order:
    """The kernels at initialisation at all times, and no responses."""
    times, rule, n = equations.times, equations.rule, equations.times * equations.count

    def tiled(kernels: NDArray[np.float64]) -> tuple[Array, ...]:
        return tuple(jnp.tile(jnp.asarray(kernel), (times, times)) for kernel in kernels)

    pseudo: tuple[Array, ...] = ()
    if rule.kind == "feedback":
        pseudo = tiled(start.gradient)
    elif not rule.exact:
        shape = (n, n) if all_times else (times, equations.count, equations.count)
        pseudo = tuple(jnp.zeros(shape) for _ in start.feature)
    none = (jnp.zeros((n, n)),) * (equations.depth - 1)
    return Order(
        tiled(start.feature),
        tiled(start.gradient),
        () if rule.exact else tiled(start.alignment),
        pseudo,
        none if rule.through_weights else (),
        none,
        none if rule.returns else (),
        jnp.zeros(n),
    )


@eqx.filter_jit
def _outputs(equations: Equations, order: Order) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    return equations.outputs(order)


_surroundings = eqx.filter_jit(Equations.surroundings)


def _estimates(draw: tuple[int, int], equations: Equations, order: Order, errors: Array, sampling: Sampling) -> Order:
    """One pass over the layers, all from the same iterate (Jacobi)."""
    found = []
    for layer in range(1, equations.depth + 1):
        ends = {"first": layer == 1, "last": layer == equations.depth}
        noise = normals(equations, sampling, (*draw, layer), **ends)
        around = _surroundings(equations, order, errors, layer)
        found.append(estimate(noise, equations, around, errors, sampling, **ends))
    return _collected(found)


def _collected(found: list[Estimate]) -> Order:
    def all_of(values: list[Array | None]) -> tuple[Array, ...]:
        return tuple(value for value in values if value is not None)

    readout = found[-1].readout
    assert readout is not None
    return Order(
        tuple(layer.features for layer in found),
        tuple(layer.gradients for layer in found),
        all_of([layer.alignment for layer in found]),
        all_of([layer.pseudo for layer in found]),
        all_of([layer.responses.forward for layer in found]),
        all_of([layer.responses.backward for layer in found]),
        all_of([layer.responses.returned for layer in found]),
        readout,
    )
