"""Fields of all recorded moments, folded: coordinates in the few directions that they have, instead of all neurons.

Fields of one population whose inner products are asked for form a family and share directions: features of a layer
with what comes back to it through initial weights (images), and gradients with pseudo-gradients. Directions are found
by block Gram-Schmidt, one moment at a time, so that it makes no difference to a single bit where a run was cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ..base.arrays import Arrays, Floats

FREE = 64
"""So many directions are kept however weak they are, down to rounding: small problems stay exact."""

FINEST, _COARSEST = 1e-7, 1e-2
"""Below the first, rounding looks like new directions."""

_FAMILY = {"images": "features", "pseudo_images": "features", "pseudo_gradients": "gradients"}


def folding_tolerance(rank_tolerance: float) -> float:
    """The weakest direction that is kept, as a fraction of a field: a tenth of what the solver itself follows."""
    return min(_COARSEST, max(FINEST, rank_tolerance / 10))


@dataclass
class Span:
    """A family of fields of one seed: orthonormal directions, and coordinates of every moment so far.

    Coordinates of moment t are along the directions known at t, with inner products that are means over neurons.
    """

    tolerance: float
    directions: Floats
    coordinates: dict[str, list[NDArray[Any]]] = field(default_factory=dict)
    squares: dict[str, float] = field(default_factory=dict)

    def add(self, moment: dict[str, NDArray[Any]]) -> None:
        """Fields ([sample, ...] neuron) of one more moment."""
        neurons = self.directions.shape[1]
        scales = {name: self._scale(name, value) for name, value in moment.items()}
        rows = np.concatenate([moment[name].reshape(-1, neurons) / scale for name, scale in scales.items()])
        along = rows @ self.directions.T
        rest = rows - along @ self.directions
        more = strong_directions(rest, self.directions, self.tolerance)
        if len(more):
            self.directions = np.concatenate([self.directions, more])
            along = np.concatenate([along, rest @ more.T], axis=1)
        ends = np.cumsum([value.size // neurons for value in moment.values()])[:-1]
        for (name, scale), found in zip(scales.items(), np.split(along, ends), strict=True):
            found = (scale / np.sqrt(neurons)) * found.reshape(*moment[name].shape[:-1], -1)
            self.coordinates.setdefault(name, []).append(found)

    def _scale(self, name: str, value: NDArray[Any]) -> float:
        """Root mean square of all moments so far, this one included."""
        self.squares[name] = self.squares.get(name, 0.0) + float(np.mean(value**2, dtype=np.float64))
        return float(np.sqrt(self.squares[name] / (1 + len(self.coordinates.get(name, []))))) or 1.0

    def stacked(self, name: str) -> NDArray[Any]:
        """Coordinates (time, ..., direction) of one kind of field."""
        parts = self.coordinates[name]
        result = np.zeros((len(parts), *parts[0].shape[:-1], max(1, len(self.directions))))
        for place, part in zip(result, parts, strict=True):
            place[..., : part.shape[-1]] = part
        return result


def strong_directions(
    rest: Float[Floats, "rows n"], known: Float[Floats, "r n"], tolerance: float
) -> Float[Floats, "more n"]:
    """Orthonormal directions of what known ones have left of rows of mean square 1, if stronger than `tolerance`."""
    neurons = rest.shape[1]
    nothing: Floats = np.zeros((0, neurons))
    if not np.isfinite(rest).all():  # a run that explodes
        return nothing
    axes, corner = np.linalg.qr(rest.T)
    _, strengths, turned = np.linalg.svd(corner.T, full_matrices=False)
    places = len(known) + np.arange(len(strengths))
    least = np.where(places < FREE, FINEST, tolerance)
    count = int(np.sum(strengths > least * np.sqrt(neurons)))
    if not count:
        return nothing
    found = turned[:count] @ axes.T
    # What was weak has lost digits: once more.
    again: Floats = np.linalg.qr((found - (found @ known.T) @ known).T)[0].T
    return again


@dataclass
class Folding:
    """All families of fields of a group of seeds. Fields are the records whose names have a layer, after a space."""

    tolerance: float
    spans: list[dict[str, Span]] = field(default_factory=list)

    def take(self, records: Arrays) -> Arrays:
        """Fold the fields (seed, time, ...) of some more moments; gives back all other records."""
        fields = {name: value for name, value in records.items() if " " in name}
        seeds, times = next(iter(fields.values())).shape[:2]
        self.spans = self.spans or [{} for _ in range(seeds)]
        for time in range(times):
            for seed, spans in enumerate(self.spans):
                for family, names in _families(fields).items():
                    moment = {name: fields[name][seed, time].astype(np.float64) for name in names}
                    neurons = next(iter(moment.values())).shape[-1]
                    spans.setdefault(family, Span(self.tolerance, np.zeros((0, neurons)))).add(moment)
        return {name: value for name, value in records.items() if name not in fields}

    def fields(self, seed: int) -> Arrays:
        """Fields (1, time, ..., neuron) with the same inner products, of as many neurons as there are directions."""
        found: Arrays = {}
        for span in self.spans[seed].values():
            for name in span.coordinates:
                coordinates = span.stacked(name)
                found[name] = np.sqrt(coordinates.shape[-1]) * coordinates[None]
        return found

    def arrays(self) -> Arrays:
        """All that it knows, for a checkpoint."""
        found: Arrays = {}
        for seed, spans in enumerate(self.spans):
            for family, span in spans.items():
                found[f"{seed}/{family}/directions"] = span.directions
                for name in span.coordinates:
                    found[f"{seed}/{family}/{name}/coordinates"] = span.stacked(name)
                    found[f"{seed}/{family}/{name}/squares"] = np.asarray(span.squares[name])
        return found

    def restore(self, arrays: Arrays) -> None:
        """The reverse of `arrays`."""
        seeds = {int(key.partition("/")[0]) for key in arrays}
        self.spans = [{} for _ in seeds]
        for key, value in arrays.items():
            seed, family, *rest = key.split("/")
            if rest == ["directions"]:
                self.spans[int(seed)][family] = Span(self.tolerance, value)
        for key, value in arrays.items():
            seed, family, *rest = key.split("/")
            span = self.spans[int(seed)][family]
            if rest[-1] == "coordinates":
                span.coordinates[rest[0]] = list(value)
            elif rest[-1] == "squares":
                span.squares[rest[0]] = float(value)


def _families(names: Arrays) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        kind, _, layer = name.rpartition(" ")
        found.setdefault(f"{_FAMILY.get(kind, kind)} {layer}", []).append(name)
    return found
