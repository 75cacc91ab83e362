"""Measures the claims of `floors.toml`, prints them as a table, and ends with 1 if one fails.

    python benchmarks/speed_claims.py [--only default-former cold-former] [--markdown table.md] [--quick]
    python benchmarks/speed_claims.py --truths [default sphere ...] [--estimate]

Errors that ensembles of networks have to match are measured against truths (`claims/truths.py`), which are kept in
`benchmarks/truths`; `--truths` computes them anew, which takes hours: `--estimate` says how many. `--quick` takes tiny
sizes, to try the scripts: nothing is judged then, and no truth is kept.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import jax
from rich.console import Console

from claims import known_truths, tables, truth_costs, truth_files
from claims.floors import FLOORS, Floor, Verdict, check_complete, read
from claims.infinite_width import CLAIMS, REPORTS
from claims.measuring import measure
from claims.problems import FULL, QUICK, Sizes
from widefield.base import files

console = Console(width=160)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code."""
    options = _options(arguments)
    sizes = QUICK if options.quick else FULL
    floors = read(options.floors)
    check_complete(floors, CLAIMS)
    if options.estimate:
        _estimate_truths(options.truths or list(known_truths.KNOWN), sizes)
        return 0
    if options.truths is not None:
        _compute_truths(options.truths or list(known_truths.KNOWN), sizes)
        return 0
    rows, notes, failed = [], [], False
    for name in options.only or [*CLAIMS, *REPORTS]:
        if name in REPORTS:
            remarks, kept = reported(name, sizes)
        else:
            row, remarks, kept = judged(name, floors[name], sizes)
            rows.append(row)
        failed = failed or not kept
        notes += [f"{name}: {remark}" for remark in remarks]
    console.print(tables.terminal(rows))
    for note in notes:
        console.print(note, highlight=False)
    if options.markdown is not None:
        files.write_text(options.markdown, tables.markdown(rows, floors, notes))
    return int(failed)


def judged(name: str, floor: Floor, sizes: Sizes) -> tuple[tuple[str, ...], list[str], bool]:
    """The row of a claim, its notes, and whether it did not fail; what cannot be measured has failed."""
    try:
        tried = dataclasses.replace(floor, pairs=2) if sizes.quick else floor
        measured = measure(CLAIMS[name](sizes), tried)
    except Exception as problem:  # the other claims are measured all the same
        return tables.broken_cells(floor, f"{type(problem).__name__}: {problem}"), [], False
    finally:
        jax.clear_caches()
        gc.collect()
    kept = sizes.quick or measured.verdict is not Verdict.FAILS
    return tables.cells(measured, judged=not sizes.quick), measured.notes, kept


def reported(name: str, sizes: Sizes) -> tuple[list[str], bool]:
    """What is measured without a promise, and whether it could be measured."""
    try:
        return [REPORTS[name](sizes)], True
    except Exception as problem:  # the table is printed all the same
        return [f"not measured: {type(problem).__name__}: {problem}"], False


def _compute_truths(names: Sequence[str], sizes: Sizes) -> None:
    for name in names:
        began = time.perf_counter()
        if sizes.quick:
            _, truth = known_truths.load(name, sizes)
        else:
            truth = known_truths.compute(name, sizes, truth_files.FOLDER)
        spent, worst = time.perf_counter() - began, max(truth.own_error.values())
        console.print(f"truth of {name}: networks {truth.networks}, own error {worst:.2%}, {spent:.0f} s")


def _estimate_truths(names: Sequence[str], sizes: Sizes) -> None:
    for name in names:
        known = known_truths.KNOWN[name]
        costs = truth_costs.estimate(known.problem(sizes), known.effort(sizes))
        parts = [f"{cost.networks} of width {cost.width} ({1e3 * cost.seconds_each:.1f} ms each)" for cost in costs]
        minutes = sum(cost.minutes for cost in costs)
        console.print(f"truth of {name}: {', '.join(parts)}: {minutes:.0f} minutes")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*CLAIMS, *REPORTS], help="these claims")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    parser.add_argument("--quick", action="store_true", help="tiny sizes")
    parser.add_argument("--truths", nargs="*", choices=list(known_truths.KNOWN), help="compute truths and end")
    parser.add_argument("--estimate", action="store_true", help="only say what the truths would cost")
    parser.add_argument("--floors", type=Path, default=FLOORS, help="another file of promises")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
