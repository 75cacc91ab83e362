"""The table of activations: `get`, `register`, `names`; and what is kept of those that are not in it."""

from __future__ import annotations

import copyreg
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base import check
from ..base.errors import InvalidInput, UnknownName
from ..base.numbers import double_precision
from .activation import Activation, Elementwise, OneVariance, TwoVariances
from .standard import FAMILIES, STANDARD, SYNONYMS


def get(name: str | Activation | Elementwise) -> Activation:
    """Return the activation of this name; "-", "_" and case do not matter.

    Parameters stand in parentheses: `get("leaky_relu(0.1)")`, `get("scale_invariant(1.5, -0.5)")`. There are synonyms:
    "silu" is "swish", "identity" is "linear", see `SYNONYMS`.

    An `Activation` is returned as it is. A function is looked up in the table (`jnp.tanh` is "tanh"), and else becomes
    an activation under its own name that has no kinks: one that has some must be an `Activation` that states them.
    """
    if isinstance(name, Activation):
        return name
    if callable(name):
        return _of_function(name)
    match = re.fullmatch(r"([^()]+?)\s*(?:\(([^()]*)\))?", name.strip()) if isinstance(name, str) else None
    if match is None:
        raise UnknownName("activation", name, names())
    base, listed = _canonical(match[1]), match[2]
    if base in FAMILIES:
        return _member(base, listed)
    if base not in _ACTIVATIONS or listed is not None:
        raise UnknownName("activation", name, names())
    return _ACTIVATIONS[base]


def names() -> list[str]:
    """Return all names, parametrised ones with their parameters: "leaky_relu(a)"."""
    return sorted([*_ACTIVATIONS, *(f"{base}({', '.join(labels)})" for base, (labels, _) in FAMILIES.items())])


def register(
    name: str,
    function: Elementwise,
    *,
    derivatives: tuple[Elementwise, ...] = (),
    kinks: tuple[float, ...] = (),
    jumps: tuple[tuple[float, float], ...] = (),
    homogeneity: int | None = None,
    universality_class: str = "unknown",
    feature_moment: TwoVariances | None = None,
    slope_moment: TwoVariances | None = None,
    square: OneVariance | None = None,
    slope_square: OneVariance | None = None,
    fourth: OneVariance | None = None,
    overwrite: bool = False,
) -> Activation:
    """Add one's own activation; see `Activation` for the fields. Derivatives not given are automatic.

    The function must be elementwise, traceable by jax and finite; that is checked at a few points. A name
    that is taken stays with its function unless `overwrite`.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w -]*", name):
        raise InvalidInput(f"name = {name!r} must be a word of letters, digits, '-' and '_'")
    base = _normalise(name)
    known = _ACTIVATIONS.get(base)
    taken = base in SYNONYMS or (known is not None and known.function is not function)
    if base in FAMILIES or (taken and not overwrite):
        raise InvalidInput(f"the activation {base!r} exists already; choose another name or pass overwrite=True")
    _check_elementwise(base, function)
    stray = [place for place, _ in jumps if place not in kinks]
    if stray:
        raise InvalidInput(f"jumps: there is one at z = {stray[0]:g}, which is not among kinks = {tuple(kinks)}")
    activation = Activation(
        base,
        function,
        derivatives=tuple(derivatives),
        kinks=tuple(check.number("kinks", k) for k in kinks),
        jumps=tuple((check.number("jumps", z), check.number("jumps", jump)) for z, jump in jumps),
        homogeneity=homogeneity,
        universality_class=universality_class,
        feature_moment=feature_moment,
        slope_moment=slope_moment,
        square=square,
        slope_square=slope_square,
        fourth=fourth,
    )
    _ACTIVATIONS[base] = activation
    return activation


def kept(given: str | Activation | Elementwise) -> str | Activation:
    """What a description keeps of an activation: the name of one in the table, any other as it is, checked."""
    found = get(given)
    return found.name if _listed(found) else _usable(found)


def name_in_files(given: str | Activation | Elementwise) -> str:
    """The name by which files know an activation; those that are not in the table have none."""
    found = get(given)
    if not _listed(found):
        raise InvalidInput(
            f"activation = {found!r} is a function that only this session knows, so that files and checkpoints cannot "
            f"name it: register it, wf.activations.register('a name of your choice', function), and give that name to "
            f"the network; whoever reads the file registers it too"
        )
    return found.name


def mark_of_own(activation: Activation) -> str:
    """Values at a few points of an activation that is not of this package: others may register the name otherwise."""
    if {**STANDARD, **_MEMBERS}.get(activation.name) == activation:
        return ""
    with double_precision():
        return " ".join(f"{float(value):.6e}" for value in activation(jnp.asarray(_POINTS)))


def _listed(activation: Activation) -> bool:
    try:
        return get(activation.name) == activation
    except InvalidInput:
        return False


def _of_function(function: Elementwise) -> Activation:
    known = next((activation for activation in _ACTIVATIONS.values() if activation.function is function), None)
    stated = getattr(function, "__name__", type(function).__name__)
    return known or _usable(Activation(stated.strip("<>"), function))


@cache
def _usable(activation: Activation) -> Activation:
    _check_elementwise(activation.name, activation.function)
    return activation


def _canonical(name: str) -> str:
    base = _normalise(name)
    return base if base in _ACTIVATIONS else SYNONYMS.get(base, base)


def _normalise(name: str) -> str:
    return re.sub(r"[\s-]", "_", name.strip()).lower()


def _check_elementwise(name: str, function: Elementwise) -> None:
    points = _POINTS.reshape(2, 3)
    try:
        with double_precision():
            together = np.asarray(jax.jit(lambda z: function(z))(points))  # jax crashes on a ufunc
            apart = np.array([np.asarray(function(jnp.asarray(z))) for z in points.ravel()])
    except Exception as error:
        hint = "write it with jax.numpy in place of numpy or torch"
        raise InvalidInput(f"the activation {name!r} cannot be traced by jax, {hint}: {error}") from error
    if together.shape != points.shape or apart.shape != (points.size,):
        raise InvalidInput(f"the activation {name!r} is not elementwise: shape (2, 3) became {together.shape}")
    if not np.allclose(together.ravel(), apart, rtol=1e-6, atol=1e-12, equal_nan=True):
        raise InvalidInput(f"the activation {name!r} is not elementwise: its values depend on their neighbours")
    bad = points.ravel()[~np.isfinite(apart)]
    if len(bad):
        raise InvalidInput(f"the activation {name!r} is not finite at z = {bad[0]:g}")


_ACTIVATIONS = dict(STANDARD)
"""All that are known, by name."""

_MEMBERS: dict[str, Activation] = {}
"""Members of the families that were asked for, so that the same name is the same object."""


_POINTS = np.array([-3.0, -1.0, -0.4, 0.0, 0.7, 4.0])
"""Where functions are tried."""


def _parameter(label: str, text: str) -> float:
    try:
        return check.number(label, float(text)) + 0.0
    except ValueError:
        raise InvalidInput(f"{label} = {text!r} is not a finite number") from None


def _member(base: str, listed: str | None) -> Activation:
    labels, build = FAMILIES[base]
    values = [part.strip() for part in (listed or "").split(",") if part.strip()]
    if len(values) != len(labels):
        example = f"{base}({', '.join(labels)})"
        raise InvalidInput(f"activation {base!r} takes {len(labels)} parameters, as in {example!r}; got {len(values)}")
    numbers = [_parameter(label, value) for label, value in zip(labels, values, strict=True)]
    name = f"{base}({', '.join(repr(x).removesuffix('.0') for x in numbers)})"
    if name not in _MEMBERS:
        _MEMBERS[name] = build(name, *numbers)
    return _MEMBERS[name]


def _pickled(activation: Activation) -> tuple[Callable[..., Activation], tuple[Any, ...]]:
    """By name if it is in the table, since lambdas cannot be pickled; any other by its fields, if pickle can."""
    return (get, (activation.name,)) if _listed(activation) else (Activation, tuple(activation.stated().values()))


copyreg.pickle(Activation, _pickled)
