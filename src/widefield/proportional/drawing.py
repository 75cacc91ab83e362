"""What the figures of this room share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.arrays import Floats
from ..base.drawing import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


FLOOR = 1e-12
"""Fraction of the first loss below which nothing is drawn: rounding."""


def pair() -> tuple[Figure, tuple[Axes, Axes]]:
    """Two panels side by side."""
    import matplotlib.pyplot as plt

    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.1), layout="constrained")
    return figure, (left, right)


def key(**options: Any) -> Any:
    """An entry of a legend that is no curve."""
    from matplotlib.lines import Line2D

    return Line2D([], [], **{"linestyle": "", "color": "none", **options})


def legend(axes: Axes, handles: Sequence[Any], title: str | None = None) -> None:
    """Beside the axes, never on curves."""
    place: Any = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "alignment": "left"}
    axes.legend(handles=list(handles), title=title, fontsize="small", title_fontsize="small", frameon=False, **place)


def positive(values: Floats) -> Floats:
    """Without what a logarithm cannot show."""
    return np.where(values > 0, values, np.nan)
