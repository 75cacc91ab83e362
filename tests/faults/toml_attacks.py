"""Mutated problem files."""

import random
from pathlib import Path

from tally import Tally, Wrong

import widefield as wf
from widefield.asking.loading import read_problem
from widefield.cli.demo import template

FOLDER = Path(__file__).parents[1] / "files" / "0.1.0" / "toml"
VALUES = (
    "0", "-1", "1", "3", "1e300", "-1e300", "nan", "inf", "1e-300", "1000000000", "10" + "0" * 30, "true", '""', '"x"',
    "[]", "[1]", "[[1.0]]", "{}", "{kind = 1}", "'tanh'", "1979-05-27", "0.5", "[1, 'a']", "'\u202e\u0007'", "[nan]",
    "'" + "n" * 300 + "'", "[" * 50 + "]" * 50,
)  # fmt: skip


def texts():
    """Problems to begin with."""
    return [template(), *(path.read_text() for path in sorted(FOLDER.glob("*.toml")))]


def mutated(text, rng):
    """The text with a few changes that people or programs might make."""
    lines = text.splitlines()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not lines:
            break
        place = rng.randrange(len(lines))
        kind = rng.randrange(8)
        key, sign, _ = lines[place].partition("=")
        if kind <= 2 and sign:
            lines[place] = f"{key}= {rng.choice(VALUES)}"
        elif kind == 3:
            del lines[place]
        elif kind == 4:
            lines.insert(rng.randrange(len(lines) + 1), lines[place])
        elif kind == 5 and sign:
            lines[place] = f"{key.strip()}{rng.choice(('s', '_', '0', ' '))} ={_}"
        elif kind == 6:
            line = list(lines[place] or " ")
            line[rng.randrange(len(line))] = chr(
                rng.choice((0, 9, 34, 91, 92, 127, 955, 8734, 65533, rng.randrange(32, 127)))
            )
            lines[place] = "".join(line)
        else:
            lines = lines[: place + 1]
    return "\n".join(lines) + "\n"


def attack(count, seed=0):
    """Read every mutant; what is read must be written and read again to the same."""
    tally, rng, known = Tally("problem files"), random.Random(seed), texts()
    for number in range(count):
        text = mutated(rng.choice(known), rng)
        with tally.attack(f"mutant {number}: {text[:300]!r}"):
            problem = read_problem(text)
            if type(problem).from_toml(problem.to_toml()) != problem:
                raise Wrong("it is not what it is written as")
            if isinstance(problem, wf.Problem):
                wf.applicable(problem)
    return tally


def hostile():
    """Texts that are no mistakes."""
    return {
        "deep": "a = " + "[" * 100_000 + "]" * 100_000,
        "deep tables": "[" + ".".join("a" * 3000) + "]\n",
        "many samples": template().replace("samples = 10", "samples = 1000000000"),
        "long name": template().replace('"tanh"', '"' + "n" * 300 + '"'),
        "markup": template().replace('"tanh"', '"[bold red]x[/]"'),
        "escape": template().replace('"tanh"', '"\\u001b[31mx"'),
        "huge text": "# " + "x" * (2**26 + 1),
    }
