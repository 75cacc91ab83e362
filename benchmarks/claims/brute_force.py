"""The cheapest ensemble of real networks that is as accurate as an answer of width infinity.

The mean of n networks has the error sqrt(bias^2 + spread^2 / n), both of its width. Which width is cheapest is decided
in hindsight, with bias and spread that nobody who has only the networks would know: this favours brute force.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import widefield as wf
from claims.measuring import Claim, Cost, seconds
from claims.problems import Sizes
from claims.quantities import of_answer, relative_errors, worst_of_each_name
from claims.truths import Truth

WIDEST = 2**14
PAIR_SECONDS = 20.0
"""Larger ensembles are timed in part, and their time is scaled up."""


@dataclass(frozen=True)
class Choice:
    """So many networks of a width, and what they take."""

    width: int
    networks: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.networks} networks of width {self.width} ({self.seconds:.3g} s)"


def networks_needed(goal: Mapping[str, float], bias: Mapping[str, float], spread: Mapping[str, float]) -> float:
    """Networks whose mean is as accurate as the goal in every quantity; infinite where the bias alone is larger."""
    rooms = {name: goal[name] ** 2 - bias[name] ** 2 for name in goal}
    if min(rooms.values()) <= 0:
        return math.inf
    return max(1, math.ceil(max(spread[name] ** 2 / room for name, room in rooms.items())))


class Search:
    """Looks for the cheapest width; times of widths are measured once."""

    def __init__(self, problem: wf.Problem, truth: Truth, sizes: Sizes) -> None:
        self.problem, self.truth, self.sizes = problem, truth, sizes
        self.timed: dict[int, float] = {}

    def seconds_per_network(self, width: int) -> float:
        """Once it is compiled."""
        if width not in self.timed:
            networks = self.sizes.pilot_networks
            theory = wf.FiniteWidth(width, seeds=networks, dtype="float32")
            train = seconds(lambda: wf.solve(self.problem, theory, progress=False))
            train()
            self.timed[width] = train() / networks
        return self.timed[width]

    def cheapest(self, goal: Mapping[str, float]) -> Choice:
        """Of the widths given, or if none is accurate enough of the first beyond them that is."""
        counts = {width: self._needed(goal, width) for width in self.sizes.widths}
        width = max(self.sizes.widths)
        while math.isinf(min(counts.values())) and width < WIDEST:
            width *= 2
            counts[width] = self._needed(goal, width)
        able = {width: int(count) for width, count in counts.items() if math.isfinite(count)}
        if not able:
            raise ValueError(f"no network of up to {WIDEST} neurons is accurate enough")
        choices = [Choice(width, count, count * self.seconds_per_network(width)) for width, count in able.items()]
        return min(choices, key=lambda choice: choice.seconds)

    def _needed(self, goal: Mapping[str, float], width: int) -> float:
        return networks_needed(goal, self.truth.bias_of(width), self.truth.spread_of(width))


def error_of_answers(problem: wf.Problem, truth: Truth, sizes: Sizes) -> dict[str, float]:
    """Root mean square error over a few independent answers of width infinity."""
    squares: dict[str, list[float]] = {}
    for number in range(sizes.answers_judged):
        answer = wf.solve(problem, sizes.ours_with_seed(1000 * number), progress=False)
        for name, error in relative_errors(of_answer(answer, truth.record), truth.values).items():
            squares.setdefault(name, []).append(error**2)
    return {name: math.sqrt(float(np.mean(found))) for name, found in squares.items()}


def claim(problem: wf.Problem, truth: Truth, sizes: Sizes) -> Claim:
    """Width infinity against the cheapest ensemble whose worst error is no larger than its own worst error."""
    errors = error_of_answers(problem, truth, sizes)
    worst = max(errors.values())
    remark = "" if sizes.quick else truth.check_good_enough(worst)
    search = Search(problem, truth, sizes)
    choice = search.cheapest(dict.fromkeys(errors, worst))
    by_name = search.cheapest(worst_of_each_name(errors))
    pilots = sizes.pilot_networks * sum(search.seconds_per_network(width) for width in sizes.widths)
    worst_quantity = max(errors, key=lambda name: errors[name])
    notes = [
        f"error {worst:.2%} ({worst_quantity}), of the truth itself {max(truth.own_error.values()):.2%}{remark}",
        f"cheapest in hindsight: {choice}; with pilots of all widths to find it {choice.seconds + pilots:.3g} s",
        f"to match outputs and each kind of kernel one by one: {by_name}",
    ]
    ours = seconds(lambda: wf.solve(problem, sizes.ours, progress=False))
    ours()
    return Claim(ours, _training(problem, choice), notes=notes)


def _training(problem: wf.Problem, choice: Choice) -> Cost:
    """Seconds of the whole ensemble, warm."""
    networks = max(1, min(choice.networks, int(PAIR_SECONDS * choice.networks / choice.seconds)))
    theory = wf.FiniteWidth(choice.width, seeds=networks, dtype="float32")
    train = seconds(lambda: wf.solve(problem, theory, progress=False))
    train()
    return lambda: train() * choice.networks / networks
