"""What every proof must do: a new kind inherits these tests and says what is asked, and which method answers.

class TestMine(ProofCase):
    def ask(self): return problem, log, policy, method
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

import bondic
from bondic.core.bounded import Enclosure
from bondic.core.certificate import Certificate
from bondic.core.claims import Claim, ErrorBudget, Part, conclude
from bondic.core.codec import Encoder, decode, same
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.printed import last_digit
from bondic.core.proof import Claims, Proof
from bondic.core.question import Question
from bondic.core.registry import lookup, registered
from bondic.core.terms import range_of
from bondic.engines.sums import STANDARD, EngineSums
from bondic.report.page import report_page


@dataclass(frozen=True)
class Answer:
    """A result with all that verification may be given."""

    result: bondic.Result
    problem: Any  # the question that was answered
    log: bondic.Transitions
    policy: Any

    @property
    def proof(self) -> Proof:
        assert self.result.proof is not None
        return self.result.proof

    @property
    def certificate(self) -> Certificate:
        assert self.result.certificate is not None
        return self.result.certificate

    @property
    def rows(self) -> Any:
        return self.problem.select(*self.result.rows)

    def compare(self, checked: Any) -> None:
        """The same interval in the digits that are printed."""
        unit = last_digit(self.result.low, self.result.high)
        assert (checked.low, checked.high) == pytest.approx((self.result.low, self.result.high), abs=unit)
        assert checked.status == self.result.status.name

    def unbelieved(self, *path: Any, value: Any) -> None:
        """Another value at one place is refused, or does not change the answer."""
        try:
            checked = bondic.verify(self.forged(*path, value=value), self.log)
        except VerificationError:
            return
        assert checked.claims == self.result.claims
        assert (checked.low, checked.high) == (self.result.low, self.result.high)

    def claiming(self, low: float | None = None, high: float | None = None) -> Certificate:
        """Another interval, with end points that give it."""
        low, high = self.result.low if low is None else low, self.result.high if high is None else high
        ends = (
            Claim("lower", (Part("value", Enclosure(low), "value"),)),
            Claim("upper", (Part("value", Enclosure(high), "value"),)),
        )
        found = conclude(self.result.value_range, ends, False, "both")
        encoder = Encoder()
        parts = {"claims": Claims(ends), "conclusion": found}
        body = self.certificate.body | {name: encoder.encode(part, name) for name, part in parts.items()}
        return Certificate(body, self.certificate.arrays)

    def forged(self, *path: Any, value: Any) -> Certificate:
        """Another value at one place, with a digest that fits."""
        body = copy.deepcopy(self.certificate.body)
        node = body
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        return Certificate(body, self.certificate.arrays)


class ProofCase:
    """Laws of a proof; a subclass says what is asked."""

    replayed: tuple[str, ...] = ()  # assumptions that a replay shows
    withheld = ""  # why its rows cannot be withheld, in a few words

    @classmethod
    def ask(cls) -> tuple[Any, bondic.Transitions, Any, Any]:
        """Problem, log, policy and method."""
        raise NotImplementedError

    @classmethod
    def make(cls) -> Answer:
        problem, log, policy, method = cls.ask()
        return Answer(bondic.estimate_interval(problem, method=method), problem, log, policy)

    @pytest.fixture(scope="class")
    @classmethod
    def answer(cls) -> Answer:
        return cls.make()

    def test_it_is_plain_data_under_a_name(self, answer):
        kind = registered(type(answer.proof))
        assert kind is not None
        assert kind[0] == "proof"
        assert lookup(*kind) is type(answer.proof)
        encoder = Encoder()
        data = json.loads(json.dumps(encoder.encode(answer.proof, "")))
        again = decode(Proof, data, encoder.arrays, "proof", layout=answer.problem.layout)
        assert same(again, answer.proof)
        assert data == answer.certificate.body["proof"]

    def test_what_it_shows_is_recomputed_from_the_rows(self, answer):
        claims = answer.proof.claims(Question.value(answer.rows), STANDARD)
        assert claims.ends == answer.result.claims
        assert (claims.tests[0] if claims.tests else None) == answer.result.rejection
        found = conclude(range_of(answer.rows.terms), claims.ends, claims.rejected, answer.proof.side)
        assert (found.low, found.high, found.status) == (answer.result.low, answer.result.high, answer.result.status)

    @pytest.mark.parametrize("engine", ["pairs", "reference"])
    def test_every_engine_verifies_it(self, answer, engine):
        """Engines round differently, and each answers with its own interval."""
        checked = bondic.verify(answer.certificate, answer.log, answer.policy, sums=EngineSums.named(engine))
        answer.compare(checked)

    def test_from_result_to_file_and_back(self, answer, tmp_path):
        bondic.save_certificate(answer.certificate, tmp_path / "c")
        loaded = bondic.load_certificate(tmp_path / "c")
        assert loaded.digest == answer.result.hashes["certificate"]
        for policy in (None, answer.policy):
            checked = bondic.verify(loaded, answer.log, policy)
            assert (checked.low, checked.high) == pytest.approx((answer.result.low, answer.result.high), abs=1e-9)
            assert checked.claims == answer.result.claims
            assert checked.guarantee == answer.result.guarantee
            assert ("the policy" in checked.headline) == (policy is None)
            for mine, other in zip(checked.assumptions, answer.result.assumptions, strict=True):
                assert (mine.name, mine.text) == (other.name, other.text)
                planned = mine.name in answer.proof.needs_replay
                assert mine.state == ("stated" if policy is None else "checked") or not planned
                assert mine.state == other.state or planned

    def test_when_a_plan_was_made_is_said_or_replayed(self, answer):
        """Without a replay it is the maker's word; with one it is checked, and the answer is the same."""
        planned, name = answer.proof.has_plan, "when the plan was made"
        believed = bondic.verify(answer.certificate, answer.log, answer.policy, replay=False)
        assert (believed.headline[:1] == (name,)) == planned
        checked = bondic.verify(answer.certificate, answer.log, answer.policy)
        answer.compare(checked)
        assert name not in checked.headline
        assert any("plan made again from the rows before each block" in line for line in checked.checks) == planned
        states = {item.name: item.state for item in checked.assumptions}
        assert all(states[name] == "checked" for name in self.replayed)

    def test_the_page_shows_its_end_points(self, answer):
        page = report_page(answer.result, answer.problem, title="a proof")
        for claim in answer.result.claims:
            assert all(part.name in page for part in claim.parts if part.role != "detail" and part.shown)

    def test_no_claimed_number_is_believed(self, answer):
        """Claims that do not add up to the interval are refused; of others the answer shows nothing."""
        ends = answer.certificate.body["claims"]["ends"]
        assert ends
        for k, end in enumerate(ends):
            for j, part in enumerate(end["parts"]):
                size = {"mid": part["size"]["mid"] * 1.01 + 0.01, "rad": float(j % 2)}
                answer.unbelieved("claims", "ends", k, "parts", j, "size", value=size)
        for name in ("low", "high"):
            moved = answer.certificate.body["conclusion"][name] + 0.01
            with pytest.raises(VerificationError, match="by the end points"):
                bondic.verify(answer.forged("conclusion", name, value=moved), answer.log)

    def test_claims_that_say_more_are_refused(self, answer):
        """An interval that is inside the recomputed one by more than its last printed digit; one that holds it says less."""
        low, high, limits = answer.result.low, answer.result.high, answer.result.value_range
        step = 2 * last_digit(low, high)
        for name, inward, outward in (("low", low + step, limits.low), ("high", high - step, limits.high)):
            with pytest.raises(VerificationError, match=r"when recomputed.*in the certificate"):
                bondic.verify(answer.claiming(**{name: inward}), answer.log)
            assert bondic.verify(answer.claiming(**{name: outward}), answer.log).low == pytest.approx(low, abs=1e-9)

    def test_a_status_that_says_more_is_refused(self, answer):
        limits = answer.result.value_range
        assert answer.result.status is bondic.Status.INTERVAL
        nothing = bondic.verify(answer.claiming(low=limits.low, high=limits.high), answer.log)
        assert nothing.status == "INTERVAL"
        with pytest.raises(VerificationError, match="REJECTED"):
            bondic.verify(answer.claiming(low=limits.high, high=limits.low), answer.log)

    def test_a_smaller_alpha_or_another_side_is_another_claim(self, answer):
        budget = answer.proof.budget
        less = ErrorBudget(1e-4 * budget.alpha, {name: 1e-4 * part for name, part in budget.parts.items()})
        unspent = ErrorBudget(2 * budget.alpha, budget.parts)
        for other in (less, unspent):
            with pytest.raises(VerificationError):
                bondic.verify(answer.certificate.with_proof(replace(answer.proof, budget=other)), answer.log)
        with pytest.raises(VerificationError):
            bondic.verify(answer.forged("proof", "side", value="upper"), answer.log)

    def test_unknown_and_missing_fields_are_refused(self, answer):
        for field in fields(answer.proof):
            body = copy.deepcopy(answer.certificate.body)
            del body["proof"][field.name]
            with pytest.raises(VerificationError, match=rf"proof\.{field.name} is missing"):
                bondic.verify(Certificate(body, answer.certificate.arrays), answer.log)
        with pytest.raises(VerificationError, match=r"proof\.more does not belong here"):
            bondic.verify(answer.forged("proof", "more", value=1), answer.log)
        with pytest.raises(VerificationError, match="there is no proof 'magic'; known are"):
            bondic.verify(answer.forged("proof", "proof", value="magic"), answer.log)

    def test_another_log_or_policy_is_refused(self, answer):
        columns = {name: column for name, column in answer.log.columns().items() if column is not None}
        other = bondic.Transitions(**columns | {"rewards": np.nextafter(columns["rewards"], 0.5)})
        with pytest.raises(VerificationError, match="not the one that was certified"):
            bondic.verify(answer.certificate, other)
        with pytest.raises(VerificationError, match="not the certified policy"):
            bondic.verify(answer.certificate, answer.log, bondic.UniformPolicy(answer.problem.layout.slots))

    def test_rows_can_be_withheld(self, answer, tmp_path):
        if self.withheld:
            with pytest.raises(InvalidInput, match=self.withheld):
                answer.result.without_rows(answer.problem)
            return
        bare = answer.result.without_rows(answer.problem)
        assert not any("answers.next" in name for name in bare.certificate.arrays)
        bondic.save_certificate(bare.certificate, tmp_path / "c")
        loaded = bondic.load_certificate(tmp_path / "c")
        checked = bondic.verify(loaded, answer.log, answer.policy)
        assert (checked.low, checked.high) == pytest.approx((bare.low, bare.high), abs=1e-9)
        with pytest.raises(VerificationError, match="Pass the policy"):
            bondic.verify(loaded, answer.log)
        answer.compare(bondic.verify(loaded, answer.log, answer.policy, replay=True))
