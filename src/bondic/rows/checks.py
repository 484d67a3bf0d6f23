"""What makes the assumptions of a problem doubtful: faults of the log, and actions of the policy that the log never took."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bondic.core.terms import in_full, range_of
from bondic.data._arrays import FloatArray
from bondic.data.episodes import episode_starts
from bondic.data.hygiene.findings import Finding, judge
from bondic.errors import ValidityNote, ValidityWarning, shown
from bondic.policies.logged_target import LoggedTarget
from bondic.rows.rows import Rows

_TOO_WIDE = 100
_OUTSIDE = 0.25
"""Share of a continuous policy's actions outside everything logged that is worth a warning."""


def inspected(question: Rows, accept: Iterable[str]) -> Rows:
    """The question with its warnings and with what the user states by accepting findings; faults are refused."""
    terms = question.terms
    found = [
        *unseen_actions(question),
        *wide_range(question),
        *question.log.inspection.findings(gamma=terms.gamma, horizon=terms.horizon),
    ]
    validity_notes, stated = judge(found, accept)
    for validity_note in validity_notes:
        warnings.warn(validity_note, ValidityWarning, stacklevel=4)
    return replace(question, validity_notes=validity_notes, stated=stated)


def cut_by_horizon(question: Rows) -> tuple[str, ...]:
    """A note where episodes of the log are longer than the horizon."""
    horizon, lengths = question.terms.horizon, question.log.inspection.episode_lengths
    longer = 0 if horizon is None else int((lengths > horizon).sum())
    if not longer:
        return ()
    first = "the first step counts" if horizon == 1 else f"the first {horizon} steps count"
    return (
        f"Only {first} (horizon {horizon}): what is earned later is no part of the value. {longer} of the log's {lengths.size} "
        f"episodes ({longer / lengths.size:.0%}) are longer, up to {lengths.max()} steps, and their later rows are left out.",
    )


def undiscounted(gamma: float | None) -> tuple[str, ...]:
    """A note where a discount was stated for rows that nothing follows."""
    if not gamma:
        return ()
    return (f"Every row is an episode of one step, so nothing is discounted: gamma = {in_full(gamma)} is not used.",)


def ends_at_once(question: Rows) -> tuple[str, ...]:
    """A note where every row ends its episode and the discount allows for more: whether that is always so, only you can say."""
    terms = question.terms
    if terms.gamma == 0 or terms.horizon is not None or not question.log.inspection.one_step:
        return ()
    limits, (low, high) = range_of(terms), terms.reward_range
    return (
        f"Every row of the log ends its episode. If nothing can follow a decision, gamma=0 (--one-step) says so, and the value "
        f"is one reward in [{low:g}, {high:g}]; gamma = {in_full(terms.gamma)} allows for [{limits.low:g}, {limits.high:g}].",
    )


def first_rewards_alone(question: Rows) -> tuple[str, ...]:
    """A note where the discount is 0 although steps follow each other; a warning where the first ones earn nothing."""
    lengths = question.log.inspection.episode_lengths
    if question.terms.gamma != 0 or question.terms.horizon == 1 or lengths.max(initial=0) < 2:
        return ()
    first = total = 0.0
    for _, part, starts in episode_starts(question.log):
        first += float(np.abs(part.rewards[starts]).sum())
        total += float(np.abs(part.rewards).sum())
    words = (
        f"gamma = 0 counts the first reward of an episode alone, and the log has episodes of up to {lengths.max()} steps: what "
        "is earned later is no part of the value."
    )
    if first or not total:
        return (words,)
    validity_note = ValidityNote(
        f"{words} Every first reward of the log is 0, later ones are not: a discount near 1 is probably meant."
    )
    warnings.warn(validity_note, ValidityWarning, stacklevel=3)
    return (validity_note,)


def wide_range(question: Rows) -> Iterator[Finding]:
    """Rewards that fill a hundredth of what was stated."""
    (low, high), (least, most) = question.terms.reward_range, question.log.reward_span
    if question.terms.value_range is None and 0 < _TOO_WIDE * (most - least) <= high - low:
        yield Finding(
            "reward-range", "warn", len(question.log), -1,
            f"All rewards of the log lie in [{least:g}, {most:g}], and the stated range, [{low:g}, {high:g}], is "
            f"{(high - low) / (most - least):.0f} times as wide. An interval allows for every reward in the range, and is "
            "wide for it; or rewards are in another unit than the range.",
            "Check the unit, and state the range of the rewards that are possible, for the next log if not for this one.",
        )  # fmt: skip


def unseen_actions(question: Rows) -> Iterator[Finding]:
    """Where the policy goes beyond the log's actions, no row says what it earns."""
    if isinstance(question.policy, LoggedTarget):
        return
    if question.layout.discrete:
        yield from _never_taken(question, question.log.inspection.action_counts)
    else:
        yield from _outside(question, question.log.inspection.action_range)


def _never_taken(question: Rows, counts: npt.NDArray[np.int64]) -> Iterator[Finding]:
    slots = question.layout.slots
    used = np.zeros(slots, dtype=np.int64)
    used[: counts.size] = counts[:slots]
    unseen = np.flatnonzero(used == 0)
    if not unseen.size:
        return
    start = question.initial.weights * question.initial_states.weights[question.initial.rows, None]
    share, points = np.zeros(slots), 0
    for batch in question.batches():
        share += batch.next.weights.sum(axis=0)
        points += batch.next.weights.shape[0]
    share /= max(points, 1)
    first = start.sum(axis=0)
    taken = unseen[(share[unseen] > 0) | (first[unseen] > 0)]
    if not taken.size:
        return
    next_states = f"{share[taken].sum():.1%} of its probability at the log's next states and " if points else ""
    yield Finding(
        "unseen-actions", "warn", int(taken.size), -1,
        f"The policy takes actions that the log never took: {shown(f'action {action}' for action in taken)}. They get "
        f"{next_states}{first[taken].sum():.1%} {'' if points else 'of its probability '}at the initial states. No row shows "
        "what they earn: for them the interval rests on assumptions alone.",
        "Evaluate a policy that keeps to logged actions, or log these; check that actions are numbered as the policy has them.",
    )  # fmt: skip


def _outside(question: Rows, limits: tuple[FloatArray, FloatArray] | None) -> Iterator[Finding]:
    """Judged on the first block: a warning is not worth a second pass over all rows."""
    part = next(question.batches(), None)
    if limits is None or part is None or not part.next.points.shape[0]:
        return
    drawn = part.next.points[:, -question.layout.action_dim :]
    far = ((drawn < limits[0]) | (drawn > limits[1])).any(axis=1)
    if far.mean() > _OUTSIDE:
        yield Finding(
            "unseen-actions", "warn", int(far.sum()), int(part.log_rows[part.next.rows[int(np.argmax(far))]]),
            f"{far.mean():.0%} of the policy's actions at the log's next states lie outside the range of all logged actions. "
            "No row is near them: for them the interval rests on assumptions alone.",
            "Evaluate a policy that keeps to logged actions, or log these; check the units of the actions.",
        )  # fmt: skip
