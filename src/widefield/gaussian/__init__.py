"""Gaussian averages <F>_K in double precision, whatever precision jax is set to.

| question | function |
|---|---|
| `<F(z)>`, `<F(z1, z2)>`, `<f(z1) g(z2)>` | `average`, `average_pair`, `average_product` |
| `d<F(z)>/dK`, `d2<F(z)>/dK2` | `average_derivative` |
| `<f1(z1) f2(z2) f3(z3) f4(z4)>` | `average_four` |
| `<s(z1) s(z2)>`, `<s'(z1) s'(z2)>` of an activation | `feature_kernel`, `slope_kernel` |
| `<s^2>`, `<s'^2>`, `<s^4>` of an activation | `square`, `slope_square`, `fourth` |
| `<s^(p)(z1) s^(q)(z2)>`, and four factors, for many samples | `pair_moments`, `quadruples` |

Errors are stated relative to the average of the absolute value, and above the tolerance they are raised.
"""

from .activation_moments import feature_kernel, fourth, slope_kernel, slope_square, square
from .averages import average, average_derivative, average_pair, average_product
from .four import average_four
from .four_table import quadruples
from .pair_table import pair_moments

__all__ = [
    "average",
    "average_derivative",
    "average_four",
    "average_pair",
    "average_product",
    "feature_kernel",
    "fourth",
    "pair_moments",
    "quadruples",
    "slope_kernel",
    "slope_square",
    "square",
]
