"""Learning rates of layers as parameter groups of an optimiser, for layers with weights N(0, C_W / fan-in)."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import InvalidInput

_CODE = {
    "PyTorch": """\
groups = [
    group
    for layer, weight, bias in zip(layers, weight_rates, bias_rates)
    for group in (
        {"params": [layer.weight], "lr": rate * weight / layer.in_features},
        {"params": [layer.bias], "lr": rate * bias},
    )
]
optimiser = torch.optim.SGD(groups)""",
    "optax": """\
# parameters = [{"weight": W, "bias": b} for every layer], W of shape (out, in)
labels = [{"weight": f"W{l}", "bias": f"b{l}"} for l in range(len(parameters))]
transforms = {}
for l, layer in enumerate(parameters):
    transforms[f"W{l}"] = optax.sgd(rate * weight_rates[l] / layer["weight"].shape[1])
    transforms[f"b{l}"] = optax.sgd(rate * bias_rates[l])
optimiser = optax.multi_transform(transforms, labels)""",
}


def rate_snippets(weight_rates: Sequence[float], bias_rates: Sequence[float]) -> dict[str, str]:
    """Optimisers of all layers, for PyTorch and optax: eta lambda_W / fan-in and eta lambda_b, PDLT eq. (8.6).

    `rate` is eta, `layers` or `parameters` are those of the network in order. That is for plain or averaged gradients:
    Adam divides gradients by their size, so that such factors mean something else there.
    """
    if len(weight_rates) != len(bias_rates):
        raise InvalidInput(
            f"weight_rates has {len(weight_rates)} entries and bias_rates {len(bias_rates)}: give one for each layer"
        )
    return {name: f"{rate_lists(weight_rates, bias_rates)}\n{code}" for name, code in _CODE.items()}


def rate_lists(weight_rates: Sequence[float], bias_rates: Sequence[float]) -> str:
    """The first lines of every snippet."""
    return f"weight_rates = {_listed(weight_rates)}\nbias_rates = {_listed(bias_rates)}"


def _listed(rates: Sequence[float]) -> str:
    values = [float(f"{rate:.6g}") for rate in rates]
    if len(set(values)) == 1 and len(values) > 1:
        return f"[{values[0]!r}] * {len(values)}"
    return f"{values!r}"
