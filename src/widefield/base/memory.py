"""How much memory this process may still take: the machine's, its own limits (ulimit), and those of its container."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_CGROUPS = Path("/sys/fs/cgroup")


def available() -> int:
    """Bytes, the least of all that limits them."""
    return max(0, min([psutil.virtual_memory().available, *_of_limits(), *_of_groups()]))


def _of_limits() -> Iterator[int]:
    """What `ulimit -v` and `ulimit -d` leave."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    held = psutil.Process().memory_info()
    for name, used in (("RLIMIT_AS", held.vms), ("RLIMIT_DATA", getattr(held, "data", 0))):
        limit = resource.getrlimit(getattr(resource, name))[0]
        if limit != resource.RLIM_INFINITY:
            yield limit - used


def _of_groups() -> Iterator[int]:
    """What the control groups of this process leave, version 2 or 1; their caches can be given back."""
    with suppress(OSError, ValueError):
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        for number, controllers, inside in lines:
            if number == "0":
                yield from _left(_CGROUPS, inside, ("memory.max", "memory.current", "inactive_file"))
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                yield from _left(_CGROUPS / "memory", inside, names)


def _left(root: Path, inside: str, names: tuple[str, str, str]) -> Iterator[int]:
    """Of a group and all those that it is in. Inside a container its own group is the root."""
    limit, usage, cache = names
    group = root / inside.strip("/")
    for folder in (group, *group.parents):
        if not folder.is_relative_to(root):
            return
        with suppress(OSError, ValueError):
            most = (folder / limit).read_text().strip()
            if most != "max" and int(most) < 2**60:
                stated = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
                yield int(most) - int((folder / usage).read_text()) + int(stated.get(cache, 0))
