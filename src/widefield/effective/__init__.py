"""The effective theory of networks of finite width, at initialisation: order by order in 1/n (PDLT).

Entry points: `advise`, `criticality`, `critical_point`, `flow`, `single_flow`, `phase_diagram`, `check`.

| question | module |
|---|---|
| is an activation critical, and of which universality class? | `criticality`, `phases`, `plots` |
| one input: kernel, vertex and corrections; large depth | `single_flow`, `asymptotics` |
| two inputs: how norms and angles flow | `two_inputs` |
| kernel, four-point vertex and corrections of many inputs | `flow` |
| deep linear networks to all orders | `deep_linear` |
| third cumulant, inverse and determinant of the metric | `stochastic_metric` |
| entropy and mutual information of layers, optimal depth to width | `information`, `entropies`, `aspect_ratio` |
| residual networks | `residual`, `residual_inputs` |
| how to initialise a network, and what to expect | `advice` |
| drawing finite networks, fast, and comparing | `sampler`, `residual_sampler`, `monte_carlo` |
| Wick contractions, cumulants, quartic actions, running couplings | `wick`, `cumulants`, `quartic`, `couplings` |
| averages over one input, and their derivatives | `single_input`, `layer_table`, `curvature`, `tilts` |
"""

from .advice import Advice, advise
from .critical_points import Criticality, CriticalPoint, NotCritical
from .criticality import critical_point, criticality
from .flow import Flow, flow
from .monte_carlo import check
from .phases import phase_diagram
from .single_flow import single_flow

__all__ = [
    "Advice",
    "CriticalPoint",
    "Criticality",
    "Flow",
    "NotCritical",
    "advise",
    "check",
    "critical_point",
    "criticality",
    "flow",
    "phase_diagram",
    "single_flow",
]
