"""make_problem: the border where a log, a policy and statements become a question."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, overload

import numpy as np

from bondic.data.initial import InitialStates
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput
from bondic.policies.answers import ask_policy
from bondic.rows.doubts import inspected
from bondic.rows.frame import make_frame, questions, refuse_nothing
from bondic.rows.question import Question
from bondic.rows.returns import check_returns
from bondic.rows.rows import Problem, Source, assemble
from bondic.rows.streamed import SEED_SALT, StreamedProblem
from bondic.terms import make_terms


@overload
def make_problem(
    log: Transitions,
    policy: Any,
    initial: InitialStates,
    *,
    gamma: float,
    reward_range: tuple[float, float],
    horizon: int | None = ...,
    may_terminate: bool = ...,
    time_varying: bool = ...,
    value_range: tuple[float, float] | None = ...,
    draws: int = ...,
    initial_draws: int | None = ...,
    seed: int = ...,
    accept: Iterable[str] | None = ...,
) -> Problem: ...
@overload
def make_problem(
    log: LogStream,
    policy: Any,
    initial: InitialStates,
    *,
    gamma: float,
    reward_range: tuple[float, float],
    horizon: int | None = ...,
    may_terminate: bool = ...,
    time_varying: bool = ...,
    value_range: tuple[float, float] | None = ...,
    draws: int = ...,
    initial_draws: int | None = ...,
    seed: int = ...,
    accept: Iterable[str] | None = ...,
) -> StreamedProblem: ...
def make_problem(
    log: Transitions | LogStream,
    policy: Any,
    initial: InitialStates,
    *,
    gamma: float,
    reward_range: tuple[float, float],
    horizon: int | None = None,
    may_terminate: bool = True,
    time_varying: bool = False,
    value_range: tuple[float, float] | None = None,
    draws: int = 5,
    initial_draws: int | None = None,
    seed: int = 0,
    accept: Iterable[str] | None = (),
) -> Question:
    """Build the question "what would `policy` have earned from `initial`?" on this log.

    `reward_range` is knowledge about every possible reward, never read off the log. `may_terminate=False` states
    that the process never ends (it narrows the value range when all rewards have one sign). `value_range` states that
    every realised discounted return, from any state-action pair, at any time and whichever policy follows, lies in it
    (a reward paid once at the end, a score in [0, 1]); it is used wherever it is narrower than what the reward range
    implies. `draws` actions are
    drawn at each next state of a continuous policy, `initial_draws` at each initial state, from `seed`, which must
    not depend on the log (use another one when W was tuned on a log whose draws came from the same seed). A log opened
    with `stream_log` gives a question whose rows are read in batches.

    The log is inspected first: what is surely wrong is refused, what is doubtful is a warning that travels with the
    result (see `inspect_log`). `accept` names kinds of findings that are right as they are; they are then printed as
    assumptions that you state. `accept=None` skips the inspection (verification makes no new claim about the log).
    """
    if not isinstance(log, Transitions | LogStream) or not isinstance(initial, InitialStates):
        raise InvalidInput(
            f"make_problem(log, policy, initial) needs Transitions and InitialStates, not {type(log).__name__} and "
            f"{type(initial).__name__}. Wrap initial states: InitialStates.exact(states) or InitialStates.sample(states)."
        )
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"`seed` is {seed!r}; a whole number >= 0 is needed, so that the draws can be repeated.")
    terms = make_terms(gamma, reward_range, horizon, may_terminate, time_varying, value_range)
    asking: dict[str, Any] = {"draws": draws, "initial_draws": initial_draws}
    if isinstance(log, LogStream):
        streamed = StreamedProblem.make(log, policy, initial, terms, seed=seed, **asking)
        return streamed if accept is None else inspected(streamed, log, accept)
    frame = make_frame(log, initial, terms)
    refuse_nothing(int(frame.kept.sum()), terms)
    check_returns(log, frame, terms)
    rng = np.random.default_rng([SEED_SALT, seed])
    answers = ask_policy(policy, questions(log, initial, frame, 0, len(log)), rng=rng, **asking)
    problem = replace(assemble(log, initial, answers, terms, seed=seed), source=Source(log, policy))
    return problem if accept is None else inspected(problem, log, accept)
