"""`widefield study`: all questions about a table of one's own, and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ..base.errors import InvalidInput
from .options import LeaveOut, Overwrite, Quiet, Target
from .solve import targets, words
from .terminal import say

Number = TypeVar("Number", int, float)


def study(
    data: Annotated[Path, typer.Argument(help="Your own data: a CSV or NPZ file.")],
    target: Target = None,
    leave_out: LeaveOut = None,
    classes: Annotated[
        bool, typer.Option("--classes", help="Numbers in the target column are names of classes.")
    ] = False,
    minutes: Annotated[float, typer.Option(help="How long it may take, about.")] = 5.0,
    folder: Annotated[
        Path | None, typer.Option(help="Where report, figures and files go; <name of the data>-study if not given.")
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(help="Learning rules to try beside gradient descent, by commas: feedback-alignment, ..."),
    ] = None,
    richness: Annotated[
        str | None, typer.Option(help="Values of the richness to try, by commas; 0 is the lazy limit.")
    ] = None,
    depths: Annotated[str | None, typer.Option(help="Numbers of hidden layers to try, by commas.")] = None,
    widths: Annotated[str | None, typer.Option(help="Widths to try for the question how wide, by commas.")] = None,
    activation: Annotated[str, typer.Option(help="Of the networks: tanh, relu, gelu, ...")] = "tanh",
    width: Annotated[int, typer.Option(help="Of the networks that are trained.")] = 128,
    seed: Annotated[int, typer.Option(help="Of the splits into training and test samples.")] = 0,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Learning rate, lazy or rich, depth, width, simple machines: what suits your own data, with a report.

    Ctrl-C keeps what is finished; the same command goes on.
    """
    import dataclasses

    from ..studies.plan import NETWORK, Grid
    from ..studies.running import study as ask

    made = ask(
        data,
        target=targets(target),
        leave_out=words(leave_out),
        classes=True if classes else None,
        network=dataclasses.replace(NETWORK, activation=activation),
        minutes=minutes,
        folder=folder,
        richness=Grid.richness if richness is None else _numbers("richness", richness, float),
        depths=Grid.depths if depths is None else _numbers("depths", depths, int),
        widths=Grid.widths if widths is None else _numbers("widths", widths, int),
        rules=words(rules),
        width=width,
        seed=seed,
        overwrite=overwrite,
        progress=not quiet,
    )
    say(str(made))


def _numbers(name: str, given: str, kind: type[Number]) -> list[Number]:
    """Between commas."""
    try:
        return [kind(word) for word in words(given)]
    except ValueError:
        whole = "whole numbers" if kind is int else "numbers"
        raise InvalidInput(f"--{name} {given} must be {whole} with commas between them") from None
