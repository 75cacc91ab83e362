"""The command line."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

__all__ = ["main"]


def main() -> None:
    """Entry point. Ctrl-C ends quietly with exit code 130, also while modules are still being imported."""
    sys.unraisablehook = _interrupt_again
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _insist)
    try:
        from .app import run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        _ended.set()


_ended = threading.Event()


def _insist(number: int, frame: FrameType | None) -> None:
    """Modules that catch everything while they are imported must not swallow Ctrl-C: it comes again until we leave."""
    threading.Timer(0.25, _unless_ended).start()
    raise KeyboardInterrupt


def _unless_ended() -> None:
    if not _ended.is_set():
        _thread.interrupt_main()


def _interrupt_again(ignored: UnraisableHookArgs) -> None:
    """Python drops a Ctrl-C that falls into a callback (jax has one in the garbage collector): try again soon."""
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(ignored)
