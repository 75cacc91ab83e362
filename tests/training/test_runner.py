"""Long runs: interruption and resumption bit for bit, divergence, progress, and independence of what is recorded."""

import os
import signal
import threading
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import widefield as wf
from widefield.base.errors import Diverged, FileProblem, Interrupted, InvalidInput
from widefield.base.session import Session
from widefield.training import checkpoint

THEORY = wf.FiniteWidth(6, seeds=4, parallel=2)  # two groups of seeds
PROBLEM = wf.Problem(
    network=wf.MLP(hidden_layers=2, activation="tanh", richness=1.5),
    data=wf.data.sphere(samples=4, dimension=3, test_samples=2, seed=1),
    rule=wf.FeedbackAlignment(0.3),
    optimiser=wf.SGD(learning_rate=0.1, steps=9, momentum=0.7, batch_size=2, temperature=0.1, weight_decay=0.2),
    record=wf.Record(every=3, neurons=2, two_time=True),
)


@pytest.fixture(scope="module")
def problem():
    """Everything that a checkpoint must remember: momentum, order of batches, noise, frozen feedback."""
    return PROBLEM


@pytest.fixture(scope="module")
def whole(problem):
    """An uninterrupted run."""
    return wf.solve(problem, THEORY)


def interrupt_at(number):
    """A progress function that presses Ctrl-C at one of its calls."""
    calls = []

    def report(done, total, loss):
        calls.append(done)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGINT)

    return report


def assert_same_bits(one, other):
    assert set(one.data.variables) == set(other.data.variables)
    for name, value in one.data.variables.items():
        assert np.array_equal(value.values, other.data.variables[name].values, equal_nan=True), name


@pytest.fixture
def short_calls(monkeypatch):
    """The compiled program is called for every single moment."""
    monkeypatch.setattr("widefield.training.runner._CALL_SECONDS", 0.0)


def test_resuming_gives_the_same_bits_wherever_it_was_interrupted(problem, whole, tmp_path, short_calls):
    path = tmp_path / "run.checkpoint"
    for number in range(1, 100):
        partial = wf.solve(problem, THEORY, progress=interrupt_at(number), checkpoint=path, throw=False)
        if partial.status == "complete":
            break
        assert partial.status == "interrupted"
        times, seeds = partial.data.sizes["time"], partial.data.sizes["seed"]
        np.testing.assert_array_equal(partial.data.outputs, whole.data.outputs[:seeds, :times])
        assert seeds == 2
        assert path.exists()
        resumed = wf.solve(problem, THEORY, checkpoint=path)
        assert resumed.status == "complete"
        assert_same_bits(resumed, whole)
        assert list(tmp_path.iterdir()) == []  # the checkpoint goes when the run is complete
    assert number > 15  # interruptions in both groups, at records and between them
    assert_same_bits(partial, whole)


def test_a_run_interrupted_again_and_again_gives_the_same_bits(problem, whole, tmp_path):
    path, rounds = tmp_path / "run.checkpoint", 0
    while True:
        rounds += 1
        run = wf.solve(problem, THEORY, progress=interrupt_at(1), checkpoint=path, throw=False)
        if run.status == "complete":
            break
        assert rounds < 100
    assert rounds == 20  # after every single moment of both groups, the last records included
    assert_same_bits(run, whole)


def test_a_crash_costs_only_the_time_since_the_last_checkpoint(problem, whole, tmp_path, short_calls):
    path = tmp_path / "run.checkpoint"

    def crash(done, total, loss):
        if done > 12:
            raise RuntimeError("power cut")

    with jax.enable_x64(False), pytest.raises(RuntimeError, match="power cut"):
        THEORY.predict(problem, Session(report=crash, checkpoint=path, checkpoint_seconds=0.0))
    meta, _ = checkpoint.load(path)
    assert meta["finished"] == 1
    first = []
    resumed = wf.solve(problem, THEORY, checkpoint=path, progress=lambda done, total, loss: first.append(done))
    assert first[0] > 10
    assert_same_bits(resumed, whole)


def test_interruption_without_a_checkpoint_keeps_what_there_is(problem, whole):
    partial = wf.solve(problem, THEORY, progress=interrupt_at(3), throw=False)
    assert partial.status == "interrupted"
    assert "interrupted at step" in partial.message
    np.testing.assert_array_equal(partial.data.outputs, whole.data.outputs[:2, : partial.data.sizes["time"]])


def test_a_partial_trajectory_can_be_saved(problem, tmp_path):
    partial = wf.solve(problem, THEORY, progress=interrupt_at(1), throw=False)
    partial.save(tmp_path / "part.nc")
    again = wf.Trajectory.load(tmp_path / "part.nc")
    assert (again.status, again.message) == ("interrupted", "interrupted at step 1")
    assert_same_bits(again, partial)


def test_a_second_interruption_stops_at_once(problem):
    def twice(done, total, loss):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        wf.solve(problem, THEORY, progress=twice)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_of_interruptions_is_put_back(problem, whole):
    before = signal.getsignal(signal.SIGINT)
    wf.solve(problem, THEORY, progress=interrupt_at(1), throw=False)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_thread_can_solve(problem, whole):
    results = []
    thread = threading.Thread(target=lambda: results.append(wf.solve(problem, THEORY)))
    thread.start()
    thread.join()
    assert_same_bits(results[0], whole)


@pytest.fixture
def stopped(problem, tmp_path):
    path = tmp_path / "run.checkpoint"
    wf.solve(problem, THEORY, progress=interrupt_at(2), checkpoint=path, throw=False)
    return path


def test_the_checkpoint_of_another_run_is_refused(problem, stopped):
    content = stopped.read_bytes()
    others = [
        (replace(problem, optimiser=replace(problem.optimiser, steps=12)), THEORY),
        (replace(problem, network=replace(problem.network, richness=1.4)), THEORY),
        (problem, replace(THEORY, seeds=5)),
        (problem, replace(THEORY, seed=1)),
        (problem, replace(THEORY, parallel=3)),
    ]
    for other, theory in others:
        with pytest.raises(FileProblem, match=r"run.checkpoint belongs to another problem, theory or version"):
            wf.solve(other, theory, checkpoint=stopped)
        assert stopped.read_bytes() == content


@pytest.mark.parametrize("kind", ["empty", "text", "half", "flipped", "npy", "list"])
def test_a_damaged_checkpoint_is_refused(problem, stopped, kind):
    content = stopped.read_bytes()
    if kind == "npy":
        with stopped.open("wb") as handle:
            np.save(handle, np.ones(3))
    elif kind == "list":
        with stopped.open("wb") as handle:
            np.savez(handle, meta=np.frombuffer(b"[1, 2]", dtype=np.uint8))
    else:
        flipped = bytearray(content)
        flipped[len(content) // 3] ^= 1
        stopped.write_bytes(
            {"empty": b"", "text": b"hello", "half": content[: len(content) // 2], "flipped": flipped}[kind]
        )
    with pytest.raises(FileProblem, match=r"run.checkpoint is damaged: .*delete it to start again"):
        wf.solve(problem, THEORY, checkpoint=stopped)
    assert stopped.exists()


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_run(problem, tmp_path):
    with pytest.raises(FileProblem, match=r"the folder .*missing does not exist"):
        wf.solve(problem, THEORY, checkpoint=tmp_path / "missing" / "run.checkpoint")


def test_a_checkpoint_that_fails_at_the_end_does_not_cost_the_run(problem, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(Interrupted) as stop:
        wf.solve(problem, THEORY, checkpoint=tmp_path / "run.checkpoint", progress=interrupt_at(2))
    assert stop.value.trajectory.data.sizes["time"] > 0


def explosive(**optimiser):
    return wf.Problem(
        network=wf.MLP(hidden_layers=2, activation="linear"),
        data=wf.data.whitened(samples=2, dimension=2),
        optimiser=wf.SGD(**{"learning_rate": 30.0, "steps": 40, **optimiser}),
        record=wf.Record(every=1, neurons=0),
    )


def test_divergence_is_an_error_that_holds_what_there_was(tmp_path):
    path = tmp_path / "run.checkpoint"
    with pytest.raises(
        Diverged, match=r"exploded at step \d+ \(seed [01]\); the tangent kernel at the start allows"
    ) as stop:
        wf.solve(explosive(), wf.FiniteWidth(8, seeds=2), checkpoint=path)
    partial = stop.value.trajectory
    step = int(str(stop.value).split("step ")[1].split()[0])
    assert partial.status == "diverged"
    assert 1 < partial.data.sizes["time"] <= step + 1
    assert np.all(np.isfinite(partial.data.loss[:, :-1]))
    assert partial.data.loss[:, -1].max() > 100 * partial.data.loss[:, 0].max()
    assert not path.exists()
    quiet = wf.solve(explosive(), wf.FiniteWidth(8, seeds=2), throw=False)
    assert quiet.status == "diverged"
    assert f"step {step} " in quiet.message
    np.testing.assert_array_equal(quiet.data.outputs, partial.data.outputs)
    quiet.save(tmp_path / "run.nc")
    assert_same_bits(wf.Trajectory.load(tmp_path / "run.nc"), quiet)


def test_divergence_in_the_last_step_is_found():
    run = wf.solve(explosive(learning_rate=1e160, steps=1), wf.FiniteWidth(8, seeds=2), throw=False)
    assert run.status == "diverged"


def test_progress_is_monotone_and_ends_at_the_end(problem):
    reports = []
    wf.solve(problem, THEORY, progress=lambda *report: reports.append(report))
    done, total, loss = (np.array(column) for column in zip(*reports, strict=True))
    assert np.all(np.diff(done) > 0)
    assert np.all(total == 18)
    assert done[-1] == 18
    assert np.all(np.isfinite(loss))
    assert np.all(loss > 0)


@pytest.mark.parametrize("theory", [THEORY, wf.FiniteWidth(8)], ids=["infinite", "finite"])
def test_progress_has_a_loss_at_the_last_record_too(problem, short_calls, theory):
    losses = []
    wf.solve(problem, theory, progress=lambda done, total, loss: losses.append(loss))
    assert len(losses) > 3
    assert np.all(np.isfinite(losses))


def test_the_progress_bar_shows_steps_and_loss(problem, capsys):
    wf.solve(problem, THEORY, progress=True)
    captured = capsys.readouterr()
    assert "18/18 steps" in captured.err
    assert "loss" in captured.err
    assert captured.out == ""
    wf.solve(problem, THEORY)  # not a terminal
    assert capsys.readouterr() == ("", "")


def test_the_users_precision_is_left_alone(problem):
    assert not jax.config.jax_enable_x64
    run = wf.solve(problem, THEORY)
    assert run.data.outputs.dtype == np.float64
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == jnp.float32


def test_equal_seeds_give_equal_runs_and_others_do_not(problem, whole):
    again = wf.solve(problem, THEORY)
    assert_same_bits(again, whole)
    outputs = again.data.outputs.values[:, -1]
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3
    assert np.abs(outputs[1] - outputs[2]).max() > 1e-3
    shifted = wf.solve(problem, wf.FiniteWidth(6, seeds=2, seed=1))
    np.testing.assert_allclose(shifted.data.outputs, again.data.outputs[1:3], rtol=0, atol=1e-13)
    np.testing.assert_array_equal(shifted.data.seed, [1, 2])


@pytest.mark.parametrize(
    "record",
    [
        wf.Record(every=9, kernels=False, neurons=0),
        wf.Record(steps=[3, 4], test_kernels=True, neurons=6),
        wf.Record(every=1, samples=2, two_time=True),
    ],
    ids=["little", "test kernels", "few samples"],
)
def test_what_is_recorded_does_not_change_what_is_computed(problem, whole, record):
    run = wf.solve(replace(problem, record=record), THEORY).data
    expected = whole.data
    steps = sorted(set(run.step.values.tolist()) & set(expected.step.values.tolist()))
    assert {0, 9} <= set(steps)
    run, expected = (d.swap_dims(time="step").sel(step=steps) for d in (run, expected))
    for name in set(run.data_vars) & {"outputs", "test_outputs", "loss", "test_loss", "ntk"}:
        value = expected[name]
        for dim in {"sample", "sample_"} & set(value.dims):
            value = value.isel({dim: slice(run.sizes[dim])})
        np.testing.assert_allclose(run[name], value, rtol=0, atol=1e-13, err_msg=name)


def test_arguments_of_solve_are_checked(problem):
    with pytest.raises(InvalidInput, match="problem = 3 must be a Problem"):
        wf.solve(3, THEORY)
    with pytest.raises(InvalidInput, match=r"theory = 1024 must be a theory, for example InfiniteWidth"):
        wf.solve(problem, 1024)
    with pytest.raises(InvalidInput, match="must be a theory"):
        wf.solve(problem, wf.FiniteWidth)
