"""What a record whose fields have new names must still answer to."""

import dataclasses

import pytest


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
