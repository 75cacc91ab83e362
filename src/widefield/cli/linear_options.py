"""Options of `widefield proportional` and `widefield lr-transfer`: network, task, files, real networks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Output, Overwrite, Plot, Quiet, Seeds
from .terminal import check_answer, check_figure, check_new, fail, say

if TYPE_CHECKING:
    from ..base.result import Result
    from ..proportional import LinearNetwork, LinearTask


@dataclass(frozen=True)
class LinearOptions:
    """What both commands take."""

    steps: Annotated[int, typer.Option(help="Steps of gradient descent.")]
    hidden_layers: Annotated[
        str | None, typer.Option(help="Hidden layers L, or inf with --depth-scaled; 2 if not given.")
    ] = None
    width: Annotated[
        float | None, typer.Option(help="Width over dimension, N/D, of all hidden layers; inf if not given.")
    ] = None
    richness: Annotated[float, typer.Option(help="gamma_0; gamma with --parameterisation ntk.")] = 1.0
    parameterisation: Annotated[str, typer.Option(help="mean-field or ntk.")] = "mean-field"
    samples: Annotated[float | None, typer.Option(help="Samples of a fixed training set over dimension, P/D.")] = None
    batch_size: Annotated[float | None, typer.Option(help="Fresh samples in every step over dimension, B/D.")] = None
    noise: Annotated[float, typer.Option(help="Standard deviation of label noise.")] = 0.0
    branch: Annotated[float | None, typer.Option(help="Scale of the branches of a residual network.")] = None
    depth_scaled: Annotated[bool, typer.Option("--depth-scaled", help="Branches are divided by sqrt(L).")] = False
    centred: Annotated[bool, typer.Option("--centred", help="The network at the start is subtracted.")] = False
    power_law: Annotated[
        str | None, typer.Option(help="capacity,source,modes of the inputs; sizes are then N, P and B, not over D.")
    ] = None
    simulate: Annotated[int | None, typer.Option(help="Train networks of this input dimension D as well.")] = None
    seeds: Seeds[int] = 16
    seed: Annotated[int, typer.Option(help="Of the networks.")] = 0
    output: Output = None
    plot: Plot = None
    overwrite: Overwrite = False
    quiet: Quiet = False

    @property
    def depth(self) -> float:
        """L."""
        return whole(numbers("--hidden-layers", self.hidden_layers or "2")[0])

    def network(self, depth: float, width: float | tuple[float, ...] | None) -> LinearNetwork:
        """The network with this depth and width; None is infinite."""
        from ..proportional import LinearNetwork

        width = math.inf if width is None else width
        scales = (self.richness, self.parameterisation, self.branch, self.depth_scaled, self.centred)
        return LinearNetwork(depth, width, *scales)

    def task(self) -> LinearTask:
        """The task."""
        from ..proportional import LinearTask, power_law

        spectrum = None
        if self.power_law is not None:
            found = numbers("--power-law", self.power_law)
            if len(found) != 3 or not math.isfinite(found[2]) or found[2] != int(found[2]):
                fail(f"--power-law = {self.power_law!r} must be capacity,source,modes such as 1.5,0.5,100", 2)
            spectrum = power_law(found[0], found[1], int(found[2]))
        if self.samples is not None and self.batch_size is not None:
            fail("--samples and --batch-size exclude each other: take a fixed training set, or fresh samples", 2)
        samples, batch_size = (math.inf if value is None else value for value in (self.samples, self.batch_size))
        return LinearTask(samples, batch_size, self.noise, spectrum=spectrum)

    def check(self, trained: Iterable[LinearNetwork], task: LinearTask) -> None:
        """Refuse before any work files that could not be written and networks that could not be trained after it."""
        from ..base import check
        from ..proportional.simulation import Sizes

        check_answer(self.output)
        check_new(self.output, overwrite=self.overwrite)
        if self.output is not None and self.simulate is not None:
            check_new(_beside(self.output), overwrite=self.overwrite)
        check_figure(self.plot, overwrite=self.overwrite)
        if self.simulate is None:
            return
        check.integer("seeds", self.seeds, least=2)
        for network in trained:
            Sizes.of(network, task, check.integer("simulate", self.simulate, least=1))

    def save(self, found: Result, trained: Result | None) -> None:
        """Write the answer, and networks beside it."""
        if self.output is None:
            return
        found.save(self.output)
        say(f"saved {self.output}")
        if trained is not None:
            trained.save(_beside(self.output))
            say(f"saved {_beside(self.output)}")


def _beside(output: Path) -> Path:
    """Where networks go."""
    return output.with_stem(f"{output.stem}-networks")


def numbers(option: str, text: str) -> list[float]:
    """Numbers separated by commas."""
    try:
        found = [float(part.replace("∞", "inf")) for part in text.split(",")]
    except ValueError:
        fail(f"{option} = {text!r} must be numbers separated by commas", 2)
    if any(math.isnan(value) for value in found):
        fail(f"{option} = {text!r} must be numbers separated by commas", 2)
    return found


def whole(value: float) -> float:
    """A whole number as one."""
    return int(value) if math.isfinite(value) and value == int(value) else value
