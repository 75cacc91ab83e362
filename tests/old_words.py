"""What functions and records with new names must still answer to."""

import dataclasses

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


def assert_takes_old_words(record):
    """Every old attribute and every old keyword of the constructor works, and warns."""
    cls = type(record)
    fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    assert cls.old_words
    for old, new in cls.old_words.items():
        with pytest.warns(DeprecationWarning, match=rf"{cls.__name__}.{old} is now called {cls.__name__}.{new}"):
            assert getattr(record, old) is fields[new]
        in_old_words = {old if name == new else name: value for name, value in fields.items()}
        with pytest.warns(DeprecationWarning, match=rf"{cls.__name__}\({old}=...\) is now called {new}=..."):
            made = cls(**in_old_words)
        assert all(getattr(made, name) is value for name, value in fields.items())
