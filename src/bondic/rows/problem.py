"""make_problem: the border where a log, a policy and statements become rows, with the doubts that the log raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.core.terms import make_terms
from bondic.data.initial import InitialStates
from bondic.policies.learned import LearnedPolicy
from bondic.rows.checks import cut_by_horizon, ends_at_once, first_rewards_alone, inspected, undiscounted
from bondic.rows.inputs import refuse_no_policy, take_initial, take_log, take_policy
from bondic.rows.learn import first_certified
from bondic.rows.make import make_rows
from bondic.rows.rows import Rows


def make_problem(
    log: Any,
    policy: Any = None,
    initial: InitialStates | None = None,
    *,
    gamma: float | None = None,
    reward_range: tuple[float, float] | None = None,
    horizon: int | None = None,
    may_terminate: bool = True,
    time_varying: bool = False,
    value_range: tuple[float, float] | None = None,
    draws: int = 5,
    initial_draws: int | None = None,
    seed: int = 0,
    accept: Iterable[str] | None = (),
    columns: Mapping[str, Any] | None = None,
    missing: Any = None,
    actions: Sequence[str | int] | int | None = None,
    one_step: bool = False,
    trust_pickle: bool = False,
) -> Rows:
    """Build the question "what would `policy` have earned from `initial`?" on this log.

    `log` is Transitions, a log opened with `stream_log`, what `read_log` has returned, or anything that it reads: a path, a
    table (pandas, polars, pyarrow), a mapping of arrays, a dataset; `columns`, `missing`, `actions`, `one_step` and
    `trust_pickle` then say how, as there. `policy` is anything that `load_policy` takes: an object with action_probs,
    sample_action, predict_proba or predict, a function of all states that returns probabilities or actions, a dict
    {state: action}, a number, a file; 'columns' or 'logged' where it stands in the log. `initial` defaults to the log's
    episode starts. `gamma` may be left out for one-step logs, where it has no meaning.

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
    refuse_no_policy(policy)
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidInput(f"`seed` is {seed!r}; a whole number >= 0 is needed, so that the draws can be repeated.")
    stated_terms = partial(
        make_terms,
        reward_range=reward_range,
        horizon=horizon,
        may_terminate=may_terminate,
        time_varying=time_varying,
        value_range=value_range,
    )
    stated_terms(0.0 if gamma is None or one_step else gamma)  # a slip here need not wait for a long log
    source = take_log(
        log, columns=columns, missing=missing, actions=actions, one_step=one_step, trust_pickle=trust_pickle
    )
    terms = stated_terms(0.0 if source.one_step else gamma)
    starts = take_initial(initial, source.log)
    answering, read = take_policy(policy, source, len(starts) if starts.from_rows else None)
    rows = make_rows(source.log, answering, starts, terms, draws=draws, initial_draws=initial_draws, seed=seed)
    if isinstance(policy, LearnedPolicy):
        rows = rows.select(first_certified(answering))
    rows = rows if accept is None else inspected(rows, accept)
    discounts = undiscounted(gamma) if source.one_step else ends_at_once(rows)
    notes = (*source.notes, *read, *cut_by_horizon(rows), *first_rewards_alone(rows), *discounts)
    return replace(rows, names=source.names, notes=notes, reading=source.reading)
