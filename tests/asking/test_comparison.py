"""Theories side by side with real networks: BP22 Figure 4, and the command line."""

import os
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

import widefield as wf
from widefield.asking import comparison
from widefield.base import tables
from widefield.base.errors import InvalidInput, NotAccurate, UnknownName
from widefield.cli.app import app
from widefield.trajectory import distances

THEORIES = [wf.InfiniteWidth(64, 1), wf.Lazy(), wf.Perturbative(), wf.GradientIndependence(64, 1)]


def asked(richness, activation="linear", layers=3, steps=30):
    return wf.Problem(
        wf.MLP(layers, activation, richness=richness),
        wf.data.sphere(samples=4, dimension=8, seed=0),
        optimiser=wf.SGD(0.02, steps),
        record=wf.Record(every=steps // 5, neurons=0),
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::widefield.base.errors.NotAccurate")
def test_only_dmft_tracks_rich_networks():
    """BP22 Figure 4: at gamma_0 = 1.5 the approximations fail, at gamma_0 -> 0 all agree."""
    networks = wf.FiniteWidth(1000, seeds=6)
    rich = comparison.compare(asked(1.5), THEORIES, networks, progress=False)
    for name in ("outputs", "feature_kernel", "ntk"):
        found = {label: float(distance.max()) for label, distance in rich.distances(name).items()}
        noise = float(distances.uncertainty(rich.networks, name).max())
        dmft = found.pop("width ∞")
        assert dmft < 4 * noise + 0.02, name
        assert min(found.values()) > 3 * dmft, (name, found)
    lazy = comparison.compare(asked(0.05), THEORIES, networks, progress=False)
    for name in ("outputs", "feature_kernel", "ntk"):
        noise = float(distances.uncertainty(lazy.networks, name).max())
        for label, distance in lazy.distances(name).items():
            assert float(distance.max()) < 4 * noise + 0.02, (name, label)


def test_theories_that_cannot_answer_say_why():
    relu = comparison.compare(asked(0.5, "relu", 1, 5), [wf.Lazy(), wf.Perturbative()], wf.FiniteWidth(32, seeds=2))
    assert [answer.label for answer in relu.answers] == ["lazy"]
    assert "kink" in relu.refusals["perturbative"]
    figure = relu.plot()
    titles = [axes.get_title() for axes in figure.get_axes()]
    assert {"outputs", "feature kernel, last layer", "neural tangent kernel", "width 32", "lazy"} <= set(titles)


def test_distances_are_computed_once_and_shown_alike(monkeypatch):
    """The table, the sentence and the figure have the same numbers, from one computation."""
    calls = []
    real = distances.distance

    def counted(answer, networks, name):
        calls.append((answer.label, name))
        return real(answer, networks, name)

    monkeypatch.setattr(comparison, "distance", counted)
    monkeypatch.setattr(distances, "distance", counted)
    found = comparison.compare(
        asked(0.5, "tanh", 1, 5), [wf.Lazy(), wf.Perturbative(64, 2)], wf.FiniteWidth(32, seeds=2)
    )
    text, verdict, figure = tables.as_text(found.table()), found.verdict, found.plot()
    assert sorted(calls) == sorted(
        (label, name) for label in ("lazy", "perturbative") for name in comparison.QUANTITIES
    )
    worst = {label: max(float(found.distances(n)[label].max()) for n in comparison.QUANTITIES) for label, _ in calls}
    nearest = min(worst, key=worst.get)
    assert f"Nearest to the networks is {nearest}, {worst[nearest]:.1%} away" in verdict
    for label in worst:
        assert f"{float(found.distances('outputs')[label].max()):.1%}" in text
    panel = next(axes for axes in figure.get_axes() if axes.get_title() == "outputs")
    drawn = {line.get_label(): line.get_ydata() for line in panel.lines}
    np.testing.assert_allclose(drawn["lazy"], np.maximum(found.distances("outputs")["lazy"], 1e-6))
    with pytest.raises(UnknownName, match="fetaure_kernel"):
        found.distances("fetaure_kernel")


def test_nothing_to_compare():
    alone = comparison.compare(asked(0.5, "relu", 1, 5), [wf.Perturbative()], wf.FiniteWidth(8, seeds=2))
    assert alone.verdict == "Nothing to compare: no theory answers this problem."
    assert "width 8" in tables.as_text(alone.table())


def test_names():
    assert [type(theory) for theory in comparison.named("dmft, lazy,lazy")] == [wf.InfiniteWidth, wf.Lazy]
    with pytest.raises(UnknownName, match="lasy"):
        comparison.named("dmft,lasy")
    with pytest.raises(InvalidInput, match="names no theory"):
        comparison.named([])


def test_command_line(tmp_path):
    asked(0.5, layers=1, steps=5).to_toml(tmp_path / "problem.toml")
    command = ["compare", str(tmp_path / "problem.toml"), "--theories", "lazy,perturbative", "--width", "64"]
    command += ["--seeds", "3", "--quiet", "--plot", str(tmp_path / "figure.png")]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0
    for word in ("width 64", "lazy", "perturbative", "feature", "±", "saved"):
        assert word in result.output
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    solved = ["solve", command[1], "--theory", "lazy", "--quiet", "-o", str(tmp_path / "lazy.nc")]
    lazy = CliRunner().invoke(app, solved, catch_exceptions=False)
    assert lazy.exit_code == 0
    assert "left out: network.richness = 0.5: is taken to be 0" in lazy.output
    assert wf.Trajectory.load(tmp_path / "lazy.nc").theory == wf.Lazy()
    again = CliRunner().invoke(app, command)
    assert again.exit_code != 0
    unknown = CliRunner().invoke(app, [*command[:3], "nothing", *command[4:], "--overwrite"])
    assert isinstance(unknown.exception, UnknownName)


def test_distances():
    """A theory that is the mean of the networks is at distance zero; twice the mean is at distance one."""
    networks = wf.solve(asked(0.5, "tanh", 1, 5), wf.FiniteWidth(16, seeds=3))
    mean = networks.data.mean("seed", keep_attrs=True).assign_coords(step=networks.data.step)
    same = wf.Trajectory(mean, networks.problem, wf.Lazy())
    assert float(distances.distance(same, networks, "ntk").max()) < 1e-14
    twice = wf.Trajectory(mean * 2, networks.problem, wf.Lazy())
    np.testing.assert_allclose(float(distances.distance(twice, networks, "feature_kernel").max()), 1.0)
    assert issubclass(NotAccurate, Warning)


SMALL = wf.data.sphere(samples=3, dimension=4, seed=0)
SHORT = {
    "lazy": (wf.Lazy(), wf.Problem(wf.MLP(1), SMALL, optimiser=wf.SGD(0.1, 8, batch_size=1))),
    "perturbative": (wf.Perturbative(64, 3), wf.Problem(wf.MLP(1, richness=0.1), SMALL, optimiser=wf.SGD(0.1, 8))),
    "fluctuations": (wf.Fluctuations(50, points=64), wf.Problem(wf.MLP(1), SMALL, optimiser=wf.SGD(0.1, 8))),
}


@pytest.mark.parametrize("name", SHORT)
def test_progress_and_interruption(name):
    """Progress rises to the end, with a loss; Ctrl-C ends at once what cannot be resumed."""
    theory, problem = SHORT[name]
    reports = []
    wf.solve(problem, theory, progress=lambda *report: reports.append(report))
    done = [report[0] for report in reports]
    assert done == sorted(done)
    assert len(reports) > 1
    assert reports[-1][0] == reports[-1][1]
    assert np.isfinite(reports[-1][2])

    def press(*report):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        wf.solve(problem, theory, progress=press)
