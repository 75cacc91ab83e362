"""Deep linear networks at infinite width: closed equations for kernels and responses, without sampling.

| file | job |
|---|---|
| `setting.py` | a problem as the numbers that enter the equations |
| `gradient_descent.py` | one causal pass over the steps, factors over (samples x steps) x steps only |
| `feedback.py` | (direct) feedback alignment: vectors, explicit in time |
| `hebb.py` | error-modulated Hebb |
| `gated.py`, `gates.py` | gated linear networks: a linear network for every pattern of gates |
| `fixed_point.py` | the damped iteration over all times at once |
| `solution.py` | what all of them return |

A flat index is t P + mu for features and t C + c for gradients, which are the same for all samples.
"""
