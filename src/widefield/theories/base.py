"""What every theory is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..describe import Described

if TYPE_CHECKING:
    from ..problem import Problem
    from ..session import Session
    from ..trajectory import Trajectory


@dataclass(frozen=True)
class Theory(Described, family="theory"):
    """A way to predict a `Trajectory`. The fields of a member are its numerical settings."""

    def predict(self, problem: Problem, session: Session) -> Trajectory:
        """Answer the problem. A run that stops early says so in the `status` of its trajectory."""
        raise NotImplementedError(f"{type(self).__name__} must define predict(problem, session)")

    @property
    def label(self) -> str:
        """A few words for legends and tables."""
        return self.kind
