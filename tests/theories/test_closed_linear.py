"""Closed equations of linear networks: known numbers, a plain reference, the iteration, and width infinity."""

import dataclasses

import numpy as np
import pytest

import widefield as wf
from problems import LINEAR_DESCENT, REFERENCE_KERNELS
from references.linear import sweep
from widefield.problem.weight_memory import WeightMemory
from widefield.solvers.closed.gates import Gates

ONE, PAIR = [[1.0]], [[1.0, 0.5], [0.5, 1.0]]
DIGITS = {"rtol": 0, "atol": 6e-11}
METHODS = (wf.ClosedLinear(), wf.ClosedLinear("fixed-point", tolerance=1e-13))
SHARP = wf.InfiniteWidth(particles=256, replicas=1, rank_tolerance=1e-7)
RULES = {
    "gd": wf.GradientDescent(),
    "fa": wf.FeedbackAlignment(0.5),
    "fa0": wf.FeedbackAlignment(0.0),
    "fa1": wf.FeedbackAlignment(1.0),
    "dfa": wf.DirectFeedbackAlignment(),
    "hebb": wf.Hebb(),
    "gln": wf.GatedLinear(),
}
MIXED = {
    "weight_variances": (1.3, 0.8, 1.2, 0.9),
    "bias_variances": (0.3, 0.2, 0.1, 0.0),
    "train_biases": True,
    "width_ratios": (2.0, 0.5, 1.0),
}


def given(kernel, y, layers, rule, steps, rate=0.05, richness=1.0):
    """A problem with this input kernel."""
    factor = np.linalg.cholesky(np.asarray(kernel)) * np.sqrt(len(kernel))
    activation = "relu" if rule == "gln" else "linear"
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, richness=richness),
        data=wf.Data(factor, np.asarray(y, float)),
        rule=RULES[rule],
        optimiser=wf.SGD(learning_rate=rate, steps=steps),
        record=wf.Record(every=1),
    )


def random(rule="gd", layers=3, samples=3, test=0, outputs=1, steps=8, seed=0, **options):
    """A problem with random data. Options are those of the network and the optimiser."""
    generator = np.random.default_rng(seed)
    x, y = generator.normal(size=(samples + test, 5)), generator.normal(size=(samples + test, outputs))
    held = (x[samples:], y[samples:]) if test else ()
    fields = {field.name for field in dataclasses.fields(wf.MLP)}
    network = {name: value for name, value in options.items() if name in fields}
    activation = "relu" if rule == "gln" else "linear"
    return wf.Problem(
        network=wf.MLP(hidden_layers=layers, activation=activation, **{"richness": 0.8} | network),
        data=wf.Data(x[:samples], y[:samples], *held),
        rule=RULES[rule],
        optimiser=wf.SGD(
            learning_rate=tuple(np.linspace(0.06, 0.02, steps)),
            steps=steps,
            **{name: value for name, value in options.items() if name not in fields},
        ),
        record=wf.Record(every=1, two_time=True, test_kernels=True),
    )


def reference(problem):
    """The same problem for the plain reference."""
    network, optimiser, samples = problem.network, problem.optimiser, problem.samples
    x = np.concatenate([samples.x, samples.x_test])
    used = np.zeros((optimiser.steps, len(x)))
    rows = optimiser.batches(samples.samples)
    used[:, : samples.samples] = rows is None
    if rows is not None:
        np.put_along_axis(used, rows, 1.0, axis=1)
    names = {"gradient-descent": "gd", "gated-linear": "gln", "direct-feedback-alignment": "dfa", "hebb": "hebb"}
    return sweep(
        x @ x.T / samples.dimension,
        np.concatenate([samples.y, samples.y_test]),
        depth=network.hidden_layers,
        gamma0=network.richness,
        eta=optimiser.rates(),
        steps=optimiser.steps,
        rule=names.get(problem.rule.kind, "fa"),
        rho=getattr(problem.rule, "correlation", 0.0),
        momentum=optimiser.momentum,
        decay=optimiser.weight_decay,
        temperature=optimiser.temperature,
        batches=used,
        weight_variances=[s**2 for s in network.weight_scales],
        bias_variances=[s**2 for s in network.bias_scales],
        train_biases=network.train_biases,
        width_ratios=network.width_ratios,
    )


def assert_equal_to_reference(problem, theory, atol):
    found, exact = wf.solve(problem, theory).data, reference(problem)
    train = problem.samples.samples
    outputs = exact.f[:, :train]
    kernels = {name: exact.equal_time(theirs) for name, theirs in REFERENCE_KERNELS.items()}
    features = kernels.pop("feature_kernel")  # which are the same for all outputs
    expected = {"outputs": outputs, "feature_kernel": features[:, :, :train, :train]}
    expected |= {name: kernel[:, :, :train, :, :train] for name, kernel in kernels.items()}
    expected["ntk"] = exact.ntk()[:, :train, :, :train]
    if problem.samples.test_samples:
        expected["test_outputs"] = exact.f[:, train:]
        expected["test_feature_kernel"] = exact.equal_time("features")[:, :, train:, :train]
        expected["test_alignment_kernel"] = exact.equal_time("alignment")[:, :, train:, :, :train]
        expected["test_ntk"] = exact.ntk()[:, train:, :, :train]
    for name, value in expected.items():
        np.testing.assert_allclose(found[name].values, value.reshape(found[name].shape), atol=atol, err_msg=name)


def assert_same(one, other, atol):
    """All variables of both, and two-time kernels if there are any."""
    names = [n for n in one.data.data_vars if n in other.data and not str(n).endswith(("_factor", "_error"))]
    assert {"outputs", "loss", "feature_kernel", "gradient_kernel", "alignment_kernel", "ntk"} <= set(names)
    for name in names:
        np.testing.assert_allclose(one.mean(name), other.mean(name), atol=atol, err_msg=str(name))
    if one.problem.record.two_time:
        for name in ("feature_kernel", "gradient_kernel", "alignment_kernel", "pseudo_gradient_kernel"):
            for layer in range(1, one.problem.network.hidden_layers + 1):
                pair = (one.two_time(name, layer), other.two_time(name, layer))
                np.testing.assert_allclose(*pair, atol=atol, err_msg=f"{name} of layer {layer} at two times")


@pytest.mark.parametrize("theory", METHODS, ids=["sweep", "fixed-point"])
@pytest.mark.parametrize(("layers", "f", "last", "first"), LINEAR_DESCENT)
def test_gradient_descent_on_one_sample(theory, layers, f, last, first):
    found = wf.solve(given(ONE, [1.0], layers, "gd", 20), theory).data.squeeze()
    np.testing.assert_allclose(found["outputs"][[1, 5, 10, 20]], f, **DIGITS)
    features, gradients = (np.atleast_1d(found[name][-1]) for name in ("feature_kernel", "gradient_kernel"))
    np.testing.assert_allclose((features[-1], gradients[0], features[0]), (last, last, first), **DIGITS)


def test_gradient_descent_on_two_samples():
    problem = given(PAIR, (1.0, 0.5), 3, "gd", 10)
    problem = dataclasses.replace(problem, record=wf.Record(every=1, two_time=True))
    found = wf.solve(problem, wf.ClosedLinear())
    outputs = found.data["outputs"][[5, 10], :, 0]
    np.testing.assert_allclose(outputs, [[0.8009064622, 0.5644725364], [0.9419520414, 0.5618792863]], **DIGITS)
    last = [[2.0154454712, 1.0964266327], [1.0964266327, 1.3480855302]]
    np.testing.assert_allclose(found.data["feature_kernel"][10, 2], last, **DIGITS)
    np.testing.assert_allclose(found.data["gradient_kernel"][10, 0], 2.0215519093, **DIGITS)
    mixed = [[1.1649741068, 0.6231759762], [0.5691356872, 1.0544604198]]
    np.testing.assert_allclose(found.two_time("feature_kernel", 3, 0.5, 0.0), mixed, **DIGITS)


@pytest.mark.parametrize("theory", METHODS, ids=["sweep", "fixed-point"])
@pytest.mark.parametrize(
    ("rule", "f", "kernel"),
    [
        ("fa0", (0.2351986700, 0.4531547438, 0.7947317497), 1.8002256394),
        ("dfa", (0.2351986700, 0.4531547438, 0.7947317497), 1.8002256394),
        ("fa", (0.3802036116, 0.6513439721, 0.9171676953), 1.6720398772),
        ("fa1", (0.5693031087, 0.8329097697, 0.9789129659), 1.4683735334),
        ("hebb", (0.3846814528, 0.7468906856, 0.9588960007), 3.0846399693),
    ],
)
def test_other_rules_on_one_sample(theory, rule, f, kernel):
    found = wf.solve(given(ONE, [1.0], 2, rule, 20), theory).data.squeeze()
    np.testing.assert_allclose(found["outputs"][[5, 10, 20]], f, **DIGITS)
    np.testing.assert_allclose(found["feature_kernel"][-1, 1], kernel, **DIGITS)


def test_feedback_alignment_on_two_samples():
    found = wf.solve(given(PAIR, (1.0, 0.5), 3, "fa0", 10), wf.ClosedLinear()).data
    expected = [[0.2976410118, 0.2323147923], [0.5809048317, 0.4358179417]]
    np.testing.assert_allclose(found["outputs"][[5, 10], :, 0], expected, **DIGITS)
    last = [[1.7024875515, 1.0270341405], [1.0270341405, 1.3954020035]]
    np.testing.assert_allclose(found["feature_kernel"][10, 2], last, **DIGITS)
    kept = (0.1128775959, 0.1071056553, 0.1014056944)
    np.testing.assert_allclose(found["alignment_kernel"][10, :, 0, 1], kept, **DIGITS)
    found = wf.solve(given(PAIR, (1.0, 0.5), 3, "fa", 10), wf.ClosedLinear()).data
    np.testing.assert_allclose(found["outputs"][10, :, 0], (0.7830600297, 0.5528935881), **DIGITS)
    kept = (0.3164874913, 0.4236080203, 0.5952742358)
    np.testing.assert_allclose(found["alignment_kernel"][10, :, 0, 0], kept, **DIGITS)


def test_hebb_on_two_samples():
    found = wf.solve(given(PAIR, (1.0, 0.5), 2, "hebb", 10), wf.ClosedLinear()).data
    np.testing.assert_allclose(found["outputs"][10, :, 0], (0.7829678502, 0.5158708135), **DIGITS)
    last = [[2.7062777948, 1.4721451131], [1.4721451131, 1.6465946594]]
    np.testing.assert_allclose(found["feature_kernel"][10, 1], last, **DIGITS)


@pytest.mark.parametrize("theory", METHODS, ids=["sweep", "fixed-point"])
def test_gated_linear_network_on_two_samples(theory):
    found = wf.solve(given(PAIR, (1.0, -1.0), 2, "gln", 10, rate=0.1), theory).data
    f = np.array([0.0583333333, 0.1154309082, 0.3100816076, 0.7260164140])
    np.testing.assert_allclose(found["outputs"][[1, 2, 5, 10], :, 0], np.stack([f, -f], axis=1), **DIGITS)
    np.testing.assert_allclose(found["feature_kernel"][10, 1, 0], (0.8079025706, -0.1318288021), **DIGITS)
    np.testing.assert_allclose(found["gradient_kernel"][10, 0, 0], (1.1528084821, 0.5571272456), **DIGITS)


@pytest.mark.parametrize("theory", METHODS, ids=["sweep", "fixed-point"])
@pytest.mark.parametrize("rule", list(RULES))
def test_every_option_against_a_plain_reference(theory, rule):
    """Networks with everything, trained with everything; and without Langevin noise, where factors are enough."""
    size = {"samples": 2, "test": 1, "outputs": 2}
    options = MIXED | size | {"batch_size": 1, "momentum": 0.4, "weight_decay": 0.5, "richness": 0.4}
    for problem in (random(rule, **options), random(rule, **options, temperature=0.2)):
        problem = dataclasses.replace(problem, record=wf.Record(every=1, test_kernels=True))
        assert_equal_to_reference(problem, theory, 1e-11)


def test_weights_that_change_sign():
    """Strong decay with momentum makes what is left of the initial weights oscillate: the factors would not do."""
    problem = random(momentum=0.9, weight_decay=30.0)
    memory = WeightMemory.of(problem.optimiser)
    assert memory.initial.min() < -0.1
    assert not memory.separable
    problem = dataclasses.replace(problem, record=wf.Record(every=1))
    assert_equal_to_reference(problem, wf.ClosedLinear(), 1e-12)


@pytest.mark.parametrize(
    "rule", ["gd", *(pytest.param(rule, marks=pytest.mark.slow) for rule in ("fa", "dfa", "hebb"))]
)
def test_width_infinity(rule):
    problem = random(rule, layers=2, test=1, outputs=2, momentum=0.3, batch_size=2)
    assert_same(wf.solve(problem, wf.ClosedLinear()), wf.solve(problem, SHARP), 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("rule", ["gd", "fa0", "fa", "fa1", "dfa", "hebb"])
def test_width_infinity_at_all_depths(rule, layers):
    problem = random(rule, layers=layers, test=1, steps=20)
    assert_same(wf.solve(problem, wf.ClosedLinear()), wf.solve(problem, SHARP), 1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_gated_networks_at_width_infinity(layers):
    """Gates are sampled there, so this is as good as the samples."""
    problem = random("gln", layers=layers, samples=3, steps=12)
    exact = wf.solve(problem, wf.ClosedLinear())
    sampled = wf.solve(problem, wf.InfiniteWidth(particles=4096, replicas=8))
    for name in ("outputs", "feature_kernel", "gradient_kernel", "ntk"):
        error = sampled.standard_error(name)
        assert float(error.max()) < 0.02
        assert bool((abs(sampled.mean(name) - exact.data[name]) < 4 * error + 2e-3).all()), name


def test_the_methods_agree_on_a_larger_problem():
    problem = random(layers=4, samples=6, steps=30, richness=0.5)
    problem = dataclasses.replace(problem, record=wf.Record())
    swept, iterated = (wf.solve(problem, theory) for theory in METHODS)
    assert_same(swept, iterated, 1e-10)
    assert iterated.data.attrs["change"] < 1e-13
    assert 10 < iterated.data.attrs["iterations"] < 200


@pytest.mark.parametrize("rule", ["gd", "fa", "hebb", "gln"])
def test_two_time_kernels_and_responses(rule):
    problem = random(rule, samples=2 if rule == "gln" else 3, **MIXED, momentum=0.4, weight_decay=0.5)
    problem = dataclasses.replace(problem, record=wf.Record(every=1, responses=True))
    found, exact = wf.solve(problem, wf.ClosedLinear()), reference(problem)
    features, gradients, pseudo = (
        [k.squeeze() for k in kernels] for kernels in (exact.features, exact.gradients, exact.pseudo)
    )
    dec, size = exact.dec, problem.samples.samples * 9
    for layer in (1, 2, 3):
        for name, kernels in (("feature", features), ("gradient", gradients), ("pseudo_gradient", pseudo)):
            kernel = found.two_time(f"{name}_kernel", layer)
            np.testing.assert_allclose(kernel, kernels[layer - 1], atol=1e-11, err_msg=f"{name} {layer}")
        mixed = exact.alignment[layer - 1].squeeze()
        np.testing.assert_allclose(found.two_time("alignment_kernel", layer), mixed, atol=1e-11)
    weights, ratios = MIXED["weight_variances"], MIXED["width_ratios"]
    for layer in (1, 2):
        scale, turn = weights[layer], np.sqrt(ratios[layer - 1] / ratios[layer])
        b = exact.b[layer].squeeze() * dec[None, None, :, None]  # in front of features of layer `layer`
        ours = found.two_time("gradient_response", layer).values
        flat = features[layer - 1].reshape(size, size)
        np.testing.assert_allclose(
            ours.reshape(size, size) @ flat, scale / turn * b.reshape(size, size) @ flat, atol=1e-11
        )
        forward = {"gd": ("feature_response", exact.a), "gln": ("feature_response", exact.a)}
        forward |= {"fa": ("pseudo_feature_response", exact.c)}
        if rule not in forward:
            continue
        name, response = forward[rule]
        ours = found.two_time(name, layer).values.reshape(size, size)
        decayed = dec[None, None, :, None] if rule != "fa" else 1.0  # feedback does not decay
        theirs = (response[layer - 1].squeeze() * decayed).reshape(size, size)
        above = (pseudo if rule == "fa" else gradients)[layer].reshape(size, size)
        np.testing.assert_allclose(ours @ above, scale * turn * theirs @ above, atol=1e-11)


def test_whitened_data_have_mirrored_kernels():
    """H_y^l = G^{L+1-l}."""
    y = np.array([0.6, -0.8])
    found = wf.solve(given(np.eye(2), y, 3, "gd", 15, richness=1.5), wf.ClosedLinear()).data
    along = np.einsum("p,tlpq,q->tl", y, found["feature_kernel"].values, y)
    np.testing.assert_allclose(along, found["gradient_kernel"].values[:, ::-1, 0, 0], atol=1e-12)


def test_direct_feedback_alignment_is_feedback_alignment_without_correlation():
    one, other = (wf.solve(random(rule, outputs=2), wf.ClosedLinear()) for rule in ("dfa", "fa0"))
    assert_same(one, other, 1e-13)


@pytest.mark.slow
def test_any_loss():
    problem = random(layers=2, samples=3, outputs=3)
    targets = np.eye(3)
    problem = dataclasses.replace(
        problem, loss=wf.SoftmaxCrossEntropy(reduction="mean"), data=wf.Data(problem.samples.x, targets)
    )
    assert_same(wf.solve(problem, wf.ClosedLinear()), wf.solve(problem, SHARP), 1e-8)


def test_only_what_is_recorded():
    problem = random(samples=4, test=1)
    partly = dataclasses.replace(problem, record=wf.Record(steps=(3,), samples=2, test_kernels=True, two_time=True))
    few, all_of_it = (wf.solve(p, wf.ClosedLinear()) for p in (partly, problem))
    assert few.data.sizes["time"] == 3
    assert few.two_time("feature_kernel", 2).shape == (3, 2, 3, 2)
    np.testing.assert_array_equal(few.data["test_ntk"], all_of_it.data["test_ntk"][[0, 3, 8], :, :2])
    bare = wf.solve(dataclasses.replace(problem, record=wf.Record(kernels=False)), wf.ClosedLinear())
    np.testing.assert_array_equal(bare.data["outputs"], all_of_it.data["outputs"])
    assert "feature_kernel" not in bare.data


def test_gates_of_independent_groups_of_samples():
    """Three samples and two that are orthogonal to them: the chances are products of known ones."""
    generator = np.random.default_rng(4)
    x = np.zeros((5, 6))
    x[:3, :3], x[3:, 3:] = generator.normal(size=(3, 3)), generator.normal(size=(2, 3))
    relu = wf.activations.get("relu")
    whole, three, two = (Gates.of(relu, part @ part.T) for part in (x, x[:3], x[3:]))
    assert three.bound == two.bound == 0.0
    assert 0 < whole.bound < 1e-4
    chances = {tuple(g): c for g, c in zip(whole.values, whole.chances, strict=True)}
    for first, one in zip(three.values, three.chances, strict=True):
        for second, other in zip(two.values, two.chances, strict=True):
            assert chances[(*first, *second)] == pytest.approx(one * other, abs=max(1e-6, whole.bound))


def test_gates_of_equal_and_opposite_samples():
    x = np.array([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    gates = Gates.of(wf.activations.get("relu"), x @ x.T)
    assert sorted(map(tuple, gates.values)) == [(0, 0, 1), (1, 1, 0)]
    np.testing.assert_allclose(gates.chances, 0.5)


def test_duplicated_samples_are_no_trouble():
    x = np.array([[1.0, 0.5], [1.0, 0.5], [0.2, -1.0]])
    problem = dataclasses.replace(random(samples=3), data=wf.Data(x, np.array([1.0, -1.0, 0.5])))
    found = wf.solve(problem, wf.ClosedLinear()).data["outputs"]
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 0], found[:, 1], atol=1e-13)


def test_divergence_is_named_and_what_came_before_is_kept():
    problem = given(ONE, [1.0], 3, "gd", 200, rate=1.5, richness=3.0)
    with pytest.raises(wf.Diverged, match="the loss exploded by step") as caught:
        wf.solve(problem, wf.ClosedLinear())
    kept = caught.value.trajectory.data
    assert 1 < kept.sizes["time"] < 50
    assert np.isfinite(kept["loss"]).all()


def test_an_iteration_that_diverges_or_does_not_end():
    problem = random(layers=3, steps=20, richness=1.5)
    problem = dataclasses.replace(
        problem, optimiser=wf.SGD(learning_rate=0.05, steps=60), record=wf.Record(kernels=False)
    )
    assert np.isfinite(wf.solve(problem, wf.ClosedLinear()).data["loss"]).all()
    with pytest.raises(wf.InvalidInput, match=r"damping = 1: the iteration diverged .* use method = 'sweep'"):
        wf.solve(problem, wf.ClosedLinear("fixed-point", damping=1.0))
    with pytest.warns(wf.NotAccurate, match="still change by .* after 3 iterations"):
        wf.solve(dataclasses.replace(random(), record=wf.Record()), wf.ClosedLinear("fixed-point", iterations=3))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"network": wf.MLP(activation="tanh")}, r"activation = 'tanh': the equations close for linear or gated"),
        ({"network": wf.MLP(activation="linear", richness=0.0)}, r"richness = 0: nothing moves in the lazy limit"),
        (
            {"network": wf.MLP(activation="linear", parameterisation="ntk")},
            r"parameterisation = 'ntk': at infinite width this is lazy",
        ),
        ({"optimiser": wf.GradientFlow(1.0)}, r"optimiser = 'gradient-flow': known are sgd"),
        ({"network": wf.MLP(activation="tanh"), "rule": wf.GatedLinear()}, r"activation = 'tanh'.*gates with two"),
        (
            {"data": wf.data.sphere(9, 5), "network": wf.MLP(activation="relu"), "rule": wf.GatedLinear()},
            r"gates of more than 8 samples",
        ),
        ({"record": wf.Record(responses=True), "optimiser": wf.SGD(0.1, 3, temperature=0.1)}, "Langevin noise"),
        ({"optimiser": wf.SGD(0.1, 200_000)}, "what is left of every step .* use fewer steps"),
    ],
)
def test_problems_that_it_refuses(change, match):
    with pytest.raises(wf.InvalidInput, match=match):
        wf.solve(dataclasses.replace(random(), **change), wf.ClosedLinear())


def test_settings_that_make_no_sense():
    for settings in ({"method": "magic"}, {"damping": 0.0}, {"damping": 1.1}, {"tolerance": -1.0}, {"iterations": 0}):
        with pytest.raises(wf.InvalidInput, match=next(iter(settings))):
            wf.ClosedLinear(**settings)
    with pytest.raises(wf.InvalidInput, match=r"record\.two_time = true: is kept by method = 'sweep'"):
        wf.solve(random(), wf.ClosedLinear("fixed-point"))


def test_progress_and_files(tmp_path):
    problem, seen = random(), []
    found = wf.solve(problem, wf.ClosedLinear(), progress=lambda *report: seen.append(report))
    assert [report[0] for report in seen] == list(range(9))
    assert seen[-1][2] == pytest.approx(float(found.data["loss"][-1]))
    found.save(tmp_path / "found.nc")
    again = wf.Trajectory.load(tmp_path / "found.nc")
    assert again.theory == wf.ClosedLinear()
    np.testing.assert_array_equal(again.two_time("feature_kernel", 1), found.two_time("feature_kernel", 1))
