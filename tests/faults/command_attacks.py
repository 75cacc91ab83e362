"""Command lines that somebody might type."""

import contextlib
import io
import random
import sys

from tally import Tally, Wrong

from widefield import cli
from widefield.base.errors import WidefieldError

COMMANDS = {
    "solve": ["p.toml", "-o", "run.nc"],
    "compare": ["p.toml", "--plot", "c.png"],
    "crosscheck": ["p.toml"],
    "advise": ["--activation", "tanh", "--depth", "3", "--width", "10"],
    "proportional": ["--steps", "3", "--width", "2", "--learning-rate", "0.1"],
    "lr-transfer": ["--steps", "3", "--values", "1,2", "--learning-rates", "0.1,0.2,0.3"],
    "show": ["run.nc"],
    "new": ["q.toml"],
    "cache": [],
}
OPTIONS = [
    "--width",
    "--theory",
    "--theories",
    "--seeds",
    "--seed",
    "--dtype",
    "--particles",
    "--replicas",
    "--tolerance",
    "--resume",
    "--overwrite",
    "--quiet",
    "--plot",
    "--output",
    "-o",
    "-q",
    "--steps",
    "--learning-rate",
    "--learning-rates",
    "--hidden-layers",
    "--noise",
    "--samples",
    "--batch-size",
    "--values",
    "--over",
    "--activation",
    "--depth",
    "--outputs",
    "--residual",
    "--clear",
    "--help",
    "--version",
    "--checkpoint-seconds",
    "--richness",
]
VALUES = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "1e30",
    "nan",
    "inf",
    "x",
    "lazy",
    "finite-width",
    "infinite-width",
    "tanh",
    "relu",
    "gelu",
    "float16",
    "float32",
    "p.toml",
    "missing.toml",
    "run.nc",
    "folder",
    "missing/run.nc",
    "run.csv",
    "c.png",
    "c.0",
    "c.pdf",
    "c.xyz",
    "1,2,3",
    "64,128",
    ",",
    "=",
    "--",
    '""',
    "∞",
    "λ",
    "0.5",
    "1e-300",
    "width",
    "depth",
]
SLOW = {"solve", "compare", "crosscheck", "proportional", "lr-transfer", "advise"}
PROBLEM = """
[network]
kind = "mlp"
hidden_layers = 1
activation = "linear"

[data]
kind = "sphere"
samples = 2
dimension = 3

[optimiser]
kind = "sgd"
learning_rate = 0.1
steps = 2
"""


class Refused(WidefieldError):
    """What a command says where it does nothing."""


def line(rng):
    """A command with some options that it has, some that it has not, and values of all kinds."""
    name = rng.choice(list(COMMANDS))
    given = list(COMMANDS[name])
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        kind = rng.randrange(4)
        place = rng.randrange(len(given) + 1)
        if kind == 0 and given:
            given.pop(min(place, len(given) - 1))
        elif kind == 1:
            given.insert(place, rng.choice(VALUES))
        else:
            given += [rng.choice(OPTIONS), rng.choice(VALUES)]
    return [name, *given]


def attack(folder, count, seed=0):
    """Run every command in this process, without networks that would take long to train."""
    tally, rng = Tally("command lines"), random.Random(seed)
    for number in range(count):
        arguments = line(rng)
        place = folder / str(number)
        place.mkdir()
        (place / "folder").mkdir()
        (place / "p.toml").write_text(PROBLEM)
        with tally.attack(" ".join(arguments)), contextlib.chdir(place):
            code, said = ran(arguments)
            if "Traceback" in said or code not in (0, 1, 2):
                raise Wrong(f"exit code {code}: {said[-300:]}")
            if code == 2 and not said.strip():
                raise Wrong("it fails without a word")
            if code == 2 and list(place.glob(".*")):
                raise Wrong(f"files left: {[path.name for path in place.iterdir()]}")
            if code:
                raise Refused(said[-300:])
    return tally


def ran(arguments):
    """The exit code of a command, and all that it said."""
    before, said = sys.argv, io.StringIO()
    sys.argv = ["widefield", *arguments]
    from widefield.cli import terminal

    streams = terminal.console._file, terminal.errors._file  # None: wherever standard output goes then
    terminal.console.file = terminal.errors.file = said
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            cli.main()
    except SystemExit as ending:
        return ending.code or 0, said.getvalue()
    finally:
        sys.argv = before
        terminal.console._file, terminal.errors._file = streams
    return 0, said.getvalue()
