"""Deep linear networks whose width, data and dimension are all large: what width, data and depth do to training.

`solve` gives train and test loss of a `LinearNetwork` on a `LinearTask` at any learning rate, without sampling.
"""

from .dynamics import Dynamics, solve, solve_many
from .long_times import gradient_flow, solve_long
from .setting import LinearNetwork, LinearTask, Spectrum, power_law
from .simulation import as_problem, simulate

__all__ = [
    "Dynamics",
    "LinearNetwork",
    "LinearTask",
    "Spectrum",
    "as_problem",
    "gradient_flow",
    "power_law",
    "simulate",
    "solve",
    "solve_long",
    "solve_many",
]
