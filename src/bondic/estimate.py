"""estimate_interval(problem, alpha=..., method=...) -> Result: the problem is positional, the method a keyword."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from bondic.claims import check_alpha
from bondic.data.initial import InitialStates
from bondic.data.log import Log
from bondic.errors import InvalidInput
from bondic.methods.default import Default
from bondic.methods.dual import Dual
from bondic.methods.sequential import Sequential
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.problem import make_problem

Progress = Callable[[str, float], None]


class Method(Protocol):
    """A way to make an interval."""

    def run(self, problem: Rows, alpha: float, progress: Progress | None) -> Result: ...


def estimate_interval(
    problem: Rows, *, alpha: float = 0.1, method: Method | None = None, progress: Progress | None = None
) -> Result:
    """An interval that contains J* with probability at least 1 - alpha, for finite data, under the printed assumptions.

    Without a method, `Default()` picks one before it sees a certified row, and says why in `result.choices["method"]`.
    `progress(stage, share)` is called now and then during long work.
    """
    check_alpha(alpha)
    result = (Default() if method is None else method).run(problem, float(alpha), progress)
    return result.with_doubts(problem)


def evaluate_policy(
    log: Log,
    policy: Any,
    *,
    gamma: float,
    reward_range: tuple[float, float],
    alpha: float = 0.1,
    initial: InitialStates | None = None,
    method: Method | None = None,
    categorical: bool | Sequence[int] | None = None,
    progress: Progress | None = None,
    **statements: Any,
) -> Result:
    """`make_problem` and `estimate_interval` in one call; initial states default to the log's episode starts.

    `categorical` says which observation columns hold names: True for all, False for none, or their numbers. Left out, the
    method decides by looking at the log, and says so in `result.choices["states"]`.
    """
    check_alpha(alpha)
    method = method if categorical is None else _with_categorical(method, categorical)
    start = InitialStates.from_log(log) if initial is None else initial
    problem = make_problem(log, policy, start, gamma=gamma, reward_range=reward_range, **statements)
    return estimate_interval(problem, alpha=alpha, method=method, progress=progress)


def _with_categorical(method: Method | None, categorical: bool | Sequence[int]) -> Method:
    """The method with this statement on the states; a statement that it has already is not overruled."""
    chosen = Default() if method is None else method
    if not isinstance(chosen, (Default, Sequential, Dual)):
        raise InvalidInput(
            f"categorical= is for Sequential, Dual and Default; {type(chosen).__name__} takes states as they are. Leave it out."
        )
    stated = chosen.choices.categorical
    columns = categorical if isinstance(categorical, bool) else tuple(int(column) for column in categorical)
    if stated is not None and stated != columns:
        raise InvalidInput(
            f"categorical={categorical!r} is passed, and the method's choices say categorical={stated!r}. Keep one of them."
        )
    return replace(chosen, choices=replace(chosen.choices, categorical=columns))
