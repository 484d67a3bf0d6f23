"""estimate_interval(problem, alpha=..., method=...) -> Result: the problem is positional, the method a keyword."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from bondic.concentration.budget import check_alpha
from bondic.data.initial import InitialStates
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.methods.dual import Dual
from bondic.problem import Question, make_problem
from bondic.result import Result

Progress = Callable[[str, float], None]


class Method(Protocol):
    """A way to make an interval."""

    def run(self, problem: Question, alpha: float, progress: Progress | None) -> Result: ...


def estimate_interval(
    problem: Question, *, alpha: float = 0.1, method: Method | None = None, progress: Progress | None = None
) -> Result:
    """An interval that contains J* with probability at least 1 - alpha, for finite data, under the printed assumptions.

    `progress(stage, share)` is called now and then during long work.
    """
    check_alpha(alpha)
    result = (Dual() if method is None else method).run(problem, float(alpha), progress)
    return result.with_doubts(problem)


def evaluate_policy(
    log: Transitions | LogStream,
    policy: Any,
    *,
    gamma: float,
    reward_range: tuple[float, float],
    alpha: float = 0.1,
    initial: InitialStates | None = None,
    method: Method | None = None,
    progress: Progress | None = None,
    **statements: Any,
) -> Result:
    """`make_problem` and `estimate_interval` in one call; initial states default to the log's episode starts."""
    check_alpha(alpha)
    start = InitialStates.from_log(log) if initial is None else initial
    problem = make_problem(log, policy, start, gamma=gamma, reward_range=reward_range, **statements)
    return estimate_interval(problem, alpha=alpha, method=method, progress=progress)
