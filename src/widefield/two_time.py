"""Two-time kernels, kept as factors: K(t, s) = c(t) c(s)^T instead of an array over all pairs of times."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from .errors import InvalidInput, UnknownName

Arrays = dict[str, NDArray[Any]]

_PAIRS = {
    "feature_kernel": ("features", "features"),
    "gradient_kernel": ("gradients", "gradients"),
    "alignment_kernel": ("gradients", "pseudo_gradients"),
    "pseudo_gradient_kernel": ("pseudo_gradients", "pseudo_gradients"),
}
_FIELDS = ("features", "gradients", "pseudo_gradients")


def split(records: Arrays) -> tuple[Arrays, Arrays]:
    """Separate the fields "<name> <layer>" that the factors are made of from everything else."""
    fields = {name: value for name, value in records.items() if name.rpartition(" ")[0] in _FIELDS}
    return fields, {name: value for name, value in records.items() if name not in fields}


def factors(fields: Arrays, *, exact: bool) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    """Compress fields (seed, time, sample, [output,] neuron) to factors with the same inner products <., .>.

    Gradients and pseudo-gradients share a basis, so that their mixed kernel is known too; with `exact` they are
    the same and kept once.
    """
    if not fields:
        return {}
    layers = range(1, 1 + max(int(name.rpartition(" ")[2]) for name in fields))
    made: dict[str, list[NDArray[Any]]] = {name: [] for name in _FIELDS}
    for layer in layers:
        made["features"].append(_factor([fields[f"features {layer}"]])[0])
        names = _FIELDS[1:2] if exact else _FIELDS[1:]
        parts = _factor([fields[f"{name} {layer}"] for name in names])
        for name, part in zip(names, parts, strict=True):
            made[name].append(part)
    dims = ("seed", "layer", "time", "sample")
    return {
        f"{name}_factor": (
            (*dims, "feature_rank") if name == "features" else (*dims, "output", "gradient_rank"),
            _same_rank(parts),
        )
        for name, parts in made.items()
        if parts
    }


def kernel(data: xr.Dataset, name: str, layer: int, t: float | None, s: float | None) -> xr.DataArray:
    """K(t, s) of one layer from the factors in `data`."""
    if name not in _PAIRS:
        raise UnknownName("two-time kernel", name, _PAIRS)
    left, right = (_field(data, field, layer, time) for field, time in zip(_PAIRS[name], (t, s), strict=True))
    right = right.rename({dim: f"{dim}_" for dim in ("time", "sample", "output") if dim in right.dims})
    right = right.drop_vars([v for v in ("time", "step") if v in right.coords])
    rank = "feature_rank" if name == "feature_kernel" else "gradient_rank"
    product: xr.DataArray = xr.dot(left, right, dim=rank)
    return product.rename(name)


def _field(data: xr.Dataset, name: str, layer: int, time: float | None) -> xr.DataArray:
    stored = f"{name}_factor"
    if name == "pseudo_gradients" and stored not in data:
        stored = "gradients_factor"
    if stored not in data:
        raise InvalidInput("this trajectory has no two-time kernels; solve the problem with Record(two_time=True)")
    if layer not in data["layer"].values:
        raise InvalidInput(f"layer = {layer!r} does not exist; layers are 1 to {int(data['layer'].max())}")
    field = data[stored].sel(layer=layer)
    if field.sizes.get("output") == 1:
        field = field.isel(output=0, drop=True)
    if time is None:
        return field
    distance = np.abs(data["time"].values - time)
    index = int(np.argmin(distance))
    if not distance[index] <= 1e-9 * max(1.0, abs(time)):
        raise InvalidInput(
            f"time {time!r} was not recorded; the nearest recorded time is {data['time'].values[index]!r}"
        )
    return field.isel(time=index, drop=True)


def _factor(parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """R^T / sqrt(n) from F^T = Q R, where the rows of F are all vectors of all parts: F F^T / n = factor factor^T."""
    shapes = [part.shape[:-1] for part in parts]
    seeds, neurons = parts[0].shape[0], parts[0].shape[-1]
    rows = np.concatenate([part.reshape(seeds, -1, neurons) for part in parts], axis=1)
    if rows.shape[1] >= neurons:
        small = rows / np.sqrt(neurons)
    else:
        small = np.swapaxes(np.linalg.qr(np.swapaxes(rows, 1, 2), mode="r"), 1, 2) / np.sqrt(neurons)
    ends = np.cumsum([np.prod(shape[1:]) for shape in shapes])[:-1]
    pieces = np.split(small, ends.astype(int), axis=1)
    return [piece.reshape(*shape, -1) for piece, shape in zip(pieces, shapes, strict=True)]


def _same_rank(parts: list[NDArray[Any]]) -> NDArray[Any]:
    rank = max(part.shape[-1] for part in parts)
    padded = [np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, rank - part.shape[-1])]) for part in parts]
    return np.stack(padded, axis=1)
