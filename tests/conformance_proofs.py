"""What every proof must do: a new kind inherits these tests and says how one of its results is made.

class TestMine(ProofCase):
    def make(self): return Answer(result, problem, log, policy)
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest

import bondic
from bondic.claims import ErrorBudget, conclude
from bondic.codec import Encoder, decode, same
from bondic.errors import VerificationError
from bondic.proofs.certificate import Certificate
from bondic.proofs.proof import Proof
from bondic.registry import lookup, registered
from bondic.rounding import Enclosure
from bondic.sums.forms import Sums
from bondic.terms import range_of


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

    def forged(self, *path: Any, value: Any) -> Certificate:
        """Another value at one place, with a digest that fits."""
        body = copy.deepcopy(self.certificate.body)
        node = body
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        return Certificate(body, self.certificate.arrays)


class ProofCase:
    """Laws of a proof; a subclass says how a result is made."""

    @classmethod
    def make(cls) -> Answer:
        raise NotImplementedError

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
        claims = answer.proof.claims(answer.rows)
        assert claims.ends == answer.result.claims
        assert (claims.tests[0] if claims.tests else None) == answer.result.rejection
        found = conclude(range_of(answer.rows.terms), claims.ends, claims.rejected, answer.proof.side)
        assert (found.low, found.high, found.status) == (answer.result.low, answer.result.high, answer.result.status)

    def test_the_reference_sums_show_the_same(self, answer):
        slow = answer.proof.claims(answer.rows, Sums.reference())
        for claim, other in zip(slow.ends, answer.result.claims, strict=True):
            assert abs(claim.bound - other.bound) <= 2 * (claim.rounding + other.rounding) + 1e-12

    def test_from_result_to_file_and_back(self, answer, tmp_path):
        bondic.save_certificate(answer.certificate, tmp_path / "c")
        loaded = bondic.load_certificate(tmp_path / "c")
        assert loaded.digest == answer.result.hashes["certificate"]
        for policy in (None, answer.policy):
            checked = bondic.verify(loaded, answer.log, policy)
            assert (checked.low, checked.high) == pytest.approx((answer.result.low, answer.result.high), abs=1e-9)
            assert checked.assumptions == answer.result.assumptions
            assert checked.guarantee == answer.result.guarantee
            assert ("the policy" in checked.headline) == (policy is None)

    def test_the_page_shows_its_end_points(self, answer):
        page = bondic.report_page(answer.result, answer.problem, title="a proof")
        assert answer.result.hashes["certificate"] in page
        for claim in answer.result.claims:
            assert all(part.name in page for part in claim.parts if part.role != "detail" and part.shown)

    def test_every_claimed_number_is_compared(self, answer):
        ends = answer.certificate.body["claims"]["ends"]
        assert ends
        for k, end in enumerate(ends):
            for j, part in enumerate(end["parts"]):
                moved = part["size"]["mid"] * 1.01 + 0.01
                forged = answer.forged("claims", "ends", k, "parts", j, "size", "mid", value=moved)
                with pytest.raises(VerificationError, match=r"when recomputed|negative"):
                    bondic.verify(forged, answer.log)
        for name in ("low", "high"):
            moved = answer.certificate.body["conclusion"][name] + 0.01
            with pytest.raises(VerificationError, match="by the end points"):
                bondic.verify(answer.forged("conclusion", name, value=moved), answer.log)

    def test_claims_of_a_wider_error_are_not_believed(self, answer):
        """A claim cannot be made true by calling its error large."""
        part = answer.result.claims[0].parts[0]
        for size in (Enclosure(part.size.mid + 0.01, 1.0), Enclosure(part.size.mid - 0.01, 1.0)):
            place = ("claims", "ends", 0, "parts", 0, "size")
            with pytest.raises(VerificationError, match="when recomputed"):
                bondic.verify(answer.forged(*place, value={"mid": size.mid, "rad": size.rad}), answer.log)

    def test_another_alpha_or_side_is_another_claim(self, answer):
        budget = answer.proof.budget
        more = ErrorBudget(2 * budget.alpha, {name: 2 * part for name, part in budget.parts.items()})
        unspent = ErrorBudget(2 * budget.alpha, budget.parts)
        for other in (more, unspent):
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
        bare = answer.result.without_rows(answer.problem)
        assert not any("answers.next" in name for name in bare.certificate.arrays)
        bondic.save_certificate(bare.certificate, tmp_path / "c")
        loaded = bondic.load_certificate(tmp_path / "c")
        checked = bondic.verify(loaded, answer.log, answer.policy)
        assert (checked.low, checked.high) == pytest.approx((bare.low, bare.high), abs=1e-9)
        with pytest.raises(VerificationError, match="Pass the policy"):
            bondic.verify(loaded, answer.log)
