"""Lazy or rich, how deep, which learning rule: choices that are trained on the same splits and compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..problem.network import MLP
from ..problem.rules import GradientDescent, LearningRule
from . import calls
from .answers import Answer, Table
from .desk import Desk, Scan
from .judging import Estimate, Judgement, over_splits
from .plan import TEST_SHARE
from .training import Choice

NO_DIFFERENCE = "no difference within error bars"
_LAZY = 0.1
"""Up to this richness features hardly move."""


def choice_of(network: MLP, rule: LearningRule | None = None, label: str = "") -> Choice:
    """A choice whose name says what it is, so that questions which share it share its files."""
    rule = GradientDescent() if rule is None else rule
    name = f"richness-{network.richness:g}-layers-{network.hidden_layers}"
    name += "" if type(rule) is GradientDescent else f"-{rule.kind}"
    return Choice(name, label or name, network, rule)


def richness(desk: Desk) -> Answer | None:
    """Lazy against rich: a scan of gamma_0."""
    values = sorted(desk.grid.richness)
    choices = [choice_of(dataclasses.replace(desk.network, richness=v), label=f"richness {_word(v)}") for v in values]
    first = min(range(len(values)), key=lambda place: abs(values[place] - desk.network.richness))
    scan = desk.scan("richness", choices, [1.0 if c.lazy else desk.costs.choice for c in choices], first)
    if scan is None:
        return None
    kept = [choice.network.richness for choice in scan.choices]
    judgement = scan.judgement()
    words = [_word(value) for value in kept]
    parts = (lazy_or_rich(kept, judgement), _aligned(scan, kept), _still(scan, words), _stand_in(desk, kept, judgement))
    verdict = " ".join(filter(None, parts))
    data = scan.data("richness", kept)
    return Answer(
        "richness",
        "Lazy or rich?",
        verdict,
        kept[judgement.best],
        _table("richness", words, scan, judgement),
        data,
        calls.training(
            desk.bench, scan.choices[judgement.best], scan.rates()[judgement.best], desk.folder.path.as_posix()
        ),
    )


def _stand_in(desk: Desk, values: Sequence[float], judgement: Judgement) -> str:
    """Who stands for the lazy limit where networks are asked: none of finite width has richness 0."""
    if values[judgement.best] > 0:
        return ""
    least = min(value for value in desk.grid.richness if value > 0)
    return f"No network is at the limit: questions that need networks are asked at richness {least:g}."


def lazy_or_rich(values: Sequence[float], judgement: Judgement) -> str:
    """One sentence about lazy and rich networks; the first value is the laziest."""
    best, losses = judgement.best, judgement.losses
    lazy, rich = _word(values[0]), _word(values[best])
    if len(values) < 2:
        return f"Only richness {rich} was tried: test loss {losses[best]}."
    if judgement.undecided:
        return (
            f"Lazy or rich makes {NO_DIFFERENCE}: the lowest test loss is {losses[best]}, at richness {rich}, and "
            f"{losses[0]} at {lazy}."
        )
    if judgement.same(best, 0):
        worse = [place for place in range(len(values)) if place not in judgement.alike]
        named = ", ".join(f"{_word(values[place])} ({losses[place]})" for place in worse)
        return (
            f"There is {NO_DIFFERENCE} between the lazy end and the best, richness {rich} with test loss "
            f"{losses[best]}; worse than that: {named}."
        )
    gain = _gain(judgement, 0)
    if values[best] > _LAZY:
        return (
            f"Rich is better: richness {rich} has test loss {losses[best]}, richness {lazy} {losses[0]}, a difference "
            f"of {gain}.{_others(values, judgement)}"
        )
    return f"Lazy is better, but not the limit: richness {rich} has test loss {losses[best]}, {lazy} {losses[0]}."


def _others(values: Sequence[float], judgement: Judgement) -> str:
    """Choices that are as good as the best."""
    same = [_word(values[place]) for place in judgement.alike if place != judgement.best]
    return f" As good within error bars: {', '.join(same)}." if same else ""


def _gain(judgement: Judgement, place: int) -> str:
    """A difference and its interval."""
    return f"{judgement.differences[place].mean:.2g} ± {judgement.halves[place]:.2g} (95%)"


def _aligned(scan: Scan, values: Sequence[float]) -> str:
    """What training does to the alignment of the tangent kernel with the targets, at the two ends."""
    data = scan.data("richness", list(values))
    parts = []
    for place in (0, len(values) - 1)[: len(values)]:
        before, after = (
            Estimate(float(data[f"ntk_alignment_{end}"][place]), float(data[f"ntk_alignment_{end}_error"][place]), 2)
            for end in ("before", "after")
        )
        parts.append(f"from {before} to {after} at richness {_word(values[place])}")
    return f"Alignment of the tangent kernel with the targets goes {', and '.join(parts)}."


def _still(scan: Scan, words: Sequence[str]) -> str:
    """What would change with more steps, and what is not smooth."""
    falling, rough = ([words[place] for place in places] for places in (scan.unfinished(), scan.spiking()))
    said = [f"Test losses were still falling at the last step for {', '.join(falling)}."] if falling else []
    said += [f"Training losses spike at all learning rates for {', '.join(rough)}."] if rough else []
    said += [f"At no learning rate that was tried do these train: {', '.join(scan.failed)}."] if scan.failed else []
    return " ".join(said)


def depth(desk: Desk) -> Answer | None:
    """How many hidden layers."""
    values = sorted(desk.grid.depths)
    base = dataclasses.replace(desk.network, richness=desk.richness)
    choices = [
        choice_of(_deep(base, v), label=f"{v} hidden layer{'s' if v > 1 else ''}, richness {base.richness:g}")
        for v in values
    ]
    first = values.index(base.hidden_layers) if base.hidden_layers in values else 0
    scan = desk.scan("depth", choices, [desk.costs.depth(v) for v in values], first)
    if scan is None or len(scan.choices) < 2:
        desk.left_out.setdefault("depth", "no two of the choices train")
        return None
    kept = [choice.network.hidden_layers for choice in scan.choices]
    judgement = scan.judgement()
    words = [str(value) for value in kept]
    verdict = " ".join(filter(None, (how_deep(kept, judgement), _still(scan, words))))
    place = judgement.simplest
    return Answer(
        "depth",
        "How deep?",
        verdict,
        kept[place],
        _table("hidden layers", words, scan, judgement, place),
        scan.data("hidden_layers", kept),
        calls.training(desk.bench, scan.choices[place], scan.rates()[place], desk.folder.path.as_posix()),
    )


def _deep(network: MLP, layers: int) -> MLP:
    """The same with other layers; settings of single layers do not carry over."""
    return dataclasses.replace(network, hidden_layers=layers)


def how_deep(values: Sequence[int], judgement: Judgement) -> str:
    """The fewest layers that are as good as the best."""
    best, simplest, losses = judgement.best, judgement.simplest, judgement.losses
    if judgement.undecided and simplest == best:
        return f"Depth makes {NO_DIFFERENCE}: take {_layers(values[best])}, with the lowest test loss, {losses[best]}."
    if judgement.undecided:
        return (
            f"Depth makes {NO_DIFFERENCE}: the lowest test loss is {losses[best]}, with {_layers(values[best])}, and "
            f"{losses[simplest]} with {_layers(values[simplest])}. Take {_layers(values[simplest])}."
        )
    worse = [place for place in range(len(values)) if place not in judgement.alike]
    named = ", ".join(f"{_layers(values[place])} ({losses[place]})" for place in worse)
    if simplest != best:
        return (
            f"Take {_layers(values[simplest])}: test loss {losses[simplest]}, {NO_DIFFERENCE} from "
            f"{_layers(values[best])} with {losses[best]}. Worse: {named}."
        )
    return f"Take {_layers(values[best])}: test loss {losses[best]}. Worse: {named}."


def rule(desk: Desk) -> Answer | None:
    """Gradient descent against other learning rules, if asked."""
    base = desk.advised()
    rules = [GradientDescent(), *(LearningRule.from_table({"kind": kind}) for kind in desk.grid.rules)]
    choices = [choice_of(base, given, label=given.kind) for given in rules]
    cost = desk.costs.question("rule") / max(1, len(desk.grid.rules))
    scan = desk.scan("rule", choices, [cost] * len(choices), 0)
    if scan is None or len(scan.choices) < 2:
        desk.left_out.setdefault("rule", "no two of the choices train")
        return None
    names = [choice.rule.kind for choice in scan.choices]
    judgement = scan.judgement()
    verdict = " ".join(filter(None, (which_rule(names, judgement), _still(scan, names))))
    place = judgement.simplest
    return Answer(
        "rule",
        "Which learning rule?",
        verdict,
        names[place],
        _table("rule", names, scan, judgement, place),
        scan.data("rule", names),
        calls.training(desk.bench, scan.choices[place], scan.rates()[place], desk.folder.path.as_posix()),
    )


def which_rule(names: Sequence[str], judgement: Judgement) -> str:
    """Gradient descent comes first, and is the simplest."""
    best, losses = judgement.best, judgement.losses
    if judgement.undecided:
        return f"The rules make {NO_DIFFERENCE}: the lowest test loss is {losses[best]}, of {names[best]}."
    worse = [place for place in range(len(names)) if place not in judgement.alike]
    named = ", ".join(f"{names[place]} ({losses[place]})" for place in worse)
    same = [names[place] for place in judgement.alike if place != best]
    also = f", {NO_DIFFERENCE} from {', '.join(same)}" if same else ""
    return f"{names[best]} has the lowest test loss, {losses[best]}{also}. Worse: {named}."


def _table(heading: str, words: Sequence[str], scan: Scan, judgement: Judgement, marked: int | None = None) -> Table:
    """A row a choice."""
    data = scan.data("choice", list(words))
    classified = "test_accuracy" in data
    headings = (
        heading,
        "train loss",
        "test loss",
        "against the best",
        *(("test accuracy",) if classified else ()),
        "stopped at step",
        "learning rate",
        "ntk alignment before",
        "after",
    )
    rows = []
    for place, word in enumerate(words):
        gap = "lowest" if place == judgement.best else f"{judgement.differences[place].mean:+.2g}"
        gap += "" if place == judgement.best else f" ± {judgement.halves[place]:.2g}"
        if place in judgement.alike and place != judgement.best:
            gap += " (no difference)"
        cells = [
            word,
            str(over_splits(data["train_loss"].values[place], TEST_SHARE)),
            str(judgement.losses[place]),
            gap,
        ]
        if classified:
            cells.append(str(over_splits(data["test_accuracy"].values[place], TEST_SHARE)))
        cells += [str(int(data["stopping_step"][place])), f"{float(data['learning_rate'][place]):.3g}"]
        for end in ("before", "after"):
            value, error = (float(data[f"ntk_alignment_{end}{what}"][place]) for what in ("", "_error"))
            cells.append(str(Estimate(value, error, 2)))
        rows.append(tuple(cells))
    return Table(headings, tuple(rows), judgement.best if marked is None else marked)


def _word(richness: float) -> str:
    """0 is a limit."""
    return "0 (the lazy limit)" if richness == 0 else f"{richness:g}"


def _layers(count: int) -> str:
    return f"{count} hidden layer{'' if count == 1 else 's'}"
