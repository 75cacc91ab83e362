"""`widefield study`: all questions about a table of one's own, and a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Overwrite, Quiet, Target
from .solve import targets
from .terminal import say


def study(
    data: Annotated[Path, typer.Argument(help="Your own data: a CSV or NPZ file.")],
    target: Target = None,
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

    from ..studies.plan import NETWORK
    from ..studies.running import study as ask

    made = ask(
        data,
        target=targets(target),
        classes=True if classes else None,
        network=dataclasses.replace(NETWORK, activation=activation),
        minutes=minutes,
        folder=folder,
        rules=[] if rules is None else [rule.strip() for rule in rules.split(",") if rule.strip()],
        width=width,
        seed=seed,
        overwrite=overwrite,
        progress=not quiet,
    )
    say(str(made))
