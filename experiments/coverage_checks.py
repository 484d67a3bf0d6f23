"""What one log says about a statement, how many logs may contradict it, and exact rates to compare with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

import bondic
from bondic_lab.reproduction.summary import failed

FloatArray = npt.NDArray[np.float64]
Role = Literal["claim", "control", "no guarantee"]

ALPHA = 0.1
FALSE_ALARM = 1e-4
"""Per statement: a true statement is called violated with at most this probability."""


def missed(result: bondic.Result, truth: float, slack: float = 0.0) -> bool:
    """Whether the answer is wrong on a log that satisfies its assumptions: an interval without the truth, or a rejection."""
    ends = {"low": result.low, "high": result.high, "status": result.status.name}
    return failed({**ends, "truth": truth, "slack": slack})


def misses_in_words(misses: int, informative: int, runs: int) -> str:
    """Misses beside the runs that could miss: a trivial answer cannot, so it must not dilute their share."""
    return f"{misses} misses in {informative} informative runs (of {runs})"


@dataclass(frozen=True)
class Check:
    """One statement, looked at on one log.

    role="claim": must fail with probability at most `level`. role="control": known to be false; the same test must
    say so. role="no guarantee": counted, not judged. `rate` is the exact probability of a failure where it is known.
    """

    statement: str
    failed: bool
    role: Role = "claim"
    level: float = ALPHA
    rate: float | None = None
    length: float = math.nan  # of the interval, as a share of what the reward range alone implies


@dataclass(frozen=True)
class Tally:
    """All logs of one statement."""

    case: str
    statement: str
    role: Role
    level: float
    rate: float | None
    trials: int
    misses: int
    length: float  # mean over the logs

    @property
    def p_value(self) -> float:
        """P( Bin(trials, level) >= misses ): small when failures are too many for the level."""
        return float(stats.binom.sf(self.misses - 1, self.trials, self.level))

    @property
    def violated(self) -> bool:
        """The test itself; the same for claims and controls."""
        return self.p_value < FALSE_ALARM

    @property
    def fit(self) -> float:
        """Two-sided exact p-value against the known rate; 1 when no rate is known."""
        return 1.0 if self.rate is None else float(stats.binomtest(self.misses, self.trials, self.rate).pvalue)

    @property
    def as_expected(self) -> bool:
        """Claims hold and have their known rate; controls are caught."""
        if self.role == "no guarantee":
            return True
        return self.violated == (self.role == "control") and self.fit >= FALSE_ALARM


def tally(case: str, trials: list[list[Check]]) -> list[Tally]:
    """Count, per statement; every trial makes the same statements in the same order."""
    out = []
    for column in zip(*trials, strict=True):
        first = column[0]
        assert all((c.statement, c.role, c.level) == (first.statement, first.role, first.level) for c in column)
        misses, length = sum(check.failed for check in column), float(np.mean([check.length for check in column]))
        out.append(Tally(case, first.statement, first.role, first.level, first.rate, len(column), misses, length))
    return out


@cache
def two_sided_rate(steps: int, threshold: float) -> float:
    """P( |S_n| > threshold ) for a walk of n steps of +1 or -1, each with probability 1/2."""
    most = math.ceil((steps - threshold) / 2.0) - 1  # S = 2 heads - n < -threshold
    return 2.0 * float(stats.binom.cdf(most, steps, 0.5))


def crossing_rate(bounds: FloatArray) -> float:
    """P( |S_n| > bounds[n - 1] for some n <= len(bounds) ), S_n as above: the walk that was inside, step by step."""
    reach = bounds.size
    positions = np.arange(-reach, reach + 1)
    alive = np.where(positions == 0, 1.0, 0.0)
    for bound in bounds:
        step = np.zeros_like(alive)
        step[1:] += 0.5 * alive[:-1]
        step[:-1] += 0.5 * alive[1:]
        alive = np.where(np.abs(positions) > bound, 0.0, step)
    return float(1.0 - alive.sum())
