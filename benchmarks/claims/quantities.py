"""What answers are compared in: outputs, and the kernels of every layer, over times and samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import widefield as wf

Quantities = dict[str, NDArray[np.float64]]
"""By name, "outputs" or for example "feature_kernel 3"; the axes are (time, ...)."""

NAMES = ("outputs", "feature_kernel", "gradient_kernel")


def of_answer(answer: wf.Trajectory, record: wf.Record) -> Quantities:
    """Means, at the steps and samples that `record` keeps."""
    return {name: value.values for name, value in _split(answer, {name: answer.mean(name) for name in NAMES}, record)}


def of_networks(answer: wf.Trajectory, record: wf.Record) -> Quantities:
    """The same with a leading axis of networks."""
    found = _split(answer, {name: answer.variable(name) for name in NAMES}, record)
    return {name: value.transpose("seed", ...).values.astype(np.float64) for name, value in found}


def _split(
    answer: wf.Trajectory, values: Mapping[str, xr.DataArray], record: wf.Record
) -> Iterable[tuple[str, xr.DataArray]]:
    times = np.isin(answer.data["step"].values, record.at(answer.problem.optimiser.steps))
    kept: Any = {"time": times, "sample": slice(record.samples), "sample_": slice(record.samples)}
    for name, value in values.items():
        chosen = value.isel(kept, missing_dims="ignore")
        if "layer" not in value.dims:
            yield name, chosen
        else:
            yield from ((f"{name} {int(layer)}", chosen.sel(layer=layer, drop=True)) for layer in value["layer"])


def relative_errors(found: Quantities, truth: Quantities) -> dict[str, float]:
    """Root mean squares over times and samples, as fractions of that of the truth."""
    return {name: float(np.linalg.norm(found[name] - truth[name]) / np.linalg.norm(truth[name])) for name in truth}


def worst_of_each_name(errors: Mapping[str, float]) -> dict[str, float]:
    """Every quantity gets the error of the worst layer."""
    kind = {name: name.split(" ")[0] for name in errors}
    worst = {name: max(error for other, error in errors.items() if kind[other] == name) for name in set(kind.values())}
    return {name: worst[kind[name]] for name in errors}
