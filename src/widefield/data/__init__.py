"""Data sets: descriptions that load the same arrays every time.

    data = widefield.data.sphere(samples=10, dimension=25, seed=0)
    data.load().kernel()

Own arrays go into `Data`, own Gram matrices into `gram`, own CSV and NPZ files into `file`; `standardised` brings any
of them to the scale where theories and learning rates are at home.
All sources turn into tables (TOML) and back.
"""

from __future__ import annotations

from .arrays import Data, Gram
from .cifar import Cifar10
from .digit_images import Digits
from .dividing import splits
from .files import File
from .labels import LABELS
from .power_laws import PowerLaw
from .samples import Samples
from .scaling import Standardised, standardised
from .source import DataSource
from .synthetic import Gaussian, Sphere, Whitened
from .teachers import Teacher

gram = Gram
gaussian = Gaussian
sphere = Sphere
whitened = Whitened
teacher = Teacher
power_law = PowerLaw
digits = Digits
cifar10 = Cifar10
file = File

__all__ = [
    "LABELS",
    "Cifar10",
    "Data",
    "DataSource",
    "Digits",
    "File",
    "Gaussian",
    "Gram",
    "PowerLaw",
    "Samples",
    "Sphere",
    "Standardised",
    "Teacher",
    "Whitened",
    "cifar10",
    "digits",
    "file",
    "gaussian",
    "gram",
    "power_law",
    "sphere",
    "splits",
    "standardised",
    "teacher",
    "whitened",
]


def __dir__() -> list[str]:
    """What is public, without the modules that it comes from."""
    return __all__
