"""make_problem: the border where a log, a policy and statements become rows, with the doubts that the log raises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from bondic.data.initial import InitialStates
from bondic.data.log import Log, is_log
from bondic.errors import InvalidInput
from bondic.rows.doubts import inspected
from bondic.rows.make import make_rows
from bondic.rows.rows import Rows
from bondic.terms import make_terms


def make_problem(
    log: Log,
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
) -> Rows:
    """Build the question "what would `policy` have earned from `initial`?" on this log.

    `reward_range` is knowledge about every possible reward, never read off the log. `may_terminate=False` states
    that the process never ends (it narrows the value range when all rewards have one sign). `value_range` states that
    every realized discounted return, from any state-action pair, at any time and whichever policy follows, lies in it
    (a reward paid once at the end, a score in [0, 1]); it is used wherever it is narrower than what the reward range
    implies. `draws` actions are
    drawn at each next state of a continuous policy, `initial_draws` at each initial state, from `seed`, which must
    not depend on the log (use another one when W was tuned on a log whose draws came from the same seed). A log opened
    with `stream_log` gives the same answers, bit for bit; its rows are read in blocks.

    The log is inspected first: what is surely wrong is refused, what is doubtful is a warning that travels with the
    result (see `inspect_log`). `accept` names kinds of findings that are right as they are; they are then printed as
    assumptions that you state. `accept=None` skips the inspection (verification makes no new claim about the log).
    """
    if not is_log(log) or not isinstance(initial, InitialStates):
        raise InvalidInput(
            f"make_problem(log, policy, initial) needs Transitions and InitialStates, not {type(log).__name__} and "
            f"{type(initial).__name__}. Wrap initial states: InitialStates.exact(states) or InitialStates.sample(states)."
        )
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"`seed` is {seed!r}; a whole number >= 0 is needed, so that the draws can be repeated.")
    terms = make_terms(gamma, reward_range, horizon, may_terminate, time_varying, value_range)
    rows = make_rows(log, policy, initial, terms, draws=draws, initial_draws=initial_draws, seed=seed)
    return rows if accept is None else inspected(rows, accept)
