"""Every attack in its long form, as a table: `make faults`. Ends with 1 if there is a fault.

python tests/faults/report.py [--short] [--only files commands ...]
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import command_attacks  # noqa: E402
import file_attacks  # noqa: E402
import kill_attacks  # noqa: E402
import number_attacks  # noqa: E402
import toml_attacks  # noqa: E402
from tally import BAD, GOOD, Tally  # noqa: E402

import widefield as wf  # noqa: E402


def hostile(folder, count):
    """All hostile files, loaded and printed."""
    tally = Tally("hostile files")
    for name, path in list(file_attacks.hostile(folder).items())[:count]:
        with tally.attack(name):
            str(wf.load(path))
    return tally


ATTACKS = {
    "toml": (10_000, 200, lambda folder, count: toml_attacks.attack(count, seed=1)),
    "files": (2000, 50, lambda folder, count: file_attacks.attack(folder / "run.nc", count, seed=1)),
    "old-files": (300, 5, lambda folder, count: file_attacks.attack_unsealed(folder / "run.nc", count, seed=2)),
    "hostile": (100, 100, hostile),
    "commands": (1000, 20, lambda folder, count: command_attacks.attack(folder, count, seed=1)),
    "arrays": (1, 1, lambda folder, count: number_attacks.attack_arrays()),
    "sizes": (5, 1, lambda folder, count: number_attacks.attack_sizes(number_attacks.SIZES[:count])),
    "extremes": (1, 20, lambda folder, count: number_attacks.attack_extremes(step=count)),
    "kills-networks": (54, 2, lambda folder, count: kill_attacks.attack(folder, "width 16", count, seed=3)),
    "kills-infinity": (54, 2, lambda folder, count: kill_attacks.attack(folder, "width inf", count, seed=4)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="a few of each, to try the script")
    parser.add_argument("--only", nargs="+", choices=list(ATTACKS), default=list(ATTACKS))
    options = parser.parse_args()
    print("| attack | tried | " + " | ".join((*GOOD, *BAD)) + " |")
    print("|---|" + "---|" * (1 + len(GOOD) + len(BAD)))
    faults = []
    for name in options.only:
        many, few, attack = ATTACKS[name]
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            tally = attack(Path(folder), few if options.short else many)
        print("| " + " | ".join(tally.row) + " |", flush=True)
        remarks = ", ".join(f"{count} {what}" for what, count in tally.remarks.items())
        print(f"{name}: {time.monotonic() - began:.0f} s {remarks}", file=sys.stderr)
        faults += tally.examples
    print("\n".join(faults), file=sys.stderr)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
