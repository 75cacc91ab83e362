"""How long jax traces, compiles and loads programs while something runs, from the events that jax reports."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

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
