"""Problems whose networks are graphs: what is recorded, saved, refused; data with positions; fixed parameters."""

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pytest

import made_networks as made
import widefield as wf
from references import architectures

RNG = np.random.default_rng(11)
X, Y = RNG.standard_normal((3, 3, 12)), RNG.standard_normal((3, 2))
OPTIMISER = wf.SGD(0.05, 2)


def recurrent(**options):
    """More dimensions than positions of all samples, so that inputs have other coordinates in programs."""
    data = options.pop("data", (X, Y))
    return wf.Problem(made.Recurrent(centred=False), data, optimiser=OPTIMISER, **options)


def test_outputs_are_those_of_the_weights_that_a_theory_says_it_starts_from():
    problem, theory = recurrent(record=wf.Record(neurons=0, kernels=False)), wf.FiniteWidth(10, seed=4)
    assert problem.plan.inputs == (3, 9)
    weights = theory.initial_weights(problem)
    assert {name: value.shape for name, value in weights.items()} == {
        "input": (12, 10),
        "readout": (2, 10),
        "recurrent": (10, 10),
    }
    outputs = wf.solve(problem, theory).data.outputs.values[0, 0]
    np.testing.assert_allclose(outputs, architectures.recurrent(weights, jnp.asarray(X)), atol=2e-6)


@pytest.mark.slow
def test_test_samples_change_nothing_and_are_recorded_like_others():
    x, y = X[..., :2], Y  # no more dimensions than points: the inputs keep their coordinates
    more, record = np.concatenate([x, 0.3 * x[:1]]), wf.Record(test_kernels=True)
    alone = wf.solve(recurrent(data=(x, y)), wf.FiniteWidth(10)).data
    problem = recurrent(data=(x, y, more, np.concatenate([y, y[:1]])), record=record)
    tested = wf.solve(problem, wf.FiniteWidth(10))
    for name in ("outputs", "loss", "ntk", "feature_kernel:last", "gradient_kernel:last"):
        np.testing.assert_allclose(tested.data[name], alone[name], atol=1e-13)
    for name in ("outputs", "ntk", "feature_kernel:last", "gradient_kernel:last"):
        rows = tested.data[f"test_{name}"].isel(test_sample=slice(3)).values
        np.testing.assert_allclose(rows, tested.data[name].values, atol=1e-12)
    assert tested.data["gradient_kernel:last"].dims == ("seed", "time", "sample", "output", "sample_", "output_")
    assert tested.data["field:last"].dims == ("seed", "time", "sample", "neuron")
    assert "layer" not in tested.data.coords


def test_kinds_are_written_to_files_and_read_again(tmp_path):
    problem = recurrent(record=wf.Record(neurons=2))
    assert wf.Problem.from_toml(problem.to_toml()) == problem
    answer = wf.solve(problem, wf.FiniteWidth(10), output=tmp_path / "answer.nc")
    again = wf.load(tmp_path / "answer.nc")
    assert again.problem == problem
    assert set(again.data) == set(answer.data)
    assert "test-recurrent" in answer.heading
    assert "3 x 12" in answer.heading
    assert answer.kernel_movement("feature_kernel:last").dims == ("seed", "time")
    with pytest.raises(wf.UnknownName, match="kind of network 'nobody-knows'"):
        wf.Problem.from_toml(problem.to_toml().replace("test-recurrent", "nobody-knows"))


def test_a_network_table_without_a_kind_is_an_mlp():
    problem = wf.Problem(wf.MLP(2), wf.data.sphere(samples=3, dimension=4))
    assert wf.Problem.from_toml(problem.to_toml().replace('kind = "mlp"\n', "")) == problem


@dataclass(frozen=True)
class Fixed(wf.Network):
    """Random features of a layer that never learns, gates of the inputs."""

    def forward(self, net, x):
        one = net.population("one")
        gate = net.map(lambda h: jnp.where(h > 0, 1.0, 0.0), x @ net.vectors("gate", one, *x.shape, trained=False))
        h = gate * (x @ net.vectors("input", one, *x.shape))
        image = net.matrix("fixed", one, one, trained=False) @ h
        net.name("h", h)
        return net.inner(image, net.vectors("readout", one, net.outputs))


def test_fixed_parameters_stay_and_a_class_without_a_kind_is_solved_but_not_saved(tmp_path):
    problem = wf.Problem(Fixed(), (X[:, 0], Y[:, :1]), optimiser=wf.SGD(0.05, 3), record=wf.Record(neurons=0))
    answer = wf.solve(problem, wf.FiniteWidth(12))
    kernel = answer.data["ntk"].values[0]
    assert not np.allclose(kernel[0], kernel[-1])
    assert float(answer.data.loss[0, -1]) < float(answer.data.loss[0, 0])
    fixed = {spec.name for spec in (*problem.plan.vectors, *problem.plan.matrices) if not spec.trained}
    assert fixed == {"gate", "fixed"}
    with pytest.raises(wf.InvalidInput, match="needs a kind of its own to be written to files"):
        answer.save(tmp_path / "answer.nc")


def test_other_theories_refuse_with_a_reason():
    found = wf.applicable(recurrent())
    own = {kind for kind in found if kind.startswith("test-")}  # of other tests
    assert {kind for kind, reasons in found.items() if not reasons} - own == {"finite-width", "infinite-width"}
    with pytest.raises(
        wf.NotInScope, match=r"network = 'test-recurrent': its equations are those of networks of the kind mlp"
    ):
        wf.solve(recurrent(), wf.Lazy())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rule": wf.FeedbackAlignment()}, "rule = 'feedback-alignment': its pseudo-gradients belong to layers"),
        ({"rule": wf.GatedLinear()}, "rule = 'gated-linear'"),
        ({"record": wf.Record(two_time=True)}, "record.two_time = true: is recorded of layers only"),
        ({"record": wf.Record(responses=True)}, "record.responses = true: "),
    ],
)
@pytest.mark.parametrize("theory", [wf.FiniteWidth(8), wf.InfiniteWidth()], ids=["finite", "infinite"])
def test_what_belongs_to_layers_is_refused(theory, change, message):
    with pytest.raises(wf.NotInScope, match=message):
        theory.check(recurrent(**change))


def test_rates_of_layers_and_rates_that_are_to_be_found_are_refused():
    with pytest.raises(
        wf.InvalidInput, match=r"optimiser\.weight_rates = .*: network = 'test-recurrent' has no layers"
    ):
        replace(recurrent(), optimiser=wf.SGD(0.1, 2, weight_rates=(1.0, 2.0, 1.0)))
    with pytest.raises(wf.InvalidInput, match="learning rates are found for networks of the kind 'mlp' only"):
        wf.solve(replace(recurrent(), optimiser=wf.SGD("auto", 2)), wf.FiniteWidth(8))


def test_checkpoints_know_the_equations_of_a_network():
    one, other = (wf.Problem(made.Residual(2, beta), (X[:, 0], Y), optimiser=OPTIMISER) for beta in (1.0, 0.5))
    theory = wf.FiniteWidth(8)
    assert theory.fingerprint(one) == theory.fingerprint(
        wf.Problem(made.Residual(2), (X[:, 0], Y), optimiser=OPTIMISER)
    )
    assert theory.fingerprint(one) != theory.fingerprint(other)


def test_too_few_particles_are_refused():
    with pytest.raises(wf.InvalidInput, match=r"particles = 8 are too few: .* have 11 independent directions"):
        wf.solve(recurrent(), wf.InfiniteWidth(8, 1))


@pytest.mark.slow
def test_gradient_flow_is_the_limit_of_small_steps():
    """Error of Euler's method: of the order of the rate."""
    flow = replace(recurrent(), optimiser=wf.GradientFlow(t_end=0.4, steps=2, tolerance=1e-6))
    exact = wf.solve(flow, wf.FiniteWidth(10)).data
    errors = []
    for steps in (20, 40):
        small = replace(recurrent(), optimiser=wf.SGD(0.4 / steps, steps))
        errors.append(
            np.abs(wf.solve(small, wf.FiniteWidth(10)).data.outputs[0, -1].values - exact.outputs[0, -1].values).max()
        )
    assert errors[1] < 0.05
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.15)


@pytest.mark.slow
def test_a_run_is_resumed_to_the_same_numbers(tmp_path):
    problem = replace(recurrent(), optimiser=wf.SGD(0.05, 40, temperature=0.1))
    theory, path = wf.FiniteWidth(10, seeds=2), tmp_path / "run.ckpt"
    whole = wf.solve(problem, theory).data

    def stop(done, everything, loss):
        raise KeyboardInterrupt

    with pytest.raises((wf.Interrupted, KeyboardInterrupt)):
        wf.solve(problem, theory, checkpoint=path, checkpoint_seconds=0.0, progress=stop)
    again = wf.solve(problem, theory, checkpoint=path, progress=False).data
    np.testing.assert_array_equal(again.outputs, whole.outputs)
