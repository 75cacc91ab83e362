"""The look that all figures share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""


_STYLE: Any = {
    "figure.dpi": 120,
    "savefig.dpi": 200,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "image.cmap": "RdBu_r",
}


@contextmanager
def style() -> Iterator[None]:
    """Our look, for the figures made inside the block only."""
    import matplotlib as mpl
    from cycler import cycler

    with mpl.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
        yield


def axes_or_new(axes: Axes | None) -> Axes:
    """The axes given, or new ones in our look."""
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    with style():
        return plt.subplots(figsize=(3.6, 2.8), layout="constrained")[1]
