"""What became of attacks: every one ends in a right answer, a clear error or a warning, or it is a fault."""

import contextlib
import signal
import warnings
from collections import Counter
from dataclasses import dataclass, field

from widefield.base.errors import WidefieldError

PATIENCE = 60
"""Processor seconds of this process after which something hangs: a busy machine is not at fault."""

WAITING = 10
"""It hangs also after so many times as many seconds, whoever spends them: somebody may wait for ever."""

COMPILING = 600
"""The patience where jax compiles fifty layers: one to three minutes on two cores, which is announced."""

GOOD = ("answered", "refused")
BAD = ("traceback", "wrong", "hang", "lost")


class Hang(BaseException):
    """Nothing catches it on the way."""


class Wrong(Exception):
    """An answer that is not right."""


class Lost(Exception):
    """More than may be is gone."""


@dataclass
class Tally:
    """Outcomes of attacks of one kind, with examples of faults, and remarks on what they met."""

    name: str
    counts: Counter = field(default_factory=Counter)
    remarks: Counter = field(default_factory=Counter)
    examples: list = field(default_factory=list)

    def note(self, outcome, what=""):
        self.counts[outcome] += 1
        if outcome in BAD and len(self.examples) < 10:
            self.examples.append(f"{outcome}: {what}"[:600])

    def remark(self, what):
        self.remarks[what] += 1

    @property
    def tried(self):
        return sum(self.counts.values())

    @property
    def row(self):
        return (self.name, *(str(n) for n in (self.tried, *(self.counts[o] for o in (*GOOD, *BAD)))))

    def check(self):
        assert not self.examples, "\n".join([f"{self.name}: {dict(self.counts)}", *self.examples])
        assert self.tried

    @contextlib.contextmanager
    def attack(self, what, patience=PATIENCE):
        """Run something; errors are caught here and counted."""
        try:
            with limited(patience), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        except WidefieldError as error:
            clear = len(str(error)) < 2000 and "\x1b" not in str(error)
            self.note("refused" if clear else "wrong", f"{what}: {error}")
        except Wrong as error:
            self.note("wrong", f"{what}: {error}")
        except Lost as error:
            self.note("lost", f"{what}: {error}")
        except Hang:
            self.note("hang", what)
        except Exception as error:
            self.note("traceback", f"{what}: {type(error).__name__}: {error}")
        else:
            self.note("answered")


@contextlib.contextmanager
def limited(seconds):
    """Raise `Hang` after so many processor seconds, or ten times as many of any kind."""

    def ring(number, frame):
        raise Hang

    before = {number: signal.signal(number, ring) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WAITING * seconds)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_PROF, signal.ITIMER_REAL):
            signal.setitimer(timer, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
