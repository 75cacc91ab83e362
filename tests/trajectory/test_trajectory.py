"""Trajectories: labels, derived quantities against plain NumPy, and two-time kernels."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import widefield as wf
from widefield.base.errors import InvalidInput, UnknownName
from widefield.trajectory import metrics, two_time

WIDTH = 9
X = np.random.default_rng(0).normal(size=(3, 4))
Y = np.array([1.0, -0.5, 0.25])


@pytest.fixture(scope="module")
def hebb():
    """One output, every neuron recorded; the two test points are training points 2 and 0."""
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=2, activation="tanh", richness=1.2),
        data=wf.Data(X, Y, X[[2, 0]], [-1.0, 1.0]),
        rule=wf.Hebb(),
        optimiser=wf.SGD(wf.Piecewise((0.3, 0.1), (2,)), steps=4),
        record=wf.Record(every=1, neurons=WIDTH, two_time=True, test_kernels=True),
    )
    return wf.solve(problem, wf.FiniteWidth(WIDTH, seeds=3))


@pytest.fixture(scope="module")
def descent():
    """Gradient descent with three outputs, on two of the five samples' kernels."""
    problem = wf.Problem(
        network=wf.MLP(hidden_layers=3, activation="tanh", width_ratios=(2.0, 1.0, 0.5)),
        data=wf.data.gaussian(samples=5, dimension=4, outputs=3, labels="one-hot", test_samples=4, seed=1),
        optimiser=wf.SGD(0.2, steps=6),
        record=wf.Record(every=4, neurons=3, samples=2, two_time=True, test_kernels=True),
    )
    return wf.solve(problem, wf.FiniteWidth(WIDTH, seeds=2, seed=5))


def fields(trajectory):
    """phi, g and gt of the Hebb run (seed, time, layer, sample, neuron), from recorded h, z and outputs."""
    data = trajectory.data
    phi = np.tanh(data.preactivation.values)
    g = (1 - phi**2) * data.pregradient.values
    delta = Y - data.outputs.values[..., 0]
    return phi, g, delta[:, :, None, :, None] * phi


def product(a, b):
    return np.einsum("...pn,...qn->...pq", a, b) / WIDTH


def test_labels_with_one_output(hebb):
    data = hebb.data
    np.testing.assert_array_equal(data.step, range(5))
    np.testing.assert_allclose(data.time, [0.0, 0.3, 0.6, 0.7, 0.8], rtol=1e-15)  # the sum of the learning rates
    np.testing.assert_array_equal(data.seed, [0, 1, 2])
    np.testing.assert_array_equal(data.layer, [1, 2])
    dims = {name: value.dims for name, value in data.data_vars.items()}
    start = ("seed", "time")
    assert dims["outputs"] == (*start, "sample", "output")
    assert dims["test_outputs"] == (*start, "test_sample", "output")
    assert dims["loss"] == dims["test_loss"] == start
    for name in ("feature_kernel", "gradient_kernel", "alignment_kernel", "pseudo_gradient_kernel"):
        assert dims[name] == (*start, "layer", "sample", "sample_")
        if name != "pseudo_gradient_kernel":
            assert dims[f"test_{name}"] == (*start, "layer", "test_sample", "sample_")
    assert dims["ntk"] == (*start, "sample", "sample_")
    assert dims["test_ntk"] == (*start, "test_sample", "sample_")
    assert dims["preactivation"] == dims["pregradient"] == (*start, "layer", "sample", "neuron")
    assert dims["targets"] == ("sample", "output")
    assert data.sizes["neuron"] == WIDTH
    np.testing.assert_allclose(data.input_kernel, X @ X.T / 4, rtol=1e-14)
    assert hebb.status == "complete"
    assert hebb.message == ""
    assert hebb.label == f"width {WIDTH}"


def test_labels_with_several_outputs(descent):
    data = descent.data
    np.testing.assert_array_equal(data.step, [0, 4, 6])
    np.testing.assert_array_equal(data.seed, [5, 6])
    start = ("seed", "time")
    assert data.outputs.dims == (*start, "sample", "output")
    assert data.gradient_kernel.dims == (*start, "layer", "sample", "output", "sample_", "output_")
    assert data.ntk.dims == (*start, "sample", "output", "sample_", "output_")
    assert data.test_ntk.dims == (*start, "test_sample", "output", "sample_", "output_")
    assert data.feature_kernel.dims == (*start, "layer", "sample", "sample_")
    assert data.pregradient.dims == (*start, "layer", "sample", "output", "neuron")
    expected = {"sample": 2, "sample_": 2, "test_sample": 4, "output": 3, "output_": 3, "layer": 3, "neuron": 3}
    assert {name: data.sizes[name] for name in expected} == expected
    np.testing.assert_array_equal(data.targets, descent.problem.samples.y[:2])
    np.testing.assert_array_equal(data.test_targets, descent.problem.samples.y_test)


def test_losses_follow_from_outputs(hebb, descent):
    data, samples = hebb.data, hebb.problem.samples
    for prefix, y in (("", samples.y), ("test_", samples.y_test)):
        loss = 0.5 * ((y - data[f"{prefix}outputs"].values) ** 2).sum(axis=(-1, -2))
        np.testing.assert_allclose(data[f"{prefix}loss"], loss, rtol=1e-12)
    shown = 0.5 * ((descent.data.targets - descent.data.outputs) ** 2).sum(("sample", "output"))
    assert np.all(descent.data.loss > shown)  # the loss is over all samples, recorded or not


def test_kernels_are_products_of_fields(hebb):
    phi, g, gt = fields(hebb)
    close = {"rtol": 0, "atol": 1e-13}
    np.testing.assert_allclose(hebb.data.feature_kernel, product(phi, phi), **close)
    np.testing.assert_allclose(hebb.data.gradient_kernel, product(g, g), **close)
    np.testing.assert_allclose(hebb.data.alignment_kernel, product(g, gt), **close)
    np.testing.assert_allclose(hebb.data.pseudo_gradient_kernel, product(gt, gt), **close)
    assert np.abs(product(g, gt) - product(gt, g)).max() > 0.01  # so that a transposition would show


def test_kernels_of_test_points(hebb):
    for name in ("feature_kernel", "gradient_kernel", "alignment_kernel", "ntk", "outputs"):
        copies = hebb.data[name].isel(sample=[2, 0]).rename(sample="test_sample")
        np.testing.assert_allclose(hebb.data[f"test_{name}"], copies, rtol=0, atol=1e-13)


TWO_TIME = {
    "feature_kernel": (0, 0),
    "gradient_kernel": (1, 1),
    "alignment_kernel": (1, 2),
    "pseudo_gradient_kernel": (2, 2),
}


@pytest.mark.parametrize("name", TWO_TIME)
def test_two_time_kernels_are_products_of_fields(hebb, name):
    """Rows: time t, the gradient; columns: time s, the pseudo-gradient."""
    left, right = (fields(hebb)[i] for i in TWO_TIME[name])
    times = hebb.data.time.values
    for layer in (1, 2):
        every = hebb.two_time(name, layer)
        assert every.dims == ("seed", "time", "sample", "time_", "sample_")
        for t, s in ((0, 0), (4, 1), (1, 4), (3, 3)):
            kernel = hebb.two_time(name, layer, times[t], times[s])
            assert kernel.dims == ("seed", "sample", "sample_")
            expected = product(left[:, t, layer - 1], right[:, s, layer - 1])
            np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-13)
            np.testing.assert_allclose(every.isel(time=t, time_=s), expected, rtol=0, atol=1e-13)
        row = hebb.two_time(name, layer, time=times[2])
        np.testing.assert_allclose(
            row.transpose("seed", "time_", ...), every.isel(time=2).transpose("seed", "time_", ...)
        )


@pytest.mark.parametrize("name", TWO_TIME)
def test_two_time_kernels_at_equal_times(hebb, descent, name):
    for trajectory in (hebb, descent):
        data = trajectory.data
        for layer in data.layer.values:
            for index, time in enumerate(data.time.values):
                kernel = trajectory.two_time(name, layer, time, time)
                expected = data[name].sel(layer=layer).isel(time=index)
                assert kernel.dims == expected.dims
                np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-13)


@given(
    neurons=st.sampled_from([1, 3, 5, 6, 11, 12, 13, 40]),
    outputs=st.integers(1, 2),
    exact=st.booleans(),
    seed=st.integers(0, 99),
)
def test_factors_keep_all_inner_products(neurons, outputs, exact, seed):
    """For fewer and for more neurons than vectors, and for layers of different widths."""
    rng = np.random.default_rng(seed)
    widths = {1: neurons, 2: 7}
    made = {}
    for layer, width in widths.items():
        made[f"features {layer}"] = rng.normal(size=(2, 3, 2, width))
        for name in ("gradients", "pseudo_gradients"):
            made[f"{name} {layer}"] = rng.normal(size=(2, 3, 2, outputs, width))
        if exact:
            made[f"pseudo_gradients {layer}"] = made[f"gradients {layer}"]
    data = xr.Dataset(two_time.factors(made, exact=exact), {"layer": [1, 2], "time": [0.0, 0.5, 1.0]})
    assert ("pseudo_gradients_factor" in data) == (not exact)
    assert data.sizes["feature_rank"] <= max(min(width, 6) for width in widths.values())
    for name, sides in {
        "feature_kernel": ("features",) * 2,
        "alignment_kernel": ("gradients", "pseudo_gradients"),
    }.items():
        for layer, width in widths.items():
            left, right = (made[f"{side} {layer}"] for side in sides)
            left, right = left.reshape(2, 3, -1, width), right.reshape(2, 3, -1, width)
            kernel = two_time.kernel(data, name, layer, 1.0, 0.5)
            expected = np.einsum("zan,zbn->zab", left[:, 2], right[:, 1]) / width
            np.testing.assert_allclose(kernel.values.reshape(expected.shape), expected, rtol=0, atol=1e-12)


def test_two_time_questions_that_cannot_be_answered(hebb):
    with pytest.raises(UnknownName, match="two-time kernel 'feature_kernl'; did you mean 'feature_kernel'"):
        hebb.two_time("feature_kernl", 1)
    with pytest.raises(InvalidInput, match=r"layer = 3 does not exist; layers are 1 to 2"):
        hebb.two_time("feature_kernel", 3)
    with pytest.raises(InvalidInput, match=r"time 0.45 was not recorded; the nearest recorded time is"):
        hebb.two_time("feature_kernel", 1, 0.45, 0.3)
    with pytest.raises(InvalidInput, match=r"time nan was not recorded"):
        hebb.two_time("feature_kernel", 1, float("nan"), 0.3)
    bare = wf.Trajectory(hebb.data.drop_vars("features_factor"), hebb.problem, hebb.theory)
    with pytest.raises(InvalidInput, match=r"no two-time kernels; .*Record\(two_time=True\)"):
        bare.two_time("feature_kernel", 1)


def test_mean_and_standard_error(hebb):
    outputs = hebb.data.outputs.values
    np.testing.assert_allclose(hebb.mean("outputs"), outputs.sum(axis=0) / 3, rtol=1e-14, atol=1e-18)
    spread = np.sqrt(((outputs - outputs.mean(axis=0)) ** 2).sum(axis=0) / 2)
    np.testing.assert_allclose(hebb.standard_error("outputs"), spread / np.sqrt(3), rtol=1e-12)
    alike = hebb.mean("outputs").copy(data=hebb.standard_error("outputs").values)
    assert hebb.standard_error("outputs").identical(alike.assign_attrs(hebb.standard_error("outputs").attrs))
    assert np.all(hebb.standard_error("targets") == 0)
    np.testing.assert_array_equal(hebb.mean("targets")[:, 0], Y)
    alone = wf.Trajectory(hebb.data.isel(seed=[1]), hebb.problem, hebb.theory)
    assert np.all(np.isnan(alone.standard_error("loss")))
    assert alone.standard_error("loss").dims == ("time",)
    known = wf.Trajectory(hebb.data.assign(loss_error=hebb.data.time), hebb.problem, hebb.theory)
    assert known.standard_error("loss").identical(known.data.loss_error)


def test_alignment_with_the_targets(hebb, descent):
    kernel = hebb.data.feature_kernel.values
    expected = np.einsum("p,stlpq,q->stl", Y, kernel, Y) / np.linalg.norm(kernel, axis=(-2, -1)) / (Y @ Y)
    np.testing.assert_allclose(hebb.target_alignment("feature_kernel"), expected, rtol=1e-12)
    y = descent.data.targets.values
    ntk, phi = descent.data.ntk.values, descent.data.feature_kernel.values
    expected = np.einsum("pc,stpcqd,qd->st", y, ntk, y) / np.sqrt((ntk**2).sum(axis=(2, 3, 4, 5))) / (y**2).sum()
    np.testing.assert_allclose(descent.target_alignment(), expected, rtol=1e-12)
    expected = np.einsum("stlpq,pq->stl", phi, y @ y.T) / np.linalg.norm(phi, axis=(-2, -1)) / np.linalg.norm(y @ y.T)
    np.testing.assert_allclose(descent.target_alignment("feature_kernel"), expected, rtol=1e-12)
    perfect = xr.DataArray(np.outer(Y, Y), dims=("sample", "sample_"))
    np.testing.assert_allclose(metrics.target_alignment(perfect, hebb.data.targets), 1.0, rtol=1e-14)


@pytest.mark.parametrize("name", ["ntk", "feature_kernel", "test_ntk", "gradient_kernel"])
def test_movement_and_overlap(hebb, descent, name):
    for trajectory in (hebb, descent):
        kernel = trajectory.data[name]
        lead = ("seed", "time", "layer") if "layer" in kernel.dims else ("seed", "time")
        values = kernel.values.reshape(*(kernel.sizes[dim] for dim in lead), -1)
        size, start = np.linalg.norm(values, axis=-1), values[:, :1]
        moved = np.linalg.norm(values - start, axis=-1) / size[:, :1]
        overlap = (values * start).sum(axis=-1) / size / size[:, :1]
        assert trajectory.kernel_movement(name).dims == trajectory.initial_overlap(name).dims == lead
        np.testing.assert_allclose(trajectory.kernel_movement(name), moved, rtol=1e-11, atol=1e-14)
        np.testing.assert_allclose(trajectory.initial_overlap(name), overlap, rtol=1e-12)
        assert moved[:, -1].min() > 1e-3


def test_cosine_similarity_of_two_trajectories(hebb):
    one, two = (wf.Trajectory(hebb.data.isel(seed=s), hebb.problem, hebb.theory) for s in ([0, 1], [2]))
    a, b = hebb.data.ntk.values[:2].mean(axis=0), hebb.data.ntk.values[2]
    expected = (a * b).sum(axis=(1, 2)) / np.linalg.norm(a, axis=(1, 2)) / np.linalg.norm(b, axis=(1, 2))
    np.testing.assert_allclose(one.cosine_similarity(two, "ntk"), expected, rtol=1e-12)
    np.testing.assert_allclose(hebb.cosine_similarity(hebb, "feature_kernel"), 1.0, rtol=1e-14)


def test_gradient_cosine(hebb, descent):
    np.testing.assert_allclose(descent.gradient_cosine(), 1.0, rtol=1e-13)
    _, g, gt = fields(hebb)
    cosine = (g * gt).sum(axis=-1) / np.linalg.norm(g, axis=-1) / np.linalg.norm(gt, axis=-1)
    np.testing.assert_allclose(hebb.gradient_cosine(), cosine.mean(axis=(2, 3)), rtol=1e-11)


def test_accuracy(hebb, descent):
    right = (np.sign(hebb.data.outputs.values[..., 0]) == np.sign(Y)).mean(axis=-1)
    np.testing.assert_array_equal(hebb.accuracy(), right)
    right = (np.sign(hebb.data.test_outputs.values[..., 0]) == [-1, 1]).mean(axis=-1)
    np.testing.assert_array_equal(hebb.accuracy("test"), right)
    classes = descent.problem.samples.y_test.argmax(axis=1)
    right = (descent.data.test_outputs.values.argmax(axis=-1) == classes).mean(axis=-1)
    np.testing.assert_array_equal(descent.accuracy("test"), right)
    with pytest.raises(UnknownName, match="part 'tests'; did you mean 'test'"):
        hebb.accuracy("tests")


def test_unknown_variables_are_named(hebb):
    with pytest.raises(UnknownName, match=r"'feature_kernels'; did you mean 'feature_kernel'"):
        hebb.mean("feature_kernels")
    bare = wf.Trajectory(hebb.data.drop_vars(["ntk", "test_outputs"]), hebb.problem, hebb.theory)
    with pytest.raises(UnknownName, match=r"variable .*Record.* 'ntk'"):
        bare.target_alignment()
    with pytest.raises(UnknownName, match=r"'test_outputs'"):
        bare.accuracy("test")


def test_questions_about_kernels_need_kernels(hebb):
    for question in (hebb.kernel_movement, hebb.initial_overlap, hebb.target_alignment):
        with pytest.raises(InvalidInput, match=r"outputs has the axes .*not a kernel"):
            question("outputs")
    with pytest.raises(InvalidInput, match=r"test_ntk is not a kernel of the training samples"):
        hebb.target_alignment("test_ntk")


def test_trajectories_are_compared_at_their_common_times_up_to_rounding():
    """0.1 + 0.1 + 0.1 and 6 * 0.05 are the same time, though not the same number; so are repeated times."""

    def solved(rates):
        problem = wf.Problem(
            network=wf.MLP(hidden_layers=1),
            data=wf.data.sphere(samples=3, dimension=4),
            optimiser=wf.SGD(learning_rate=tuple(rates), steps=len(rates)),
        )
        return wf.solve(problem, wf.FiniteWidth(8, seeds=2))

    coarse, fine, pausing = solved([0.1] * 3), solved([0.05] * 6), solved([0.1, 0.0, 0.1, 0.1])
    similarity = coarse.cosine_similarity(fine, "ntk")
    np.testing.assert_allclose(similarity["time"], [0, 0.1, 0.2, 0.3])
    a, b = (t.data.ntk.mean("seed").isel(time=-1).values for t in (coarse, fine))
    np.testing.assert_allclose(similarity[-1], np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b), rtol=1e-13)
    np.testing.assert_allclose(pausing.cosine_similarity(coarse, "ntk"), 1, rtol=1e-13)
    with pytest.raises(wf.InvalidInput, match="in common"):
        coarse.cosine_similarity(wf.Trajectory(fine.data.isel(time=[1, 3]), fine.problem, fine.theory), "ntk")


def test_single_precision_is_the_same_network(small_problem):
    double, single = (wf.solve(small_problem, wf.FiniteWidth(32, dtype=p)) for p in ("float64", "float32"))
    np.testing.assert_allclose(single.data.outputs, double.data.outputs, rtol=0, atol=2e-5)
    assert single.data.outputs.dtype == np.float32


def test_repr_is_a_few_lines_and_holds_no_arrays(hebb, descent):
    """What, how large, how it ended."""
    for trajectory in (hebb, descent):
        shown = repr(trajectory)
        assert shown.count("\n") == 2
        assert len(shown) < 300
        assert "array" not in shown
        assert "Dataset" not in shown
    assert "width 9: 2 hidden layers, tanh, richness 1.2; 3 samples of dimension 4; hebb; 4 steps" in repr(hebb)
    assert "3 seeds, 5 times" in repr(hebb)
    assert "complete" in repr(hebb)
