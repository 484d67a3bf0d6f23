"""What a smaller radius of a stated ball would give: one event serves all radii up to the one that was stated (section 15).

The events are about sums over rows with weights, clips and caps that the plan fixes. The radius says where e can be; of the
plan it enters the range of outcomes alone, which smaller balls imply as well. So with probability at least 1 - alpha, for all
radii r up to the stated one at once: if q* is within r, the value lies in the interval at r. A larger radius need not imply that
range: it is another event, with an alpha of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bondic.core.claims import conclude
from bondic.core.dual.proof import DualProof
from bondic.core.errors import InvalidInput
from bondic.core.sequential.proof import SequentialProof
from bondic.core.subgroups import Subgroup
from bondic.core.sums.forms import Sums
from bondic.decisions.subgroups import part_of
from bondic.engines.sums import STANDARD
from bondic.result import Result
from bondic.rows.estimand import rebuild


def radius_curve(result: Result, radii: Iterable[float], *, sums: Sums = STANDARD) -> dict[float, Result]:
    """The interval by radius, all of which hold together; REJECTED where the log contradicts a radius.

    Parameters
    ----------
    result : Result
        Of `Sequential` or `Dual` with a stated ball, and its question: state the largest radius that matters.
    radii : iterable of float
        At most the stated radius. Larger ones are possible with `Dual`, and where the plan uses the value range alone.
    """
    proof, problem = result.proof, result.question
    if not isinstance(proof, SequentialProof | DualProof) or problem is None or proof.ball.kernel is None:
        raise InvalidInput(f"The method {result.method} has no stated ball: its interval does not depend on a radius.")
    question, found = rebuild(proof.estimand, problem.log, problem.policy), {}
    for radius in radii:
        own = replace(proof, ball=replace(proof.ball, radius=radius))  # type: ignore[type-var, arg-type]
        if radius > proof.ball.radius and isinstance(proof, SequentialProof) and proof.plan.limits is not None:
            raise InvalidInput(
                f"radius {radius:g} is larger than the stated one, {proof.ball.radius:g}, which the bets of this result rely on: "
                "a larger radius is another event. State the largest radius that matters; smaller ones cost nothing."
            )
        claims = own.claims(question, sums)
        conclusion = conclude(question.limits, claims.ends, claims.rejected, proof.side)
        found[float(radius)] = part_of(result, Subgroup(claims.ends, conclusion, len(problem.initial_states)))
    return found
