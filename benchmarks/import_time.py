"""What it costs to import the package and to use a first name of it, beside jax, equinox and numpy.

    python benchmarks/import_time.py [--repetitions 7]

Every row runs in new processes, the rows in turn so that a busy moment hits all of them. Seconds are the least over the
repetitions, from the start of Python to its end, by the clock and (in parentheses) of the processor. "Beyond" is the
time by the clock beyond that of the first row, and the last column the ratio to it; modules are those loaded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from resource import RUSAGE_CHILDREN, getrusage

from rich.console import Console
from rich.table import Table

FOUNDATION = "import jax, equinox, numpy"
COMMAND = "import sys; sys.argv = ['widefield', '--help']; from widefield.cli import main; main()"
ROWS = {
    "jax, equinox, numpy": FOUNDATION,
    "import widefield": "import widefield",
    "and jax, equinox, numpy": f"{FOUNDATION}, widefield",
    "widefield --help": COMMAND,
    "wf.MLP": "import widefield as wf; wf.MLP",
    "wf.Problem": "import widefield as wf; wf.Problem",
    "wf.effective.criticality": "import widefield as wf; wf.effective.criticality",
    "wf.proportional.solve": "import widefield as wf; wf.proportional.solve",
    "wf.solve": "import widefield as wf; wf.solve",
    "wf.KernelRegressor": "import widefield as wf; wf.KernelRegressor",
}
LOADED = "import atexit, sys; atexit.register(lambda: print(len(sys.modules), file=sys.stderr))\n"


def measured(code: str) -> tuple[float, float]:
    """Seconds of a new Python that runs the code: by the clock, of the processor."""
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def modules(code: str) -> int:
    """How many modules are loaded when it ends."""
    done = subprocess.run([sys.executable, "-c", LOADED + code], check=True, capture_output=True, text=True)
    return int(done.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=7)
    repetitions = parser.parse_args().repetitions
    counts = {name: modules(code) for name, code in ROWS.items()}  # and every file is in memory, every .pyc written
    runs = [{name: measured(code) for name, code in ROWS.items()} for _ in range(repetitions)]
    best = {name: tuple(min(run[name][kind] for run in runs) for kind in range(2)) for name in ROWS}
    foundation = best["jax, equinox, numpy"][0]
    table = Table("", "modules", "seconds", "beyond", "ratio", title=f"least of {repetitions} runs")
    for name, (clock, processor) in best.items():
        seconds = f"{clock:.2f} ({processor:.2f})"
        table.add_row(name, str(counts[name]), seconds, f"{clock - foundation:+.2f}", f"{clock / foundation:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
