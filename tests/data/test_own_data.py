"""Data as people have them: arrays, frames and files in, standardised, and answers back in their units."""

import math

import numpy as np
import pandas as pd
import pytest

import widefield as wf
from widefield.asking.loading import problem_of_data
from widefield.cli.app import app

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(7, 3)) * [1.0, 50.0, 0.01] + 4.0, 150 + 80 * RNG.normal(size=7)
FRAME = pd.DataFrame({"age": [30, 41, 25], "height": [1.7, 1.8, 1.6]})
NETWORK = wf.MLP(hidden_layers=1, activation="tanh")


def small(data, **options):
    return wf.Problem(NETWORK, data, **{"optimiser": wf.SGD(0.05, 4), **options})


def test_arrays_make_a_problem():
    assert small((X, Y)) == small(wf.Data(X, Y)) == small([X, Y])
    tested = small((X[:5], Y[:5], X[5:], Y[5:]))
    assert tested.samples.test_samples == 2
    assert wf.Problem.from_toml(tested.to_toml()) == tested


def test_frames_keep_their_names_and_encode_words():
    two = small((FRAME, pd.Series(["no", "yes", "no"]))).data
    assert (two.columns, two.classes) == (("age", "height"), ("no", "yes"))
    np.testing.assert_array_equal(two.x, [[30, 1.7], [41, 1.8], [25, 1.6]])
    np.testing.assert_array_equal(two.y, [[-1], [1], [-1]])
    three = wf.Data(FRAME, ["b", "c", "a"], FRAME[:1], ["c"])
    np.testing.assert_array_equal(three.y, np.eye(3)[[1, 2, 0]])
    np.testing.assert_array_equal(three.y_test, [[0, 0, 1]])
    np.testing.assert_array_equal(wf.Data(FRAME, ["b", "a", "b"], classes=["b", "a"]).y, [[-1], [1], [-1]])
    numbers = wf.Data(FRAME.astype({"age": "Int64"}), pd.Series([1, 2, 3], dtype="Int64"))
    np.testing.assert_array_equal(numbers.y, [[1], [2], [3]])
    assert wf.DataSource.from_table(two.to_table()) == two


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((FRAME.assign(height=[1.7, np.nan, np.nan]), Y[:3]), r"x has no value in row 1, column 'height' .*2 such"),
        ((FRAME.astype({"age": "Int64"}).mask(FRAME.age > 40), Y[:3]), r"x has no value in row 1, column 'age'"),
        (
            (FRAME.assign(sex=["m", "f", "f"]), Y[:3]),
            r"x has 'm', which is no number, in row 0, column 'sex' .*: put numbers in place of words",
        ),
        ((FRAME, pd.Series(["a", None, "b"])), "y has no value in row 1 "),
        ((FRAME, pd.Series([1.0, 2.0, None])), "y has no value in row 2 "),
        ((FRAME, ["a", "a", "a"]), "all targets are of one class, 'a'"),
        ((FRAME, ["a", "b", "a"], FRAME, ["a", "c", "a"]), "targets y_test are of the class 'c', which no training"),
        ((FRAME, Y[:3], FRAME.rename(columns={"age": "old"}), Y[:3]), "x and x_test have other columns"),
        ((FRAME, [["a", "b"], ["b", "a"], ["a", "a"]]), "classes need one word for each sample"),
        (
            (X, Y, X),
            r"data = 3 parts, \(an array of shape \(7, 3\), an array of shape \(7,\), .* must be arrays \(X, y",
        ),
        ((X, Y[:4]), r"x has shape \(7, 3\) and y has shape \(4, 1\)"),
        ("mine.csv", r"data = 'mine.csv' must be arrays .*file\('mine.csv', target='y'\)"),
    ],
)
def test_what_is_wrong_is_named_by_place_and_never_by_arrays(data, message):
    with pytest.raises(wf.InvalidInput, match=message) as caught:
        small(data)
    assert len(str(caught.value)) < 300


def test_no_representation_prints_arrays():
    assert repr(wf.Data(X, Y)) == "Data(x: (7, 3), y: (7, 1))"
    assert repr(small((X, Y)).samples) == "Samples(x: (7, 3), y: (7, 1))"
    assert repr(wf.Data(X, Y, X[:2], Y[:2]).load()) == "Samples(x: (7, 3), y: (7, 1), x_test: (2, 3), y_test: (2, 1))"
    with pytest.raises(wf.InvalidInput, match="loss = an array of shape") as caught:
        wf.Problem(NETWORK, (X, Y), loss=np.zeros((500, 500)))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("inputs", ["columns", "together"])
def test_standardised_inputs_have_mean_zero_and_the_size_of_their_dimension(inputs):
    x = np.column_stack([X, np.full(7, 3.0)])  # one input is constant
    found = wf.data.standardised(x[:5], Y[:5], x[5:], Y[5:], inputs=inputs)
    samples = found.load()
    np.testing.assert_allclose(samples.x.mean(axis=0), 0, atol=1e-12)
    assert np.mean(np.sum(samples.x**2, axis=1)) == pytest.approx(4)
    np.testing.assert_array_equal(samples.x[:, 3], 0)
    deviations = samples.x.std(axis=0)[:3]
    if inputs == "columns":
        np.testing.assert_allclose(deviations, deviations[0])
    else:
        np.testing.assert_allclose(deviations / deviations[0], x[:5, :3].std(axis=0) / x[:5, 0].std())
    assert np.mean(samples.y**2) == pytest.approx(1)
    np.testing.assert_allclose(found.scaling.outputs(samples.y_test), Y[5:, None])  # the inverse
    np.testing.assert_allclose(
        (samples.x_test / found.scaling.input_factor.clip(1e-300))[:, :3], (x[5:] - x[:5].mean(0))[:, :3]
    )


def test_classes_keep_their_targets():
    for y in ([1.0, -1.0, 1.0], np.eye(3), ["a", "b", "a"]):
        made = wf.data.standardised(FRAME, y)
        np.testing.assert_array_equal(made.load().y, made.data.load().y)
    forced = wf.data.standardised(FRAME, [1.0, -1.0, 1.0], targets=True).load().y
    assert forced.mean() == pytest.approx(0)
    np.testing.assert_array_equal(wf.data.standardised(FRAME, [2.0, 2.0, 2.0]).load().y, 1)
    np.testing.assert_array_equal(wf.data.standardised(FRAME, [0.0, 0.0, 0.0]).load().y, 0)
    raw = wf.data.standardised(FRAME, Y[:3], inputs="none").load()
    np.testing.assert_array_equal(raw.x, FRAME.to_numpy())


def test_what_cannot_be_standardised():
    with pytest.raises(wf.InvalidInput, match="all its columns are constant"):
        wf.data.standardised(np.ones((3, 2)), Y[:3]).load()
    with pytest.raises(wf.InvalidInput, match="standardised already"):
        wf.data.standardised(wf.data.standardised(X, Y))
    with pytest.raises(wf.InvalidInput, match="unknown inputs"):
        wf.data.standardised(X, Y, inputs="pixels")


def test_answers_know_the_way_back(tmp_path):
    """Outputs and losses of a saved run, in the units of the data, against the losses of those outputs."""
    problem = small(wf.data.standardised(X[:5], Y[:5], X[5:], Y[5:]), record=wf.Record(every=1))
    answer = wf.solve(problem, wf.FiniteWidth(16, seeds=2))
    answer.save(tmp_path / "run.nc")
    loaded = wf.load(tmp_path / "run.nc")
    assert loaded.problem == problem
    raw = loaded.in_data_units()
    np.testing.assert_allclose(raw["targets"].values[:, 0], Y[:5])
    np.testing.assert_allclose(raw["test_targets"].values[:, 0], Y[5:])
    for prefix, y in (("", Y[:5]), ("test_", Y[5:])):
        by_hand = 0.5 * ((raw[f"{prefix}outputs"].values[..., 0] - y) ** 2).sum(axis=-1)
        np.testing.assert_allclose(raw[f"{prefix}loss"].values, by_hand)
        assert raw[f"{prefix}outputs"].dims == answer.data[f"{prefix}outputs"].dims
    plain = wf.solve(small((X[:5] / 50, Y[:5] / 150)), wf.Lazy())
    np.testing.assert_array_equal(plain.in_data_units()["loss"].values, plain.data["loss"].values)


def test_losses_without_a_unit_are_refused(tmp_path):
    class Quartic(wf.Loss):
        def value(self, outputs, targets):
            return ((targets - outputs) ** 4).sum(axis=-1)

    answer = wf.solve(small(wf.data.standardised(X, Y), loss=Quartic()), wf.FiniteWidth(8))
    with pytest.raises(wf.InvalidInput, match="not a multiple of itself"):
        answer.in_data_units()
    kept = small(wf.data.standardised(X, Y / 100, targets=False), loss=Quartic())
    assert "loss" in wf.solve(kept, wf.FiniteWidth(8)).in_data_units()


def test_one_warning_about_raw_data_says_what_to_type():
    with pytest.warns(wf.UnusualScale) as caught:
        wf.solve(small((X, Y), optimiser=wf.SGD(1e-6, 2)), wf.Lazy())
    assert len(caught) == 1
    message = str(caught[0].message)
    assert f"targets the size {math.sqrt(np.mean(Y**2)):.2g}" in message
    eigenvalue = np.linalg.eigvalsh(wf.kernels.StaticKernel(NETWORK)(X).ntk)[-1]
    assert f"kernel is {eigenvalue:.3g}" in message
    assert f"above {2 / eigenvalue:.2g}" in message
    assert "wf.data.standardised(X, y)" in message
    wf.solve(small(wf.data.standardised(X, Y)), wf.Lazy())  # warnings are errors here


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "folder" / "mine.csv"
    path.parent.mkdir()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(price=Y)
    frame.to_csv(path, index=False)
    return path


def run(*arguments):
    from typer.testing import CliRunner

    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_problem_of_a_file(table):
    problem = problem_of_data(table, "price", test_samples=2)
    assert problem.data.columns == ("a", "b", "c")
    assert problem.samples.test_samples == 2
    assert problem.optimiser.learning_rate == "auto"
    np.testing.assert_allclose(problem.data.scaling.outputs(problem.samples.y)[:, 0], Y[:5])


def test_new_writes_a_problem_about_a_file(table, tmp_path, monkeypatch):
    written = tmp_path / "problem.toml"
    done = run("new", written, "--data", table, "--target", "price", "--test-samples", "2")
    assert done.exit_code == 0, done.output
    text = written.read_text()
    assert 'path = "folder/mine.csv"' in text
    assert 'learning_rate = "auto"' in text
    monkeypatch.chdir(table.parent)  # the path is that beside the file, wherever we are
    problem = wf.Problem.from_toml(written)
    assert problem.data == problem_of_data(table, "price", 2).data
    assert problem.network == wf.MLP(hidden_layers=3, activation="tanh", richness=1.0)


def test_columns_that_are_left_out(table, tmp_path):
    """In Python, in a TOML file and by the commands: a column of words and one of numbers that are no inputs."""
    frame = pd.read_csv(table)
    frame.insert(1, "name", [f"one, {k}" for k in range(7)])
    frame.insert(0, "id", range(7))
    frame.to_csv(table, index=False)
    expected = small((X[:5], Y[:5], X[5:], Y[5:])).data
    found = wf.data.file(table, target="price", leave_out=["id", "name"], test_samples=2).frozen()
    np.testing.assert_array_equal(found.x, expected.x)
    assert found.columns == ("a", "b", "c")
    options = ["--target", "price", "--leave-out", "id, name", "--test-samples", "2"]
    assert run("new", tmp_path / "p.toml", "--data", table, *options).exit_code == 0
    np.testing.assert_array_equal(wf.Problem.from_toml(tmp_path / "p.toml").data.data.x_test, X[5:])
    done = run("solve", table, *options, "--theory", "lazy", "-o", tmp_path / "run.nc", "-q")
    assert done.exit_code == 0, done.output
    assert wf.load(tmp_path / "run.nc").problem.data.columns == ("a", "b", "c")
    with pytest.raises(wf.FileProblem, match=r"'one, 0' is not a finite .*leave_out = \['name'\] \(--leave-out name\)"):
        wf.data.file(table, target="price").load()
    with pytest.raises(wf.UnknownName, match=r"column of .* 'nmae'; did you mean 'name'"):
        wf.data.file(table, target="price", leave_out="nmae").load()
    for other in ({"inputs": "a"}, {"path": "data.npz"}):
        with pytest.raises(wf.InvalidInput, match="leave_out = 'id': "):
            wf.data.file(**{"path": table, "target": "price", "leave_out": "id", **other})


def test_decimal_commas_are_named(table):
    table.write_text("a;price\n1,5;2\n2,5;3")
    with pytest.raises(wf.FileProblem, match=r"line 2, column 'a': '1,5' is not a .*write decimal points, not commas"):
        wf.data.file(table, target="price").load()


def test_new_and_solve_say_what_is_wrong_with_a_file(table, tmp_path):
    for command in (["new", tmp_path / "p.toml", "--data", table], ["solve", table, "-o", tmp_path / "run.nc"]):
        done = run(*command)
        assert isinstance(done.exception, wf.InvalidInput)
        assert "unknown column" in str(done.exception)
        assert "known: a, b, c, price" in str(done.exception)
    assert run("new", tmp_path / "p.toml", "--target", "price").exit_code == 2
    (tmp_path / "p.toml").write_text("")
    assert run("solve", tmp_path / "p.toml", "--target", "price", "-o", tmp_path / "run.nc").exit_code == 2


def test_a_file_is_solved_at_a_rate_that_is_found_and_printed(table, tmp_path):
    done = run("solve", table, "--target", "price", "--width", "16", "-o", tmp_path / "run.nc", "--quiet")
    assert done.exit_code == 0, done.output
    answer = wf.load(tmp_path / "run.nc")
    rate = answer.problem.optimiser.learning_rate
    assert f"learning_rate = 'auto' became {rate:g}" in done.output
    losses = answer.mean("loss").values
    assert losses[-1] < 0.1 * losses[0]
    np.testing.assert_allclose(answer.in_data_units()["targets"].values[:, 0], Y)


def test_a_standardised_file_inside_a_toml_file(table, tmp_path):
    text = '[network]\n[data]\nkind = "standardised"\ninputs = "together"\n[data.data]\nkind = "file"\n'
    (tmp_path / "p.toml").write_text(text + 'path = "folder/mine.csv"\ntarget = "price"\n')
    problem = wf.Problem.from_toml(tmp_path / "p.toml")
    assert problem.data == wf.data.standardised(wf.data.file(table, target="price"), inputs="together").frozen()
