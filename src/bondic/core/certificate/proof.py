"""What a proof is: plain data, and the trusted recomputation of what it shows.

A proof is a frozen dataclass registered under a name; a certificate holds its fields. Verification knows nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Self

from bondic.core.certificate.asked import Asked
from bondic.core.certificate.limits import refuse
from bondic.core.certificate.review import Review
from bondic.core.claims import Assumption, Claim, ErrorBudget, Guarantee, Rejection, Side
from bondic.core.classes.provenance import Provenance
from bondic.core.codec import first_difference
from bondic.core.columns import Columns
from bondic.core.propensities.ratios import Target
from bondic.core.registry import kind
from bondic.core.sums.forms import Sums

_SAME_PLAN = 1e-4
"""Relative: other machines, engines and portions of rows changed plans by 1e-8 at most. A plan is made again to be used, so what
is granted here changes no answer."""


@dataclass(frozen=True)
class Claims:
    """What a proof shows: the end points that it claims, and tests of what it assumes."""

    ends: tuple[Claim, ...]
    tests: tuple[Rejection, ...] = ()

    @property
    def rejected(self) -> bool:
        return any(test.rejected for test in self.tests)


@kind("proof")
class Proof(ABC):
    """One way to prove an interval: fields are data, methods recompute from the rows.

    Nothing that a method returns may be taken from a field that says what was found; everything is computed again.
    """

    asked: Asked
    budget: ErrorBudget  # of alpha, which is spent on the events that the proof rests on
    side: Side

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee: ...

    @property
    def needs_replay(self) -> tuple[str, ...]:
        """Assumptions on when something was chosen, by name: the proof itself cannot show them."""
        return ()

    @abstractmethod
    def claims(self, rows: Columns, sums: Sums) -> Claims:
        """All that the proof shows on these rows, with outward rounding."""

    @abstractmethod
    def assumptions(self, rows: Columns, *, rejected: bool) -> tuple[Assumption, ...]:
        """Everything that the guarantee rests on, in words."""

    def reviews(self, rows: Columns, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        """What only this kind of proof can compare, or has to name as not compared; VerificationError refuses it."""
        del rows, claims, sums
        return ()

    @property
    def logged_answers(self) -> Target | None:
        """The policy at the logged states, where the proof holds its answers there."""
        return None

    def without_rows(self) -> Self:
        """The same proof without anything that is a single row."""
        return replace(self, asked=self.asked.without_rows())  # type: ignore[type-var]

    def provenances(self) -> tuple[Provenance, ...]:
        """Where the choices behind the proof come from, as it says."""
        return ()

    def work(self, rows: Columns) -> float:
        """About how many pairs of points `claims` runs over."""
        return float(len(rows))


def check_same_plan(stored: Proof, again: Proof, *, entrywise: bool = False) -> None:
    """VerificationError with the first piece of a proof that was made again and came out differently.

    `entrywise` where something of the stored plan is used on.
    """
    place = first_difference(stored, again, "proof", _SAME_PLAN, entrywise=entrywise)
    refuse(
        bool(place),
        f"{place} is not what the rows before it give: the plan was made with other rows, or by another rule.",
    )
