"""How wide is wide enough for 5%: from networks of several widths, and from the theory of fluctuations."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import numpy as np
import xarray as xr
from jaxtyping import Float

from ..asking.solving import solve
from ..base.arrays import Floats
from ..data.arrays import Data
from ..data.samples import Samples
from ..problem.optimisers import SGD
from ..problem.problem import Problem, Record
from ..theories.finite_width import FiniteWidth
from ..theories.fluctuations import Fluctuations
from . import calls
from .answers import Answer, Table
from .desk import Desk, Scan
from .judging import Estimate, over_splits
from .plan import TEST_SHARE, WIDTH_SEEDS, WIDTH_SPLITS
from .scans import choice_of
from .training import Bench, Choice
from .widths_in_words import WITHIN, Few, enough, how_wide

_FEW_TRAIN, _FEW_TEST = 8, 4
"""Samples that the theory of fluctuations is asked about: its cost grows with the fourth power of their number."""

_REFERENCE = 128
_MOST_STEPS = 20_000
_CHECKS = 32
"""Networks that are trained on the few samples, to stand beside the theory."""


def width(desk: Desk) -> Answer | None:
    """Networks of several widths at what is advised so far, up to the step at which training is stopped."""
    choice = choice_of(desk.advised())
    known = settled(desk, choice)
    if known is None:
        desk.left_out["width"] = "no learning rate was found in time"
        return None
    taken, stop = known
    bench = dataclasses.replace(desk.bench, splits=desk.bench.splits[:WIDTH_SPLITS], seeds=WIDTH_SEEDS, steps=stop)
    found = []
    for value in sorted(desk.grid.widths):
        wide = dataclasses.replace(bench, width=value)
        name = f"width-{value}-{choice.name}"
        expected = desk.costs.widened(value) * stop / desk.bench.steps
        part = desk.part(name, f"width {value}", expected, partial(at_width, wide, choice, taken))
        if part is not None:
            found.append((value, part))
    missing = [value for value in desk.grid.widths if value not in dict(found)]
    if missing:
        desk.left_out["width"] = f"no time for {', '.join(map(str, missing))}"
    if len(found) < 2:
        return None
    predicted = None
    if not Fluctuations(_REFERENCE).scope.reasons(few_samples(bench.splits[0].load(), choice, taken, bench.steps)):
        asked = partial(fluctuating, bench, choice, taken)
        predicted = desk.part(f"fluctuations-{choice.name}", "fluctuations, by theory", 8.0, asked)
    return _answer(desk, choice, bench, taken, found, predicted)


def settled(desk: Desk, choice: Choice) -> tuple[float, int] | None:
    """Learning rate and last step of a choice that was trained before, else of the study; None without a rate."""
    if not desk.folder.has(choice.name):
        return (float(desk.answers["rate"].advice), desk.bench.steps) if "rate" in desk.answers else None
    part = desk.choice(choice, 0.0)
    assert part is not None
    return float(part.attrs["learning_rate"]), max(1, Scan((choice,), (part,)).stops()[0])


def at_width(bench: Bench, choice: Choice, rate: float) -> xr.Dataset:
    """Test loss (split, seed) and the scatter of test outputs over networks (split), relative to their size."""
    losses, scatters = [], []
    record = Record(steps=(bench.steps,), samples=1, kernels=False, neurons=0)
    for split in range(len(bench.splits)):
        answer = solve(bench.problem(choice, split, rate, record), bench.networks, throw=False, progress=False)
        if answer.status == "interrupted":
            raise KeyboardInterrupt
        samples = answer.problem.samples
        size = float(np.sum((samples.y_test - samples.y.mean(axis=0)) ** 2))
        last = answer.data.isel(time=-1)
        losses.append(2 * last["test_loss"].values / size)
        scatters.append(scatter(last["test_outputs"].transpose("seed", "test_sample", "output").values))
    return xr.Dataset({"test_loss": (("split", "seed"), np.array(losses)), "scatter": ("split", np.array(scatters))})


def scatter(outputs: Float[Floats, "seeds samples c"]) -> float:
    """Root mean square deviation of a network from the mean over networks, over the root mean square of that mean.

    The mean of S networks has a variance of its own, which is taken from its square: <f>^2 - s^2 / S.
    """
    variance = outputs.var(axis=0, ddof=1).mean()
    square = (outputs.mean(axis=0) ** 2).mean() - variance / len(outputs)
    return math.sqrt(variance / square) if square > 0 else math.inf


def with_jackknife(outputs: Float[Floats, "seeds samples c"]) -> tuple[float, float]:
    """`scatter`, and its standard error from leaving out one network after the other."""
    count = len(outputs)
    others = np.array([scatter(np.delete(outputs, seed, axis=0)) for seed in range(count)])
    if not np.isfinite(others).all():
        return scatter(outputs), math.inf
    return scatter(outputs), math.sqrt((count - 1) * float(others.var()))


def fluctuating(bench: Bench, choice: Choice, rate: float) -> xr.Dataset:
    """What the theory of lazy networks says of a few samples: the scatter of test outputs at a width of reference.

    Networks that diverge on these have no such width: an infinite scatter.
    """
    problem = few_samples(bench.splits[0].load(), choice, rate, bench.steps)
    answer = solve(problem, Fluctuations(_REFERENCE), progress=False)
    last = answer.data.isel(time=-1)
    size = math.sqrt(float((last["test_outputs"] ** 2).mean()))
    spread = math.sqrt(float((last["test_outputs_deviation"] ** 2).mean()))
    trained = solve(problem, FiniteWidth(_REFERENCE, seeds=_CHECKS, dtype="float32"), throw=False, progress=False)
    if trained.status == "interrupted":
        raise KeyboardInterrupt
    between = (math.inf, math.inf)
    if trained.status == "complete":
        outputs = trained.data.isel(time=-1)["test_outputs"].transpose("seed", "test_sample", "output").values
        between = with_jackknife(outputs.astype(np.float64))
    found = {"scatter": spread / size, "networks_scatter": between[0], "networks_scatter_error": between[1]}
    return xr.Dataset(found, attrs={"width": _REFERENCE, "samples": problem.samples.samples})


def few_samples(samples: Samples, choice: Choice, rate: float, steps: int) -> Problem:
    """The first samples of a split and their first output."""
    train, test = min(_FEW_TRAIN, samples.samples), min(_FEW_TEST, samples.test_samples)
    y, y_test = samples.y[:train, :1], samples.y_test[:test, :1]
    # Eigenvalues of the kernel are in proportion to the samples, so that fewer need more time to learn as much.
    longer = min(steps * max(1, samples.samples // train), _MOST_STEPS)
    return Problem(
        dataclasses.replace(choice.network, outputs=None),
        Data(samples.x[:train], y, samples.x_test[:test], y_test),
        optimiser=SGD(rate, steps=longer),
        record=Record(steps=(longer,), kernels=False, neurons=0),
    )


def wide_enough(widths: Float[Floats, " n"], scatters: Float[Floats, "n splits"]) -> Estimate:
    """The width at which scatter c / sqrt(N) is 5%: c of every width and split, then (c / 0.05)^2.

    The average over widths is weighted by N, as wide networks are nearer to the law.
    """
    squares = (scatters**2 * widths[:, None]) / WITHIN**2
    each = np.average(squares, axis=0, weights=widths)
    return over_splits(each, TEST_SHARE)


def excess(widths: Float[Floats, " n"], losses: Float[Floats, "n splits"]) -> tuple[Estimate, Estimate]:
    """Test loss a + b / N by least squares, split by split: a, and the width at which it is 5% above, <b> / (0.05 <a>).

    The error of that ratio r = <b> / <a> is to first order that of (b - r a) / <a>; r is infinite unless <a> > 0.
    """
    design = np.stack([np.ones_like(widths), 1 / widths], axis=1)
    a, b = np.linalg.lstsq(design, losses, rcond=None)[0]
    limit = over_splits(a, TEST_SHARE)
    if not limit.mean > 0:
        return limit, Estimate(math.inf, math.inf, limit.splits)
    ratio = float(b.mean()) / limit.mean
    error = over_splits((b - ratio * a) / limit.mean, TEST_SHARE).error
    return limit, Estimate(ratio / WITHIN, error / WITHIN, limit.splits)


def _answer(
    desk: Desk,
    choice: Choice,
    bench: Bench,
    taken: float,
    found: list[tuple[int, xr.Dataset]],
    theory: xr.Dataset | None,
) -> Answer:
    widths = np.array([value for value, _ in found], dtype=np.float64)
    losses = np.stack([part["test_loss"].mean("seed").values for _, part in found])
    scatters = np.stack([part["scatter"].values for _, part in found])
    limit, near = excess(widths, losses)
    narrow = wide_enough(widths, scatters)
    few = Few()
    if theory is not None:
        law, between, error = (
            float(theory[name]) for name in ("scatter", "networks_scatter", "networks_scatter_error")
        )
        scale = float(theory.attrs["width"]) / WITHIN**2
        few = Few(int(theory.attrs["samples"]), scale * law**2, scale * between**2, 2 * scale * between * error)
    rows = tuple(
        (
            str(int(value)),
            str(over_splits(losses[place], TEST_SHARE)),
            str(over_splits(100 * scatters[place], TEST_SHARE)) + " %",
        )
        for place, value in enumerate(widths)
    )
    rows += (("∞, extrapolated", str(limit), ""),)
    data = xr.Dataset(
        {"test_loss": (("width", "split"), losses), "scatter": (("width", "split"), scatters)},
        {"width": widths.astype(np.int64)},
        {
            "infinite_width_loss": limit.mean,
            "loss_width": near.mean,
            "output_width": narrow.mean,
            "theory": few.theory,
            "theory_networks": few.networks,
            "theory_networks_error": few.error,
            "theory_samples": few.samples,
        },
    )
    advice = enough(widths, near)
    code = "\n".join(
        (
            f"network = {calls.written(choice.network)}",
            f"problem = wf.Problem(network, splits[0], optimiser=wf.SGD({taken!r}, steps={bench.steps}), "
            f"record=wf.Record(steps=({bench.steps},), samples=1, kernels=False, neurons=0))",
            f"runs = {{width: wf.solve(problem, wf.FiniteWidth(width, seeds={WIDTH_SEEDS}, dtype='float32')) "
            f"for width in {tuple(int(v) for v in widths)}}}",
            "",
            "few = splits[0].load()  # the theory of fluctuations is for few samples and one output",
            f"few = wf.Data(few.x[:{_FEW_TRAIN}], few.y[:{_FEW_TRAIN}, :1], few.x_test[:{_FEW_TEST}], "
            f"few.y_test[:{_FEW_TEST}, :1])",
            f"theory = wf.solve(wf.Problem(network, few, optimiser={_written(few_samples_of(bench, choice, taken))}), "
            f"wf.Fluctuations({_REFERENCE}))",
            'theory.data["test_outputs_deviation"]  # of networks of that width; it falls as 1 / sqrt(width)',
        )
    )
    headings = ("width", "test loss", "scatter of test outputs between networks")
    marked = next((place for place, value in enumerate(widths) if value == advice), None)
    verdict = how_wide(widths, near, narrow, few, over_splits(scatters[-1], TEST_SHARE))
    return Answer(
        "width", "Which width is wide enough for 5%?", verdict, advice, Table(headings, rows, marked), data, code
    )


def few_samples_of(bench: Bench, choice: Choice, rate: float) -> SGD:
    """The optimiser of the few samples."""
    optimiser = few_samples(bench.splits[0].load(), choice, rate, bench.steps).optimiser
    assert isinstance(optimiser, SGD)
    return optimiser


def _written(optimiser: SGD) -> str:
    return f"wf.SGD({float(optimiser.learning_rate)!r}, steps={optimiser.steps})"  # type: ignore[arg-type]
