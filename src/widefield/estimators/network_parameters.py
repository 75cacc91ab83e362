"""The network of an estimator: by plain names, or as a whole."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from ..base.errors import InvalidInput, UnknownName
from ..problem.network import MLP

_PREFIX = "network__"


class NetworkParameters(BaseEstimator):  # type: ignore[misc]
    """An estimator whose network is `network`, or the default with the fields that are given by their plain names.

    Parameters named in `plain` are fields of `widefield.MLP`; None is what `default` says. A derived class takes them,
    and `network`, in its `__init__`.
    """

    network: Any
    default: ClassVar[MLP]
    plain: ClassVar[tuple[str, ...]] = (
        "hidden_layers",
        "activation",
        "weight_variances",
        "bias_variances",
        "train_biases",
    )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with `deep` also the fields of a network, as network__hidden_layers and so on."""
        found: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.network, MLP):
            found |= {_PREFIX + field.name: getattr(self.network, field.name) for field in dataclasses.fields(MLP)}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also single fields of the network: set_params(network__hidden_layers=2)."""
        inner = {name.removeprefix(_PREFIX): params.pop(name) for name in list(params) if name.startswith(_PREFIX)}
        super().set_params(**params)
        if inner:
            known = [field.name for field in dataclasses.fields(MLP)]
            for name in inner:
                if name not in known:
                    raise UnknownName("field of the network", name, known)
            self.network = dataclasses.replace(self._whole_network(), **inner)
        return self

    def _described_network(self) -> MLP:
        """What the parameters describe; `network` and plain names together are refused."""
        given = {name: value for name in self.plain if (value := getattr(self, name)) is not None}
        if given and self.network is not None:
            names = " and ".join(f"{name} = {value!r}" for name, value in given.items())
            raise InvalidInput(
                f"network = {self.network!r} is given and {names} too: put it into the network (as "
                f"{_PREFIX}{next(iter(given))} in a grid search), or leave out network"
            )
        return dataclasses.replace(self._whole_network(), **given)

    def _whole_network(self) -> MLP:
        """The network, or the default."""
        if self.network is None:
            return self.default
        network = self.network
        if not isinstance(network, MLP):
            raise InvalidInput(
                f"network = {network!r} is not a network; use widefield.MLP(...), or None for the default"
            )
        return network
