"""Files opened without knowing what they hold."""

import importlib
import pkgutil
import sys

import numpy as np
import pytest
import xarray as xr

import widefield as wf
from problems import small_sweep, write_sealed
from widefield import cli
from widefield.asking.loading import ROOMS
from widefield.base.errors import FileProblem
from widefield.base.result import Result
from widefield.effective import monte_carlo
from widefield.studies.keeping import Part


def trajectory():
    data = wf.data.sphere(samples=3, dimension=4, seed=0)
    return wf.solve(wf.Problem(wf.MLP(1, "linear"), data, optimiser=wf.SGD(0.1, 3)), wf.Lazy())


MADE = {
    "trajectory": trajectory,
    "solution of the proportional limit": lambda: wf.proportional.solve(
        wf.proportional.LinearNetwork(1, 1.0), wf.proportional.LinearTask(), 0.1, 3
    ),
    "learning-rate sweep": small_sweep,
    "learning rates of a problem": lambda: wf.best_rate(
        wf.Problem(wf.MLP(1, "linear", 0.0), wf.data.sphere(samples=3, dimension=4)),
        steps=3,
        learning_rates=[0.1, 0.5, 2],
    ),
    "flow through the layers": lambda: wf.effective.flow(wf.MLP(2, "relu"), [[1.0]], 8),
    "check of a flow": lambda: monte_carlo.check(wf.MLP(1, "relu"), [[1.0]], 8, seeds=200, seed=0, threshold=9.0),
    "flow of the tangent kernel": lambda: wf.effective.ntk_flow(wf.MLP(2, "relu"), [[1.0]], 8),
    "flow of differentials": lambda: wf.effective.differential_flow(wf.MLP(2, "tanh"), [[1.0]], 8),
    "part of a study": lambda: Part(xr.Dataset({"loss": ("split", [0.5, 0.25])}, attrs={"title": "losses"})),
    "gradients of the layers": lambda: wf.effective.gradient_moments("relu", 1.0, 3, 8, weight_variance=2.0),
}


def derived(kind):
    """All classes below one."""
    return {below for one in kind.__subclasses__() for below in (one, *derived(one))}


def test_the_table_knows_every_class():
    for module in pkgutil.walk_packages(wf.__path__, "widefield."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    known = {one for one in derived(Result) if one.__module__.startswith("widefield") and one.kind}
    assert {one.kind for one in known} == set(ROOMS) == set(MADE)
    assert {one.__name__ for one in known} == {name for _, name in ROOMS.values()}


@pytest.mark.parametrize("kind", MADE)
def test_results_are_opened_shown_and_drawn(kind, tmp_path, monkeypatch, capsys):
    made, path, figure = MADE[kind](), tmp_path / "answer.nc", tmp_path / "figure.png"
    made.save(path)
    again = wf.load(path)
    assert type(again) is type(made)
    assert again.kind == kind
    assert str(again) == str(made)
    assert (again.status, again.message, again.verdict) == (made.status, made.message, made.verdict)
    assert all(type(value) in (int, float) for value in again.statistics.values())
    assert "schema" not in again.statistics
    assert again.statistics == pytest.approx(made.statistics)
    monkeypatch.setattr(sys, "argv", ["widefield", "show", str(path), "--plot", str(figure)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    shown = capsys.readouterr().out
    first = next(iter(made.data.data_vars.values())).dtype
    assert first == np.float64
    for line in (made.heading.split(":")[0], made.verdict[:40]):
        assert line in shown
    assert figure.read_bytes()[:4] == b"\x89PNG"


def test_files_of_something_else(tmp_path):
    xr.Dataset({"temperature": ("x", [1.0, 2.0])}).to_netcdf(tmp_path / "weather.nc", engine="h5netcdf")
    with pytest.raises(FileProblem, match=r"weather.nc is a NetCDF file, but was not saved by widefield"):
        wf.load(tmp_path / "weather.nc")
    later = xr.Dataset(attrs={"format": "widefield spin glass", "schema": 1})
    later.to_netcdf(tmp_path / "later.nc", engine="h5netcdf")
    with pytest.raises(FileProblem, match=r"holds a spin glass, which this widefield does not know: please upgrade"):
        wf.load(tmp_path / "later.nc")
    (tmp_path / "text.nc").write_text("no data")
    with pytest.raises(FileProblem, match="cannot be read as NetCDF"):
        wf.load(tmp_path / "text.nc")
    with pytest.raises(FileProblem, match="there is no file"):
        wf.load(tmp_path / "none.nc")
    with pytest.raises(FileProblem, match="it is a folder"):
        wf.load(tmp_path)


@pytest.mark.parametrize("kind", ["flow through the layers", "check of a flow"])
def test_damaged_flows_are_named(kind, tmp_path):
    MADE[kind]().save(tmp_path / "answer.nc")
    with xr.open_dataset(tmp_path / "answer.nc", engine="h5netcdf") as opened:
        data = opened.load()
    write_sealed(data.drop_vars("vertex"), tmp_path / "less.nc")
    with pytest.raises(FileProblem, match=r"is damaged: it lacks vertex"):
        wf.load(tmp_path / "less.nc")
    write_sealed(data.assign(_network=((), "kind = 'mpl'")), tmp_path / "other.nc")
    with pytest.raises(FileProblem, match=r"describes a network that cannot be understood: .*did you mean 'mlp'"):
        wf.load(tmp_path / "other.nc")


def test_variables_that_are_not_there_are_named():
    found = MADE["solution of the proportional limit"]()
    with pytest.raises(wf.UnknownName, match="unknown variable 'tset_loss'; did you mean 'test_loss'"):
        found.variable("tset_loss")
    assert float(found.mean("test_loss")[0]) == found.test_loss[0]
    assert not found.standard_error("test_loss").any()
