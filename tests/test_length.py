"""The length of the log is an assumption wherever it decides about pilot, cuts, rates or the noise: it is listed and verified."""

from dataclasses import replace

import pytest

import bondic
from bondic.core.certificate import certify
from bondic.core.errors import VerificationError
from bondic.engines.sums import STANDARD
from bondic.rows.estimand import rebuild
from bondic.tuning.defaults import Advanced
from builders import synthetic, tabular

FEW = Advanced(pairs=24)


def ask(kind, method, **options):
    mdp, log, policy, initial = (synthetic if kind == "numbers" else tabular)(600, gamma=0.2)
    asked = {"gamma": 0.2, "reward_range": mdp.reward_range, "initial": initial}
    return log, bondic.evaluate_policy(log, policy, method=method(**options), **asked)


def length_of(items):
    found = [item for item in items if item.name == "length"]
    assert [item.state for item in found] in ([], ["stated"])
    return found[0].text if found else ""


@pytest.mark.parametrize(
    ("kind", "method", "options"), [("numbers", bondic.Sequential, {"radius": "paper"}), ("names", bondic.Table, {})]
)
def test_plans_state_their_length_and_certificates_keep_it(kind, method, options):
    texts = []
    for planned in (None, 600, 1000):
        log, result = ask(kind, method, planned_rows=planned, **options)
        assert result.proof.planned == planned
        checked = bondic.verify(result.certificate, log)
        texts.append(length_of(checked.assumptions))
        assert texts[-1] == length_of(result.assumptions)
    assert "600, was fixed beforehand" in texts[0]
    assert "planned_rows" in texts[0]
    for planned, text in zip((600, 1000), texts[1:], strict=True):
        assert f"{planned} rows were planned" in text
        assert "stopped at any time" in text


def test_what_was_planned_cannot_be_changed_beside_the_assumption():
    log, result = ask("numbers", bondic.Sequential, radius=5.0)
    rows = rebuild(result.proof.estimand, log, None, None)
    proof = replace(result.proof, planned=600)
    shown = proof.claims(rows, STANDARD)
    forged = certify(proof, shown, result.certificate.conclusion, result.certificate.assumptions)
    with pytest.raises(VerificationError, match="assumptions in the certificate"):
        bondic.verify(forged, log)
    with pytest.raises(VerificationError, match="No rows were planned"):
        replace(result.proof, planned=0)


def test_the_dual_bound_states_it_where_its_noise_bound_needs_it():
    """Fixed lambda and the self-normalized bound hold at stopping times, and say so themselves."""
    _, half = ask("numbers", bondic.Dual, radius="paper", advanced=FEW)
    assert "600, was fixed beforehand" in length_of(half.assumptions)
    for options in ({"planned_rows": 600}, {"planned_rows": 600, "gauge": "self-normalized"}):
        _, other = ask("numbers", bondic.Dual, radius="paper", advanced=FEW, **options)
        assert length_of(other.assumptions) == ""
        assert "stopping time" in next(item.text for item in other.assumptions if item.name == "noise")
