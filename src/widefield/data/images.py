"""What the image data sets share: choosing classes and images, labels, normalisation."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base import check
from ..base.arrays import Floats, Integers
from ..base.describe import put
from ..base.errors import InvalidInput
from .samples import Samples
from .source import DataSource, integers, stream

NORMALISATIONS = ("rms", "sphere")


class Pool(NamedTuple):
    """Images (n, D) of any numeric type and their classes (n,)."""

    images: NDArray[Any]
    classes: NDArray[Any]

    def shuffled(self, classes: tuple[int, ...], rng: np.random.Generator) -> list[Integers]:
        """Return the images of every class as a shuffled deck of row numbers."""
        return [rng.permutation(np.flatnonzero(self.classes == c)) for c in classes]


@dataclass(frozen=True, kw_only=True)
class Images(DataSource):
    """Base of the image data sets: a random choice of images, balanced between the classes.

    Inputs are the pixels minus the mean image of the chosen classes (over all images that the training images
    are chosen from), divided by one number such that the mean of |x|^2 / D over the training points is 1
    ("rms"), or by one number per image such that |x|^2 = D for every image ("sphere").

    Targets of two classes are y = -1 for the first and y = +1 for the second; of more classes, one output per
    class in the order of `classes`, y_c = 1 for the class of the image and 0 for the others. The classes take
    turns in the rows, and a larger training set starts with the images of a smaller one.

    Args:
        samples: P, number of training images.
        classes: the classes to tell apart, each 0 .. 9; None for all ten.
        test_samples: Q, number of test images, never among the training images.
        normalise: "rms" or "sphere".
        seed: seed of the choice of images.
    """

    samples: int
    classes: tuple[int, ...] | None = (0, 1)
    test_samples: int = 0
    normalise: str = "rms"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        if len(set(self._classes)) < max(2, len(self._classes)):
            raise InvalidInput(f"classes = {self.classes!r} must be two or more different classes")
        # None is spelled out, because files leave out what is None and would then mean the default
        put(self, classes=self._classes, samples=check.integer("samples", self.samples, least=1))
        put(self, test_samples=check.integer("test_samples", self.test_samples))
        put(self, seed=check.integer("seed", self.seed))
        check.choice("normalise", self.normalise, NORMALISATIONS)

    @abstractmethod
    def _read(self) -> tuple[Pool, Pool | None]:
        """Return the images to choose training and test images from; without the latter they share a pool."""

    def load(self) -> Samples:
        """Choose, label and normalise the images."""
        train, test = self._read()
        decks = train.shuffled(self._classes, stream(self.seed, "train", "inputs"))
        chosen = _deal(decks, self._classes, "samples", self.samples)
        if test is None:
            # from the other end of the decks, so that more training images do not change the test images
            test, rest = train, [deck[~np.isin(deck, chosen)][::-1] for deck in decks]
        else:
            rest = test.shuffled(self._classes, stream(self.seed, "test", "inputs"))
        chosen_test = _deal(rest, self._classes, "test_samples", self.test_samples)
        mean = train.images[np.concatenate(decks)].mean(axis=0, dtype=np.float64)
        x, x_test = self._normalised(train.images[chosen] - mean, test.images[chosen_test] - mean)
        return Samples(x, self._targets(self.samples), x_test, self._targets(self.test_samples))

    @property
    def _classes(self) -> tuple[int, ...]:
        return tuple(range(10)) if self.classes is None else integers("classes", self.classes, most=9)

    def _normalised(self, x: Floats, x_test: Floats) -> tuple[Floats, Floats]:
        if self.normalise == "sphere":
            return x / _rms(x), x_test / _rms(x_test)
        scale = _rms(x.reshape(1, -1))
        return x / scale, x_test / scale

    def _targets(self, count: int) -> Floats:
        classes = len(self._classes)
        codes = np.array([[-1.0], [1.0]]) if classes == 2 else np.eye(classes)
        return codes[np.arange(count) % classes]


def _deal(decks: list[Integers], classes: tuple[int, ...], name: str, count: int) -> Integers:
    """Take `count` images from the tops of the decks in turn."""
    chosen = np.empty(count, dtype=np.intp)
    for turn, (deck, label) in enumerate(zip(decks, classes, strict=True)):
        places = chosen[turn :: len(decks)]
        if len(places) > len(deck):
            raise InvalidInput(
                f"{name} = {count} needs {len(places)} images of class {label}, but only {len(deck)} are available"
            )
        places[:] = deck[: len(places)]
    return chosen


def _rms(images: Floats) -> Floats:
    """Return the root mean square of the entries of every row, shape (n, 1)."""
    rms = np.sqrt(np.mean(images**2, axis=1, keepdims=True))
    if not np.all(rms > 0):
        raise InvalidInput("an image equals the mean image, so that nothing is left to scale after centring")
    return np.asarray(rms)
