"""How predicted correlators and those of random networks agree: the answer of `check`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from ..base import check as checks
from ..base.arrays import Floats
from ..base.renamed import former, renamed
from ..base.result import Result
from ..base.statistics import standard_errors
from ..problem.network import MLP
from .tangent_result import NTKFlow
from .vertex_flow import Flow

_COLUMNS = ("predicted", "measured", "error", "higher_order", "limit_error")

Measured = tuple[Floats, Floats]
"""Values at some width, and their standard errors."""


@renamed(bias="higher_order")
@dataclass(frozen=True, eq=False)
class Correlator:
    """One kind of correlator: predictions, measurements at finite width and what is expected to lie between them.

    `measured` are numbers at the widths asked for, with standard errors `error`. Their difference from the prediction
    has a part of higher order in 1/n, which `higher_order` estimates from networks of twice the width; `limit` is
    measured - higher_order, with the standard error `limit_error` (which includes that of the prediction).
    """

    name: str
    predicted: Floats
    measured: Floats
    error: Floats
    higher_order: Floats
    limit_error: Floats

    @classmethod
    def of_mean(
        cls, name: str, predicted: Floats, shift: Floats, uncertain: Floats, narrow: Measured, wide: Measured
    ) -> Correlator:
        """A mean K + G/n + O(1/n^2), of which `predicted` has both terms and `shift` is G/n.

        With G known, [4 (m(2n) - K - G/2n) - (m(n) - K - G/n)] / 3 is O(1/n^3).
        """
        (one, error), (two, other), half = narrow, wide, predicted - shift / 2
        higher = (one - predicted) - (4 * (two - half) - (one - predicted)) / 3
        combined = np.sqrt((error / 3) ** 2 + (4 * other / 3) ** 2 + uncertain**2)
        return cls(name, predicted, one, error, higher, combined)

    @classmethod
    def of_limit(
        cls, name: str, predicted: Floats, uncertain: Floats, narrow: Measured, wide: Measured, scale: float = 1.0
    ) -> Correlator:
        """A correlator Q + b/n, predicted to leading order; `scale` is 2 if it is proportional to 1/n itself."""
        (one, error), (two, other) = narrow, wide
        combined = np.sqrt(error**2 + (2 * scale * other) ** 2 + uncertain**2)
        return cls(name, predicted, one, error, 2 * (one - scale * two), combined)

    @property
    def difference(self) -> Floats:
        """Measured at this width, minus predicted."""
        return self.measured - self.predicted

    @property
    def limit(self) -> Floats:
        """Measured, without what is of higher order."""
        return self.measured - self.higher_order

    @property
    def z(self) -> Floats:
        """(limit - predicted) / standard error; 0 where neither has any scatter and both agree."""
        return standard_errors(self.limit, self.predicted, self.limit_error)

    @property
    def worst(self) -> float:
        """Largest |z|."""
        return float(np.abs(self.z).max())

    @property
    def resolution(self) -> float:
        """Smallest standard error relative to the prediction: inf if nothing is predicted but zeros."""
        size = np.abs(self.predicted)
        seen = size > 1e-9 * np.abs(self.measured)
        return float((self.limit_error[seen] / size[seen]).min()) if seen.any() else math.inf


@dataclass(frozen=True, eq=False)
class Check(Result, kind="check of a flow", asked={"network": MLP}, figure="widefield.effective.plots:agreement"):
    """Theory against networks: `metric`, `vertex`, `nlo_metric` of the layers 2 .. L+1; `four_point` of the outputs, or
    all correlators of the NTK (`ntk`, `nlo_ntk`, `cross_shared`, `cross_paired`, `variance_shared`, `variance_paired`,
    and `between_layers` of neighbours). With targets there are `log_evidence`, `posterior_mean`, `posterior_covariance`
    and `learned_metric`, E[Ghat | y] of the layers 2 .. L+1, and with `nlo_` before it n_L times what finite width adds
    to the first three; `gradients` are the means of squared gradients and
    `gradient_variance` n_L times their variances, of the biases of the layers 1 .. L, then of all weights.

    metric is E[Ghat] over pairs, vertex n_{l-1} Cov(Ghat, Ghat), nlo_metric n_{l-1} (E[Ghat] - K) and four_point
    Cov(z_ia z_ib, z_jc z_jd) of two outputs i != j, which is E[z z z z]_c of PDLT eq. (4.77) there.

    `data` has the numbers of every `Correlator` (`predicted`, `measured`, `error`, `higher_order`, `limit_error`) over
    the axes `correlator` and `entry`, NaN where there are fewer entries, and beside them the variables of the `flow`;
    its attributes are `seeds`, `threshold` and `explicit`.
    """

    network: MLP

    @classmethod
    def of(
        cls, theory: Flow, correlators: Sequence[Correlator], *, seeds: int, threshold: float, explicit: bool
    ) -> Check:
        """Entries side by side, with the flow that predicted them."""
        most = max(c.predicted.size for c in correlators)
        variables = {}
        for name in _COLUMNS:
            rows = [getattr(c, name).ravel() for c in correlators]
            padded = np.stack([np.pad(row, (0, most - row.size), constant_values=np.nan) for row in rows])
            variables[name] = (("correlator", "entry"), padded)
        data = theory.data.assign(variables).assign_coords(correlator=[c.name for c in correlators])
        return cls(data.assign_attrs(seeds=seeds, threshold=threshold, explicit=int(explicit)), theory.network)

    @cached_property
    def flow(self) -> Flow:
        """The prediction."""
        names = [*_COLUMNS, "correlator"]
        kind = NTKFlow if "ntk" in self.data else Flow
        return kind(self.data.drop_vars(names).drop_attrs(deep=False), self.network)

    @property
    def seeds(self) -> int:
        """Networks of each width."""
        return int(self.data.attrs["seeds"])

    draws = former("Check", "draws", "seeds")

    @property
    def threshold(self) -> float:
        """Standard errors within which numbers agree."""
        return float(self.data.attrs["threshold"])

    @property
    def explicit(self) -> bool:
        """Whether networks were drawn with all their weights, not by their metrics."""
        return bool(self.data.attrs["explicit"])

    @cached_property
    def correlators(self) -> tuple[Correlator, ...]:
        """One of each kind."""
        layers, size, samples = self.flow.depth - 1, len(self.flow.pairs), self.flow.data.sizes["sample"]
        square, labels = (layers, size, size), (layers, *(samples,) * 4)
        shapes = {"vertex": square, "four_point": (size, size), "cross_shared": square, "variance_shared": square}
        shapes |= {"cross_paired": labels, "variance_paired": labels}
        shapes |= dict.fromkeys(("metric", "nlo_metric", "ntk", "nlo_ntk"), (layers, size))
        shapes["between_layers"] = (layers - 1, 2, size, 2, size)
        found = []
        for name in self.data["correlator"].values:
            count = int(np.isfinite(self.data["predicted"].sel(correlator=name)).sum())
            shape = shapes.get(str(name), (count,))
            rows = (self.data[column].sel(correlator=name).values[: math.prod(shape)] for column in _COLUMNS)
            found.append(Correlator(str(name), *(row.reshape(shape) for row in rows)))
        return tuple(found)

    def __getitem__(self, name: str) -> Correlator:
        """The correlator of this name."""
        checks.choice("correlator", name, [c.name for c in self.correlators])
        return next(c for c in self.correlators if c.name == name)

    @property
    def agrees(self) -> bool:
        """Whether every number is within `threshold` standard errors."""
        return all(c.worst <= self.threshold for c in self.correlators)

    @property
    def verdict(self) -> str:
        """In words: agreement, and how small a difference would have spoiled it."""
        total, worst = sum(c.z.size for c in self.correlators), max(self.correlators, key=lambda c: c.worst)
        if not self.agrees:
            apart = sum(int((np.abs(c.z) > self.threshold).sum()) for c in self.correlators)
            return (
                f"DIFFERS: {apart} of {total} numbers are more than {self.threshold:g} standard errors from the "
                f"networks, the worst, of {worst.name}, {worst.worst:.1f}."
            )
        return (
            f"agrees: all {total} numbers are within {self.threshold:g} standard errors of the networks, the worst, "
            f"of {worst.name}, {worst.worst:.1f}. A vertex off by {self.threshold * self['vertex'].resolution:.1%} "
            "would have been noticed."
        )

    def summary(self) -> xr.Dataset:
        """A table. For every kind the largest |z|, the largest difference and part of higher order (both relative to
        the largest prediction) and the smallest change of all predictions by one factor that would be `noticed`.
        """
        rows = []
        for c in self.correlators:
            size = max(float(np.abs(c.predicted).max()), float(np.finfo(np.float64).tiny))
            off, higher_order = (float(np.abs(part).max()) / size for part in (c.difference, c.higher_order))
            rows.append((c.z.size, c.worst, off, higher_order, self.threshold * c.resolution))
        names = ("numbers", "largest_z", "relative_difference", "relative_higher_order", "noticed")
        columns = {name: ("correlator", [row[k] for row in rows]) for k, name in enumerate(names)}
        return xr.Dataset(columns, coords={"correlator": [c.name for c in self.correlators]})

    def dataset(self) -> xr.Dataset:
        """As `summary`: use that."""
        warnings.warn("Check.dataset() is now Check.summary()", DeprecationWarning, stacklevel=2)
        return self.summary().rename(relative_higher_order="relative_bias")

    @property
    def heading(self) -> str:
        """What was compared, in a line."""
        what = "drawn with all their weights" if self.explicit else "drawn by their metrics"
        return f"{self.flow.heading}: {self.seeds} networks {what}, and as many of twice the width."

    def table(self) -> Any:
        """`summary`, for a terminal."""
        from ..base import tables

        headings = ("correlator", "numbers", "largest |z|", "off at this width", "of higher order", "would notice")
        table = tables.table(headings, words=1)
        for name, row in self.summary().to_dataframe().iterrows():
            parts = (_percent(row[key]) for key in ("relative_difference", "relative_higher_order", "noticed"))
            table.add_row(str(name), f"{row['numbers']:.0f}", f"{row['largest_z']:.2f}", *parts)
        return table

    def lacks(self) -> str:
        """What is missing in a file."""
        missing = sorted({*_COLUMNS, "correlator"} - set(self.data.variables))
        missing += sorted({"seeds", "threshold", "explicit"} - set(self.data.attrs))
        return f"it lacks {', '.join(missing)}" if missing else self.flow.lacks()


def _percent(fraction: float) -> str:
    """A dash where nothing is predicted that anything could be relative to."""
    return f"{fraction:.2%}" if fraction < 100 else "-"
