"""The learning rule that README adds to the package, at width N and at width infinity, against plain NumPy networks."""

import jax.numpy as jnp
import numpy as np
import pytest

import pages
import widefield as wf
from references import networks as reference
from widefield.matrices.dense import Dense
from widefield.training.program import compile_problem

GAMMA, RATE, STEPS = 1.3, 0.15, 6
SAMPLES = wf.data.sphere(samples=3, dimension=5, seed=1)
X, Y = SAMPLES.load().x / np.sqrt(5), SAMPLES.load().y[:, 0]
PRODUCTS = {
    "feature_kernel": ("phi", "phi"),
    "gradient_kernel": ("g", "g"),
    "alignment_kernel": ("g", "gt"),
    "pseudo_gradient_kernel": ("gt", "gt"),
}


@pytest.fixture(scope="module")
def rule():
    """As README defines it, and taken away from the package afterwards."""
    names = {"wf": wf, "jnp": jnp}
    pages.run(pages.block_with("README.md", "class StraightThrough"), names, "README.md")
    yield names["StraightThrough"]()
    del wf.LearningRule.members["straight-through"]


def learning(rule, layers):
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation="tanh", richness=GAMMA),
        data=SAMPLES,
        rule=rule,
        optimiser=wf.SGD(RATE, STEPS),
        record=wf.Record(every=STEPS // 2, neurons=0),
    )


def trained(x, initial, rule="straight-through"):
    """Outputs and all kernels (time, ...) of one NumPy network, at the times that are recorded."""
    options = {"phi": "tanh", "gamma0": GAMMA, "rate": RATE, "steps": STEPS}
    history = reference.train_by_rule(rule, initial, x, Y, **options)[:: STEPS // 2]
    found = {"outputs": np.array([fields["f"] for fields in history])}
    for name, (a, b) in PRODUCTS.items():
        pairs = [zip(fields[a], fields[b], strict=True) for fields in history]
        found[name] = np.array([[left @ right.T / left.shape[1] for left, right in pair] for pair in pairs])
    return found


@pytest.mark.parametrize("layers", [1, 3])
def test_a_network_equals_plain_numpy(rule, layers, double):
    """From the same weights, at all recorded times, outputs and all kernels."""
    width, problem = 24, learning(rule, layers)
    program = compile_problem(problem, GAMMA, (1.0,) * layers, "float64")
    state = program.start(Dense(jnp.asarray(0), (width,) * layers, "float64"))
    initial = {
        "W0": np.asarray(state.weights["input"].T),
        "Ws": [np.asarray(state.substrate.values[f"hidden {k}"]) for k in range(1, layers)],
        "w": np.asarray(state.weights["readout"][0]),
    }
    data = wf.solve(problem, wf.FiniteWidth(width)).data.isel(seed=0, output=0)
    for name, expected in trained(np.asarray(program.inputs), initial).items():
        np.testing.assert_allclose(data[name].values, expected, rtol=0, atol=1e-10, err_msg=name)


def test_its_name_is_known_to_files(rule):
    problem = learning(rule, 2)
    assert 'kind = "straight-through"' in problem.to_toml()
    assert wf.Problem.from_toml(problem.to_toml()) == problem


def drawn(width, seeds, rule):
    """Numbers of many NumPy networks, a row for each."""
    rng, rows = np.random.default_rng(width), []
    for _ in range(seeds):
        normal = rng.standard_normal
        initial = {"W0": normal((width, 5)), "Ws": [normal((width, width))], "w": normal(width)}
        rows.append(numbers(trained(X, initial, rule)))
    return np.array(rows)


def numbers(found):
    """Outputs after the start; of every final kernel the mean over samples of its diagonal and of the rest, by sign."""
    off = np.multiply.outer(Y, Y) - np.diag(Y**2)
    parts = [found["outputs"][1:].ravel()]
    for name in PRODUCTS:
        kernel = found[name][-1]
        parts += [np.einsum("lpp->l", kernel) / len(Y), np.einsum("lpq,pq->l", kernel, off) / np.abs(off).sum()]
    return np.concatenate(parts)


def extrapolated(rule, seeds=((96, 500), (192, 300))):
    """Value and error at 1/N = 0 of the line through two widths."""
    (n, m), rows = (width for width, _ in seeds), [drawn(*row, rule) for row in seeds]
    (a, da), (b, db) = ((r.mean(axis=0), r.std(axis=0, ddof=1) / np.sqrt(len(r))) for r in rows)
    return (m * b - n * a) / (m - n), np.hypot(m * db, n * da) / (m - n)


def test_networks_extrapolate_to_infinite_width(rule):
    """Within 4 standard errors; gradient descent in place of the rule would be noticed."""
    replicas = [wf.solve(learning(rule, 2), wf.InfiniteWidth(512, 1, seed=k)).data for k in range(12)]
    rows = np.array([numbers({name: d[name].values.squeeze() for name in ("outputs", *PRODUCTS)}) for d in replicas])
    theory, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    loss = replicas[0].loss.values
    assert loss[-1] < 0.5 * loss[0]  # something was learned
    value, deviation = extrapolated("straight-through")
    assert np.max(np.abs(theory - value) / np.hypot(error, deviation)) < 4
    value, deviation = extrapolated("gd", ((96, 60), (192, 30)))
    assert np.max(np.abs(theory - value) / np.hypot(error, deviation)) > 8
