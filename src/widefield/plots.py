"""Figures of trajectories. Every function draws into the axes that it is given, or new ones, and returns them."""

from typing import TYPE_CHECKING

from .base.lazy import load_when_used

if TYPE_CHECKING:
    from .base.drawing import COLOURS as COLOURS
    from .base.drawing import style as style
    from .trajectory.plots import against_width as against_width
    from .trajectory.plots import compare as compare
    from .trajectory.plots import curve as curve
    from .trajectory.plots import distances as distances
    from .trajectory.plots import kernel as kernel
    from .trajectory.plots import losses as losses
    from .trajectory.plots import preactivation_density as preactivation_density
    from .trajectory.plots import summary as summary
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
