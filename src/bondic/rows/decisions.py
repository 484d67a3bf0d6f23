"""From rows of a log to decisions with their ratios, row by row or in episodes (section 13)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.core.propensities.decisions import Decisions, Target
from bondic.core.propensities.ratios import Ratios, ratios_of, ratios_of_logs
from bondic.data.transitions import Transitions
from bondic.policies.answers import StoredAnswers
from bondic.policies.logged import logged_action_probs, logged_state_probs
from bondic.policies.logged_target import LoggedTarget
from bondic.rows.episodes import check_steps, episode_numbers
from bondic.rows.frame import make_frame

if TYPE_CHECKING:
    from bondic.rows.rows import Rows

FloatArray = npt.NDArray[np.float64]

_MISSING = (
    "The log has no propensities. Pass `behavior_action_probs` (or `behavior_log_probs`), the probability with which every "
    "logged action was taken, or use a method that does not need them, such as Table() or Dual()."
)


def read_decisions(rows: Rows, target: Target | None, *, every_action: bool, drawn: bool = True) -> Decisions:
    """The columns of the rows, as seen from the lower end.

    `target` are stored answers; without them the log's columns are read (LoggedTarget), or the policy is asked. `every_action`
    asks for π(.|s_i) too. `drawn` as in `single_rows`.
    """
    parts = []
    for where, part in rows.log.batches(rows.rows):
        told = _told(rows, part, where, target, every_action=every_action)
        parts.append(_columns(rows, part, where, told))
    return _in_units(rows, _joined(parts), drawn=drawn)


def _columns(rows: Rows, part: Transitions, where: RowRange, told: FloatArray | None) -> Decisions:
    """Those of one batch that count; `told` is what the policy says at its states."""
    frame = make_frame(part, rows.terms)
    kept = np.flatnonzero(frame.kept)
    discrete = part.discrete_actions and not isinstance(rows.policy, LoggedTarget)
    slots = np.asarray(part.actions, dtype=np.int64) if discrete else np.zeros(len(part), dtype=np.int64)
    every = told if told is not None and told.ndim == 2 else None
    taken = told if every is None else every[np.arange(len(part)), slots]
    found = logged_ratios(part, taken, rows.layout.slots)
    return Decisions(
        "lower",
        rows.terms,
        kept + where.start,
        part.rewards[kept],
        Ratios(found.values[kept], found.errors[kept]),
        frame.continues,
        part.observations[kept],
        slots[kept],
        None if every is None else every[kept],
    )


def _joined(parts: list[Decisions]) -> Decisions:
    def all_of(name: str) -> npt.NDArray[np.generic]:
        return np.concatenate([getattr(part, name) for part in parts])

    names = ("rows", "rewards", "continues", "observations", "slots", *(() if parts[0].probs is None else ("probs",)))
    columns = {name: all_of(name) for name in names}
    return replace(parts[0], ratios=Ratios.joined([part.ratios for part in parts]), **columns)  # type: ignore[arg-type]


def _told(
    rows: Rows, part: Transitions, where: RowRange, target: Target | None, *, every_action: bool
) -> FloatArray | None:
    """π at the states of a batch, from wherever it is known; None: the log's own columns say it."""
    if target is not None:
        return target.of(where, 2 if every_action else 1)
    if isinstance(rows.policy, LoggedTarget):
        return None
    if isinstance(rows.policy, StoredAnswers):
        raise InvalidInput(
            "The certificate does not hold the policy's probabilities at the logged states: pass the policy (--policy SPEC)."
        )
    times = part.timesteps if rows.terms.time_varying else None
    slots, numbers = rows.layout.slots, np.arange(where.start, where.stop)
    if every_action:
        return logged_state_probs(rows.policy, part.observations, times, slots=slots, log_rows=numbers)
    return logged_action_probs(rows.policy, part.observations, part.actions, times, slots=slots, log_rows=numbers)


def ask_target(rows: Rows, *, every_action: bool) -> Target | None:
    """The policy at the logged states, to be stored; None where the log's own columns say it."""
    if isinstance(rows.policy, LoggedTarget):
        return None
    found = [_told(rows, part, where, None, every_action=every_action) for where, part in rows.log.batches(rows.rows)]
    return Target((rows.rows.start, rows.rows.stop), np.concatenate([one for one in found if one is not None]))


def single_rows(rows: Rows, *, drawn: bool = True) -> bool:
    """Whether every row is a unit: nothing follows any of them, or, with γ = 0, what follows counts for nothing.

    `drawn` where states of units are to be draws of d_0: with γ = 0 a row that goes on shows that the next one is no start,
    unless every timestep is 0. Without, the state of a row may come from anywhere.
    """
    if rows.gamma == 0.0 and not rows.log.has_episode_ids and (not drawn or _first_steps(rows)):
        return True
    return not any(make_frame(part, rows.terms).continues.any() for _, part in rows.log.batches(rows.rows))


def _first_steps(rows: Rows) -> bool:
    """Whether every row is the first one of an episode, as far as its end or its timestep says."""
    return all(
        (part.terminations | np.asarray(part.truncations)).all()
        or (part.timesteps is not None and not part.timesteps.any())
        for _, part in rows.log.batches(rows.rows)
    )


def _in_units(rows: Rows, columns: Decisions, *, drawn: bool) -> Decisions:
    """Every row by itself, or in episodes, whose steps are checked."""
    if single_rows(rows, drawn=drawn):
        if rows.terms.time_varying:
            _refuse_later(rows, columns, "what is left at a later step, and what the policy does there, are others")
        return columns
    episodes = episode_numbers(rows)
    order = np.argsort(episodes, kind="stable")
    lengths = np.bincount(episodes)
    position = np.arange(order.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    check_steps(rows, order, position)
    steps = np.empty(order.size, dtype=np.int64)
    steps[order] = position
    return replace(columns, episodes=episodes, steps=steps)


def _refuse_later(rows: Rows, columns: Decisions, why: str) -> None:
    """InvalidInput where rows that are taken one by one are later steps, as far as the log says."""
    if not rows.log.has_timesteps:
        return
    times = np.concatenate([part.timesteps for _, part in rows.log.batches(rows.rows) if part.timesteps is not None])
    later = np.flatnonzero(times[columns.rows - rows.rows.start] > 0)
    if later.size:
        row = int(columns.rows[later[0]])
        raise InvalidInput(
            f"Every row is taken as a decision of its own, but row {row} carries timestep "
            f"{int(times[row - rows.rows.start])}: {why}. Pass `episode_ids`, so that rows are weighed as episodes from "
            "step 0 on."
        )


def logged_ratios(part: Transitions, target: FloatArray | None, slots: int) -> Ratios:
    """The ratios of some rows; `target` is π(a_i|s_i) as a policy said it, None where the log holds it."""
    if target is not None:
        # a row of the policy's probabilities stands for itself divided by its sum: one rounding for every action
        return ratios_of(target, _column(part, "behavior"), slots)
    if part.target_action_probs is not None and part.behavior_action_probs is not None:
        return ratios_of(part.target_action_probs, part.behavior_action_probs, 0)
    return ratios_of_logs(_logs(part, "target"), _logs(part, "behavior"))


def _column(part: Transitions, whose: str) -> FloatArray:
    """Probabilities, from their logarithms if need be."""
    found = getattr(part, f"{whose}_action_probs")
    return np.asarray(np.exp(_logs(part, whose)) if found is None else found)


def _logs(part: Transitions, whose: str) -> FloatArray:
    given, probabilities = getattr(part, f"{whose}_log_probs"), getattr(part, f"{whose}_action_probs")
    if given is None and probabilities is None:
        raise InvalidInput(
            _MISSING if whose == "behavior" else "The log does not hold the target policy's probabilities."
        )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probabilities) if given is None else given)
