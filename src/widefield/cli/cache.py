"""`widefield cache`, and commands that find their programs compiled by earlier ones."""

from __future__ import annotations

import os
import warnings
from typing import Annotated, Any

import typer

from ..base.errors import FileProblem
from .options import Command
from .terminal import errors, say


class Computing(Command):
    """A command that computes: what it compiles is kept on disk."""

    def invoke(self, ctx: Any) -> Any:
        """Switch the cache on, and then run. Where it cannot be used a note says so, once."""
        from ..base import cache

        try:
            cache.enable(throw=True)
        except FileProblem as problem:
            note = f"note: compiled programs are not kept: {problem}"
            errors.print(note, highlight=False, markup=False, soft_wrap=True)
        # A program that another process is just writing is compiled again, and so are all of them on a full disk.
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
        return super().invoke(ctx)


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all programs.")] = False,
) -> None:
    """Where compiled programs are kept, how many and how large."""
    from ..base import cache as kept

    folder = kept.folder()
    if folder is None:
        say("off: WIDEFIELD_CACHE is off, or there is no home folder")
        return
    say(f"{folder.parent}: {_amount(len(kept.programs()), kept.size())}")
    if clear:
        say(f"removed {_amount(kept.clear())}")
    if given := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        say(f"not in use: JAX_COMPILATION_CACHE_DIR is {given}")


def _amount(programs: int, size: int | None = None) -> str:
    """Programs and bytes in words."""
    counted = f"{programs} program{'' if programs == 1 else 's'}"
    return counted if size is None else f"{counted}, {size / 1e6:.1f} MB"
