"""The numbers in the equations of one or many problems of the same form, which are solved together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .setting import LinearNetwork, LinearTask

_MATRICES = {"plain": (6, 0), "residual": (16, -10), "continuous": (14, 14)}
"""Of one layer, and what comes to all layers: there are junctions between layers, and layer times at both ends."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Problems that share depth, form and data modes; every array begins with the problems.

    Args:
        structure: "plain", "residual" or "continuous": a residual network of infinite depth.
        layers: L, or the number of steps in layer time.
        centred, online: as in `LinearNetwork` and `LinearTask`.
        rates: eta(t).
        richness: gamma_0.
        branch: beta^2, or beta_0^2 of a continuous one.
        steepness: rho_l = nu_{l+1} / nu_l for l = 1 .. L-1.
        narrow: 1 / nu_L.
        taper: nu_1 / nu_L.
        scarce: 1 / alpha or 1 / alpha_B.
        noise: sigma^2.
        eigenvalues, multiplicities, gram: of the modes.
    """

    structure: str
    layers: int
    centred: bool
    online: bool
    rates: Float[Floats, "b t"]
    richness: Float[Floats, " b"]
    branch: Float[Floats, " b"]
    steepness: Float[Floats, "b l"]
    narrow: Float[Floats, " b"]
    taper: Float[Floats, " b"]
    scarce: Float[Floats, " b"]
    noise: Float[Floats, " b"]
    eigenvalues: Float[Floats, " k"]
    multiplicities: Float[Floats, " k"]
    gram: Float[Floats, "k c c"]

    @property
    def problems(self) -> int:
        """How many are solved together."""
        return len(self.richness)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return int(self.gram.shape[1])

    @property
    def times(self) -> int:
        """Number of times: one more than steps."""
        return int(self.rates.shape[1]) + 1

    @property
    def size(self) -> int:
        """Rows of every matrix: a row for every time and output."""
        return self.times * self.outputs

    def numbers(self) -> int:
        """How many numbers the solution of one problem takes, roughly."""
        each, more = _MATRICES[self.structure]
        matrices = each * self.layers + more + 12 + len(self.eigenvalues)
        return matrices * self.size**2

    def part(self, problems: slice) -> Equations:
        """Some of the problems."""
        names = ("rates", "richness", "branch", "steepness", "narrow", "taper", "scarce", "noise")
        values = {name: getattr(self, name)[problems] for name in names}
        return Equations(
            self.structure,
            self.layers,
            self.centred,
            self.online,
            **values,
            eigenvalues=self.eigenvalues,
            multiplicities=self.multiplicities,
            gram=self.gram,
        )


def equations(
    networks: Sequence[LinearNetwork], tasks: Sequence[LinearTask], rates: Float[Floats, "b t"], layer_steps: int = 16
) -> Equations:
    """Put problems together; network, task and rates for each of them. `layer_steps` matter at infinite depth."""
    first, data = networks[0], tasks[0]
    form = {(network.hidden_layers, network.branch is None, network.centred) for network in networks}
    online = {task.online for task in tasks if math.isfinite(task.samples) or task.online}
    if len(form) > 1 or len(online) > 1 or any(task.spectrum != data.spectrum for task in tasks):
        raise InvalidInput("problems that are solved together must agree in depth, form, kind of training and spectrum")
    if any(not np.array_equal(task.gram, data.gram) for task in tasks):
        raise InvalidInput("problems that are solved together must agree in their target")
    widths = np.array([n.widths for n in networks])
    infinite = np.isinf(widths)
    finite = np.where(infinite, 1.0, widths)
    modes = data.modes
    return Equations(
        _structure(first),
        layer_steps if math.isinf(first.hidden_layers) else int(first.hidden_layers),
        first.centred,
        online == {True},
        rates=np.asarray(rates, dtype=np.float64),
        richness=np.array([n.mean_field_richness for n in networks]),
        branch=np.array([n.branch_scale**2 for n in networks]),
        steepness=finite[:, 1:] / finite[:, :-1],
        narrow=np.where(infinite[:, -1], 0.0, 1 / finite[:, -1]),
        taper=finite[:, 0] / finite[:, -1],
        scarce=np.array([1 / task.batch_size if task.online else 1 / task.samples for task in tasks]),
        noise=np.array([task.noise**2 for task in tasks]),
        eigenvalues=modes.eigenvalues,
        multiplicities=modes.multiplicities,
        gram=data.gram,
    )


def _structure(network: LinearNetwork) -> str:
    if network.branch is None:
        return "plain"
    return "continuous" if math.isinf(network.hidden_layers) else "residual"
