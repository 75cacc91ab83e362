"""The posterior of real networks of finite width: the order 1/n leaves an error that falls like 1/n^2."""

import math

import numpy as np
import pytest

import widefield as wf
from references import posterior as reference
from widefield import effective
from widefield.base.errors import NotAccurate

WIDTHS = (8, 16, 32, 64)
X, Y = np.eye(2), np.array([[1.0, 0.5], [-0.5, 0.25]])
TEST = np.array([[0.6, 0.8]])
THREE = np.array([[1.0, 0.5, -0.3], [0.2, -0.9, 1.1], [0.7, 0.4, 0.9]])
FUNCTIONS = {
    "sin": np.sin,
    "tanh": np.tanh,
    "gelu": lambda z: z * 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2))),
    "swish": lambda z: z / (1 + np.exp(-z)),
}
PROBLEMS = {
    "sin": ("sin", X, Y, TEST, 0.1, 1.5, 0.1),
    "sin without noise": ("sin", X, Y, TEST, 0.1, 1.5, 0.0),
    "tanh": ("tanh", THREE[:2], np.array([[0.8], [-0.4]]), THREE[2:], 0.2, 1.3, 0.2),
    "swish": ("swish", THREE[:2], np.array([[0.5, -0.2], [0.3, 0.6]]), THREE[2:], 0.1, 2.0, 0.1),
    "two hidden layers": ("sin", X, Y, TEST, 0.1, 1.5, 0.1),
    "repeated": ("sin", X[[0, 0, 1]], np.array([[1.0, 0.5], [0.8, 0.3], [-0.5, 0.25]]), TEST, 0.1, 1.5, 0.1),
}


def compared(problem, n, draws, seed, points=2**13):
    """Differences of real networks and theory, and standard errors, by name."""
    name, x, y, test, C_b, C_W, noise = PROBLEMS[problem]
    samples = np.concatenate([x, test])
    layers = 2 if problem == "two hidden layers" else 1
    network = wf.MLP(layers, name, weight_variances=C_W, bias_variances=C_b)
    flow = effective.flow(network, samples, n, points=points, replicas=8)
    found = effective.inferred(flow, y, noise=noise)
    if layers == 2:
        exact = reference.sampled_deep_sin(samples, y, n, C_b, C_W, noise, draws, seed)
    else:
        exact = reference.sampled(FUNCTIONS[name], samples, y, n, C_b, C_W, noise, draws, seed)
    outputs = range(y.shape[1])
    covariance = np.array([[found.covariance(i, k) for k in outputs] for i in outputs])
    learned = effective.learned_representation(flow, y, noise=noise).metrics[-1]
    theory = {
        "log_evidence": found.log_evidence,
        "mean": found.mean,
        "covariance": covariance,
        "metric": flow.metric(layers + 1) + learned,
    }
    return {key: (exact[key][0] - theory[key], exact[key][1]) for key in theory}


def exponent(widths, differences, errors):
    """Slope of the logarithm of the norm of the differences in that of the width, and its standard error."""
    norms = np.array([np.linalg.norm(d) for d in differences])
    relative = np.array([np.linalg.norm(e) for e in errors]) / norms
    weights = 1 / (relative**2 + 1e-6)
    logs = np.log(np.array(widths, dtype=float))
    centre = np.average(logs, weights=weights)
    spread = np.sum(weights * (logs - centre) ** 2)
    return float(np.sum(weights * (logs - centre) * np.log(norms)) / spread), float(spread**-0.5)


FROM = {("swish", "mean"): 32, ("two hidden layers", "log_evidence"): 16, ("two hidden layers", "metric"): 16}
"""The first width of fits where n = 8 is not yet the law: all four widths give -1.57(9), -1.68(1) and -1.69(1), from
these on -1.8(1), -1.79(2) and -1.82(1). n^2 times the difference of one mean of swish changes sign, -.06(1), .06(2),
.25(3), .35(5), and that of the evidence of two hidden layers goes to its limit slowly, -.97(1), -1.33(2), -1.58(4),
-1.78(6), at n = 8 .. 64."""


@pytest.mark.filterwarnings(f"ignore::{NotAccurate.__module__}.NotAccurate")
@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_error_falls_like_the_square_of_the_width(problem):
    """From n = 8 to 64: exponents from -1.76 to -2.15, with the exceptions of `FROM`."""
    found = [compared(problem, n, 400_000, seed, 2**17) for seed, n in enumerate(WIDTHS)]
    for name in found[0]:
        first = WIDTHS.index(FROM.get((problem, name), 8))
        slope, error = exponent(
            WIDTHS[first:], [f[name][0] for f in found[first:]], [f[name][1] for f in found[first:]]
        )
        print(f"{problem:20} {name:15} exponent {slope:.3f} +- {error:.3f}")
        assert slope < -1.7 + 2 * error, (name, slope, error)


@pytest.mark.filterwarnings(f"ignore::{NotAccurate.__module__}.NotAccurate")
def test_real_networks():
    """The order 1/n is much of the difference to infinite width, and what is left is of the order 1/n^2."""
    wide, narrow = (compared("sin", n, 20_000, 0) for n in (64, 16))
    for name, (difference, error) in wide.items():
        bound = np.linalg.norm(narrow[name][0]) / 16 * 1.5 + 4 * np.linalg.norm(error)
        assert np.linalg.norm(difference) < bound, name
