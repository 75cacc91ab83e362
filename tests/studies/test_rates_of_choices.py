"""Every choice has learning rates of its own, by one rule: no spikes, then the better of two on the other splits."""

import dataclasses

import numpy as np
import pytest
import xarray as xr

import widefield as wf
from widefield.data.dividing import splits
from widefield.studies import training
from widefield.studies.desk import Scan
from widefield.studies.plan import NETWORK
from widefield.studies.scans import choice_of
from widefield.studies.training import Bench, searched, spiking, trained

CHOICE = choice_of(NETWORK)


def test_what_a_spike_is():
    falling = np.array([1.0, 0.5, 0.2, 0.24, 0.1])
    assert not spiking(falling)
    assert spiking(np.array([1.0, 0.5, 0.2, 0.26, 0.1]))
    assert spiking(np.stack([falling, falling + np.array([0, 0, 0, 0, 0.5])]))
    assert not spiking(falling[:1])


def curves(value, spike=0.0):
    """Losses of one network over three steps."""
    train, test = np.array([[1.0, 0.5, 0.5 + spike]]), np.array([[1.0, value, value + 0.1]])
    return xr.Dataset({name: (("seed", "step"), v) for name, v in (("train_loss", train), ("test_loss", test))},
                      {"step": [0, 1, 2]})  # fmt: skip


@pytest.fixture
def bench():
    rng = np.random.default_rng(0)
    return Bench(splits(wf.Data(rng.standard_normal((30, 2)), rng.standard_normal(30)), 3, seed=0), 8, 1, 4)


def faked(monkeypatch, spikes, slow_is_better=False, diverges=None):
    """Networks whose losses spike above a rate, and are better or worse at small rates."""
    tried = []

    def solve(problem, theory, **given):
        rate = problem.optimiser.learning_rate
        tried.append(rate)
        return dataclasses.make_dataclass("Ran", ["status", "rate"])(
            "diverged" if rate > (diverges or 99) else "done", rate
        )

    def losses(answer, classified):
        value = 0.3 + (0.1 if slow_is_better else -0.1) * answer.rate
        return curves(value, 0.2 if answer.rate > spikes else 0.0)

    monkeypatch.setattr(training, "solve", solve)
    monkeypatch.setattr(training, "_losses", losses)
    return tried


def test_the_largest_rate_without_spikes_and_a_quarter_of_it(bench, monkeypatch):
    tried = faked(monkeypatch, spikes=0.3)
    found = trained(bench, CHOICE, 1.0)
    assert tried == [1.0, 0.5, 0.25, 0.25, 0.25, 0.0625, 0.0625, 0.0625]  # those with spikes end after one split
    assert found["rate"].values.tolist() == [0.0625, 0.25]
    assert (found.attrs["learning_rate"], found.attrs["smooth"]) == (0.25, 1)
    scan = Scan((CHOICE,), (found,))
    assert scan.at_stop("test_loss")[0] == pytest.approx(0.3 - 0.1 * 0.25)
    assert scan.stops() == [1]
    faked(monkeypatch, spikes=0.3, slow_is_better=True)
    assert trained(bench, CHOICE, 1.0).attrs["learning_rate"] == 0.0625


def test_rules_that_always_spike_get_the_largest_rate_that_does_not_diverge(bench, monkeypatch):
    faked(monkeypatch, spikes=0.0, diverges=0.7)
    found = trained(bench, CHOICE, 1.0)
    assert found["rate"].values.tolist() == [0.125, 0.5]
    assert found.attrs["smooth"] == 0
    assert Scan((CHOICE,), (found,)).spiking() == [0]
    faked(monkeypatch, spikes=0.0, diverges=1e-9)
    with pytest.raises(wf.InvalidInput, match="diverge at learning rates down to"):
        trained(bench, CHOICE, 1.0)


def test_no_split_chooses_its_own_rate():
    """Split 0 would like the small rate, the other two the large one: split 0 gets the large one."""
    test = np.array([[[0.1, 0.1], [0.9, 0.9], [0.9, 0.9]], [[0.5, 0.4], [0.5, 0.4], [0.5, 0.4]]])
    part = xr.Dataset({"test_loss": (("rate", "split", "step"), test)}, {"rate": [0.1, 0.4], "step": [0, 1]})
    part = part.expand_dims("seed").assign_attrs(learning_rate=0.4, smooth=1)
    np.testing.assert_array_equal(Scan((CHOICE,), (part,)).at_stop("test_loss"), [[0.4, 0.4, 0.4]])


@pytest.mark.slow
@pytest.mark.parametrize("richness", [3.0, 10.0])
def test_rich_networks_learn_a_real_table_without_spikes(richness):
    """At half of the stable rate their losses spike, which would count against them."""
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    bench = Bench(splits(wf.Data(x, y), 4, test_share=0.2, rows=150, seed=0), 128, 1, 300)
    choice = choice_of(dataclasses.replace(NETWORK, richness=richness))
    limit = searched(bench, choice)
    rough = [part["train_loss"].values for part in training._runs(bench, choice, limit.suggested, spikes=True)]
    assert spiking(np.stack(rough))
    found = trained(bench, choice, limit.suggested)
    assert found.attrs["smooth"] == 1
    assert not spiking(found["train_loss"].values)
    lowest = found["train_loss"].isel(step=-1).sel(rate=found["rate"][-1])
    assert float(lowest.max()) < 0.4, "so small that nothing is learned"
