"""What surrounds a long computation: progress, Ctrl-C, checkpoints, and the time that jax spends on compilation."""

from __future__ import annotations

import math
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

Report = Callable[[int, int, float], None]
"""Called now and then with the steps done, the steps in all, and the present loss."""


CHECKPOINT_SECONDS = 60.0
"""What a killed run loses at most, if nothing is said; the first checkpoint comes after a sixth of it."""

_SHARE = 20.0
"""Checkpoints may take one part in so many of the time, so that large ones come less often."""


@dataclass
class Session:
    """What a running theory may use: `report` its progress, see whether it was `interrupted`, keep a checkpoint.

    It may `note` what whoever waits should know beforehand. `interrupted` is the number of the signal, 0 if none came.
    """

    report: Report = lambda done, total, loss: None
    note: Callable[[str], None] = lambda text: None
    checkpoint: Path | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    interrupted: int = 0
    _due: float = field(default_factory=lambda: math.inf)

    def __post_init__(self) -> None:
        """The first checkpoint comes early, because most is learned about a run in its beginning."""
        self._due = time.monotonic() + self.checkpoint_seconds / 6

    def checkpoint_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return self.checkpoint is not None and time.monotonic() >= self._due

    def checkpoint_done(self, began: float) -> None:
        """Count from now to the next; `began`, by `time.monotonic`, is when the last one was begun."""
        now, interval = time.monotonic(), self.checkpoint_seconds
        self._due = now + (max(interval, _SHARE * (now - began)) if interval else 0.0)


_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")


@contextmanager
def watching_for_interrupt(session: Session) -> Iterator[None]:
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into `session.interrupted`; another one stops at once.

    Signals reach only the main thread; elsewhere this does nothing. Who ignores a signal goes on ignoring it (nohup).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if session.interrupted:
            raise KeyboardInterrupt
        session.interrupted = number
        with suppress(RuntimeError):  # it may have come in the midst of printing
            session.note("stopping at the end of the present steps, to save; another Ctrl-C stops at once")

    numbers = [getattr(signal, name) for name in _STOPPING if hasattr(signal, name)]
    heard = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handle) for number in heard}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


@contextmanager
def progress_bar(label: str, show: bool | None, unit: str = "steps") -> Iterator[Report]:
    """A bar on standard error with the live loss; `show` None shows it on a terminal only."""
    with _bar(label, unit, "loss {task.fields[loss]:.4g}", show) as update:
        yield lambda done, total, loss: update(done, total, loss)


def says(show: bool | None) -> Callable[[str], None]:
    """Print a remark where `progress_bar` would show a bar, and else nothing."""
    if show is False or (show is None and not sys.stderr.isatty()):
        return lambda text: None
    return lambda text: print(text, file=sys.stderr)


@contextmanager
def counting_bar(label: str, unit: str, show: bool | None) -> Iterator[Callable[[int, int], None]]:
    """The same without a loss: to be called with what is done and all that there is to do."""
    with _bar(label, unit, "", show) as update:
        yield lambda done, total: update(done, total, 0.0)


@contextmanager
def _bar(label: str, unit: str, remark: str, show: bool | None) -> Iterator[Report]:
    if show is False or (show is None and not sys.stderr.isatty()):
        yield lambda done, total, loss: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.completed:.0f}}/{{task.total:.0f}} {unit}"),
        TextColumn(remark),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=1, loss=float("nan"))
        yield lambda done, total, loss: bar.update(task, completed=done, total=total, loss=loss)


# What jax calls the events that it reports.
_TRACED = ("/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration")
_COMPILED = "/jax/core/compile/backend_compile_duration"
_READ = "/jax/compilation_cache/cache_retrieval_time_sec"

_lock = threading.Lock()
_watching: list[Compilation] = []
_listening = False


@dataclass
class Compilation:
    """What jax did beside computing.

    Attributes:
        traced: seconds in which Python functions became programs.
        compiled: seconds in which programs became machine code.
        programs: how many were compiled; those read from a cache on disk do not count.
        loaded: how many were read from a cache on disk.
        loading: seconds in which these were read.
    """

    traced: float = 0.0
    compiled: float = 0.0
    programs: int = 0
    loaded: int = 0
    loading: float = 0.0
    _inside: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list), repr=False)
    _read: set[int] = field(default_factory=set, repr=False)

    def _note(self, event: str, seconds: float) -> None:
        """Count an event that ends now, in this thread."""
        thread = threading.get_ident()
        if event == _READ:
            self._read.add(thread)  # jax reports the same program as compiled next
        elif event in _TRACED:
            self.traced += self._alone(thread, seconds)
        elif event == _COMPILED and thread in self._read:
            self._read.remove(thread)
            self.loaded += 1
            self.loading += self._alone(thread, seconds)
        elif event == _COMPILED:
            self.programs += 1
            self.compiled += self._alone(thread, seconds)

    def _alone(self, thread: int, seconds: float) -> float:
        """Seconds of an event without those of events inside it, which came earlier, so that none count twice."""
        ended = time.perf_counter()
        earlier, inside = self._inside[thread], 0.0
        while earlier and earlier[-1][0] > ended - seconds:
            inside += earlier.pop()[1]
        earlier.append((ended, seconds))
        return max(0.0, seconds - inside)


@contextmanager
def watching_compilation() -> Iterator[Compilation]:
    """Yield a record that is kept up to date within this block, and complete after it.

    Blocks may stand inside each other, and each sees everything that happens in it, in all threads: theories compile in
    several. What another thread does meanwhile on its own account is therefore counted too.
    """
    _listen()
    seen = Compilation()
    with _lock:
        _watching.append(seen)
    try:
        yield seen
    finally:
        with _lock:
            _watching[:] = [other for other in _watching if other is not seen]


def _listen() -> None:
    """Ask jax for its events, once: not all versions let listeners go, and one that nobody watches costs nothing."""
    global _listening
    with _lock:
        if _listening:
            return
        import jax

        jax.monitoring.register_event_duration_secs_listener(_hear)
        _listening = True


def _hear(event: str, duration_secs: float, **details: str | int) -> None:
    del details
    if _watching:
        with _lock:
            for seen in _watching:
                seen._note(event, duration_secs)
