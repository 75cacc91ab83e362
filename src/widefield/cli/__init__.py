"""The command line."""

from __future__ import annotations

import _thread
import atexit
import os
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
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)  # all is said: the exit code stays what it is
    try:
        from .app import run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        _ended.set()


_ended = threading.Event()


def _insist(number: int, frame: FrameType | None) -> None:
    """Leave. An exception in the midst of a compiled module's import can crash the process, so there we leave at once;
    and as somebody may swallow the exception, it comes again until we have left."""
    if _importing(frame):
        os._exit(130)
    threading.Timer(0.25, _unless_ended).start()
    raise KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _unless_ended() -> None:
    if not _ended.is_set():
        _thread.interrupt_main()


def _interrupt_again(ignored: UnraisableHookArgs) -> None:
    """Python drops a Ctrl-C that falls into a callback (jax has one in the garbage collector): try again soon."""
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(ignored)
