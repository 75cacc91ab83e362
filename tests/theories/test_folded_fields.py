"""Kernels and responses between times at infinite width: folded fields against raw ones; bits, memory, cost."""

import dataclasses
import os
import signal
import tracemalloc

import numpy as np
import pytest

import widefield as wf
from widefield.base.session import Session
from widefield.theories.folded_fields import FoldedFields
from widefield.theories.replicas import Replicas
from widefield.trajectory import two_time

RULES = {
    "gd": wf.GradientDescent(),
    "fa": wf.FeedbackAlignment(0.5),
    "hebb": wf.Hebb(),
}
KERNELS = ("feature_kernel", "gradient_kernel", "alignment_kernel", "pseudo_gradient_kernel")


def problem(activation="tanh", rule="gd", outputs=1, steps=20, samples=4, **record):
    return wf.Problem(
        wf.MLP(3, activation, width_ratios=(2.0, 1.0, 0.5), richness=1.5),
        wf.data.sphere(samples=samples, dimension=5, outputs=outputs, seed=1),
        rule=RULES[rule],
        optimiser=wf.SGD(learning_rate=0.05, steps=steps),
        record=wf.Record(every=1, neurons=0, **record),
    )


class Raw(FoldedFields):
    """Keeps fields as they are; factors of all replicas side by side."""

    def __post_init__(self):
        super().__post_init__()
        self.parts, self.groups = [], []

    def take(self, records):
        self.parts.append({name: value for name, value in records.items() if " " in name})
        return {name: value for name, value in records.items() if " " not in name}

    def finish_group(self):
        self.groups.append({name: np.concatenate([p[name] for p in self.parts], axis=1) for name in self.parts[0]})
        self.parts = []

    @property
    def factors(self):
        fields = {name: np.concatenate([group[name] for group in self.groups]) for name in self.groups[0]}
        made = two_time.factors(fields, exact=self.exact)
        made |= two_time.response_factors(fields, self.ratios, self.rank_tolerance, exact=self.exact)
        return {
            name: (dims[1:], np.concatenate(list(value), axis=-1) / np.sqrt(len(value)))
            for name, (dims, value) in made.items()
        }


@pytest.fixture
def raw(monkeypatch):
    """Solves without folding."""

    def solve(asked, theory):
        with monkeypatch.context() as patch:
            patch.setattr("widefield.theories.replicas.FoldedFields", Raw)
            return wf.solve(asked, theory)

    return solve


def flat(answer, name, layer):
    found = answer.two_time(name, layer)
    rows = [dim for dim in found.dims if not str(dim).endswith("_")]
    size = int(np.prod([found.sizes[dim] for dim in rows]))
    return found.transpose(*rows, ...).values.reshape(size, -1)


def distance(one, other):
    return np.abs(one - other).max() / max(np.abs(other).max(), 1e-3)


def assert_close(one, other, kernels, products):
    """Kernels at all pairs of times; and responses in front of the fields that they multiply."""
    for name in KERNELS:
        for layer in (1, 2, 3):
            assert distance(flat(one, name, layer), flat(other, name, layer)) < kernels, (name, layer)
    found = 0
    for name in ("feature_response", "gradient_response", "pseudo_feature_response", "pseudo_gradient_response"):
        if f"{name}_left_factor" not in other.data:
            assert f"{name}_left_factor" not in one.data
            continue
        for layer in (1, 2):
            causes = ("pseudo_gradient_kernel" if name.startswith("pseudo") else "gradient_kernel", layer + 1)
            fields = flat(other, *(causes if name.endswith("feature_response") else ("feature_kernel", layer)))
            ours, theirs = (flat(answer, name, layer) @ fields for answer in (one, other))
            assert distance(ours, theirs) < products, (name, layer)
            found += 1
    assert found >= 2


@pytest.mark.parametrize(
    ("rule", "outputs"),
    [pytest.param("gd", 2, marks=pytest.mark.slow), pytest.param("fa", 1, marks=pytest.mark.slow), ("hebb", 1)],
)
def test_tanh_within_the_tolerance_squared(rule, outputs, raw):
    asked, theory = problem(rule=rule, outputs=outputs, responses=True), wf.InfiniteWidth(256, 10, rank_tolerance=0.1)
    one, other = wf.solve(asked, theory), raw(asked, theory)
    assert_close(one, other, 0.1**2 / 5, 0.03)
    assert one.data.features_factor.shape[-1] < 130 < other.data.features_factor.shape[-1]


@pytest.mark.parametrize("rule", ["gd", "fa"])
def test_linear_networks_are_exact(rule, raw):
    asked, theory = problem("linear", rule, responses=True, steps=12), wf.InfiniteWidth(256, 3, rank_tolerance=1e-2)
    assert_close(wf.solve(asked, theory), raw(asked, theory), 1e-9, 1e-9)


def interrupt_at(number):
    calls = []

    def report(done, total, loss):
        calls.append(done)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGINT)

    return report


@pytest.mark.slow
def test_resuming_gives_the_same_bits(tmp_path, monkeypatch):
    """In the first group, between groups and in the second, with directions and factors that are truncated."""
    monkeypatch.setattr("widefield.training.folding.FREE", 8)
    asked = problem(steps=12, responses=True, rule="fa", samples=3)
    theory, path = wf.InfiniteWidth(256, 5, rank_tolerance=0.1), tmp_path / "run.checkpoint"
    whole = wf.solve(asked, theory)
    monkeypatch.setattr("widefield.training.runner._CALL_SECONDS", 0.0)  # one moment a call, 13 in a group
    for number, times in ((1, 1), (8, 8), (13, 13), (14, 13), (20, 13)):
        partial = wf.solve(asked, theory, progress=interrupt_at(number), checkpoint=path, throw=False)
        assert (partial.status, partial.data.attrs["replicas"]) == ("interrupted", 4)
        assert partial.two_time("feature_kernel", 1).sizes["time"] == partial.data.sizes["time"]
        assert times - 2 <= partial.data.sizes["time"] <= times  # a call in which room runs out brings nothing
        resumed = wf.solve(asked, theory, checkpoint=path)
        assert resumed.data.attrs["replicas"] == 5
        for name, value in whole.data.variables.items():
            np.testing.assert_array_equal(value.values, resumed.data.variables[name].values, err_msg=name)


def test_a_partial_answer_is_that_of_its_times(raw):
    asked, theory = problem(steps=12), wf.InfiniteWidth(128, 4, rank_tolerance=0.1)
    asked = dataclasses.replace(asked, record=wf.Record(every=1, two_time=True))
    partial, whole = wf.solve(asked, theory, progress=interrupt_at(2), throw=False), raw(asked, theory)
    times = partial.data.sizes["time"]
    assert 0 < times < 13
    expected = whole.two_time("gradient_kernel", 2).isel(time=slice(times), time_=slice(times))
    assert distance(partial.two_time("gradient_kernel", 2).values, expected.values) < 1e-2


def peak(replicas):
    """Bytes of NumPy's arrays, at most."""
    asked = problem(responses=True, kernels=False)
    tracemalloc.start()
    wf.solve(asked, wf.InfiniteWidth(256, replicas, rank_tolerance=0.1))
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_replicas():
    peak(8)  # compiles
    few, many = peak(16), peak(48)
    raw = 48 * 21 * 4 * 256 * (3 + 2 + 3) * 8
    assert many < raw / 3
    assert many < 1.2 * few


def test_the_cost_states_what_is_kept():
    """What a group keeps while it runs and what its factors need; of replicas it counts only what is small."""
    theory = wf.InfiniteWidth(256, 8, rank_tolerance=0.1)
    asked = problem(responses=True, kernels=False)
    without = theory.cost(dataclasses.replace(asked, record=wf.Record(every=1, kernels=False, neurons=0)))
    with_fields = theory.cost(asked)
    run = Replicas(theory._settings(256, 0.1), asked, Session(), "")
    fields = with_fields.record_bytes - without.record_bytes - run.runner.buffer_bytes(8)
    run.fields.finish_group = lambda: None
    run.upto(8)
    kept = sum(value.nbytes for value in run.fields.folding.arrays().values())
    assert kept < fields < 3 * kept
    more = dataclasses.replace(theory, replicas=80).cost(asked).record_bytes - with_fields.record_bytes
    assert more < 0.1 * fields
    assert with_fields.state_bytes == without.state_bytes
