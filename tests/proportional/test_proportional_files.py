"""Files of the proportional limit: what is saved comes back, and what is damaged is named."""

import numpy as np
import pytest
import xarray as xr

import widefield as wf
from problems import GRAM, NETWORKS, TASKS, assert_same_data, small_sweep, write_sealed
from widefield.base.errors import FileProblem
from widefield.proportional import (
    Dynamics,
    LinearNetwork,
    LinearTask,
    RateSweep,
    gradient_flow,
    power_law,
    simulate,
    solve,
)

# Equality, without which a round trip means nothing


def test_tasks_are_equal_if_their_contents_are():
    for name, task in TASKS.items():
        equal = [other for other in TASKS if TASKS[other] == task]
        assert equal == [name]
    assert LinearTask(target=GRAM.copy()) == LinearTask(target=GRAM)
    assert hash(LinearTask(target=GRAM.copy())) == hash(LinearTask(target=GRAM))
    assert power_law(1.5, 0.5, 9) == power_law(1.5, 0.5, 9) != power_law(1.5, 0.6, 9)
    assert LinearTask() != "a task"


# Files


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_networks_come_back_as_they_were(network, tmp_path):
    answer = solve(network, LinearTask(), 0.01, 3)
    answer.save(tmp_path / "run.nc")
    again = Dynamics.load(tmp_path / "run.nc")
    assert (again.network, again.task) == (network, LinearTask())
    assert_same_data(answer.data, again.data)


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_tasks_come_back_as_they_were(task, tmp_path):
    answer = solve(LinearNetwork(1, 20.0), task, 0.01, 3)
    answer.save(tmp_path / "run.nc")
    again = Dynamics.load(tmp_path / "run.nc")
    assert (again.network, again.task) == (LinearNetwork(1, 20.0), task)
    assert_same_data(answer.data, again.data)


@pytest.mark.parametrize(
    "answer",
    [
        lambda: solve(LinearNetwork(2, 1.0), LinearTask(target=GRAM), 0.05, 4, keep=True),
        lambda: solve(LinearNetwork(2, 1.0), LinearTask(), 3.0, 9, throw=False),
        lambda: gradient_flow(LinearNetwork(1, 1.0), LinearTask(), 0.5, records=3),
        lambda: simulate(LinearNetwork(2, 1.0), LinearTask(batch_size=1.0), 0.05, 3, dimension=4, seeds=3),
    ],
    ids=["two-time functions", "diverged", "flow", "networks"],
)
def test_all_kinds_of_answers_come_back(answer, tmp_path):
    answer = answer()
    answer.save(tmp_path / "run.nc")
    again = Dynamics.load(str(tmp_path / "run.nc"))
    assert_same_data(answer.data, again.data)
    assert again.diverged == answer.diverged


def test_sweeps_come_back_as_they_were(tmp_path):
    sweep = small_sweep()
    sweep.save(tmp_path / "sweep.nc")
    again = RateSweep.load(tmp_path / "sweep.nc")
    assert (again.networks, again.task, again.over) == (sweep.networks, sweep.task, sweep.over)
    assert_same_data(sweep.data, again.data)
    assert again.verdict == sweep.verdict
    np.testing.assert_array_equal(again.largest, sweep.largest)


def test_files_of_another_kind_or_damaged_are_named(tmp_path):
    run_file, sweep_file, text = tmp_path / "run.nc", tmp_path / "sweep.nc", tmp_path / "text.nc"
    solve(LinearNetwork(1), LinearTask(), 0.1, 3).save(run_file)
    small_sweep().save(sweep_file)
    text.write_text("no data")
    with pytest.raises(FileProblem, match="not a learning-rate sweep saved by widefield; it holds a solution"):
        RateSweep.load(run_file)
    with pytest.raises(FileProblem, match="it holds a learning-rate sweep"):
        Dynamics.load(sweep_file)
    with pytest.raises(FileProblem, match="not a trajectory"):
        wf.Trajectory.load(run_file)
    with pytest.raises(FileProblem, match="cannot be read as NetCDF"):
        Dynamics.load(text)
    with pytest.raises(FileProblem, match="there is no file"):
        Dynamics.load(tmp_path / "none.nc")
    with pytest.raises(FileProblem, match="does not exist"):
        small_sweep().save(tmp_path / "none" / "sweep.nc")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.drop_vars("_task"), "lacks its task"),
        (lambda data: data.drop_vars("test_loss"), "lacks losses"),
        (lambda data: data.assign(_network=((), "hidden_layers = 0")), "hidden_layers = 0"),
        (lambda data: data.assign(_network=((), "depth = 3")), "cannot be understood"),
        (lambda data: data.assign(_task=((), "samples = ")), "cannot be understood"),
        (lambda data: data.assign_attrs(schema=99), "please upgrade"),
    ],
)
def test_damage_inside_is_named(change, message, tmp_path):
    solve(LinearNetwork(1), LinearTask(), 0.1, 3).save(tmp_path / "run.nc")
    with xr.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as opened:
        data = opened.load()
    write_sealed(change(data), tmp_path / "changed.nc")
    with pytest.raises(FileProblem, match=message):
        Dynamics.load(tmp_path / "changed.nc")
