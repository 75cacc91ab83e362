"""Tables of numbers, for terminals and for `str`."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray
from rich import box
from rich.console import Console, Group
from rich.table import Table


def table(headings: Sequence[str], title: str | None = None, caption: str | None = None, *, words: int = 0) -> Table:
    """An empty table; the first `words` columns hold words and begin at the left, the others are numbers."""
    made = Table(title=title, caption=caption, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for place, heading in enumerate(headings):
        made.add_column(heading, justify="left" if place < words else "right", no_wrap=True)
    return made


def stacked(*tables: Table) -> Group:
    """Tables below one another."""
    return Group(*tables)


def rows(count: int, most: int = 9) -> Int[NDArray[np.int64], " n"]:
    """The first of `count`, the last, and some between them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(np.int64))


def number(value: float) -> str:
    """A number in few letters."""
    return "∞" if math.isinf(value) else f"{value:g}"


def with_error(mean: float, error: float) -> str:
    """A number and its standard error, where there is one."""
    return f"{mean:.4g} ± {error:.1g}" if error > 0 else f"{mean:.4g}"


def brief(value: float) -> str:
    """A relative difference: percents, or a power of ten where they would be 0."""
    return f"{value:.2%}" if value >= 1e-4 else f"{value:.0e}".replace("e-0", "e-")


def as_text(*parts: Any, width: int = 110) -> str:
    """What a terminal without colours would show."""
    console = Console(width=width, color_system=None, force_terminal=False, markup=False, file=io.StringIO())
    with console.capture() as captured:
        console.print(*parts, sep="\n")
    return "\n".join(line.rstrip() for line in captured.get().splitlines() if line.strip())
