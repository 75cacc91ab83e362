"""`study`: all questions about one's own data, within a number of minutes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from ..base import check, files
from ..base.errors import Interrupted, InvalidInput
from ..base.session import says
from ..data.dividing import splits
from ..data.source import DataSource
from ..problem.network import MLP
from ..problem.rules import LearningRule
from . import baselines, beginnings, scans
from . import widths as width_question
from .answers import Answer, Study
from .concluding import concluded
from .desk import Desk
from .given import Given, as_given
from .keeping import Folder, Part, digest
from .plan import (
    NETWORK,
    TEST_SHARE,
    WIDTH,
    Clock,
    Costs,
    Grid,
    Plan,
    from_table,
    in_words,
    measured,
    planned,
    to_table,
)
from .training import Bench

LEAST_ROWS = 20
_ASK: dict[str, Callable[[Desk], Answer | None]] = {
    "scale": beginnings.scale,
    "rate": beginnings.rate,
    "baselines": baselines.baselines,
    "richness": scans.richness,
    "depth": scans.depth,
    "width": width_question.width,
    "rule": scans.rule,
}
_PILOT_ROWS = 150
_METHOD = 3
"""Of training and choosing rates: parts that were made by another one are not mixed with these."""


def study(
    X: Any,
    y: Any = None,
    *,
    target: str | Sequence[str] = "y",
    leave_out: str | Sequence[str] = (),
    classes: bool | None = None,
    network: MLP | None = None,
    minutes: float = 5.0,
    folder: str | Path | None = None,
    richness: Sequence[float] = Grid.richness,
    depths: Sequence[int] = Grid.depths,
    widths: Sequence[int] = Grid.widths,
    rules: Sequence[str] = (),
    width: int = WIDTH,
    seed: int = 0,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Study:
    """Ask all questions about your own data: scale, learning rate, lazy or rich, depth, width, rule, simple machines.

    Writes a folder: `report.html`, which holds everything, figures, and NetCDF files that `wf.load` opens. Sizes of
    runs follow from a pilot and the minutes that there are; questions come in order of importance, and those without
    time are named. Interrupted, the same call goes on where it was.

    Args:
        X: inputs, a row a sample (arrays, frames); or a data source; or the path of a CSV or NPZ file.
        y: targets; words are classes. None if X is a source or a file.
        target: column of a file that is predicted, or several.
        leave_out: columns of a CSV file that are no inputs.
        classes: whether numbers are names of classes; None takes words only.
        network: what is varied; None is two hidden layers of tanh with biases, richness 1.
        minutes: that it may take, about.
        folder: where everything goes; None is "study", of a file "<its name>-study".
        richness: values of gamma_0 that are tried; 0 is the lazy limit, by theory.
        depths: numbers of hidden layers that are tried.
        widths: of networks, that are tried for the question how wide is wide enough.
        rules: learning rules that are tried beside gradient descent, by their kind: "feedback-alignment", ...
        width: of the networks that all other questions are asked of.
        seed: of splits; networks have the seeds 0, 1, ...
        overwrite: begin again in a folder that holds another study.
        progress: True or False for lines of progress, None for them on terminals only.
    """
    said = says(progress)
    given = as_given(X, y, target, classes, leave_out)
    raw = given.samples()
    if raw.samples < LEAST_ROWS:
        raise InvalidInput(f"data have {raw.samples} rows: a study needs at least {LEAST_ROWS}")
    grid = _grid(richness, depths, widths, rules)
    base = NETWORK if network is None else network
    if not isinstance(base, MLP) or base.richness <= 0 or base.parameterisation != "mean-field":
        raise InvalidInput(f"network = {check.shown(base)} must be an MLP of positive richness in 'mean-field'")
    for name in ("weight_variances", "bias_variances", "width_ratios"):
        if isinstance(getattr(base, name), tuple):
            value = getattr(base, name)
            raise InvalidInput(f"network.{name} = {value} has a number for each layer, but depths are varied: give one")
    width = check.integer("width", width, least=2)
    clock = Clock(check.number("minutes", minutes, above=0.0))
    asked = {"data": digest(raw), "network": tomli_w.dumps(base.to_table()), "width": width, "seed": int(seed)}
    asked["method"] = _METHOD
    kept = Folder(Path(folder if folder is not None else given.folder), asked, overwrite=overwrite)
    try:
        with files.claimed(kept.path / "study.toml"):
            plan, bench, costs = _prepared(given.source, raw.samples, kept, clock, base, grid, width, seed, said)
            desk = Desk(raw, getattr(given.source, "columns", None), bench, kept, clock, costs, base, grid, said)
            return _asked(desk, plan, given, seed)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted(
            f"stopped; {kept.path} holds all parts that are finished: the same command or call goes on from there", None
        ) from None


def _grid(richness: Sequence[float], depths: Sequence[int], widths: Sequence[int], rules: Sequence[str]) -> Grid:
    """What is tried, checked."""
    kinds = [rules] if isinstance(rules, str) else list(rules)
    named = tuple(dict.fromkeys(LearningRule.from_table({"kind": kind}).kind for kind in kinds))
    found = Grid(
        tuple(sorted({check.number("richness", value, least=0.0) for value in richness})),
        tuple(sorted({check.integer("depths", value, least=1) for value in depths})),
        tuple(sorted({check.integer("widths", value, least=2) for value in widths})),
        tuple(kind for kind in named if kind != "gradient-descent"),
    )
    if not any(found.richness) or not found.depths or len(found.widths) < 2:
        raise InvalidInput("richness needs a positive value, depths one value, and widths two")
    return found


def _prepared(
    source: DataSource,
    rows: int,
    kept: Folder,
    clock: Clock,
    base: MLP,
    grid: Grid,
    width: int,
    seed: int,
    said: Callable[[str], None],
) -> tuple[Plan, Bench, Costs]:
    """A pilot, or what an earlier run has measured; and what is to be run."""
    layers = base.hidden_layers
    if kept.plan is None:
        said("measuring how fast networks of this size train ...")
        small = Bench(splits(source, 1, test_share=TEST_SHARE, rows=min(rows, _PILOT_ROWS), seed=seed), width, 2, 40)
        pilot = measured(small, scans.choice_of(base))
        plan = planned(pilot, rows, clock.budget - clock.elapsed, width, layers, grid)
        kept.remember(to_table(pilot, plan.sizes))
    else:
        pilot, sizes = from_table(kept.plan)
        known = Costs(pilot, sizes, width, layers, grid)
        wanted = [name for name in _ASK if name != "rule" or grid.rules]
        plan = Plan(sizes, {name: known.question(name) for name in wanted}, ())
        said("going on with what is there")
    sizes = plan.sizes
    made = splits(source, sizes.splits, test_share=TEST_SHARE, rows=min(rows, sizes.rows), seed=seed)
    bench = Bench(made, width, sizes.seeds, sizes.steps)
    said(in_advance(plan, bench, rows))
    return plan, bench, Costs(pilot, sizes, width, layers, grid)


def in_advance(plan: Plan, bench: Bench, rows: int) -> str:
    """What will be run, and how long it should take."""
    sizes, train = plan.sizes, bench.splits[0].load().samples
    drawn = f"{min(sizes.rows, rows)} of {rows} rows, drawn at random" if sizes.rows < rows else f"all {rows} rows"
    each = ", ".join(f"{name} {in_words(seconds)}" for name, seconds in plan.seconds.items())
    lines = [
        f"{drawn}; {sizes.splits} splits into {train} training and {bench.splits[0].load().test_samples} test samples, "
        f"{sizes.seeds} network{'s' if sizes.seeds > 1 else ''} of width {bench.width} for each, {sizes.steps} steps",
        f"about {in_words(plan.total)}: {each}",
    ]
    if plan.left_out:
        lines.append(f"no time for {', '.join(plan.left_out)}")
    return "\n".join(lines)


def _asked(desk: Desk, plan: Plan, given: Given, seed: int) -> Study:
    """Ask one question after the other, and write the report."""
    desk.left_out.update(dict.fromkeys(plan.left_out, "no time"))
    for name in plan.seconds:
        began = time.monotonic()
        desk.say(f"{name} ...")
        found = _ASK[name](desk)
        if found is not None:
            desk.answers[name] = dataclasses.replace(found, seconds=time.monotonic() - began)
            Part(found.data.assign_attrs(title=found.title)).save(desk.folder.file("parts", f"answer-{name}"))
    return concluded(desk, plan, given, seed)
