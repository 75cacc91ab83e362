"""Differentials of one real network layer by layer, by forward equations: those of all layers, for small networks.

Another way to what `network_differentials` finds by derivatives, PDLT eqs. (8.12), (11.24), (inf.169), (inf.170).
Tensors have four axes of neurons, so that this is for networks of tens of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from ..activations import Activation
from ..base import check
from ..base.arrays import Floats
from ..base.numbers import double_precision
from .differentials_of_networks import NetworkDifferentials, read

_contract = partial(np.einsum, optimize=True)


def forward_differentials(
    activation: str | Activation,
    weights: Sequence[ArrayLike],
    biases: Sequence[ArrayLike],
    x: ArrayLike,
    *,
    weight_rates: Sequence[float],
    bias_rates: Sequence[float],
) -> tuple[NetworkDifferentials, ...]:
    """Of the layers 1 .. L of one network, as `network_differentials` has them of the outputs.

    >>> rates = {"weight_rates": (1.0, 1.0), "bias_rates": (0.0, 0.0)}
    >>> found = forward_differentials("linear", [[[2.0]], [[3.0]]], [[0.0], [0.0]], [[1.0]], **rates)
    >>> found[1].ntk.item(), found[1].dntk.item(), found[1].second_ddntk.item()
    (13.0, 12.0, 13.0)
    """
    s, inputs, parameters = read(activation, weights, biases, x, weight_rates, bias_rates)
    widest = max(len(b) for _, b in parameters)
    check.memory("differentials of all layers", 40 * (len(inputs) * widest) ** 4, "use a smaller network")
    (W, b), *rest = parameters
    metric = weight_rates[0] * inputs @ inputs.T / inputs.shape[1] + bias_rates[0]
    start = _empty(inputs @ W.T + b, metric)
    found = [start]
    for (W, b), rate, bias_rate in zip(rest, weight_rates[1:], bias_rates[1:], strict=True):
        with double_precision():
            slopes = [np.asarray(s.derivative(order)(found[-1].outputs)) for order in range(4)]
        found.append(_step(found[-1], slopes, W, b, rate / W.shape[1], bias_rate))
    return tuple(found)


def _empty(z: Float[Floats, "p m"], metric: Float[Floats, "p p"]) -> NetworkDifferentials:
    """The first layer is linear in its parameters."""
    p, m = z.shape
    ntk = metric[:, :, None, None] * np.eye(m)
    both = np.zeros((*(p,) * 4, *(m,) * 4))
    return NetworkDifferentials(z, ntk, np.zeros((*(p,) * 3, *(m,) * 3)), both, both.copy())


def _step(
    low: NetworkDifferentials, slopes: list[Floats], W: Floats, b: Floats, rate: float, bias_rate: float
) -> NetworkDifferentials:
    """To the next layer: samples a b c d, neurons p q r t below and i j k m above."""
    s = slopes[0]
    H, dH, one = low.ntk, low.dntk, np.eye(len(W))
    flat = slopes[1]
    ntk = _contract("ip,jq,ap,bq,abpq->abij", W, W, flat, flat, H)
    ntk += (bias_rate + rate * s @ s.T)[:, :, None, None] * one
    bent = _contract("ap,bq,cr,abpq,acpr->abcpqr", slopes[2], flat, flat, H, H)
    dntk = _contract("ip,jq,kr,abcpqr->abcijk", W, W, W, bent + _contract("ap,bq,cr,abcpqr->abcpqr", *(flat,) * 3, dH))
    shared = rate * _contract("kr,ap,bp,cr,acpr,ij->abcijk", W, flat, s, flat, H, one)
    dntk += shared + shared.transpose(0, 2, 1, 3, 5, 4)
    return NetworkDifferentials(s @ W.T + b, ntk, dntk, _first(low, slopes, W, rate), _second(low, slopes, W, rate))


def _first(low: NetworkDifferentials, slopes: list[Floats], W: Floats, rate: float) -> Floats:
    """PDLT eq. (inf.169)."""
    H, dH = low.ntk, low.dntk
    s, flat, curved, third = slopes
    inner = _contract("ap,acpq,adpr->acdpqr", curved, H, H) + flat[:, None, None, :, None, None] * dH
    shared = rate * _contract("bp,cq,dr,kq,mr,acdpqr,ij->abcdijkm", s, flat, flat, W, W, inner, np.eye(len(W)))
    found = sum(shared.transpose([0, *_turned(turn), *(4 + axis for axis in (0, *_turned(turn)))]) for turn in range(3))
    crossed = _contract("abcpqr,adpt->abcdpqrt", dH, H)
    crossed = crossed + _contract("acdprt,abpq->abcdpqrt", dH, H) + _contract("adbptq,acpr->abcdpqrt", dH, H)
    total = _contract("ap,abcdpqrt->abcdpqrt", flat, low.first_ddntk)
    total += _contract("ap,abcdpqrt->abcdpqrt", curved, crossed)
    total += _contract("ap,abpq,acpr,adpt->abcdpqrt", third, H, H, H)
    return np.asarray(found + _raised(W, _contract("bq,cr,dt,abcdpqrt->abcdpqrt", flat, flat, flat, total)))


def _turned(turn: int) -> tuple[int, int, int]:
    """Slots 1, 2, 3, moved on cyclically."""
    return tuple((slot + turn) % 3 + 1 for slot in range(3))  # type: ignore[return-value]


def _second(low: NetworkDifferentials, slopes: list[Floats], W: Floats, rate: float) -> Floats:
    """PDLT eq. (inf.170); a b c d are the samples 1 2 3 4."""
    H, dH, one = low.ntk, low.dntk, np.eye(len(W))
    s, flat, curved, _ = slopes
    found = rate**2 * _contract("ap,bq,cp,dq,abpq,ik,jm->abcdijkm", flat, flat, s, s, H, one, one)
    found += rate * _contract("kr,mt,ap,bp,cr,dt,acpr,bdpt,ij->abcdijkm", W, W, *(flat,) * 4, H, H, one)
    inner = _contract("bq,baqp,bdqt->badqpt", curved, H, H) + flat[:, None, None, :, None, None] * dH
    shared = rate * _contract("jq,mt,cp,ap,dt,badqpt,ik->abcdijkm", W, W, s, flat, flat, inner, one)
    found += shared + shared.transpose(1, 0, 3, 2, 5, 4, 7, 6)
    total = _contract("ap,bq,abcdpqrt->abcdpqrt", flat, flat, low.second_ddntk)
    total += _contract("ap,bq,abpq,acpr,bdqt->abcdpqrt", curved, curved, H, H, H)
    crossed = _contract("ap,bq,bdqt,abcpqr->abcdpqrt", flat, curved, H, dH)
    total += crossed + crossed.transpose(1, 0, 3, 2, 5, 4, 7, 6)
    return np.asarray(found + _raised(W, _contract("cr,dt,abcdpqrt->abcdpqrt", flat, flat, total)))


def _raised(W: Floats, tensor: Floats) -> Floats:
    """W on every axis of neurons."""
    return np.asarray(_contract("ip,jq,kr,mt,abcdpqrt->abcdijkm", W, W, W, W, tensor))
