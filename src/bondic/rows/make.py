"""Rows from a log, a policy, initial states and statements that were checked: estimating and verifying enter here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bondic.core.columns import Cloud, RowRange
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout
from bondic.core.terms import Terms
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.initial import InitialStates, first_starts, of_stream
from bondic.data.log import Log
from bondic.data.unread import Unread
from bondic.errors import PolicyError
from bondic.policies.answers import StartAnswers, StoredAnswers, query_start, query_start_later
from bondic.policies.logged_target import LoggedTarget
from bondic.policies.protocol import RowProbabilities, discrete_probabilities, sampled_actions
from bondic.rows.batch import Draws, LaterCloud, NoCloud, check_actions, check_part, make_cloud, make_frame
from bondic.rows.returns import ReturnCheck
from bondic.rows.rows import Rows, memory_plan


def make_rows(
    log: Log,
    policy: Any,
    initial: InitialStates,
    terms: Terms,
    *,
    draws: int = 5,
    initial_draws: int | None = None,
    seed: int = 0,
) -> Rows:
    """Rows of the whole log; every one is held against what was stated before any long work."""
    if not of_stream(initial, log) and initial.observations.shape[1] != log.observation_dim:
        raise InvalidInput(
            f"Initial states have {initial.observations.shape[1]} dimensions, the log {log.observation_dim}. They "
            "need the columns of the log's observations, one row per state: a single state is [[x_1, x_2, ...]]."
        )
    if terms.time_varying and not log.has_timesteps:
        raise InvalidInput(
            "A finite horizon or a time-varying problem needs `timesteps` in the log: value depends on time."
        )
    _refuse_without_target(log, policy)
    if of_stream(initial, log) and not terms.time_varying and not log.action_dim and hasattr(policy, "action_probs"):
        answers, starts = _query_starts_later(policy, initial)
    else:
        answers, starts = _query_starts(log, policy, initial, terms, draws, initial_draws, seed)
    layout = Layout(log.observation_dim, terms.time_varying, log.action_dim, answers.slots)
    rows = Rows(log, policy, terms, layout, starts, initial, answers, RowRange(0, len(log)), seed, len(log))
    if log.plan is not None:
        plan = memory_plan(layout, answers.draws, log.plan.budget)
        plan.require(min(rows.block_rows, len(log)))
    whole = _looked_through(rows).restricted(rows.rows)
    if not len(whole):
        raise InvalidInput(f"Every row lies at or beyond the horizon {terms.horizon}: nothing is left to evaluate.")
    _refuse_by_place(whole)
    return whole


_Asked = tuple[FloatArray, FloatArray, IntArray | None]  # states, the policy's answers, times


def _refuse_by_place(rows: Rows) -> None:
    """PolicyError where some states get other answers in another order: such answers know rows of the log, or are drawn."""
    policy, answers, dimension = rows.policy, rows.answers, rows.layout.observation_dim
    if isinstance(policy, RowProbabilities | StoredAnswers | LoggedTarget) or not answers.exact:
        return
    if isinstance(answers, Unread):
        states = first_starts(rows.initial_states, _TRIED)
        asked: list[_Asked] = [
            (states, discrete_probabilities(policy, states, None, "initial state", answers.slots), None)
        ]
    else:
        times = np.zeros(len(rows.initial_states), dtype=np.int64) if rows.terms.time_varying else None
        asked = [(rows.initial_states.observations, answers.initial, times)]
    if rows.kept and answers.discrete and (points := rows.kept[0].next.points).size:
        later = points[:, dimension].astype(np.int64) if rows.terms.time_varying else None
        asked.append((points[:, :dimension], rows.kept[0].next.weights, later))
    for (states, known, times), what in zip(asked, ("initial state", "next state"), strict=False):
        some = np.random.default_rng(0).permutation(len(states))[:_TRIED]
        pairs = states[some] if times is None else np.column_stack([states[some], times[some]])
        some = some[np.unique(pairs, axis=0, return_index=True)[1]]
        when = None if times is None else times[some]
        if answers.discrete:
            again = discrete_probabilities(policy, states[some], when, what, answers.slots)
        else:
            shape: dict[str, Any] = {
                "draws": 1,
                "dimension": rows.layout.action_dim,
                "rng": Draws(rows.seed).at_start(),
            }
            again = sampled_actions(policy, states[some], when, what, **shape)
        differs = np.abs(again - known[some]).max(axis=tuple(range(1, known.ndim)), initial=0.0) > _SAME
        if differs.any():
            raise PolicyError(
                f"The policy answers {differs.sum()} of {some.size} states differently when it is queried again in another "
                f"order (first: {what} number {some[differs].min()}, counted from 0): what it does depends on the place in "
                "the log, or on chance. Each state has one answer: return probabilities where actions are drawn, and log "
                "probabilities that are written down row by row as columns, policy='columns' (--policy columns)."
            )


def _query_starts(
    log: Log, policy: Any, initial: InitialStates, terms: Terms, draws: int, initial_draws: int | None, seed: int
) -> tuple[StartAnswers, Cloud]:
    """The policy at the initial states."""
    # the log's own policy has no answers: starts need not be read
    some = np.zeros((0, log.observation_dim)) if isinstance(policy, LoggedTarget) else initial.observations
    times = np.zeros(len(some), dtype=np.int64) if terms.time_varying else None
    options: dict[str, Any] = {"action_dim": log.action_dim, "log_rows": len(log), "rng": Draws(seed).at_start()}
    options |= {"draws": draws, "initial_draws": initial_draws}
    answers = query_start(policy, some, times, **options)
    if isinstance(policy, LoggedTarget):
        return answers, NoCloud()
    every = np.arange(len(initial))
    return answers, make_cloud(initial.observations, times, answers.initial, every, discrete=answers.discrete)


def _query_starts_later(policy: Any, initial: InitialStates) -> tuple[StartAnswers, Cloud]:
    """The same where starts are read off the log, and may be as many as its rows: they are read and queried when used."""
    some = first_starts(initial, _TRIED)
    answers = query_start_later(policy, some, lambda: initial.observations)

    def made() -> dict[str, Any]:
        every = np.arange(len(initial))
        return vars(make_cloud(initial.observations, None, answers.initial, every, discrete=True))

    return answers, LaterCloud.made_by(made, draws=1)


def from_some_starts(rows: Rows, count: int) -> Rows:
    """The same question from some of the starts: of those that are read off the log the first ones, which alone are queried."""
    states = rows.initial_states
    if len(states) <= count:
        return rows
    if not of_stream(states, rows.log):
        return rows.pick_starts(np.linspace(0, len(states) - 1, count).astype(np.int64))
    initial = InitialStates.exact(first_starts(states, count))
    answers, start = _query_starts(
        rows.log, rows.policy, initial, rows.terms, rows.answers.draws, rows.answers.start_draws, rows.seed
    )
    return replace(rows, initial_states=initial, answers=answers, initial=start)


_TRIED, _SAME = 64, 1e-3
"""Starts at which a policy is queried at once: how many actions it knows; and how alike networks answer in single precision."""


def _refuse_without_target(log: Log, policy: Any) -> None:
    """The stand-in for a policy is nothing without the log's columns."""
    if not isinstance(policy, LoggedTarget):
        refuse_unrecorded(log)
    elif policy.known_by == "target columns" and not (log.has("target_action_probs") or log.has("target_log_probs")):
        raise InvalidInput(
            "The policy is LoggedTarget() (--policy logged), but the log has no column with the target policy's probabilities "
            "of the logged actions. Name it, columns={'target_action_probs': 'name'} (--columns target_action_probs=NAME; "
            "target_log_probs for logarithms). To make it, take the policy's probability of the logged action at every logged "
            "state: table['target_action_probs'] = probs[np.arange(len(table)), table['action']]; of a language model, "
            "table['target_log_probs'], the sum over the tokens that were logged. Or pass the policy itself."
        )


def refuse_unrecorded(log: Log) -> None:
    """What was not recorded cannot be compared with what a policy would have done."""
    if log.unrecorded:
        raise InvalidInput(
            f"The log has no {' and no '.join(log.unrecorded)} (placeholders are stored), so no policy can be evaluated at its "
            "states. Use LoggedTarget() (--policy logged), which needs only the log's probabilities of the logged actions; or "
            "record them."
        )


def _looked_through(rows: Rows) -> Rows:
    """Every block of the log against what was stated, before any long work; those of a log in memory are kept."""
    if _known_to_fit(rows):
        return replace(rows, following=np.zeros(-(-len(rows.log) // rows.block_rows) + 1, dtype=np.int64))
    returns = None if rows.terms.value_range is None else ReturnCheck(rows.terms)
    before, kept = [0], []
    for where, part in rows.log.batches(size=rows.block_rows):
        frame = make_frame(part, rows.terms)
        check_part(part, rows.terms, where.start)
        if returns is not None:
            returns.feed(part, frame, where.start)
        if rows.log.held:
            kept.append(rows.block(where, part, frame, before[-1]))
        if not isinstance(rows.policy, LoggedTarget):
            check_actions(part, frame, rows.layout.slots, where.start)
        before.append(before[-1] + frame.next_rows.size)
    if isinstance(rows.policy, StoredAnswers):
        rows.policy.check_count(before[-1])
    return replace(rows, following=np.array(before), kept=tuple(kept) if rows.log.held else None)


def _known_to_fit(rows: Rows) -> bool:
    """Whether every row was checked when the log was opened: decisions of one step, read in batches."""
    log, terms = rows.log, rows.terms
    if log.held or not log.single_rows or not terms.may_terminate or terms.value_range is not None:
        return False
    (low, high), (least, most) = terms.reward_range, log.reward_span
    named = isinstance(rows.policy, LoggedTarget) or not log.discrete_actions
    return low <= least and most <= high and (named or log.inspection.action_counts.size <= rows.layout.slots)
