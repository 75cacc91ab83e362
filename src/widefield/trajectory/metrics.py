"""Numbers derived from kernels: alignment, movement, correlation. Functions of labelled arrays."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..base import check
from ..base.errors import InvalidInput

_ROWS = ("sample", "test_sample", "output")
_COLUMNS = ("sample_", "output_")


def _matrix_dims(kernel: xr.DataArray) -> list[str]:
    if "sample_" not in kernel.dims:
        raise InvalidInput(f"{kernel.name} has the axes {', '.join(map(str, kernel.dims))}: it is not a kernel")
    return [str(dim) for dim in kernel.dims if dim in (*_ROWS, *_COLUMNS) or " position" in str(dim)]


def norm(kernel: xr.DataArray) -> xr.DataArray:
    """Frobenius norm |K|_F over sample and output axes."""
    return (kernel**2).sum(_matrix_dims(kernel)) ** 0.5


def cosine_similarity(a: xr.DataArray, b: xr.DataArray) -> xr.DataArray:
    """A(X, Y) = Tr X Y^T / (|X|_F |Y|_F), for every layer, time and seed; NaN for a kernel that is 0 or infinite."""
    with np.errstate(all="ignore"):
        return (a * b).sum(_matrix_dims(a)) / (norm(a) * norm(b))


def at_common_times(a: xr.DataArray, b: xr.DataArray) -> tuple[xr.DataArray, xr.DataArray]:
    """Both arrays at the times of the first that the second has too, up to rounding."""
    times, others = a["time"].values, b["time"].values
    nearest = np.array([np.argmin(np.abs(others - time)) for time in times], dtype=np.int64)
    shared = np.flatnonzero(np.isclose(times, others[nearest], rtol=1e-9, atol=1e-12))
    if not len(shared):
        ranges = f"{times[0]:g} to {times[-1]:g} and {others[0]:g} to {others[-1]:g}"
        raise InvalidInput(f"the trajectories have no recorded times in common ({ranges})")
    a, b = a.isel(time=shared), b.isel(time=nearest[shared])
    return a, b.drop_vars([name for name in ("time", "step") if name in b.coords])


def time_index(data: xr.Dataset, time: float) -> int:
    """Number of a recorded time."""
    distance = np.abs(data["time"].values - time)
    index = int(np.argmin(distance))
    if not distance[index] <= 1e-9 * max(1.0, abs(time)):
        nearest = data["time"].values[index]
        raise InvalidInput(f"time {time!r} was not recorded; the nearest recorded time is {nearest!r}")
    return index


def histogram(values: xr.DataArray, bins: int, limits: tuple[float, float] | None) -> xr.DataArray:
    """Density of all values, at the middles of `bins` equal intervals between `limits` (None: all of them)."""
    check.integer("bins", bins, least=1)
    if limits is not None and not limits[0] < limits[1]:
        raise InvalidInput(f"limits = {limits!r} must increase")
    density, edges = np.histogram(values.values, bins=bins, range=limits, density=True)
    name = str(values.name)
    return xr.DataArray(density, dims=name, coords={name: (edges[1:] + edges[:-1]) / 2}, name="density")


def target_alignment(kernel: xr.DataArray, targets: xr.DataArray) -> xr.DataArray:
    """A(K, y y^T) = y^T K y / (|K|_F |y y^T|_F) (BP22, BP23)."""
    if "sample" not in kernel.dims:
        raise InvalidInput(f"{kernel.name} is not a kernel of the training samples, which the targets belong to")
    if any(" position" in str(dim) for dim in kernel.dims):
        raise InvalidInput(f"{kernel.name} has positions, which targets have not: choose one with isel")
    columns = targets.rename({"sample": "sample_"})
    if "output" in kernel.dims:
        outer = targets * columns.rename({"output": "output_"})
    else:
        outer = (targets * columns).sum("output")
    return cosine_similarity(kernel, outer)


def relative_change(kernel: xr.DataArray) -> xr.DataArray:
    """|K(t) - K(0)|_F / |K(0)|_F."""
    _matrix_dims(kernel)
    start = kernel.isel(time=0, drop=True)
    return norm(kernel - start) / norm(start)


def gradient_cosine(gradient: xr.DataArray, alignment: xr.DataArray, pseudo: xr.DataArray) -> xr.DataArray:
    """(1/LP) sum_{l, mu} G~^l_mumu / sqrt(G^l_mumu G~~^l_mumu), the cosine between g and gt (BP23)."""
    cosine = _diagonal(alignment) / (_diagonal(gradient) * _diagonal(pseudo)) ** 0.5
    return cosine.mean([dim for dim in ("layer", *_ROWS) if dim in cosine.dims])


def _diagonal(kernel: xr.DataArray) -> xr.DataArray:
    for row, column in (("sample", "sample_"), ("output", "output_")):
        if row in kernel.dims:
            index = xr.DataArray(np.arange(kernel.sizes[row]), dims=row)
            kernel = kernel.isel({row: index, column: index})
    return kernel
