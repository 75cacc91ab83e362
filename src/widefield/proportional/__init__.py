"""Deep linear networks whose width, data and dimension are all large: what width, data and depth do to training.

`solve` gives train and test loss of a `LinearNetwork` on a `LinearTask` at any learning rate, without sampling;
`simulate` trains real networks for the same question; `lr_sweep` says whether learning rates transfer.
"""

from typing import TYPE_CHECKING

from ..base.lazy import load_when_used

if TYPE_CHECKING:
    from . import closed_forms as closed_forms
    from . import plots as plots
    from . import scaling as scaling
    from . import stability as stability
    from .dynamics import solve as solve
    from .dynamics import solve_many as solve_many
    from .long_times import gradient_flow as gradient_flow
    from .long_times import solve_long as solve_long
    from .problem import LinearProblem as LinearProblem
    from .problem import ProportionalLimit as ProportionalLimit
    from .problem import ProportionalNetworks as ProportionalNetworks
    from .rate_range import suggested_rates as suggested_rates
    from .rate_sweep import RateSweep as RateSweep
    from .result import Dynamics as Dynamics
    from .setting import LinearNetwork as LinearNetwork
    from .setting import LinearTask as LinearTask
    from .setting import Spectrum as Spectrum
    from .setting import power_law as power_law
    from .simulation import as_problem as as_problem
    from .simulation import simulate as simulate
    from .transfer import largest_stable_rate as largest_stable_rate
    from .transfer import lr_sweep as lr_sweep
    from .transfer import simulated_sweep as simulated_sweep
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
