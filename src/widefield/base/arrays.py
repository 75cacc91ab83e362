"""Names of kinds of NumPy arrays. Shapes are written with jaxtyping: `Float[Floats, "samples outputs"]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Booleans = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]
"""Arrays by name."""
