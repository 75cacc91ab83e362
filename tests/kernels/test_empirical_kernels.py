"""Kernels of real networks against Jacobians, against records of training, and as the width grows."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from references import networks as reference
from widefield.kernels.empirical import network_kernels
from widefield.kernels.functions import nngp_of_function, ntk_of_function
from widefield.matrices.dense import Dense
from widefield.training.observe import Observer
from widefield.training.program import compile_problem


def points(count, dimension, seed):
    return np.random.default_rng(seed).normal(size=(count, dimension))


def problem_of(network, x, x2, outputs, rule=None):
    """Columns x are trained on, rows x2 tested on."""
    targets = [np.random.default_rng(9).normal(size=(len(z), outputs)) for z in (x, x2)]
    return wf.Problem(
        network=network,
        data=wf.Data(x, targets[0], x2, targets[1]),
        rule=rule or wf.GradientDescent(),
        optimiser=wf.SGD(learning_rate=0.1, steps=1),
        record=wf.Record(test_kernels=True),
    )


def parameters(network, x, x2, outputs, width, seed):
    """Weights and biases of the network that `FiniteWidth` trains, for the plain implementation."""
    widths = network.widths(width)
    program = compile_problem(problem_of(network, x, x2, outputs), 1.0, network.normalised_width_ratios, "float64")
    state = program.start(Dense(jnp.asarray(seed), widths))
    # The plain implementation divides by sqrt(D), the program's inputs already are.
    hidden = [state.substrate.values[f"hidden {k}"] for k in range(1, network.hidden_layers)]
    weights = [state.weights["input"].T, *hidden, state.weights["readout"]]
    biases = [jnp.zeros(n) for n in (*widths, outputs)]
    if network.has_biases:
        biases = [state.weights[f"bias {k + 1}"][0] for k in range(network.hidden_layers)]
        # b^L/gamma is the mean of a vector over neurons / gamma_0
        biases.append(state.weights[f"bias {network.hidden_layers + 1}"].mean(axis=1) * np.sqrt(widths[-1]))
    return weights, biases


def by_jacobian(network, params, x, width):
    """gamma^2 df/dtheta . df/dtheta, over what learns."""
    gamma = network.richness * np.sqrt(network.widths(width)[-1])
    phi = {"tanh": jnp.tanh, "relu": jax.nn.relu}[network.activation]
    plain = jax.jit(jax.jacobian(lambda params: reference.network(params, jnp.asarray(x), phi, gamma)))
    derivative = plain(params)
    leaves = jax.tree.leaves(derivative if network.train_biases else derivative[0])
    flat = np.concatenate([np.reshape(leaf, (*leaf.shape[:2], -1)) for leaf in leaves], axis=-1)
    return gamma**2 * np.einsum("iat,jbt->iajb", flat, flat)


NETWORKS = {
    "one layer": (wf.MLP(hidden_layers=1, activation="tanh", richness=0.7), 1),
    "two layers, relu": (wf.MLP(hidden_layers=2, activation="relu", weight_variances=2.0), 1),
    "three layers": (wf.MLP(hidden_layers=3, activation="tanh", weight_variances=(1.0, 2.0, 0.5, 1.5)), 1),
    "biases that learn": (wf.MLP(hidden_layers=3, train_biases=True, bias_variances=(0.1, 0.2, 0.3, 0.4)), 1),
    "biases that do not": (wf.MLP(hidden_layers=2, bias_variances=0.3, centred=False), 2),
    "unequal widths": (wf.MLP(hidden_layers=2, train_biases=True, width_ratios=(0.5, 1.5)), 3),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_are_those_of_the_jacobian(name, double):
    network, outputs = NETWORKS[name]
    x, x2 = points(5, 4, 1), points(3, 4, 2)
    params = parameters(network, x, x2, outputs, 12, 7)
    expected = by_jacobian(network, params, np.concatenate([x, x2]), 12)[:, :, :5]
    expected = expected[:, 0, :, 0] if outputs == 1 else expected
    settings = {"width": 12, "seed": 7, "outputs": outputs}
    square, mixed = network_kernels(network, x, **settings), network_kernels(network, x2, x, **settings)
    for kernels, rows in ((square, slice(5)), (mixed, slice(5, None))):
        assert kernels.ntk.dtype == kernels.nngp.dtype == np.float64
        np.testing.assert_allclose(kernels.ntk, expected[rows], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["three layers", "biases that learn"])
def test_the_nngp_is_the_covariance_over_readouts(name, double):
    network, _ = NETWORKS[name]
    x = points(4, 3, 1)
    weights, biases = parameters(network, x, x, 1, 12, 7)
    phi = x
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        phi = np.tanh(phi @ np.asarray(weight).T / np.sqrt(phi.shape[1]) + np.asarray(bias)[None, :])
    # f = w phi / sqrt(N) + b is linear in w and b
    expected = network.weight_scales[-1] ** 2 * phi @ phi.T / 12 + network.bias_scales[-1] ** 2
    kernels = network_kernels(network, x, width=12, seed=7)
    np.testing.assert_allclose(kernels.nngp, expected, rtol=1e-12, atol=1e-12)


def first_record(problem, width, seed):
    """What `FiniteWidth` measures at step 0."""
    if isinstance(problem.rule, wf.FeedbackAlignment):  # one run from end to end; it takes longest to compile
        return wf.solve(problem, wf.FiniteWidth(width=width, seed=seed)).data.isel(time=0, seed=0)
    widths = problem.network.widths(width)
    program = compile_problem(problem, 1.0, problem.network.normalised_width_ratios, "float64")
    observer = Observer(program, jnp.asarray(problem.samples.y_test), problem.record)
    return eqx.filter_jit(observer)(program.start(Dense(jnp.asarray(seed), widths)))[0]


RULES = {
    "feedback alignment": wf.FeedbackAlignment(0.5),
    "direct feedback alignment": wf.DirectFeedbackAlignment(),
    "gated linear": wf.GatedLinear(),
    "hebb": wf.Hebb(),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "hebb" else ()) for n in RULES])
def test_kernels_are_those_that_training_records(name, double):
    rule = RULES[name]
    network = wf.MLP(hidden_layers=2, activation="tanh", bias_variances=0.2, train_biases=True, width_ratios=(2, 1))
    problem = problem_of(network, points(5, 20, 1), points(3, 20, 2), 2, rule)
    recorded = first_record(problem, 10, 3)
    # The dimension exceeds the number of points, so training goes on in fewer coordinates.
    train, test = (np.sqrt(z.shape[1]) * z for z in problem.samples.reduced())
    errors = problem.samples.y if isinstance(rule, wf.Hebb) else None
    settings = {"width": 10, "seed": 3, "rule": rule, "outputs": 2, "errors": errors}
    square, mixed = network_kernels(network, train, **settings), network_kernels(network, test, train, **settings)
    for kernels, prefix in ((square, ""), (mixed, "test_")):
        np.testing.assert_allclose(kernels.ntk, recorded[f"{prefix}ntk"], rtol=1e-10, atol=1e-10)
        features = recorded[f"{prefix}feature_kernel"][-1]
        np.testing.assert_allclose(kernels.nngp, features + 0.2, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rule", [wf.GradientDescent(), wf.FeedbackAlignment(0.5)], ids=lambda rule: rule.kind)
def test_blocks_and_other_points_do_not_change_a_network(rule):
    network = wf.MLP(hidden_layers=2, activation="relu")
    x, x2 = points(7, 30, 1), points(4, 30, 2)
    settings = {"width": 9, "seed": 1, "rule": rule, "outputs": 2}
    whole = network_kernels(network, np.concatenate([x, x2]), **settings)
    square = network_kernels(network, x, block=3, **settings)
    mixed = network_kernels(network, x, x2, block=3, **settings)
    for kernels, columns in ((square, slice(7)), (mixed, slice(7, None))):
        np.testing.assert_allclose(kernels.nngp, whole.nngp[:7, columns], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(kernels.ntk, whole.ntk[:7, :, columns], rtol=1e-12, atol=1e-12)


def arc_cosine(x, layers):
    """nngp and ntk of infinitely wide ReLU networks, weights of variance 1 (first layer) and 2 (Cho and Saul 2009)."""
    feature = x @ x.T / x.shape[1]
    tangent = feature
    for _ in range(layers):
        norms = np.sqrt(np.outer(np.diag(feature), np.diag(feature)))
        angle = np.arccos(np.clip(feature / norms, -1, 1))
        # 2 <phi' phi'> and 2 <phi phi>: the 2 is the variance of the next weights
        slope = (np.pi - angle) / np.pi
        feature = norms * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
        tangent = tangent * slope + feature / 2
    return feature, tangent


@pytest.mark.slow
def test_kernels_converge_as_the_width_grows():
    x = points(4, 5, 1)
    network = wf.MLP(hidden_layers=2, activation="relu", weight_variances=(1.0, 2.0, 2.0))
    nngp, ntk = arc_cosine(x, 2)
    widths = np.array([32, 128, 512])

    def deviation(width):
        networks = [network_kernels(network, x, width=int(width), seed=seed) for seed in range(24)]
        ratios = [(kernels.nngp / nngp, kernels.ntk / ntk) for kernels in networks]
        return np.sqrt(np.mean((np.array(ratios) - 1) ** 2, axis=(0, 2, 3)))

    errors = np.array([deviation(width) for width in widths])
    slopes = np.polyfit(np.log(widths), np.log(errors), 1)[0]
    assert (np.abs(slopes + 0.5) < 0.12).all(), slopes
    assert (errors[-1] < 0.2).all(), errors


def mlp(params, x):
    for layer in params["hidden"]:
        x = jnp.tanh(x @ layer["weight"] + layer["bias"][None, :])
    return x @ params["readout"]


def mlp_params(outputs, dtype):
    draw = np.random.default_rng(3).normal
    hidden = [{"weight": draw(size=s).astype(dtype), "bias": draw(size=s[1]).astype(dtype)} for s in ((3, 6), (6, 5))]
    return {"hidden": hidden, "readout": draw(size=(5, outputs) if outputs else 5).astype(dtype)}


@pytest.mark.parametrize("outputs", [0, 3])
def test_any_function_against_whole_jacobians(outputs, double):
    params, x = jax.tree.map(jnp.asarray, mlp_params(outputs, np.float64)), points(11, 3, 1)
    leaves = jax.tree.leaves(jax.jit(jax.jacobian(mlp))(params, jnp.asarray(x)))
    axes = 2 if outputs else 1
    expected = sum(np.tensordot(leaf, leaf, axes=(range(axes, leaf.ndim),) * 2) for leaf in leaves)
    np.testing.assert_allclose(ntk_of_function(mlp, params, x), expected, rtol=1e-12, atol=1e-12)
    mixed = ntk_of_function(mlp, params, x[:7], x[7:], block=3)
    columns = (slice(7), slice(None), slice(7, None)) if outputs else (slice(7), slice(7, None))
    np.testing.assert_allclose(mixed, expected[columns], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_function_is_computed_in_the_precision_of_its_parameters(dtype):
    params, x = mlp_params(2, dtype), points(3, 3, 1)
    kernel = ntk_of_function(mlp, params, x)
    with jax.enable_x64(True):
        expected = ntk_of_function(mlp, mlp_params(2, np.float64), x)
    assert kernel.dtype == dtype
    np.testing.assert_allclose(kernel, expected, rtol=1e4 * np.finfo(dtype).eps)


def test_a_function_of_an_equinox_module_and_of_integers():
    table = eqx.nn.Embedding(4, 2, key=jax.random.key(0))
    kernel = ntk_of_function(lambda table, x: jax.vmap(table)(x), table, [0, 1, 1])
    same = np.array([[1, 0, 0], [0, 1, 1], [0, 1, 1]])
    np.testing.assert_allclose(kernel, same[:, None, :, None] * np.eye(2)[None, :, None, :])


GOOD = {"network": wf.MLP(hidden_layers=1), "x": np.ones((2, 3)), "width": 4}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"network": "mlp"}, "network = 'mlp' must be an MLP.*ntk_of_function"),
        ({"rule": "hebb"}, "rule = 'hebb' must be a LearningRule"),
        ({"rule": wf.Hebb()}, "give errors if Hebb depends on them"),
        ({"rule": wf.Hebb(), "errors": np.ones(3)}, r"errors has shape \(3, 1\); it must be \(2, 1\)"),
        ({"x": np.ones(3)}, r"x has shape \(3,\); it must have 2 axes"),
        ({"x": np.ones((0, 3))}, "at least one sample"),
        ({"x": [[np.nan]]}, "x holds 1 values that are NaN"),
        ({"x2": np.ones((2, 4))}, r"x2 has shape \(2, 4\): they need as many columns"),
        ({"width": 0}, "width = 0"),
        ({"width": 10**9, "network": wf.MLP(hidden_layers=2)}, "weights would take .* reduce width"),
        ({"seed": -1}, "seed = -1"),
        ({"block": 0}, "block = 0"),
        ({"outputs": 0}, "outputs = 0"),
        ({"outputs": 2, "network": wf.MLP(outputs=3)}, "outputs = 2, but network.outputs = 3"),
        ({"x": np.full((2, 3), 1e300), "network": wf.MLP(activation="relu")}, "the fields overflow"),
    ],
)
def test_what_cannot_work_is_named(change, match):
    with pytest.raises(wf.InvalidInput, match=match):
        network_kernels(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("f", "change", "match"),
    [
        (
            lambda w, x: (x * w)[:, :, None],
            {},
            r"has shape \(2, 3, 1\) for x of shape \(2, 3\); it must be \(2, ",
        ),
        (lambda w, x: w, {}, r"has shape \(1, 1\) for x of shape \(2, 3\)"),
        (lambda w, x: (x * w, x), {}, "one array of floating numbers"),
        (lambda w, x: jnp.argmax(x * w, axis=1), {}, "one array of floating numbers"),
        (lambda w, x: x * jnp.sqrt(w - 1), {}, "derivatives that are NaN or infinite"),
        (lambda w, x: x * w, {"x": 1.0}, r"x has shape \(\)"),
        (lambda w, x: x * w, {"x": "text"}, "x is not an array"),
        (lambda w, x: x * w, {"x": [[np.inf]]}, "x holds values that are NaN or infinite"),
        (lambda w, x: x * w, {"x2": np.ones((2, 4))}, "samples must be alike"),
        (lambda w, x: x * w, {"params": np.ones((1, 1), np.int32)}, "params holds no array of floating numbers"),
        (lambda w, x: x * w, {"params": np.ones((1, 1), np.complex64)}, "params holds complex numbers"),
        (lambda w, x: x * w, {"block": 0}, "block = 0"),
    ],
)
def test_functions_that_cannot_work_are_named(f, change, match):
    arguments = {"params": np.ones((1, 1), np.float32), "x": np.ones((2, 3), np.float32), **change}
    with pytest.raises(wf.InvalidInput, match=match):
        ntk_of_function(f, **arguments)


def test_nngp_of_any_function():
    """Inner products of outputs; of the last layer's features it is what a network's own kernel is."""
    x = np.random.default_rng(1).normal(size=(7, 3))
    weights = {"first": np.random.default_rng(2).normal(size=(3, 5)), "scale": 0.7}

    def features(w, x):
        return jnp.tanh(x @ w["first"]) * w["scale"]

    plain = 0.7 * np.tanh(x @ weights["first"])
    np.testing.assert_allclose(nngp_of_function(features, weights, x, block=3), plain @ plain.T / 5, rtol=1e-12)
    mixed = nngp_of_function(features, weights, x[:2], x[2:])
    np.testing.assert_allclose(mixed, plain[:2] @ plain[2:].T / 5, rtol=1e-12)
    single = nngp_of_function(lambda w, x: features(w, x)[:, 0], weights, x)
    np.testing.assert_allclose(single, np.outer(plain[:, 0], plain[:, 0]), rtol=1e-12)
    with pytest.raises(wf.InvalidInput, match="x2 has shape"):
        nngp_of_function(features, weights, x, x[:, :2])
    with pytest.raises(wf.InvalidInput, match="f has values that are NaN"):
        nngp_of_function(lambda w, x: features(w, x) / 0.0, weights, x)
