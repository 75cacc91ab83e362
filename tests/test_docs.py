"""What the documentation shows is run, what it names exists: README, CONTRIBUTING and all pages in docs/."""

import ast
import re
import sys
from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import pages
import widefield as wf
from pages import PAGES, ROOT, blocks, commands
from widefield import cli
from widefield.activations import table
from widefield.asking.loading import read_problem
from widefield.cli.app import app

SMALLER = {"samples = 10": "samples = 3", "steps = 100": "steps = 4", "hidden_layers = 3": "hidden_layers = 1"}
"""What tests change in the problem that `widefield new` writes."""

RUN = {
    "README.md": (7, 9),
    "CONTRIBUTING.md": (0, 0),
    "docs/architecture.md": (0, 0),
    "docs/architectures.md": (3, 0),
    "docs/bayes.md": (2, 0),
    "docs/conventions.md": (1, 0),
    "docs/differences.md": (0, 0),
    "docs/effective.md": (2, 1),
    "docs/extending.md": (6, 0),
    "docs/independent-solvers.md": (0, 1),
    "docs/infinite-width.md": (4, 1),
    "docs/kernel-learning.md": (5, 0),
    "docs/proportional.md": (4, 6),
    "docs/rates.md": (2, 2),
    "docs/representation-learning.md": (3, 0),
    "docs/safety.md": (1, 2),
    "docs/start.md": (5, 0),
    "docs/study.md": (2, 1),
    "docs/theories.md": (2, 1),
}
"""How many Python blocks and commands of every page are run, so that none drops out or comes in unnoticed."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty one; what pages add to the package is taken away again."""
    monkeypatch.chdir(tmp_path)
    for family in (wf.DataSource, wf.LearningRule, wf.Loss, wf.Network, wf.Schedule, wf.Theory):
        monkeypatch.setattr(family, "members", dict(family.members))
    monkeypatch.setattr(table, "_ACTIVATIONS", dict(table._ACTIVATIONS))
    yield tmp_path
    plt.close("all")


@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page, folder, monkeypatch, capsys):
    """Block after block in one folder and one namespace, as a reader would; `text` is what commands before it print."""
    names: dict = {}
    counts, said, before = {"python": 0, "commands": 0}, "", None
    for block in blocks(page):
        if block.left_out:
            continue
        if block.language == "python":
            pages.run(block, names, page)
            counts["python"] += 1
        elif block.language == "sh":
            capsys.readouterr()
            for command in commands(block):
                assert run_command(command, folder, monkeypatch) == 0, command
                counts["commands"] += 1
            said = capsys.readouterr().out
        elif block.language == "toml":
            read_problem(block.code)
        elif block.language == "text":
            assert not before.smaller, "what is printed is that of other numbers"
            check_printed(block, said)
        before = block
    assert (counts["python"], counts["commands"]) == RUN[page]


def run_command(words, folder, monkeypatch):
    program, *arguments = words
    assert program == "widefield", f"{words} is no command of the package; mark its block `<!-- test: not run, ... -->`"
    problem = folder / "problem.toml"
    if "problem.toml" not in arguments or problem.exists():
        return entered(arguments, monkeypatch)
    code = entered(["new", "problem.toml"], monkeypatch)
    problem.write_text(smaller(problem.read_text()))
    return code if arguments[0] == "new" else entered(arguments, monkeypatch)


def entered(arguments, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["widefield", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code or 0


def smaller(problem):
    for written, put in SMALLER.items():
        assert f"\n{written} " in problem or f"\n{written}\n" in problem
        problem = problem.replace(f"\n{written}", f"\n{put}")
    return problem


def check_printed(block, said):
    said = " ".join(said.split())
    for line in block.code.splitlines():
        part = " ".join(line.split())
        assert part in said, f"line {block.line}: {part!r} is not printed"


def test_the_activation_of_readme_has_the_right_kernel(folder):
    """<z1 z2 exp(-(z1^2 + z2^2)/2)> = k12 / [(1 + k11)(1 + k22) - k12^2]^(3/2)."""
    del folder
    x = np.array([[1.0, 0.3], [-0.2, 1.4]])
    pages.run(pages.block_with("README.md", "activations.register("), {"wf": wf, "x": x}, "README.md")
    found = wf.kernels.StaticKernel(wf.MLP(hidden_layers=1, activation="wave packet")).layers(x).feature[0]
    K = x @ x.T / 2
    k11, k22 = np.diag(K)[:, None], np.diag(K)
    np.testing.assert_allclose(found, K / ((1 + k11) * (1 + k22) - K**2) ** 1.5, rtol=1e-10)


def test_the_theory_of_readme_is_its_network_without_richness(folder, small_problem):
    """A real network with the same weights tends to it as the first power of the richness; one with others does not."""
    del folder
    names = {"wf": wf, "np": np, "dataclass": dataclass}
    pages.run(pages.block_with("README.md", "class OneNetwork"), names, "README.md")
    theory = names["OneNetwork"](16)
    with pytest.raises(wf.InvalidInput, match=r"record\.kernels = true"):
        wf.solve(small_problem, theory)
    problem = replace(small_problem, record=wf.Record(kernels=False))
    answer = wf.solve(problem, theory).data

    def distances(richness, seed):
        asked = replace(problem, network=replace(problem.network, richness=richness))
        real = wf.solve(asked, wf.FiniteWidth(16, seed=seed)).data.isel(seed=0)
        return np.array([float(abs(real[name] - answer[name]).max()) for name in ("outputs", "test_outputs")])

    np.testing.assert_allclose(distances(0.01, 0) / distances(0.005, 0), 2, rtol=0.05)
    assert (distances(0.005, 1) > 100 * distances(0.005, 0)).all()


@pytest.mark.parametrize("page", PAGES)
def test_blocks_are_closed_and_of_known_languages(page):
    assert pages.text(page).count("```") == 2 * len(blocks(page))
    assert {block.language for block in blocks(page)} <= {"python", "sh", "text", "toml", ""}
    for block in blocks(page):
        assert not block.remark.startswith("not run") or block.left_out.strip(), "a reason is missing"


@pytest.mark.parametrize(
    ("code", "remark"),
    [
        ("1 / 3  # = 0.334", ""),
        ("'a'  # = 'b'", ""),
        ("(1.0, 2.0)  # = 1.0", ""),
        ("x = 2  # = 2", ""),
        ("5 + 5  # = 10", "5 -> 5"),
        ("steps = 10", "steps = 100 -> steps = 3"),
    ],
)
def test_what_is_not_so_is_noticed(code, remark):
    with pytest.raises(AssertionError):
        pages.run(pages.Block("python", code, 0, remark), {}, "a page")


def test_what_is_printed_is_compared():
    pages.run(pages.Block("python", "y = 1 / 3\ny, 2 * y  # = 0.333, 6.67e-1", 0), {}, "a page")
    check_printed(pages.Block("text", "width   best rate\n", 0), "\n  width best   rate  loss\n")
    with pytest.raises(AssertionError):
        check_printed(pages.Block("text", "best rate 3\n", 0), "best rate 4\n")


@pytest.mark.parametrize("code", ["activations.register(", "class StraightThrough", "class OneNetwork"])
def test_examples_of_parts_of_ones_own_are_short(code):
    lines = [line for line in pages.block_with("README.md", code).code.splitlines() if line.strip()]
    assert len(lines) <= 15


def test_make_targets_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = {name for page in PAGES for name in re.findall(r"(?:^|`)make ([\w-]+)", pages.text(page), re.M)}
    assert {"demo", "test"} <= named <= targets


def test_commands_that_are_named_exist():
    known = {command.name or command.callback.__name__.replace("_", "-") for command in app.registered_commands}
    named = {name for page in PAGES for name in re.findall(r"`widefield ([\w-]+)", pages.text(page))}
    assert named <= known, named - known


def files_named(page):
    """Files in backticks: `proportional/chain.py`, `tests/problems.py`, `docs/theories.md`."""
    return re.findall(r"`([\w./-]+\.(?:py|md|toml|txt))(?:::\w+)?`", pages.prose(page))


ALLOWED = {"problem.toml"}
"""Files of the reader's own."""


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_exist(page):
    for name in set(files_named(page)) - ALLOWED:
        places = [ROOT / name, ROOT / "src/widefield" / name, ROOT / "docs" / name]
        assert any(place.exists() for place in places), f"{page}: {name}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", pages.text(page)):
        assert ((ROOT / page).parent / target.partition("#")[0]).exists(), f"{page}: {target}"


def test_tests_that_are_named_exist():
    for page in PAGES:
        for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)", pages.text(page)):
            defined = {node.name for node in ast.parse((ROOT / path).read_text()).body if hasattr(node, "name")}
            assert name in defined, f"{page}: {path}::{name}"
