"""Handwritten digits that come with scikit-learn: 1797 images of 8 x 8 pixels, nothing to download."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .images import Images, Pool


@dataclass(frozen=True, kw_only=True)
class Digits(Images, kind="digits"):
    """Handwritten digits, D = 64, 174 to 183 images of every class.

    Inputs are the pixels minus the mean image of the chosen classes, divided by one number such that the mean
    of |x|^2 / D over the training points is 1. Two classes have targets -1 and +1, more one-hot targets.

    Args:
        samples: P, number of training images, as many of every class (give or take one), in turn.
        classes: the digits to tell apart; None for all ten.
        test_samples: Q, number of test images, chosen likewise from the remaining ones.
        normalise: "rms" as above, or "sphere" for |x|^2 = D for every image.
        seed: seed of the choice of images.
    """

    def _read(self) -> tuple[Pool, None]:
        return _digits(), None


@cache
def _digits() -> Pool:
    from sklearn.datasets import load_digits  # slow to import

    images, classes = load_digits(return_X_y=True)
    return Pool(images, classes)
