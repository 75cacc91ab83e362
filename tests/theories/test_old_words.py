"""Words that were used before: each works, means the same, and says what to write now."""

import numpy as np
import pytest

import widefield as wf
from old_words import assert_takes_old_word
from widefield.base.errors import InvalidInput
from widefield.kernels import kernel_fluctuations, log_evidence, posterior, saddle_point
from widefield.problem.optimisers import Optimiser
from widefield.problem.theory import Theory

SETTINGS = [
    (wf.GradientFlow, "intervals", "steps", 7),
    (wf.GradientFlow, "accuracy", "tolerance", 1e-5),
    (wf.AlternatingMonteCarlo, "samples", "particles", 30),
    (wf.AlternatingMonteCarlo, "jacobian_samples", "jacobian_particles", 3),
    (wf.Lazy, "draws", "particles", 32),
    (wf.FiniteWidth, "first_seed", "seed", 5),
    (wf.FiniteWidth, "precision", "dtype", "float32"),
    (wf.Fluctuations, "first_seed", "seed", 5),
    (wf.GradientIndependence, "first_seed", "seed", 5),
    (wf.GradientIndependence, "bias", "particle_bias", True),
    (wf.InfiniteWidth, "first_seed", "seed", 5),
    (wf.InfiniteWidth, "bias", "particle_bias", True),
    (wf.Perturbative, "first_seed", "seed", 5),
    (wf.TwoLayer, "first_seed", "seed", 5),
    (wf.TwoLayer, "accuracy", "tolerance", 1e-5),
]
NEEDED = {wf.GradientFlow: {"t_end": 1.0}, wf.FiniteWidth: {"width": 8}, wf.Fluctuations: {"width": 8}}
POINT = saddle_point(wf.MLP(2, "tanh"), np.eye(3))


def test_every_old_setting_is_in_the_table():
    members = [*Theory.members.values(), *Optimiser.members.values()]
    ours = [member for member in members if member.__module__.startswith("widefield.")]
    assert {(cls, old, new) for cls in ours for old, new in cls.old_words.items()} == {row[:3] for row in SETTINGS}


@pytest.mark.parametrize(
    ("cls", "old", "new", "value"), SETTINGS, ids=lambda part: getattr(part, "__name__", str(part))
)
def test_settings(cls, old, new, value):
    needed = NEEDED.get(cls, {})
    expected = cls(**needed, **{new: value})
    assert getattr(expected, new) == value != getattr(cls(**needed), new)
    with pytest.warns(DeprecationWarning, match=rf"{cls.__name__}\({old}=...\) is now called {new}=..."):
        assert cls(**needed, **{old: value}) == expected
    with pytest.warns(DeprecationWarning, match=rf"{cls.__name__}.{old} is now called {cls.__name__}.{new}"):
        assert getattr(expected, old) == value
    with pytest.raises(InvalidInput, match="two words"), pytest.warns(DeprecationWarning, match=old):
        cls(**needed, **{old: value, new: value})
    table = {old if name == new else name: told for name, told in expected.to_table().items()}
    assert cls.from_table(table) == expected  # without a word: it was right when it was written
    assert new in expected.to_table()


def fluctuations(**settings):
    """Three samples, so that averages are sampled and the seed matters."""
    return kernel_fluctuations(POINT, **{"width_ratios": (1.0, 1.0), "points": 16, **settings}).covariance


KERNEL = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 1.5]])
BLOCKS = wf.kernels.Blocks(KERNEL[:2, :2], KERNEL[2:, :2], KERNEL[2:, 2:])
FUNCTIONS = {
    "kernel_fluctuations, ratios": (
        lambda **ratios: kernel_fluctuations(POINT, points=16, **ratios).covariance,
        ("ratios", "width_ratios", (2.0, 1.0)),
    ),
    "kernel_fluctuations, first_seed": (fluctuations, ("first_seed", "seed", 3)),
    "posterior": (lambda **ridge: posterior(BLOCKS, [1.0, -1.0], **ridge).mean, ("noise", "ridge", 0.3)),
    "log_evidence": (lambda **ridge: log_evidence(BLOCKS.train, [1.0, -1.0], **ridge), ("noise", "ridge", 0.3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    call, (old, new, value) = FUNCTIONS[name]
    expected = assert_takes_old_word(call, old, new, value)
    if new != "width_ratios":  # which has no default
        assert np.any(call() != expected)


ATTRIBUTES = {
    "SaddlePoint.features": (POINT, "feature_kernel"),
    "SaddlePoint.gradients": (POINT, "gradient_kernel"),
    "KernelFluctuations.accuracy": (kernel_fluctuations(POINT, (1.0, 1.0), points=16), "relative_error"),
    "MLP.ratios": (wf.MLP(2, width_ratios=(1.0, 2.0)), "normalised_width_ratios"),
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attributes(name):
    thing, new = ATTRIBUTES[name]
    with pytest.warns(DeprecationWarning, match=rf"{name} is now called {name.split('.')[0]}.{new}"):
        np.testing.assert_array_equal(getattr(thing, name.split(".")[1]), getattr(thing, new))


def test_trajectories():
    problem = wf.Problem(
        wf.MLP(2, "tanh"),
        wf.data.sphere(samples=3, dimension=4),
        optimiser=wf.SGD(0.1, 4),
        record=wf.Record(two_time=True),
    )
    found = wf.solve(problem, wf.Lazy())
    expected = found.two_time("feature_kernel", 1, time=0.2, time_=0.1)
    with pytest.warns(DeprecationWarning, match=r"two_time\([ts]=...\) is now called time"):
        assert found.two_time("feature_kernel", 1, t=0.2, s=0.1).identical(expected)
    with pytest.warns(DeprecationWarning, match="gradient_correlation is now called Trajectory.gradient_cosine"):
        assert found.gradient_correlation().identical(found.gradient_cosine())
