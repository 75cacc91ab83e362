"""Problems: exact round trips through TOML, and errors that name the argument and the value."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import widefield as wf
from widefield.base.errors import FileProblem, InvalidInput, UnknownName
from widefield.problem.schedules import elapsed, rates_of

counts = st.integers(1, 10**6)
positive = st.floats(1e-300, 1e300)
unsigned = st.floats(0.0, 1e300)
finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def networks(draw, outputs):
    depth = draw(st.integers(1, 5))

    def per_layer(values, number):
        return st.one_of(values, st.lists(values, min_size=number, max_size=number).map(tuple))

    ratios = st.lists(positive, min_size=depth, max_size=depth).map(tuple)
    return wf.MLP(
        hidden_layers=depth,
        activation=draw(st.sampled_from(["tanh", "ReLU", "linear", "leaky-relu(0.1)", "scale_invariant(1.5, -0.25)"])),
        richness=draw(unsigned),
        outputs=draw(st.sampled_from([None, outputs])),
        weight_variances=draw(per_layer(positive, depth + 1)),
        bias_variances=draw(per_layer(unsigned, depth + 1)),
        train_biases=draw(st.booleans()),
        width_ratios=draw(st.none() | ratios),
        parameterisation=draw(st.sampled_from(["mean-field", "ntk"])),
        centred=draw(st.booleans()),
    )


def arrays(draw, rows, columns, values=finite):
    size = rows * columns
    return np.array(draw(st.lists(values, min_size=size, max_size=size))).reshape(rows, columns)


@st.composite
def own_data(draw, targets):
    """Arrays of the user's own; some are long enough for the packed form in files."""
    rows, width, tests = draw(st.integers(1, 4)), draw(st.sampled_from([1, 3, 70])), draw(st.integers(0, 2))
    x, x_test = (np.resize(arrays(draw, 1, 5), (count, width)) for count in (rows, tests))
    y, y_test = (np.array([targets(draw) for _ in range(count)]) for count in (rows, tests))
    return wf.Data(x, y, x_test, y_test) if tests else wf.Data(x, y)


signs = st.sampled_from([-1.0, 1.0])
LOSSES = {
    "squared": (st.builds(wf.SquaredError), lambda draw: draw(st.tuples(finite, finite))),
    "huber": (st.builds(wf.Huber, threshold=positive), lambda draw: draw(st.tuples(finite))),
    "logistic": (st.builds(wf.Logistic), lambda draw: draw(st.tuples(signs))),
    "softmax": (st.builds(wf.SoftmaxCrossEntropy), lambda draw: np.eye(3)[draw(st.integers(0, 2))]),
}
sources = st.one_of(
    st.builds(
        wf.data.sphere,
        samples=st.integers(1, 8),
        dimension=st.integers(1, 5),
        outputs=st.integers(1, 3),
        test_samples=st.integers(0, 3),
        noise=st.floats(0, 2),
        seed=st.integers(0, 2**40),
        labels=st.sampled_from(["random-sign", "random-gaussian", "linear"]),
    ),
    st.builds(wf.data.gram, kernel=st.just([[2.0, 0.5], [0.5, 1.0 / 3]]), y=st.lists(finite, min_size=2, max_size=2)),
)
schedules = st.one_of(
    st.builds(wf.Cosine, peak=st.floats(1e-9, 1e9), final=st.floats(0, 1e9), warmup=st.integers(0, 20)),
    st.builds(wf.PowerDecay, initial=st.floats(1e-9, 1e9), delay=st.floats(1e-9, 1e9), exponent=st.floats(0, 9)),
    st.just(wf.Piecewise(values=(0.1, 0.0, 1 / 3), boundaries=(3, 7))),
)


@st.composite
def optimisers(draw, samples):
    steps = draw(st.integers(1, 30))
    one_pass = draw(st.booleans()) and steps <= samples
    batch = draw(st.integers(1, samples // steps if one_pass else samples))
    rates = st.lists(unsigned, min_size=steps, max_size=steps).map(tuple)
    return wf.SGD(
        learning_rate=draw(st.one_of(positive, schedules, rates)),
        steps=steps,
        batch_size=batch if one_pass else draw(st.sampled_from([None, batch])),
        one_pass=one_pass,
        momentum=draw(st.floats(0, 1, exclude_max=True)),
        weight_decay=draw(unsigned),
        temperature=draw(unsigned),
        seed=draw(st.integers(0, 2**62)),
    )


@st.composite
def records(draw, steps, samples):
    when = draw(st.sampled_from(["default", "every", "steps"]))
    chosen = st.lists(st.integers(0, steps)).map(tuple)
    return wf.Record(
        every=draw(counts) if when == "every" else None,
        steps=draw(chosen) if when == "steps" else None,
        samples=draw(st.none() | st.integers(1, samples)),
        kernels=draw(st.booleans()),
        test_kernels=draw(st.booleans()),
        neurons=draw(st.integers(0, 100)),
        two_time=draw(st.booleans()),
    )


rules = st.one_of(
    st.builds(wf.FeedbackAlignment, correlation=st.floats(-1, 1)),
    st.sampled_from([wf.GradientDescent(), wf.DirectFeedbackAlignment(), wf.GatedLinear(), wf.Hebb()]),
)


@st.composite
def problems(draw):
    if draw(st.booleans()):
        loss, targets = draw(st.sampled_from(sorted(LOSSES))), None
        losses, targets = LOSSES[loss]
        data, loss = draw(own_data(targets)), draw(losses)
    else:
        data, loss = draw(sources), wf.SquaredError(reduction=draw(st.sampled_from(["sum", "mean"])))
    loaded = data.load()
    optimiser = draw(optimisers(loaded.samples))
    return wf.Problem(
        network=draw(networks(loaded.outputs)),
        data=data,
        loss=loss,
        rule=draw(rules),
        optimiser=optimiser,
        record=draw(records(optimiser.steps, loaded.samples)),
    )


@settings(max_examples=100)
@given(problem=problems())
def test_toml_round_trip_is_exact(problem):
    text = problem.to_toml()
    again = wf.Problem.from_toml(text)
    assert again == problem
    assert hash(again.data) == hash(problem.data)
    assert again.to_toml() == text
    for name in ("x", "y", "x_test", "y_test"):
        one, other = getattr(problem.samples, name), getattr(again.samples, name)
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()


@settings(max_examples=10)
@given(problem=problems())
def test_round_trip_through_a_file(problem, tmp_path_factory):
    path = tmp_path_factory.mktemp("toml") / "problem.toml"
    text = problem.to_toml(path)
    assert path.read_text() == text
    assert wf.Problem.from_toml(path) == wf.Problem.from_toml(str(path)) == problem
    assert list(path.parent.iterdir()) == [path]


def test_numpy_scalars_are_written_like_plain_numbers():
    optimiser = wf.SGD(wf.Cosine(np.float64(0.5), np.float32(0.25), np.int64(3)), np.int64(5), np.int32(1))
    network = wf.MLP(np.int64(2), richness=np.float32(0.5), weight_variances=[np.float64(1), 2, 3])
    record = wf.Record(every=np.int64(2), neurons=np.int32(3))
    problem = wf.Problem(network, wf.data.sphere(2, 3), optimiser=optimiser, record=record)
    assert wf.Problem.from_toml(problem.to_toml()) == problem


def test_text_that_ends_with_the_name_of_a_file_is_text(small_problem):
    text = f"{small_problem.to_toml()}\n# see problem.toml"
    assert wf.Problem.from_toml(text) == small_problem


BAD_PARTS = {
    "unknown activation": (lambda: wf.MLP(activation="tahn"), UnknownName, "activation 'tahn'.*did you mean 'tanh'"),
    "activation is a number": (lambda: wf.MLP(activation=3), UnknownName, "activation 3"),
    "no hidden layer": (lambda: wf.MLP(hidden_layers=0), InvalidInput, "hidden_layers = 0 must be .* at least 1"),
    "half a layer": (lambda: wf.MLP(hidden_layers=1.5), InvalidInput, "hidden_layers = 1.5 is not a whole number"),
    "layers true": (lambda: wf.MLP(hidden_layers=True), InvalidInput, "hidden_layers = True"),
    "negative richness": (lambda: wf.MLP(richness=-1), InvalidInput, "richness = -1 must be >= 0"),
    "richness nan": (lambda: wf.MLP(richness=float("nan")), InvalidInput, "richness = nan is not a finite number"),
    "richness in words": (lambda: wf.MLP(richness="rich"), InvalidInput, "richness = 'rich' is not a number"),
    "richness too long": (lambda: wf.MLP(richness=10**400), InvalidInput, "richness = 1.* is not a finite number"),
    "variances per layer": (
        lambda: wf.MLP(hidden_layers=2, weight_variances=(1, 1)),
        InvalidInput,
        r"weight_variances has 2 entries; it must be a number or have 3, .*hidden_layers = 2",
    ),
    "zero variance": (lambda: wf.MLP(weight_variances=0), InvalidInput, "weight_variances = 0 must be > 0"),
    "bias variances": (
        lambda: wf.MLP(hidden_layers=1, bias_variances=(0.1, -1)),
        InvalidInput,
        "bias_variances = -1 must be >= 0",
    ),
    "ratios": (
        lambda: wf.MLP(hidden_layers=3, width_ratios=(1, 2)),
        InvalidInput,
        "width_ratios has 2 entries; hidden_layers = 3",
    ),
    "one ratio": (lambda: wf.MLP(width_ratios=2.0), InvalidInput, "width_ratios = 2.0 must be a list"),
    "zero ratio": (lambda: wf.MLP(hidden_layers=1, width_ratios=[0]), InvalidInput, "width_ratios = 0 must be > 0"),
    "parameterisation": (
        lambda: wf.MLP(parameterisation="mean_field"),
        UnknownName,
        "parameterisation 'mean_field'; did you mean 'mean-field'",
    ),
    "flag": (lambda: wf.MLP(centred="yes"), InvalidInput, "centred = 'yes' must be true or false"),
    "zero outputs": (lambda: wf.MLP(outputs=0), InvalidInput, "outputs = 0"),
    "rho above 1": (lambda: wf.FeedbackAlignment(1.5), InvalidInput, "correlation = 1.5 must be >= -1 and <= 1"),
    "rho below -1": (lambda: wf.FeedbackAlignment(-1.001), InvalidInput, "correlation = -1.001 must be >= -1"),
    "rho nan": (lambda: wf.FeedbackAlignment(float("nan")), InvalidInput, "correlation = nan"),
    "reduction": (lambda: wf.SquaredError(reduction="average"), UnknownName, "reduction 'average'.*known: mean, sum"),
    "threshold": (lambda: wf.Huber(threshold=0), InvalidInput, "threshold = 0 must be > 0"),
    "no rate": (lambda: wf.SGD(0, 3), InvalidInput, "learning_rate = 0 must be > 0"),
    "rates": (lambda: wf.SGD((0.1, 0.2), 3), InvalidInput, r"learning_rate has shape \(2,\); .* steps = 3"),
    "no steps": (lambda: wf.SGD(0.1, 0), InvalidInput, "steps = 0"),
    "momentum": (lambda: wf.SGD(0.1, 3, momentum=1), InvalidInput, "momentum = 1.0 must be below 1"),
    "negative decay": (lambda: wf.SGD(0.1, 3, weight_decay=-1), InvalidInput, "weight_decay = -1 must be >= 0"),
    "temperature": (lambda: wf.SGD(0.1, 3, temperature=-1), InvalidInput, "temperature = -1 must be >= 0"),
    "one pass": (lambda: wf.SGD(0.1, 3, one_pass=True), InvalidInput, "one_pass = true needs a batch_size"),
    "peak": (lambda: wf.Cosine(0), InvalidInput, "peak = 0 must be > 0"),
    "piecewise": (lambda: wf.Piecewise((1, 2), (5, 6)), InvalidInput, r"values = \(1.0, 2.0\), boundaries = \(5, 6\)"),
    "piecewise order": (lambda: wf.Piecewise((1, 2, 3), (6, 5)), InvalidInput, "boundaries must increase"),
    "piecewise number": (lambda: wf.Piecewise(0.1, (6,)), InvalidInput, "values = 0.1 must be a list"),
    "record twice": (lambda: wf.Record(every=2, steps=[1]), InvalidInput, r"every = 2 and steps = \[1\] exclude"),
    "record every 0": (lambda: wf.Record(every=0), InvalidInput, "every = 0"),
    "record one step": (lambda: wf.Record(steps=3), InvalidInput, "steps = 3 must be a list"),
    "record step -1": (lambda: wf.Record(steps=[-1]), InvalidInput, "steps = -1"),
    "record flag": (lambda: wf.Record(kernels=1), InvalidInput, "kernels = 1 must be true or false"),
    "nan in x": (
        lambda: wf.Data([[1.0, 2.0], [np.nan, 1.0]], [1, 2]),
        InvalidInput,
        r"x holds 1 values that are NaN .* \(1, 0\)",
    ),
    "inf in y": (lambda: wf.Data([[1.0]], [np.inf]), InvalidInput, "y holds 1 values that are NaN or infinite"),
    "rows": (lambda: wf.Data([[1.0], [2.0]], [1.0]), InvalidInput, r"x has shape \(2, 1\) and y has shape \(1, 1\)"),
    "flat x": (lambda: wf.Data([1.0, 2.0], [1.0, 2.0]), InvalidInput, r"x has shape \(2,\); it must have 2 axes"),
    "test columns": (
        lambda: wf.Data([[1.0]], [1.0], [[1.0, 2.0]], [1.0]),
        InvalidInput,
        r"x has shape \(1, 1\) and x_test has shape \(1, 2\)",
    ),
    "test targets missing": (lambda: wf.Data([[1.0]], [1.0], [[1.0]]), InvalidInput, "y_test is missing"),
    "words as data": (lambda: wf.Data([["a"]], [1.0]), InvalidInput, "x is not an array of numbers"),
    "complex data": (lambda: wf.Data([[1j]], [1.0]), InvalidInput, "x is not an array of numbers"),
    "ragged data": (lambda: wf.Data([[1.0], [1.0, 2.0]], [1.0, 2.0]), InvalidInput, "x is not an array of numbers"),
}


@pytest.mark.parametrize("name", BAD_PARTS)
def test_bad_parts_are_named(name):
    make, error, match = BAD_PARTS[name]
    with pytest.raises(error, match=match):
        make()


def together(data=None, **parts):
    return wf.Problem(network=parts.pop("network", wf.MLP()), data=data or wf.Data([[1.0], [2.0]], [1, -1]), **parts)


class WrongLength(wf.Schedule, kind="wrong-length"):
    def rates(self, steps):
        return np.ones(steps - 1)


BAD_TOGETHER = {
    "outputs": ({"network": wf.MLP(outputs=2)}, "network.outputs = 2, but the targets have 1 columns"),
    "batch": ({"optimiser": wf.SGD(0.1, 3, batch_size=5)}, "batch_size = 5 exceeds the 2 training samples"),
    "one pass": (
        {"optimiser": wf.SGD(0.1, 3, batch_size=1, one_pass=True)},
        "steps = 3 with batch_size = 1 takes 3 samples; the data have 2",
    ),
    "logistic": (
        {"data": wf.Data([[1.0], [2.0]], [1, 0.5]), "loss": wf.Logistic()},
        "logistic loss needs targets .*1 of 2 .*first is 0.5",
    ),
    "logistic test": ({"data": wf.Data([[1.0]], [1], [[1.0]], [2]), "loss": wf.Logistic()}, "first is 2"),
    "softmax": ({"loss": wf.SoftmaxCrossEntropy()}, r"at least two classes; targets have 1 column\(s\)"),
    "softmax negative": (
        {"data": wf.Data([[1.0]], [[1.5, -0.5]]), "loss": wf.SoftmaxCrossEntropy()},
        "one-hot targets .* smallest entry -0.5",
    ),
    "record late": ({"record": wf.Record(steps=[7]), "optimiser": wf.SGD(0.1, 6)}, "step 7, but the run has 6 steps"),
    "record samples": ({"record": wf.Record(samples=3)}, "record.samples = 3 exceeds the 2 training samples"),
    "not a loss": ({"loss": "huber"}, "loss = 'huber' must be a Loss, for example .*Huber"),
    "a class": ({"rule": wf.Hebb}, "rule = .*Hebb.* must be a LearningRule"),
    "not a network": ({"network": 3}, "network = 3 must be a Network, for example one of .*MLP"),
    "schedule": (
        {"optimiser": wf.SGD(WrongLength(), 4)},
        r"WrongLength.rates\(4\) has shape \(3,\).*steps = 4",
    ),
}


@pytest.mark.parametrize("name", BAD_TOGETHER)
def test_parts_that_do_not_fit_are_named(name):
    parts, match = BAD_TOGETHER[name]
    with pytest.raises(InvalidInput, match=match):
        together(**parts)


GOOD = """
[network]
kind = "mlp"
[data]
kind = "sphere"
samples = 3
dimension = 2
"""
BAD_FILES = {
    "rule": (GOOD + "[rule]\nkind = 'heb'", UnknownName, "kind of rule 'heb'; did you mean 'hebb'"),
    "loss": (GOOD + "[loss]\nkind = 'hubber'", UnknownName, "kind of loss 'hubber'; did you mean 'huber'"),
    "network": (GOOD.replace("mlp", "mpl"), UnknownName, "kind of network 'mpl'; did you mean 'mlp'"),
    "data": (GOOD.replace("sphere", "spere"), UnknownName, "kind of data 'spere'; did you mean 'sphere'"),
    "kind of another type": (GOOD + "[rule]\nkind = [1]", UnknownName, r"kind of rule \[1\]"),
    "schedule": (
        GOOD + "[optimiser]\nkind = 'sgd'\nsteps = 3\nlearning_rate = {kind = 'cosin', peak = 1}",
        UnknownName,
        "kind of schedule 'cosin'; did you mean 'cosine'",
    ),
    "section": (GOOD + "[los]\nkind = 'huber'", UnknownName, "section of a problem 'los'; did you mean 'loss'"),
    "key": (
        GOOD.replace("samples", "sample"),
        UnknownName,
        r"key in \[data\] 'sample'; did you mean '(test_)?samples'",
    ),
    "key of the network": (
        GOOD.replace("[data]", "hiden_layers = 2\n[data]"),
        UnknownName,
        r"key in \[network\] 'hiden_layers'; did you mean 'hidden_layers'",
    ),
    "no kind": (GOOD + "[rule]\n", InvalidInput, r"\[rule\] needs a 'kind', one of: direct"),
    "no section": ("[network]\n", InvalidInput, r"needs a section \[data\]"),
    "nothing": ("", InvalidInput, r"needs a section \[network\]"),
    "needed key": (GOOD.replace("samples = 3", ""), InvalidInput, r"\[data\] kind 'sphere' needs a value for samples"),
    "not a table": ("network = 3\n[data]\nkind='sphere'", InvalidInput, r"\[network\] must be a table, not 3"),
    "wrong type": (GOOD.replace("= 3", "= 'three'"), InvalidInput, "samples = 'three' is not a whole number"),
    "not TOML": ("network: mlp", InvalidInput, "'network: mlp' is not valid TOML"),
    "damaged array": (
        "[network]\n[data]\nkind='arrays'\ny=[1]\nx={shape=[1, 1], float64='!!!!'}",
        InvalidInput,
        r"packed array of shape \[1, 1\] is damaged",
    ),
    "array of another shape": (
        "[network]\n[data]\nkind='arrays'\ny=[1]\nx={shape=[1, 2], float64='AAAAAAAA8D8='}",
        InvalidInput,
        r"packed array of shape \[1, 2\] is damaged",
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_text_is_named(name):
    text, error, match = BAD_FILES[name]
    with pytest.raises(error, match=match):
        wf.Problem.from_toml(text)


def test_text_needs_no_kind_for_the_network():
    assert wf.Problem.from_toml(GOOD.replace('kind = "mlp"', "")) == wf.Problem.from_toml(GOOD)


@pytest.mark.parametrize("as_path", [str, Path])
def test_files_that_cannot_be_read(tmp_path, as_path):
    with pytest.raises(FileProblem, match=r"cannot read .*none.toml: No such file"):
        wf.Problem.from_toml(as_path(tmp_path / "none.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileProblem, match=r"binary.toml: it is not a text file"):
        wf.Problem.from_toml(as_path(tmp_path / "binary.toml"))
    (tmp_path / "bad.toml").write_text("[network")
    with pytest.raises(InvalidInput, match=r"bad.toml is not valid TOML"):
        wf.Problem.from_toml(as_path(tmp_path / "bad.toml"))
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(FileProblem, match=r"folder.toml: Is a directory"):
        wf.Problem.from_toml(as_path(tmp_path / "folder.toml"))


def test_nothing_is_written_where_it_cannot_be(small_problem, tmp_path):
    with pytest.raises(FileProblem, match=r"the folder .*missing does not exist"):
        small_problem.to_toml(tmp_path / "missing" / "problem.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(FileProblem, match=r"folder.toml: it is a folder"):
        small_problem.to_toml(tmp_path / "folder.toml")
    with pytest.raises(FileProblem, match=r"cannot write /proc/problem.toml"):
        small_problem.to_toml("/proc/problem.toml")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.toml"]


def test_a_failed_write_keeps_the_old_file(small_problem, tmp_path, monkeypatch):
    path = tmp_path / "problem.toml"
    path.write_text("old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(FileProblem, match=r"problem.toml: No space left on device"):
        small_problem.to_toml(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_subclass_without_a_kind_cannot_pass_for_its_parent():
    @dataclass(frozen=True)
    class Nameless(wf.Huber):
        pass

    with pytest.raises(InvalidInput, match=r"Nameless needs a kind of its own.*class Nameless"):
        together(loss=Nameless()).to_toml()
    with pytest.raises(InvalidInput, match=r"Loss needs a kind of its own"):
        together(loss=wf.Loss()).to_toml()


def test_a_kind_cannot_be_taken_over():
    with pytest.raises(InvalidInput, match="kind = 'huber' of Mine is taken by Huber"):
        type("Mine", (wf.Loss,), {}, kind="huber")


def test_problems_are_frozen(small_problem):
    with pytest.raises(AttributeError):
        small_problem.loss = wf.Huber()
    with pytest.raises(ValueError, match="read-only"):
        small_problem.samples.x[0] = 0.0


def test_losses_of_outputs_of_all_samples():
    x, y = np.eye(3), np.array([1.0, -1.0, 2.0])
    problem = wf.Problem(network=wf.MLP(1), data=wf.Data(x[:2], y[:2], x[2:], y[2:]))
    outputs = np.arange(24.0).reshape(4, 2, 3, 1)
    squares = 0.5 * (outputs[..., 0] - y) ** 2
    found = problem.losses(outputs)
    np.testing.assert_allclose(found["loss"], squares[..., :2].sum(-1), rtol=1e-15)
    np.testing.assert_allclose(found["test_loss"], squares[..., 2], rtol=1e-15)
    assert set(problem.losses(outputs[..., :2, :])) == {"loss"}
    np.testing.assert_array_equal(problem.samples.everything, x)
    np.testing.assert_array_equal(problem.samples.kernel(everything=True), np.eye(3) / 3)


def test_rates_and_times():
    np.testing.assert_array_equal(rates_of(0.5, 2), [0.5, 0.5])
    np.testing.assert_array_equal(rates_of([0.5, 0.25], 2), [0.5, 0.25])
    np.testing.assert_array_equal(rates_of(wf.Piecewise((1.0, 2.0), (1,)), 3), [1.0, 2.0, 2.0])
    np.testing.assert_array_equal(elapsed(np.array([0.5, 0.25])), [0.0, 0.5, 0.75])
    with pytest.raises(InvalidInput, match=r"rate has shape \(2, 1\); .* steps = 2"):
        rates_of([[0.1], [0.1]], 2, "rate")
    with pytest.raises(InvalidInput, match=r"learning_rate = -0.1 must not be negative"):
        rates_of([0.1, -0.1], 2)
