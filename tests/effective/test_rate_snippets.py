"""What `widefield advise` says about learning rates is run, and does what it says."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from widefield.base.errors import InvalidInput
from widefield.effective.advice import advise
from widefield.effective.rate_snippets import rate_snippets
from widefield.effective.single_tangent import ntk_contributions

SHAPES = [(3, 2), (3, 3), (1, 3)]


def steps_asked():
    """What a step of rate 0.5 should be, for gradients of one, of the weights and of the biases."""
    weights, biases = (1.0, 0.7, 0.2), (1.0, 0.5, 0.3)
    code = rate_snippets(weights, biases)
    return code, [0.5 * w / shape[1] for w, shape in zip(weights, SHAPES, strict=True)], [0.5 * b for b in biases]


def test_pytorch():
    torch = pytest.importorskip("torch")
    code, weights, biases = steps_asked()
    layers = [torch.nn.Linear(shape[1], shape[0]) for shape in SHAPES]
    told = {"torch": torch, "layers": layers, "rate": 0.5}
    exec(code["PyTorch"], told)
    before = [(layer.weight.detach().clone(), layer.bias.detach().clone()) for layer in layers]
    sum(layer.weight.sum() + layer.bias.sum() for layer in layers).backward()
    told["optimiser"].step()
    for (W, b), layer, w, c in zip(before, layers, weights, biases, strict=True):
        assert torch.allclose(W - layer.weight, torch.full_like(W, w))
        assert torch.allclose(b - layer.bias, torch.full_like(b, c))


def test_optax():
    optax = pytest.importorskip("optax")
    code, weights, biases = steps_asked()
    parameters = [{"weight": jnp.ones(shape), "bias": jnp.ones(shape[0])} for shape in SHAPES]
    told = {"optax": optax, "parameters": parameters, "rate": 0.5}
    exec(code["optax"], told)
    gradients = jax.tree.map(jnp.ones_like, parameters)
    moves, _ = told["optimiser"].update(gradients, told["optimiser"].init(parameters), parameters)
    for move, w, c in zip(moves, weights, biases, strict=True):
        assert np.allclose(move["weight"], -w)
        assert np.allclose(move["bias"], -c)


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "swish"])
def test_layers_contribute_alike(activation):
    """Of all universality classes; half-stable ones from K* on, where the advice lets them start."""
    advice = advise(activation, 50, 500)
    weights, biases = advice.rates()
    point = advice.point
    settings = {"bias_variance": point.bias_variance, "weight_variance": point.weight_variance}
    found = ntk_contributions(
        activation, float(advice.kernels[0]), 50, weight_rates=weights, bias_rates=biases, **settings
    )
    for name in ("weight", "bias"):
        parts = found[name].isel(sample=0).values[1:]
        assert parts.max() / parts.min() < (2.5 if activation == "tanh" else 1.0001), name


def test_advice_has_them():
    assert set(advise("gelu", 5, 100).rate_snippets()) == {"PyTorch", "optax"}
    assert advise("relu", 30, 30, residual=True).rate_snippets() == {}
    with pytest.raises(InvalidInput, match="one for each layer"):
        rate_snippets((1.0,), ())
