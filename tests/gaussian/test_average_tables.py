"""The tables of averages over two and four samples, against known values, integrals and sign functions."""

import itertools
import math

import numpy as np
import pytest

from widefield.activations import get
from widefield.base.errors import InvalidInput
from widefield.effective.single_input import SingleInput
from widefield.gaussian import average_four, average_product, pair_moments, quadruples
from widefield.gaussian.pair_table import average_derivatives
from widefield.gaussian.sample_pairs import Pairs
from widefield.gaussian.two_labels import TwoLabels

X = np.array([[1, 0.5, -0.3], [0.2, -0.9, 1.1], [0.7, 0.1, 0.8], [-0.4, 0.6, 0.9]])
K = 0.1 + 1.2 * X @ X.T / 3


def scaled(mean):
    return mean * K / np.diagonal(K).mean()


PLACES = {"0000": (0, 1, 2, 3), "0011": (0, 1, 2, 3), "1111": (0, 1, 2, 3), "2110": (0, 3, 1, 2)}
PLACES |= {"3111": (0, 1, 2, 3), "2211": (0, 1, 2, 3)}


def entry(quadruple, a, b, c, d):
    """Value and error at (a, b), (c, d)."""

    def number(pairs, one, two):
        return int(np.flatnonzero((pairs.rows == one) & (pairs.columns == two))[0])

    place = number(quadruple.rows, a, b), number(quadruple.columns, c, d)
    return quadruple.values[place], quadruple.error[place]


@pytest.mark.parametrize(
    ("activation", "mean", "known", "tolerance"),
    [
        ("sin", 0.3, (0.000219264030, -0.046378256338, 0.574043613436, 0.017551896449, -0.574043613436), 2e-8),
        ("sin", 1.0, (-0.007405796533, -0.078858890596, 0.211406126576, 0.029243577587, -0.211406126576), 3e-5),
        ("tanh", 0.3, (-0.0002222474, -0.0387787534, 0.4441950557, 0.0190924820, -0.5403837736), 2e-4),
    ],
)
def test_four_different_samples(activation, mean, known, tolerance):
    found = quadruples(activation, scaled(mean))
    values = dict(zip(("0000", "0011", "1111", "2110", "3111"), known, strict=True))
    values["2211"] = -0.0508110910 if activation == "tanh" else known[1]
    for kind, expected in values.items():
        value, error = entry(found[kind], *PLACES[kind])
        assert abs(value - expected) < 8 * error + 1e-9, kind
        assert error < tolerance, kind


def sines(orders, labels, K):
    """<prod of sin and cos> by phases: sin^(p) z = Im i^p e^iz."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=4):
        coefficient = np.prod([s * (1j * s) ** p / 2j for s, p in zip(signs, orders, strict=True)])
        s = np.array(signs)
        total += coefficient * np.exp(-0.5 * s @ K[np.ix_(labels, labels)] @ s)
    return float(total.real)


def test_every_entry_of_sin():
    """Repeated labels, in every place, of three samples; of two, where nothing is sampled."""
    orders = {"0000": (0, 0, 0, 0), "0011": (0, 0, 1, 1), "1111": (1, 1, 1, 1)}
    orders |= {"2110": (2, 0, 1, 1), "3111": (3, 1, 1, 1), "2211": (2, 2, 1, 1)}
    for size, tolerance in ((1, 1e-11), (2, 1e-11), (3, 1e-8)):
        part = scaled(0.3)[:size, :size]
        for kind, quadruple in quadruples("sin", part, points=2**10).items():
            ends = (quadruple.rows.rows, quadruple.rows.columns, quadruple.columns.rows, quadruple.columns.columns)
            for i, j in itertools.product(range(len(ends[0])), range(len(ends[2]))):
                labels = [ends[0][i], ends[1][i], ends[2][j], ends[3][j]]
                expected = sines(orders[kind], labels, part)
                assert quadruple.values[i, j] == pytest.approx(expected, abs=tolerance + 8 * quadruple.error[i, j])


def test_pair_moments_of_sin():
    u = pair_moments("sin", K)
    for p, q in itertools.product(range(4), repeat=2):
        for a, b in itertools.product(range(4), repeat=2):
            expected = sum(
                np.prod([s * (1j * s) ** n / 2j for s, n in ((s, p), (t, q))])
                * np.exp(-0.5 * (K[a, a] + K[b, b]) - s * t * K[a, b])
                for s, t in itertools.product((1, -1), repeat=2)
            ).real
            assert u[p, q, a, b] == pytest.approx(expected, abs=1e-11)


def test_pair_moments_with_a_kink():
    """J^2 R / (2 pi K_aa), J^2 / (2 pi R) and -K_ab J^2 / (2 pi K_aa R); the same sample has none but <s s''> = 0."""
    part = np.array([[1.3, 0.4], [0.4, 0.7]])
    R = math.sqrt(np.linalg.det(part))
    u = pair_moments("relu", part)
    assert u[2, 0, 0, 1] == pytest.approx(R / (2 * math.pi * 1.3), rel=1e-9)
    assert u[0, 2, 0, 1] == pytest.approx(R / (2 * math.pi * 0.7), rel=1e-9)
    assert u[2, 2, 0, 1] == pytest.approx(1 / (2 * math.pi * R), rel=1e-9)
    assert u[3, 1, 0, 1] == pytest.approx(-0.4 / (2 * math.pi * 1.3 * R), rel=1e-9)
    assert u[3, 3, 0, 1] == pytest.approx(0.4 / (2 * math.pi * R**3), rel=1e-9)
    assert u[2, 0, 0, 0] == pytest.approx(0, abs=1e-12)
    assert np.isnan(u[2, 2, 0, 0])
    assert np.isnan(u[3, 1, 1, 1])


@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.3)", "selu"])
def test_six_derivatives_with_a_kink(name):
    """(3, 3), (4, 2), (5, 1) are derivatives of (2, 2) and (3, 1) in the covariance."""
    s, entries, step = get(name), np.array([1.3, 0.4, 0.7]), 1e-3

    def at(k, *orders):
        part = np.array([[k[0], k[1]], [k[1], k[2]]])
        return np.array([average_derivatives(s, part, Pairs.within(2), [order])[order][1] for order in orders])

    for place, factor, lower, upper in (
        (1, 1.0, ((2, 2), (3, 1)), ((3, 3), (4, 2))),
        (0, 0.5, ((2, 2), (3, 1)), ((4, 2), (5, 1))),
    ):
        moved = step * np.eye(3)[place]
        slope = (at(entries + moved, *lower) - at(entries - moved, *lower)) / (2 * step)
        np.testing.assert_allclose(slope, factor * at(entries, *upper), rtol=2e-5, atol=2e-6)


def test_relu_and_others_with_kinks():
    """Against integrals over four variables."""
    s, slope = get("relu"), get("relu").derivative(1)
    known = {"0000": 0.06477937915144, "0011": 0.05809022765632, "1111": 0.13071153331309}
    found = quadruples("relu", K, list(known))
    for kind, expected in known.items():
        value, error = entry(found[kind], 0, 1, 2, 3)
        assert abs(value - expected) < 8 * error + 1e-11, kind
        assert error < 2e-3
    functions = (s, s, slope, slope)
    labels = [0, 0, 1, 2]
    value, error = entry(found["0011"], 0, 0, 1, 2)
    expected = average_four(*functions, K[np.ix_(labels, labels)], kinks=(0.0,), tolerance=1e-8)
    assert abs(value - expected) < 8 * error + 1e-8


def test_two_labels():
    """Powers of s and s' at two samples, for all pairs at once."""
    for name in ("gelu", "relu"):
        s, slope = get(name), get(name).derivative(1)
        matrix = TwoLabels(s, K)((0, 0, 1), (1,))
        f = lambda z, s=s, slope=slope: s(z) ** 2 * slope(z)  # noqa: E731
        expected = average_product(f, slope, K[1, 1], K[1, 3], K[3, 3])
        assert matrix[1, 3] == pytest.approx(float(expected), rel=1e-10)
        kinks = s.kinks
        single = average_product(f, slope, K[2, 2], K[2, 2], K[2, 2], kinks=kinks or (0.0,))
        assert matrix[2, 2] == pytest.approx(float(single), rel=1e-9)


def test_averages_of_one_input():
    """d^2<s'^2>/dK^2 by differences; fourth moments by their integrals."""
    for name in ("tanh", "selu", "monomial(3)", "relu"):
        single, step = SingleInput.of(name), 1e-3
        low, high = (float(single.slope_square_slope(1.2 + sign * step)) for sign in (-1, 1))
        assert float(single.slope_square_curvature(1.2)) == pytest.approx((high - low) / (2 * step), rel=1e-5, abs=1e-9)
        x = np.linspace(-12, 12, 240_001)  # a node at the kink
        z, weights = math.sqrt(1.2) * x, np.exp(-(x**2) / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
        s, slope = (np.asarray(get(name).derivative(order)(z), dtype=float) for order in (0, 1))
        assert float(single.mixed_fourth(1.2)) == pytest.approx(weights @ (s * slope) ** 2, rel=2e-4)
        assert float(single.slope_fourth(1.2)) == pytest.approx(weights @ slope**4, rel=2e-4)


def test_refusals():
    with pytest.raises(InvalidInput, match="unknown kind '0101'"):
        quadruples("tanh", K, ["0101"])
    with pytest.raises(InvalidInput, match="'selu' has kinks"):
        quadruples("selu", K, ["2211"])
