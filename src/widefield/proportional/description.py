"""Networks and tasks as text (TOML) and back, without loss: what files of results say about themselves."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ..base.errors import FileProblem, InvalidInput
from .setting import LinearNetwork, LinearTask, Spectrum


def of_network(network: LinearNetwork) -> str:
    """Every field that is not None."""
    return tomli_w.dumps(_table(network))


def of_networks(networks: Sequence[LinearNetwork]) -> str:
    """One table for each."""
    return tomli_w.dumps({"network": [_table(network) for network in networks]})


def of_task(task: LinearTask) -> str:
    """Every field; a spectrum is a table of its own."""
    return tomli_w.dumps(_table(task))


def network(text: str) -> LinearNetwork:
    """What `of_network` wrote."""
    return LinearNetwork(**tomllib.loads(text))


def networks(text: str) -> tuple[LinearNetwork, ...]:
    """What `of_networks` wrote."""
    return tuple(LinearNetwork(**table) for table in tomllib.loads(text)["network"])


def task(text: str) -> LinearTask:
    """What `of_task` wrote."""
    table = tomllib.loads(text)
    if "spectrum" in table:
        table["spectrum"] = Spectrum(**table["spectrum"])
    return LinearTask(**table)


@contextmanager
def understanding(path: str | Path) -> Iterator[None]:
    """Descriptions that make no sense are a problem of the file."""
    try:
        yield
    except (InvalidInput, tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise FileProblem(f"{path} describes a network or task that cannot be understood: {error}") from error


def _table(part: LinearNetwork | LinearTask | Spectrum) -> dict[str, Any]:
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, Spectrum):
        return _table(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
