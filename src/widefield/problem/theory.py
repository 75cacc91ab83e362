"""What every theory is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..base.describe import Described
from ..base.version import __version__

if TYPE_CHECKING:
    from ..base.session import Session
    from .problem import Problem


@dataclass(frozen=True)
class Theory(Described, family="theory"):
    """A way to predict a `Trajectory`. The fields of a member are its numerical settings."""

    resumes: ClassVar[bool] = False
    """Whether it looks at `Session.interrupted` and keeps checkpoints. If not, Ctrl-C ends it at once."""

    def predict(self, problem: Problem, session: Session) -> Any:
        """Answer the problem. A run that stops early says so in the `status` of its trajectory."""
        raise NotImplementedError(f"{type(self).__name__} must define predict(problem, session)")

    def fingerprint(self, problem: Problem) -> str:
        """Identifies a run: a checkpoint may only be resumed by the same theory on the same problem."""
        text = "\n".join([__version__, problem.to_toml(), repr(self)])
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return self.kind
