"""`solve`: the one verb."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from ..base import files
from ..base.errors import Diverged, Interrupted, InvalidInput
from ..base.session import Report, Session, progress_bar, watching_for_interrupt
from ..problem.problem import Problem
from ..problem.theory import Theory
from ..theories.infinite_width import InfiniteWidth
from ..trajectory.trajectory import Trajectory


def solve(
    problem: Problem,
    theory: Theory | None = None,
    *,
    throw: bool = True,
    progress: bool | Report | None = None,
    checkpoint: str | Path | None = None,
) -> Trajectory:
    """Ask a theory (or real networks) what happens in a problem.

    Args:
        problem: what is studied.
        theory: who answers, with its numerical settings, for example `FiniteWidth(1024, seeds=8)`; None is
            `InfiniteWidth()`.
        throw: raise `Diverged` or `Interrupted` if the run ends early; False returns what there is, with the
            reason in `Trajectory.status` and `Trajectory.message`.
        progress: True or False for a progress bar, None for one on terminals only, or a function
            `report(steps done, steps in all, loss)`.
        checkpoint: a file to save an unfinished run to, every few minutes and at Ctrl-C; if it is there, the run
            goes on from it, to the same numbers. It is deleted when the run is complete. Theories that take seconds
            have no use for it: there Ctrl-C raises KeyboardInterrupt, as elsewhere in Python.
    """
    if not isinstance(problem, Problem):
        raise InvalidInput(f"problem = {problem!r} must be a Problem")
    theory = InfiniteWidth() if theory is None else theory
    if not isinstance(theory, Theory):
        raise InvalidInput(f"theory = {theory!r} must be a theory, for example FiniteWidth(1024, seeds=8)")
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InvalidInput(f"progress = {progress!r} must be True, False, None or a function")
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        files.check_writable(path)
    session = Session(checkpoint=path)
    shown = progress if isinstance(progress, bool) else None
    with (
        progress_bar(theory.label, False if callable(progress) else shown) as bar,
        watching_for_interrupt(session) if theory.resumes else nullcontext(),
    ):
        session.report = progress if callable(progress) else bar
        trajectory: Trajectory = theory.predict(problem, session)
    if path is not None and trajectory.status != "interrupted":
        path.unlink(missing_ok=True)
    if throw and trajectory.status == "diverged":
        raise Diverged(f"{trajectory.message}; a smaller learning_rate nearly always helps", trajectory)
    if throw and trajectory.status == "interrupted":
        raise Interrupted(trajectory.message, trajectory)
    return trajectory
