"""The interval at larger radii of Q: what it is worth if the value function is rougher than was assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bondic.classes.ball import Ball
from bondic.classes.span import Span
from bondic.errors import InvalidInput
from bondic.methods.clock import Progress
from bondic.methods.sensitivity import result_frontier
from bondic.methods.sequential import Sequential
from bondic.proofs.dual import DualProof
from bondic.proofs.sequential import SequentialProof
from bondic.result import ConfidenceInterval, Result
from bondic.rows import Rows

MULTIPLES = (2.0, 5.0)


def larger_radii(
    result: Result,
    problem: Rows,
    *,
    multiples: Sequence[float] = MULTIPLES,
    method: Sequential | None = None,
    progress: Progress | None = None,
) -> dict[float, ConfidenceInterval]:
    """The interval for every multiple of the radius, on the same rows and with the same kernel; the value range where the log
    contradicts it.

    Each holds at 1 - alpha on its own: name the one to be used before looking. A sequential interval is planned for one radius,
    so each takes as long as the first; `method` is the one that made it, where it was not the default. For the dual bound
    they are read off one curve (`result_frontier`).
    """
    proof = result.proof
    if not isinstance(proof, (DualProof, SequentialProof)) or not isinstance(proof.ball, (Ball, Span)):
        raise InvalidInput(
            f"There is no radius to vary: the interval ({result.method}) rests on no ball of value functions, so nothing about "
            "their roughness is assumed that could be weakened."
        )
    if problem.log_hash != proof.asked.log_hash:
        raise InvalidInput("The result belongs to another log than the problem (content hashes differ).")
    radii = {float(multiple): float(multiple) * proof.ball.radius for multiple in multiples}
    if isinstance(proof, DualProof):
        curve, limits = result_frontier(result, problem, progress=progress), result.value_range
        ends = {k: (limits.low, limits.high) if curve.contradicted(r) else curve.interval(r) for k, r in radii.items()}
        return {multiple: ConfidenceInterval(*found) for multiple, found in ends.items()}
    options = replace(method or Sequential(), side=result.side, pilot=result.rows[0] - problem.rows.start, radius=None)
    varied = {k: replace(options, ball=proof.ball.with_radius(radius)) for k, radius in radii.items()}
    made = {multiple: one.run(problem, result.alpha, progress) for multiple, one in varied.items()}
    return {multiple: ConfidenceInterval(one.low, one.high) for multiple, one in made.items()}
