"""Numbers and arrays at the ends of what they can be: a right answer, or a clear error."""

import dataclasses

import number_attacks
import pytest

import widefield as wf


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


def test_some_extremes():
    number_attacks.attack_extremes(("networks", "lazy"), step=2).check()


@pytest.mark.slow
@pytest.mark.parametrize("theory", list(number_attacks.THEORIES))
def test_all_extremes(theory):
    number_attacks.attack_extremes((theory,)).check()
