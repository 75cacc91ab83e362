"""The training program against independent implementations, and against identities that hold at every width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from references import networks as reference
from widefield.matrices.dense import Dense
from widefield.training.program import compile_problem

PHI = {"tanh": jnp.tanh, "relu": jax.nn.relu, "gelu": lambda h: jax.nn.gelu(h, approximate=False)}


def initial_state(problem, width, seed=0):
    widths = problem.network.widths(width)
    richness = problem.network.effective_richness(widths[-1])
    program = compile_problem(problem, richness, tuple(n / widths[-1] for n in widths), "float64")
    return program, program.start(Dense(jnp.asarray(seed), widths, "float64"))


def as_lists(program, state):
    """Weights and biases of a state as the plain lists of a textbook network."""
    depth = program.network.hidden_layers
    hidden = [state.substrate.values[f"hidden {k}"] for k in range(1, depth)]
    weights = [state.weights["input"].T, *hidden, state.weights["readout"]]
    if program.network.has_biases:
        biases = [state.weights[f"bias {k}"][0] for k in range(1, depth + 1)]
        last = state.weights[f"bias {depth + 1}"]
        biases.append(last.mean(axis=1) * jnp.sqrt(last.shape[1] * 1.0))
    else:
        biases = [jnp.zeros(len(w)) for w in weights]
    return weights, biases


def autodiff_history(problem, width):
    program, state = initial_state(problem, width)
    weights, biases = as_lists(program, state)
    # The program's inputs are divided by sqrt(D) already; the textbook network divides by sqrt of the fan-in.
    x = program.inputs * np.sqrt(program.inputs.shape[1])
    gamma = problem.network.effective_richness(weights[-1].shape[1]) * np.sqrt(weights[-1].shape[1])
    losses = {
        "squared-error": lambda f, y: 0.5 * jnp.sum((f - y) ** 2),
        "logistic": lambda f, y: jnp.sum(jnp.log1p(jnp.exp(-f * y))),
        "softmax-cross-entropy": lambda f, y: jnp.sum(
            jax.scipy.special.logsumexp(f, axis=1) * jnp.sum(y, axis=1) - jnp.sum(f * y, axis=1)
        ),
    }
    loss = losses[problem.loss.kind]
    weight = 1.0 / (problem.optimiser.batch_size or len(problem.samples.y)) if problem.loss.reduction == "mean" else 1.0
    optimiser = problem.optimiser
    history, _ = reference.train_by_autodiff(
        (weights, biases),
        x,
        jnp.asarray(problem.samples.y),
        phi=PHI[problem.network.activation],
        gamma=gamma,
        loss=lambda f, y: weight * loss(f, y),
        rate=optimiser.learning_rate,
        steps=optimiser.steps,
        momentum=optimiser.momentum,
        decay=optimiser.weight_decay,
        train_biases=problem.network.train_biases,
        batches=optimiser.batches(problem.samples.samples),
        centred=problem.network.centred,
    )
    return np.asarray(history)


def own_history(problem, width):
    return wf.solve(problem, wf.FiniteWidth(width)).data.outputs.isel(seed=0).values


def make(
    layers,
    outputs=1,
    activation="tanh",
    loss=None,
    labels="random-sign",
    samples=5,
    dimension=4,
    rule=None,
    **kwargs,
):
    network = {k: kwargs.pop(k) for k in list(kwargs) if k in wf.MLP.__dataclass_fields__}
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, **{"richness": 1.3, **network}),
        data=wf.data.gaussian(samples=samples, dimension=dimension, outputs=outputs, labels=labels, seed=3),
        loss=loss or wf.SquaredError(),
        rule=rule or wf.GradientDescent(),
        optimiser=wf.SGD(**{"learning_rate": 0.07, "steps": 12, **kwargs}),
        record=wf.Record(every=1, neurons=0, kernels=False),
    )


CASES = {
    "one hidden layer": make(1),
    "two": make(2, activation="relu"),
    "four": make(4, activation="gelu"),
    "several outputs": make(2, outputs=3),
    "trained biases": make(4, train_biases=True, bias_variances=0.5),
    "frozen biases": make(2, bias_variances=(0.5, 0.2, 0.0)),
    "biases from zero, several outputs": make(2, outputs=2, train_biases=True),
    "momentum": make(2, momentum=0.8),
    "weight decay": make(2, weight_decay=0.3),
    "everything": make(
        4,
        outputs=3,
        train_biases=True,
        bias_variances=0.3,
        momentum=0.6,
        weight_decay=0.2,
        weight_variances=1.4,
    ),
    "everything, one hidden layer": make(1, outputs=2, train_biases=True, momentum=0.6, weight_decay=0.2),
    "unequal widths": make(3, width_ratios=(2.0, 0.5, 1.5), weight_variances=(1.3, 0.8, 1.2, 0.9)),
    "ntk parameterisation, not centred": make(2, parameterisation="ntk", centred=False),
    "minibatches": make(2, batch_size=2, samples=5),
    "one pass": make(2, batch_size=1, one_pass=True, samples=12),
    "more inputs than samples": make(2, dimension=30),
    "logistic": make(2, loss=wf.Logistic()),
    "softmax": make(2, outputs=3, labels="one-hot", loss=wf.SoftmaxCrossEntropy(reduction="mean")),
}


@pytest.mark.parametrize("name", CASES)
def test_gradient_descent_equals_automatic_differentiation(name, double):
    problem = CASES[name]
    ours, plain = own_history(problem, 24), autodiff_history(problem, 24)
    assert np.abs(plain[-1] - plain[0]).max() > 0.05  # something was learned
    np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-10)


RULES = {
    "gd": (wf.GradientDescent(), 0.0),
    "fa 0": (wf.FeedbackAlignment(0.0), 0.0),
    "fa 0.5": (wf.FeedbackAlignment(0.5), 0.5),
    "fa -1": (wf.FeedbackAlignment(-1.0), -1.0),
    "dfa": (wf.DirectFeedbackAlignment(), 0.0),
    "gln": (wf.GatedLinear(), 0.0),
    "hebb": (wf.Hebb(), 0.0),
}


def frozen_randomness(program, state, rule, rho):
    """The rule's own randomness, as the independent implementation wants it."""
    depth, substrate = program.network.hidden_layers, state.substrate
    initial = {
        "W0": np.asarray(state.weights["input"].T),
        "Ws": [np.asarray(substrate.values[f"hidden {k}"]) for k in range(1, depth)],
        "w": np.asarray(state.weights["readout"][0]),
    }
    if rule == "fa" and abs(rho) < 1:
        unmix = lambda mixed, own: (np.asarray(mixed) - rho * own) / np.sqrt(1 - rho**2)  # noqa: E731
        mixed = [substrate.values[f"feedback {k}"] for k in range(1, depth)]
        initial["Bs"] = [unmix(m, own) for m, own in zip(mixed, initial["Ws"], strict=True)]
        initial["b"] = unmix(state.frozen[f"feedback {depth}"][0], initial["w"])
    elif rule == "fa":
        initial["Bs"], initial["b"] = [0 * W for W in initial["Ws"]], 0 * initial["w"]
    elif rule == "dfa":
        initial["direct"] = [np.asarray(state.frozen[f"feedback {k}"][0]) for k in range(1, depth + 1)]
    elif rule == "gln":
        initial["gates"] = [np.asarray(state.frozen[f"gate {k}"].T) for k in range(1, depth + 1)]
    return initial


@pytest.mark.parametrize("layers", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize("name", RULES)
def test_rules_equal_their_definition(name, layers, double):
    rule, rho = RULES[name]
    kind = name.split()[0]
    activation = "relu" if kind == "gln" else "tanh"
    problem = make(layers, rule=rule, activation=activation, steps=8)
    problem = wf.Problem(
        problem.network, problem.data, problem.loss, rule, problem.optimiser, wf.Record(every=1, neurons=4)
    )
    program, state = initial_state(problem, 24)
    initial = frozen_randomness(program, state, kind, rho)
    x, y = np.asarray(program.inputs), problem.samples.y[:, 0]
    history = reference.train_by_rule(kind, initial, x, y, phi=activation, gamma0=1.3, rate=0.07, steps=8, rho=rho)
    data = wf.solve(problem, wf.FiniteWidth(24)).data.isel(seed=0)
    close = {"rtol": 0, "atol": 1e-10}
    for step, fields in enumerate(history):
        now = data.isel(time=step)
        np.testing.assert_allclose(now.outputs.values[:, 0], fields["f"], **close)
        ntk = x @ x.T * (fields["g"][0] @ fields["gt"][0].T / 24)
        for k in range(layers):
            phi, g, gt = fields["phi"][k], fields["g"][k], fields["gt"][k]
            np.testing.assert_allclose(now.feature_kernel.values[k], phi @ phi.T / 24, **close)
            np.testing.assert_allclose(now.gradient_kernel.values[k], g @ g.T / 24, **close)
            np.testing.assert_allclose(now.alignment_kernel.values[k], g @ gt.T / 24, **close)
            np.testing.assert_allclose(now.pseudo_gradient_kernel.values[k], gt @ gt.T / 24, **close)
            np.testing.assert_allclose(now.preactivation.values[k], fields["h"][k][:, :4], **close)
            above = fields["g"][k + 1] @ fields["gt"][k + 1].T / 24 if k + 1 < layers else 1.0
            ntk = ntk + above * (phi @ phi.T / 24)
        np.testing.assert_allclose(now.ntk.values, ntk, **close)


def test_feedback_does_not_decay(double):
    """Weights decay, frozen feedback does not; with the decay that BP23 App. C.3 gives it outputs would be others."""
    problem = make(3, rule=wf.FeedbackAlignment(0.5), steps=8, weight_decay=1.5)
    program, state = initial_state(problem, 24)
    initial = frozen_randomness(program, state, "fa", 0.5)
    x, y = np.asarray(program.inputs), problem.samples.y[:, 0]
    options = {"phi": "tanh", "gamma0": 1.3, "rate": 0.07, "steps": 8, "rho": 0.5, "decay": 1.5}
    ours = own_history(problem, 24)[..., 0]
    frozen, decaying = (
        np.array([fields["f"] for fields in reference.train_by_rule("fa", initial, x, y, printed=printed, **options)])
        for printed in (False, True)
    )
    np.testing.assert_allclose(ours, frozen, rtol=0, atol=1e-10)
    assert np.abs(ours - decaying).max() > 5e-3


def test_several_outputs_of_other_rules(double):
    """With C outputs the rules are linear in the errors (Hebb: |Delta|^2), whatever the number of outputs."""
    for rule in (wf.FeedbackAlignment(0.3), wf.DirectFeedbackAlignment(), wf.Hebb()):
        problem = make(2, outputs=3, rule=rule, steps=1)
        program, state = initial_state(problem, 16)
        forward, _ = program.forward(state, jnp.arange(5))
        errors = program.errors(forward.outputs, program.targets)
        summed, _ = rule.pseudo_gradient(errors[:, None, :], errors, forward, state)
        identity = jnp.broadcast_to(jnp.eye(3), (5, 3, 3))
        apart, _ = rule.pseudo_gradient(identity, errors, forward, state)
        for total, parts in zip(summed, apart, strict=True):
            np.testing.assert_allclose(total[:, 0], jnp.einsum("pc,pcn->pn", errors, parts), rtol=0, atol=1e-12)
        if isinstance(rule, wf.Hebb):
            square = jnp.sum(errors**2, axis=1, keepdims=True)
            np.testing.assert_allclose(summed[1][:, 0], square * forward.features[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("width", [1, pytest.param(7, marks=pytest.mark.slow), 64])
@pytest.mark.parametrize("name", ["gd", "fa 0.5", "dfa", "hebb", "gln"])
def test_feature_space_identity(name, width, double):
    """h(t) = chi(t) + eta gamma0 sum_s Delta Phi(t, s) gt(s), and the same for z, at every width."""
    rule, _ = RULES[name]
    activation = "relu" if name == "gln" else "tanh"
    base = make(3, rule=rule, activation=activation, steps=6)
    record = wf.Record(every=1, neurons=width, two_time=True)
    problem = wf.Problem(base.network, base.data, base.loss, rule, base.optimiser, record)
    trajectory = wf.solve(problem, wf.FiniteWidth(width))
    data = trajectory.data.isel(seed=0)
    program, state = initial_state(problem, width)
    matrices = [np.asarray(state.substrate.values[f"hidden {k}"]) for k in (1, 2)]
    # Recover the fields at every step from an independent run of the definition.
    initial = frozen_randomness(program, state, name.split()[0], 0.5)
    x, y = np.asarray(program.inputs), problem.samples.y[:, 0]
    history = reference.train_by_rule(
        name.split()[0], initial, x, y, phi=activation, gamma0=1.3, rate=0.07, steps=6, rho=0.5
    )
    t, times = 6, data.time.values
    now = history[t]
    for layer in (2, 3):
        chi = now["phi"][layer - 2] @ matrices[layer - 2].T / np.sqrt(width)
        for s in range(t):
            kernel = trajectory.two_time("feature_kernel", layer - 1, times[t], times[s]).isel(seed=0).values
            chi = chi + 0.07 * 1.3 * (kernel * history[s]["delta"]) @ history[s]["gt"][layer - 1]
        np.testing.assert_allclose(data.preactivation.values[t, layer - 1], chi, rtol=0, atol=1e-10)
    for layer in (1, 2):
        xi = now["g"][layer] @ matrices[layer - 1] / np.sqrt(width)
        for s in range(t):
            kernel = trajectory.two_time("alignment_kernel", layer + 1, times[t], times[s]).isel(seed=0).values
            xi = xi + 0.07 * 1.3 * (kernel * history[s]["delta"]) @ history[s]["phi"][layer - 1]
        np.testing.assert_allclose(data.pregradient.values[t, layer - 1], xi, rtol=0, atol=1e-10)
