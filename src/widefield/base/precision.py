"""Double precision for our own computations, without changing the user's jax settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jax


@contextmanager
def double_precision() -> Iterator[None]:
    """Within this block jax computes in float64; outside, whatever the user chose stays in force.

    Blocks inside such a block cost nothing: a loop over many averages enters once, around all of them.
    """
    if jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        yield
        return
    with jax.enable_x64(True):
        yield
