"""What the updates of a monitor have shown: a line for each, what they have in common, and an answer while rows are too few."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from bondic.core.assumptions import range_assumption
from bondic.core.claims import Assumption, Conclusion, ErrorBudget, Guarantee, Side, Status
from bondic.core.terms import in_full, range_of
from bondic.result import Result, versions
from bondic.rows.growing import GrowingRows


@dataclass(frozen=True)
class UpdateRecord:
    """One update: its interval, and what all intervals up to it have in common."""

    rows: int  # of the log by then
    used: int  # those that were evaluated
    low: float
    high: float
    status: str
    running_low: float
    running_high: float
    running_status: str
    guarantee: Guarantee  # of what they have in common
    certificate: str  # digest; empty where nothing could be certified yet
    time: str  # UTC
    repeated: bool = False  # rows of it, or of an update before, were stated to be new events though they came before

    def told(self) -> dict[str, Any]:
        """All of it by name; a rejection has no ends, though the record keeps the value range in their place."""
        out = asdict(self)
        for begin, status in (("", self.status), ("running_", self.running_status)):
            if status == Status.REJECTED.name:
                out |= {f"{begin}low": None, f"{begin}high": None}
        return out


def next_record(before: Conclusion, result: Result, grown: GrowingRows) -> UpdateRecord:
    """The line of an update, with what all intervals up to it have in common.

    On the event that makes one of them right all are. So nothing in common is a contradiction, and a rejection stays one.
    """
    limits = result.value_range
    low, high = max(before.low, result.low), min(before.high, result.high)
    status = Status.INTERVAL if low > limits.low or high < limits.high else Status.TRIVIAL
    if Status.REJECTED in (before.status, result.status) or low > high:
        low, high, status = limits.low, limits.high, Status.REJECTED
    return UpdateRecord(
        rows=len(grown.log),
        used=grown.used,
        low=result.low,
        high=result.high,
        status=result.status.name,
        running_low=low,
        running_high=high,
        running_status=status.name,
        guarantee="finite-sample",
        certificate=result.hashes.get("certificate", ""),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        repeated=grown.repeated,
    )


def held_back(grown: GrowingRows) -> dict[str, str]:
    """A note on rows that wait for others."""
    waiting, total = len(grown.log) - grown.used, len(grown.log)
    why = "actions are drawn for groups of rows, and the last is not complete"
    if grown.whole_episodes:
        why = f"the episode of row {grown.used} has neither ended nor been cut, and those after it wait for it"
    text = f"{waiting} of {total}: {why}"
    return {"waiting rows": text} if waiting else {}


def waiting_result(grown: GrowingRows, alpha: float, side: Side, why: str) -> Result:
    """The value range: nothing is said about the rows yet."""
    terms = grown.statements.terms
    limits, (low, high) = range_of(terms), map(in_full, terms.reward_range)
    rewards = Assumption("rewards", f"Every possible reward lies in [{low}, {high}].", "stated")
    return Result(
        low=limits.low,
        high=limits.high,
        estimate=math.nan,
        alpha=alpha,
        side=side,
        method="sequential",
        guarantee="finite-sample",
        status=Status.TRIVIAL,
        value_range=limits,
        claims=(),
        rejection=None,
        gap=(math.nan, math.nan),
        rows=(0, grown.used),
        budget=ErrorBudget(alpha, {}),
        assumptions=(rewards, *range_assumption(terms)),
        choices={"waiting": f"{why}: the interval is the value range", **held_back(grown)},
        seeds={"policy draws": grown.statements.seed},
        versions=versions(),
        hashes={"log": grown.log.content_hash},
        effective_sample_size=0.0,
        seconds={},
    )
