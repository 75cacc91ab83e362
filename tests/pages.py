"""The pages of the documentation, cut into blocks that tests can run.

A comment before a block says what a test does differently from a reader:

    <!-- test: steps=100 -> steps=4; seeds=8 -> seeds=2 -->    smaller numbers, each of which must be in the block
    <!-- test: not run, needs an hour -->                      the reason why it is left out

What comes out is checked where it is printed: after `# = ` behind an expression, to the digits that are there, and in a
```text block after commands, line by line.
"""

import ast
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))

_FENCE = re.compile(r"(?:<!-- test: (?P<remark>[^\n]*?) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?|\binf\b|\bnan\b")
_SAID = re.compile(r"  # = (.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and what was remarked before it."""

    language: str
    code: str
    line: int
    remark: str = ""

    @property
    def left_out(self) -> str:
        """Why it is not run; empty if it is."""
        return self.remark.removeprefix("not run, ") if self.remark.startswith("not run") else ""

    @property
    def smaller(self) -> list[list[str]]:
        """Pairs of what is written and what a test puts in its place."""
        return [] if self.left_out or not self.remark else [part.split(" -> ") for part in self.remark.split("; ")]

    @property
    def small(self) -> str:
        """The text with the smaller numbers."""
        code = self.code
        for written, put in self.smaller:
            assert written in code, f"line {self.line}: {written!r} is to be replaced and is not there"
            code = code.replace(written, put)
        return code


@cache
def text(page):
    return (ROOT / page).read_text()


@cache
def blocks(page):
    """All fenced blocks of a page."""
    found = []
    for match in _FENCE.finditer(text(page)):
        line = text(page)[: match.start("language")].count("\n") + 1
        found.append(Block(match["language"], match["code"], line, match["remark"] or ""))
    return found


def block_with(page, code):
    """The one block of a page that contains some code."""
    (found,) = (block for block in blocks(page) if code in block.code)
    return found


def prose(page):
    """A page without its fenced blocks."""
    return _FENCE.sub("", text(page))


def run(block, names, page):
    """Run a Python block in a namespace, and compare what is printed behind `# = `."""
    code, lines = block.small, block.small.splitlines()
    said = [line for line in lines if _SAID.search(line)]
    assert not (said and block.smaller), "numbers are printed behind code that is tested with other numbers"
    for node in ast.parse(code).body:
        one = ast.Module([node], [])
        ast.increment_lineno(one, block.line)
        printed = _SAID.search(lines[node.end_lineno - block.line - 1])
        if isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), page, "eval"), names)
            if printed:
                said.remove(lines[node.end_lineno - block.line - 1])
                check(value, printed[1], f"{page}, line {node.end_lineno}")
        else:
            exec(compile(one, page, "exec"), names)
    assert not said, f"{page}: not behind an expression: {said}"


def check(value, printed, where):
    """Whether a value is what is printed: numbers to the digits that are there, all else to the letter."""
    value = value.values if hasattr(value, "values") and not isinstance(value, dict) else value
    if isinstance(value, str | bool | np.bool_):
        assert repr(value.item() if isinstance(value, np.bool_) else value) == printed, where
        return
    expected = _NUMBER.findall(printed)
    numbers = np.ravel(np.asarray(value, dtype=float))
    assert len(expected) == len(numbers), f"{where}: {numbers} is not {printed}"
    for number, digits in zip(numbers, expected, strict=True):
        assert abs(number - float(digits)) <= _unit(digits), f"{where}: {number!r} is not {digits}"


def _unit(digits):
    """Half a unit of the last digit, and a little for rounding."""
    mantissa, _, exponent = digits.partition("e")
    places = len(mantissa.partition(".")[2])
    return 0.5001 * 10.0 ** (int(exponent or 0) - places)


def commands(block):
    """The commands of a shell block as lists of words, without remarks; lines that end in a backslash go on."""
    joined = block.small.replace("\\\n", " ")
    return [words for line in joined.splitlines() if (words := shlex.split(line, comments=True))]
