"""Strict settings: no silent promotion of types or ranks anywhere in the package; compiled programs are shared."""

import gc
import os
import shutil
from pathlib import Path

# Tests compile much and run little. What is compiled is kept in a folder, where other modules, workers, commands and
# later runs find it under a hash of the program, the flags and the version of jax.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import hypothesis
import jax
import jaxtyping
import matplotlib as mpl
import pytest

pytest.register_assert_rewrite("problems")  # so that failures in its checks show their values

# Shapes are checked from here on. pytest's option of jaxtyping does not reach the workers of pytest-xdist.
jaxtyping.install_import_hook("widefield", "shape_checks.checked")

import widefield as wf  # noqa: E402
from slow_share import (  # noqa: E402, F401 (the options --slow-share and --slow-minutes)
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_setup,
    pytest_terminal_summary,
)

COMPILED = Path(__file__).parents[1] / ".pytest_cache" / "compiled"
LARGEST_CACHE = 10**9  # bytes; one run of all tests leaves a tenth

mpl.use("Agg")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
hypothesis.settings.register_profile("widefield", deadline=None, derandomize=True, max_examples=30)
hypothesis.settings.load_profile("widefield")


def pytest_sessionstart(session):
    """Old programs are never asked for again: from time to time all are thrown away."""
    if not hasattr(session.config, "workerinput") and COMPILED.is_dir():
        size = sum(entry.stat().st_size for entry in COMPILED.iterdir())
        if size > LARGEST_CACHE:
            shutil.rmtree(COMPILED, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def forget_compiled_code():
    """Compiled code of all modules together takes gigabytes of memory; what the next module shares is read again."""
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
