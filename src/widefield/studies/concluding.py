"""The end of a study: the network beside simple machines, what is advised, the report and its files."""

from __future__ import annotations

import dataclasses
from typing import Literal

from ..base import files
from . import baselines, calls, plots, report, scans
from .answers import Study
from .desk import Desk, Scan
from .given import Given
from .plan import TEST_SHARE, WIDTH, Grid, Plan


def concluded(desk: Desk, plan: Plan, given: Given, seed: int) -> Study:
    """Write the report and its figures, and hand everything over."""
    _beside_machines(desk)
    made = _together(desk, plan, given, seed)
    figures = {name: plots.png(drawn) for name, a in made.answers.items() if (drawn := plots.figure(a)) is not None}
    for name, content in figures.items():
        files.write_bytes(desk.folder.file("figures", name), content)
    files.write_text(made.report, report.page(made, figures))
    desk.say(f"wrote {made.report}")
    return made


def _beside_machines(desk: Desk) -> None:
    """Add the best network to the answer about simple machines."""
    scanned = [name for name in ("depth", "richness") if name in desk.answers]
    if "baselines" not in desk.answers or not scanned:
        return
    answer, best = desk.answers["baselines"], desk.answers[scanned[0]]
    axis = "hidden_layers" if scanned[0] == "depth" else "richness"
    losses = best.data["test_loss"].sel({axis: best.advice}).values
    label = f"richness {desk.richness:g}, {desk.layers} hidden layer{'s' if desk.layers > 1 else ''}"
    verdict = f"{answer.verdict} {baselines.network_against(answer, losses, label)}"
    desk.answers["baselines"] = dataclasses.replace(answer, verdict=verdict)


def _together(desk: Desk, plan: Plan, given: Given, seed: int) -> Study:
    """All answers together, and the problem that is advised."""
    choice = scans.choice_of(desk.advised())
    steps = desk.bench.steps
    rate: float | Literal["auto"] = float(desk.answers["rate"].advice) if "rate" in desk.answers else "auto"
    if desk.folder.has(choice.name):
        part = desk.choice(choice, 0.0)
        assert part is not None
        rate, steps = float(part.attrs["learning_rate"]), max(1, Scan((choice,), (part,)).stops()[0])
    bench = dataclasses.replace(desk.bench, steps=steps)
    raw, sizes = desk.raw, plan.sizes
    classes = getattr(given.source, "classes", None)
    kind = f"{len(classes)} classes" if classes else f"{raw.outputs} target{'s' if raw.outputs > 1 else ''}"
    word = rate if isinstance(rate, str) else f"{rate:g}"
    facts = {
        "rows": f"{min(sizes.rows, raw.samples)} of {raw.samples}" + (", drawn at random" * (sizes.rows < raw.samples)),
        "splits": f"{sizes.splits}, {TEST_SHARE:.0%} of the rows are test samples",
        "networks": f"{sizes.seeds} of width {desk.bench.width} for every split and choice, {sizes.steps} steps",
        "advised": f"{calls.written(choice.network)}, learning rate {word}, {steps} steps",
    }
    minutes = round(1.3 * max(plan.total + 8 * bool(desk.left_out), desk.clock.budget) / 60 + 1)
    return Study(
        folder=desk.folder.path,
        answers=desk.answers,
        left_out=desk.left_out,
        plan=plan,
        problem=bench.problem(choice, 0, rate),
        setup=calls.setup(given.code, desk.bench, sizes, raw.samples, seed),
        heading=f"{raw.samples} samples, {raw.dimension} inputs, {kind}",
        again=_again(desk, given, minutes, seed),
        seconds=desk.clock.elapsed,
        facts=facts,
    )


def _again(desk: Desk, given: Given, minutes: int, seed: int) -> str:
    """What to type to go on in the same folder, with more time."""
    options: dict[str, object] = {"folder": desk.folder.path.as_posix(), "minutes": minutes}
    usual = Grid()
    for name in ("richness", "depths", "widths", "rules"):
        value = getattr(desk.grid, name)
        options |= {} if value == getattr(usual, name) else {name: value}
    options |= {"width": desk.bench.width} if desk.bench.width != WIDTH else {}
    options |= {"seed": seed} if seed else {}
    return given.again(options, desk.network)
