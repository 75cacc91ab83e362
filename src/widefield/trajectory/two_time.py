"""Two-time kernels, kept as factors: K(t, s) = c(t) c(s)^T instead of an array over all pairs of times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from ..base.arrays import Arrays
from ..base.errors import InvalidInput, UnknownName
from ..problem.layer_rates import LayerRates
from . import responses
from .metrics import time_index

Factors = dict[str, tuple[tuple[str, ...], NDArray[Any]]]
"""Arrays with the names of their axes, the last of which is summed over in products."""

_PAIRS = {
    "feature_kernel": ("features", "features"),
    "gradient_kernel": ("gradients", "gradients"),
    "alignment_kernel": ("gradients", "pseudo_gradients"),
    "pseudo_gradient_kernel": ("pseudo_gradients", "pseudo_gradients"),
}
_FIELDS = ("features", "gradients", "pseudo_gradients", "images", "pseudo_images")
_ROUNDING = 1e-15
_RESPONSES = ("feature_response", "gradient_response", "pseudo_feature_response", "pseudo_gradient_response")


def factors(fields: Arrays, *, exact: bool) -> Factors:
    """Compress fields (seed, time, sample, [output,] neuron) to factors with the same inner products <., .>.

    Gradients and pseudo-gradients share a basis, so that their mixed kernel is known too; with `exact` they are
    the same, and only gradients are looked at.
    """
    layers = range(1, 1 + max(int(name.rpartition(" ")[2]) for name in fields))
    made: dict[str, list[NDArray[Any]]] = {name: [] for name in _FIELDS[:3]}
    for layer in layers:
        made["features"].append(_factor([fields[f"features {layer}"]])[0])
        names = _FIELDS[1:2] if exact else _FIELDS[1:3]
        parts = _factor([fields[f"{name} {layer}"] for name in names])
        for name, part in zip(names, parts, strict=True):
            made[name].append(part)
    dims = ("seed", "layer", "time", "sample")
    return {
        f"{name}_factor": (
            (*dims, "feature_rank") if name == "features" else (*dims, "output", "gradient_rank"),
            same_rank(parts),
        )
        for name, parts in made.items()
        if parts
    }


def response_factors(fields: Arrays, ratios: tuple[float, ...], tolerance: float, *, exact: bool) -> Factors:
    """Factors of the response functions between every layer and the next (see `responses`).

    For W phi / sqrt(N_l) = u + a g the first kind has the factor sqrt(N_l / N_{l+1}).
    """
    found: dict[str, list[NDArray[Any]]] = {}
    layers = [int(name.rpartition(" ")[2]) for name in fields if name.startswith("images ")]
    for layer in layers:
        above = {name: f"{name} {layer + 1}" for name in ("gradients", "pseudo_gradients")}
        here = {name: f"{name} {layer}" for name in ("features", "images", "pseudo_images")}
        parts = {name: fields[key] for name, key in (above | here).items() if key in fields}
        for name, (left, right) in _over_seeds(parts, tolerance, exact=exact).items():
            factor = np.sqrt(ratios[layer - 1] / ratios[layer]) if "feature" in name else 1.0
            found.setdefault(f"{name}_left_factor", []).append(factor * left)
            found.setdefault(f"{name}_right_factor", []).append(right)
    shape = (
        {"feature": fields["features 1"].shape[1:-1], "gradient": fields["gradients 1"].shape[1:-1]} if found else {}
    )
    return {name: _labelled_response(name, parts, shape) for name, parts in found.items()}


def labelled_factors(
    features: list[NDArray[Any]],
    gradients: list[NDArray[Any]],
    pseudo: list[NDArray[Any]] | None,
    responses: dict[str, list[tuple[NDArray[Any], NDArray[Any]]]],
    samples: int,
) -> Factors:
    """Factors of a theory without seeds, of the first `samples` samples. Lists: layers; first axis: time."""
    rows, columns = ("layer", "time", "sample"), ("layer", "time", "sample", "output")
    found = {
        "features_factor": ((*rows, "feature_rank"), _stacked(features, samples)),
        "gradients_factor": ((*columns, "gradient_rank"), _stacked(gradients, samples)),
    }
    if pseudo is not None:
        found["pseudo_gradients_factor"] = ((*columns, "gradient_rank"), _stacked(pseudo, samples))
    for name, pairs in responses.items():
        for side, parts in zip(("left", "right"), zip(*pairs, strict=True), strict=True):
            dims = rows if ("feature" in name) == (side == "left") else columns
            key = f"{name}_{side}_factor"
            found[key] = (("lower_layer", *dims[1:], f"{name}_rank"), _stacked(list(parts), samples))
    return found


def from_kernels(kernels: Mapping[str, NDArray[Any]], times: int, samples: int) -> Factors:
    """Factors of kernels and responses known at all pairs of times, of the first `samples` samples.

    Axes: layer (a single one of the NTK), then those of `_axes` for rows and for columns; a single time stands for
    all. By singular values, so
    that kernels need not be positive: truncated expansions, and averages of few samples, are not.
    """
    found: Factors = {}
    for name, value in kernels.items():
        sides = _axes(name)
        ends = 1 + len(sides[0])
        value = value[:, :, :samples].take(np.arange(samples), axis=ends + 1)
        shapes = value.shape[1:ends], value.shape[ends:]
        halves = [_by_singular_values(layer.reshape(math.prod(shapes[0]), -1)) for layer in value]
        axis = "lower_layer" if name in _RESPONSES else "layer"
        for side, dims, shape, parts in zip(("left", "right"), sides, shapes, zip(*halves, strict=True), strict=True):
            stacked = same_rank([part.reshape(1, *shape, -1) for part in parts])[0]
            everywhere = np.broadcast_to(stacked, (len(stacked), times, *stacked.shape[2:]))
            labels = (axis, *dims, f"{name}_rank")
            found[f"{name}_{side}_factor"] = (labels[1:], everywhere[0]) if name == "ntk" else (labels, everywhere)
    return found


def _by_singular_values(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """left, right with left right^T = matrix to rounding."""
    if not np.isfinite(matrix).all():
        return matrix, np.eye(matrix.shape[1])
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    rank = max(1, int(np.sum(values > _ROUNDING * values[0])))
    return left[:, :rank] * values[:rank], right[:rank].T


def _axes(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of rows and columns: features have no output; a response has those of what responds and of its cause."""
    plain, signal = ("time", "sample"), ("time", "sample", "output")
    if name in _RESPONSES:
        return (plain, signal) if name.endswith("feature_response") else (signal, plain)
    return (plain, plain) if name == "feature_kernel" else (signal, signal)


def _stacked(parts: list[NDArray[Any]], samples: int) -> NDArray[Any]:
    stacked: NDArray[Any] = same_rank([part[None, :, :samples] for part in parts])[0]
    return stacked


def _over_seeds(parts: Arrays, tolerance: float, *, exact: bool) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    seeds = range(len(parts["features"]))
    each = [
        responses.of_layer({name: value[k] for name, value in parts.items()}, tolerance, exact=exact) for k in seeds
    ]
    return {
        name: (_same_columns([one[name].left for one in each]), _same_columns([one[name].right for one in each]))
        for name in each[0]
    }


def _same_columns(parts: list[NDArray[Any]]) -> NDArray[Any]:
    rank = max(part.shape[-1] for part in parts)
    return np.stack([np.pad(part, [(0, 0), (0, rank - part.shape[-1])]) for part in parts])


def _labelled_response(
    name: str, parts: list[NDArray[Any]], shape: dict[str, tuple[int, ...]]
) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Rows of a feature response are features and its columns gradients; of a gradient response the reverse."""
    features = ("feature" in name) == ("left" in name)
    stacked = same_rank(parts)
    stacked = stacked.reshape(*stacked.shape[:2], *shape["feature" if features else "gradient"], stacked.shape[-1])
    rows = ("time", "sample") if features else ("time", "sample", "output")
    kind = name.removesuffix("_left_factor").removesuffix("_right_factor")
    return ("seed", "lower_layer", *rows, f"{kind}_rank"), stacked


def kernel(data: xr.Dataset, name: str, layer: int, t: float | None, s: float | None) -> xr.DataArray:
    """K(t, s) of one layer from the factors in `data`."""
    if name not in _PAIRS and name not in _RESPONSES:
        raise UnknownName("two-time kernel", name, (*_PAIRS, *_RESPONSES, "ntk"))
    pair = _PAIRS.get(name, ())
    if name in _RESPONSES or f"{name}_left_factor" in data:
        pair = (f"{name}_left", f"{name}_right")
    return _product(data, name, pair, layer, (t, s))


def _product(
    data: xr.Dataset, name: str, pair: tuple[str, ...], layer: int | None, at: tuple[float | None, float | None]
) -> xr.DataArray:
    left, right = (_field(data, field, layer, time) for field, time in zip(pair, at, strict=True))
    right = right.rename({dim: f"{dim}_" for dim in ("time", "sample", "output") if dim in right.dims})
    right = right.drop_vars([v for v in ("time", "step") if v in right.coords])
    product: xr.DataArray = xr.dot(left, right, dim=str(left.dims[-1]))
    return product.rename(name)


def tangent_kernel(data: xr.Dataset, t: float | None, s: float | None, rates: LayerRates) -> xr.DataArray:
    """K(t, s) = sum_{l=0}^{L} <g^{l+1}(t) gt^{l+1}(s)> [w_l Phi^l(t, s) + b_l], the NTK between two times.

    BP22 eq. (3), BP23 (4). Phi^0 = K^x, the last factor of gradients is 1, w_l and b_l are the rates of the
    layers. For gradient descent it is gamma^2 times the inner product of df(t)/dW and df(s)/dW, rates as weights.
    """
    if "ntk_left_factor" in data:  # an expansion has terms of its own, not those of the product
        return _product(data, "ntk", ("ntk_left", "ntk_right"), None, (t, s))
    layers = range(1, data.sizes["layer"] + 1)
    alignment = [kernel(data, "alignment_kernel", layer, t, s) for layer in layers]
    features = [data["input_kernel"], *(kernel(data, "feature_kernel", layer, t, s) for layer in layers)]
    moved = [w * phi + b for phi, w, b in zip(features, rates.weights, rates.biases, strict=True)]
    top = moved[-1]
    if "output" in alignment[0].dims:
        count = alignment[0].sizes["output"]
        top = top * xr.DataArray(np.eye(count), dims=("output", "output_"))
    total = sum((g * phi for g, phi in zip(alignment, moved[:-1], strict=True)), top)
    assert isinstance(total, xr.DataArray)
    return total.transpose(*alignment[0].dims).rename("ntk")


def _field(data: xr.Dataset, name: str, layer: int | None, time: float | None) -> xr.DataArray:
    stored = f"{name}_factor"
    if name == "pseudo_gradients" and stored not in data:
        stored = "gradients_factor"
    if stored not in data:
        response = name.rpartition("_")[0] in _RESPONSES
        flag = "responses" if response else "two_time"
        which = f"no {name.rpartition('_')[0]} (some rules have none)" if response else "no two-time kernels"
        raise InvalidInput(f"this trajectory has {which}; solve the problem with Record({flag}=True)")
    field = data[stored]
    if layer is not None:
        axis = str(next(dim for dim in field.dims if str(dim).endswith("layer")))
        if not 1 <= layer <= data.sizes[axis]:
            raise InvalidInput(f"layer = {layer!r} does not exist; layers are 1 to {data.sizes[axis]}")
        field = field.isel({axis: layer - 1}, drop=True)
    if field.sizes.get("output") == 1:
        field = field.isel(output=0, drop=True)
    if time is None:
        return field
    return field.isel(time=time_index(data, time), drop=True)


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


def same_rank(parts: list[NDArray[Any]], axis: int = 1) -> NDArray[Any]:
    """Factors of several layers in one array with a new axis of layers, padded by columns of zeros."""
    rank = max(part.shape[-1] for part in parts)
    padded = [np.pad(part, [(0, 0)] * (part.ndim - 1) + [(0, rank - part.shape[-1])]) for part in parts]
    return np.stack(padded, axis=axis)
