"""Numbers and arrays at the ends of what they can be: a right answer, or a clear error."""

import number_attacks
import pytest


def test_arrays_of_every_kind():
    number_attacks.attack_arrays().check()


def test_some_extremes():
    number_attacks.attack_extremes(("networks", "lazy"), step=2).check()


@pytest.mark.slow
@pytest.mark.parametrize("theory", list(number_attacks.THEORIES))
def test_all_extremes(theory):
    number_attacks.attack_extremes((theory,)).check()
