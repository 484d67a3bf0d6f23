"""The value range, from no row: true of every log, and the answer where rows prove no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from bondic.core.balls import Box, Instruments
from bondic.core.claims import ErrorBudget, Side, ends_of
from bondic.core.dual.noise import Pinelis
from bondic.core.dual.proof import DualProof
from bondic.core.starts import sampled_start
from bondic.core.terms import range_at_all_times
from bondic.methods.base import Progress
from bondic.methods.setting import NOTHING
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.estimand import estimand_of
from bondic.search.table import table_kernel

START_SHARE = 0.1
"""Share of alpha for initial states that are a sample; fixed here, before any data are seen."""
_LEAST_SHARE = 1e-12
"""Width of a value range, in units of its largest value, up to which floats do not tell its values apart."""
_ALL_IN_RANGE = "every function with values in the value range"


@dataclass(frozen=True)
class WholeRange:
    """[v_lo, v_hi], and why the answer is no shorter."""

    why: str
    side: Side = "both"
    notes: Mapping[str, str] = field(default_factory=dict)
    name: ClassVar[str] = "sequential"  # as results have always said
    assumes: ClassVar[Literal["nothing"]] = "nothing"

    def applies(self, problem: Rows) -> None:
        """Always."""
        del problem

    def predicted_length(self, problem: Rows, alpha: float) -> float:
        del alpha
        return range_at_all_times(problem.terms).width

    def run(
        self, problem: Rows, alpha: float, progress: Progress | None, seconds: dict[str, float] | None = None
    ) -> Result:
        del progress
        notes = {**self.notes, "Q": _ALL_IN_RANGE, NOTHING: self.why}
        return Result.of(self._proof(problem, alpha), problem, method=self.name, choices=notes, seconds=seconds or {})

    def _proof(self, problem: Rows, alpha: float) -> DualProof:
        """Every function in the range is in Q, and ω = 0 at both ends. Nothing of alpha is needed."""
        limits, ends = range_at_all_times(problem.terms), ends_of(self.side)
        shares = {"noise": 1.0 - START_SHARE, "initial": START_SHARE}
        return DualProof(
            estimand_of(problem),
            ErrorBudget.split(alpha, shares if sampled_start(problem, len(ends)) is not None else {"noise": 1.0}),
            self.side,
            Box.around(limits.low, limits.high, problem.layout),
            Instruments(table_kernel(0.5)),
            Pinelis("half"),
            dict.fromkeys(ends),
        )


def degenerate_range(problem: Rows) -> str:
    """Why no row can add anything: bets are made in units of the width of the value range, which has to have one."""
    limits = range_at_all_times(problem.terms)
    return "" if limits.width > _LEAST_SHARE * limits.largest else "the ranges leave one possible value"
