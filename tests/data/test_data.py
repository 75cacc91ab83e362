"""Data sources: what they promise about their arrays, files and error messages."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits

from widefield import data
from widefield.base.errors import FileProblem, InvalidInput, UnknownName
from widefield.data import LABELS, Data, DataSource, Samples, Standardised
from widefield.data.source import stream

SYNTHETIC = {
    "gaussian": data.gaussian(samples=6, dimension=9, labels="linear", test_samples=4, noise=0.1, seed=3),
    "sphere": data.sphere(samples=6, dimension=9, labels="one-hot", outputs=3, test_samples=4, seed=3),
    "whitened": data.whitened(samples=6, dimension=9, labels="parity", outputs=2, test_samples=4, seed=3),
    "teacher": data.teacher(samples=6, dimension=9, hidden=(7, 5), outputs=2, test_samples=4, noise=0.2, seed=3),
    "power-law": data.power_law(6, 9, 1.5, 0.5, outputs=2, test_samples=4, noise=0.2, seed=3),
}
SOURCES: dict[str, DataSource] = {
    **SYNTHETIC,
    "standardised": Standardised(Data(x=[[1.0, 2.0], [3.0, 5.0]], y=[1, -3])),
    "arrays": Data(x=[[1.0, 2.0], [3.0, 4.0]], y=[1, -1], x_test=[[5, 6]], y_test=[0.1]),
    "gram": data.gram(kernel=[[2.0, 1.0], [1.0, 2.0]], y=[1, -1]),
    "digits": data.digits(samples=21, test_samples=12, classes=(3, 1, 7), seed=3),
}


def through_toml(source: DataSource) -> DataSource:
    return DataSource.from_table(tomllib.loads(tomli_w.dumps(source.to_table())))


def close(a: Any, b: Any, tolerance: float = 1e-12) -> bool:
    return np.shape(a) == np.shape(b) and bool(np.all(np.abs(np.asarray(a) - b) <= tolerance))


# What every source promises


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_same_arrays_every_time_also_from_a_file(source: DataSource) -> None:
    again = through_toml(source)
    assert again == source
    assert hash(again) == hash(source)
    assert again.load() == source.load()
    assert hash(again.load()) == hash(source.load())


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_arrays_are_read_only_float64(source: DataSource) -> None:
    loaded = source.load()
    for values in (loaded.x, loaded.y, loaded.x_test, loaded.y_test):
        assert values.dtype == np.float64
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        source.samples = 3  # type: ignore[attr-defined]


def test_every_kind_is_tested() -> None:
    assert set(DataSource.members) == {*SOURCES, "cifar10", "file"}
    assert {kind: type(source) for kind, source in SOURCES.items()}.items() <= DataSource.members.items()


def test_lower_case_names() -> None:
    assert data.sphere is data.Sphere
    assert data.power_law is data.PowerLaw
    assert all(hasattr(data, name) for name in data.__all__)


# Own arrays

VALUES = st.floats(allow_nan=False, allow_infinity=False)
SIZES = st.integers(1, 5) | st.sampled_from([20, 40])


@st.composite
def own_arrays(draw: st.DrawFn) -> Data:
    p, d, q = draw(SIZES), draw(SIZES), draw(st.integers(0, 3))
    c = draw(st.integers(1, 3))
    return Data(*(draw(arrays(np.float64, shape, elements=VALUES)) for shape in ((p, d), (p, c), (q, d), (q, c))))


@settings(max_examples=50, deadline=None)
@given(own_arrays())
def test_own_arrays_survive_a_file_exactly(source: Data) -> None:
    again = through_toml(source)
    assert again == source
    assert hash(again) == hash(source)
    assert again.load() == source.load()


def test_own_arrays_of_any_kind() -> None:
    x, y = [[1, 2], [3, 4], [5, 6]], (1, 0, -1)
    expected = Data(np.array(x, dtype=float), np.array(y, dtype=float))
    assert Data(x, y) == expected
    assert Data(jnp.array(x, dtype=jnp.float32), jnp.array(y)) == expected
    assert Data(np.asfortranarray(x), y) == expected
    assert expected.y.shape == (3, 1)
    assert expected != Data(x, [1, 0, 1])
    assert expected != "data"


def test_own_arrays_are_copied() -> None:
    x = np.ones((2, 3))
    source = Data(x, [1, 2])
    x[:] = 5
    assert np.all(source.x == 1)


def test_without_test_points() -> None:
    source = Data(np.ones((2, 3)), np.ones((2, 4)))
    loaded = source.load()
    assert (loaded.x_test.shape, loaded.y_test.shape) == ((0, 3), (0, 4))
    assert Data(source.x, source.y, loaded.x_test, loaded.y_test) == source


def test_negative_zero_is_zero() -> None:
    plus, minus = Data([[0.0]], [1]), Data([[-0.0]], [1])
    assert plus == minus
    assert hash(plus) == hash(minus)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": [[1, 2]], "y": [1, 2]}, r"x has shape \(1, 2\) and y has shape \(2, 1\).*as many rows"),
        ({"x": [1, 2], "y": [1, 2]}, r"x has shape \(2,\); it must have 2 axes"),
        ({"x": [[1]], "y": [[[1]]]}, r"y has shape \(1, 1, 1\)"),
        (
            {"x": [[1, np.nan]], "y": [1]},
            r"x holds 1 values that are NaN or infinite, the first at index \(0, 1\)",
        ),
        ({"x": [[1, 2]], "y": [np.inf]}, "y holds 1 values"),
        ({"x": [[1, 2], [3]], "y": [1, 2]}, "x is not an array of numbers"),
        ({"x": np.empty((0, 2)), "y": []}, r"x has shape \(0, 2\).*at least one training point"),
        ({"x": np.empty((2, 0)), "y": [1, 2]}, r"x has shape \(2, 0\).*one input dimension"),
        ({"x": [[1]], "y": np.empty((1, 0))}, r"y has shape \(1, 0\).*one output"),
        ({"x": [[1]], "y": [1], "x_test": [[1]]}, "go together, but y_test is missing"),
        ({"x": [[1]], "y": [1], "y_test": [1]}, "go together, but x_test is missing"),
        (
            {"x": [[1]], "y": [1], "x_test": [[1]], "y_test": [1, 2]},
            r"x_test has shape \(1, 1\) and y_test .*\(2, 1\)",
        ),
        (
            {"x": [[1]], "y": [1], "x_test": [[1, 2]], "y_test": [1]},
            r"x has shape \(1, 1\) and x_test .*\(1, 2\)",
        ),
        (
            {"x": [[1]], "y": [1], "x_test": [[1]], "y_test": [[1, 2]]},
            r"y has shape \(1, 1\) and y_test .*\(1, 2\)",
        ),
    ],
)
def test_own_arrays_that_cannot_work(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Data(**arguments)


# Samples


def test_sizes_and_kernel() -> None:
    loaded = SYNTHETIC["teacher"].load()
    assert (loaded.samples, loaded.test_samples, loaded.dimension, loaded.outputs) == (6, 4, 9, 2)
    assert close(loaded.kernel(), loaded.x @ loaded.x.T / 9)


@pytest.mark.parametrize(("p", "q", "d"), [(3, 2, 40), (3, 0, 40), (3, 2, 5), (3, 2, 6), (30, 4, 5), (60, 40, 3072)])
@pytest.mark.parametrize("rank", [1, 2, None])
def test_reduced_inputs_have_the_same_inner_products(p: int, q: int, d: int, rank: int | None) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((p + q, d))
    if rank:
        x = np.asarray(rng.integers(-1, 2, (p + q, rank)) @ rng.standard_normal((rank, d)))
    loaded = Samples(x[:p], np.ones(p), x[p:], np.ones(q))
    u, u_test = loaded.reduced()
    assert (u.shape, u_test.shape) == ((p, min(p + q, d)), (q, min(p + q, d)))
    points = np.concatenate([u, u_test])
    assert close(points @ points.T, x @ x.T / d, 2e-14)
    assert close(u @ u.T, loaded.kernel(), 2e-14)


def test_reduced_inputs_of_zeros() -> None:
    u, u_test = Samples(np.zeros((2, 9)), [1, 2], np.zeros((1, 9)), [1]).reduced()
    assert close(u, np.zeros((2, 3)), 0)
    assert close(u_test, np.zeros((1, 3)), 0)


def test_reduced_training_inputs_do_not_depend_on_test_points() -> None:
    loaded = data.gaussian(samples=4, dimension=30, test_samples=5).load()
    alone, _ = Samples(loaded.x, loaded.y).reduced()
    u, _ = loaded.reduced()
    assert close(u[:, :4], alone)
    assert close(u[:, 4:], np.zeros((4, 5)), 0)


# Gram matrices


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 1000))
def test_gram_inputs_have_the_kernel(points: int, rank: int, seed: int) -> None:
    factor = np.random.default_rng(seed).standard_normal((points, rank)) / np.sqrt(rank)
    kernel = factor @ factor.T
    loaded = data.gram(kernel, np.ones(points)).load()
    assert loaded.x.shape == (points, points)
    assert close(loaded.kernel(), kernel, 2e-14)


def test_gram_with_test_points() -> None:
    kernel = np.array([[2.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 1.0]])
    loaded = data.gram(kernel, y=[1, -1], y_test=[0.5]).load()
    assert close(loaded.kernel(), kernel[:2, :2])
    assert close(loaded.x @ loaded.x_test.T / loaded.dimension, kernel[:2, 2:])
    assert close(loaded.y_test, [[0.5]])


@pytest.mark.parametrize(
    ("kernel", "y", "message"),
    [
        ([[1, 2], [2, 1]], [1, 1], r"lowest eigenvalue is -1 .*highest 3"),
        ([[-1.0]], [1], r"lowest eigenvalue is -1"),
        ([[1, 2], [0, 1]], [1, 1], "not symmetric: .* up to 2"),
        ([[1, 0], [0, 1]], [1], r"kernel has shape \(2, 2\) but y has shape \(1, 1\): it must be \(1, 1\)"),
        ([[1, 0]], [1], r"kernel has shape \(1, 2\)"),
        ([[np.nan]], [1], "kernel holds 1 values"),
        (np.empty((0, 0)), [], "at least one training point"),
    ],
)
def test_gram_that_cannot_work(kernel: Any, y: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        data.gram(kernel, y)


def test_gram_counts_test_targets() -> None:
    with pytest.raises(InvalidInput, match=r"y has shape \(1, 1\) and y_test has shape \(2, 1\): it must be \(3, 3\)"):
        data.gram(np.eye(2), [1], [1, 2])
    with pytest.raises(InvalidInput, match="as many columns"):
        data.gram(np.eye(2), [1], [[1, 2]])


# Synthetic inputs


@pytest.mark.parametrize("source", SYNTHETIC.values(), ids=SYNTHETIC)
def test_training_points_do_not_depend_on_test_points(source: Any) -> None:
    one, other = source.load(), dataclasses.replace(source, test_samples=11).load()
    assert np.array_equal(one.x, other.x)
    assert np.array_equal(one.y, other.y)
    assert close(one.x_test, other.x_test[:4])
    assert close(one.y_test, other.y_test[:4])


@pytest.mark.parametrize("source", SYNTHETIC.values(), ids=SYNTHETIC)
def test_more_training_points_keep_the_first_ones_and_the_rule(source: Any) -> None:
    one, other = source.load(), dataclasses.replace(source, samples=9).load()
    assert close(one.x, other.x[:6])
    assert close(one.y, other.y[:6])
    assert np.array_equal(one.x_test, other.x_test)
    assert np.array_equal(one.y_test, other.y_test)


@pytest.mark.parametrize("source", SYNTHETIC.values(), ids=SYNTHETIC)
def test_seeds_differ_and_parts_are_independent(source: Any) -> None:
    one, other = source.load(), dataclasses.replace(source, seed=4).load()
    assert not np.any(one.x == other.x)
    assert not np.any(one.x[:4] == one.x_test)


@pytest.mark.parametrize("labels", LABELS)
def test_noise_is_added_to_the_same_labels(labels: str) -> None:
    source = data.gaussian(2000, 5, labels=labels, outputs=3, test_samples=10, seed=1)
    clean, noisy = source.load(), dataclasses.replace(source, noise=0.5).load()
    assert np.array_equal(clean.x, noisy.x)
    assert abs(np.std(noisy.y - clean.y) - 0.5) < 0.03
    assert not np.any(noisy.y_test == clean.y_test)


def test_gaussian_inputs() -> None:
    x = data.gaussian(samples=500, dimension=400).load().x
    assert abs(x.mean()) < 0.01
    assert abs(x.var() - 1) < 0.02


def test_sphere() -> None:
    loaded = data.sphere(samples=10, dimension=25, test_samples=6).load()
    assert close(np.diag(loaded.kernel()), np.ones(10))
    assert close(np.sum(loaded.x_test**2, axis=1), np.full(6, 25.0))
    assert close(np.abs(data.sphere(samples=3, dimension=1).load().x), np.ones((3, 1)))


@pytest.mark.parametrize("dimension", [8, 30])
def test_whitened(dimension: int) -> None:
    loaded = data.whitened(samples=8, dimension=dimension, test_samples=500).load()
    assert close(loaded.kernel(), np.eye(8))
    assert abs(loaded.x_test.var() - 1) < 0.1


def test_labels() -> None:
    def targets(labels: str, **kwargs: Any) -> tuple[np.ndarray, np.ndarray]:
        loaded = data.gaussian(400, 5, labels, **kwargs).load()
        return loaded.x, loaded.y

    _, y = targets("random-sign", outputs=2)
    assert np.array_equal(np.unique(y), [-1, 1])
    assert np.all(np.abs(np.corrcoef(y.T) - np.eye(2)) < 0.15)
    _, y = targets("random-gaussian", outputs=2)
    assert np.all(np.abs(np.cov(y.T) - np.eye(2)) < 0.2)
    _, y = targets("one-hot", outputs=4)
    assert np.array_equal(y.sum(axis=1), np.ones(400))
    assert np.all(np.abs(y.mean(axis=0) - 0.25) < 0.08)
    x, y = targets("linear", outputs=2)
    beta = np.linalg.lstsq(x / np.sqrt(5), y)[0]
    assert close(x @ beta / np.sqrt(5), y)
    x, signs = targets("linear-sign", outputs=2)
    assert np.array_equal(signs, np.sign(y))
    x, y = targets("parity", outputs=4)
    assert np.array_equal(y, np.sign(x[:, :4] * x[:, 1:]))


def test_linear_coefficients_have_unit_variance() -> None:
    loaded = data.whitened(samples=400, dimension=400, labels="linear").load()
    assert abs(np.mean(loaded.y**2) - 1) < 0.2


@settings(max_examples=50, deadline=None)
@given(
    kind=st.sampled_from([data.gaussian, data.sphere, data.whitened]),
    samples=st.integers(1, 5),
    dimension=st.integers(5, 8),
    labels=st.sampled_from(sorted(LABELS)),
    outputs=st.integers(2, 4),
    test_samples=st.integers(0, 3),
    noise=st.floats(0, 10),
    seed=st.integers(0, 2**62),
)
def test_synthetic_sources_survive_a_file_exactly(kind: Any, **fields: Any) -> None:
    source = kind(**fields)
    assert through_toml(source) == source
    assert through_toml(source).load() == source.load()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 0}, "samples = 0 must be a whole number of at least 1"),
        ({"samples": 2.5}, "samples = 2.5 is not a whole number"),
        ({"dimension": -3}, "dimension = -3 must be"),
        ({"outputs": 0}, "outputs = 0"),
        ({"test_samples": -1}, "test_samples = -1"),
        ({"noise": -0.1}, "noise = -0.1 must be >= 0"),
        ({"noise": float("nan")}, "noise = nan"),
        ({"seed": -1}, "seed = -1"),
        ({"labels": "random-sing"}, "unknown labels 'random-sing'; did you mean 'random-sign'?"),
        ({"labels": "one-hot"}, "needs outputs >= 2, the number of classes; outputs = 1"),
        ({"labels": "parity", "outputs": 4}, "needs dimension > outputs; dimension = 4, outputs = 4"),
    ],
)
def test_synthetic_sources_that_cannot_work(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        data.gaussian(**{"samples": 3, "dimension": 4, **change})


def test_whitened_needs_room() -> None:
    with pytest.raises(InvalidInput, match="dimension = 3 must be at least samples = 4"):
        data.whitened(samples=4, dimension=3)


# Teacher and power law


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("hidden", [1, 50, (30, 20)])
def test_teacher_outputs_have_unit_size(activation: str, hidden: Any) -> None:
    source = data.teacher(1, 20, hidden=hidden, activation=activation, outputs=2, test_samples=20000, seed=2)
    if hidden == 1:
        assert source.hidden == (1,)
    assert np.all(np.abs(np.mean(source.load().y_test ** 2, axis=0) - 1) < 0.1)


def test_teacher_is_the_stated_network_in_double_precision() -> None:
    loaded = data.teacher(50, 3, hidden=(4, 5), outputs=2, seed=7).load()
    rng = stream(7, "rule", "weights")
    h = loaded.x @ rng.standard_normal((4, 3)).T / np.sqrt(3)
    for after, before in ((5, 4), (2, 5)):
        h = np.tanh(h) @ rng.standard_normal((after, before)).T / np.sqrt(before)
    assert close(loaded.y / h * (h / loaded.y)[0], np.ones((50, 2)))


def test_teacher_that_is_zero() -> None:
    dead = [data.teacher(1, 2, hidden=(1, 1), activation="relu", seed=seed) for seed in range(20)]
    with pytest.raises(InvalidInput, match=r"hidden = \(1, 1\), activation = 'relu' and seed = \d+ is zero"):
        _ = [source.load() for source in dead]


def test_teacher_that_cannot_work() -> None:
    with pytest.raises(UnknownName, match=r"activation 'tahn'; did you mean 'tanh'\?"):
        data.teacher(1, 1, activation="tahn")
    with pytest.raises(InvalidInput, match="hidden = 0 must be"):
        data.teacher(1, 1, hidden=(3, 0))
    with pytest.raises(InvalidInput, match=r"hidden = \(\) must hold"):
        data.teacher(1, 1, hidden=())


def test_power_law_equations() -> None:
    source = data.power_law(5, 40, spectrum_exponent=1.5, source_exponent=0.7, outputs=3, seed=1)
    k = np.arange(1, 41)
    spectrum, w = source.spectrum(), source.coefficients()
    assert close(spectrum / spectrum[0], k**-1.5)
    assert abs(spectrum.sum() / 40 - 1) < 1e-12
    assert close(spectrum[:, None] * w**2, np.repeat(source.target_power()[:, None], 3, axis=1))
    assert close(source.target_power() / source.target_power()[0], k ** -(1.5 * 0.7 + 1))
    assert abs(source.target_power().sum() - 1) < 1e-12
    loaded = source.load()
    assert close(loaded.x @ w, loaded.y)
    assert not close(w[:, 0], w[:, 1])


def test_power_law_statistics() -> None:
    source = data.power_law(20000, 10, 1.0, 1.0, seed=1)
    loaded = source.load()
    assert np.all(np.abs(np.mean(loaded.x**2, axis=0) / source.spectrum() - 1) < 0.05)
    assert abs(np.mean(loaded.y**2) - 1) < 0.05


@settings(max_examples=30, deadline=None)
@given(a=st.floats(0, 20), b=st.floats(0, 20), dimension=st.integers(1, 300))
def test_power_law_of_any_exponents(a: float, b: float, dimension: int) -> None:
    source = data.power_law(2, dimension, a, b)
    assert through_toml(source) == source
    assert source.load().x.shape == (2, dimension)


def test_power_law_that_cannot_work() -> None:
    with pytest.raises(InvalidInput, match="spectrum_exponent = -1 must be >= 0"):
        data.power_law(1, 1, -1, 1)
    with pytest.raises(InvalidInput, match="source_exponent = 'b' is not a number"):
        data.power_law(1, 1, 1, "b")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="'power-law' needs a value for spectrum_exponent, source_exponent"):
        DataSource.from_table({"kind": "power-law", "samples": 1, "dimension": 1})


# Images


def write_cifar(folder: Path, per_class: int = 4, classes: int = 10) -> Path:
    """Write files of the published format with random pixels, the same number of every class."""
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        labels = rng.permutation(np.repeat(np.arange(classes), per_class)).astype(np.uint8)
        pixels = rng.integers(0, 256, (len(labels), 3072), dtype=np.uint8)
        (folder / name).write_bytes(np.concatenate([labels[:, None], pixels], axis=1).tobytes())
    return folder


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cifar(tmp_path_factory.mktemp("cifar"))


@pytest.fixture(params=["digits", "cifar10"])
def images(request: pytest.FixtureRequest, cifar: Path) -> Any:
    first = {"folder": str(cifar)} if request.param == "cifar10" else {}
    return lambda **fields: getattr(data, request.param)(**first, **fields)


def test_two_classes(images: Any) -> None:
    source = images(samples=7, test_samples=4, classes=(3, 5), seed=1)
    loaded = source.load()
    assert np.array_equal(loaded.y[:, 0], [-1, 1, -1, 1, -1, 1, -1])
    assert np.array_equal(loaded.y_test[:, 0], [-1, 1, -1, 1])
    assert abs(np.mean(np.sum(loaded.x**2, axis=1)) / loaded.dimension - 1) < 1e-12
    assert through_toml(source) == source


def test_all_classes_on_the_sphere(images: Any) -> None:
    source = images(samples=25, test_samples=12, classes=None, normalise="sphere")
    loaded = source.load()
    assert np.array_equal(loaded.y, np.eye(10)[np.arange(25) % 10])
    assert np.array_equal(loaded.y_test, np.eye(10)[np.arange(12) % 10])
    assert close(np.diag(loaded.kernel()), np.ones(25))
    assert close(np.mean(loaded.x_test**2, axis=1), np.ones(12))
    assert through_toml(source) == source
    assert through_toml(source).load() == loaded


def test_image_parts_are_nested_and_independent(images: Any) -> None:
    def load(**fields: Any) -> Samples:
        return images(normalise="sphere", classes=(2, 0, 6), **fields).load()

    one, longer, more = load(samples=5), load(samples=5, test_samples=4), load(samples=9, test_samples=4)
    assert np.array_equal(one.x, longer.x)
    assert np.array_equal(one.x, more.x[:5])
    assert np.array_equal(longer.x_test, more.x_test)
    assert not np.array_equal(one.x, load(samples=5, seed=1).x)
    everything = np.concatenate([more.x, more.x_test])
    assert len(np.unique(everything, axis=0)) == 13


def origin(x: np.ndarray, y: np.ndarray, images: np.ndarray, labels: np.ndarray, classes: tuple[int, int]) -> set[int]:
    """Check that every row of x is a centred, scaled image of the class that y stands for; return which."""

    def unit(rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    similarity = unit(x) @ unit(images - images[np.isin(labels, classes)].mean(axis=0)).T
    assert close(np.max(similarity, axis=1), np.ones(len(x)))
    found = np.argmax(similarity, axis=1)
    assert np.array_equal(labels[found], np.where(y[:, 0] < 0, *classes))
    return set(found)


@pytest.mark.parametrize("normalise", ["rms", "sphere"])
def test_digits_are_images_of_their_class(normalise: str) -> None:
    images, labels = load_digits(return_X_y=True)
    loaded = data.digits(samples=300, test_samples=60, classes=(4, 9), normalise=normalise).load()
    train = origin(loaded.x, loaded.y, images, labels, (4, 9))
    test = origin(loaded.x_test, loaded.y_test, images, labels, (4, 9))
    assert len(train | test) == 360


def test_cifar_images_are_images_of_their_class(cifar: Path) -> None:
    loaded = data.cifar10(cifar, samples=40, classes=(8, 1)).load()
    files = [np.fromfile(cifar / f"data_batch_{i}.bin", np.uint8) for i in range(1, 6)]
    records = np.concatenate(files).reshape(-1, 3073)
    assert len(origin(loaded.x, loaded.y, records[:, 1:].astype(float), records[:, 0], (8, 1))) == 40


def test_cifar_folder_may_be_a_path(cifar: Path) -> None:
    assert data.cifar10(cifar, samples=2) == data.cifar10(str(cifar), samples=2)


def test_cifar_without_test_points_does_not_need_the_test_file(tmp_path: Path) -> None:
    (write_cifar(tmp_path) / "test_batch.bin").unlink()
    assert data.cifar10(tmp_path, samples=2).load().x_test.shape == (0, 3072)
    with pytest.raises(FileProblem, match=r"test_batch\.bin .*cannot be read: No such file"):
        data.cifar10(tmp_path, samples=2, test_samples=2).load()


def test_cifar_files_that_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match=r"folder = '.*nowhere' is not a folder; it must hold data_batch_1\.bin"):
        data.cifar10(tmp_path / "nowhere", samples=2).load()
    with pytest.raises(FileProblem, match=r"data_batch_1\.bin .*cannot be read: No such file"):
        data.cifar10(tmp_path, samples=2).load()
    file = write_cifar(tmp_path) / "data_batch_3.bin"
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    with pytest.raises(FileProblem, match=r"data_batch_3\.bin has 122919 bytes, .*multiple of 3073"):
        data.cifar10(tmp_path, samples=2).load()
    file.write_bytes(b"")
    with pytest.raises(FileProblem, match=r"data_batch_3\.bin has 0 bytes"):
        data.cifar10(tmp_path, samples=2).load()
    file.write_bytes(content[:3073] + b"\x0a" + content[3074:])
    with pytest.raises(FileProblem, match=r"data_batch_3\.bin is not .*record 1 has class 10"):
        data.cifar10(tmp_path, samples=2).load()


def test_images_without_contrast(tmp_path: Path) -> None:
    write_cifar(tmp_path)
    for file in tmp_path.glob("*.bin"):
        file.write_bytes(bytes(3073) + bytes([1]) + bytes(3072))
    with pytest.raises(InvalidInput, match="equals the mean image"):
        data.cifar10(tmp_path, samples=2).load()


def test_more_images_than_there_are() -> None:
    with pytest.raises(InvalidInput, match="samples = 400 needs 200 images of class 0, but only 178 are available"):
        data.digits(samples=400).load()
    with pytest.raises(InvalidInput, match="test_samples = 60 needs 30 images of class 0, but only 28 are available"):
        data.digits(samples=300, test_samples=60).load()
    assert data.digits(samples=300, test_samples=56).load().test_samples == 56


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 0}, "samples = 0"),
        ({"test_samples": -1}, "test_samples = -1"),
        ({"seed": None}, "seed = None"),
        ({"classes": (1, 1)}, r"classes = \(1, 1\) must be two or more different classes"),
        ({"classes": 3}, "classes = 3 must be two or more"),
        ({"classes": (1, 10)}, "classes = 10 must be a whole number of at least 0 and at most 9"),
        ({"normalise": "spere"}, "unknown normalise 'spere'; did you mean 'sphere'?"),
    ],
)
def test_images_that_cannot_work(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        data.digits(**{"samples": 4, **change})
    with pytest.raises(InvalidInput, match="folder = 3 must be the path of a folder"):
        data.cifar10(3, samples=4)  # type: ignore[arg-type]


# Files


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "spere"}, "unknown kind of data 'spere'; did you mean 'sphere'?"),
        ({"samples": 3}, r"\[data\] needs a 'kind', one of: arrays, cifar10"),
        ({"kind": "sphere", "samples": 3, "dimensions": 4}, "'dimensions'; did you mean 'dimension'?"),
        ({"kind": "sphere", "samples": 3}, "needs a value for dimension"),
        ({"kind": "arrays", "x": [[1.0]], "y": "a"}, "y is not an array of numbers"),
        (
            {"kind": "arrays", "x": {"shape": [9], "float64": "AAAA"}, "y": [1]},
            "packed array of shape .* is damaged",
        ),
        ({"kind": "cifar10", "samples": 2}, "needs a value for folder"),
    ],
)
def test_tables_that_cannot_work(table: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        DataSource.from_table(table)
