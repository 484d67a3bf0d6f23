"""From rows of a log to decisions with their ratios, row by row or in episodes (section 13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bondic.core.bounded import room
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.core.propensities.decisions import Decisions, SingleDecisions
from bondic.core.propensities.ratios import Ratios, Target
from bondic.core.propensities.sampling import SamplingCheck, check_sampling
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.episodes import Episodes
from bondic.policies.answers import StoredAnswers, logged_action_probs, logged_state_probs
from bondic.policies.learned import PolicyMixture
from bondic.policies.logged_target import LoggedBehavior
from bondic.policies.protocol import RowProbabilities
from bondic.rows.batch import make_frame
from bondic.rows.episodes import check_steps, episode_numbers, read_keys

if TYPE_CHECKING:
    from bondic.data.transitions import Transitions
    from bondic.rows.rows import Rows


_MISSING = {
    "behavior": "The log has no propensities. Pass `behavior_action_probs` (or `behavior_log_probs`), the probability with which "
    "every logged action was taken, or use a method that does not need them, such as Table() or Dual().",
    "target": "The log does not hold the target policy's probabilities.",
}


def read_decisions(
    rows: Rows, target: Target | None, *, every_action: bool, drawn: bool = True, states: bool = True
) -> Decisions:
    """The columns of the rows, as seen from the lower end.

    `target` are stored answers; without them the log's columns are read (LoggedTarget), or the policy is asked. `every_action`
    asks for π(.|s_i) too. `drawn` as in `single_rows`. Without `states` a log that is read in batches gives neither states nor
    actions: they are not held.
    """
    read = partial(_columns, target=target, every_action=every_action, states=states or rows.log.held)
    columns = _gathered(rows.over_parts(read), len(rows))
    columns["ratios"] = Ratios(columns["ratios"], columns.pop("errors"))
    if single_rows(rows, drawn=drawn):
        numbers = columns["rows"]
        whole = numbers[-1] + 1 == numbers.size  # every row of a log from its first one on: they number themselves
        found = SingleDecisions(
            "lower", rows.terms, **columns, episodes=numbers if whole else np.arange(numbers.size, dtype=numbers.dtype),
            steps=np.broadcast_to(np.int64(0), numbers.shape), of_behavior=isinstance(rows.policy, LoggedBehavior),
        )  # fmt: skip
        if rows.terms.time_varying:
            _refuse_later_steps(rows, found)
        return found
    keys = read_keys(rows, whole=True)
    if keys.counted.size < len(rows):
        kept = np.searchsorted(columns["rows"], keys.counted)
        ratios = columns.pop("ratios")
        columns = {name: None if column is None else column[kept] for name, column in columns.items()}
        columns["ratios"] = Ratios(ratios.values[kept], ratios.errors[kept])
    episodes = Episodes(episode_numbers(rows, keys))
    check_steps(rows, episodes, keys)
    own = isinstance(rows.policy, LoggedBehavior)
    return Decisions("lower", rows.terms, **columns, episodes=episodes.ids, steps=episodes.step, of_behavior=own)


def _columns(
    rows: Rows, where: RowRange, part: Transitions, *, target: Target | None, every_action: bool, states: bool
) -> dict[str, Any]:
    """Those rows of a batch that count; a column of one number is that number."""
    inside = RowRange(max(where.start, rows.rows.start), min(where.stop, rows.rows.stop))
    own_rows = RowRange(inside.start - where.start, inside.stop - where.start)
    if target is None and not rows.policy_in_log:  # a policy is queried for a whole block
        probs = _policy_probs(rows, part, where, None, every_action=every_action)
        probs = None if probs is None else probs[own_rows.start : own_rows.stop]
        part, where = part.cut(own_rows), inside
    else:
        part, where = part.cut(own_rows), inside
        probs = _policy_probs(rows, part, where, target, every_action=every_action)
    frame = make_frame(part, rows.terms)
    kept = np.flatnonzero(frame.kept)
    here = slice(None) if kept.size == len(part) else kept  # all of them: nothing is copied
    named = part.discrete_actions and probs is not None
    slots = np.asarray(part.actions, dtype=np.int64) if named else np.broadcast_to(np.int64(0), len(part))
    every = probs if probs is not None and probs.ndim == 2 else None
    own = isinstance(rows.policy, LoggedBehavior)
    taken = probs if every is None else every[np.arange(len(part)), slots]
    width = rows.layout.slots if every is None else every.shape[1]
    ratios = (Ratios.ones(len(part)) if own else logged_ratios(part, taken, width))[here]
    columns = {
        "rows": _numbers(kept, where.start, len(rows.log)), "logged_rewards": part.rewards[here],
        "ratios": ratios.values, "errors": ratios.errors, "continues": frame.continues,
        "observations": part.observations[here] if states else np.zeros((kept.size, 0)),
        "slots": slots[here] if states else np.broadcast_to(np.int64(0), kept.size),
        "probs": None if every is None else every[here],
    }  # fmt: skip
    return columns if rows.log.held else {name: _short(column) for name, column in columns.items()}


def _numbers(kept: IntArray, first: int, most: int) -> IntArray:
    """Rows of the log, in half of the bytes where that holds them."""
    found = kept + first
    return found.astype(np.int32) if most < 2**31 else found


def _short(column: Any) -> Any:
    """One number where a column of this part has no other: that is what other processes send, and what is held."""
    one = column is not None and column.ndim == 1 and column.size and bool((column == column[0]).all())
    return column[:1].copy() if one else column


def _gathered(parts: Iterable[Mapping[str, Any]], count: int) -> dict[str, Any]:
    """Columns of parts, one after the other; a column that is one number throughout takes no memory."""
    found: dict[str, Any] = {}
    done = 0
    for part in parts:
        size = len(part["rows"])
        for name, values in part.items():
            mine = found.get(name)
            if size == count or values is None or (mine is None and _is_short(values)):
                found[name] = values
            elif mine is None or (_is_short(mine) and not (_is_short(values) and mine[0] == values[0])):
                joined = room((count, *values.shape[1:]), values.dtype)
                joined[:done] = 0 if mine is None else mine[0]
                found[name] = mine = joined
            if mine is not None and not _is_short(mine):
                mine[done : done + size] = values
        done += size
    assert done == count
    return {name: np.broadcast_to(one, count) if _is_short(one) else one for name, one in found.items()}


def _is_short(column: Any) -> bool:
    return column is not None and column.shape == (1,)


def _policy_probs(
    rows: Rows, part: Transitions, where: RowRange, target: Target | None, *, every_action: bool, again: bool = False
) -> FloatArray | None:
    """π at the states of a batch, from wherever it is known (`again`: from the policy); None: the log's own columns hold it."""
    if target is not None:
        return target.of(where, 2 if every_action else 1)
    times = part.timesteps if rows.terms.time_varying else None
    if isinstance(rows.policy, PolicyMixture):
        return rows.policy.logged_probs(part, times, where.start, every_action=every_action)
    if rows.policy_in_log:
        return None
    if isinstance(rows.policy, StoredAnswers):
        raise InvalidInput(
            "The certificate does not hold the policy's probabilities at the logged states: pass the policy (--policy SPEC)."
        )
    known = None if again else _answered_at_starts(rows, part, where)
    if known is not None:
        return known if every_action else np.asarray(known[np.arange(len(part)), part.actions])
    slots, numbers = rows.layout.slots, np.arange(where.start, where.stop)
    if every_action:
        return logged_state_probs(rows.policy, part.observations, times, slots=slots, log_rows=numbers)
    return logged_action_probs(rows.policy, part.observations, part.actions, times, slots=slots, log_rows=numbers)


def _answered_at_starts(rows: Rows, part: Transitions, where: RowRange) -> FloatArray | None:
    """The policy's answers at the initial states, where these are the logged states of the whole log, row by row."""
    if not rows.log.held:  # their starts are not held either
        return None
    states, answers, by_row = rows.initial_states.observations, rows.answers, isinstance(rows.policy, RowProbabilities)
    if by_row or rows.terms.time_varying or not (answers.discrete and len(states) == len(rows.log)):
        return None
    here = slice(where.start, where.stop)
    if not np.array_equal(states[here], part.observations):
        return None
    return answers.initial if len(part) == len(states) else answers.initial[here]


def query_target(rows: Rows, *, every_action: bool, again: bool = False) -> Target | None:
    """The policy at the logged states, to be stored; None where the log's own columns hold it."""
    if rows.policy_in_log and not isinstance(rows.policy, PolicyMixture):
        return None
    found = [
        _policy_probs(rows, part, where, None, every_action=every_action, again=again)
        for where, part in rows.log.batches(rows.rows)
    ]
    return Target((rows.rows.start, rows.rows.stop), _joined([one for one in found if one is not None]))


def _joined(parts: Sequence[FloatArray]) -> FloatArray:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def single_rows(rows: Rows, *, drawn: bool = True) -> bool:
    """Whether every row is a unit: nothing follows any of them, or, with γ = 0, what follows counts for nothing.

    `drawn` where states of units are to be draws of d_0: with γ = 0 a row that goes on shows that the next one is no start,
    unless every timestep is 0. Without, the state of a row may come from anywhere.
    """
    if rows.log.single_rows:
        return True
    if rows.gamma == 0.0 and not rows.log.has_episode_ids and (not drawn or _first_steps(rows)):
        return True
    # episodes of one step behind longer ones are episodes, and last rows of earlier ones are no units
    seen = RowRange(0 if rows.log.has_episode_ids else rows.rows.start, rows.rows.stop)
    return not any(make_frame(part, rows.terms).continues.any() for _, part in rows.log.batches(seen))


def read_sampling(rows: Rows, factor: float) -> SamplingCheck | None:
    """The check of the propensities (17.8) of all rows of the log before the end of the stretch."""
    if not rows.layout.discrete or "actions" in rows.log.unrecorded:
        return None
    batches = rows.log.batches(RowRange(0, rows.rows.stop))
    parts = ((where.start, np.asarray(part.actions, dtype=np.int64), _behavior(part)) for where, part in batches)
    return check_sampling(parts, rows.rows.stop, int(rows.log.inspection.action_counts.size), factor)


def _behavior(part: Transitions) -> FloatArray:
    return np.exp(_logs(part, "behavior")) if part.behavior_action_probs is None else part.behavior_action_probs


def _first_steps(rows: Rows) -> bool:
    """Whether every row is the first one of an episode, as far as its end or its timestep says."""
    return all(
        (part.terminations | np.asarray(part.truncations)).all()
        or (part.timesteps is not None and not part.timesteps.any())
        for _, part in rows.log.batches(rows.rows)
    )


def _refuse_later_steps(rows: Rows, columns: Decisions) -> None:
    """InvalidInput where rows that are taken one by one are later steps, as far as the log says."""
    if not rows.log.has_timesteps:
        return
    times = np.concatenate([part.timesteps for _, part in rows.log.batches(rows.rows) if part.timesteps is not None])
    times = times[columns.rows - rows.rows.start]
    later = np.flatnonzero(times > 0)
    if later.size:
        raise InvalidInput(
            f"Every row is taken as a decision of its own, but row {columns.rows[later[0]]} carries timestep "
            f"{times[later[0]]}: the remaining value and the policy may depend on the step. Pass `episode_ids`, so that rows "
            "are weighed as episodes from step 0 on."
        )


def logged_ratios(part: Transitions, target: FloatArray | None, slots: int) -> Ratios:
    """The ratios of some rows; `target` is π(a_i|s_i) as a policy said it, None where the log holds it."""
    if target is not None:
        # a row of the policy's probabilities stands for itself divided by its sum: one rounding for every action
        return Ratios.of(target, _behavior(part), slots)
    if part.target_action_probs is not None and part.behavior_action_probs is not None:
        return Ratios.of(part.target_action_probs, part.behavior_action_probs, 0)
    return Ratios.of_logs(_logs(part, "target"), _logs(part, "behavior"))


def _logs(part: Transitions, whose: str) -> FloatArray:
    logs, probabilities = getattr(part, f"{whose}_log_probs"), getattr(part, f"{whose}_action_probs")
    if logs is None and probabilities is None:
        raise InvalidInput(_MISSING[whose])
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probabilities) if logs is None else logs)
