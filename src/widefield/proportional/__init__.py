"""Deep linear networks whose width, data and dimension are all large: what width, data and depth do to training.

`solve` gives train and test loss of a `LinearNetwork` on a `LinearTask` at any learning rate, without sampling;
`simulate` trains real networks for the same question; `lr_sweep` says whether learning rates transfer.
"""

from . import closed_forms, plots, scaling, stability
from .dynamics import solve, solve_many
from .long_times import gradient_flow, solve_long
from .problem import LinearProblem, ProportionalLimit, ProportionalNetworks
from .rate_range import suggested_rates
from .rate_sweep import RateSweep
from .result import Dynamics
from .setting import LinearNetwork, LinearTask, Spectrum, power_law
from .simulation import as_problem, simulate
from .transfer import largest_stable_rate, lr_sweep, simulated_sweep

__all__ = [
    "Dynamics",
    "LinearNetwork",
    "LinearProblem",
    "LinearTask",
    "ProportionalLimit",
    "ProportionalNetworks",
    "RateSweep",
    "Spectrum",
    "as_problem",
    "closed_forms",
    "gradient_flow",
    "largest_stable_rate",
    "lr_sweep",
    "plots",
    "power_law",
    "scaling",
    "simulate",
    "simulated_sweep",
    "solve",
    "solve_long",
    "solve_many",
    "stability",
    "suggested_rates",
]
