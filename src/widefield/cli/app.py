"""The commands in one program."""

from __future__ import annotations

from typing import Annotated

import typer

from ..base.errors import Interrupted, WidefieldError
from . import advise, cache, compare, proportional, solve, study
from .cache import Computing
from .options import Command
from .terminal import fail, say

app = typer.Typer(
    help="Predict what wide neural networks do, and check it on real networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from ..base.version import __version__

        say(f"widefield {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


for command, kind in (
    (solve.solve, Computing),
    (compare.compare, Computing),
    (compare.crosscheck, Computing),
    (study.study, Computing),
    (advise.advise, Computing),
    (proportional.proportional, Computing),
    (proportional.lr_transfer, Computing),
    (solve.show, Command),
    (solve.new, Command),
    (solve.demo, Computing),
    (cache.cache, Command),
):
    app.command(cls=kind)(command)


def run() -> None:
    """Run the command that was given: errors that widefield raises on purpose become one line and an exit code."""
    try:
        app()
    except Interrupted as error:
        fail(str(error), 130)
    except WidefieldError as error:
        fail(str(error), 2)
