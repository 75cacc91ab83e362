"""Linear models and kernels of features: two ways to one prediction."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

from learning_problems import INPUTS, network
from widefield.base.errors import InvalidInput
from widefield.kernels import (
    Blocks,
    StaticKernel,
    bayesian_rates,
    gaussian_kernel,
    kernel_of_features,
    linear_fit,
    posterior,
)

X, Y, AT = np.array([0.0, 0.4, 1.0]), np.array([[1.0, 0.3], [-0.2, 0.5], [0.7, -1.0]]), np.array([0.2, 0.9])


def powers(x, count):
    return np.stack([x**k for k in range(count)], axis=1)


@pytest.mark.parametrize(("count", "penalty"), [(3, 0.0), (6, 0.0), (6, 0.3), (2, 0.3)])
def test_features_and_their_kernel_predict_the_same(count, penalty):
    phi, at = powers(X, count), powers(AT, count)
    kernel = Blocks(*(kernel_of_features(*pair) for pair in ((phi,), (at, phi), (at,))))
    np.testing.assert_allclose(
        linear_fit(phi, Y, penalty=penalty)(at), posterior(kernel, Y, ridge=2 * penalty).mean, atol=1e-9
    )


def test_least_squares():
    """Fewer features than samples: the normal equations; more: the limit of small penalties."""
    phi = powers(X, 2)
    np.testing.assert_allclose(linear_fit(phi, Y).weights, (np.linalg.inv(phi.T @ phi) @ phi.T @ Y).T, rtol=1e-12)
    many = powers(X, 5)
    np.testing.assert_allclose(linear_fit(many, Y).weights, linear_fit(many, Y, penalty=1e-9).weights, atol=1e-5)


def test_kernels():
    phi, other = powers(X, 3), powers(AT, 3)
    c = np.array([[1.0, 0.2, 0], [0.2, 2.0, 0.1], [0, 0.1, 0.5]])
    expected = np.einsum("pi,ij,qj->pq", phi, c, other)
    np.testing.assert_allclose(kernel_of_features(phi, other, weights=c), expected, rtol=1e-14)
    np.testing.assert_allclose(gaussian_kernel(X[:, None], AT[:, None], length=0.7), RBF(0.7)(X[:, None], AT[:, None]))


def test_rates_of_bayesian_inference():
    given = network("tanh", 3, (1.0, 0.9, 1.2, 1.4), (0.1, 0.0, 0.2, 0.3))
    found = StaticKernel(given, **bayesian_rates(given))(INPUTS)
    np.testing.assert_allclose(found.ntk, found.nngp, rtol=1e-13)


def test_refusals():
    with pytest.raises(InvalidInput, match="as many"):
        linear_fit(powers(X, 2), Y[:2])
    with pytest.raises(InvalidInput, match="fit together"):
        kernel_of_features(powers(X, 2), powers(AT, 3))
