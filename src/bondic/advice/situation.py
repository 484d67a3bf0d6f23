"""What advice is about: a finished result, the rows behind it, and what kind of answer it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from bondic.advice.facts import LogFacts, count_facts
from bondic.claims import Status
from bondic.classes.ball import Ball
from bondic.methods.setting import NOTHING
from bondic.result import Result
from bondic.rows import Rows
from bondic.tuning.states import STATED

Verdict = Literal["rejected", "trivial", "wide", "sharp"]
WIDE = 0.25
"""Share of the value range above which an interval is called wide."""

DOMINANT = 0.4
"""Share of the length from which on one part is worth a word, however short the interval is."""


@dataclass(frozen=True, eq=False)
class Situation:
    """A result with its question; counts are made when they are first asked for."""

    result: Result
    problem: Rows  # with the rows that were set aside
    no_rows: bool = False  # whether nothing may be quoted that a single row decides

    @cached_property
    def certified(self) -> Rows:
        return self.problem.select(*self.result.rows)

    @cached_property
    def facts(self) -> LogFacts:
        return count_facts(self.certified)

    @property
    def share(self) -> float:
        """The length, or for one end its distance from the estimate, as a share of the value range; at most 1."""
        width = self.result.value_range.width
        if width == 0:
            return 0.0
        if self.result.side == "both":
            return min(self.result.length / width, 1.0)
        end = self.result.low if self.result.side == "lower" else self.result.high
        gap = abs(self.result.estimate - end) / width
        return min(gap, 1.0) if math.isfinite(gap) else 1.0

    @property
    def verdict(self) -> Verdict:
        if self.result.status is Status.REJECTED:
            return "rejected"
        if self.result.status is Status.TRIVIAL:
            return "trivial" if self.result.value_range.width else "sharp"
        return "wide" if self.share > WIDE else "sharp"

    @property
    def spreads(self) -> dict[str, float]:
        """The parts that make the interval long, both ends together; those that are 0 are left out."""
        found: dict[str, float] = {}
        for claim in self.result.claims:
            for part in claim.of("spread"):
                found[part.name] = found.get(part.name, 0.0) + part.shown
        return {name: size for name, size in found.items() if size > 0}

    @property
    def uses_log(self) -> bool:
        """Whether the parts of the ends come from rows: ends that only repeat the class have none to speak of."""
        return any(claim.uses_log and claim.of("spread") for claim in self.result.claims)

    @property
    def nothing(self) -> str:
        """Why the answer is the value range, from no row; "" where it is not."""
        return self.result.choices.get(NOTHING, "")

    @property
    def names(self) -> bool | None:
        """Whether states were treated as names; None where the method did not ask."""
        if self.result.curve is not None:
            return False
        if "states" not in self.result.choices:
            return None
        return self.result.is_assumption_free and not self.nothing

    @property
    def ball(self) -> Ball | None:
        """The class of value functions that was stated; None where none was."""
        found = getattr(self.result.proof, "ball", None)
        return found if isinstance(found, Ball) else None

    @property
    def known(self) -> dict[str, Any]:
        """What a guess of a length has to know about values: what states are, and the class that was stated."""
        return {"categorical": self.names, "ball": self.ball}

    @property
    def states_stated(self) -> bool:
        """Whether it was stated what states are: names, or numbers."""
        return STATED in self.result.choices.get("states", "")

    @property
    def steps(self) -> float:
        """How many steps count: 1/(1 - γ), or the horizon if that is less."""
        terms = self.problem.terms
        forever = math.inf if terms.gamma == 1 else 1 / (1 - terms.gamma)
        return min(forever, math.inf if terms.horizon is None else float(terms.horizon))
