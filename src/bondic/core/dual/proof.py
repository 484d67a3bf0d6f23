"""The dual bound's proof: W, Q, the noise bound, the division of alpha, and an ω for every end.

Claimed are F-(ω) and F+(ω) of (10) at the given ω, however they were chosen, and what the given witnesses say about Q.
"""

from __future__ import annotations

from dataclasses import dataclass

from bondic.core.assumptions import assumes_nothing, fixed_before, length_assumption, list_assumptions
from bondic.core.balls import Instruments, Provenance, ValueClass
from bondic.core.claims import Assumption, Claim, End, ErrorBudget, Guarantee, Side, ends_of
from bondic.core.columns import Columns
from bondic.core.dual.bound import UNMOVED, Setting, combine_witnesses, dual_bound, witness_candidates
from bondic.core.dual.noise import NoiseBound
from bondic.core.dual.weighing import ProposedWeights, weigh
from bondic.core.errors import InvalidInput, VerificationError, refuse
from bondic.core.functions import Function
from bondic.core.kernels.normal_form import operations
from bondic.core.proof import Claims, Estimand, Proof, Review
from bondic.core.question import Question
from bondic.core.registry import register
from bondic.core.sums.forms import Sums


@register("proof", "dual")
@dataclass(frozen=True, eq=False)
class DualProof(Proof):
    """Ĵ(q̂, ω) -+ ( bias + noise + allowances ), one ω per end; None stands for 0."""

    estimand: Estimand
    budget: ErrorBudget
    side: Side
    ball: ValueClass
    instruments: Instruments
    noise: NoiseBound
    omegas: dict[End, Function | None]
    witnesses: tuple[Function | None, ...] = ()  # against Q, on the event of the noise bound

    def __post_init__(self) -> None:
        ends = ends_of(self.side)
        refuse(set(self.omegas) != set(ends), "The certificate lacks an end point, or has one too many.")
        refuse("noise" not in self.budget.parts, "No part of alpha is spent on the noise.")
        put = object.__setattr__
        put(self, "omegas", {end: _nonzero(self.omegas[end]) for end in ends})
        put(self, "witnesses", tuple(map(_nonzero, self.witnesses)))

    @property
    def guarantee(self) -> Guarantee:
        return self.noise.guarantee

    @property
    def needs_replay(self) -> tuple[str, ...]:
        """W, wherever it weighs rows or tests Q: an ω of 0 uses none."""
        used = (*self.omegas.values(), *self.witnesses)
        return ("instruments",) if any(function is not None for function in used) else ()

    def setting(self, rows: Columns, sums: Sums) -> Setting:
        """Everything that the bound depends on besides ω."""
        noise, initial = self.budget["noise"], self.budget.get("initial")
        sides = len(ends_of(self.side))
        return Setting(rows, self.ball, self.instruments, self.noise, noise, initial, sides, sums)

    def claims(self, question: Question, sums: Sums) -> Claims:
        """Every end point from its ω, the test of Q from its witnesses: from one pass over the log."""
        rows = question.columns
        setting, ends = self.setting(rows, sums), list[Claim]()
        candidates = [ProposedWeights(omega) for omega in self.omegas.values()]
        candidates += witness_candidates(self.witnesses)
        weighed = iter(weigh(rows, self.ball, candidates, sums=sums))
        for end, omega in self.omegas.items():
            ends += dual_bound(setting, omega, (end,), weighing=next(weighed))
        return Claims(tuple(ends), (combine_witnesses(setting, self.witnesses, weighed),))

    def assumptions(self, question: Question, *, rejected: bool) -> tuple[Assumption, ...]:
        rows = question.columns
        chosen = "W was chosen without the certified rows"
        own = (
            fixed_before("instruments", chosen, self.instruments.provenance, rows),
            Assumption("noise", f"{self.noise.describe()}.", "stated"),
            *self._length(rows),
        )
        return list_assumptions(rows, self.ball, own, rejected=rejected)

    @property
    def any_length(self) -> bool:
        """The noise bound holds at stopping times, or no row is used."""
        used = (*self.omegas.values(), *self.witnesses)
        return self.noise.any_time or all(function is None for function in used)

    def _length(self, rows: Columns) -> tuple[Assumption, ...]:
        """Nothing where the noise bound says so itself."""
        if self.any_length:
            return ()
        tuning = self.instruments.provenance
        own = tuning.rows is not None and tuning.log_hash == rows.log_hash
        return (length_assumption(rows.rows.stop - (tuning.rows[0] if own and tuning.rows else rows.rows.start)),)

    def check_learned(self) -> None:
        """Starts of the log are averaged over, all of them: none of them may have trained the policy."""
        super().check_learned()
        start, used = self.estimand.start, any(omega is not None for omega in self.omegas.values())
        trained = any(training.log_hash in ("", self.estimand.log_hash) for training in self.estimand.trained_on)
        if used and trained and start.from_log and start.kind == "sample":
            raise InvalidInput(
                "The policy was learned on rows of this log, and Dual() averages over all of its episode starts, those of these "
                "rows among them. State the starts, initial=InitialStates.exact(states) or .sample(states) (--initial FILE), or "
                "use a method that leaves them out: Table(), Sequential()."
            )

    def provenances(self) -> tuple[Provenance, ...]:
        return self.instruments.provenance, self.ball.provenance

    def work(self, question: Question) -> float:
        """Each function costs N^2 / 2 pairs in the kernel of Q, and M (M + N) in its own if it is written with M centers.

        N points are rows, next states and starts. Engines may need far less, never much more.
        """
        rows = question.columns
        points = float((1 + max(rows.next_draws, 1)) * len(rows) + rows.initial.points.shape[0])
        given = (self.ball.center, *self.omegas.values(), *self.witnesses)
        used = [function for function in given if function is not None]
        pairs = (len(used) + 1) * self.ball.work(points, rows.layout)
        for function in used:
            for centers in function.landmarks():
                count = centers.shape[0]
                pairs += count * (count + points) * operations(function.kernel, rows.layout)
        return pairs

    def reviews(self, question: Question, claims: Claims, sums: Sums) -> tuple[Review, ...]:
        rows = question.columns
        setting = self.setting(rows, sums)
        return self._tests(setting, claims), self._use_of_log(setting, claims), self._instruments(rows)

    def _tests(self, setting: Setting, claims: Claims) -> Review:
        """What the given witnesses show, and what one would have to look for."""
        if claims.rejected:
            return Review(("rejection test recomputed from its witnesses",))
        if assumes_nothing(setting.problem, setting.ball):
            return Review(("nothing is assumed about q*: there is no class to test",))
        if any(witness is not None for witness in self.witnesses):
            text = "the given witnesses were recomputed and do not reject; whether another would is not known"
        else:
            text = "whether the log contradicts Q: the certificate holds no witness, and none was looked for"
        return Review(unchecked=(text,))

    def _use_of_log(self, setting: Setting, claims: Claims) -> Review:
        """Ends inside the value range that ω = 0 gives as well, or nearly: the log was not used, they repeat Q."""
        limits, alone = setting.range(), dual_bound(setting, None, tuple(self.omegas))  # what Q says about the starts
        unchecked, headline = [], []
        for claim, without in zip(claims.ends, alone, strict=True):
            if claim.gain(limits) > 0 and claim.gain(without) <= UNMOVED * limits.width:
                unchecked.append(
                    f"the {claim.end} end against the log: the log was not used for this end, it repeats Q"
                )
                headline.append(f"the {claim.end} end, which repeats Q")
        return Review(unchecked=tuple(unchecked), headline=tuple(headline))

    def _instruments(self, rows: Columns) -> Review:
        """W must not have seen the certified rows: their positions can be compared, its history cannot."""
        provenance = self.instruments.provenance
        if provenance.saw((rows.rows.start, rows.rows.stop), rows.log_hash):
            raise VerificationError("W was tuned on rows that it certifies, or on rows after them.")
        if provenance.rows is None:
            text = f"that W was picked without the certified rows: it is only stated ({provenance.note})"
            return Review(unchecked=(text,))
        where = f"rows {provenance.rows[0]} to {provenance.rows[1] - 1}"
        if provenance.log_hash != rows.log_hash:
            return Review(unchecked=(f"where W comes from: the certificate names {where} of another log",))
        return Review(
            (f"according to the certificate W comes from {where} of this log, which precede the certified ones",)
        )


def _nonzero(function: Function | None) -> Function | None:
    return None if function is None or function.is_zero else function
