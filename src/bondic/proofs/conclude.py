"""From the two end points to an interval and a status: used when estimating and when verifying."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from bondic.bounds.dual import BoundTerms, Setting
from bondic.bounds.rejection import Rejection


class Status(StrEnum):
    """What came out; the value is the message."""

    INTERVAL = "interval: narrower than what the reward range alone implies"
    TRIVIAL = "trivial: the log adds nothing to what the reward range alone implies"
    REJECTED = "rejected: the log contradicts the assumptions (q* in Q, the reward range, or how the log arose)"


@dataclass(frozen=True)
class Conclusion:
    low: float
    high: float
    status: Status


def conclude(
    setting: Setting, lower: BoundTerms | None, upper: BoundTerms | None, rejection: Rejection, side: str
) -> Conclusion:
    """Intersect with the value range; an empty intersection rejects, and is never repaired.

    A missing end (one-sided bounds) is the end of the value range, and so is an end with omega = 0: that one uses no row
    of the log and only repeats Q. After a rejection the value range is reported: it needs the stated ranges alone.
    """
    limits = setting.range()
    low = max(limits.low, -math.inf if lower is None else lower.bound)
    high = min(limits.high, math.inf if upper is None else upper.bound)
    if rejection.rejected or low > high:
        return Conclusion(limits.low, limits.high, Status.REJECTED)
    low = low if uses_log(lower) else limits.low
    high = high if uses_log(upper) else limits.high
    moved = (side != "upper" and low > limits.low) or (side != "lower" and high < limits.high)
    return Conclusion(low, high, Status.INTERVAL if moved else Status.TRIVIAL)


def uses_log(terms: BoundTerms | None) -> bool:
    """Whether an end rests on any row at all."""
    return terms is not None and terms.weight_norm.mid != 0
