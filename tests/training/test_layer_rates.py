"""Learning rates of single layers, PDLT eqs. (7.11), (8.6): networks, infinite width, kernels, closed equations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from references.layer_rates import trained
from widefield.base.errors import InvalidInput
from widefield.kernels import network_kernels
from widefield.kernels.stability import kernel_limit
from widefield.problem.theory import NotInScope

WEIGHTS, BIASES = (0.6, 1.7, 0.3), (0.5, 0.0, 1.4)
DATA = wf.data.gaussian(samples=4, dimension=6, seed=3)
BIASED = wf.MLP(
    2,
    "tanh",
    richness=1.3,
    weight_variances=(1.2, 0.8, 1.5),
    bias_variances=0.2,
    train_biases=True,
    width_ratios=(2, 1),
)


def problem(network, optimiser, rule=None, data=DATA, **record):
    return wf.Problem(network, data, rule=rule, optimiser=optimiser, record=wf.Record(every=1, neurons=0, **record))


def by_jax_grad(given, width, optimiser):
    start = wf.FiniteWidth(width).initial_weights(given)
    names = {"W0": "W0", "W1": "W1", "w": "W2", "b0": "b0", "b1": "b1", "b2": "b2"}
    with jax.enable_x64(True):
        weights = {names[name]: jnp.asarray(value).reshape(-1) if name[0] == "b" else jnp.asarray(value)
                   for name, value in start.items()}  # fmt: skip
        gamma = given.network.richness * np.sqrt(width)
        return trained(
            weights, given.samples.x, given.samples.y, phi=jnp.tanh, gamma=gamma, weight_rates=WEIGHTS,
            bias_rates=BIASES, **optimiser,
        )  # fmt: skip


def test_networks_are_those_of_one_rate_for_every_parameter():
    sgd = wf.SGD(0.2, 6, momentum=0.4, weight_decay=0.3, weight_rates=WEIGHTS, bias_rates=BIASES)
    given = problem(BIASED, sgd)
    found = wf.solve(given, wf.FiniteWidth(16)).data.isel(seed=0)
    outputs, ntk = by_jax_grad(given, 16, {"eta": 0.2, "steps": 6, "momentum": 0.4, "decay": 0.3})
    assert np.allclose(found.outputs.values, outputs, rtol=0, atol=1e-11)
    assert np.allclose(found.ntk.isel(time=0).values, ntk, rtol=0, atol=1e-10)
    assert np.ptp(outputs[-1]) > 0.1  # something was learned


def test_flow_is_the_limit_of_small_steps():
    flow = wf.GradientFlow(0.5, steps=1, tolerance=1e-8, weight_decay=0.3, weight_rates=WEIGHTS, bias_rates=BIASES)
    given = problem(BIASED, flow)
    found = wf.solve(given, wf.FiniteWidth(16)).data.isel(seed=0, time=-1).outputs.values
    coarse, fine = (
        by_jax_grad(given, 16, {"eta": 0.5 / steps, "steps": steps, "decay": 0.3})[0][-1] for steps in (200, 400)
    )
    assert np.allclose(found, 2 * fine - coarse, rtol=0, atol=2e-5)


def scaled(activation, layers, **also):
    """The same networks twice: with rates w_l; and with W^l / sqrt(w_l), richness / c, rate c^2 eta, c^2 = prod w.

    For activations that are homogeneous of the first degree a rate is a unit of weights.
    """
    rates = (0.6, 1.7, 0.3, 2.2)[: layers + 1]
    c = float(np.sqrt(np.prod(rates)))
    network = wf.MLP(layers, activation, richness=1.1, weight_variances=1.3)
    other = dataclasses.replace(network, richness=1.1 / c, weight_variances=tuple(1.3 / w for w in rates))
    return (
        problem(network, wf.SGD(0.1, 8, weight_rates=rates, **also), two_time=True),
        problem(other, wf.SGD(0.1 * c**2, 8, **also), two_time=True),
        c,
    )


@pytest.mark.parametrize(
    "theory", [wf.FiniteWidth(12), wf.InfiniteWidth(particles=256, replicas=2)], ids=lambda t: t.kind
)
@pytest.mark.parametrize("activation", ["relu", "linear"])
def test_rates_are_units_of_weights(activation, theory):
    layered, plain, c = scaled(activation, 3, momentum=0.3)
    ours, other = wf.solve(layered, theory), wf.solve(plain, theory)
    close = 1e-10 if theory.kind == "finite-width" else 1e-7
    assert np.allclose(ours.data.outputs.values, other.data.outputs.values, rtol=0, atol=close)
    assert np.allclose(ours.data.ntk.values, c**2 * other.data.ntk.values, rtol=close, atol=close)
    assert np.ptp(ours.data.ntk.isel(time=-1).values - ours.data.ntk.isel(time=0).values) > 1e-3
    if theory.kind == "infinite-width":
        return  # with two replicas the product of means is not the mean of products
    moment = float(ours.data.time[5])
    between = ours.two_time("ntk", time=moment, time_=moment).values
    assert np.allclose(between, ours.data.ntk.isel(time=5).values, rtol=1e-8, atol=1e-8)


RULES = [
    wf.GradientDescent(),
    wf.FeedbackAlignment(0.4),
    wf.DirectFeedbackAlignment(),
    wf.Hebb(),
    wf.GatedLinear(),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_closed_equations_and_engine(rule):
    """Deep linear networks: two codes that share nothing agree on outputs and kernels."""
    network = wf.MLP(
        2, "linear", richness=0.9, weight_variances=(1.2, 0.8, 1.5), bias_variances=0.2, train_biases=True,
        width_ratios=(2, 1),
    )  # fmt: skip
    sgd = wf.SGD(0.05, 5, momentum=0.3, weight_rates=WEIGHTS, bias_rates=BIASES)
    given = problem(network, sgd, rule, wf.data.gaussian(samples=2, dimension=6, test_samples=1, seed=3))
    sweep, grid = (wf.solve(given, wf.ClosedLinear(method)).data for method in ("sweep", "fixed-point"))
    engine = wf.solve(given, wf.InfiniteWidth(particles=256, replicas=1, rank_tolerance=1e-7)).data
    plain = wf.solve(dataclasses.replace(given, optimiser=wf.SGD(0.05, 5, momentum=0.3)), wf.ClosedLinear()).data
    for name in ("outputs", "test_outputs", "feature_kernel", "gradient_kernel", "alignment_kernel", "ntk"):
        one, two, three = (data[name].values.squeeze() for data in (sweep, grid, engine))
        size = np.abs(one).max()
        assert np.allclose(one, two, rtol=0, atol=1e-8 * size), name
        assert np.allclose(one, three, rtol=0, atol=2e-8 * size), name
        assert name == "alignment_kernel" or np.abs(one - plain[name].values.squeeze()).max() > 1e-4 * size


@pytest.mark.parametrize(
    "theory", [wf.FiniteWidth(8), wf.InfiniteWidth(particles=64, replicas=1)], ids=lambda t: t.kind
)
def test_one_factor_for_all_is_another_learning_rate(theory):
    """Decay and noise included: w (G - lambda W) and sqrt(2 eta T w)."""
    also = {"momentum": 0.4, "weight_decay": 0.3, "temperature": 0.2}
    network = dataclasses.replace(BIASED, width_ratios=None)
    layered = problem(network, wf.SGD(0.05, 4, weight_rates=2.0, bias_rates=(2.0, 2.0, 2.0), **also))
    plain = problem(network, wf.SGD(0.1, 4, **also))
    ours, other = (wf.solve(each, theory).data for each in (layered, plain))
    assert np.allclose(ours.outputs.values, other.outputs.values, rtol=0, atol=1e-9)
    assert np.allclose(ours.ntk.values, 2 * other.ntk.values, rtol=1e-9, atol=1e-9)


def test_a_rate_of_zero_keeps_a_layer():
    sgd = wf.SGD(0.2, 3, temperature=0.1, weight_decay=0.2, weight_rates=(0.0, 0.0, 1.0))
    found = wf.solve(problem(wf.MLP(2, "tanh"), sgd), wf.FiniteWidth(8)).data.feature_kernel
    assert np.array_equal(found.isel(time=0), found.isel(time=-1))


def test_lazy_networks_of_linear_layers():
    """K = (w_0 + w_1 + w_2) K^x + b_0 + b_1 + b_2 in closed form; f follows (1 - eta K)^t."""
    network = wf.MLP(2, "linear", train_biases=True)
    given = problem(network, wf.SGD(0.1, 7, weight_rates=WEIGHTS, bias_rates=BIASES))
    x, y = given.samples.x, given.samples.y
    kernel = sum(WEIGHTS) * x @ x.T / x.shape[1] + sum(BIASES)
    data = wf.solve(given, wf.Lazy()).data
    left = np.linalg.matrix_power(np.eye(len(x)) - 0.1 * kernel, 7)
    assert np.allclose(data.outputs.isel(time=-1).values, (np.eye(len(x)) - left) @ y, rtol=0, atol=1e-12)
    assert np.allclose(data.ntk.isel(time=3).values.squeeze(), kernel, rtol=0, atol=1e-12)
    assert np.isclose(kernel_limit(given).rate, 2 / np.linalg.eigvalsh(kernel)[-1], rtol=1e-12)


def test_kernels_of_networks():
    given = problem(BIASED, wf.SGD(0.1, 1, weight_rates=WEIGHTS, bias_rates=BIASES))
    recorded = wf.solve(given, wf.FiniteWidth(16)).data.ntk.isel(seed=0, time=0).values
    x = given.samples.x
    x = x if x.shape[1] <= len(x) else given.samples.reduced()[0] * np.sqrt(given.samples.reduced()[0].shape[1])
    asked = network_kernels(BIASED, x, width=16, weight_rates=WEIGHTS, bias_rates=BIASES).ntk
    assert np.allclose(asked, recorded, rtol=0, atol=1e-10)


def test_who_does_not_know_them_says_so():
    given = problem(wf.MLP(1, "tanh"), wf.SGD(0.1, 3, weight_rates=(1.0, 0.5)))
    for theory in (wf.AlternatingMonteCarlo(), wf.TwoLayer(), wf.Perturbative(), wf.Fluctuations(100)):
        with pytest.raises(NotInScope, match=r"optimiser\.weight_rates"):
            wf.solve(given, theory)
    decaying = problem(wf.MLP(1, "linear"), wf.SGD(0.1, 3, weight_decay=0.1, weight_rates=(1.0, 0.5)))
    with pytest.raises(NotInScope, match="weight decay or noise"):
        wf.solve(decaying, wf.ClosedLinear())


def test_checks():
    with pytest.raises(InvalidInput, match="weight_rates has 2 entries"):
        problem(wf.MLP(2), wf.SGD(0.1, 3, weight_rates=(1.0, 0.5)))
    with pytest.raises(InvalidInput, match="biases do not learn"):
        problem(wf.MLP(2), wf.GradientFlow(0.1, bias_rates=0.5))
    with pytest.raises(InvalidInput, match="bias_rates"):
        wf.SGD(0.1, 3, bias_rates=-1.0)


@pytest.mark.parametrize("optimiser", [wf.SGD(0.1, 3), wf.GradientFlow(0.3, steps=3)], ids=lambda o: o.kind)
def test_files(optimiser):
    plain = problem(BIASED, optimiser)
    layered = problem(BIASED, dataclasses.replace(optimiser, weight_rates=WEIGHTS, bias_rates=0.5))
    assert "rates" not in plain.to_toml()
    for each in (plain, layered):
        assert wf.Problem.from_toml(each.to_toml()) == each


def test_automatic_rate():
    """The rate that is found is half of what the kernel with these rates allows, or less."""
    given = problem(wf.MLP(1, "linear", richness=0.05), wf.SGD("auto", 5, weight_rates=(3.0, 5.0)))
    rate = wf.solve(given, wf.Lazy()).problem.optimiser.learning_rate
    x = given.samples.x
    assert rate <= 1.0001 / np.linalg.eigvalsh(8.0 * x @ x.T / x.shape[1])[-1]
