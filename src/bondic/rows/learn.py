"""From a learner to its policies: every one is learned on the rows before its block, and is handed no other row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bondic.core.balls import Provenance
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.data.log import Log
from bondic.errors import PolicyError
from bondic.policies.learned import FittedPolicy, LearnedPolicy, PolicyMixture
from bondic.rows.episodes import episode_borders

Taken = Callable[[Any], tuple[Any, tuple[str, ...]]]
"""What a learner returns -> a policy that can be queried, and how it was read."""


def learn(learner: LearnedPolicy, log: Log, take: Taken) -> tuple[FittedPolicy | PolicyMixture, tuple[str, ...]]:
    """The policy, or one for each block; with what each of them has seen."""
    borders = block_borders(learner, log)
    if learner.blocks > 1 and not (log.has("behavior_action_probs") or log.has("behavior_log_probs")):
        raise InvalidInput(
            "Policies learned block by block are certified from propensities, and the log has none. Learn once, on the first "
            "rows: blocks=1 (no --with learn_blocks)."
        )
    made = [take(_fitted(learner, log, border)) for border in borders]
    seen = [Provenance("learned", (0, border), log.content_hash) for border in borders]
    if len(borders) == 1:
        (policy, notes), border = made[0], borders[0]
        words = f"The policy was learned on rows 0 to {border - 1}; rows from {border} on are left to certify it."
        return FittedPolicy(policy, (0, border), log.content_hash), (*notes, words)
    mixture = PolicyMixture(tuple(policy for policy, _ in made), tuple(zip(borders, seen, strict=True)))
    words = (
        f"The policy is a mixture of {len(borders)} that were learned one after the other, before the rows "
        f"{', '.join(map(str, borders))}: draw one of them, each with its share of the certified decisions (episodes) as the "
        "probability, and keep it. That mixture's value is bounded, not that of the last policy alone."
    )
    return mixture, (*dict.fromkeys(note for _, notes in made for note in notes), words)


def first_certified(policy: FittedPolicy | PolicyMixture) -> int:
    """The first row that trained none of the policies that answer from it on."""
    return policy.learned[0][0] if isinstance(policy, PolicyMixture) else policy.fitted_rows[1]


def block_borders(learner: LearnedPolicy, log: Log) -> tuple[int, ...]:
    """The first row of every block, an episode start."""
    count = len(log)
    first = int(learner.rows) if learner.rows >= 1 else max(round(learner.rows * count), 1)
    requested = [first + (count - first) * number // learner.blocks for number in range(learner.blocks)]
    found = [episode_borders(log, RowRange(0, count), row)[1] for row in requested if row < count]
    borders = tuple(dict.fromkeys(row for row in found if row is not None))
    if not borders:
        raise InvalidInput(
            f"No row is left to certify the policy: the log has {count} rows, and it is learned on the first {first} (to the "
            "next episode start). Learn on fewer: LearnedPolicy(fit, rows=...) (--with learn_rows=...)."
        )
    return borders


def _fitted(learner: LearnedPolicy, log: Log, border: int) -> Any:
    try:
        found = learner.fit(log.read(RowRange(0, border)))
    except (Exception, SystemExit) as problem:
        raise PolicyError(
            f"The learner raised {type(problem).__name__} on rows 0 to {border - 1}: {str(problem).rstrip('.')}."
        ) from problem
    if found is None:
        raise PolicyError(f"The learner returned nothing for rows 0 to {border - 1}: it has to return the policy.")
    return found
