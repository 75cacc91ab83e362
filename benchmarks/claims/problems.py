"""The problems of the claims, in their sizes and in tiny ones to try the scripts with."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import widefield as wf
from widefield.cli.demo import default_problem

DIGIT_RATES = {"small": 0.32, "large": 2.0}
"""Learning rates times the number of digits. Between 3 and 4 networks begin to diverge, narrow ones first."""


FIXED = wf.InfiniteWidth(particles=1024, replicas=2, rank_tolerance=1e-2)
"""Where the numerical settings must not depend on what is recorded."""

TINY = wf.InfiniteWidth(particles=128, replicas=2, rank_tolerance=1e-2)


@dataclass(frozen=True)
class Sizes:
    """How large everything is."""

    layers: int = 3
    samples: int = 10
    steps: int = 100
    long_steps: int = 3200
    rates: int = 20
    sphere_samples: int = 40
    sphere_steps: int = 50
    digits: int = 64
    more_digits: int = 256
    digit_steps: int = 60
    few_digit_steps: int = 20
    slow_digit_steps: int = 500
    ours: wf.InfiniteWidth = dataclasses.field(default_factory=wf.InfiniteWidth)
    to_two_percent: wf.InfiniteWidth = dataclasses.field(default_factory=lambda: wf.InfiniteWidth(tolerance=0.02))
    fixed: wf.InfiniteWidth = FIXED
    widths: tuple[int, ...] = (64, 128, 256, 512)
    pilot_networks: int = 32
    answers_judged: int = 8
    quick: bool = False

    def ours_with_seed(self, seed: int) -> wf.InfiniteWidth:
        """An independent answer."""
        return dataclasses.replace(self.ours, seed=seed)

    def asking_for(self, tolerance: float) -> Sizes:
        """Width infinity with another tolerance; tiny sizes have none."""
        if self.quick:
            return self
        return dataclasses.replace(self, ours=dataclasses.replace(self.ours, tolerance=tolerance))


FULL = Sizes()
QUICK = Sizes(
    layers=2,
    samples=3,
    steps=4,
    long_steps=6,
    rates=3,
    sphere_samples=4,
    sphere_steps=4,
    digits=4,
    more_digits=4,
    digit_steps=4,
    few_digit_steps=4,
    slow_digit_steps=4,
    ours=TINY,
    to_two_percent=TINY,
    fixed=TINY,
    widths=(8, 16),
    pilot_networks=2,
    answers_judged=2,
    quick=True,
)


def default(sizes: Sizes) -> wf.Problem:
    """What `widefield new` describes (P = 10, T = 100, L = 3, tanh, gamma_0 = 1)."""
    problem = default_problem()
    if not sizes.quick:
        return problem
    return dataclasses.replace(
        problem,
        network=wf.MLP(hidden_layers=sizes.layers, activation="tanh"),
        data=wf.data.sphere(samples=sizes.samples, dimension=25, seed=0),
        optimiser=wf.SGD(learning_rate=0.05, steps=sizes.steps),
    )


def at_rate(problem: wf.Problem, learning_rate: float) -> wf.Problem:
    """The same problem with another learning rate."""
    return dataclasses.replace(problem, optimiser=wf.SGD(learning_rate, problem.optimiser.steps))


def long(sizes: Sizes, record: wf.Record) -> wf.Problem:
    """The default problem with very many steps."""
    problem = default(sizes)
    optimiser = wf.SGD(float(problem.optimiser.rates()[0]), sizes.long_steps)
    return dataclasses.replace(problem, optimiser=optimiser, record=record)


def sphere(sizes: Sizes) -> wf.Problem:
    """More points, fewer steps."""
    return wf.Problem(
        network=wf.MLP(hidden_layers=sizes.layers, activation="tanh"),
        data=wf.data.sphere(samples=sizes.sphere_samples, dimension=25, seed=0),
        optimiser=wf.SGD(learning_rate=0.05, steps=sizes.sphere_steps),
        record=wf.Record(every=max(1, sizes.sphere_steps // 5), neurons=0),
    )


def digits(sizes: Sizes, samples: int, steps: int, rate: str) -> wf.Problem:
    """Real images of zeros and ones."""
    return wf.Problem(
        network=wf.MLP(hidden_layers=sizes.layers, activation="tanh"),
        data=wf.data.digits(samples=samples, classes=(0, 1)),
        optimiser=wf.SGD(learning_rate=DIGIT_RATES[rate] / samples, steps=steps),
        record=wf.Record(every=max(1, steps // 4), neurons=0),
    )


def slow_digits(sizes: Sizes) -> wf.Problem:
    """Many digits and many steps."""
    problem = digits(sizes, sizes.more_digits, sizes.slow_digit_steps, "small")
    return dataclasses.replace(problem, record=wf.Record(every=max(1, sizes.slow_digit_steps // 10), neurons=0))
