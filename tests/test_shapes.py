"""Shapes that annotations give are checked in all tests: in every room, and none left out."""

import ast
import dataclasses
import importlib
import inspect
import pkgutil

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int, TypeCheckError

import widefield
from shape_checks import checked_names, fits, holds_array
from widefield.activations import get
from widefield.gaussian.gradients import Gradients
from widefield.gaussian.jacobians import feature_jacobian
from widefield.gaussian.sample_pairs import Pairs
from widefield.kernels.fluctuations import combined
from widefield.matrices.substrate import OuterProducts, inner
from widefield.problem.layer_rates import LayerRates
from widefield.problem.losses import SquaredError
from widefield.problem.weight_memory import WeightMemory
from widefield.proportional.extrapolation import heun_limit
from widefield.solvers.alternating.triangular import lower_times
from widefield.solvers.closed.solution import for_all_samples
from widefield.solvers.perturbation.nonlinear import _mean
from widefield.solvers.two_layer.particles import _matched
from widefield.theories.fluctuations import _descent
from widefield.training.observe import tangent_kernel

WRONG = {
    "gaussian": lambda: feature_jacobian(get("tanh"), np.eye(2)[:1], Pairs.within(2)),
    "matrices": lambda: inner(jnp.ones((2, 3)), jnp.ones((2, 4))),
    "matrices, an equinox module": lambda: OuterProducts(*(jnp.ones((2, 3)),) * 3, jnp.ones(())),
    "problem": lambda: SquaredError().value(jnp.ones((2, 1)), jnp.ones((2, 2))),
    "problem, a dataclass": lambda: WeightMemory(np.ones(2), np.eye(3), np.eye(3)),
    "training": lambda: tangent_kernel(
        [jnp.ones((2, 2)), jnp.ones((2, 3))], [jnp.ones((2, 1, 2, 1))], LayerRates((1.0, 1.0), (0.0, 0.0))
    ),
    "kernels": lambda: combined(np.ones((2, 1, 3, 2, 1, 3)), np.ones((2, 1, 2))),
    "solvers, alternating": lambda: lower_times(jnp.eye(3), jnp.ones((2, 5))),
    "solvers, closed": lambda: for_all_samples(np.ones((3, 2, 1, 2)), 4),
    "solvers, perturbation": lambda: _mean(jnp.ones((3, 2)), jnp.ones((4, 2))),
    "solvers, two layers": lambda: _matched(jnp.ones((2, 5)), jnp.ones((2, 4))),
    "theories": lambda: _descent(np.ones((2, 3)), np.ones(2), Pairs.within(2), np.ones(4)),
    "effective, a dataclass": lambda: Gradients((np.ones((1, 3)),), np.ones(2)),
    "proportional": lambda: heun_limit([np.ones(3), np.ones(4)]),
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG)
def test_wrong_shapes_are_noticed(call):
    with pytest.raises(TypeCheckError, match="Type-check error"):
        call()


def test_no_annotation_of_an_array_is_left_out():
    # jaxtyping takes an annotation that it cannot read, where a name is defined later or not at all, for Any.
    packages = pkgutil.walk_packages(widefield.__path__, "widefield.")
    modules = [importlib.import_module(p.name) for p in packages if not p.name.endswith("__main__")]
    found = {
        (module.__name__, function, argument)
        for module in modules
        for function, argument, hint in annotations(ast.parse(inspect.getsource(module)).body, module)
        if is_of_arrays(ast.unparse(hint), module)
    }
    assert len(found) > 700
    assert {place for place in found if place[2] not in checked_names[place[:2]]} == set()


def annotations(body, owner, prefix=""):
    """(function, argument, annotation) of functions and methods, and of the fields of dataclasses."""
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from annotations(node.body, getattr(owner, node.name), f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
            named = [(a.arg, a.annotation) for a in every if a is not None] + [("return", node.returns)]
            yield from ((prefix + node.name, name, hint) for name, hint in named if hint is not None)
        elif isinstance(node, ast.AnnAssign) and dataclasses.is_dataclass(owner):
            given = {field.name for field in dataclasses.fields(owner) if field.init}
            yield from ((f"{prefix}__init__", name, node.annotation) for name in given & {node.target.id})


def is_of_arrays(text, module):
    try:
        return holds_array(eval(text, vars(module)))
    except NameError:  # a name that only type checkers import
        return any(kind in text for kind in ("Float[", "Int[", "Bool["))


def test_every_item_is_looked_at():
    numbers = Float[np.ndarray, "_"]
    assert fits([np.ones(2), np.ones(3)], list[numbers])
    assert not fits([np.ones(2), np.ones((3, 1))], list[numbers])
    assert not fits((np.ones(2), 3), tuple[numbers, numbers])
    assert not fits({"a": np.ones(2), "b": np.ones((2, 2))}, dict[str, numbers])
    assert fits(None, numbers | None)
    assert fits(3, numbers | float)
    assert not fits(np.ones((2, 2)), numbers | float)
    assert not fits(jnp.ones(2), Int[Array, "_"])
