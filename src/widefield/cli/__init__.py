"""The command line."""

from __future__ import annotations

import _thread
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["main"]


def main() -> None:
    """Entry point. Ctrl-C ends quietly with exit code 130, also while modules are still being imported."""
    sys.unraisablehook = _interrupt_again
    try:
        from .app import run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _interrupt_again(ignored: UnraisableHookArgs) -> None:
    """Python drops a Ctrl-C that falls into a callback (jax has one in the garbage collector): try again soon."""
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()
    else:
        sys.__unraisablehook__(ignored)
