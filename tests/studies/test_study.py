"""One small study from a CSV file to its report, and what can go wrong on the way."""

import base64
import dataclasses
import html.parser
import io
import os
import re
import shlex
import shutil
import sys

import matplotlib.image
import numpy as np
import pytest

import widefield as wf
from widefield import cli
from widefield.base.errors import NoLearningRate
from widefield.studies import plan, plots, running

SMALL = {"richness": (0, 1), "depths": (1, 2), "widths": (8, 16), "width": 16, "minutes": 3}
NETWORK = wf.MLP(hidden_layers=1, activation="tanh", bias_variances=0.1, train_biases=True)
SIZES = plan.Sizes(30, 3, 2, 12)


def table(path, rows=40):
    """A CSV file with three classes in the last column."""
    rng = np.random.default_rng(0)
    x = 10 + 5 * rng.standard_normal((rows, 3))
    names = np.array(["red", "green", "blue"])[np.argmax(x - 10 + 0.5 * rng.standard_normal((rows, 3)), axis=1)]
    lines = ["a,b,c,colour", *(f"{a},{b},{c},{name}" for (a, b, c), name in zip(x.tolist(), names, strict=True))]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study in a folder, with few and small networks."""
    place = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "LEVELS", (SIZES,))
        return wf.study(table(place / "t.csv"), target="colour", folder=place / "out", network=NETWORK, **SMALL)


class Reader(html.parser.HTMLParser):
    """Tags that are left open, addresses, images and texts of a page."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.images, self.scripts, self.text = [], [], [], 0, ""

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.addresses += [given[name] for name in ("href", "src", "action", "srcset", "data") if name in given]
        self.scripts += tag == "script"
        if tag == "img":
            self.images.append(given)
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_all_questions_are_answered(made):
    assert list(made.answers) == ["scale", "rate", "baselines", "richness", "depth", "width"]
    assert made.left_out == {}
    assert all(verdict.endswith(".") for verdict in made.verdicts.values())
    assert "standardised data" in made.verdicts["scale"]
    assert made.network.hidden_layers in (1, 2)
    assert 0 < made.learning_rate < 100
    assert "3 classes" in str(made)
    answer = made.answers["richness"]
    assert answer.data["test_accuracy"].shape == (2, 3)
    assert made.problem.network.richness == 1.0


def test_the_report_stands_alone(made):
    page = made.report.read_text()
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert reader.scripts == 0
    assert all(address.startswith("data:") for address in reader.addresses)
    assert not re.search(r"url\(|@import|https?://", page)
    assert len(reader.images) == 5
    for image in reader.images:
        assert image["alt"]
        content = base64.b64decode(image["src"].removeprefix("data:image/png;base64,"))
        pixels = matplotlib.image.imread(io.BytesIO(content))
        assert pixels.shape[0] > 200
        assert pixels.std() > 0.05, "an empty figure"
    for answer in made.answers.values():
        assert answer.title in reader.text
        assert answer.verdict in reader.text
        assert answer.calls in reader.text


def test_files_open_again(made):
    parts = sorted((made.folder / "parts").glob("*.nc"))
    assert {f"answer-{name}.nc" for name in made.answers} <= {path.name for path in parts}
    for path in parts:
        assert str(wf.load(path))
    for path in (made.folder / "networks").glob("*.nc"):
        kept = wf.load(path)
        assert isinstance(kept, wf.Trajectory)
        assert "ntk" in kept.data
    assert (made.folder / "figures" / "richness.png").stat().st_size > 5000


def test_the_calls_that_are_printed_give_the_numbers_that_are_printed(made):
    names: dict = {}
    exec(made.setup, names)
    answer = made.answers["depth"]
    exec(answer.calls, names)
    curves = np.stack(names["test_loss"])
    expected = answer.data["test_curve"].sel(hidden_layers=answer.advice).values
    np.testing.assert_allclose(curves, expected, rtol=1e-5)
    alignment = names["alignment"].isel(time=-1).mean().item()
    assert alignment == pytest.approx(answer.data["ntk_alignment_after"].sel(hidden_layers=answer.advice).item())
    halvings = np.log2(float(names["limit"].suggested) / names["optimiser"].learning_rate)
    assert halvings >= 0
    assert halvings == pytest.approx(round(halvings))
    exec(made.answers["baselines"].calls, names)
    machine = made.answers["baselines"].advice
    found = np.sum(names["errors"] ** 2) / np.sum((names["samples"].y_test - names["centre"]) ** 2)
    assert found == pytest.approx(made.answers["baselines"].data["test_loss"].sel(machine=machine).values[0])
    for question in ("scale", "width"):
        exec(made.answers[question].calls, names)


def test_interrupted_it_keeps_what_is_finished_and_goes_on_where_it_was(made, monkeypatch):
    def stop(desk):
        raise KeyboardInterrupt

    monkeypatch.setattr(plots, "figure", lambda answer: None)  # they take most of the time
    arguments = {
        "X": made.folder.parent / "t.csv",
        "target": "colour",
        "folder": made.folder,
        "network": NETWORK,
        **SMALL,
    }
    with monkeypatch.context() as patch:
        patch.setitem(running._ASK, "depth", stop)
        with pytest.raises(wf.Interrupted, match="the same command or call goes on"):
            wf.study(**arguments)
    before = {path: path.stat().st_mtime_ns for path in (made.folder / "parts").glob("r*.nc")}
    (lost,) = (made.folder / "parts").glob("width-8-*.nc")
    page = made.report.read_text()
    lost.unlink()
    made.report.unlink()
    again = wf.study(**arguments)
    assert again.report.exists()
    made.report.write_text(page)  # with figures, for other tests
    assert lost.exists()
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert again.verdicts == made.verdicts


def test_no_time_names_what_is_left_out(made, tmp_path, monkeypatch):
    """Parts that are there are used; with no time nothing new is begun, and the report says what to type."""
    monkeypatch.setattr(plots, "figure", lambda answer: None)
    folder = tmp_path / "out"
    shutil.copytree(made.folder, folder)
    for path in (folder / "parts").glob("width-*"):
        path.unlink()
    found = wf.study(
        made.folder.parent / "t.csv", target="colour", folder=folder, network=NETWORK, **{**SMALL, "minutes": 1e-3}
    )
    assert "width" in found.left_out
    assert "width" not in found.answers
    assert found.again in wf_text(found.report)
    seen = {}
    monkeypatch.setattr(wf, "study", lambda data, **given: seen.update(given, data=data))
    eval(found.again, {"wf": wf})  # a call, as a command knows nothing of such a network
    assert seen.pop("minutes") >= 1
    assert seen.pop("data") == str(made.folder.parent / "t.csv")
    expected = {name: SMALL[name] for name in ("richness", "depths", "widths", "width")}
    assert seen == {"target": "colour", "folder": folder.as_posix(), "network": NETWORK, **expected}


def test_a_choice_that_does_not_train_is_named_and_all_others_are_answered(made, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "figure", lambda answer: None)
    folder = tmp_path / "out"
    shutil.copytree(made.folder, folder)
    for path in (folder / "parts").glob("*layers-2*"):
        path.unlink()

    def searched(bench, choice, repetitions=1):
        raise NoLearningRate("training fails at all learning rates from 1 down to 1e-12")

    monkeypatch.setattr("widefield.studies.desk.searched", searched)
    given = {"target": "colour", "folder": folder, "network": NETWORK, **SMALL}
    found = wf.study(made.folder.parent / "t.csv", **given)
    assert found.left_out["depth"] == "no two of the choices train"
    assert list(found.answers) == ["scale", "rate", "baselines", "richness", "width"]
    assert found.report.exists()
    found = wf.study(made.folder.parent / "t.csv", **{**given, "richness": (0, 1, 2)})
    assert "At no learning rate that was tried do these train: richness 2." in found.verdicts["richness"]
    (folder / "parts" / "rate.nc").unlink()
    monkeypatch.setattr("widefield.studies.beginnings.searched", searched)
    found = wf.study(made.folder.parent / "t.csv", **given)
    assert found.left_out["rate"].startswith("training fails at all learning rates")
    assert found.learning_rate == made.answers["richness"].data["learning_rate"].sel(richness=1).item()


def test_what_to_type_next_names_all_that_was_changed():
    """Of arrays a call, of files a command, each with every option that is not the usual one."""
    from widefield.studies.given import as_given

    changed = {"folder": "out", "minutes": 9, "richness": (0.0, 0.5), "depths": (1, 3), "widths": (8, 16)}
    arrays = as_given(np.eye(30), np.arange(30.0), "y", None)
    call = "wf.study(X, y, folder='out', minutes=9, richness=(0.0, 0.5), depths=(1, 3), widths=(8, 16))"
    assert arrays.again(changed, plan.NETWORK) == call
    assert "network=wf.MLP(" in arrays.again(changed, NETWORK)


def test_the_command_to_type_next_is_one_that_the_command_line_takes(tmp_path, monkeypatch, made):
    from widefield.studies.given import as_given

    options = {"folder": "out", "minutes": 9, "richness": (0.0, 0.5), "depths": (1, 3), "widths": (8, 16)}
    given = as_given(table(tmp_path / "t.csv"), None, "colour", None, "a")
    assert given.source.columns == ("b", "c")
    relu = dataclasses.replace(plan.NETWORK, activation="relu")
    seen = {}
    monkeypatch.setattr(running, "study", lambda data, **given: seen.update(given, data=data) or made)
    monkeypatch.setattr(sys, "argv", shlex.split(given.again(options, relu)))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    assert seen["network"] == relu
    assert (seen["target"], seen["leave_out"]) == ("colour", ["a"])
    assert (seen["richness"], seen["depths"], seen["widths"]) == ([0.0, 0.5], [1, 3], [8, 16])
    assert given.again(options, NETWORK).startswith(
        f"wf.study('{tmp_path / 't.csv'}', target='colour', leave_out=['a'], folder='out'"
    )


def wf_text(path):
    reader = Reader()
    reader.feed(path.read_text())
    return reader.text


def test_changed_data_are_noticed(made, tmp_path):
    other = table(tmp_path / "t.csv", rows=41)
    with pytest.raises(wf.InvalidInput, match=r"something else \(data changed"):
        wf.study(other, target="colour", folder=made.folder, network=NETWORK, **SMALL)
    with pytest.raises(wf.InvalidInput, match="network, width"):
        wf.study(made.folder.parent / "t.csv", target="colour", folder=made.folder)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("dear")
    for overwrite in (False, True):
        with pytest.raises(wf.FileProblem, match="holds other files"):
            wf.study(np.ones((30, 2)), np.arange(30.0), folder=tmp_path, overwrite=overwrite)
    assert os.listdir(tmp_path) == ["mine.txt"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.ones((5, 2)), "y": np.arange(5.0)}, "5 rows"),
        ({"X": np.ones((30, 2))}, "y is missing"),
        ({"leave_out": "a"}, r"leave_out = \('a',\) belongs to files"),
        ({"X": "t.csv", "y": [1.0]}, "y belongs to arrays"),
        ({"X": "t.xls"}, r"t\.xls"),
        ({"minutes": 0}, "minutes = 0"),
        ({"richness": (0,)}, "positive value"),
        ({"rules": ("magic",)}, "magic"),
        ({"width": 1}, "width = 1"),
        ({"network": wf.MLP(richness=0.0)}, "positive richness"),
        ({"network": wf.MLP(hidden_layers=1, weight_variances=(1.0, 2.0))}, "weight_variances"),
    ],
)
def test_bad_input_is_refused_before_any_work(arguments, message, tmp_path):
    usual = {"X": np.eye(30), "y": np.arange(30.0), "folder": tmp_path / "new"}
    given = {"y": None, **arguments} if "X" in arguments else {**usual, **arguments}
    with pytest.raises(wf.WidefieldError, match=message):
        wf.study(**given)
    assert not (tmp_path / "new").exists()


def test_the_command(made, tmp_path, monkeypatch, capsys):
    """The same study by its command, from the parts that are there."""
    from widefield.cli import study as command

    seen = {}
    monkeypatch.setattr(running, "study", lambda data, **given: seen.update(given, data=data) or made)
    arguments = [
        "t.csv",
        "--target",
        "colour",
        "--minutes",
        "2",
        "--rules",
        "hebb, feedback-alignment",
        "--classes",
        "-q",
    ]
    monkeypatch.setattr(sys, "argv", ["widefield", "study", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    assert command.study.__doc__
    assert seen["rules"] == ["hebb", "feedback-alignment"]
    assert (seen["target"], seen["minutes"], seen["classes"], seen["progress"]) == ("colour", 2.0, True, False)
    assert "report.html" in capsys.readouterr().out


def test_oddities_of_a_table_are_named():
    from widefield.data.samples import Samples
    from widefield.studies.beginnings import oddities

    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 3))
    x[:, 1], x[7, 2] = 4.0, 50.0
    x[11] = x[12]
    y = rng.integers(0, 3, 200).astype(float)
    y[11] = y[12]
    found = {what: sentence for what, _, sentence in oddities(Samples(x, y), ("age", "year", "pay"))}
    assert "year" in found["constant inputs"]
    assert "pay" in found["inputs with values far out"]
    assert found["repeated rows"].startswith("1 row is repeated")
    assert "--classes" in found["different targets"]
    plain = Samples(rng.standard_normal((50, 2)), rng.standard_normal(50))
    assert oddities(plain, ("a", "b")) == []
    counted = Samples(np.column_stack([np.arange(7, 57), plain.x]), plain.y)  # as pandas writes them
    ((what, count, sentence),) = oddities(counted, ("", "a", "b"))
    assert (what, count) == ("inputs that count rows", "1")
    assert sentence == "Numbers of rows, not inputs: ''. Leave them out (--leave-out)."
