"""Truths take long to compute and little room: they are kept in `benchmarks/truths`, as numbers and text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import widefield as wf
from claims.truths import Truth, TruthNotGoodEnough, asked
from widefield.base import files

FOLDER = Path(__file__).parents[1] / "truths"
METHOD = "real networks of three widths, float32; 2 m(2N) - m(N) of the wider two (Richardson)"


def path_of(name: str, folder: Path = FOLDER) -> Path:
    """Where the truth of a claim is kept."""
    return folder / f"{name}.npz"


def save(truth: Truth, path: Path) -> None:
    """Values in single precision, everything else as JSON in an array of text; nothing is pickled."""
    about = {
        "method": METHOD,
        "problem": truth.problem,
        "steps": truth.record.steps,
        "samples": truth.record.samples,
        "networks": truth.networks,
        "own_error": truth.own_error,
        "bias": truth.bias,
        "spread": truth.spread,
    }
    arrays: dict[str, Any] = {name: value.astype(np.float32) for name, value in truth.values.items()}
    with files.atomic(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(about)), **arrays)


def load(problem: wf.Problem, path: Path) -> Truth:
    """The truth of this problem; raises if it was never computed, or for another problem."""
    if not path.exists():
        raise TruthNotGoodEnough(f"there is no {path.name}: --truths {path.stem} computes it")
    with np.load(path, allow_pickle=False) as archive:
        about = json.loads(str(archive["about"]))
        values = {name: archive[name].astype(np.float64) for name in archive.files if name != "about"}
    if about["problem"] != asked(problem):
        raise TruthNotGoodEnough(f"{path.name} is of another problem: --truths {path.stem} computes it anew")
    return Truth(
        problem=about["problem"],
        record=wf.Record(steps=about["steps"], samples=about["samples"], neurons=0),
        networks=_by_width(about["networks"]),
        values=values,
        own_error=about["own_error"],
        bias=_by_width(about["bias"]),
        spread=_by_width(about["spread"]),
    )


def _by_width(table: dict[str, Any]) -> dict[int, Any]:
    return {int(width): value for width, value in table.items()}
