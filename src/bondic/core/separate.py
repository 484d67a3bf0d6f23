"""Each policy of a question by a proof of its own: the ends of sum_k c_k J_k are sums of theirs.

Proof k holds with probability at least 1 - α_k, so all of them hold together with probability at least 1 - sum_k α_k. Then
sum_k c_k J_k lies between the sums of c_k times the lower and upper ends (exchanged where c_k < 0). Noise that policies share is
paid for in every part; a proof of the difference itself, where there is one, is shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bondic.core.balls import Provenance
from bondic.core.bounded import Enclosure
from bondic.core.claims import (
    Assumption,
    Claim,
    Conclusion,
    ErrorBudget,
    Guarantee,
    Part,
    Rejection,
    Side,
    Status,
    conclude,
    ends_of,
)
from bondic.core.columns import RowRange
from bondic.core.errors import refuse
from bondic.core.proof import Claims, Estimand, Proof, Review
from bondic.core.propensities.ratios import Target
from bondic.core.question import Question
from bondic.core.registry import register
from bondic.core.sums.forms import Sums


@register("proof", "separate")
@dataclass(frozen=True, eq=False)
class SeparateProof(Proof):
    """sum_k c_k [low_k, high_k]."""

    estimand: Estimand
    budget: ErrorBudget  # parts: one for every policy, by its number from 1
    side: Side
    parts: tuple[Proof, ...]  # of every policy, on rows of their own among those that are certified

    def __post_init__(self) -> None:
        refuse(len(self.parts) != len(self.estimand.policies), "The number of proofs is not the number of policies.")
        coefficients = tuple(policy.coefficient for policy in self.estimand.policies)
        refuse(coefficients != (1.0, -1.0), "Separate proofs are about the difference of two policies.")
        first, last = self.estimand.rows
        for number, (policy, part) in enumerate(zip(self.estimand.policies, self.parts, strict=True), 1):
            begun = max((seen.rows[1] for seen in part.provenances() if seen.rows is not None), default=first)
            inside = first <= part.estimand.rows[0] <= max(first, begun) and part.estimand.rows[1] == last
            refuse(
                not (inside and part.estimand.same_log(self.estimand)),
                f"The proof of policy {number} is about another log or other statements, or leaves out rows without a reason.",
            )
            same = len(part.estimand.policies) == 1 and part.estimand.policies[0].kind == (1.0, *policy.kind[1:])
            refuse(not same, f"The proof of policy {number} is not about its value.")
            refuse(
                part.budget.alpha > (self.budget.get(str(number)) or 0.0),
                f"Policy {number} spends more than its share.",
            )
            needed = {end if policy.coefficient > 0 else _OTHER[end] for end in ends_of(self.side)}
            refuse(
                not needed <= set(ends_of(part.side)), f"The proof of policy {number} leaves out an end that is needed."
            )

    @property
    def guarantee(self) -> Guarantee:
        return next((part.guarantee for part in self.parts if part.guarantee != "finite-sample"), "finite-sample")

    @property
    def needs_replay(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.needs_replay))

    @property
    def has_plan(self) -> bool:
        return any(part.has_plan for part in self.parts)

    @property
    def any_length(self) -> bool:
        return all(part.any_length for part in self.parts)

    @property
    def logged_answers(self) -> tuple[Target | None, ...]:
        return tuple(part.logged_answers[0] for part in self.parts)

    def questions(self, question: Question) -> Iterator[tuple[Proof, Question]]:
        """Every proof with its own question."""
        for proof, part in zip(self.parts, question.parts, strict=True):
            yield proof, Question.value(part.columns.restricted(RowRange(*proof.estimand.rows)))

    def claims(self, question: Question, sums: Sums) -> Claims:
        found, tests = [], list[Rejection]()
        for proof, own in self.questions(question):
            shown = proof.claims(own, sums)
            found.append(conclude(own.limits, shown.ends, shown.rejected, proof.side))
            tests += shown.tests
            if found[-1].status is Status.REJECTED and not shown.rejected:  # ends that cross
                tests.append(Rejection(True, proof.budget.alpha, 0.0, 0.0, math.inf))
        return self.claims_of(tuple(found), tuple(tests))

    def claims_of(self, conclusions: tuple[Conclusion, ...], tests: tuple[Rejection, ...]) -> Claims:
        """Sums of the ends that the parts conclude with."""
        ends = []
        for end in ends_of(self.side):
            sizes = []
            for number, (policy, one) in enumerate(zip(self.estimand.policies, conclusions, strict=True), 1):
                bound = one.low if (end == "lower") == (policy.coefficient > 0) else one.high
                sizes.append(Part(f"policy {number}", Enclosure(bound) * policy.coefficient, "value"))
            ends.append(Claim(end, tuple(sizes), uses_log=any(one.status is Status.INTERVAL for one in conclusions)))
        return Claims(tuple(ends), tests)

    def assumptions(self, question: Question, *, rejected: bool) -> tuple[Assumption, ...]:
        """Those of all parts; what differs carries the number of its policy."""
        listed = [proof.assumptions(own, rejected=rejected) for proof, own in self.questions(question)]
        shared = [item for item in listed[0] if all(item in other for other in listed)]
        own = [
            replace(item, name=f"{item.name} (policy {number})")
            for number, items in enumerate(listed, 1)
            for item in items
            if item not in shared
        ]
        return (*shared, *own)

    def check_learned(self) -> None:
        """Every policy on the rows of its own proof."""
        for part in self.parts:
            part.check_learned()

    def reviews(self, question: Question, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        del claims
        found: list[Review] = []
        for proof, own in self.questions(question):
            found += proof.reviews(own, proof.claims(own, sums), sums)
        return tuple(found)

    def without_rows(self) -> SeparateProof:
        parts = tuple(part.without_rows() for part in self.parts)
        return replace(self, estimand=self.estimand.without_rows(), parts=parts)

    def provenances(self) -> tuple[Provenance, ...]:
        return tuple(one for part in self.parts for one in part.provenances())

    def work(self, question: Question) -> float:
        return 2.0 * math.fsum(proof.work(own) for proof, own in self.questions(question))


_OTHER = {"lower": "upper", "upper": "lower"}
