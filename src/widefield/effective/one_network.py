"""What one real network will do in training, from its tensors at initialisation: any loss, schedule and minibatches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..base import check
from ..base.arrays import Floats
from ..base.errors import InvalidInput
from .differentials_of_networks import NetworkDifferentials

Push = Callable[[int, Float[Floats, "p m"]], Float[Floats, "p m"]]
"""Of a step and the outputs at the training samples: eta dL/dz, 0 for samples that are not in the minibatch."""


@dataclass(frozen=True, eq=False)
class NetworkCourse:
    """Predicted outputs of one network before every step and after the last."""

    outputs: Float[Floats, "t p m"]
    frozen: Float[Floats, "t p m"]
    """The same pushes, with a kernel that stands still."""

    @property
    def expansion(self) -> float:
        """Largest effect of the learning kernel relative to that of the kernel: beyond about 0.3 do not rely on it."""
        moved = np.abs(self.frozen - self.frozen[0]).max()
        return float(np.abs(self.outputs - self.frozen).max() / moved) if moved else 0.0


def network_course(network: NetworkDifferentials, push: Push, steps: int, *, trained: int) -> NetworkCourse:
    """Follow theta <- theta - lambda sum (dz/dtheta) w(s), w = push(s, z), of a network, its first samples trained.

    With sums over the path of pushes W = sum w, C = sum w W, D = sum w W W, E = sum w C, of what was before a step,
    over composite indices of sample and output (the path theorem behind PDLT eqs. (inf.4)-(inf.9)),

        z_x = z_x(0) - H_xa W_a + dH_axb C_ab + dH_xab W_a W_b / 2
              - ddI_axbc D_abc / 2 - ddI_xabc W_a W_b W_c / 6 - ddII_abxc E_abc - ddII_xabc W_b C_ac

    What is left out is of order 1/n^2 for smooth activations. Time and memory go like (trained * outputs)^3.

    Args:
        network: from `network_differentials`, at training samples first.
        push: see `Push`; for descent on sum (z - y)^2 / 2 it is eta (z - y).
        steps: of training.
        trained: number of training samples.
    """
    samples, outputs = network.outputs.shape
    steps, trained = check.integer("steps", steps, least=0), check.integer("trained", trained, least=1, most=samples)
    size, all_of = trained * outputs, samples * outputs
    check.memory("outputs at all steps", 16 * (steps + 1) * all_of, "use fewer steps or samples")
    a, z0 = slice(size), network.outputs.ravel()
    H, dH, first, second = (
        _joined(part) for part in (network.ntk, network.dntk, network.first_ddntk, network.second_ddntk)
    )
    W, C = np.zeros(size), np.zeros((size, size))
    D, E = np.zeros((2, size, size, size))
    found, frozen = [z0], [z0]
    for step in range(steps):
        w = np.asarray(push(step, found[-1][a].reshape(trained, outputs)), dtype=np.float64)
        if w.shape != (trained, outputs):
            raise InvalidInput(f"push gives an array of shape {w.shape}; it must be {(trained, outputs)}")
        w = w.ravel()
        E += w[:, None, None] * C
        D += w[:, None, None] * np.multiply.outer(W, W)
        C += np.multiply.outer(w, W)
        W = W + w
        both = np.multiply.outer(W, W)
        learned = np.einsum("axb,ab->x", dH[a, :, a], C) + np.einsum("xab,ab->x", dH[:, a, a], both) / 2
        learned -= np.einsum("axbc,abc->x", first[a, :, a, a], D) / 2
        learned -= np.einsum("xabc,ab,c->x", first[:, a, a, a], both, W, optimize=True) / 6
        learned -= np.einsum("abxc,abc->x", second[a, a, :, a], E)
        learned -= np.einsum("xabc,b,ac->x", second[:, a, a, a], W, C, optimize=True)
        frozen.append(z0 - H[:, a] @ W)
        found.append(frozen[-1] + learned)
    shape = (steps + 1, samples, outputs)
    return NetworkCourse(np.stack(found).reshape(shape), np.stack(frozen).reshape(shape))


def _joined(tensor: Floats) -> Floats:
    """Samples first, then neurons -> composite indices."""
    order = tensor.ndim // 2
    samples, outputs = tensor.shape[0], tensor.shape[-1]
    mixed = tensor.transpose([axis for k in range(order) for axis in (k, order + k)])
    return np.ascontiguousarray(mixed).reshape((samples * outputs,) * order)
