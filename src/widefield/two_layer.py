"""Exact solutions of networks with one hidden layer.

| question | answer |
|---|---|
| a linear network on whitened data over time | `solve_whitened`, `time_to_reach` |
| its features at the end, as a function of richness and learning rule | `final_feature_kernel` |
| feedback alignment there: what is learned, how aligned, and how both depend on the correlation | `final_overlap`, \
`final_alignment`, `overlap_slope`, `alignment_slope` |
| feedback alignment there, at any depth | `solve_deep_feedback`, `final_deep_feedback`, `feedback_polynomials` |
| Hebb's rule there: what is conserved, where outputs stand still | `hebb_invariant`, `hebb_fixed_points` |
| any problem with one hidden layer | the theory `TwoLayer` |
"""

from typing import TYPE_CHECKING

from .base.lazy import load_when_used

if TYPE_CHECKING:
    from .solvers.two_layer.deep_feedback import feedback_polynomials as feedback_polynomials
    from .solvers.two_layer.deep_feedback import final_deep_feedback as final_deep_feedback
    from .solvers.two_layer.deep_feedback import solve_deep_feedback as solve_deep_feedback
    from .solvers.two_layer.whitened import Whitened as Whitened
    from .solvers.two_layer.whitened import alignment_slope as alignment_slope
    from .solvers.two_layer.whitened import final_alignment as final_alignment
    from .solvers.two_layer.whitened import final_feature_kernel as final_feature_kernel
    from .solvers.two_layer.whitened import final_overlap as final_overlap
    from .solvers.two_layer.whitened import hebb_fixed_points as hebb_fixed_points
    from .solvers.two_layer.whitened import hebb_invariant as hebb_invariant
    from .solvers.two_layer.whitened import overlap_slope as overlap_slope
    from .solvers.two_layer.whitened import solve_whitened as solve_whitened
    from .solvers.two_layer.whitened import time_to_reach as time_to_reach
else:
    __getattr__, __dir__, __all__ = load_when_used(__name__)
