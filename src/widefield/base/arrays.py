"""Names of kinds of NumPy arrays. Shapes are written with jaxtyping: `Float[Floats, "samples outputs"]`.

Tests check all that is written so. What users give has no shape yet: `ArrayLike`, or `Floats` for a field
that `__post_init__` checks and converts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
Booleans = NDArray[np.bool_]
Arrays = dict[str, NDArray[Any]]
"""Arrays by name."""
