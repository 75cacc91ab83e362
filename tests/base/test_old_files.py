"""Files and TOML as 0.1.0 wrote them are read as they were, and written again without loss."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from numpy import array, inf  # for the representations of 0.1.0

import widefield as wf
from problems import assert_same_data
from widefield.asking.loading import read_problem
from widefield.base.renamed import in_new_words
from widefield.data import DataSource
from widefield.proportional import Dynamics, LinearNetwork, LinearTask, RateSweep, Spectrum

FOLDER = Path(__file__).parents[1] / "files" / "0.1.0"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
NAMES = {"array": array, "inf": inf, "LinearNetwork": LinearNetwork, "LinearTask": LinearTask, "Spectrum": Spectrum}
RENAMED = wf.Trajectory.old_words
TRAJECTORIES = [name for name, kept in EXPECTED.items() if "theory" in kept]
DYNAMICS = sorted(path.stem for path in FOLDER.glob("proportional*.nc"))
SWEEPS = sorted(path.stem for path in FOLDER.glob("sweep*.nc"))
TOML = sorted(path.name for path in (FOLDER / "toml").glob("*.toml"))


def saved_again(result, path):
    """Loaded from what it was saved to."""
    result.save(path)
    again = wf.load(path)
    assert type(again) is type(result)
    assert_same_data(result.data.drop_attrs(deep=False), again.data.drop_attrs(deep=False))
    marks = ("widefield", "schema")  # of the version that wrote
    kept = {name: value for name, value in result.data.attrs.items() if name not in marks}
    assert kept.items() <= again.data.attrs.items()
    return again


def test_every_file_is_read_here():
    assert len(TRAJECTORIES) == 9
    stems = {path.stem for path in FOLDER.glob("*.nc")}
    assert stems == {*TRAJECTORIES, *DYNAMICS, *SWEEPS}
    assert {name for name in EXPECTED if name.endswith(".toml")} | {"cifar.toml"} == set(TOML)


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_trajectories(name, tmp_path):
    found, kept = wf.load(FOLDER / f"{name}.nc"), EXPECTED[name]
    assert isinstance(found, wf.Trajectory)
    assert found.label == kept["label"]
    assert found.data.attrs["status"] == kept["status"]
    assert found.status == ("not accurate" if found.data.attrs.get("converged", 1) == 0 else kept["status"])
    np.testing.assert_array_equal(np.ravel(found.mean("loss")), np.ravel(kept["loss"]))
    assert sorted(map(str, found.data.variables)) == sorted(in_new_words(dict.fromkeys(kept["variables"]), RENAMED))
    told = tomllib.loads(kept["problem"])
    told["optimiser"] = in_new_words(told["optimiser"], found.problem.optimiser.old_words)
    assert found.problem.to_table() == told
    assert in_new_words(kept["theory"], found.theory.old_words).items() <= found.theory.to_table().items()
    again = saved_again(found, tmp_path / "again.nc")
    assert (again.problem, again.theory) == (found.problem, found.theory)


def test_attributes_answer_to_their_new_names():
    """The numbers are those in the files, under one name."""
    for name in ("infinite-width", "fluctuations", "closed-linear"):
        with xr.open_dataset(FOLDER / f"{name}.nc", engine="h5netcdf") as written:
            kept, found = dict(written.attrs), wf.load(FOLDER / f"{name}.nc").data.attrs
        for old, new in RENAMED.items():
            assert old not in found
            assert found.get(new) == kept.get(old), (name, old)
    assert wf.load(FOLDER / "infinite-width.nc").statistics["relative_error"] > 0
    assert "largest error bar" in wf.load(FOLDER / "infinite-width.nc").ending


def test_a_tolerance_that_was_not_reached_is_told():
    found = wf.load(FOLDER / "alternating-monte-carlo.nc")
    assert found.statistics["converged"] == 0
    assert found.status == "not accurate"
    assert f"kernels still change by {found.statistics['change']:.2g}" in found.message
    assert "not accurate" in str(found)


def described(text):
    """What the representation of 0.1.0 says."""
    for old, new in LinearTask.old_words.items():
        text = text.replace(f"{old}=", f"{new}=")
    return eval(text, {"__builtins__": {}}, NAMES)


@pytest.mark.parametrize("name", DYNAMICS)
def test_solutions_of_the_proportional_limit(name, tmp_path):
    found, kept = wf.load(FOLDER / f"{name}.nc"), EXPECTED[name]
    assert isinstance(found, Dynamics)
    if "diverged" in kept:
        assert (found.diverged, found.status) == (kept["diverged"], "diverged")
    else:
        assert (found.diverged, found.status, found.message) == (None, "complete", "")
        np.testing.assert_array_equal(found.test_loss, kept["test_loss"])
        kept_under = in_new_words(dict.fromkeys(kept["variables"]), Dynamics.words_of(found.data))
        assert sorted(map(str, found.data.variables)) == sorted(kept_under)
        assert found.network == described(kept["network"])
        told = described(kept["task"])
        if told.spectrum is None:
            assert found.task == told
        else:  # eight digits are printed
            np.testing.assert_allclose(found.task.spectrum.target, told.spectrum.target, rtol=1e-7)
            np.testing.assert_allclose(found.task.spectrum.eigenvalues, told.spectrum.eigenvalues, rtol=1e-7)
    again = saved_again(found, tmp_path / "again.nc")
    assert (again.network, again.task) == (found.network, found.task)


def test_errors_of_extrapolations_are_bounds_and_those_of_networks_are_not():
    deep, networks = (wf.load(FOLDER / f"proportional-{name}.nc") for name in ("deep", "networks"))
    with xr.open_dataset(FOLDER / "proportional-deep.nc", engine="h5netcdf") as written:
        np.testing.assert_array_equal(deep.variable("test_loss_bound"), written["test_loss_error"])
    with pytest.warns(DeprecationWarning, match="'test_loss_error' is now called 'test_loss_bound'"):
        np.testing.assert_array_equal(deep.variable("test_loss_error"), deep.data["test_loss_bound"])
    assert not any(str(name).endswith("_error") for name in deep.data)
    assert (deep.standard_error("test_loss") == 0).all()
    assert not any(str(name).endswith("_bound") for name in networks.data)
    assert (networks.standard_error("test_loss") == networks.data["test_loss_error"]).all()


@pytest.mark.parametrize("name", SWEEPS)
def test_learning_rate_sweeps(name, tmp_path):
    found, kept = wf.load(FOLDER / f"{name}.nc"), EXPECTED[name]
    assert isinstance(found, RateSweep)
    np.testing.assert_array_equal(found.data["loss"], kept["loss"])
    assert found.networks == tuple(map(described, kept["networks"]))
    assert (found.over, found.verdict) == (kept["over"], kept["verdict"])
    again = saved_again(found, tmp_path / "again.nc")
    assert (again.networks, again.task, again.verdict) == (found.networks, found.task, found.verdict)


def in_full(data):
    """As data were shown in 0.1.0: arrays with all their numbers."""
    if not isinstance(data, wf.Data):
        return repr(data)
    return f"Data({', '.join(f'{name}={getattr(data, name)!r}' for name in ('x', 'y', 'x_test', 'y_test'))})"


@pytest.mark.parametrize("name", [name for name in TOML if name in EXPECTED])
def test_problems(name):
    path, kept = FOLDER / "toml" / name, EXPECTED[name]
    problem = wf.Problem.from_toml(path)
    told = kept["repr"]
    for old, new in problem.optimiser.old_words.items():
        told = told.replace(f"{old}=", f"{new}=")
    told = told.replace("), record=", ", weight_rates=1.0, bias_rates=1.0), record=")  # they came later
    assert repr(problem).replace(repr(problem.data), in_full(problem.data)) == told
    # whitened inputs come from LAPACK, whose last digit depends on the kind of processor
    np.testing.assert_allclose(np.ravel(problem.samples.y), kept["y"], rtol=1e-14, atol=1e-15)
    assert read_problem(path) == problem == wf.Problem.from_toml(problem.to_toml())


def test_data_that_are_not_on_every_machine():
    table = tomllib.loads((FOLDER / "toml" / "cifar.toml").read_text())
    source = DataSource.from_table(table)
    assert (source.kind, source.classes) == ("cifar10", (0, 1))
    assert source.to_table() == table


def test_a_run_that_was_interrupted_goes_on(tmp_path):
    """The state in a checkpoint of 0.1.0 is understood, and ends at the same numbers."""
    checkpoint = tmp_path / "run.checkpoint"
    checkpoint.write_bytes((FOLDER / "unfinished.ckpt").read_bytes())
    problem = wf.Problem(
        wf.MLP(2, "tanh", richness=1.5),
        wf.data.sphere(samples=3, dimension=4, test_samples=2, seed=1),
        optimiser=wf.SGD(0.05, 40),
    )
    reports = []
    found = wf.solve(
        problem, wf.FiniteWidth(8, seeds=2), checkpoint=checkpoint, progress=lambda *report: reports.append(report[0])
    )
    assert reports[0] == 11  # ten steps had been done
    np.testing.assert_allclose(found.mean("loss"), EXPECTED["checkpoint"]["loss"], rtol=1e-10)
    assert not checkpoint.exists()
