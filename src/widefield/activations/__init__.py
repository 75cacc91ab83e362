"""Activations: one table that holds the function, its derivatives and its closed Gaussian moments.

`get("tanh")`, `get("leaky_relu(0.1)")`, `get("monomial(3)")`: the name is all a file needs.
`register` adds one's own.
"""

from .activation import Activation
from .table import get, names, register

__all__ = ["Activation", "get", "names", "register"]


def __dir__() -> list[str]:
    """What is public, without the modules that it comes from."""
    return __all__
