"""The table of activations: `get`, `register`, `names`."""

from __future__ import annotations

import copyreg
import math
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..base import check
from ..base.errors import InvalidInput, UnknownName
from ..base.numbers import double_precision
from . import moments
from .activation import Activation, Elementwise, OneVariance, TwoVariances


def get(name: str | Activation) -> Activation:
    """Return the activation of this name; "-", "_" and case do not matter.

    Parameters stand in parentheses: `get("leaky_relu(0.1)")`, `get("scale_invariant(1.5, -0.5)")`.
    """
    if isinstance(name, Activation):
        return name
    match = re.fullmatch(r"([^()]+?)\s*(?:\(([^()]*)\))?", name.strip()) if isinstance(name, str) else None
    if match is None:
        raise UnknownName("activation", name, names())
    base, listed = _normalise(match[1]), match[2]
    if base in _FAMILIES:
        return _member(base, listed)
    if base not in _ACTIVATIONS or listed is not None:
        raise UnknownName("activation", name, names())
    return _ACTIVATIONS[base]


def names() -> list[str]:
    """Return all names, parametrised ones with their parameters: "leaky_relu(a)"."""
    return sorted([*_ACTIVATIONS, *(f"{base}({', '.join(labels)})" for base, (labels, _) in _FAMILIES.items())])


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
    if base in _FAMILIES or (known is not None and known.function is not function and not overwrite):
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


def _normalise(name: str) -> str:
    return re.sub(r"[\s-]", "_", name.strip()).lower()


def _check_elementwise(name: str, function: Elementwise) -> None:
    points = np.array([[-3.0, -1.0, -0.4], [0.0, 0.7, 4.0]])
    try:
        with double_precision():
            together = np.asarray(jax.jit(function)(points))
            apart = np.array([np.asarray(function(jnp.asarray(z))) for z in points.ravel()])
    except Exception as error:
        raise InvalidInput(f"the activation {name!r} cannot be traced by jax: {error}") from error
    if together.shape != points.shape or apart.shape != (points.size,):
        raise InvalidInput(f"the activation {name!r} is not elementwise: shape (2, 3) became {together.shape}")
    if not np.allclose(together.ravel(), apart, rtol=1e-6, atol=1e-12, equal_nan=True):
        raise InvalidInput(f"the activation {name!r} is not elementwise: its values depend on their neighbours")
    bad = points.ravel()[~np.isfinite(apart)]
    if len(bad):
        raise InvalidInput(f"the activation {name!r} is not finite at z = {bad[0]:g}")


def _step(z: Any) -> Array:
    z = jnp.asarray(z)
    return jnp.where(z >= 0, jnp.ones_like(z), jnp.zeros_like(z))


def _swish(z: Any) -> Array:
    return jax.nn.silu(z)


def _gelu(z: Any) -> Array:
    return jax.nn.gelu(z, approximate=False)


def _normal_density(z: Any) -> Array:
    return jnp.exp(-0.5 * jnp.square(z)) / math.sqrt(2 * math.pi)


def _gelu_first(z: Any) -> Array:
    return jnp.add(0.5 * jax.scipy.special.erfc(-z / math.sqrt(2)), z * _normal_density(z))


def _gelu_second(z: Any) -> Array:
    return _normal_density(z) * (2 - jnp.square(z))


def _piecewise_linear(name: str, a_plus: float, a_minus: float, function: Elementwise | None = None) -> Activation:
    """a_+ z for z > 0, a_- z for z < 0, PDLT eq. (2.13)."""
    if a_plus == a_minus == 0:
        raise InvalidInput(f"{name}: the two slopes must not both be zero")
    feature, slope, fourth = moments.scale_invariant(a_plus, a_minus)
    kinked = a_plus != a_minus
    return Activation(
        name,
        function or (lambda z: jnp.where(z > 0, a_plus, a_minus) * z),
        kinks=(0.0,) if kinked else (),
        jumps=((0.0, a_plus - a_minus),) if kinked else (),
        homogeneity=1,
        universality_class="scale-invariant",
        feature_moment=feature,
        slope_moment=slope,
        fourth=fourth,
    )


def _monomial(name: str, power: float) -> Activation:
    """z^p, PDLT eq. (5.77)."""
    p = check.integer("the power of a monomial", int(power) if power == int(power) else power, least=1, most=60)
    feature, slope, fourth = moments.monomial(p)
    return Activation(
        name,
        lambda z: jnp.asarray(z) ** p,
        homogeneity=p,
        universality_class="scale-invariant" if p == 1 else "none",
        feature_moment=feature,
        slope_moment=slope,
        fourth=fourth,
    )


def _leaky(name: str, a: float) -> Activation:
    return _piecewise_linear(name, 1.0, a)


_FAMILIES: dict[str, tuple[tuple[str, ...], Callable[..., Activation]]] = {
    "leaky_relu": (("a",), _leaky),
    "monomial": (("p",), _monomial),
    "scale_invariant": (("a_plus", "a_minus"), _piecewise_linear),
}
"""Parametrised activations: names of the parameters, and the builder."""

_MEMBERS: dict[str, Activation] = {}
"""Members of the families that were asked for, so that the same name is the same object."""


def _parameter(label: str, text: str) -> float:
    try:
        return check.number(label, float(text)) + 0.0
    except ValueError:
        raise InvalidInput(f"{label} = {text!r} is not a finite number") from None


def _member(base: str, listed: str | None) -> Activation:
    labels, build = _FAMILIES[base]
    values = [part.strip() for part in (listed or "").split(",") if part.strip()]
    if len(values) != len(labels):
        example = f"{base}({', '.join(labels)})"
        raise InvalidInput(f"activation {base!r} takes {len(labels)} parameters, as in {example!r}; got {len(values)}")
    numbers = [_parameter(label, value) for label, value in zip(labels, values, strict=True)]
    name = f"{base}({', '.join(repr(x).removesuffix('.0') for x in numbers)})"
    if name not in _MEMBERS:
        _MEMBERS[name] = build(name, *numbers)
    return _MEMBERS[name]


_ACTIVATIONS: dict[str, Activation] = {
    a.name: a
    for a in (
        Activation(  # PDLT eq. (2.9)
            "perceptron",
            _step,
            kinks=(0.0,),
            homogeneity=0,
            universality_class="none",
            feature_moment=moments.step_feature,
            slope_moment=moments.step_slope,
            fourth=lambda k: 0.5 + 0.0 * k,
        ),
        Activation("sigmoid", jax.nn.sigmoid, universality_class="none"),  # (2.10)
        Activation("tanh", jnp.tanh, universality_class="zero-kernel"),  # (2.11)
        Activation(  # (2.12)
            "sin",
            jnp.sin,
            universality_class="zero-kernel",
            feature_moment=moments.sin_feature,
            slope_moment=moments.cos_feature,
            fourth=moments.sin_fourth,
        ),
        Activation(
            "cos",
            jnp.cos,
            universality_class="none",
            feature_moment=moments.cos_feature,
            slope_moment=moments.sin_feature,
            fourth=moments.cos_fourth,
        ),
        _piecewise_linear("linear", 1.0, 1.0, jnp.asarray),
        _piecewise_linear("relu", 1.0, 0.0, jax.nn.relu),
        _piecewise_linear("abs", 1.0, -1.0),
        Activation("softplus", jax.nn.softplus, (jax.nn.sigmoid,), universality_class="none"),  # (2.15)
        Activation("swish", _swish, universality_class="half-stable"),  # (2.16)
        Activation(  # (2.17)
            "gelu",
            _gelu,
            (_gelu_first, _gelu_second),
            universality_class="half-stable",
            feature_moment=moments.gelu_feature,
            slope_moment=moments.gelu_slope,
        ),
        Activation(
            "erf",
            jax.scipy.special.erf,
            universality_class="zero-kernel",
            feature_moment=moments.erf_feature,
            slope_moment=moments.erf_slope,
        ),
    )
}


def _by_name(activation: Activation) -> tuple[Callable[[str], Activation], tuple[str]]:
    """Pickle by name: compiled functions cannot be pickled."""
    return get, (activation.name,)


copyreg.pickle(Activation, _by_name)
