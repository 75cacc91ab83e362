"""What every theory is."""

from __future__ import annotations

import hashlib
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

import tomli_w

from ..base.describe import Described
from ..base.errors import InvalidInput
from ..base.renamed import in_old_words
from ..base.version import __version__
from .scope import NotInScope, Reason, Scope

if TYPE_CHECKING:
    from ..base.session import Session
    from .problem import Problem


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
        settings = in_old_words(
            {field.name: getattr(self, field.name) for field in fields(self) if field.repr}, self.old_words
        )
        named = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        text = "\n".join([__version__, tomli_w.dumps(told), f"{type(self).__qualname__}({named})"])
        return hashlib.sha256(text.encode()).hexdigest()

    def identity(self, problem: Problem, session: Session) -> str:
        """The fingerprint if there is a checkpoint that needs it: it takes the whole problem as text."""
        return "" if session.checkpoint is None else self.fingerprint(problem)

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return self.kind
