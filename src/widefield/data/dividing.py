"""Random divisions of data into training and test samples, each standardised by its own training samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .arrays import Data, own
from .scaling import Standardised, are_classes
from .source import DataSource

LEAST = 10
"""Samples that can be divided."""


def splits(
    data: DataSource | tuple[Any, ...],
    count: int = 5,
    *,
    test_share: float = 0.2,
    rows: int | None = None,
    seed: int = 0,
) -> tuple[Standardised, ...]:
    """`count` independent random divisions of the samples of `data` into training and test samples.

    Every one is standardised by its training samples alone (`standardised`), so that nothing of its test samples is
    known before. Classes keep their shares in both parts, to within a sample. All divisions are of the same rows.

    Args:
        data: arrays (X, y) or a source; if it has test samples, these take part like all others.
        count: how many divisions.
        test_share: of the samples, in (0, 1).
        rows: of more samples than that, so many are drawn at random first; None takes all.
        seed: of the draws.

    >>> made = splits((np.arange(40.0).reshape(20, 2), np.arange(20.0)), 3)
    >>> [(part.load().samples, part.load().test_samples) for part in made]
    [(16, 4), (16, 4), (16, 4)]
    """
    source = own(data)
    if isinstance(source, Standardised):
        source = source.data
    kept = source.frozen()
    kept = kept.data if isinstance(kept, Standardised) else kept
    loaded = kept.load()
    x, y = loaded.everything, np.concatenate([loaded.y, loaded.y_test])
    count = check.integer("count", count, least=1)
    share = check.number("test_share", test_share, above=0.0, most=1.0 - 1e-9)
    if len(x) < LEAST:
        raise InvalidInput(f"data have {len(x)} samples: at least {LEAST} are needed to divide them")
    classes, columns = getattr(kept, "classes", None), getattr(kept, "columns", None)
    labels = _labels(y) if classes or are_classes(y) else None
    random = np.random.default_rng(check.integer("seed", seed))
    if rows is not None and check.integer("rows", rows, least=LEAST) < len(x):
        few = np.sort(_test_rows(labels, len(x), rows / len(x), random)[0])
        x, y, labels = x[few], y[few], None if labels is None else labels[few]
    made = []
    for _ in range(count):
        test, train = _test_rows(labels, len(x), share, random)
        arrays = Data(x[train], y[train], x[test], y[test], columns=columns, classes=classes)
        made.append(Standardised(arrays))
    return tuple(made)


def _labels(y: Float[Floats, "p c"]) -> NDArray[np.int64]:
    """Numbers of classes."""
    return np.asarray(y[:, 0] > 0 if y.shape[1] == 1 else y.argmax(axis=1), dtype=np.int64)


def _test_rows(
    labels: NDArray[np.int64] | None, count: int, share: float, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Some rows and all others, both in random order: round(share count), spread evenly over the classes.

    Rows are ordered by class, at random inside each, and taken at equal distances from a random start.
    """
    order = random.permutation(count)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    wanted = min(max(1, round(share * count)), count - 1)
    places = np.floor((np.arange(wanted) + random.uniform()) * count / wanted).astype(np.int64)
    chosen = np.zeros(count, dtype=bool)
    chosen[places] = True
    return random.permutation(order[chosen]), random.permutation(order[~chosen])
