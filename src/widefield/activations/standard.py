"""The activations of this package: functions, families with parameters, synonyms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..base import check
from ..base.errors import InvalidInput
from . import moments
from .activation import Activation, Elementwise


def _step(z: Any) -> Array:
    z = jnp.asarray(z)
    return jnp.where(z >= 0, jnp.ones_like(z), jnp.zeros_like(z))


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


FAMILIES: dict[str, tuple[tuple[str, ...], Callable[..., Activation]]] = {
    "leaky_relu": (("a",), _leaky),
    "monomial": (("p",), _monomial),
    "scale_invariant": (("a_plus", "a_minus"), _piecewise_linear),
}
"""Parametrised activations: names of the parameters, and the builder."""

_SELU_JUMP = 1.0507009873554804934193349852946 * (1 - 1.6732632423543772848170429916717)
"""lambda (1 - alpha) of Klambauer et al. 2017."""

SYNONYMS = {
    "silu": "swish",
    "identity": "linear",
    "heaviside": "perceptron",
    "step": "perceptron",
    "logistic": "sigmoid",
    "sine": "sin",
    "cosine": "cos",
    "leakyrelu": "leaky_relu",
}
"""Other words for the same functions."""

STANDARD: dict[str, Activation] = {
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
        Activation("swish", jax.nn.silu, universality_class="half-stable"),  # (2.16)
        # z for z > 0 and e^z - 1 for z < 0: the slope is continuous, its derivative is not (Clevert et al. 2015)
        Activation("elu", jax.nn.elu, kinks=(0.0,), universality_class="zero-kernel"),
        # 1.0507 z for z > 0 and 1.7581 (e^z - 1) for z < 0 (Klambauer et al. 2017)
        Activation("selu", jax.nn.selu, kinks=(0.0,), jumps=((0.0, _SELU_JUMP),), universality_class="zero-kernel"),
        Activation("mish", jax.nn.mish, universality_class="half-stable"),  # z tanh(softplus z) (Misra 2019)
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
"""By name; PDLT section 2.2 has most of them, whose equation numbers stand beside them."""
