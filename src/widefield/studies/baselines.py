"""What a linear model and a kernel machine give on the same splits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import xarray as xr

from ..base.errors import SingularKernel
from ..data.scaling import Standardised
from ..problem.network import MLP
from . import calls
from .answers import Answer, Table
from .desk import Desk
from .judging import Judgement, judged, over_splits
from .plan import TEST_SHARE
from .scans import NO_DIFFERENCE
from .training import Bench

LINEAR = MLP(hidden_layers=1, activation="linear", bias_variances=0.1)
"""Its NNGP kernel is that of linear regression with Gaussian priors on slopes and intercept."""

_RIDGE = 0.1


def baselines(desk: Desk) -> Answer | None:
    """Fit all machines to all splits."""
    machines = _machines(desk.network.hidden_layers)
    expected = desk.costs.question("baselines") / len(machines)
    parts = {}
    for name, machine in machines.items():
        file = "machine-" + "-".join(part.strip("()").lower() for part in name.split())
        found = desk.part(file, name, expected, partial(_on_all, desk.bench, *machine))
        if found is not None:
            parts[name] = found
    if len(parts) < len(machines):
        desk.left_out["baselines"] = f"no time for {', '.join(name for name in machines if name not in parts)}"
    if len(parts) < 2:
        return None
    data = xr.concat(list(parts.values()), dim="machine").assign_coords(machine=list(parts)).drop_attrs()
    names = [str(name) for name in data["machine"].values]
    judgement = judged(data["test_loss"].values, TEST_SHARE)
    evidence = [over_splits(row, TEST_SHARE) for row in data["log_evidence"].values]
    place = judgement.simplest
    classified = "test_accuracy" in data
    accuracy = ("test accuracy",) if classified else ()
    headings = ("machine", "train loss", "test loss", "log evidence for each target", *accuracy)
    rows = []
    for number, name in enumerate(names):
        cells = [name, str(over_splits(data["train_loss"].values[number], TEST_SHARE)), str(judgement.losses[number])]
        cells.append(str(evidence[number]))
        if classified:
            cells.append(str(over_splits(data["test_accuracy"].values[number], TEST_SHARE)))
        rows.append(tuple(cells))
    network, kernel = machines[names[place]]
    return Answer(
        "baselines",
        "What do a linear model and a kernel machine give?",
        simple_machines(names, judgement, np.array([one.mean for one in evidence])),
        names[place],
        Table(headings, tuple(rows), place),
        data,
        _calls(network, kernel),
    )


def _on_all(bench: Bench, network: MLP, kernel: str) -> xr.Dataset:
    """One machine on all splits."""
    numbers = np.array([_fitted(split, network, kernel) for split in bench.splits])
    names = ("test_loss", "train_loss", "log_evidence", "test_accuracy")
    return xr.Dataset({name: ("split", numbers[:, place]) for place, name in enumerate(names[: 3 + bench.classified])})


def _machines(layers: int) -> dict[str, tuple[MLP, str]]:
    """A linear model, and the two kernels of ReLU networks, closed forms that take no time at any variance.

    The tangent kernel of the network itself is in the scan of the richness, as its lazy limit.
    """
    relu = MLP(hidden_layers=layers, activation="relu", weight_variances=2.0, bias_variances=0.1, train_biases=True)
    return {
        "linear model": (LINEAR, "nngp"),
        "kernel machine (NNGP)": (relu, "nngp"),
        "kernel machine (NTK)": (relu, "ntk"),
    }


def _fitted(split: Standardised, network: MLP, kernel: str) -> tuple[float, float, float, float]:
    """Test and train loss over that of the mean, log evidence for each target, accuracy on the test samples."""
    from ..estimators.regressor import KernelRegressor

    samples = split.load()
    centre = samples.y.mean(axis=0)
    model = KernelRegressor(network, kernel=kernel, ridge=_RIDGE, optimise=True, restarts=0)
    try:
        model.fit(samples.x, samples.y - centre)
    except SingularKernel:  # the verdict says so
        return (np.nan,) * 4
    losses = []
    for x, y in ((samples.x_test, samples.y_test), (samples.x, samples.y)):
        errors = y - centre - model.predict(x)
        losses.append(float(np.sum(errors**2) / np.sum((y - centre) ** 2)))
    outputs = model.predict(samples.x_test) + centre
    if samples.outputs == 1:
        right = np.sign(outputs) == np.sign(samples.y_test)
    else:
        right = outputs.argmax(axis=1) == samples.y_test.argmax(axis=1)
    return losses[0], losses[1], model.log_evidence_ / samples.y.size, float(np.mean(right))


def _calls(network: MLP, kernel: str) -> str:
    return "\n".join(
        (
            "samples = splits[0].load()",
            "centre = samples.y.mean(axis=0)",
            f"network = {calls.written(network)}",
            f"model = wf.KernelRegressor(network, kernel={kernel!r}, ridge={_RIDGE}, optimise=True, restarts=0)",
            "model.fit(samples.x, samples.y - centre)",
            "errors = samples.y_test - centre - model.predict(samples.x_test)",
            "print(np.sum(errors**2) / np.sum((samples.y_test - centre) ** 2), model.log_evidence_ / samples.y.size)",
        )
    )


def simple_machines(names: Sequence[str], judgement: Judgement, evidence: np.ndarray) -> str:
    """The simplest machine that is as good as the best; the linear model comes first."""
    losses, best = judgement.losses, judgement.best
    fitted = [place for place in range(len(names)) if np.isfinite(losses[place].mean)]
    singular = ", ".join(name for place, name in enumerate(names) if place not in fitted)
    without = f"Not fitted on all splits, since the kernel is singular: {singular}." if singular else ""
    if not fitted:
        return without
    said = ", ".join(f"{names[place]} {losses[place]}" for place in fitted)
    likely = names[int(np.nanargmax(evidence))]
    if 0 not in fitted:
        first = f"Test losses: {said}; the lowest is that of the {names[best]}."
    elif 0 in judgement.alike:
        close = f"there is {NO_DIFFERENCE} between the linear model and the lowest, {names[best]}"
        first = f"Test losses: {said}; {close if best else 'the linear model has the lowest'}."
    else:
        gap = f"{judgement.differences[0].mean:.2g} ± {judgement.halves[0]:.2g} (95%)"
        first = f"Test losses: {said}; {names[best]} is better than a linear model by {gap}."
    last = f"The evidence, which needs no test samples, is largest for the {likely}."
    return " ".join(filter(None, (first, last, without)))


def network_against(machines: Answer, losses: np.ndarray, label: str) -> str:
    """The best network beside the machines, on the same splits."""
    names = [str(name) for name in machines.data["machine"].values]
    judgement = judged(np.vstack([machines.data["test_loss"].values, losses]), TEST_SHARE)
    network = len(names)
    if network == judgement.best:
        beaten = [names[place] for place in range(network) if place not in judgement.alike]
        same = [names[place] for place in range(network) if place in judgement.alike]
        parts = [f"better than {', '.join(beaten)}"] if beaten else []
        parts += [f"{NO_DIFFERENCE} from {', '.join(same)}"] if same else []
        return f"The network ({label}) has test loss {judgement.losses[network]}: {'; '.join(parts)}."
    best = names[judgement.best]
    if network in judgement.alike:
        return f"The network ({label}) has test loss {judgement.losses[network]}: {NO_DIFFERENCE} from the {best}."
    return (
        f"The network ({label}) has test loss {judgement.losses[network]}: worse than the {best}, by "
        f"{judgement.differences[network].mean:.2g} ± {judgement.halves[network]:.2g} (95%)."
    )
