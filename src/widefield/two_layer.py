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

from .solvers.two_layer.deep_feedback import feedback_polynomials, final_deep_feedback, solve_deep_feedback
from .solvers.two_layer.whitened import (
    Whitened,
    alignment_slope,
    final_alignment,
    final_feature_kernel,
    final_overlap,
    hebb_fixed_points,
    hebb_invariant,
    overlap_slope,
    solve_whitened,
    time_to_reach,
)

__all__ = [
    "Whitened",
    "alignment_slope",
    "feedback_polynomials",
    "final_alignment",
    "final_deep_feedback",
    "final_feature_kernel",
    "final_overlap",
    "hebb_fixed_points",
    "hebb_invariant",
    "overlap_slope",
    "solve_deep_feedback",
    "solve_whitened",
    "time_to_reach",
]
