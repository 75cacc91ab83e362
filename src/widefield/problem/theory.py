"""What a theory is, and what it answers: declared once, from which follow its refusals and the tables of the docs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import tomli_w

from ..activations.table import mark_of_own
from ..base.describe import Described
from ..base.errors import InvalidInput
from ..base.numbers import double_precision
from ..base.renamed import in_old_words
from ..base.version import __version__
from .layer_rates import BIAS_RATES, WEIGHT_RATES, layered
from .network import MLP
from .rules import GradientDescent

if TYPE_CHECKING:
    from ..activations import Activation
    from ..base.session import Session
    from .architecture import Network
    from .losses import Loss
    from .optimisers import Optimiser
    from .problem import Problem
    from .rules import LearningRule

LAYERED = "rates of layers"
OPTIONS = ("momentum", "weight_decay", "temperature", "batch_size", LAYERED)
"""What an optimiser may do beside following the gradient of all samples."""

RECORDS = ("kernels", "test_kernels", "two_time", "responses")
"""What a theory is asked to keep beside outputs and losses. Some neurons are kept where there are any."""


@dataclass(frozen=True)
class Theory(Described, family="theory"):
    """A way to predict a `Trajectory`. The fields of a member are its numerical settings."""

    resumes: ClassVar[bool] = False
    """Whether it looks at `Session.interrupted` and keeps checkpoints. If not, Ctrl-C ends it at once."""

    @property
    def scope(self) -> Scope:
        """What it answers. A property, because it may depend on the settings."""
        return Scope()

    @classmethod
    def usual(cls, width: int = 1000) -> Self:
        """With default settings, and this width if it needs one."""
        needed = {f.name for f in fields(cls) if f.init and f.default is MISSING and f.default_factory is MISSING}
        if needed - {"width"}:
            raise InvalidInput(f"{cls.__name__} has no defaults for {', '.join(sorted(needed - {'width'}))}: give them")
        settings: dict[str, Any] = {"width": width} if needed else {}
        return cls(**settings)

    @classmethod
    def reasons_by_kind(cls, problem: Problem) -> dict[str, list[Reason]]:
        """Why each theory, with its usual settings, does not answer a problem; an empty list: it does."""
        found = {}
        for kind, member in cls.members.items():
            try:
                theory: Theory = member.usual()  # type: ignore[attr-defined]
            except InvalidInput as error:
                found[kind] = [Reason("theory", kind, str(error))]
            else:
                found[kind] = theory.reasons(problem)
        return found

    def reasons(self, problem: Problem) -> list[Reason]:
        """Everything in a problem that the theory, with its settings, does not answer."""
        return self.scope.reasons(problem)

    def check(self, problem: Problem) -> None:
        """Raise `NotInScope` if the problem has anything that the theory does not answer."""
        reasons = self.reasons(problem)
        if reasons:
            others = [kind for kind, against in self.reasons_by_kind(problem).items() if not against]
            raise NotInScope(self.kind, reasons, others)

    def predict(self, problem: Problem, session: Session) -> Any:
        """Answer the problem. A run that stops early says so in the `status` of its trajectory."""
        raise NotImplementedError(f"{type(self).__name__} must define predict(problem, session)")

    def fingerprint(self, problem: Problem) -> str:
        """Identifies a run: a checkpoint may only be resumed by the same theory on the same problem."""
        sections = {name: getattr(problem, name) for name in problem.sections}
        told = {name: in_old_words(part.to_table(), part.old_words) for name, part in sections.items()}
        settings = in_old_words({f.name: getattr(self, f.name) for f in fields(self) if f.repr}, self.old_words)
        named = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        text = "\n".join([__version__, tomli_w.dumps(told), f"{type(self).__qualname__}({named})"])
        network = problem.network
        text += mark_of_own(network.phi) if isinstance(network, MLP) else problem.plan.graph
        return hashlib.sha256(text.encode()).hexdigest()

    def identity(self, problem: Problem, session: Session) -> str:
        """The fingerprint if there is a checkpoint that needs it: it takes the whole problem as text."""
        return "" if session.checkpoint is None else self.fingerprint(problem)

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return self.kind


class Reason(NamedTuple):
    """Why a theory does not answer a problem: the field, its value, what is in the way."""

    field: str
    value: object
    why: str

    def __str__(self) -> str:
        return f"{self.field} = {_shown(self.value)}: {self.why}"


class NotInScope(InvalidInput):
    """A theory was asked what it does not answer; `reasons` holds everything that is in the way."""

    def __init__(self, theory: str, reasons: list[Reason], others: list[str]) -> None:
        """State the reasons, a line each, and the kinds of the theories that answer."""
        self.theory, self.reasons, self.others = theory, tuple(reasons), tuple(others)
        helped = f"theories that answer it: {', '.join(others)}" if others else "no theory answers all of it"
        super().__init__(
            "\n".join([f"the theory {theory!r} does not answer this problem:", *map(str, reasons), helped])
        )


class Clause(NamedTuple):
    """A condition on several fields: the problem is refused where `test` holds; `field` is the one to name."""

    field: str
    test: Callable[[Problem], bool]
    why: str


@dataclass(frozen=True)
class Scope:
    """What a theory answers. Whatever a problem has beyond it is refused, all reasons at once, before any work.

    Limits of memory and numbers are no matter of scope.

    Args:
        networks: kinds of networks that are known; None: any, also the user's own. The same for:
        rules: learning rules.
        losses: loss functions.
        optimisers: ways to move weights.
        options: what an optimiser may do, of `OPTIONS`.
        activations: "any", "no jumps" (a finite tangent kernel), "smooth", "linear", or "linear or gated" (any, if
            frozen gates take the place of the nonlinearity).
        hidden_layers: exactly so many; None: any number.
        outputs: at most so many; None: any number.
        parameterisations: of the network.
        richness: "any", "positive", or "ignored" (every problem is answered as if it were 0).
        random_start: whether networks may start from random outputs of order one ("ntk", not centred).
        records: what can be kept, of `RECORDS`.
        also: conditions on several fields.
        words: by field, why a value is refused where there is more to say than that it is.
        cost: how time grows, for the table of the docs.
        error: how good the answer is, for the same.
    """

    rules: tuple[type[LearningRule], ...] | None = None
    losses: tuple[type[Loss], ...] | None = None
    optimisers: tuple[type[Optimiser], ...] | None = None
    options: frozenset[str] = frozenset(OPTIONS)
    activations: Literal["any", "no jumps", "smooth", "linear", "linear or gated"] = "any"
    hidden_layers: int | None = None
    outputs: int | None = None
    parameterisations: tuple[str, ...] = ("mean-field", "ntk")
    richness: Literal["any", "positive", "ignored"] = "any"
    random_start: bool = True
    records: frozenset[str] = frozenset(RECORDS)
    also: tuple[Clause, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    cost: str = ""
    error: str = ""
    networks: tuple[type[Network], ...] | None = (MLP,)

    def reasons(self, problem: Problem) -> list[Reason]:
        """Everything in a problem that is not answered."""
        found = [*self._parts(problem), *self._network(problem), *self._records(problem)]
        found = [Reason(name, value, self.words.get(name, why)) for name, value, why in found]
        if not self._knows(problem.network):
            kinds = ", ".join(member.kind for member in self.networks or ())
            why = f"its equations are those of networks of the kind {kinds}"
            return [Reason("network", problem.network, why), *found]
        return found + [Reason(c.field, attrgetter(c.field)(problem), c.why) for c in self.also if c.test(problem)]

    def _knows(self, network: Network) -> bool:
        return self.networks is None or isinstance(network, self.networks)

    def left_out(self, problem: Problem, kept: set[str]) -> list[str]:
        """What was asked and is neither refused nor in the answer, whose variables are `kept`."""
        record, found = problem.record, []
        if record.neurons and not any(name.partition(":")[0] in ("preactivation", "field") for name in kept):
            found.append(Reason("record.neurons", record.neurons, "there are no sampled neurons to keep"))
        if record.kernels and not {"feature_kernel", "ntk"} & kept:
            found.append(Reason("record.kernels", True, "it predicts outputs alone"))
        if record.test_kernels and not problem.samples.test_samples:
            found.append(Reason("record.test_kernels", True, "there are no test samples"))
        if self.richness == "ignored" and problem.network.richness:
            found.append(Reason("network.richness", problem.network.richness, "is taken to be 0"))
        return [str(reason) for reason in found]

    def _parts(self, problem: Problem) -> list[Reason]:
        found = []
        for name, known in (("rule", self.rules), ("loss", self.losses), ("optimiser", self.optimisers)):
            given = getattr(problem, name)
            # Not isinstance: a gated network descends the gradient too, but is another network.
            if known is not None and type(given) not in known:
                found.append(Reason(name, given, "known are " + ", ".join(member.kind for member in known)))
        for name in OPTIONS:
            value = getattr(problem.optimiser, name, None)
            if value and name not in self.options:
                found.append(Reason(f"optimiser.{name}", value, "is not in its equations"))
        for name in (WEIGHT_RATES, BIAS_RATES):
            value = getattr(problem.optimiser, name, 1.0)
            if layered(value) and LAYERED not in self.options:
                found.append(Reason(f"optimiser.{name}", value, "its equations have one learning rate for all layers"))
        return found

    def _network(self, problem: Problem) -> list[Reason]:
        network, found = problem.network, []
        if isinstance(network, MLP):
            found += self._layers(problem, network)
        elif self._knows(network):
            found += self._graph(problem)
        if self.outputs is not None and problem.samples.outputs > self.outputs:
            found.append(Reason("network.outputs", problem.samples.outputs, f"it is for at most {self.outputs}"))
        if network.parameterisation not in self.parameterisations:
            why = "at infinite width this is lazy, and has no equations here"
            found.append(Reason("network.parameterisation", network.parameterisation, why))
        if self.richness == "positive" and network.richness == 0:
            found.append(Reason("network.richness", 0.0, "nothing moves in the lazy limit"))
        if network.starts_at_random and "ntk" in self.parameterisations and not self.random_start:
            why = "starts from outputs that differ between networks, in the parameterisation 'ntk'; set it to true"
            found.append(Reason("network.centred", False, why))
        return found

    def _graph(self, problem: Problem) -> list[Reason]:
        """What is defined for networks of layers only."""
        found = []
        if type(problem.rule) is not GradientDescent:
            why = "its pseudo-gradients belong to layers; networks other than mlp follow the gradient"
            found.append(Reason("rule", problem.rule, why))
        for name in ("two_time", "responses"):
            if getattr(problem.record, name) and name in self.records:
                found.append(Reason(f"record.{name}", True, "is recorded of layers only, for networks of the kind mlp"))
        return found

    def _layers(self, problem: Problem, network: MLP) -> list[Reason]:
        found = []
        gates = problem.rule.gated and self.activations == "linear or gated"
        obstacle = "" if gates else _obstacle(network.phi, self.activations)
        if obstacle:
            found.append(Reason("network.activation", network.activation, obstacle))
        if self.hidden_layers not in (None, network.hidden_layers):
            found.append(
                Reason("network.hidden_layers", network.hidden_layers, f"it is for exactly {self.hidden_layers}")
            )
        return found

    def _records(self, problem: Problem) -> list[Reason]:
        names = [name for name in RECORDS if getattr(problem.record, name) and name not in self.records]
        return [Reason(f"record.{name}", True, "is not among what it can record; set it to false") for name in names]


def _obstacle(phi: Activation, allowed: str) -> str:
    """What keeps an activation from being as smooth as it has to be; empty if nothing."""
    if allowed.startswith("linear") and phi.name != "linear":
        return f"the equations close for {allowed} networks only"
    if allowed == "smooth" and phi.kinks:
        return "it has a kink, where its second derivative is not a function"
    if allowed == "no jumps" and _jumps(phi):
        return "it jumps, so that its neural tangent kernel is infinite"
    return ""


def _jumps(phi: Activation) -> bool:
    """Whether the function itself, not only a derivative, is discontinuous at one of its kinks."""
    with double_precision():
        return any(abs(float(phi(kink + 1e-9)) - float(phi(kink - 1e-9))) > 1e-6 for kink in phi.kinks)


def _shown(value: Any) -> str:
    """As in a TOML file; a part of a problem by its kind."""
    if isinstance(value, Described):
        return repr(value.kind or type(value).__name__)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else repr(value)
