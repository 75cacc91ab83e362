"""Learning rules. Each states its pseudo-gradient; how weights follow from it is the same for all (BP23 eq. (2)).

Fields carry an axis of output signals: with `signal` the identity matrix of every sample they hold one field per
output, with `signal` = Delta they hold the sum over outputs that a weight update needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from ..base import check
from ..base.describe import Described, put
from ..base.errors import InvalidInput
from ..base.numbers import present, root, traced
from ..matrices.substrate import Backward, Forward, Gradients, State, Weights

if TYPE_CHECKING:
    from ..activations import Activation
    from ..matrices.substrate import Substrate
    from .network import MLP


class LayerKernels(Protocol):
    """Kernels of all hidden layers before learning, arrays (layer, row, column): what a rule may make its own of."""

    @property
    def feature(self) -> NDArray[np.float64]:
        """Phi^l = <phi phi>."""

    @property
    def slope(self) -> NDArray[np.float64]:
        """<phi' phi'>."""

    @property
    def gradient(self) -> NDArray[np.float64]:
        """G^l = <g g>."""


def hidden(layer: int) -> str:
    """Name of the matrix W^l from hidden layer l to l + 1."""
    return f"hidden {layer}"


def feedback(layer: int) -> str:
    """Name of the frozen feedback from layer l + 1 (of feedback alignment) or from the outputs (direct)."""
    return f"feedback {layer}"


def backpropagate(
    top: Float[Array, "p k n"], forward: Forward, state: State, *, through: str = "hidden"
) -> tuple[Backward, State]:
    """z^L = top, g^l = phi'(h^l) z^l, z^l = W^l^T g^{l+1} / sqrt(N_{l+1}); `through` says which matrices W^l."""
    z, substrate = top, state.substrate
    pregradients, gradients = [], []
    for layer in range(len(forward.slopes), 0, -1):
        g = forward.slopes[layer - 1][:, None, :] * z
        pregradients.append(z)
        gradients.append(g)
        if layer > 1:
            z, substrate = substrate.apply_transpose(f"{through} {layer - 1}", g)
    return Backward(tuple(reversed(pregradients)), tuple(reversed(gradients))), state.on(substrate)


def true_gradient(signal: Float[Array, "p k c"], forward: Forward, state: State) -> tuple[Backward, State]:
    """The gradient fields g^l = gamma_0 sqrt(N N_l) d(signal . f)/dh^l (BP22 eq. (3))."""
    return backpropagate(signal @ state.weights["readout"], forward, state)


@dataclass(frozen=True)
class LearningRule(Described, family="rule"):
    """Base class. A member defines `pseudo_gradient`, and `frozen` if it has frozen randomness of its own."""

    synonyms: ClassVar[dict[str, str]] = {
        "gd": "gradient-descent",
        "backprop": "gradient-descent",
        "backpropagation": "gradient-descent",
        "fa": "feedback-alignment",
        "dfa": "direct-feedback-alignment",
        "gln": "gated-linear",
        "hebbian": "hebb",
    }

    @property
    def exact(self) -> bool:
        """Whether the pseudo-gradient is the gradient."""
        return False

    @property
    def through_weights(self) -> bool:
        """Whether pseudo-gradients pass through the transposes of the initial weights."""
        return self.exact

    @property
    def transmission(self) -> float:
        """How much of a gradient the pseudo-gradient keeps on its way down a layer, before learning (BP23 Table 2)."""
        if self.exact:
            return 1.0
        raise InvalidInput(f"rule = {self.kind!r} does not define `transmission`, so that its static NTK is unknown")

    def static_pseudo_kernel(self, layers: LayerKernels, errors: Float[Array, "t p c"]) -> Float[Array, "t l p c p c"]:
        """<gtilde gtilde> before learning, at outputs that give these errors: as for gradients, in distribution."""
        return _for_outputs(jnp.asarray(layers.gradient), errors)

    @property
    def gated(self) -> bool:
        """Whether frozen gates take the place of the nonlinearity."""
        return False

    def frozen(self, network: MLP, inputs: int, outputs: int, substrate: Substrate) -> tuple[Weights, Substrate]:
        """Draw the rule's frozen randomness: vectors that are returned, matrices that join the substrate."""
        del network, inputs, outputs
        return {}, substrate

    def nonlinearity(
        self,
        phi: Activation,
        layer: int,
        h: Float[Array, "p n"],
        inputs: Float[Array, "p r"],
        frozen: Weights,
    ) -> tuple[Float[Array, "p n"], Float[Array, "p n"]]:
        """phi(h) and phi'(h) of a layer."""
        del layer, inputs, frozen
        return phi(h), phi.derivative(1)(h)

    def pseudo_gradient(
        self, signal: Float[Array, "p k c"], errors: Float[Array, "p c"], forward: Forward, state: State
    ) -> tuple[Gradients, State]:
        """sum_c signal_c gtilde^l_c of every layer l, with gtilde as in BP23 eq. (3)."""
        raise NotImplementedError(f"{type(self).__name__} must define pseudo_gradient")


@dataclass(frozen=True)
class GradientDescent(LearningRule, kind="gradient-descent"):
    """gtilde^l = g^l: the weights follow the gradient."""

    @property
    def exact(self) -> bool:
        """The pseudo-gradient is the gradient."""
        return True

    def pseudo_gradient(
        self, signal: Float[Array, "p k c"], errors: Float[Array, "p c"], forward: Forward, state: State
    ) -> tuple[Gradients, State]:
        """The gradient."""
        del errors
        backward, state = true_gradient(signal, forward, state)
        return backward.gradients, state


@traced("correlation")
@dataclass(frozen=True)
class FeedbackAlignment(LearningRule, kind="feedback-alignment"):
    """Backpropagation through frozen matrices that have `correlation` rho with the initial weights.

        gtilde^l = phi'(h^l) (rho W^l(0) + sqrt(1 - rho^2) W'^l)^T gtilde^{l+1} / sqrt(N_{l+1})
        gtilde^L = phi'(h^L) (rho w(0) + sqrt(1 - rho^2) w')

    with independent W', w' of the same variances (BP23 eq. (3)).
    """

    correlation: float = 0.0

    def __post_init__(self) -> None:
        """Check the correlation."""
        value = check.number("correlation", self.correlation, least=-1.0, most=1.0)
        put(self, correlation=value)

    @property
    def through_weights(self) -> bool:
        """Through rho W(0)."""
        return present(self.correlation)

    @property
    def transmission(self) -> float:
        """The correlation rho."""
        return self.correlation

    def frozen(self, network: MLP, inputs: int, outputs: int, substrate: Substrate) -> tuple[Weights, Substrate]:
        """The feedback matrices, and the feedback from the outputs."""
        del inputs
        rho, scales, depth = self.correlation, network.weight_scales, network.hidden_layers
        for layer in range(1, depth):
            substrate = substrate.with_partner(feedback(layer), hidden(layer), scales[layer], rho)
        initial, substrate = substrate.gaussian("readout", depth - 1, outputs)
        fresh, substrate = substrate.gaussian(feedback(depth), depth - 1, outputs)
        top = scales[-1] * (rho * initial + root(1 - rho**2) * fresh)
        return {feedback(depth): top}, substrate

    def pseudo_gradient(
        self, signal: Float[Array, "p k c"], errors: Float[Array, "p c"], forward: Forward, state: State
    ) -> tuple[Gradients, State]:
        """Backpropagation through the feedback matrices."""
        del errors
        top = signal @ state.frozen[feedback(len(forward.slopes))]
        backward, state = backpropagate(top, forward, state, through="feedback")
        return backward.gradients, state


@dataclass(frozen=True)
class DirectFeedbackAlignment(LearningRule, kind="direct-feedback-alignment"):
    """gtilde^l = phi'(h^l) zeta^l: one frozen N(0, 1) vector for every layer and output (BP23 eq. (3))."""

    @property
    def transmission(self) -> float:
        """Pseudo-gradients know nothing of the weights yet."""
        return 0.0

    def static_pseudo_kernel(self, layers: LayerKernels, errors: Float[Array, "t p c"]) -> Float[Array, "t l p c p c"]:
        """<phi' phi'>."""
        return _for_outputs(jnp.asarray(layers.slope), errors)

    def frozen(self, network: MLP, inputs: int, outputs: int, substrate: Substrate) -> tuple[Weights, Substrate]:
        """The feedback vectors."""
        del inputs
        weights: Weights = {}
        for layer in range(1, network.hidden_layers + 1):
            weights[feedback(layer)], substrate = substrate.gaussian(feedback(layer), layer - 1, outputs)
        return weights, substrate

    def pseudo_gradient(
        self, signal: Float[Array, "p k c"], errors: Float[Array, "p c"], forward: Forward, state: State
    ) -> tuple[Gradients, State]:
        """The outputs' signal, sent straight to every layer."""
        del errors
        direct = [signal @ state.frozen[feedback(layer)] for layer in range(1, len(forward.slopes) + 1)]
        return tuple(s[:, None, :] * z for s, z in zip(forward.slopes, direct, strict=True)), state


@dataclass(frozen=True)
class GatedLinear(GradientDescent, kind="gated-linear"):
    """Gradient descent on a network whose nonlinearity is a frozen gate, phi'(m^l) with m^l = M^l x / sqrt(D).

    phi(h) becomes phi'(m) h and phi'(h) becomes phi'(m), in every layer; the M^l have entries N(0, 1) and are
    independent (BP23 eq. (3)). With activation "relu" the gates are 1 where m > 0 and 0 elsewhere.
    """

    @property
    def gated(self) -> bool:
        """Frozen gates."""
        return True

    def frozen(self, network: MLP, inputs: int, outputs: int, substrate: Substrate) -> tuple[Weights, Substrate]:
        """The gates' weights."""
        del outputs
        weights: Weights = {}
        for layer in range(1, network.hidden_layers + 1):
            weights[f"gate {layer}"], substrate = substrate.gaussian(f"gate {layer}", layer - 1, inputs)
        return weights, substrate

    def nonlinearity(
        self,
        phi: Activation,
        layer: int,
        h: Float[Array, "p n"],
        inputs: Float[Array, "p r"],
        frozen: Weights,
    ) -> tuple[Float[Array, "p n"], Float[Array, "p n"]]:
        """The gated preactivation and the gate."""
        gate = phi.derivative(1)(inputs @ frozen[f"gate {layer}"])
        return gate * h, gate


@dataclass(frozen=True)
class Hebb(LearningRule, kind="hebb"):
    """gtilde^l_c = Delta_c phi(h^l): presynaptic times postsynaptic activity times |Delta|^2 (BP23 eq. (3))."""

    @property
    def transmission(self) -> float:
        """Pseudo-gradients know nothing of the weights yet."""
        return 0.0

    def static_pseudo_kernel(self, layers: LayerKernels, errors: Float[Array, "t p c"]) -> Float[Array, "t l p c p c"]:
        """Delta Delta <phi phi>."""
        kernel: Array = jnp.einsum("lpq,tpa,tqb->tlpaqb", layers.feature, errors, errors)
        return kernel

    def pseudo_gradient(
        self, signal: Float[Array, "p k c"], errors: Float[Array, "p c"], forward: Forward, state: State
    ) -> tuple[Gradients, State]:
        """The activity, modulated by the error."""
        modulation = jnp.einsum("pkc,pc->pk", signal, errors)[:, :, None]
        return tuple(modulation * features[:, None, :] for features in forward.features), state


def _for_outputs(kernel: Float[Array, "l p p"], errors: Float[Array, "t p c"]) -> Float[Array, "t l p c p c"]:
    """The same kernel for every output, none between outputs, at all times."""
    outputs = jnp.einsum("lpq,ab->lpaqb", kernel, jnp.eye(errors.shape[-1]))
    return jnp.broadcast_to(outputs, (len(errors), *outputs.shape))
