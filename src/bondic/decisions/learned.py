"""The mixture that an interval on policies learned block by block is about: what to run, and how often (section 15)."""

from __future__ import annotations

from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput
from bondic.policies.learned import PolicyMixture
from bondic.result import Result


def mixture_of(result: Result) -> tuple[tuple[float, Any], ...]:
    """(probability, policy) of every policy: draw one, and keep it; that is what the interval holds for.

    The probability is the share of the certified decisions (episodes) that lie in the block of the policy. Single decisions may
    also be drawn for anew every time: the value is the same.
    """
    policy = None if result.question is None else result.question.policy
    if result.question is None or not isinstance(policy, PolicyMixture):
        raise InvalidInput(
            "The result is not about policies that were learned block by block: LearnedPolicy(fit, blocks=8)."
        )
    units = result.question.select(*result.rows).decisions(None, every_action=False, drawn=False)
    blocks = policy.blocks(units.rows[units.starts])
    shares = np.bincount(blocks, minlength=len(policy.policies)) / blocks.size
    return tuple(zip(shares.tolist(), policy.policies, strict=True))
