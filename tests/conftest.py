"""Strict settings: no silent promotion of types or ranks anywhere in the package."""

import gc
import os

# Tests compile much and run little.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import hypothesis
import jax
import jaxtyping
import matplotlib as mpl
import pytest

# Shapes are checked from here on. pytest's option of jaxtyping does not reach the workers of pytest-xdist.
jaxtyping.install_import_hook("widefield", "shape_checks.checked")

import widefield as wf  # noqa: E402

mpl.use("Agg")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
hypothesis.settings.register_profile("widefield", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("widefield")


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_code():
    """Code compiled for one module is of no use to the next; all of it together takes gigabytes, and time."""
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture
def double():
    """Double precision for tests that call jax themselves."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def small_problem():
    """A problem that takes a moment."""
    return wf.Problem(
        network=wf.MLP(hidden_layers=2, activation="tanh", richness=1.5),
        data=wf.data.sphere(samples=4, dimension=6, test_samples=3, seed=1),
        optimiser=wf.SGD(learning_rate=0.05, steps=12),
        record=wf.Record(every=3, neurons=5),
    )
