"""The first two questions: is the data in range, and which learning rate trains."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..asking.best_rates import best_rate
from ..base.errors import NoLearningRate
from ..base.tables import with_error
from ..data.samples import UNUSUAL, Samples
from . import calls
from .answers import Answer, Table
from .desk import Desk
from .scans import choice_of
from .training import SEARCH_STEPS, searched

_FAR, _FEW = 8.0, 10
"""Deviations from the mean beyond which an input is far out; different targets up to which they may be classes."""

_REPETITIONS = 3
_RATES = (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.3)
"""Over the largest that trains."""


def scale(desk: Desk) -> Answer:
    """Is the data in range."""
    raw = desk.raw
    inputs, targets = raw.sizes
    names = desk.columns or tuple(str(number) for number in range(raw.dimension))
    found = oddities(raw, names)
    one = (1 / UNUSUAL, UNUSUAL)
    within = all(one[0] <= size <= one[1] for size in (inputs, targets))
    rows = (
        ("samples", str(raw.samples), ""),
        ("inputs", str(raw.dimension), ""),
        ("targets for each sample", str(raw.outputs), ""),
        ("|x|² / D, mean", f"{inputs:.3g}", "about 1"),
        ("|y|, root mean square", f"{targets:.3g}", "about 1"),
        *((what, value, "none") for what, value, _ in found),
    )
    verdict = in_range(within, inputs, targets, [sentence for _, _, sentence in found])
    data = xr.Dataset({"input_size": inputs, "target_size": targets})
    code = "samples = data.load()\nprint(samples.sizes, samples.unusual)  # |x|^2 / D and |y|; expected about 1\n"
    code += "scaling = splits[0].scaling  # means and deviations of the training samples of split 0"
    return Answer("scale", "Is the data in range?", verdict, within, Table(("", "found", "expected"), rows), data, code)


def in_range(within: bool, inputs: float, targets: float, oddities: list[str]) -> str:
    """Sizes in words, and what was done about them."""
    sizes = f"|x|²/D is {inputs:.3g} and |y| is {targets:.3g}, where theories and learning rates expect about 1"
    first = f"Yes: {sizes}." if within else f"No: {sizes}. Train on standardised data, as was done here."
    return " ".join((first, *oddities))


def oddities(raw: Samples, names: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """What stands out in a table of numbers: a word, a count, and what to do."""
    found = []
    deviation = raw.x.std(axis=0)
    varies = deviation > 1e-12 * np.maximum(np.abs(raw.x).max(axis=0), np.finfo(np.float64).tiny)
    if not varies.all():
        constant = _few([names[k] for k in np.flatnonzero(~varies)])
        text = f"Constant and of no use: {constant}."
        found.append(("constant inputs", str(int((~varies).sum())), text))
    numbered = [names[k] for k in np.flatnonzero((np.diff(raw.x, axis=0) == 1).all(axis=0))]
    if numbered:
        text = f"Numbers of rows, not inputs: {_few(numbered)}. Leave them out (--leave-out)."
        found.append(("inputs that count rows", str(len(numbered)), text))
    scores = np.abs(raw.x[:, varies] - raw.x[:, varies].mean(axis=0)) / deviation[varies]
    far = np.flatnonzero((scores > _FAR).any(axis=0))
    if len(far):
        which = _few([names[np.flatnonzero(varies)[k]] for k in far])
        text = f"Values more than {_FAR:g} deviations from the mean in {which}: errors in the data, or take logarithms."
        found.append(("inputs with values far out", str(len(far)), text))
    repeated = raw.samples - len(np.unique(np.hstack([raw.x, raw.y]), axis=0))
    if repeated:
        which = "1 row is repeated: it" if repeated == 1 else f"{repeated} rows are repeated: they"
        text = f"{which} may stand in training and test samples at once."
        found.append(("repeated rows", str(repeated), text))
    values = np.unique(raw.y)
    if raw.outputs == 1 and 2 < len(values) <= min(_FEW, raw.samples // 3) and (values == values.round()).all():
        listed = ", ".join(f"{value:g}" for value in values)
        text = f"The target has {len(values)} values, {listed}: for classes, ask with classes = True (--classes)."
        found.append(("different targets", str(len(values)), text))
    return found


def _few(names: list[str]) -> str:
    """Names of columns; one without a name is in quotes."""
    return ", ".join(name or "''" for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def rate(desk: Desk) -> Answer | None:
    """The largest learning rate that trains, and losses at some rates up to it."""
    choice = choice_of(desk.network)
    steps = min(SEARCH_STEPS, desk.bench.steps)

    def found() -> xr.Dataset:
        limit = searched(desk.bench, choice, _REPETITIONS)
        tried = [fraction * limit.rate for fraction in _RATES]
        problem = desk.bench.problem(choice, 0, 1.0)
        curve = best_rate(problem, desk.bench.width, steps=steps, learning_rates=tried, repetitions=2, progress=False)
        made = curve.data.isel(width=0, drop=True)
        numbers = {"limit": limit.rate, "limit_error": limit.error, "kernel_rate": limit.kernel_rate}
        return made.assign_attrs(numbers, suggested=limit.suggested, best=curve.rate)

    try:
        data = desk.part("rate", "learning rates", desk.costs.question("rate"), found)
    except NoLearningRate as error:
        desk.left_out["rate"] = str(error)
        return None
    if data is None:
        desk.left_out["rate"] = "no time"
        return None
    samples = desk.bench.splits[0].load().samples
    attributes = {
        name: float(data.attrs[name]) for name in ("limit", "limit_error", "kernel_rate", "suggested", "best")
    }
    start = float(data["initial_loss"])
    rows = tuple(
        (f"{r:.3g}", "diverges" if np.isnan(loss) else with_error(loss / start, error / start), f"{r * samples:.3g}")
        for r, loss, error in zip(*(data[name].values.tolist() for name in ("rate", "loss", "loss_error")), strict=True)
    )
    headings = ("learning rate", f"training loss after {steps} steps, over the first", "for the mean loss")
    code = f"{calls.rate(desk.bench, choice, _REPETITIONS)}\nrates = wf.best_rate(problem, {desk.bench.width}, "
    code += f"steps={steps}, learning_rates=np.array({_RATES}) * limit.rate, repetitions=2)"
    marked = int(np.argmin(np.abs(data["rate"].values - attributes["suggested"])))
    verdict = which_rate(attributes, samples)
    return Answer(
        "rate", "Which learning rate?", verdict, attributes["suggested"], Table(headings, rows, marked), data, code
    )


def which_rate(numbers: dict[str, float], samples: int) -> str:
    """The advice in both conventions of the loss."""
    taken = numbers["suggested"]
    return (
        f"Take {taken:g}, for a loss that is summed over the {samples} training samples (for a mean over samples: "
        f"{taken * samples:.3g}). Rates up to {numbers['limit']:.3g} ± {numbers['limit_error']:.2g} train; the kernel "
        f"at the start allows {numbers['kernel_rate']:.3g}; training is fastest near {numbers['best']:.3g}. Every "
        "richness, depth and rule below has a rate of its own, found in the same way."
    )
