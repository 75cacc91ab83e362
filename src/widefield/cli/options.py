"""Options that several commands have."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from .terminal import errors, fail

Count = TypeVar("Count", int, int | None)

ProblemFile = Annotated[Path, typer.Argument(help="A problem in TOML; `widefield new` writes one to begin with.")]
Target = Annotated[
    str | None, typer.Option(help="Column to predict, of your own data; several by commas. y if not given.")
]
LeaveOut = Annotated[
    str | None, typer.Option("--leave-out", help="Columns of your own CSV file that are no inputs, by commas.")
]
TestSamples = Annotated[int, typer.Option(help="So many of the last rows of your own data are test samples.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Save to this file (NetCDF).")]
Plot = Annotated[Path | None, typer.Option(help="Draw a figure into this file (png, pdf, svg).")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
Seeds = Annotated[Count, typer.Option(help="Number of independent networks.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]

_LINEAR = {"--layers": "--hidden-layers", "--batch": "--batch-size", "--networks": "--seeds"}

OLD_OPTIONS = {
    "solve": {"--first-seed": "--seed", "--precision": "--dtype"},
    "proportional": {**_LINEAR, "--rate": "--learning-rate"},
    "lr-transfer": {**_LINEAR, "--rates": "--learning-rates"},
}
"""Options of commands that have another name now. The old ones work for one release, with a note."""

Group = TypeVar("Group")


class Command(TyperCommand):
    """A command that takes its options by their old names too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the new name in the place of the old one."""
        words = OLD_OPTIONS.get(self.name or "", {})
        given = [argument.partition("=") for argument in args]
        for old in dict.fromkeys(name for name, _, _ in given if name in words):
            if any(name == words[old] for name, _, _ in given):
                fail(f"{old} and {words[old]} are two words for one thing; give {words[old]} alone", 2)
            errors.print(f"note: {old} is now called {words[old]}", highlight=False, soft_wrap=True)
        return super().parse_args(ctx, [words.get(name, name) + sign + value for name, sign, value in given])


def taking(group: type[Group], **defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command all the options of a dataclass, which comes as its first argument; `defaults` replace those there.

    The command line is read from the signature of a function, so that options which two commands share can be written
    once only if signatures are put together.
    """
    shared = get_type_hints(group, include_extras=True)
    own_defaults = {field.name: field.default for field in fields(group) if field.default is not MISSING}  # type: ignore[arg-type]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def run(**given: Any) -> None:
            command(group(**{name: given.pop(name) for name in shared}), **given)

        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
        known = own_defaults | defaults
        kind = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(name, kind, default=known.get(name, inspect.Parameter.empty), annotation=hint)
            for name, hint in shared.items()
        ]
        parameters = [*(parameter.replace(kind=kind) for parameter in own), *added]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate
