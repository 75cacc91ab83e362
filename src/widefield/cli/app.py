"""The commands in one program."""

from __future__ import annotations

import typer

from ..base.errors import Interrupted, WidefieldError
from . import advise, compare, proportional, solve
from .terminal import fail

app = typer.Typer(
    help="Predict what wide neural networks do, and check it on real networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    solve.solve,
    compare.compare,
    compare.crosscheck,
    advise.advise,
    proportional.proportional,
    proportional.lr_transfer,
    solve.show,
    solve.new,
    solve.demo,
):
    app.command()(command)


def run() -> None:
    """Run the command that was given: errors that widefield raises on purpose become one line and an exit code."""
    try:
        app()
    except Interrupted as error:
        fail(str(error), 130)
    except WidefieldError as error:
        fail(str(error), 2)
