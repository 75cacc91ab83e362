"""Data from CSV and NPZ files: what is read, what is refused and where, and that answers do not need the file."""

import csv

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import widefield as wf
from widefield.cli.app import app

IRISES = """length, width, species
5.1, 3.5, setosa
7.0, 3.2, versicolor
6.3, 3.3, virginica
4.9, 3.0, setosa
"""
PROBLEM = """
[network]
hidden_layers = 1
[data]
kind = "file"
path = "{path}"
target = "{target}"
[optimiser]
kind = "sgd"
learning_rate = 0.01
steps = 2
"""


@pytest.fixture
def put(tmp_path):
    def write(text, name="data.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return write


def read(path, **options):
    return wf.data.file(path, **options).frozen()


def test_classes_of_words(put):
    found = read(put(IRISES), target="species", test_samples=1)
    assert found.columns == ("length", "width")
    assert found.classes == ("setosa", "versicolor", "virginica")
    np.testing.assert_array_equal(found.x, [[5.1, 3.5], [7.0, 3.2], [6.3, 3.3]])
    np.testing.assert_array_equal(found.y, np.eye(3))
    np.testing.assert_array_equal(found.x_test, [[4.9, 3.0]])
    np.testing.assert_array_equal(found.y_test, [[1, 0, 0]])


def test_two_classes_are_signs(put):
    found = read(put("x1;x2;kind\n1;2;no\n3;4;yes\n5;6;no"), target="kind")
    assert found.classes == ("no", "yes")
    np.testing.assert_array_equal(found.y, [[-1], [1], [-1]])


def test_numbers_are_classes_only_if_they_are_said_to_be(put):
    path = put("a\tb\ty\n1\t2\t10\n3\t4\t9\n5\t6\t10")
    assert read(path).classes is None
    np.testing.assert_array_equal(read(path).y, [[10], [9], [10]])
    assert read(path, classes=True).classes == ("9", "10")
    np.testing.assert_array_equal(read(path, classes=True).y, [[1], [-1], [1]])


def test_several_targets_and_chosen_inputs(put):
    text = 'name,a,b,u,v\n"one, first",1,2,3,4\n"two",5,6,7,8\n'
    found = read(put(text), target=["u", "v"], inputs=["b", "a"])
    np.testing.assert_array_equal(found.x, [[2, 1], [6, 5]])
    np.testing.assert_array_equal(found.y, [[3, 4], [7, 8]])
    assert found.columns == ("b", "a")
    np.testing.assert_array_equal(read(put(text), target="u", inputs="a").x, [[1], [5]])


def test_standardised_by_the_training_samples(put):
    found = read(put("a,y\n1,10\n3,30\n7,0"), test_samples=1, standardise=True).load()
    np.testing.assert_allclose(found.x, [[-1], [1]])
    np.testing.assert_allclose(found.x_test, [[5]])
    np.testing.assert_allclose(found.y, [[-1], [1]])
    np.testing.assert_allclose(found.y_test, [[-2]])


def test_a_file_of_test_samples(put):
    train, test = put(IRISES), put("species,width,length\nvirginica,1,2", "test.csv")
    found = read(train, target="species", test_path=test, inputs=["length", "width"])
    np.testing.assert_array_equal(found.x_test, [[2, 1]])
    np.testing.assert_array_equal(found.y_test, [[0, 0, 1]])
    with pytest.raises(wf.FileProblem, match="class 'rose', which no training sample has"):
        read(train, target="species", test_path=put("length,width,species\n1,2,rose", "test.csv"))


def test_arrays_of_npz(tmp_path):
    images, digits = np.arange(24.0).reshape(3, 2, 4), np.array(["b", "a", "b"])
    np.savez(tmp_path / "data.npz", x=images, digit=digits, x_test=images[:1] + 1, digit_test=digits[:1])
    found = read(tmp_path / "data.npz", target="digit")
    np.testing.assert_array_equal(found.x, images.reshape(3, 8))
    np.testing.assert_array_equal(found.y, [[1], [-1], [1]])
    np.testing.assert_array_equal(found.x_test, images[:1].reshape(1, 8) + 1)
    assert found.classes == ("a", "b")
    np.savez(tmp_path / "numbers.npz", inputs=[[1, 2], [3, 4]], y=[0.5, 1.5])
    np.testing.assert_array_equal(read(tmp_path / "numbers.npz", inputs="inputs").y, [[0.5], [1.5]])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arrays(np.float64, (3, 4), elements=st.floats(-1e300, 1e300)))
def test_numbers_are_read_exactly(tmp_path, values):
    with (tmp_path / "data.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows([["a", "b", "c", "y"], *values.tolist()])
    np.savez(tmp_path / "data.npz", x=values[:, :3], y=values[:, 3])
    for path in ("data.csv", "data.npz"):
        found = read(tmp_path / path)
        np.testing.assert_array_equal(np.hstack([found.x, found.y]), values)


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b,y\n1,2,3\n4,,6", {}, r"line 3, column 'b': the value '' is missing"),
        ("a,b,y\n1,NA,3", {}, r"line 2, column 'b': the value 'NA' is missing"),
        ("a,b,y\n\n1,2,3\n1,2,nan", {}, r"line 4, column 'y'"),
        ("a,b,y\n1,2,\n1,2,x", {}, r"line 2, column 'y'"),
        ("a,b,y\n1,red,3", {}, r"line 2, column 'b': 'red' is not a finite number"),
        ("a,b,y\n1,inf,3", {}, r"'inf' is not a finite number"),
        ("a,b,y\n1,2,x", {"classes": False}, r"column 'y': 'x' is not a finite number"),
        ("a,b,y\n1,2,x\n3,4,x", {}, "one class, 'x'"),
        ("a,b,y\n1,2,3,4", {}, "line 2: 4 cells for 3 columns"),
        ("a,b,y\n1,2,3", {"target": "z"}, "unknown column of .* 'z'.*known: a, b, y"),
        ("a,b,y\n1,2,3", {"inputs": ["a", "y"]}, "both an input and a target"),
        ("a,b,y\n1,2,3", {"test_samples": 1}, "has 1 samples in all"),
        ("a,a,y\n1,2,3", {}, "one name"),
        ("1,2,3\n4,5,6", {}, "begins with numbers"),
        ("y\n1\n2", {}, "no columns beside"),
        ("a,b,y\n", {}, "samples below"),
        ("", {}, "samples below"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(put, text, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(put(text), **options)
    assert isinstance(caught.value, wf.WidefieldError)


@pytest.mark.parametrize(
    ("held", "options", "message"),
    [
        ({"x": [[1.0, 2.0], [3.0, np.nan]], "y": [1.0, 2.0]}, {}, "array 'x' has no finite value in row 1, column 1"),
        ({"x": [[1.0]], "y": [np.inf]}, {}, "array 'y' has no finite value in row 0"),
        ({"x": [[1.0]], "y": [1.0, 2.0]}, {}, "as many rows"),
        ({"x": [["a"]], "y": [1.0]}, {}, "not numbers"),
        ({"x": [[1.0]], "z": [1.0]}, {}, "unknown array"),
        ({"x": [[1.0]], "y": [1.0], "x_test": [[1.0]]}, {}, "unknown array .* 'y_test'"),
        ({"x": [[1.0]], "y": [1.0]}, {"target": ["y", "z"]}, "one array"),
        ({"x": [[1.0]], "y": [[1.0, 2.0]]}, {"classes": True}, "one value for each sample"),
    ],
)
def test_what_is_wrong_with_arrays(tmp_path, held, options, message):
    np.savez(tmp_path / "data.npz", **held)
    with pytest.raises(wf.WidefieldError, match=message):
        read(tmp_path / "data.npz", **options)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"path": "data.xlsx"}, "ends in .csv"),
        ({"path": 3}, "ends in .csv"),
        ({"path": "a.csv", "target": []}, "a name, or a list of names"),
        ({"path": "a.csv", "inputs": [1]}, "a name, or a list of names"),
        ({"path": "a.csv", "test_path": "b.csv", "test_samples": 2}, "exclude each other"),
        ({"path": "a.csv", "classes": 2}, "true or false"),
        ({"path": "a.csv", "classes": True, "target": ["a", "b"]}, "one column"),
    ],
)
def test_fields_that_cannot_work(fields, message):
    with pytest.raises(wf.InvalidInput, match=message):
        wf.data.file(**fields)


def test_files_that_are_not_there_or_damaged(put):
    with pytest.raises(wf.FileProblem, match="there is no file"):
        read("nowhere.csv")
    with pytest.raises(wf.FileProblem, match=r"cannot read .* as NPZ"):
        read(put("no zip", "data.npz"))


def test_names_must_fit():
    assert wf.Data([[1, 2]], [1], columns=["a", "b"]).columns == ("a", "b")
    for wrong in ({"columns": ["a"]}, {"columns": "ab"}, {"classes": ["only"]}, {"classes": [1, 2]}):
        with pytest.raises(wf.InvalidInput, match="names"):
            wf.Data([[1, 2]], [1], **wrong)


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_toml_names_files_beside_it_and_answers_do_not_need_them(put, tmp_path, monkeypatch, kind):
    """Wherever the command is run; what is saved holds the arrays."""
    folder = tmp_path / "deep"
    folder.mkdir()
    if kind == "csv":
        put(IRISES, "deep/data.csv")
    else:
        np.savez(folder / "data.npz", x=[[5.1, 3.5], [7, 3.2], [6.3, 3.3], [4.9, 3]], species=list("abca"))
    put(PROBLEM.format(path=f"data.{kind}", target="species"), "deep/problem.toml")
    monkeypatch.chdir(tmp_path)
    problem = wf.Problem.from_toml("deep/problem.toml")
    app(["solve", "deep/problem.toml", "--width", "4", "-o", "run.nc", "-q"], standalone_mode=False)
    (folder / f"data.{kind}").unlink()
    saved = wf.load("run.nc").problem
    assert saved == problem == wf.Problem.from_toml(problem.to_toml())
    assert type(saved.data) is wf.Data
    assert saved.data.classes == problem.data.classes
    np.testing.assert_array_equal(saved.samples.x, [[5.1, 3.5], [7, 3.2], [6.3, 3.3], [4.9, 3]])
    with pytest.raises(wf.FileProblem, match="there is no file deep"):
        wf.Problem.from_toml("deep/problem.toml")


def test_a_problem_in_python_keeps_the_arrays(put):
    path = put(IRISES)
    problem = wf.Problem(wf.MLP(1), wf.data.file(path, target="species"))
    path.unlink()
    assert problem.samples.samples == 4
    assert problem.data.columns == ("length", "width")
