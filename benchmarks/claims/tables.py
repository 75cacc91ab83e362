"""The table of claims, for terminals and for the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from claims.floors import Floor
from claims.measuring import Measured

HEADINGS = ("claim", "ours", "theirs", "ratio", "interval", "promised", "verdict")


def cells(measured: Measured, *, judged: bool = True) -> tuple[str, ...]:
    """A row."""
    low, high, coverage = measured.interval
    return (
        measured.floor.name,
        f"{measured.ours:.3g} {measured.unit}",
        f"{measured.theirs:.3g} {measured.unit}",
        f"{measured.ratio:.2f}",
        f"{low:.2f} to {high:.2f} ({coverage:.0%})",
        measured.floor.promise,
        str(measured.verdict) if judged else "not judged",
    )


def broken_cells(floor: Floor, reason: str) -> tuple[str, ...]:
    """The row of a claim that could not be measured."""
    return (floor.name, "", "", "", "", floor.promise, f"not measured: {reason}")


def terminal(rows: Sequence[tuple[str, ...]]) -> Table:
    """For `rich`."""
    table = Table(title="claims: medians over interleaved pairs, intervals of the median by order statistics")
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading in ("claim", "verdict") else "right")
    for row in rows:
        table.add_row(*row)
    return table


def markdown(rows: Sequence[tuple[str, ...]], floors: Mapping[str, Floor], notes: Sequence[str]) -> str:
    """For the docs: the table, then what each claim compares, then notes."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *rows]
    table = [f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines]
    sentences = [f"- **{row[0]}**: {floors[row[0]].sentence}" for row in rows]
    return "\n".join([*table, "", *sentences, *(["", *(f"- {note}" for note in notes)] if notes else [])]) + "\n"
