"""Arrays of every kind, and problems at the ends of what numbers can be."""

import dataclasses
import itertools

import jax
import numpy as np
from tally import COMPILING, PATIENCE, Tally, Wrong

import widefield as wf


def arrays():
    """Things that people hand over as data, by name."""
    x = np.random.default_rng(0).normal(size=(3, 2))
    kinds = (
        "bool",
        "i1",
        "i8",
        "u1",
        "u8",
        "f2",
        "f4",
        "f8",
        "g",
        ">f8",
        "c8",
        "c16",
        "O",
        "U5",
        "S5",
        "M8[s]",
        "m8[s]",
    )
    for kind in kinds:
        yield f"dtype {kind}", x.astype(kind) if kind[0] not in "Mm" else np.zeros((3, 2), kind)
    yield from {
        "nan": np.where(x > 1, np.nan, x) * np.nan,
        "infinite": np.full((3, 2), np.inf),
        "masked": np.ma.masked_greater(x, 0.0),
        "masked nowhere": np.ma.masked_greater(x, 100.0),
        "empty": np.zeros((0, 2)),
        "no columns": np.zeros((3, 0)),
        "one number": np.float64(1.0),
        "one axis": x[0],
        "three axes": x[None],
        "ragged": [[1.0], [1.0, 2.0]],
        "nested": [[[[1.0]]]],
        "text": "abc",
        "none": None,
        "words": [["a", "b"]] * 3,
        "object": [[object(), 1]] * 3,
        "dictionary": {"a": 1},
        "generator": (row for row in x),
        "strided": np.asfortranarray(np.tile(x, (2, 2)))[::2, ::2],
        "negative strides": x[::-1, ::-1],
        "read only": np.broadcast_to(x[0], (3, 2)),
        "structured": np.zeros(3, dtype=[("a", "f8"), ("b", "f8")]),
        "memory view": memoryview(np.ascontiguousarray(x)),
        "huge": x * 1e300,
        "tiny": x * 1e-300,
        "subnormal": np.full((3, 2), 5e-324),
        "largest": np.full((3, 2), np.finfo(float).max),
        "constant": np.ones((3, 2)),
        "zero": np.zeros((3, 2)),
        "equal rows": np.tile(x[:1], (3, 1)),
    }.items()


def attack_arrays(seed=0):
    """Each as inputs and as targets; what is accepted is trained on for a step."""
    tally = Tally("arrays")
    good = np.random.default_rng(seed).normal(size=(3, 2))
    for name, value in arrays():
        for place in ("inputs", "targets"):
            with tally.attack(f"{name} as {place}"):
                data = wf.Data(value, [1.0, 2.0, 3.0]) if place == "inputs" else wf.Data(good, value)
                _solved(wf.Problem(wf.MLP(1, "tanh"), data, optimiser=wf.SGD(0.01, 1)), wf.FiniteWidth(2))
    return tally


THEORIES = {
    "networks": lambda: wf.FiniteWidth(3),
    "one neuron": lambda: wf.FiniteWidth(1),
    "single": lambda: wf.FiniteWidth(3, dtype="float32"),
    "infinite width": lambda: wf.InfiniteWidth(particles=64, replicas=2, rank_tolerance=0.1),
    "few particles": lambda: wf.InfiniteWidth(particles=2, replicas=1),
    "one particle": lambda: wf.InfiniteWidth(particles=1),
    "lazy": lambda: wf.Lazy(),
    "perturbative": lambda: wf.Perturbative(particles=64, replicas=2),
    "closed": lambda: wf.ClosedLinear(),
    "two-layer": lambda: wf.TwoLayer(particles=64),
    "two-layer, one particle": lambda: wf.TwoLayer(particles=1),
    "effective": lambda: wf.EffectiveTheory(8),
    "fluctuations": lambda: wf.Fluctuations(10),
    "independence": lambda: wf.GradientIndependence(particles=64, replicas=2),
    "alternating": lambda: wf.AlternatingMonteCarlo(particles=64),
    "alternating, one particle": lambda: wf.AlternatingMonteCarlo(particles=1),
}
"""How to make every theory, also with a single neuron or particle; that may already be refused."""

BASE = wf.Problem(wf.MLP(1, "tanh"), wf.data.sphere(samples=2, dimension=3), optimiser=wf.SGD(0.1, 2))


def extremes():
    """How to make problems at the ends, by name; to make one may already be refused."""
    x, y = np.array([[1.0, 2.0], [2.0, -1.0]]), np.array([1.0, -1.0])
    for richness in (1e-150, 1e-30, 1e-8, 0.0, 1e-3, 30.0, 1e3, 1e150):
        yield f"richness {richness:g}", _with("network", wf.MLP, 1, "tanh", richness=richness)
    for rate in (1e-300, 1e-20, 10.0, 1e3, 1e10, 1e300):
        yield f"rate {rate:g}", _with("optimiser", wf.SGD, rate, 3)
    for size in (1e-300, 1e-160, 1e-20, 1e5, 1e20, 1e160, 1e300):
        yield f"inputs of {size:g}", _with("data", wf.Data, size * x, y)
        yield f"targets of {size:g}", _with("data", wf.Data, x, size * y)
    for variance in (1e-300, 1e-10, 1e10, 1e300):
        yield f"weights of {variance:g}", _with("network", wf.MLP, 1, "tanh", weight_variances=variance)
    for name, data in {
        "zero targets": (x, 0 * y),
        "zero inputs": (0 * x, y),
        "one class": (x, [1.0, 1.0]),
        "equal inputs": ([[1.0, 2.0]] * 2, y),
        "one sample": (x[:1], [1.0]),
        "one dimension": (x[:, :1], y),
        "ten outputs": (x, np.eye(10)[:2]),
    }.items():
        yield name, _with("data", wf.Data, *data)
    for name in ("linear", "relu", "erf", "sin", "monomial(3)", "monomial(9)", "perceptron"):
        yield name, _with("network", wf.MLP, 1, name)
    yield "logistic", _with("loss", wf.Logistic)
    for threshold in (1e-300, 1e300):
        yield f"Huber {threshold:g}", _with("loss", wf.Huber, threshold)
    yield "depth 6", _with("network", wf.MLP, 6, "relu")
    for name in ("tanh", "linear"):
        yield f"depth 50, {name}", _with("network", wf.MLP, 50, name)


def attack_extremes(theories=tuple(THEORIES), step=1):
    """Every theory on every problem: a finite answer, a loss that exploded, or a refusal."""
    tally = Tally("numerical extremes")
    cases = list(itertools.product(theories, extremes()))
    for number, (theory, (name, make)) in enumerate(cases[::step]):
        if number % 50 == 49:
            jax.clear_caches()  # compiled programs of hundreds of cases fill the memory map of a process
        with tally.attack(f"{theory}: {name}", COMPILING if name.startswith("depth 50") else PATIENCE):
            _solved(make(), THEORIES[theory]())
    return tally


def _with(part, make, *args, **options):
    return lambda: dataclasses.replace(BASE, **{part: make(*args, **options)})


def _solved(problem, theory):
    """Solve, and look at every number of an answer that calls itself complete."""
    answer = wf.solve(problem, theory, progress=False, throw=False)
    if answer.status != "complete":
        if not answer.message:
            raise Wrong(f"{answer.status} without a word")
        return
    for name, value in answer.data.data_vars.items():
        bad = ~np.isfinite(value.values)
        if bad.any() and not str(name).endswith("_error"):
            raise Wrong(f"{name} is not finite in a complete answer")
    _check_what_is_known(problem, answer)


def _check_what_is_known(problem, answer):
    """Outputs begin at zero, which makes the first loss known; nothing moves it if rate or targets vanish.

    Frozen kernels: f(1) = rate K(0) y for the squared error.
    """
    y, rate = problem.samples.y, problem.optimiser.learning_rate
    loss, outputs = (answer.mean(name).values for name in ("loss", "outputs"))
    single = "float32" in (answer.data.attrs.get("dtype"), getattr(answer.theory, "dtype", None))
    least = np.finfo("f4" if single else "f8").tiny
    still = rate <= 1e-20 or not y.any()
    for step, found in enumerate(loss if still else loss[:1]):
        if not np.isclose(found, _first_loss(problem.loss, y), rtol=1e-5, atol=least):
            raise Wrong(f"the loss at record {step} is {found}, not {_first_loss(problem.loss, y)}")
    if not y.any() and np.abs(outputs).max() > 0:
        raise Wrong("outputs move although every target is zero")
    if isinstance(answer.theory, wf.Lazy) and isinstance(problem.loss, wf.SquaredError) and answer.data.step[1] == 1:
        kernel = answer.data["ntk"].values[0]
        kernel = kernel if kernel.ndim == 2 else np.einsum("paqa->pq", kernel) / y.shape[1]
        expected = rate * kernel @ y
        if not np.allclose(outputs[1], expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max() + least):
            raise Wrong(f"the first step gives {outputs[1]}, not {expected}")


def _first_loss(loss, y):
    """Of outputs that vanish."""
    size = np.abs(y)
    if isinstance(loss, wf.Logistic):
        return y.size * np.log(2)
    if isinstance(loss, wf.Huber):
        return np.sum(np.where(size <= loss.threshold, size**2 / 2, loss.threshold * (size - loss.threshold / 2)))
    return np.sum(size**2) / 2


SIZES = (10**9, 10**15, 2**62, 10**30, 1e30)


def sizes(size):
    """How to make problems and theories that are too large, by name; all but what is asked for is small."""
    for theory, make in THEORIES.items():
        yield f"steps, {theory}", lambda make=make: (_with("optimiser", wf.SGD, 0.1, size)(), make())
        yield f"hidden layers, {theory}", lambda make=make: (_with("network", wf.MLP, size)(), make())
        for name in ("samples", "test_samples", "dimension"):
            small = {"samples": 2, "dimension": 3, name: size}
            yield f"{name}, {theory}", lambda make=make, small=small: (_with("data", wf.data.sphere, **small)(), make())
    for name, make in {
        "width": lambda: wf.FiniteWidth(size),
        "seeds": lambda: wf.FiniteWidth(3, seeds=size),
        "particles": lambda: wf.InfiniteWidth(particles=size, replicas=2),
        "replicas": lambda: wf.InfiniteWidth(particles=64, replicas=size),
        "perturbative particles": lambda: wf.Perturbative(particles=size, replicas=2),
        "perturbative replicas": lambda: wf.Perturbative(particles=64, replicas=size),
        "particles of two layers": lambda: wf.TwoLayer(particles=size, method="sampled"),
        "replicas of two layers": lambda: wf.TwoLayer(particles=64, replicas=size, method="sampled"),
        "alternating particles": lambda: wf.AlternatingMonteCarlo(particles=size),
        "alternating replicas": lambda: wf.AlternatingMonteCarlo(particles=64, replicas=size),
        "particles of gradient independence": lambda: wf.GradientIndependence(particles=size, replicas=2),
    }.items():
        yield name, lambda make=make: (BASE, make())
    many = _with("data", wf.data.sphere, samples=8, dimension=3)  # few need no points
    yield "points of fluctuations", lambda: (many(), wf.Fluctuations(10, points=size))
    yield "replicas of fluctuations", lambda: (many(), wf.Fluctuations(10, replicas=size))
    yield "batch size", lambda: (_with("optimiser", wf.SGD, 0.1, 2, batch_size=size)(), wf.FiniteWidth(3))
    yield "outputs", lambda: (_with("network", wf.MLP, 1, outputs=size)(), wf.FiniteWidth(3))


def attack_sizes(sizes_tried=SIZES):
    """Sizes without limit: each is refused before anything is computed."""
    tally = Tally("sizes without limit")
    for size in sizes_tried:
        for name, make in sizes(size):
            with tally.attack(f"{name} = {size:g}", patience=10):
                problem, theory = make()
                wf.solve(problem, theory, progress=False)
                raise Wrong("it was computed")
    return tally
