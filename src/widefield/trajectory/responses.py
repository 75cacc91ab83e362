"""Response functions of the mean-field equations, found from what is recorded and kept as factors.

Between layers l and l + 1 stands W = W^l(0). Let phi(t) be features of layer l, g(s) gradients of layer l + 1, and
Phi = <phi phi^T>, G = <g g^T>, X(t, s) = <phi(t) W^T g(s)> over all recorded times and samples. In the theory

    W phi(t) = u(t) + sum_{s < t} a(t, s) g(s),          a = <d phi / d r>,
    W^T g(t) = r(t) + sum_{s <= t} b(t, s) phi(s),       b = <d g / d u>,

so that X = a G + Phi b^T with a strictly causal and b causal (BP22 eq. (10), (53)). With phi = C q and g = D p in
orthonormal vectors taken up in the order of time, C^-1 X D^-T splits: where p_j is older than q_i it belongs to a,
elsewhere to b. Feedback alignment has the same with pseudo-gradients: c and d of BP23 eq. (5).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Floats


def names(*, exact: bool, through_weights: bool) -> tuple[str, ...]:
    """Response functions of a rule: through which initial weights pseudo-gradients pass decides."""
    if exact:
        return ("feature_response", "gradient_response")
    pseudo = ("pseudo_feature_response", "pseudo_gradient_response") if through_weights else ()
    return (*pseudo, "gradient_response")


class Causal(NamedTuple):
    """rows = coordinates @ directions; direction j first appears in row `born[j]`."""

    coordinates: Floats
    directions: Floats
    born: NDArray[np.int64]

    @property
    def inverse(self) -> Floats:
        """Takes coordinates to weights on the rows in which directions appear: inverse @ rows = directions."""
        full = np.zeros(self.coordinates.T.shape)
        full[:, self.born] = np.linalg.inv(self.coordinates[self.born])
        return full


def causal(rows: Floats, tolerance: float) -> Causal:
    """Orthonormal directions of rows, in order; those that bring less than `tolerance` of the rms are skipped."""
    scale = np.sqrt(np.mean(rows**2))
    directions = np.zeros((0, rows.shape[1]))
    born: list[int] = []
    for number, row in enumerate(rows):
        rest = row
        for _ in range(2):
            rest = rest - (directions @ rest / len(row)) @ directions
        size = np.sqrt(np.mean(rest**2))
        if size > tolerance * scale:
            directions, born = np.vstack([directions, rest / size]), [*born, number]
    return Causal(rows @ directions.T / rows.shape[1], directions, np.asarray(born, dtype=np.int64))


class Pair(NamedTuple):
    """left @ right^T."""

    left: Floats
    right: Floats


def split(features: Floats, gradients: Floats, images: Floats, times: int, tolerance: float) -> tuple[Pair, Pair]:
    """a (rows of phi by rows of g) and b (rows of g by rows of phi); `images` are W^T g. Rows are ordered by time."""
    phi, g = causal(features, tolerance), causal(gradients, tolerance)
    core = (phi.directions @ images.T / features.shape[1]) @ g.inverse.T
    when_phi, when_g = phi.born // (len(features) // times), g.born // (len(gradients) // times)
    older = when_g[None, :] < when_phi[:, None]
    a = Pair(phi.coordinates @ np.where(older, core, 0.0), g.inverse.T)
    b = Pair(g.coordinates @ np.where(older, 0.0, core).T, phi.inverse.T)
    return a, b


def remainder(features: Floats, images: Floats, driven: Pair | None, times: int, tolerance: float) -> Pair:
    """b of gradients whose own noise drives nothing: Phi b^T = X - c <gt g^T>; `driven` is the last term."""
    phi = causal(features, tolerance)
    rest = phi.directions @ images.T / features.shape[1]
    if driven is not None:
        rest = rest - (phi.inverse @ driven.left) @ driven.right.T
    when = phi.born // (len(features) // times)
    causes = when[:, None] <= (np.arange(len(images)) // (len(images) // times))[None, :]
    return Pair(np.where(causes, rest, 0.0).T, phi.inverse.T)


def of_layer(fields: dict[str, NDArray[Any]], tolerance: float, *, exact: bool) -> dict[str, Pair]:
    """Responses between a layer and the next from the fields (time, sample, [output,] neuron) of one seed.

    `images` are W^T g, `pseudo_images` W^T gt if the learning rule sends pseudo-gradients through W.
    """
    times = len(fields["features"])
    flat = {name: value.reshape(-1, value.shape[-1]) for name, value in fields.items()}
    features, gradients, images = flat["features"], flat["gradients"], flat["images"]
    if exact:
        a, b = split(features, gradients, images, times, tolerance)
        return {"feature_response": a, "gradient_response": b}
    if "pseudo_images" not in flat:
        return {"gradient_response": remainder(features, images, None, times, tolerance)}
    c, d = split(features, flat["pseudo_gradients"], flat["pseudo_images"], times, tolerance)
    driven = Pair(c.left, gradients @ (flat["pseudo_gradients"].T @ c.right) / gradients.shape[1])
    b = remainder(features, images, driven, times, tolerance)
    return {"pseudo_feature_response": c, "pseudo_gradient_response": d, "gradient_response": b}
