"""CIFAR-10 from the files of its published binary version."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.describe import put
from ..base.errors import FileProblem, InvalidInput
from .images import Images, Pool

_RECORD = 1 + 3 * 32 * 32
_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
_TEST = "test_batch.bin"
_ADDRESS = "https://www.cs.toronto.edu/~kriz/cifar.html"


@dataclass(frozen=True, kw_only=True)
class Cifar10(Images, kind="cifar10"):
    """Photographs of ten kinds of things, D = 3072: all red, then all green, then all blue pixels of 32 x 32.

    Classes: 0 airplane, 1 automobile, 2 bird, 3 cat, 4 deer, 5 dog, 6 frog, 7 horse, 8 ship, 9 truck. Reads
    the files data_batch_1.bin .. data_batch_5.bin and test_batch.bin of the "binary version" on
    https://www.cs.toronto.edu/~kriz/cifar.html: records of one byte for the class and 3072 for the pixels.

    Inputs are the pixels minus the mean training image of the chosen classes, divided by one number such that
    the mean of |x|^2 / D over the training points is 1. Two classes have targets -1 and +1, more have one-hot
    targets.

    Args:
        folder: where the files are; "~" means the home folder.
        samples: P, number of training images, as many of every class (give or take one), in turn.
        classes: the classes to tell apart; None for all ten.
        test_samples: Q, number of test images, chosen likewise from test_batch.bin (not read if 0).
        normalise: "rms" as above, or "sphere" for |x|^2 = D for every image.
        seed: seed of the choice of images.
    """

    folder: str | os.PathLike[str] = field(kw_only=False)

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        if not isinstance(self.folder, str | os.PathLike):
            raise InvalidInput(f"folder = {self.folder!r} must be the path of a folder")
        put(self, folder=os.fspath(self.folder))

    def _read(self) -> tuple[Pool, Pool]:
        folder = Path(self.folder).expanduser()
        if not folder.is_dir():
            raise FileProblem(
                f"folder = {str(self.folder)!r} is not a folder; it must hold "
                f"{_TRAIN[0]} .. {_TRAIN[-1]} and {_TEST} of the binary version of CIFAR-10, {_ADDRESS}"
            )
        train = _pool([_records(folder / name) for name in _TRAIN])
        return train, _pool([_records(folder / _TEST)] if self.test_samples else [])


def _records(file: Path) -> NDArray[Any]:
    """Return the records of a file as rows of bytes, without reading them yet."""
    try:
        size = file.stat().st_size
        if size == 0 or size % _RECORD:
            raise FileProblem(f"{file} has {size} bytes, which is not a multiple of {_RECORD}: it is not complete")
        records = np.memmap(file, dtype=np.uint8, mode="r").reshape(-1, _RECORD)
    except OSError as error:
        raise FileProblem(f"{file} of CIFAR-10 (binary version) cannot be read: {error.strerror}") from error
    wrong = np.flatnonzero(records[:, 0] > 9)
    if len(wrong):
        record = wrong[0]
        raise FileProblem(
            f"{file} is not a file of CIFAR-10: record {record} has class {records[record, 0]}, not 0 .. 9"
        )
    return records


def _pool(files: list[NDArray[Any]]) -> Pool:
    records = np.concatenate([np.empty((0, _RECORD), np.uint8), *files])
    return Pool(records[:, 1:], records[:, 0])
