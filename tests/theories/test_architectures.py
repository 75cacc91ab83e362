"""Networks other than MLPs at width infinity: linear ones exactly, all against real networks; wrong engines fail."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

import made_networks as made
import widefield as wf
from widefield.matrices.decoupled import Decoupled

GAMMA, RATE, STEPS = 1.5, 0.1, 8


def problem_of(network, shape, *, steps=STEPS, rate=RATE, record=None, outputs=1, **options):
    rng = np.random.default_rng(7)
    x, y = rng.standard_normal((3, *shape)), rng.standard_normal((3, outputs))
    record = wf.Record(steps=(steps // 2, steps), neurons=0) if record is None else record
    return wf.Problem(network, (x, y), optimiser=wf.SGD(rate, steps, **options), record=record)


LINEAR = {
    "W and its transpose": (made.Auto("linear", richness=GAMMA), (4,)),
    "residual": (made.Residual(2, activation="linear", richness=GAMMA), (4,)),
    "recurrent": (made.Recurrent("linear", richness=GAMMA), (3, 2)),
    "cnn": (made.CNN("linear", ratio=1.5, richness=GAMMA), (4, 2)),
    "tied": (made.Tied(activation="linear", richness=GAMMA), (4,)),
    "transformer": (made.Transformer(gains=False, activation="linear", richness=GAMMA), (3, 4)),
}


@pytest.mark.parametrize(
    "case", [case if case == "W and its transpose" else pytest.param(case, marks=pytest.mark.slow) for case in LINEAR]
)
def test_linear_networks_depend_neither_on_the_seed_nor_on_the_number_of_particles(case):
    """Given scalars such as attention weights, which follow from second moments, every field is Gaussian."""
    network, shape = LINEAR[case]
    problem = problem_of(network, shape, steps=4)
    sizes = (384, 512) if case == "transformer" else (256, 384)
    answers = [
        wf.solve(problem, wf.InfiniteWidth(particles, 1, rank_tolerance=1e-7, seed=seed)).data
        for seed, particles in enumerate(sizes)
    ]
    for name, value in answers[0].items():
        if name.partition(":")[0] in ("outputs", "loss", "ntk", "feature_kernel", "gradient_kernel", "scalar"):
            size = float(np.abs(value).max())
            np.testing.assert_allclose(answers[1][name], value, rtol=0, atol=1e-11 * size, err_msg=name)
    assert float(answers[0].loss[-1]) < 0.95 * float(answers[0].loss[0])


@dataclass(frozen=True)
class Independent(wf.InfiniteWidth, kind="test-independent"):
    """A wrong engine: backward passes see copies of all matrices."""

    substrate: ClassVar = Decoupled


CASES = {
    "residual": (made.Residual(richness=GAMMA), (4,)),
    "recurrent": (made.Recurrent(richness=GAMMA), (4, 2)),
    "cnn": (made.CNN(richness=GAMMA), (5, 2)),
    "gated": (made.Gated(richness=GAMMA), (4,)),
    "tied, residual": (made.Tied(skip=True, richness=GAMMA), (4,)),
    "W and its transpose": (made.Auto(richness=GAMMA), (4,)),
}


@cache
def networks(case, width=1024, seeds=24):
    return wf.solve(problem_of(*CASES[case]), wf.FiniteWidth(width, seeds=seeds, dtype="float32")).data


def scores(data, networks, names):
    """z of all numbers of these kinds, at both recorded times after the start; kernels of several outputs too."""
    found = []
    for name in (name for name in networks.data_vars if name.partition(":")[0] in names):
        one, other = (d[name].isel(time=slice(1, None)).values for d in (data, networks))
        variance = sum(v.var(axis=0, ddof=1) / len(v) for v in (one, other))
        found.append(((one.mean(axis=0) - other.mean(axis=0)) / np.sqrt(variance)).ravel())
    return np.concatenate(found)


def rms(values):
    return float(np.sqrt(np.mean(values**2)))


def replicas(problem, theory, particles, count):
    """Solutions with an axis of seeds."""
    import xarray as xr

    theories = [theory(particles, 1, rank_tolerance=1e-2, seed=seed) for seed in range(count)]
    return xr.concat([wf.solve(problem, one).data for one in theories], "seed", join="override")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_infinite_width_is_the_limit_of_networks(case):
    """The bias of width 1024 is below a standard error of 24 networks. Losses, and gradients of readouts, are alike."""
    found = replicas(problem_of(*CASES[case]), wf.InfiniteWidth, 1024, 8)
    for names in (("outputs",), ("loss",), ("ntk", "feature_kernel"), ("gradient_kernel",)):
        z = scores(found, networks(case), names)
        print(case, names, f"rms z {rms(z):.2f}, largest {np.abs(z).max():.1f} of {z.size}")
        assert rms(z) < 2 or names in (("loss",), ("gradient_kernel",)), names
        assert np.mean(np.abs(z) > 4) <= 0.01, names


@pytest.mark.slow
@pytest.mark.parametrize("case", ["residual", "W and its transpose"])
def test_an_engine_that_decouples_backward_passes_fails(case):
    found = replicas(problem_of(*CASES[case]), Independent, 1024, 6)
    z = scores(found, networks(case), ("outputs",))
    print(case, f"rms z {rms(z):.1f}")
    assert rms(z) > 6


ATTENTION = {
    "separate": made.Transformer(gains=False, richness=GAMMA),
    "query = key": made.Transformer(gains=False, shared=True, richness=GAMMA),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ATTENTION)
def test_a_transformer_is_the_limit_of_networks_in_outputs_and_attention(case):
    """Without trained gains, whose tails are heavy; at rates where no loss oscillates; a wrong engine fails."""
    problem = problem_of(ATTENTION[case], (3, 4))
    real = wf.solve(problem, wf.FiniteWidth(512, seeds=64, dtype="float32")).data
    assert RATE * np.linalg.eigvalsh(real.ntk.mean("seed").values).max() < 1.5
    found = replicas(problem, wf.InfiniteWidth, 1024, 4)
    outputs, attention = (rms(scores(found, real, (name,))) for name in ("outputs", "scalar"))
    wrong = replicas(problem, Independent, 1024, 4)
    wrong_outputs = rms(scores(wrong, real, ("outputs",)))
    print(f"{case}: rms z {outputs:.2f}, {attention:.2f}; wrong {wrong_outputs:.1f}")
    assert outputs < 3
    assert attention < 2.5
    assert wrong_outputs > 10
