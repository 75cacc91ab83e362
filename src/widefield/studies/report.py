"""The report of a study: one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from html import escape

from .answers import Answer, Study, Table
from .plan import in_words
from .training import SLOWER, SPIKE

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 62rem;
  margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin-bottom: 0.2rem; }
h2 { font-size: 1.2rem; margin-top: 2.4rem; border-top: 1px solid #ddd; padding-top: 1rem; }
p.verdict { background: #f0f6fa; border-left: 4px solid #0072b2; padding: 0.6rem 0.9rem; }
footer, .facts { color: #555; font-size: 0.9rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; display: block; overflow-x: auto; }
th, td { padding: 0.25rem 0.6rem; text-align: right; border-bottom: 1px solid #e5e5e5; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; }
tr.advised { background: #fff6df; font-weight: 600; }
img { max-width: 100%; height: auto; }
pre { background: #f6f6f6; padding: 0.8rem; overflow-x: auto; font-size: 0.82rem; }
summary { cursor: pointer; color: #0072b2; }
ul { padding-left: 1.2rem; }
"""


_SCREEN = 0.6
"""Pixels on a page over those of a figure, which are finer."""


def page(study: Study, figures: dict[str, bytes]) -> str:
    """The whole report; `figures` are PNG files by question."""
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',  # else a browser asks for one
        f"<title>Study of {escape(study.heading)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>",
        f"<h1>What a network makes of these data</h1>\n<p class='facts'>{escape(study.heading)}</p>",
        _summary(study),
        *(_section(answer, figures.get(answer.question)) for answer in study.answers.values()),
        _left_out(study),
        _going_on(study),
        _method(study),
        "</body>\n</html>\n",
    ]
    return "\n".join(part for part in parts if part)


def _summary(study: Study) -> str:
    lines = []
    for answer in study.answers.values():
        first = answer.verdict.split(". ")[0].rstrip(".")
        lines.append(f"<li><b>{escape(answer.title)}</b> {escape(first)}.</li>")
    return f"<h2>In short</h2>\n<ul>\n{chr(10).join(lines)}\n</ul>"


def _section(answer: Answer, figure: bytes | None) -> str:
    image = ""
    if figure is not None:
        packed = base64.b64encode(figure).decode("ascii")
        wide = round(_SCREEN * int.from_bytes(figure[16:20], "big"))  # where PNG files have their width
        image = f'<p><img width="{wide}" alt="{escape(answer.title)}" src="data:image/png;base64,{packed}"></p>'
    return "\n".join(
        (
            f'<h2 id="{escape(answer.question)}">{escape(answer.title)}</h2>',
            f'<p class="verdict">{escape(answer.verdict)}</p>',
            image,
            table(answer.table),
            f"<details><summary>The calls</summary><pre>{escape(answer.calls)}</pre></details>",
        )
    )


def table(given: Table) -> str:
    """A table, the advised row marked."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in given.headings)
    rows = []
    for place, cells in enumerate(given.rows):
        mark = ' class="advised"' if place == given.marked else ""
        rows.append(f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{chr(10).join(rows)}\n</tbody>\n</table>"


def _left_out(study: Study) -> str:
    if not study.left_out:
        return ""
    lines = [f"<li>{escape(name)}: {escape(why)}</li>" for name, why in study.left_out.items()]
    return (
        f"<h2>Left out</h2>\n<p>Without an answer, or with a part of it:</p>\n<ul>\n{chr(10).join(lines)}\n</ul>\n"
        f"<p>What is there is kept; this answers the rest:</p>\n<pre>{escape(study.again)}</pre>"
    )


def _going_on(study: Study) -> str:
    return (
        "<h2>Going on from here</h2>\n<p>Everything above comes from public calls. Those of each section come after "
        f"these:</p>\n<pre>{escape(study.setup)}</pre>\n<p>The files: <code>networks/*.nc</code> are trained networks "
        "of the first split with their kernels, each with the problem that it answers; <code>parts/*.nc</code> are the "
        "numbers behind the tables; <code>figures/*.png</code> the figures. <code>wf.load</code> opens all of the "
        "<code>.nc</code> files.</p>"
    )


def _method(study: Study) -> str:
    facts = "".join(f"<li>{escape(name)}: {escape(value)}</li>" for name, value in study.facts.items())
    return (
        "<h2>How the verdicts are made</h2>\n<p>Losses are squared errors over those of predicting the mean of the "
        "training targets, that is 1 − R²: 0 is perfect, 1 no better than the mean. Error bars are standard errors "
        "over random splits into training and test samples, corrected for their overlap (Nadeau and Bengio, 2003); "
        "each split has networks of its own, whose mean counts. Choices are compared split by split with the best one; "
        "a difference counts if it exceeds its 95% interval (Student's t, widened for the best being chosen among all; "
        "the furthest choice first, then the others as among one choice fewer), and else there is no difference within "
        "error bars. Every choice has learning rates of its own, found by the same rule: the largest of 1/2, 1/4, 1/8, "
        f"... of its stable rate at which no training loss rises by more than {SPIKE:.0%} of the mean's loss above "
        f"its lowest before, and 1/{SLOWER} of that rate. For each split the rate and the step at which training is "
        "stopped are those that are best "
        f"on all other splits.</p>\n<ul class='facts'>{facts}</ul>\n"
        f"<footer>widefield study, {escape(in_words(study.seconds))}</footer>"
    )
