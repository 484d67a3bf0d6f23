"""make_problem: the border where a log, a policy and statements become rows, with the warnings that the log raises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.core.terms import make_terms
from bondic.data.initial import InitialStates, Population
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
    population: Population | None = None,
    accept: Iterable[str] | None = (),
    columns: Mapping[str, Any] | None = None,
    missing: Any = None,
    actions: Sequence[str | int] | int | None = None,
    propensity: str | float | Mapping[str, float] | None = None,
    one_step: bool = False,
    trust_pickle: bool = False,
) -> Rows:
    """The problem "what would `policy` have earned from `initial`?" on this log.

    The log is inspected first (`inspect_log`): certain errors are refused, doubtful findings become warnings of the result.

    Parameters
    ----------
    log : Transitions, LoadedLog, LogStream, path, table or mapping
        Transitions, the result of `read_log` or `stream_log`, or anything that `read_log` reads. A streamed log gives the same
        interval, bit for bit.
    policy : object
        Anything that `load_policy` takes: an object with action_probs, sample_action or predict; a function of all states that
        returns probabilities or actions; a dict {state: action}; an action, by its number or name; a file. "columns" if the log
        holds its probabilities of all actions, "logged" if it holds those of the logged actions.
    initial : InitialStates, default None
        Initial states, as you state them; None: the value is the mean over the starts of this log, or of its population.
    population : {"iid"}, default None
        States that starts (of single decisions: contexts) are independent draws of one population, given everything before; the
        value is then over that population. None: over the starts of this log, about which nothing is assumed.
    gamma : float
        Discount in [0, 1); 1 with a horizon. It may be left out for logs of one-step episodes.
    reward_range : (float, float)
        Range of every possible reward: prior knowledge, never read off the log.
    horizon : int, default None
        Number of steps whose rewards count; None: all.
    may_terminate : bool, default True
        False states that the process never ends, which narrows the value range when all rewards have one sign.
    time_varying : bool, default False
        States that value and policy depend on the time step; implied by a horizon. It needs `timesteps` in the log.
    value_range : (float, float), default None
        States a range of every discounted return, from any state-action pair, at any time, under any policy: a reward paid once
        at the end, a score in [0, 1]. Used where it is narrower than the range that the reward range implies.
    draws, initial_draws : int
        Actions drawn at each next state, and at each initial state, of a continuous policy.
    seed : int, default 0
        Seed of these draws. It must not depend on the log; use another one if W was tuned on a log with draws of this seed.
    accept : iterable of str or None, default ()
        Kinds of findings that are no error in this log: each becomes an assumption that you state. None skips the inspection.
    columns, missing, actions, propensity, one_step, trust_pickle
        How the log is read, as in `read_log`.
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
        log,
        columns=columns,
        missing=missing,
        actions=actions,
        propensity=propensity,
        one_step=one_step,
        trust_pickle=trust_pickle,
    )
    terms = stated_terms(0.0 if source.one_step else gamma)
    starts = take_initial(initial, source.log, population)
    answering, read = take_policy(policy, source, len(starts) if starts.from_rows else None)
    rows = make_rows(source.log, answering, starts, terms, draws=draws, initial_draws=initial_draws, seed=seed)
    if isinstance(policy, LearnedPolicy):
        rows = rows.select(first_certified(answering))
    rows = rows if accept is None else inspected(rows, accept)
    discounts = undiscounted(gamma) if source.one_step else ends_at_once(rows)
    notes = (*source.notes, *read, *cut_by_horizon(rows), *first_rewards_alone(rows), *discounts)
    return replace(
        rows, names=source.names, notes=notes, reading=source.reading, encodings=source.encodings, source=source
    )
