"""What a theory found, cut, named and labelled; and how good it is, as fractions of what was computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ..base.arrays import Arrays
from ..base.statistics import mean_and_error, widening
from ..problem.network import MLP
from ..problem.problem import Problem
from ..problem.schedules import elapsed
from ..problem.theory import Theory
from ..trajectory import two_time
from ..trajectory.trajectory import Trajectory

if TYPE_CHECKING:
    from ..training.runner import Outcome

Variables = dict[str, tuple[tuple[str, ...], NDArray[Any]]]
"""Arrays with their dimensions."""

JUDGED = ("outputs", "feature_kernel", "gradient_kernel")


def relative_error(trajectory: Trajectory) -> float:
    """Largest relative standard error of outputs and of the kernels of every layer, rms over times and samples.

    So many numbers together know their scatter: what few replicas add to the error bar of one is taken off.
    """
    return _worst(trajectory, lambda name: trajectory.standard_error(name)) / widening(_replicas(trajectory))


def _replicas(trajectory: Trajectory) -> int:
    return int(trajectory.data.attrs.get("replicas", 1))


def particle_bias(trajectory: Trajectory, coarse: Trajectory, ratio: float) -> float:
    """Largest relative bias of the same quantities, from an answer with `ratio` times fewer particles.

    If the bias falls as one over the number of particles, the difference of both answers is ratio - 1 times that of the
    finer one. What statistical errors explain is taken off.
    """

    def excess(name: str) -> xr.DataArray:
        both = ((run, widening(_replicas(run))) for run in (trajectory, coarse))
        noise = sum((run.standard_error(name) / wider) ** 2 for run, wider in both)
        squares = (trajectory.mean(name) - coarse.mean(name)) ** 2 - noise
        return squares / (ratio - 1) ** 2

    return _worst(trajectory, excess, squared=True)


def _worst(trajectory: Trajectory, error: Callable[[str], xr.DataArray], *, squared: bool = False) -> float:
    worst = 0.0
    for name in (str(key) for key in trajectory.data):
        if name.partition(":")[0] not in JUDGED or name.endswith("_error"):
            continue
        value = trajectory.mean(name)
        power = error(name) if squared else error(name) ** 2
        over = [dim for dim in value.dims if dim != "layer"]
        fraction = power.sum(over, skipna=False) / (value**2).sum(over)
        worst = max(worst, float(np.sqrt(np.maximum(fraction, 0.0)).max()))
    return worst


_KERNEL = ("layer", "sample", "output", "sample_", "output_")


_DIMENSIONS: dict[str, tuple[str, ...]] = {
    "outputs": ("sample", "output"),
    "loss": (),
    "feature_kernel": ("layer", "sample", "sample_"),
    "gradient_kernel": _KERNEL,
    "alignment_kernel": _KERNEL,
    "pseudo_gradient_kernel": _KERNEL,
    "ntk": _KERNEL[1:],
    "rank": ("matrix", "side"),
    "preactivation": ("layer", "sample", "neuron"),
    "pregradient": ("layer", "sample", "output", "neuron"),
}


def from_outcome(
    problem: Problem,
    theory: Theory,
    outcome: Outcome,
    seeds: Sequence[int],
    factors: two_time.Factors | None = None,
) -> Trajectory:
    """Label the records of a run, and the factors of two-time kernels that a keeper of its fields has made."""
    plain = {name: value for name, value in outcome.records.items() if " " not in name or ":" in name}
    variables = {name: _labelled(name, value, problem) for name, value in plain.items()}
    fields = {name: value for name, value in outcome.records.items() if name not in plain}
    if fields:
        variables |= two_time.factors(fields, exact=problem.rule.exact)
    variables |= factors or {}
    found = next((len(value) for value in plain.values()), 0)
    numbers = {"seed": np.asarray(seeds[:found], dtype=np.int64)}
    attributes = {"status": outcome.status, "message": outcome.message, **outcome.statistics}
    return _described(problem, theory, variables, outcome.steps, numbers, attributes)


def from_arrays(
    problem: Problem,
    theory: Theory,
    arrays: Arrays,
    steps: NDArray[np.int64],
    statistics: Mapping[str, float],
    factors: Variables | None = None,
) -> Trajectory:
    """Label arrays (time, ...) of a theory that has no seeds; `<name>_error`, `<name>_deviation` are like `<name>`.

    `factors` are those of two-time kernels. What comes after the loss has exploded is left out.
    """
    variables = {name: _labelled(name, value, problem, ("time",)) for name, value in arrays.items()}
    variables |= factors or {}
    ending: dict[str, Any] = {"status": "complete", "message": ""}
    bad = np.flatnonzero(problem.exploded(arrays["loss"]))
    if len(bad):
        step = int(steps[bad[0]])
        ending = {"status": "diverged", "message": f"the loss exploded by step {step}", "failed_step": step}
    found = _described(problem, theory, variables, steps, {}, {**ending, **statistics})
    return replace(found, data=found.data.isel(time=slice(bad[0]))) if len(bad) else found


def joined(found: Sequence[Variables]) -> Variables:
    """Factors (seed, ..., rank) of several replicas side by side, which give the mean kernel."""
    variables: Variables = {}
    for name, (dims, _) in found[0].items():
        parts = [part for replica in found for part in replica[name][1]]
        variables[name] = dims[1:], np.concatenate(parts, axis=-1) / math.sqrt(len(parts))
    return variables


def pooled(found: Sequence[Arrays]) -> Arrays:
    """Neurons, the last axis, of several replicas together."""
    return {name: np.concatenate([replica[name] for replica in found], axis=-1) for name in found[0]}


def over_replicas(found: Sequence[Arrays]) -> Arrays:
    """Mean of the arrays of several replicas, and its standard error as `<name>_error`."""
    arrays: Arrays = {}
    for name in found[0]:
        values = np.stack([replica[name] for replica in found])
        arrays[name], error = mean_and_error(values)
        if len(found) > 1:
            arrays[f"{name}_error"] = error
    return arrays


def _described(
    problem: Problem,
    theory: Theory,
    variables: dict[str, Any],
    steps: NDArray[np.int64],
    coordinates: dict[str, Any],
    attributes: dict[str, Any],
) -> Trajectory:
    """With times, layers, targets and the kernel of the inputs."""
    samples, recorded = problem.samples, problem.recorded_samples
    variables["targets"] = (("sample", "output"), samples.y[:recorded])
    variables["input_kernel"] = (("sample", "sample_"), samples.kernel()[:recorded, :recorded])
    if samples.test_samples:
        variables["test_targets"] = (("test_sample", "output"), samples.y_test)
    times = elapsed(problem.optimiser.rates())
    coordinates |= {"time": times[steps], "step": ("time", steps)}
    if isinstance(problem.network, MLP):
        coordinates["layer"] = np.arange(1, problem.network.hidden_layers + 1)
    attributes["loss"] = problem.loss.convention
    left_out = theory.scope.left_out(problem, set(variables))
    if left_out:
        attributes["left_out"] = "; ".join(left_out)
    return Trajectory(xr.Dataset(variables, coordinates, attributes), problem, theory)


def _labelled(
    name: str, value: NDArray[Any], problem: Problem, leading: tuple[str, ...] = ("seed", "time")
) -> tuple[tuple[str, ...], NDArray[Any]]:
    kind = name.removeprefix("test_").removesuffix("_error").removesuffix("_deviation")
    what, _, place = kind.partition(":")
    dimensions = _at_place(what, place, problem) if place else _DIMENSIONS[kind]
    if name.startswith("test_"):
        dimensions = tuple("test_sample" if dim == "sample" else dim for dim in dimensions)
    if problem.samples.outputs == 1 and kind != "outputs":
        single = tuple(i for i, dim in enumerate(dimensions, len(leading)) if dim in ("output", "output_"))
        value, dimensions = (
            value.squeeze(single),
            tuple(dim for dim in dimensions if dim not in ("output", "output_")),
        )
    return (*leading, *dimensions), value


def _at_place(what: str, place: str, problem: Problem) -> tuple[str, ...]:
    """Dimensions of what was recorded of a named field."""
    axes = next(len(found.shape) for found in problem.plan.places if found.name == place)
    at = [f"{place} position{'' if axes == 1 else f' {axis}'}" for axis in range(1, axes + 1)]
    row = {"gradient_kernel": ("sample", "output", *at), "gradient": ("sample", "output", *at)}
    rows = row.get(what, ("sample", *at))
    if what.endswith("_kernel"):
        return (*rows, *(f"{name}_" for name in rows))
    return (*rows, "neuron") if what in ("field", "gradient") else rows


def averaged(trajectory: Trajectory) -> Trajectory:
    """Replace the seed axis by means and (widened) standard errors, where seeds are replicas of one answer.

    Samples of fields are pooled instead. Factors of two-time kernels have no axis of seeds: they are those of the mean.
    """
    data = trajectory.data
    wider = widening(data.sizes["seed"])
    variables: dict[str, xr.DataArray] = {}
    for key, value in data.data_vars.items():
        name = str(key)
        if "seed" not in value.dims:
            variables[name] = value
        elif "neuron" in value.dims:
            pooled = value.stack(pooled=("seed", "neuron")).drop_vars(["pooled", "seed", "neuron"], errors="ignore")
            variables[name] = pooled.rename(pooled="neuron")
        else:
            variables[name] = trajectory.mean(name)
            variables[f"{name}_error"] = wider * trajectory.standard_error(name)
    replicas = {**data.attrs, "replicas": data.sizes["seed"]}
    doubles = {
        name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in variables.items()
    }
    kept = {name: data[name] for name in ("step", "layer") if name in data.coords}
    averages = xr.Dataset(doubles).assign_coords(kept)
    return Trajectory(averages.assign_attrs(replicas), trajectory.problem, trajectory.theory)
