"""How a long computation talks to the person who waits for it: progress, Ctrl-C, checkpoints."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

Report = Callable[[int, int, float], None]
"""Called now and then with the steps done, the steps in all, and the present loss."""


@dataclass
class Session:
    """What a running theory may use: `report` its progress, see whether it was `interrupted`, keep a checkpoint.

    It may `note` what whoever waits should know beforehand.
    """

    report: Report = lambda done, total, loss: None
    note: Callable[[str], None] = lambda text: None
    checkpoint: Path | None = None
    checkpoint_seconds: float = 300.0
    interrupted: bool = False
    _saved_at: float = field(default_factory=time.monotonic)

    def checkpoint_due(self) -> bool:
        """Whether the last checkpoint is old enough for the next one."""
        if self.checkpoint is None or time.monotonic() - self._saved_at < self.checkpoint_seconds:
            return False
        self._saved_at = time.monotonic()
        return True


@contextmanager
def watching_for_interrupt(session: Session) -> Iterator[None]:
    """Turn the first Ctrl-C into `session.interrupted`; a second one stops at once.

    Signals reach only the main thread; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if session.interrupted:
            raise KeyboardInterrupt
        session.interrupted = True

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


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
