"""`solve`: the one verb."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..base import check, files
from ..base.errors import Diverged, FileProblem, Interrupted, InvalidInput, NotSaved
from ..base.result import Result
from ..base.session import (
    CHECKPOINT_SECONDS,
    Compilation,
    Report,
    Session,
    progress_bar,
    says,
    watching_compilation,
    watching_for_interrupt,
)
from ..problem.problem import Problem
from ..problem.question import Question
from ..problem.theory import Theory
from ..theories.infinite_width import InfiniteWidth
from ..trajectory.trajectory import Trajectory
from .rate_words import limit_in_words, warn_of_scale
from .stable_rates import with_number

if TYPE_CHECKING:
    from ..proportional.problem import LinearProblem
    from ..proportional.result import Dynamics


_UNKNOWN = ("_error", "_bound")


def what_helps(result: Result) -> str:
    """What to do about a loss that exploded: before the first step no learning rate can be at fault."""
    if result.data.attrs.get("failed_step", result.data.attrs.get("diverged")) == 0:
        return "that is before the first step, so make inputs, targets or the variances of weights smaller"
    problem = getattr(result, "problem", None)
    if not isinstance(problem, Problem):
        return "a smaller learning_rate nearly always helps"
    return limit_in_words(problem)


@overload
def solve(
    problem: Problem,
    theory: Theory | None = None,
    *,
    throw: bool = True,
    progress: bool | Report | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    output: str | Path | None = None,
) -> Trajectory: ...


@overload
def solve(
    problem: LinearProblem,
    theory: Theory | None = None,
    *,
    throw: bool = True,
    progress: bool | Report | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    output: str | Path | None = None,
) -> Dynamics: ...


@overload
def solve(
    problem: Question,
    theory: Theory | None = None,
    *,
    throw: bool = True,
    progress: bool | Report | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    output: str | Path | None = None,
) -> Result: ...


def solve(
    problem: Question,
    theory: Theory | None = None,
    *,
    throw: bool = True,
    progress: bool | Report | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    output: str | Path | None = None,
) -> Result:
    """Ask a theory, or real networks, what happens in a problem.

    A `Problem` says what is trained: network, data, loss, learning rule, optimiser. A theory says who answers: infinite
    width (if nobody is named), real networks of some width, or one of the approximations. All of them answer with the
    same kind of object, a `Trajectory`, so that answers can be laid side by side.

    >>> import widefield as wf
    >>> problem = wf.Problem(
    ...     wf.MLP(hidden_layers=1, activation="tanh", richness=1.0),
    ...     data=([[1.0, 0.5], [-0.4, 1.2], [0.3, -1.1]], [0.7, -0.2, 0.4]),
    ...     optimiser=wf.SGD(learning_rate=0.2, steps=20),
    ... )
    >>> lazy = wf.solve(problem, wf.Lazy())  # as if features stood still
    >>> networks = wf.solve(problem, wf.FiniteWidth(64, seeds=3))  # three real networks of 64 neurons
    >>> lazy.mean("loss").shape, bool(networks.mean("loss")[-1] < networks.mean("loss")[0])
    ((21,), True)

    What comes out, beside `mean(name)` and `standard_error(name)` of every variable:

    - `data`: an xarray dataset with `outputs`, `loss`, `feature_kernel`, `ntk` and more over `time`, `layer`, `sample`
      (and `seed`, of networks); `time` is the number of steps times the learning rate.
    - `data.attrs["loss"]`: what the loss adds up. It is a sum over samples unless the problem says otherwise.
    - `table()`, `plot()`, `save("answer.nc")`; `wf.load` opens the file again.
    - `statistics`: seconds, sizes, errors; `seconds_tracing`, `seconds_compiling` and `programs_compiled` say what jax
      did before it could compute (programs that were found on disk do not count).

    Args:
        problem: what is studied: a `Problem`, whose answer is a `Trajectory`, or a `proportional.LinearProblem`, whose
            answer is a `proportional.Dynamics`.
        theory: who answers, with its numerical settings: `InfiniteWidth()`, `FiniteWidth(1024, seeds=8)`, `Lazy()`, ...
            None is `InfiniteWidth()`, right to 2%, or for a `LinearProblem` `proportional.ProportionalLimit()`.
            `applicable(problem)` says which theories answer a problem, and why others do not.
        throw: raise `Diverged` or `Interrupted` if the run ends early; False returns what there is, with the
            reason in `Result.status` and `Result.message`.
        progress: True or False for a progress bar, None for one on terminals only, or a function
            `report(steps done, steps in all, loss)`.
        checkpoint: a file to save an unfinished run to, now and then and at Ctrl-C, SIGTERM and SIGHUP; if it is there,
            the run goes on from it, to the same numbers. It is deleted when the run is complete and saved to `output`.
            Theories that take seconds have no use for it: there Ctrl-C raises KeyboardInterrupt, as elsewhere.
        checkpoint_seconds: between checkpoints, so what a run that is killed loses at most; more where it would take
            more than a twentieth of the time to write them.
        output: a file to save the answer to, also one that ended early. If that fails, `NotSaved` holds the answer, and
            says where else it was put. Two runs with one output exclude each other.

    Raises:
        InvalidInput: for what cannot work; `NotInScope` names all reasons why a theory does not answer a problem.
        Diverged: the loss exploded; the message names a learning rate that does not. `error.result` is what there was.

    See also `compare` (several theories and networks at once), `stable_rate` (learning rates), `plots.compare`.
    """
    theory = _answering(problem, theory)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InvalidInput(f"progress = {progress!r} must be True, False, None or a function")
    question: Any = problem
    found = None
    if isinstance(problem, Problem):
        if problem.samples.unusual:
            warn_of_scale(problem, stacklevel=3)
        if problem.optimiser.automatic:
            question, found = with_number(problem)
    theory.check(question)
    kept, goal = (None if given is None else Path(given) for given in (checkpoint, output))
    session = Session(
        checkpoint=kept, checkpoint_seconds=check.number("checkpoint_seconds", checkpoint_seconds, least=0)
    )
    for path in filter(None, (kept, goal)):
        files.check_writable(path)
    with files.claimed(goal or kept) if goal or kept else nullcontext():  # type: ignore[arg-type]
        result = _with_ending(_predicted(question, theory, session, progress), session)
        if found is not None:
            result = dataclasses.replace(result, data=result.data.assign_attrs(found.attributes))
        if goal is not None:
            _save(result, goal)
        if kept is not None and result.status != "interrupted":
            kept.unlink(missing_ok=True)
    if throw and result.status == "diverged":
        raise Diverged(f"{result.message}; {what_helps(result)}", result)
    if throw and result.status == "interrupted":
        raise Interrupted(result.message, result)
    return result


def _predicted(problem: Any, theory: Theory, session: Session, progress: bool | Report | None) -> Result:
    """The answer, with a bar and an ear for Ctrl-C."""
    shown = progress if isinstance(progress, bool) else None
    with (
        progress_bar(theory.label, False if callable(progress) else shown) as bar,
        watching_for_interrupt(session) if theory.resumes else nullcontext(),
        watching_compilation() as spent,
    ):
        session.report = progress if callable(progress) else bar
        session.note = says(False if callable(progress) else shown)
        result = _within_memory(theory, problem, session)
    return _with_costs(_finite(result), spent)


def _within_memory(theory: Theory, problem: Any, session: Session) -> Result:
    """The answer, unless memory runs out on the way in spite of all checks before."""
    try:
        result: Result = theory.predict(problem, session)
    except Exception as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            raise InvalidInput(
                f"memory ran out while {theory.label} was computed, {check.gib(check.available())} are free: record "
                "less often or fewer samples, or reduce the width, particles or seeds"
            ) from None
        raise
    return result


def _finite(result: Result) -> Result:
    """The same, but not called complete if numbers in it are not finite."""
    if result.status != "complete":
        return result
    for name, value in result.data.data_vars.items():
        # Error bars of a single network are not known; what follows from numbers alone has no time.
        if "time" not in value.dims or str(name).endswith(_UNKNOWN) or value.dtype.kind != "f":
            continue
        others = tuple(place for place, axis in enumerate(value.dims) if axis != "time")
        bad = ~np.isfinite(value.values).all(axis=others)
        if bad.any():
            step = int(result.data["step"][int(np.argmax(bad))])
            message = f"{name} is not finite at step {step}: it is too large, or too small, for these numbers"
            ending = {"status": "diverged", "message": message, "failed_step": step}
            return dataclasses.replace(result, data=result.data.assign_attrs(ending))
    return result


def _with_ending(result: Result, session: Session) -> Result:
    """With the signal that ended it, if one did."""
    if result.status != "interrupted":
        return result
    return dataclasses.replace(result, data=result.data.assign_attrs(signal=session.interrupted))


def _save(result: Result, path: Path) -> None:
    """Save an answer; where that fails, somewhere else, and say so."""
    try:
        result.save(path)
    except FileProblem as problem:
        reason = f"{problem}; the answer is in `result` of this error"
        elsewhere = _saved_elsewhere(result)
        if elsewhere is not None:
            reason = f"{problem}; the answer was saved to {elsewhere} instead"
        raise NotSaved(reason, result) from None


def _saved_elsewhere(result: Result) -> Path | None:
    """In a new folder for temporary files; None, and no folder, if that cannot be."""
    with suppress(OSError):
        folder = Path(tempfile.mkdtemp(prefix="widefield-"))
        try:
            result.save(folder / "answer.nc")
        except FileProblem:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            return folder / "answer.nc"
    return None


def _with_costs(result: Result, spent: Compilation) -> Result:
    """The same answer with what came before the first number: tracing and compiling."""
    data = result.data.assign_attrs(
        seconds_tracing=spent.traced, seconds_compiling=spent.compiled, programs_compiled=spent.programs
    )
    return dataclasses.replace(result, data=data)


def _answering(problem: Question, theory: Theory | None) -> Theory:
    """The theory asked for, or the one that a problem is answered by if nobody is named; never one that cannot."""
    if not isinstance(problem, Question):
        raise InvalidInput(f"problem = {problem!r} must be a Problem or a proportional.LinearProblem")
    if theory is None:
        return InfiniteWidth() if isinstance(problem, Problem) else problem.default_theory()
    default = _answering(problem, None)
    if not isinstance(theory, Theory):
        raise InvalidInput(f"theory = {theory!r} must be a theory, for example {type(default).__name__}()")
    if theory.family != problem.theories:
        known = ", ".join(sorted(member.__name__ for member in default.members.values()))
        raise InvalidInput(
            f"theory = {theory!r} does not answer a {type(problem).__name__}; those that may are {known}"
        )
    return theory
