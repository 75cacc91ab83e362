"""How wide is wide enough, in words."""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxtyping import Float

from ..base.arrays import Floats
from .judging import Estimate

WITHIN = 0.05


class Few(NamedTuple):
    """Of few samples alone: how many, and the width at which outputs are within 5%, by theory and from networks."""

    samples: int = 0
    theory: float = math.nan
    networks: float = math.nan
    error: float = math.nan
    """Of the last, one standard error."""


def enough(widths: Float[Floats, " n"], near: Estimate) -> int:
    """The smallest width that was tried whose test loss is within 5% of infinite width; the next beyond if none is.

    The largest that was tried where that cannot be told.
    """
    for value in widths:
        if near.mean <= value:
            return int(value)
    if not math.isfinite(near.mean):
        return int(widths[-1])
    return int(2 ** math.ceil(math.log2(max(near.mean, 1.0))))


def how_wide(widths: Float[Floats, " n"], near: Estimate, narrow: Estimate, few: Few, last: Estimate) -> str:
    """Two meanings of wide enough: for the loss, and for what a single network says."""
    half = near.half()
    if not math.isfinite(near.mean):
        first = (
            f"Up to width {widths[-1]:g} the test loss still falls, to nothing by extrapolation, so that it cannot be "
            "told where it is within 5%: take the widest."
        )
    elif near.mean - half <= 0 and near.mean <= widths[0]:
        first = f"For the test loss any width will do: from {widths[0]:g} on there is no difference within error bars."
    elif near.mean <= widths[0]:
        first = f"For the test loss width {widths[0]:g}, the smallest tried, is within 5% of infinite width already."
    else:
        beyond = " (beyond what was tried, by extrapolation)" if near.mean > widths[-1] else ""
        first = f"The test loss is within 5% of infinite width from about width {_round(near)} on{beyond}."
    second = _single_networks(widths, narrow, last)
    third = ""
    if few.samples:
        theory, networks = (_round(Estimate(*pair, 1)) for pair in ((few.theory, math.nan), (few.networks, few.error)))
        third = (
            f" On {few.samples} of the samples alone, where single networks say less, the theory of fluctuations (lazy "
            f"limit) gives {theory} and networks give {networks}."
        )
    return f"{first} {second}{third}"


def _single_networks(widths: Float[Floats, " n"], narrow: Estimate, last: Estimate) -> str:
    """How far the outputs of one network are from the mean over networks; `last` is that of the largest width."""
    if not math.isfinite(narrow.mean):
        return "Outputs of single networks are mostly scatter: no width can be named at which they are within 5%."
    found = f"by {100 * last.mean:.2g}% of their size at width {widths[-1]:g}"
    law = f"from about width {_round(narrow)} on, measured on networks and extrapolated by 1 / sqrt(width)"
    if last.mean > WITHIN:
        return f"Outputs of single networks differ for longer: {found} from the mean over networks, and by 5% {law}."
    if narrow.mean > widths[-1]:  # the widest one alone is within, but the law through all widths is not
        return (
            f"Outputs of single networks differ from the mean over networks {found}, which is within 5%; by the law "
            f"through all widths they are {law}."
        )
    return f"Outputs of single networks are within 5% of the mean over networks too: {found}, and by 5% {law}."


def _round(value: Estimate) -> str:
    """Two digits and the error; outputs that are all scatter have no such width."""
    if not math.isfinite(value.mean):
        return "no width that can be told"
    scale = 10 ** (math.floor(math.log10(max(value.mean, 1.0))) - 1)
    rounded = [f"{round(part / scale) * scale:.0f}" for part in (value.mean, value.error) if math.isfinite(part)]
    return " ± ".join(rounded)
