"""`learning_rate = "auto"` on data of different scale, size and dimension: it learns, and never diverges."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

import widefield as wf


def made(samples, dimension, inputs, targets, seed, offset=0.0):
    """A smooth function of inputs of some size, with targets of another."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(samples, dimension))
    y = np.tanh(x @ draw.normal(size=dimension)) + 0.5 * x[:, 0]
    return inputs * x + offset * inputs, targets * y


def loaded(source, rows, classes=None):
    x, y = source(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(x) if classes is None else np.flatnonzero(np.isin(y, classes)))
    y = y if classes is None else np.where(y == classes[0], -1.0, 1.0)
    return x[chosen[:rows]], y[chosen[:rows]]


RAW = {
    "plain": made(20, 10, 1.0, 1.0, 0),
    "tiny inputs": made(20, 10, 0.001, 1.0, 1),
    "huge inputs": made(20, 10, 1000.0, 1.0, 1),
    "small targets": made(20, 10, 1.0, 0.01, 3),
    "large targets": made(20, 10, 1.0, 20.0, 4),
    "few": made(3, 5, 1.0, 1.0, 5),
    "many": made(150, 60, 1.0, 1.0, 6),
    "one input": made(12, 1, 1.0, 1.0, 7),
    "high dimension": made(30, 500, 1.0, 1.0, 8),
    "off centre": made(20, 10, 1.0, 1.0, 9, offset=2.0),
}
STANDARDISED = {
    "small and large": made(20, 10, 0.001, 1000.0, 10),
    "large and small": made(40, 20, 1000.0, 0.001, 11),
    "far off centre": made(20, 10, 1.0, 1.0, 12, offset=100.0),
    "few in many dimensions": made(4, 300, 5.0, 7.0, 13),
    "many again": made(200, 80, 3.0, 1.0, 14),
    "diabetes": loaded(load_diabetes, 30),
    "iris": loaded(load_iris, 60, (0, 1)),
    "wine": loaded(load_wine, 100, (0, 1)),
    "breast cancer": loaded(load_breast_cancer, 80, (0, 1)),
    "digits": loaded(load_digits, 100, (3, 8)),
}


def check(x, y, standardised, networks):
    problem = wf.Problem(
        wf.MLP(hidden_layers=2, activation="tanh", richness=1.0),
        wf.data.standardised(x, y) if standardised else (x, y),
        optimiser=wf.SGD("auto", 300),
        record=wf.Record(kernels=False, neurons=0),
    )
    answer = wf.solve(problem, networks, throw=False)
    assert answer.status == "complete"
    losses = answer.variable("loss").transpose("time", "seed").values
    print(answer.verdict, losses[-1] / losses[0])
    assert (losses[-1] <= 0.1 * losses[0]).all()


def test_auto_learns_raw_data_of_another_scale():
    x, y = made(8, 4, 0.3, 3.0, 0)
    check(x, y, False, wf.FiniteWidth(64, seeds=2))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::widefield.UnusualScale")
@pytest.mark.parametrize("name", RAW)
def test_auto_on_raw_data(name):
    check(*RAW[name], False, wf.FiniteWidth(256, seeds=4))


@pytest.mark.slow
@pytest.mark.parametrize("name", STANDARDISED)
def test_auto_on_standardised_data(name):
    check(*STANDARDISED[name], True, wf.FiniteWidth(256, seeds=4))
