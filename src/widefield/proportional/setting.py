"""What the proportional limit is asked about: a deep linear network, its data, and how it is trained.

Width N, dimension D and number of samples P (or size B of a batch) go to infinity together; what is left are the ratios
nu = N / D, alpha = P / D and alpha_B = B / D. With a `Spectrum` the dimension plays no role, and widths, samples and
batches are plain numbers N, P and B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import zeta

from ..base import check
from ..base.arrays import Floats
from ..base.describe import ByValue, Described, parse_plain, put
from ..base.errors import InvalidInput
from ..base.renamed import former, renamed

PARAMETERISATIONS = ("mean-field", "ntk")


@dataclass(frozen=True)
class LinearNetwork(Described, family="network", kind="deep-linear"):
    """f(x) = 1 / (N gamma_0) w . [prod_{l=1}^{L-1} W^l / sqrt N] W^0 x, all weights N(0, 1) at the start, BP25 eq. (1).

    With skip connections the product is over I + beta W^l / sqrt N, BP25 eq. (16).

    Args:
        hidden_layers: L; may be infinite with `depth_scaled`.
        width: nu of all hidden layers, or one for each of them; may be infinite.
        richness: gamma_0; with the parameterisation "ntk" gamma, and gamma_0 = gamma / sqrt(nu of the last layer).
        parameterisation: "mean-field" (muP) or "ntk".
        branch: beta of a residual network; None for a network without skip connections.
        depth_scaled: whether beta is `branch` / sqrt(L).
        centred: whether f(x, t) - f(x, 0) is trained.
    """

    hidden_layers: float
    width: float | tuple[float, ...] = math.inf
    richness: float = 1.0
    parameterisation: str = "mean-field"
    branch: float | None = None
    depth_scaled: bool = False
    centred: bool = False

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        if self.hidden_layers != math.inf:
            put(self, hidden_layers=check.integer("hidden_layers", self.hidden_layers, least=1))
        elif not self.depth_scaled:
            raise InvalidInput("hidden_layers = inf needs depth_scaled = True: branches of scale beta_0 / sqrt(L)")
        put(self, richness=check.number("richness", self.richness, above=0.0))
        check.choice("parameterisation", self.parameterisation, PARAMETERISATIONS)
        check.flag("depth_scaled", self.depth_scaled)
        check.flag("centred", self.centred)
        given = tuple(self.width) if isinstance(self.width, list | tuple) else (self.width,)
        widths = tuple(_ratio("width", w) for w in given)
        several = isinstance(self.width, list | tuple)
        put(self, width=widths if several else widths[0])
        if several and len(widths) != self.hidden_layers:
            raise InvalidInput(f"width = {widths} must have one entry for each of {self.hidden_layers} hidden layers")
        if len({math.isinf(w) for w in widths}) > 1:
            raise InvalidInput(f"width = {widths}: either all widths are infinite or none is")
        if self.parameterisation == "ntk" and math.isinf(widths[-1]):
            raise InvalidInput(
                "parameterisation = 'ntk' at width = inf is lazy: use 'mean-field' with a small richness"
            )
        if self.branch is None:
            if self.depth_scaled:
                raise InvalidInput("depth_scaled = True needs a branch: it scales the branches of a residual network")
            return
        put(self, branch=check.number("branch", self.branch, least=0.0))
        if len(set(widths)) > 1:
            raise InvalidInput(f"width = {widths}: with skip connections all layers have the same width")

    @property
    def widths(self) -> tuple[float, ...]:
        """nu of every hidden layer; one number if there are infinitely many."""
        if isinstance(self.width, tuple):
            return self.width
        return (self.width,) * (1 if math.isinf(self.hidden_layers) else int(self.hidden_layers))

    @property
    def mean_field_richness(self) -> float:
        """gamma_0 in either parameterisation."""
        return self.richness if self.parameterisation == "mean-field" else self.richness / math.sqrt(self.widths[-1])

    @property
    def branch_scale(self) -> float:
        """beta, the scale of every branch, 1 without skip connections; beta_0 at infinite depth."""
        if self.branch is None:
            return 1.0
        if math.isinf(self.hidden_layers):
            return self.branch
        return self.branch / math.sqrt(self.hidden_layers) if self.depth_scaled else self.branch

    gamma = former("LinearNetwork", "gamma", "mean_field_richness")
    beta = former("LinearNetwork", "beta", "branch_scale")


@dataclass(frozen=True, eq=False)
class Modes(ByValue, Described, family="spectrum"):
    """How the covariance of inputs is described: a `Spectrum`, or what one is made from."""


@dataclass(frozen=True, eq=False, init=False)
class Spectrum(Modes, kind="modes"):
    """Inputs x ~ N(0, diag(lambda)) and targets y = w . x + noise, mode by mode.

    Args:
        eigenvalues: lambda_k > 0.
        target: w_k^2, or coefficients w_kc of several outputs (modes, outputs).
        multiplicities: how many modes each of these stands for.
    """

    eigenvalues: Floats
    target: Floats = 1.0  # type: ignore[assignment]  # the default of __init__, for files
    multiplicities: Floats = None  # type: ignore[assignment]

    def __init__(
        self, eigenvalues: ArrayLike, target: ArrayLike = 1.0, multiplicities: ArrayLike | None = None
    ) -> None:
        """Check and copy the arrays."""
        values = check.array("eigenvalues", eigenvalues, ndim=1)
        if not len(values):
            raise InvalidInput("eigenvalues is empty: a spectrum needs at least one mode")
        if (values <= 0).any():
            raise InvalidInput(f"eigenvalues = {values.min():g} must be > 0: leave modes without variance out")
        weights = check.array("target", target)
        if weights.ndim == 0:
            weights = np.broadcast_to(weights, values.shape)
        if weights.ndim not in (1, 2) or len(weights) != len(values):
            raise InvalidInput(f"target has shape {weights.shape}; it must begin with the {len(values)} modes")
        if weights.ndim == 1 and (weights < 0).any():
            raise InvalidInput(f"target = {weights.min():g}: squares w_k^2 cannot be negative")
        counts = np.ones(len(values)) if multiplicities is None else check.array("multiplicities", multiplicities)
        if counts.shape != values.shape or (counts <= 0).any():
            raise InvalidInput(f"multiplicities must be {len(values)} numbers > 0")
        put(self, eigenvalues=values, target=weights, multiplicities=counts)

    @property
    def gram(self) -> Floats:
        """w_k w_k^T; (modes, outputs, outputs)."""
        if self.target.ndim == 1:
            return np.asarray(self.target[:, None, None])
        return np.asarray(self.target[:, :, None] * self.target[:, None, :])


@dataclass(frozen=True, eq=False)
class PowerLawModes(Modes, kind="power-law"):
    """lambda_k = k^-a and lambda_k w_k^2 = k^(-a b - 1) for k = 1 .. modes, BP25 eq. (20), a: capacity, b: source.

    With `bins`, neighbouring modes share one eigenvalue (their mean): log-spaced, the first ones alone. Sums of lambda
    and of lambda w^2 are those of all modes.
    """

    capacity: float
    source: float
    modes: int
    bins: int | None = None

    def __post_init__(self) -> None:
        """Check the fields."""
        put(self, capacity=check.number("capacity", self.capacity, above=1.0))
        put(self, source=check.number("source", self.source, above=0.0))
        put(self, modes=check.integer("modes", self.modes, least=1))
        if self.bins is not None:
            put(self, bins=check.integer("bins", self.bins, least=1))

    def spectrum(self) -> Spectrum:
        """The modes one by one, or the bins."""
        a, b, count = self.capacity, self.source, self.modes
        if self.bins is None or self.bins >= count:
            k = np.arange(1.0, count + 1)
            return Spectrum(k**-a, k ** (-a * b - 1 + a))
        edges = np.unique(np.geomspace(1, count + 1, self.bins + 1).round())
        sizes = np.diff(edges)
        # Hurwitz' zeta function is the sum of all terms from an edge on.
        values, power = (-np.diff(zeta(s, edges)) for s in (a, a * b + 1))
        return Spectrum(values / sizes, power / values, sizes)


def power_law(capacity: float, source: float, modes: int, bins: int | None = None) -> Spectrum:
    """lambda_k = k^-capacity and lambda_k w_k^2 = k^(-capacity source - 1), BP25 eq. (20); see `PowerLawModes`."""
    return PowerLawModes(capacity, source, modes, bins).spectrum()


@renamed(batch="batch_size")
@dataclass(frozen=True, eq=False)
class LinearTask(ByValue, Described, family="task", kind="linear"):
    """Targets y = w_* . x / sqrt D + noise, and what the network sees of them.

    Args:
        samples: alpha of a fixed training set, all of which is used in every step.
        batch_size: alpha_B of fresh samples in every step (online).
        noise: sigma.
        target: |w_*|^2 / D, or the matrix of w_c . w_c' / D for several outputs; in a `Spectrum` if there is one.
        spectrum: covariance of the inputs; None is isotropic.

    With neither samples nor batch_size the gradient is that of the population.
    """

    samples: float = math.inf
    batch_size: float = math.inf
    noise: float = 0.0
    target: float | Floats = 1.0
    spectrum: Spectrum | None = None

    def __post_init__(self) -> None:
        """Check and normalise every field."""
        for name in ("samples", "batch_size"):
            put(self, **{name: _ratio(name, getattr(self, name))})
        if math.isfinite(self.samples) and math.isfinite(self.batch_size):
            raise InvalidInput("samples and batch_size: give one of them, a fixed training set or fresh batches")
        put(self, noise=check.number("noise", self.noise, least=0.0))
        gram = check.array("target", self.target)
        if gram.ndim == 0:
            gram = gram[None, None]
        if gram.ndim != 2 or gram.shape[0] != gram.shape[1] or not np.allclose(gram, gram.T):
            raise InvalidInput(f"target has shape {gram.shape}; it must be a number or a symmetric matrix")
        if np.linalg.eigvalsh(gram).min() < -1e-12 * max(np.abs(gram).max(), 1e-300):
            raise InvalidInput("target must be a matrix of inner products: it has a negative eigenvalue")
        put(self, target=gram)
        if not (self.spectrum is None or isinstance(self.spectrum, Spectrum)):
            raise InvalidInput(f"spectrum = {self.spectrum!r} must be a Spectrum")
        if self.spectrum is not None and not np.array_equal(gram, [[1.0]]):
            raise InvalidInput("target belongs into the spectrum if there is one")

    @classmethod
    def parse_field(cls, name: str, value: Any) -> Any:
        """A table under spectrum holds modes, or what they follow from."""
        if name != "spectrum":
            return parse_plain(value)
        found: Modes = Spectrum.from_table(value)
        return found.spectrum() if isinstance(found, PowerLawModes) else found

    @property
    def online(self) -> bool:
        """Whether every step sees fresh samples."""
        return math.isfinite(self.batch_size)

    @property
    def sizes(self) -> str:
        """The unit of width, samples and batch_size."""
        return "over the dimension" if self.spectrum is None else "numbers"

    @property
    def modes(self) -> Spectrum:
        """The spectrum; isotropic data are one mode, in units of D."""
        return Spectrum([1.0]) if self.spectrum is None else self.spectrum

    @property
    def gram(self) -> Floats:
        """Inner products of the targets' coefficients in every mode; (modes, outputs, outputs)."""
        return np.asarray(self.target)[None] if self.spectrum is None else self.spectrum.gram


def _ratio(name: str, value: float) -> float:
    """A positive number or infinity."""
    if isinstance(value, float | np.floating) and math.isinf(value) and value > 0:
        return math.inf
    return check.number(name, value, above=0.0)
