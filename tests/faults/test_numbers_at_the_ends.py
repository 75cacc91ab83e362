"""Numbers and arrays at the ends of what they can be: a right answer, or a clear error."""

import dataclasses
import re

import number_attacks
import numpy as np
import pytest

import widefield as wf
from widefield.base import check


def test_arrays_of_every_kind():
    number_attacks.attack_arrays().check()


HUGE = wf.Data([[1.0, 2.0], [2.0, -1.0]], [1e200, -1e200])


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning", "ignore::widefield.UnusualScale")
@pytest.mark.parametrize("theory", [wf.FiniteWidth(3), wf.InfiniteWidth(particles=64, replicas=2), wf.Lazy()])
def test_before_the_first_step_no_learning_rate_is_at_fault(theory):
    problem = dataclasses.replace(number_attacks.BASE, data=HUGE)
    with pytest.raises(wf.Diverged, match="before the first step, so make inputs, targets") as caught:
        wf.solve(problem, theory, progress=False)
    assert caught.value.result.data.attrs["failed_step"] == 0
    late = dataclasses.replace(number_attacks.BASE, optimiser=wf.SGD(1e3, 30))
    with pytest.raises(wf.Diverged, match=r"allows a learning_rate of|a smaller learning_rate") as caught:
        wf.solve(late, theory, progress=False)
    assert caught.value.result.data.attrs["failed_step"] > 0


@pytest.mark.parametrize("place", ["x", "y"])
def test_masks_are_not_dropped(place):
    given = {"x": np.ma.masked_greater([[1.0, 2.0], [2.0, -1.0]], 1.5), "y": [1.0, 2.0]}
    if place == "y":
        given = {"x": given["x"].data, "y": np.ma.masked_less([1.0, 2.0], 1.5)}
    where = {"x": "(0, 1)", "y": "(0,)"}[place]
    with pytest.raises(wf.InvalidInput, match=re.escape(f"{place} is masked, first at index {where}")):
        wf.Data(**given)
    assert wf.Data(np.ma.masked_greater(given["x"].data, 9.0), [1.0, 2.0]).y.shape == (2, 1)


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning", "ignore::widefield.UnusualScale")
@pytest.mark.parametrize("theory", [wf.FiniteWidth(3), wf.InfiniteWidth(particles=64, replicas=2), wf.Lazy()])
def test_inputs_whose_squares_overflow(theory):
    problem = dataclasses.replace(number_attacks.BASE, data=wf.Data([[1e300, 2e300], [2e300, -1e300]], [1.0, -1.0]))
    with pytest.raises(wf.WidefieldError, match=r"too large|not finite|smaller"):
        wf.solve(problem, theory, progress=False)


def test_arrays_over_steps_and_samples_are_counted(monkeypatch):
    """Minibatches and records are steps times samples; kernels of these samples alone would fit."""
    monkeypatch.setattr(check, "available", lambda: 2**22)
    asked = dataclasses.replace(number_attacks.BASE, data=wf.data.sphere(samples=50, dimension=3))
    with pytest.raises(wf.InvalidInput, match=r"minibatches of all steps would take .* GiB"):
        dataclasses.replace(asked, optimiser=wf.SGD(0.1, 20_000, batch_size=25))
    every = dataclasses.replace(asked, optimiser=wf.SGD(0.1, 20_000), record=wf.Record(every=1, kernels=False))
    for theory in (wf.FiniteWidth(3), wf.InfiniteWidth(particles=256, replicas=2), wf.Lazy()):
        with pytest.raises(wf.InvalidInput, match=r"would take .* GiB of memory"):
            wf.solve(every, theory, progress=False)


def test_sizes_without_limit():
    number_attacks.attack_sizes((10**9, 2**62, 1e30)).check()


def test_some_extremes():
    number_attacks.attack_extremes(("networks", "lazy"), step=2).check()


@pytest.mark.slow
@pytest.mark.parametrize("theory", list(number_attacks.THEORIES))
def test_all_extremes(theory):
    number_attacks.attack_extremes((theory,)).check()
