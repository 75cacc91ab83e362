"""What functions with new names must still answer to."""

import numpy as np
import pytest

from widefield.base.errors import InvalidInput


def assert_takes_old_word(call, old, new, value):
    """The old keyword works, warns, and does not go with the new one; returns what both give."""
    expected = call(**{new: value})
    with pytest.warns(DeprecationWarning, match=rf"\({old}=...\) is now called {new}=..."):
        np.testing.assert_array_equal(call(**{old: value}), expected)
    with pytest.raises(InvalidInput, match="two words"), pytest.warns(DeprecationWarning, match=old):
        call(**{old: value, new: value})
    return expected
