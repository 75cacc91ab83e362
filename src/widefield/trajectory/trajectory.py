"""What comes out of every theory: labelled arrays over time, layer, sample and seed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from ..base import check, statistics
from ..base.errors import InvalidInput, UnknownName
from ..base.renamed import former, renamed
from ..base.result import Result
from ..problem.network import MLP
from ..problem.problem import Problem
from ..problem.theory import Theory
from . import metrics, two_time, units


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(
    Result, kind="trajectory", asked={"problem": Problem, "theory": Theory}, figure="widefield.trajectory.plots:summary"
):
    """The answer of a theory to a problem.

    `data` is an xarray dataset with the dimensions `time` (sum of learning rates; `step` counts), `layer` (1 .. L),
    `sample`, `sample_` (second sample index), `output`, `seed`, and

        outputs, loss            f on the training samples, and the loss over all of them
        test_outputs, test_loss  the same on the test samples, if there are any
        feature_kernel           Phi^l = <phi(h) phi(h)>
        gradient_kernel          G^l = <g g>
        alignment_kernel         <g gt>: rows gradient, columns pseudo-gradient of the learning rule
        pseudo_gradient_kernel   <gt gt>
        ntk                      the (effective) neural tangent kernel, BP23 eq. (4)
        preactivation, pregradient   h and z of some neurons (dimension `neuron`)
        rank                     directions along which the matrices between layers, and their transposes, are known
        targets, test_targets, input_kernel

    Networks other than `MLP` have no layers: their kernels are those of the fields that they name,

        feature_kernel:<name>    <a, a'>, rows and columns for samples and positions (dimension "<name> position")
        gradient_kernel:<name>   (N/n) <ahat, ahat'> with ahat = n dF/da, which for layers is G
        scalar:<name>            a named scalar, as attention is
        field:<name>, gradient:<name>   a and ahat of some neurons

    Kernels of gradients have the axes `output`, `output_` only if the network has several outputs. A theory that
    knows the error of a variable gives it as `<name>_error`, and one that knows how networks differ from one another
    gives the standard deviation over networks as `<name>_deviation`.
    """

    what_is_kept: ClassVar[str] = "variable (see also `Record`, which says what is kept)"
    old_words: ClassVar[dict[str, str]] = {
        "accuracy": "relative_error",
        "bias": "particle_bias",
        "first": "pair_sample",
        "second": "pair_sample_",
        "uncertainty_of_gates": "gates_bound",
    }

    problem: Problem
    theory: Theory

    @property
    def message(self) -> str:
        """Why a run ended early, or how far it is from the tolerance; empty if it is complete."""
        stated, numbers = super().message, self.statistics
        if stated or self.status != "not accurate":
            return stated
        if "change" in numbers:
            return f"the tolerance was not reached: kernels still change by {numbers['change']:.2g}"
        error = math.hypot(numbers.get("relative_error", math.nan), numbers.get("particle_bias", 0.0))
        return f"the tolerance was not reached: the relative error is about {error:.2g}"

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return self.theory.label

    @property
    def heading(self) -> str:
        """What was asked, in a line."""
        problem, network, samples = self.problem, self.problem.network, self.problem.samples
        at = "".join(f"{count} x " for count in samples.inputs[:-1])
        return (
            f"{self.label}: {network.heading}, richness {network.richness:g}; {samples.samples} samples "
            f"of dimension {at}{samples.dimension}; {problem.rule.kind}; {problem.optimiser.steps} steps"
        )

    @property
    def verdict(self) -> str:
        """The learning rate and where it comes from, if it was found by the package."""
        numbers = self.statistics
        if "learning_rate_fraction" not in numbers:
            return ""
        trains = f"{numbers['stable_rate']:.3g} ± {numbers['stable_rate_error']:.2g}"
        return (
            f"learning_rate = 'auto' became {numbers['learning_rate']:g}: {numbers['learning_rate_fraction']:g} times "
            f"the smaller of {trains}, up to which it trains, and "
            f"{numbers['kernel_rate']:.3g}, which the tangent kernel at the start allows"
        )

    def interval(self, name: str, level: float = 0.95) -> tuple[xr.DataArray, xr.DataArray]:
        """Bounds that hold the mean over infinitely many networks or replicas with probability `level`.

        Student's t takes care of few seeds or replicas. What truncation may do at infinite width, `truncation_bound`
        times the root mean square over samples, is added on both sides: no scatter shows it.
        """
        level = check.number("level", level, above=0.0, most=1.0 - 1e-9)
        value, error = self.mean(name), self.standard_error(name)
        repetitions = self.data.sizes.get("seed") or self.data.attrs.get("replicas")
        if repetitions == 1:
            raise InvalidInput(f"a single network or replica says nothing about the error of {name!r}; ask for more")
        half = error * statistics.quantile(level, repetitions)
        if "replicas" in self.data.attrs:  # error bars are widened already
            half = half / statistics.widening(int(self.data.attrs["replicas"]))
        size = np.sqrt((value**2).mean([axis for axis in value.dims if axis != "time"]))
        stated = self.data.attrs
        half = half + float(stated.get("truncation_bound", stated.get("truncation_error", 0.0))) * size
        return value - half, value + half

    def lacks(self) -> str:
        """What is missing in a file, or does not belong to its problem."""
        missing = [name for name in ("outputs", "loss", "targets", "time", "step") if name not in self.data.variables]
        if missing:
            return f"it lacks {', '.join(missing)}"
        samples, steps = self.problem.samples, self.data["step"]
        expected = {"output": samples.outputs}
        if isinstance(self.problem.network, MLP):
            expected["layer"] = self.problem.network.hidden_layers
        sizes = {name: self.data.sizes.get(name, size) for name, size in expected.items()}
        sizes["sample"], expected["sample"] = self.data["targets"].shape[0], self.problem.recorded_samples
        for name, size in expected.items():
            if sizes[name] != size:
                return f"its data have {sizes[name]} in {name!r}, its problem {size}"
        if {self.data[name].dims[-1] for name in ("time", "step")} != {"time"} or "time" not in self.data["loss"].dims:
            return "losses, times and steps do not belong together"
        if len(steps) and not 0 <= int(steps.min()) <= int(steps.max()) <= self.problem.optimiser.steps:
            return f"its steps are not those of its problem, 0 to {self.problem.optimiser.steps}"
        return ""

    def __repr__(self) -> str:
        """What was asked, how large the answer is, and how it ended; never its arrays."""
        sizes = ", ".join(f"{count} {name}s" for name, count in self.data.sizes.items() if name in ("time", "seed"))
        parts = (self.heading, f"{sizes}; {self.data.nbytes / 2**20:.2g} MiB", self.ending or self.status)
        return "<Trajectory " + "\n  ".join(parts) + ">"

    def in_data_units(self) -> xr.Dataset:
        """Outputs, targets and losses in the units that the data had before they were standardised.

        f -> mean + s f and loss -> s^2 loss (thresholds of losses in the new units too), errors and deviations
        likewise; data that were not standardised have their units already. Kernels are not among them.
        """
        return units.in_data_units(self.data, self.problem)

    def target_alignment(self, name: str = "ntk") -> xr.DataArray:
        """A(K, y y^T) = y^T K y / (|K| |y|^2) of a kernel with the targets."""
        return metrics.target_alignment(self.variable(name), self.data["targets"])

    def kernel_movement(self, name: str = "ntk") -> xr.DataArray:
        """|K(t) - K(0)| / |K(0)|."""
        return metrics.relative_change(self.variable(name))

    def initial_overlap(self, name: str = "ntk") -> xr.DataArray:
        """A(K(0), K(t)), the cosine similarity of a kernel with its initial value."""
        kernel = self.variable(name)
        return metrics.cosine_similarity(kernel, kernel.isel(time=0, drop=True))

    def cosine_similarity(self, other: Trajectory, name: str) -> xr.DataArray:
        """A(X, Y) of the mean kernels of two trajectories at the times that both have (to rounding)."""
        return metrics.cosine_similarity(*metrics.at_common_times(self.mean(name), other.mean(name)))

    def gradient_cosine(self) -> xr.DataArray:
        """Mean cosine between gradient and pseudo-gradient (1 for gradient descent)."""
        names = ("gradient_kernel", "alignment_kernel", "pseudo_gradient_kernel")
        return metrics.gradient_cosine(*(self.variable(name) for name in names))

    gradient_correlation = former("Trajectory", "gradient_correlation", "gradient_cosine")

    def accuracy(self, part: str = "train") -> xr.DataArray:
        """Fraction of samples classified as their target: by sign with one output, by the largest with several."""
        prefix = {"train": "", "test": "test_"}.get(part)
        if prefix is None:
            raise UnknownName("part", part, ("train", "test"))
        outputs, targets = self.variable(f"{prefix}outputs"), self.variable(f"{prefix}targets")
        if targets.sizes["output"] == 1:
            right = (np.sign(outputs) == np.sign(targets)).isel(output=0, drop=True)
        else:
            right = outputs.argmax("output") == targets.argmax("output")
        fraction: xr.DataArray = right.mean(f"{prefix}sample")
        return fraction

    def field(self, name: str, layer: int, time: float | None = None, sample: int | None = None) -> xr.DataArray:
        """Values of "preactivation" or "pregradient" over all recorded neurons, at the last time if none is given.

        `Record(neurons=...)` says how many neurons are kept.
        """
        values = self.variable(name)
        if "neuron" not in values.dims:
            raise UnknownName("field", name, [n for n in ("preactivation", "pregradient") if n in self.data])
        if layer not in self.data["layer"].values:
            raise InvalidInput(f"layer = {layer!r} does not exist; layers are 1 to {int(self.data['layer'].max())}")
        if sample is not None and not 0 <= sample < values.sizes["sample"]:
            raise InvalidInput(f"sample = {sample!r} does not exist; samples are 0 to {values.sizes['sample'] - 1}")
        chosen = values.sel(layer=layer).isel(time=-1 if time is None else metrics.time_index(self.data, time))
        return chosen if sample is None else chosen.isel(sample=sample)

    def histogram(
        self,
        name: str,
        layer: int,
        time: float | None = None,
        sample: int | None = None,
        *,
        bins: int = 40,
        limits: tuple[float, float] | None = None,
    ) -> xr.DataArray:
        """Density of "preactivation" or "pregradient" (see `field`) over neurons, seeds and, if None, samples."""
        return metrics.histogram(self.field(name, layer, time, sample), bins, limits)

    @renamed(t="time", s="time_")
    def two_time(
        self, name: str, layer: int | None = None, time: float | None = None, time_: float | None = None
    ) -> xr.DataArray:
        """Two-time kernel K(t, s) of a layer, t = `time` and s = `time_`; of all pairs of recorded times if None.

        Rows belong to t, columns (`sample_`, ...) to s. Needs `Record(two_time=True)`. "ntk" has no layer.

        With `Record(responses=True)` also response functions between layers `layer` and `layer` + 1, in the
        normalisation W phi = u + a g, W^T g = r + b phi (variances of weights and ratios of widths included):
        "feature_response" a = <d phi(t) / d r(s)>,
        "gradient_response" b = <d g(t) / d u(s)>, and for feedback alignment "pseudo_feature_response" c and
        "pseudo_gradient_response" d, the same with pseudo-gradients (BP23 eq. (5)). They are those of the theory if
        every step is recorded; where fields at different times are linearly dependent, and only products with
        fields mean something, the response is ascribed to the earliest ones.
        """
        if name == "ntk":
            rates = self.problem.optimiser.layer_rates(self.problem.network)
            return two_time.tangent_kernel(self.data, time, time_, rates)
        if layer is None:
            raise InvalidInput(f"layer = None: {name} is a kernel of a layer, from 1 to {self.data.sizes['layer']}")
        return two_time.kernel(self.data, name, layer, time, time_)

    def table(self) -> Any:
        """Losses, and alignment of the last layer's kernels with the targets, at some times."""
        from ..base import tables

        names = [name for name in ("loss", "test_loss") if name in self.data]
        kernels = [name for name in ("feature_kernel", "ntk") if name in self.data]
        headings = ("step", "time", *names, *(f"{name} alignment" for name in kernels))
        made = tables.table([heading.replace("_", " ") for heading in headings])
        chosen = tables.rows(self.data.sizes["time"], 11)
        data = self.data.isel(time=chosen)
        losses = [self.mean(name).isel(time=chosen).values for name in names]
        aligned = [_last_layer(metrics.target_alignment(data[name], data["targets"])).values for name in kernels]
        for row in range(len(chosen)):
            cells = [str(int(data["step"][row])), f"{float(data['time'][row]):.4g}"]
            cells += [f"{loss[row]:.4g}" for loss in losses]
            made.add_row(*cells, *(f"{alignment[row]:.4f}" for alignment in aligned))
        return made


def _last_layer(value: xr.DataArray) -> xr.DataArray:
    """Of the mean over seeds."""
    value = value.mean("seed") if "seed" in value.dims else value
    return value.isel(layer=-1) if "layer" in value.dims else value
