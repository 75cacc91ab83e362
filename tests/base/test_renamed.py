"""Old words: they work, they warn, and they do not mix with new ones."""

import inspect
import pickle
import subprocess
import sys
from dataclasses import dataclass, replace

import pytest

from widefield.base.describe import Described
from widefield.base.errors import InvalidInput
from widefield.base.renamed import renamed


@renamed(rate="learning_rate")
def trained(network, learning_rate=0.1, *, steps=3):
    return network, learning_rate, steps


class Family(Described, family="family of old words"):
    pass


@renamed(first_seed="seed")
@dataclass(frozen=True)
class Member(Family, kind="old"):
    seed: int = 0
    other: int = 1


def test_functions_take_the_old_keyword_and_warn_where_they_are_called():
    assert trained("a", 0.5) == ("a", 0.5, 3)
    with pytest.warns(DeprecationWarning, match=r"trained\(rate=...\) is now called learning_rate=..."):
        assert trained("a", rate=0.5, steps=2) == ("a", 0.5, 2)
    assert list(inspect.signature(trained).parameters) == ["network", "learning_rate", "steps"]
    with pytest.raises(InvalidInput, match="two words for one thing"), pytest.warns(DeprecationWarning, match="rate"):
        trained("a", rate=0.5, learning_rate=0.5)


def test_descriptions_take_it_too():
    with pytest.warns(DeprecationWarning, match="Member"):
        made = Member(first_seed=3)
    assert made == Member(3) == replace(Member(), seed=3)
    with pytest.warns(DeprecationWarning, match=r"Member.first_seed is now called Member.seed"):
        assert made.first_seed == 3
    assert made.to_table() == {"kind": "old", "seed": 3, "other": 1}
    assert Family.from_table({"kind": "old", "first_seed": 3}) == made  # files are read without a word
    with pytest.raises(InvalidInput, match="two words"):
        Family.from_table({"kind": "old", "first_seed": 3, "seed": 3})
    assert pickle.loads(pickle.dumps(made)) == made


def test_the_warning_points_at_the_caller():
    """In a process without the checker of shapes, which stands between functions and their callers."""
    code = "from widefield.base.renamed import renamed\n\n@renamed(a='b')\ndef f(b): pass\n\nf(a=1)"
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("<string>:6: DeprecationWarning: f(a=...) is now called b=...")
