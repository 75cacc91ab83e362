"""Checkpoints: all arrays of an unfinished run in one file (NumPy's open .npz format, no pickle)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import FileProblem
from ..base.files import atomic

_META = "meta"


def save(path: Path, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a checkpoint atomically."""
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    with atomic(path) as temporary, temporary.open("wb") as handle:
        np.savez(handle, allow_pickle=False, **{_META: text, **arrays})


def load(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `save` wrote."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        meta = dict(json.loads(arrays.pop(_META).tobytes()))
    except FileNotFoundError:
        raise FileProblem(f"there is no checkpoint {path}") from None
    except Exception as error:  # damage shows in many ways inside zip, npy and json
        raise FileProblem(f"the checkpoint {path} is damaged: {error}; delete it to start again") from None
    return meta, arrays
