"""The advice of `wf.study` against all choices on a grid, by networks that share no code with the package.

    python benchmarks/study_against_grid.py [--data diabetes wine breast-cancer] [--minutes 5] [--splits 8]

For every data set: a study; then networks of all depths, richnesses and learning rates on new random splits of the same
rows, written here in plain jax with other initialisations. The best of all of them, at its best step, is trained once
more on as many other splits, because the lowest of thousands of losses is lower than what it stands for; and so is the
choice that the study advises, at the learning rate and the step that it advises. They are compared split by split. The
error bar is twice the standard error of the difference over splits, corrected for their overlap.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sklearn.datasets
from numpy.typing import NDArray

import widefield as wf

RICHNESS, DEPTHS = (0.1, 0.3, 1.0, 3.0, 10.0), (1, 2, 3, 4)
RATES = (0.05, 0.15, 0.5, 1.5)
"""Times 1 / samples: the tangent kernel's largest eigenvalue is in proportion to the samples."""

TEST_SHARE, BIAS, WIDTH = 0.2, 0.1, 128
Floats = NDArray[np.float64]


def table(name: str) -> tuple[Floats, Any]:
    """Inputs and targets, words for classes."""
    loaders = {
        "diabetes": "load_diabetes",
        "wine": "load_wine",
        "breast-cancer": "load_breast_cancer",
        "digits": "load_digits",
    }
    x, y = getattr(sklearn.datasets, loaders[name])(return_X_y=True)
    return x, y if name == "diabetes" else y.astype(str)


def encoded(y: Any) -> Floats:
    """Numbers as they are, two classes as -1 and 1, more as one output each."""
    if y.dtype.kind == "f":
        return np.asarray(y[:, None], dtype=np.float64)
    places = np.unique(y, return_inverse=True)[1]
    count = places.max() + 1
    return np.asarray((2.0 * places - 1)[:, None] if count == 2 else np.eye(count)[places])


def divided(x: Floats, y: Floats, splits: int, seed: int, numbers: bool) -> list[tuple[Floats, Floats, Floats, Floats]]:
    """Random splits, standardised by their training samples."""
    random, made = np.random.default_rng(seed), []
    for _ in range(splits):
        order = random.permutation(len(x))
        cut = round(TEST_SHARE * len(x))
        test, train = order[:cut], order[cut:]
        mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
        factor = np.where(deviation > 0, 1 / np.where(deviation > 0, deviation, 1.0), 0.0)
        factor = factor * math.sqrt(len(factor) / (factor > 0).sum())
        shift, scale = (y[train].mean(axis=0), y[train].std()) if numbers else (np.zeros(y.shape[1]), 1.0)
        made.append(((x[train] - mean) * factor, (y[train] - shift) / scale,
                     (x[test] - mean) * factor, (y[test] - shift) / scale))  # fmt: skip
    return made


def outputs(params: Any, x: Any, gamma: float) -> Any:
    """f = [w tanh(h^L) / sqrt(N) + b] / gamma."""
    *layers, (readout, last) = params
    signal = x
    for weight, bias in layers:
        signal = jnp.tanh(signal @ weight / math.sqrt(weight.shape[0]) + bias)
    return (signal @ readout / math.sqrt(readout.shape[0]) + last) / gamma


def started(key: Any, dimension: int, depth: int, count: int, width: int) -> Any:
    """Standard Gaussian weights, biases of a small variance."""
    sizes = (dimension, *[width] * depth, count)
    keys = jax.random.split(key, 2 * (depth + 1)).reshape(depth + 1, 2)
    return [
        (jax.random.normal(one[0], (a, b)), math.sqrt(BIAS) * jax.random.normal(one[1], (b,)))
        for one, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


@partial(jax.jit, static_argnames=("depth", "steps", "width"))
def curves(
    key: Any, x: Any, y: Any, x_test: Any, y_test: Any, rate: Any, gamma0: Any, *, depth: int, steps: int, width: int
) -> Any:
    """Test loss at every step, over that of the mean of the training targets."""
    gamma = gamma0 * math.sqrt(width)
    begin = started(key, x.shape[1], depth, y.shape[1], width)
    centre, size = y.mean(axis=0), jnp.sum((y_test - y.mean(axis=0)) ** 2)
    first, first_test = outputs(begin, x, gamma), outputs(begin, x_test, gamma)
    del centre

    def loss(params: Any) -> Any:
        return 0.5 * jnp.sum((outputs(params, x, gamma) - first - y) ** 2)

    def step(params: Any, _: None) -> Any:
        test = jnp.sum((outputs(params, x_test, gamma) - first_test - y_test) ** 2) / size
        slope = jax.grad(loss)(params)
        return jax.tree.map(lambda p, g: p - rate * gamma**2 * g, params, slope), test

    return jax.lax.scan(step, begin, None, length=steps + 1)[1]


def over_splits(data: Any, gamma0: float, depth: int, rate: float, steps: int, seeds: int, width: int) -> Floats:
    """Means over networks, (split, step)."""
    train = jax.vmap(partial(curves, depth=depth, steps=steps, width=width), in_axes=(0, *[None] * 6))
    found = []
    for number, split in enumerate(data):
        keys = jax.random.split(jax.random.key(7000 + number), seeds)
        arrays = [jnp.asarray(part, jnp.float32) for part in split]
        found.append(np.asarray(train(keys, *arrays, rate, gamma0)).mean(axis=0))
    return np.array(found, dtype=np.float64)


def error(values: Floats) -> float:
    """Standard error over splits that overlap."""
    factor = 1 / len(values) + TEST_SHARE / (1 - TEST_SHARE)
    return float(values.std(ddof=1) * math.sqrt(factor))


def checked(name: str, minutes: float, splits: int, seeds: int, steps: int) -> bool:
    """One data set: a study, then the grid."""
    x, labels = table(name)
    with tempfile.TemporaryDirectory() as folder:
        study = wf.study(x, labels, minutes=minutes, folder=f"{folder}/study", progress=True)
    print(study)
    rows = study.plan.sizes.rows
    chosen = np.random.default_rng(99).permutation(len(x))[:rows]
    y = encoded(labels)
    data = divided(x[chosen], y[chosen], splits, 12345, labels.dtype.kind == "f")
    train, began = len(data[0][0]), time.monotonic()
    best: tuple[float, float, int, float, int] = (math.inf, 1.0, 1, 1.0, 0)
    for depth, gamma0 in itertools.product(DEPTHS, RICHNESS):
        for tried in RATES:
            found = over_splits(data, gamma0, depth, tried / train, steps, seeds, WIDTH)
            means = np.where(np.isfinite(found).all(axis=0), found.mean(axis=0), np.inf)
            place = int(np.argmin(means))
            if means[place] < best[0]:
                best = (float(means[place]), gamma0, depth, tried / train, place)
    network, advised_steps, rate = study.network, study.problem.optimiser.steps, float(study.learning_rate)
    fresh = divided(x[chosen], y[chosen], splits, 54321, labels.dtype.kind == "f")
    advised = (network.richness, network.hidden_layers, rate, advised_steps)
    lowest, winner = best[0], best[1:]
    ours, other = (over_splits(fresh, *choice, 2 * seeds, WIDTH)[:, -1] for choice in (advised, winner))
    gap = ours - other
    bar = 2 * error(gap)
    good = bool(gap.mean() <= bar)
    size = len(DEPTHS) * len(RICHNESS) * len(RATES)
    words = "richness {:g}, {} layers, rate {:.3g}, step {}"
    print(
        f"{name}, {rows} rows: advised {words.format(*advised)}: {ours.mean():.4f} ± {error(ours):.4f}; "
        f"best of {size}: {words.format(*winner)}: {other.mean():.4f} ± {error(other):.4f} "
        f"({lowest:.4f} where it was chosen); difference {gap.mean():.4f} ± {bar:.4f} -> "
        f"{'within error bars' if good else 'OUTSIDE ERROR BARS'}; grid took {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return good


def main() -> None:
    """All data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["diabetes", "wine", "breast-cancer"])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--splits", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    good = [checked(name, given.minutes, given.splits, given.seeds, given.steps) for name in given.data]
    raise SystemExit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
