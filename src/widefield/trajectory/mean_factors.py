"""Factors of mean kernels and mean response functions of replicas, in memory that does not grow with their number.

Factors of replicas side by side give the mean. Whenever one is added they are turned, so that the strongest columns
come first, and the weak ones go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from ..base.arrays import Arrays, Floats
from .two_time import Factors, same_rank

_ROUNDING = 1e-15
"""Of a kernel, which the eigenvalues that decide are computed to."""

_FREE = 64
"""So many columns are kept however weak they are, down to rounding: small problems stay exact."""

_SHARED = (("features_factor",), ("gradients_factor", "pseudo_gradients_factor"))
"""Factors with inner products between them: they are turned together."""


@dataclass
class MeanFactors:
    """The mean over replicas, to `tolerance` of the root mean square of a field, that is tolerance^2 of a kernel.

    Every replica may take away its share of that, so that together they keep to it.
    """

    tolerance: float
    replicas: int = 0
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    values: Arrays = field(default_factory=dict)

    @property
    def factors(self) -> Factors:
        """With names of their axes."""
        return {name: (self.labels[name], value) for name, value in self.values.items()}

    def add(self, replica: Factors) -> None:
        """One more replica; its factors have a first axis of one seed."""
        self.replicas += 1
        share = 1 / self.replicas
        for name, (labels, value) in replica.items():
            self.labels[name] = labels[1:]
            parts = [np.sqrt(share) * value[0]]
            if name in self.values:
                parts = [np.sqrt(1 - share) * self.values[name], *parts]
            self.values[name] = np.concatenate(parts, axis=-1)
        self._shorten(self.tolerance**2 * share)

    def _shorten(self, lost: float) -> None:
        kernels = [tuple(name for name in names if name in self.values) for names in _SHARED]
        responses = [name.removesuffix("_left_factor") for name in self.values if name.endswith("_left_factor")]
        for names in kernels:
            layers = [fewer_columns([self.values[name][i] for name in names], lost) for i in self._layers(names[0])]
            for name, parts in zip(names, zip(*layers, strict=True), strict=True):
                self.values[name] = same_rank(list(parts), axis=0)
        for name in responses:
            sides = f"{name}_left_factor", f"{name}_right_factor"
            pairs = [
                fewer_pairs(self.values[sides[0]][i], self.values[sides[1]][i], self._causes(name, i), lost)
                for i in self._layers(sides[0])
            ]
            for side, parts in zip(sides, zip(*pairs, strict=True), strict=True):
                self.values[side] = same_rank(list(parts), axis=0)

    def _layers(self, name: str) -> range:
        return range(len(self.values[name]))

    def _causes(self, response: str, layer: int) -> Floats:
        """Factor of the fields that a response multiplies: features of its layer, or gradients of the next."""
        pseudo = "pseudo_" if response.startswith("pseudo_") else ""
        after = response.endswith("gradient_response")
        found: Floats = self.values["features_factor" if after else f"{pseudo}gradients_factor"][layer + (not after)]
        return found

    def arrays(self) -> Arrays:
        """All that it knows, for a checkpoint."""
        labels = {f"{name}/labels": np.asarray(label) for name, label in self.labels.items()}
        values = {f"{name}/values": value for name, value in self.values.items()}
        return {"replicas": np.asarray(self.replicas), **labels, **values}

    def restore(self, arrays: Arrays) -> None:
        """The reverse of `arrays`."""
        self.replicas = int(arrays["replicas"])
        for key, value in arrays.items():
            name, _, kind = key.partition("/")
            if kind == "labels":
                self.labels[name] = tuple(str(label) for label in value)
            elif kind == "values":
                self.values[name] = value


def fewer_columns(parts: list[Float[Floats, "... k"]], lost: float) -> list[Float[Floats, "... fewer"]]:
    """Factors with the same kernels part part'^T but for the fraction `lost` of their traces, and fewer columns."""
    flat = [part.reshape(-1, part.shape[-1]) for part in parts]
    sizes = [float(np.sqrt(np.sum(part**2))) or 1.0 for part in flat]
    rows = np.concatenate([part / size for part, size in zip(flat, sizes, strict=True)])
    if not np.isfinite(rows).all():
        return parts
    if len(rows) < rows.shape[1]:
        strengths, axes = _strongest_first(rows @ rows.T)
        turned = axes * np.sqrt(strengths)
    else:
        strengths, axes = _strongest_first(rows.T @ rows)
        turned = rows @ axes
    turned = turned[:, : _needed(strengths, lost, _ROUNDING)]
    ends = np.cumsum([len(part) for part in flat])[:-1]
    pieces = zip(parts, sizes, np.split(turned, ends), strict=True)
    return [(size * piece).reshape(*part.shape[:-1], -1) for part, size, piece in pieces]


def fewer_pairs(
    left: Float[Floats, "*rows k"], right: Float[Floats, "*columns k"], causes: Float[Floats, "*columns r"], lost: float
) -> tuple[Float[Floats, "*rows fewer"], Float[Floats, "*columns fewer"]]:
    """left' right'^T with the same product with `causes` but for the fraction `lost` of its squares.

    A response means something in front of fields only, so that is where its error is counted. It is projected onto
    those combinations of its rows that are strongest there.
    """
    rows, columns, fields = (value.reshape(-1, value.shape[-1]) for value in (left, right, causes))
    if not (np.isfinite(rows).all() and np.isfinite(columns).all()):
        return left, right
    axes, corner = np.linalg.qr(rows)
    turned, strengths, _ = np.linalg.svd(corner @ (columns.T @ fields), full_matrices=False)
    turned = turned[:, : _needed(strengths**2, lost, _ROUNDING**2)]
    kept, weights = axes @ turned, columns @ (corner.T @ turned)
    return kept.reshape(*left.shape[:-1], -1), weights.reshape(*right.shape[:-1], -1)


def _strongest_first(gram: Float[Floats, "k k"]) -> tuple[Float[Floats, " k"], Float[Floats, "k k"]]:
    values, axes = np.linalg.eigh(gram)
    return np.maximum(values[::-1], 0.0), axes[:, ::-1]


def _needed(strengths: Float[Floats, " k"], lost: float, rounding: float) -> int:
    """How many of these, strongest first, leave no more than the fraction `lost` of their sum."""
    left_out = np.cumsum(strengths[::-1])[::-1]
    least = np.where(np.arange(len(strengths)) < _FREE, rounding, max(lost, rounding))
    return max(1, int(np.sum(left_out > least * left_out[0])))
