"""The published solver of the infinite-width equations, alternating Monte Carlo, for every learning rule.

An independent check of `InfiniteWidth`, with which it shares no dynamics; `AlternatingMonteCarlo` makes it a theory.
"""

from .equations import Equations, Rule
from .iteration import Schedule, Solution, alternate
from .order import Order
from .sources import Sampling, counts

__all__ = ["Equations", "Order", "Rule", "Sampling", "Schedule", "Solution", "alternate", "counts"]
