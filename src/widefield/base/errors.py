"""Every error that widefield raises on purpose: each names the argument, the value and the fix."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class WidefieldError(Exception):
    """Base class of all errors raised by widefield."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are otherwise made again from their message alone, which not all of them take.
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[WidefieldError], message: tuple[Any, ...], details: dict[str, Any]) -> WidefieldError:
    error = kind.__new__(kind, *message)
    error.__dict__.update(details)
    return error


class InvalidInput(WidefieldError, ValueError):
    """An argument has a value that cannot work."""


class TooFewParticles(InvalidInput):
    """A population has fewer particles than independent vectors; more of them would do."""


class NoLearningRate(InvalidInput):
    """Training fails at every learning rate that was tried, so none can be named."""


class SingularKernel(InvalidInput):
    """A kernel cannot be inverted: samples that are duplicates, or too small a ridge."""


class UnknownName(InvalidInput):
    """A name (activation, rule, file key, ...) that nothing is registered under."""

    def __init__(self, what: str, name: object, known: Iterable[str]) -> None:
        """State what kind of thing `name` should have been and the nearest name in `known`."""
        known = sorted(known)
        near = get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"unknown {what} {name!r}; {hint}known: {', '.join(known)}")


class FileProblem(WidefieldError, ValueError):
    """A file that cannot be read or written, or does not hold what it should."""


class Stopped(WidefieldError):
    """A solver stopped before its last step; `result`, a `Result`, holds everything up to there."""

    def __init__(self, message: str, result: Any) -> None:
        """Attach what was computed."""
        super().__init__(message)
        self.result = result

    @property
    def trajectory(self) -> Any:
        """The same as `result`."""
        return self.result


class NotSaved(Stopped, FileProblem):
    """An answer could not be saved where it was asked for; `result` holds it."""


class NotAccurate(UserWarning):
    """A tolerance was asked for and not reached."""


class UnusualScale(UserWarning):
    """Inputs or targets are far from the scale where theories and learning rates are at home."""


class Diverged(Stopped, ValueError):
    """The loss exploded: nearly always a learning rate that is too large."""


class Interrupted(Stopped):
    """The user pressed Ctrl-C, or the run was told to end (SIGTERM, SIGHUP)."""


# Tracebacks, pickles and filters of warnings then show the names that users know, whatever room this is.
for _public in (
    WidefieldError,
    InvalidInput,
    UnknownName,
    FileProblem,
    Stopped,
    NotSaved,
    NotAccurate,
    UnusualScale,
    Diverged,
    Interrupted,
):
    _public.__module__ = "widefield"
