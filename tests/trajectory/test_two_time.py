"""Kernels between two times: of networks by automatic differentiation, and of all theories against each other."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from references import networks as reference
from widefield.matrices.dense import Dense
from widefield.training.program import compile_problem

KERNELS = ("feature_kernel", "gradient_kernel", "alignment_kernel", "pseudo_gradient_kernel")
RULES = {
    "gd": wf.GradientDescent(),
    "fa": wf.FeedbackAlignment(0.5),
    "fa0": wf.FeedbackAlignment(0.0),
    "dfa": wf.DirectFeedbackAlignment(),
    "hebb": wf.Hebb(),
}
SHARP = wf.InfiniteWidth(512, 1, rank_tolerance=1e-7)


def problem(layers=2, activation="linear", rule="gd", outputs=1, responses=False, **network):
    return wf.Problem(
        wf.MLP(layers, activation, **network),
        wf.data.gaussian(samples=3, dimension=4, outputs=outputs, test_samples=1, seed=2),
        rule=RULES[rule],
        optimiser=wf.SGD(learning_rate=0.05, steps=6),
        record=wf.Record(every=2, samples=2, neurons=0, two_time=True, responses=responses),
    )


def kernel(found, name, layer):
    """All pairs of times, as one array."""
    return found.two_time(name, layer).values


def assert_close(one, other, names, rtol=0.0, atol=1e-9):
    for name in names:
        for layer in range(1, one.data.sizes["layer"] + (not name.endswith("response"))):
            expected = kernel(other, name, layer)
            size = max(np.abs(expected).max(), 1e-3)
            np.testing.assert_allclose(
                kernel(one, name, layer), expected, rtol=0, atol=atol + rtol * size, err_msg=f"{name} {layer}"
            )
    np.testing.assert_allclose(one.two_time("ntk"), other.two_time("ntk"), rtol=0, atol=atol + rtol * 10)


def assert_consistent(found):
    """At equal times it is the kernel that is recorded."""
    diagonal = np.arange(found.data.sizes["time"])
    for name in (*KERNELS, "ntk"):
        pairs = found.two_time(name) if name == "ntk" else found.two_time(name, 1)
        recorded = found.data[name] if name == "ntk" else found.data[name].sel(layer=1)
        pairs = pairs.transpose("time", "time_", ...).values[diagonal, diagonal]
        np.testing.assert_allclose(pairs, recorded.transpose("time", ...), rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("biases", [False, True])
def test_the_tangent_kernel_of_networks_is_that_of_their_gradients(biases, double):
    """gamma^2 <df(t)/dW, df(s)/dW> from the weights at two times, by automatic differentiation."""
    asked = problem(2, "tanh", outputs=2, richness=1.5, train_biases=biases, bias_variances=0.1 * biases)
    asked = dataclasses.replace(asked, record=wf.Record(every=2, two_time=True))
    program = compile_problem(asked, 1.5, (1.0, 1.0), "float64")
    state = program.start(Dense(jnp.asarray(0), (5, 5), "float64"))
    weights = [state.weights["input"].T, state.substrate.values["hidden 1"], state.weights["readout"]]
    shifts = [jnp.zeros(len(weight)) for weight in weights]
    if biases:
        last = state.weights["bias 3"].mean(axis=1) * jnp.sqrt(5.0)
        shifts = [state.weights["bias 1"][0], state.weights["bias 2"][0], last]
    gamma, y = 1.5 * np.sqrt(5), jnp.asarray(asked.samples.y)
    x = program.inputs[:3] * np.sqrt(program.inputs.shape[1])

    def slopes(steps):
        _, (weights_then, shifts_then) = reference.train_by_autodiff(
            (weights, shifts),
            x,
            y,
            phi=jnp.tanh,
            gamma=gamma,
            loss=lambda f, y: 0.5 * jnp.sum((f - y) ** 2),
            rate=0.05,
            steps=steps,
            train_biases=biases,
        )
        learns = (weights_then, shifts_then) if biases else (weights_then, [])
        fixed = [] if biases else shifts_then

        def outputs(learns):
            return reference.network((learns[0], learns[1] + fixed), x, jnp.tanh, gamma)

        leaves = jax.tree.leaves(jax.jacobian(outputs)(learns))
        return gamma * jnp.concatenate([leaf.reshape(*y.shape, -1) for leaf in leaves], axis=-1)

    expected = jnp.einsum("pcw,qdw->pcqd", slopes(6), slopes(2))
    found = wf.solve(asked, wf.FiniteWidth(5))
    at_two_times = found.two_time("ntk", t=0.3, s=0.1).isel(seed=0)
    assert at_two_times.dims == ("sample", "output", "sample_", "output_")
    np.testing.assert_allclose(at_two_times, expected, rtol=1e-8)
    everywhere = found.two_time("ntk").isel(seed=0, time=3, time_=1)
    np.testing.assert_allclose(everywhere.transpose(*at_two_times.dims), expected, rtol=1e-8)


@pytest.mark.parametrize("rule", RULES)
def test_alternating_monte_carlo(rule):
    """Kernels and responses at all pairs of times against closed equations; linear networks are exact."""
    asked = problem(3, rule=rule, responses=True, width_ratios=(2.0, 1.0, 0.5), weight_variances=0.8)
    settings = {"iterations": 200, "tolerance": 1e-11, "damping": 1.0, "jitter": 1e-13, "settle": 200}
    found = wf.solve(
        asked, wf.AlternatingMonteCarlo(200, fresh=False, matched=True, jacobian_samples=1, replicas=1, **settings)
    )
    exact = wf.solve(asked, wf.ClosedLinear())
    assert_consistent(found)
    assert_close(found, exact, KERNELS, atol=1e-6)
    # Closed equations ascribe to the first sample, or record, what is the same for all: products are compared.
    for layer in (1, 2):
        ours, theirs = (
            kernel(answer, "gradient_response", layer).reshape(8, 8)
            @ kernel(exact, "feature_kernel", layer).reshape(8, 8)
            for answer in (found, exact)
        )
        assert np.abs(ours).max() > (1e-3 if rule != "fa0" else 0)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("outputs", [1, 2])
def test_one_hidden_layer(rule, outputs):
    """Sampled neurons of a linear network have exact second moments, between two times too."""
    asked = problem(1, rule=rule, outputs=outputs, train_biases=True, bias_variances=0.3)
    found = wf.solve(asked, wf.TwoLayer(64, 2, method="sampled"))
    assert_consistent(found)
    assert_close(found, wf.solve(asked, wf.ClosedLinear()), KERNELS, atol=1e-9)


def test_one_hidden_layer_on_a_grid():
    """Neurons that are not equally likely count by their chances; sampled ones agree within their errors."""
    asked = problem(1, "tanh", rule="fa", richness=2.0)
    asked = dataclasses.replace(asked, data=wf.Data([[1.0, 0.3]], [1.5]), record=wf.Record(every=2, two_time=True))
    found = wf.solve(asked, wf.TwoLayer(method="grid", spacing=0.1))
    assert_consistent(found)
    sampled = wf.solve(asked, wf.TwoLayer(2**12, 4, method="sampled"))
    errors = [sampled.data[f"{name}_error"].max() / np.abs(sampled.data[name]).max() for name in KERNELS]
    assert max(errors) < 2e-3
    assert_close(found, sampled, KERNELS, rtol=5 * float(max(errors)))


def test_moments_are_followed_at_equal_times_only():
    flow = dataclasses.replace(problem(1), optimiser=wf.GradientFlow(0.3, intervals=6))
    assert wf.solve(flow, wf.TwoLayer(64, 1)).data.attrs["method"] != "ode"
    with pytest.raises(wf.NotInScope, match=r"record.two_time = true: second moments .* use method = 'auto'"):
        wf.solve(flow, wf.TwoLayer(method="ode"))


@pytest.mark.parametrize("rule", RULES)
def test_kernels_that_stand_still(rule):
    """The lazy limit against closed equations of a small richness; all responses vanish with it."""
    asked = problem(2, rule=rule, outputs=2, richness=1e-7, responses=True)
    found, exact = wf.solve(asked, wf.Lazy()), wf.solve(asked, wf.ClosedLinear())
    assert_consistent(found)
    assert_close(found, exact, KERNELS, atol=1e-6)
    assert not kernel(found, "gradient_response", 1).any()
    if rule == "gd":
        assert not kernel(found, "feature_response", 1).any()


def test_fluctuations_keep_the_means_of_the_lazy_limit():
    asked = dataclasses.replace(problem(2, "tanh", responses=True), record=wf.Record(2, two_time=True, responses=True))
    found, lazy = wf.solve(asked, wf.Fluctuations(64, points=64)), wf.solve(asked, wf.Lazy())
    assert_consistent(found)
    assert_close(found, lazy, (*KERNELS, "feature_response", "gradient_response"), atol=1e-10)


def test_leading_order_between_two_times():
    """Errors fall with the fourth power of the richness, those of static kernels with the second."""
    distances = {}
    for richness in (0.1, 0.2):
        asked = problem(2, outputs=2, richness=richness)
        exact = wf.solve(asked, wf.ClosedLinear())
        for theory in (wf.Perturbative(), wf.Lazy()):
            found = wf.solve(asked, theory)
            assert_consistent(found)
            for name in ("feature_kernel", "gradient_kernel", "ntk"):
                ours, theirs = (answer.two_time(name, 2, 0.3, 0.1) for answer in (found, exact))
                distances.setdefault((theory.kind, name), []).append(float(np.abs(ours - theirs).max()))
    for (kind, _), (first, second) in distances.items():
        assert np.log2(second / first) == pytest.approx({"perturbative": 4, "lazy": 2}[kind], abs=0.3)


def test_leading_order_of_sampled_neurons():
    """Between two times the sampled correction of a linear network is the closed one, up to its standard error."""
    asked = problem(2, richness=0.3)
    biased = problem(2, richness=0.3, bias_variances=1e-14)  # no biases, but no closed form either
    closed, sampled = wf.solve(asked, wf.Perturbative()), wf.solve(biased, wf.Perturbative(1024, 2))
    assert_consistent(sampled)
    assert_close(sampled, closed, KERNELS, rtol=1e-3)


def test_gradient_independence_and_layers():
    found = wf.solve(problem(2), wf.GradientIndependence(512, 2))
    assert_consistent(found)
    with pytest.raises(wf.InvalidInput, match=r"layer = None: feature_kernel is a kernel of a layer, from 1 to 2"):
        found.two_time("feature_kernel")


def test_closed_equations_give_what_was_asked():
    """Responses only if they were asked for."""
    assert not [name for name in wf.solve(problem(2), wf.ClosedLinear()).data if "response" in str(name)]
    found = wf.solve(problem(2, responses=True), wf.ClosedLinear())
    assert_close(found, wf.solve(problem(2, responses=True), SHARP), KERNELS, atol=1e-6)
    assert found.two_time("feature_response", 1).any()
