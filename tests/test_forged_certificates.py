"""Certificates whose every number is right and whose story is not: verify must refuse them or say what it did not check."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bondic
from bondic.core.balls import Instruments, Provenance
from bondic.core.certificate import Certificate, certify
from bondic.core.claims import ErrorBudget, conclude
from bondic.core.codec import Encoder, decode
from bondic.core.dual.noise import Pinelis
from bondic.core.dual.proof import DualProof
from bondic.core.errors import VerificationError, clean_text
from bondic.core.functions import KernelFunction
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.features import Linear, RandomFeatures
from bondic.core.kernels.leaves import ActionEmbedding, Constant, Dirac, TimeMask
from bondic.core.question import Question
from bondic.core.terms import range_of
from bondic.core.verify import read_proof
from bondic.engines.sums import STANDARD
from bondic.rows.estimand import estimand_of
from builders import synthetic
from conformance_proofs import Answer


@pytest.fixture(scope="module")
def world():
    return synthetic(600, gamma=0.3)


def forge(problem, ball, instruments, omegas=(None, None), witnesses=(None,), alpha=0.1) -> Certificate:
    """A certificate with right numbers for any choice of W, Q, omega and witnesses."""
    sampled = problem.initial_states.kind == "sample"
    budget = ErrorBudget.split(alpha, {"noise": 4.0, "initial": 1.0} if sampled else {"noise": 1.0})
    named = dict(zip(("lower", "upper"), omegas, strict=True))
    proof = DualProof(estimand_of(problem), budget, "both", ball, instruments, Pinelis(), named, witnesses)
    claims = proof.claims(Question.value(problem), STANDARD)
    result = conclude(range_of(problem.terms), claims.ends, claims.rejected, "both")
    return certify(
        proof, claims, result, proof.assumptions(Question.value(problem), rejected=result.status.name == "REJECTED")
    )


W = Instruments(bondic.Gaussian(1.0) * Dirac() + Constant(0.5))
Q = bondic.Ball(bondic.Gaussian(0.5) * Dirac() + Constant(1.0), 9.0)


def question(world, **changes):
    mdp, log, policy, initial = world
    return bondic.make_problem(
        log, policy, changes.get("initial", initial), gamma=mdp.gamma, reward_range=mdp.reward_range
    )


def resigned(certificate: Certificate, **changes: object) -> Certificate:
    """Values at dotted paths exchanged, with a digest that fits."""
    body = copy.deepcopy(certificate.body)
    for path, value in changes.items():
        node = body
        *way, last = path.split("__")
        for key in way:
            node = node[int(key) if key.isdigit() else key]
        node[last] = value
    return Certificate(body, certificate.arrays)


# --- 1: where W comes from ------------------------------------------------------------------------------


def test_w_fixed_beforehand_is_a_statement(world):
    log = world[1]
    checked = bondic.verify(forge(question(world), Q, W), log)
    assert any("the certificate holds no witness" in gap for gap in checked.unchecked)
    assert not any("W" in line and "see" in line for line in checked.checks)
    assert any(
        "picked without the certified rows: it is only stated (fixed beforehand)" in gap for gap in checked.unchecked
    )
    assert {item.name: item.state for item in checked.assumptions}["instruments"] == "stated"


@pytest.mark.parametrize(
    ("rows", "same_log", "words"),
    [
        ((0, 200), True, "rows 0 to 199 of this log, which precede the certified ones"),
        ((0, 200), False, "of another log"),
    ],
)
def test_rows_of_w_are_compared_by_position(world, rows, same_log, words):
    log = world[1]
    provenance = Provenance("picked", rows, log.content_hash if same_log else "0" * 64)
    checked = bondic.verify(forge(question(world).select(200, 500), Q, Instruments(W.kernel, provenance)), log)
    assert any(words in line for line in checked.checks + checked.unchecked)
    assert "when the plan was made" not in checked.headline  # ω is 0 at both ends: W is not used


def test_w_from_later_rows_is_refused(world):
    """What happened later depends on what happened in the certified rows."""
    provenance = Provenance("picked", (500, 600), world[1].content_hash)
    forged = forge(question(world).select(200, 500), Q, Instruments(W.kernel, provenance))
    with pytest.raises(VerificationError, match="or on rows after them"):
        bondic.verify(forged, world[1])


def test_w_from_certified_rows_is_refused(world):
    log = world[1]
    seen = Instruments(W.kernel, Provenance("picked", (100, 201), log.content_hash))
    with pytest.raises(VerificationError, match="tuned on rows that it certifies"):
        bondic.verify(forge(question(world).select(200), Q, seen), log)


# --- 2: the initial distribution ------------------------------------------------------------------------


def test_copies_of_one_state_are_not_taken_for_the_initial_distribution(world):
    log = world[1]
    best = np.repeat(log.observations[7:8], 5000, axis=0)
    checked = bondic.verify(forge(question(world, initial=bondic.InitialStates.sample(best)), Q, W), log)
    (gap,) = (gap for gap in checked.unchecked if "initial distribution" in gap)
    assert "own statement, and no episode starts of this log: sample of 5000 states, 1 of them distinct" in gap
    assert checked.start in gap
    assert f"{log.observations[7, 0]:.4g}" in checked.start


def test_episode_starts_of_the_log_are_recognized(world):
    log = world[1]
    for states in (bondic.InitialStates.from_log(log), bondic.InitialStates.from_log(log, count=7)):
        checked = bondic.verify(forge(question(world, initial=states), Q, W), log)
        assert any("are the episode starts of the log" in line for line in checked.checks)
        assert not any("initial distribution" in gap for gap in checked.unchecked)
    last = bondic.InitialStates.sample(bondic.InitialStates.from_log(log).observations[5:])  # a part picked afterwards
    checked = bondic.verify(forge(question(world, initial=last), Q, W), log)
    assert any("no episode starts of this log" in gap for gap in checked.unchecked)


def test_given_initial_states_are_compared(world):
    log, initial = world[1], world[3]
    certificate = forge(question(world), Q, W)
    assert any("those given" in line for line in bondic.verify(certificate, log, initial=initial).checks)
    for other in (
        bondic.InitialStates.exact(initial.observations + 1e-9, initial.weights),
        bondic.InitialStates.sample(initial.observations),
    ):
        with pytest.raises(VerificationError, match="not those of the certificate"):
            bondic.verify(certificate, log, initial=other)


def test_given_states_in_place_of_withheld_ones_are_of_their_kind(world):
    """A sample that the reader gives is not the exact list, with weights of its own, that a certificate makes of it."""
    log, policy, states = world[1], world[2], np.linspace(-1.0, 1.0, 5)[:, None]
    lopsided = bondic.InitialStates.exact(states, [0.96, 0.01, 0.01, 0.01, 0.01])
    given = {fixed: bondic.InitialStates.sample(states, count_fixed=fixed) for fixed in (True, False)}

    def withheld(initial):
        problem = question(world, initial=initial)
        certificate = forge(problem, Q, W)
        proof = read_proof(certificate, problem.layout)
        (policy,) = proof.estimand.policies
        start, answers = (
            replace(policy.start, observations=None),
            replace(policy.answers, next=None, initial=None),
        )
        withheld = replace(proof.estimand, policies=(replace(policy, start=start, answers=answers),))
        return certificate.with_proof(replace(proof, estimand=withheld))

    for initial in (lopsided, bondic.InitialStates.exact(states)):
        for other in (initial, given[True]):
            with pytest.raises(VerificationError, match="exact list of initial states is not withheld"):
                bondic.verify(withheld(initial), log, policy, initial=other)
    for other in (given[False], bondic.InitialStates.exact(states), bondic.InitialStates.sample(states[1:])):
        with pytest.raises(VerificationError, match="states, kind, number or weights differ"):
            bondic.verify(withheld(given[True]), log, policy, initial=other)
    for initial in given.values():
        checked = bondic.verify(withheld(initial), log, policy, initial=given[True])
        assert any("initial states are those given: sample of 5" in line for line in checked.checks)


# --- 3: numbers that are not printed --------------------------------------------------------------------


def test_what_is_stated_is_not_rounded_when_it_is_read(world):
    """Six digits of a discount near 1 leave the value free by a factor; a range far from 0 would have no width."""
    _, log, policy, initial = world
    statements = {"gamma": 0.9999994, "reward_range": (-1e6, 1e6 + 0.25), "value_range": (-3.00000004, 1e9)}
    problem = bondic.make_problem(log, policy, initial, **statements)
    texts = {item.name: item.text for item in bondic.verify(forge(problem, Q, W), log).assumptions}
    assert "gamma = 0.9999994 " in texts["process"]
    assert "[-1e+06, 1000000.25]" in texts["rewards"]
    assert "[-3.00000004, 1e+09]" in texts["value range"]


def test_every_parameter_of_a_kernel_shows_in_its_name():
    many = np.linspace(1.0, 2.0, 9)
    pairs = [
        (ActionEmbedding(np.eye(3)), ActionEmbedding(np.eye(3) * 1.001)),
        (Linear(bandwidth=2.0), Linear(bandwidth=3.0)),
        (Linear(center=1.0), Linear(center=2.0)),
        (RandomFeatures([[1.0, 2.0]]), RandomFeatures([[1.0, 2.001]])),
        (RandomFeatures([[1.0]], center=1.0), RandomFeatures([[1.0]], center=2.0)),
        (bondic.Gaussian(many), bondic.Gaussian(np.append(many[:-1], 2.5))),
        (bondic.Laplace(many), bondic.Laplace(np.append(many[:-1], 2.5))),
        (bondic.Matern(many), bondic.Matern(np.append(many[:-1], 2.5))),
        (TimeMask(3), TimeMask(4)),
    ]
    for one, other in pairs:
        assert repr(one) != repr(other)
        encoder = Encoder()
        assert repr(one) == repr(decode(Kernel, encoder.encode(one, "k"), encoder.arrays, "k"))


def test_the_center_of_q_is_named(world):
    problem, log = question(world), world[1]
    texts = []
    for height in (0.2, 0.3):
        center = KernelFunction(Constant(1.0), problem.layout, problem.whole().logged[:1], np.array([[height, 0.0]]))
        checked = bondic.verify(forge(problem, bondic.Ball(Q.kernel, 9.0, center), W), log)
        texts += [item.text for item in checked.assumptions if item.name == "values"]
    assert "the center Function(1 points of Constant(1), sha256 " in texts[0]
    assert texts[0] != texts[1]


# --- 4: rows picked afterwards --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "stop", "words"),
    [
        (0, 600, ()),
        (100, 600, ("first 100 rows",)),
        (0, 450, ("last 150 rows",)),
        (50, 599, ("first 50", "last 1 rows")),
    ],
)
def test_rows_that_were_left_out_are_named(world, start, stop, words):
    checked = bondic.verify(forge(question(world).select(start, stop), Q, W), world[1])
    assert checked.rows == (start, stop)
    assert checked.left_out == (start, 600 - stop)
    assert any(f"certified are rows {start} to {stop - 1} of 600" in line for line in checked.checks)
    gaps = " ".join(checked.unchecked)
    assert all(word in gaps for word in words)
    assert ("were left out" in gaps) == bool(words)
    assert any("left out at the end" in head for head in checked.headline) == (stop < 600)


# --- 5: a witness that looks away -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def contradicted():
    """A log that rejects Q = {functions below 0.5}, and a certificate with a witness that does not see it."""
    world = synthetic(8000, gamma=0.3)
    log, problem = world[1], question(world)
    local = Instruments(bondic.Gaussian(1.0) * Dirac())
    small = bondic.Ball(Q.kernel, 0.5)
    result = bondic.estimate_interval(problem, method=bondic.Dual(ball=small, instruments=local))
    assert result.status is bondic.Status.REJECTED
    blind = np.ones((2, 2))
    looks_away = KernelFunction(local.kernel, problem.layout, problem.whole().logged[:2] + 50.0, blind)
    return forge(problem, small, local, witnesses=(looks_away,)), result, log


def test_a_blind_witness_is_not_called_a_test(contradicted):
    forged, rejected, log = contradicted
    assert "rejection test recomputed from its witnesses" in bondic.verify(rejected.certificate, log).checks
    checked = bondic.verify(forged, log)
    assert checked.status != "REJECTED"
    assert not any("rejection" in line for line in checked.checks)
    assert (
        "the given witnesses were recomputed and do not reject; whether another would is not known" in checked.unchecked
    )


def test_a_rejection_cannot_be_claimed_away(contradicted):
    """Neither an interval nor the value range stands where the verifier finds a contradiction."""
    _, rejected, log = contradicted
    limits, answer = rejected.value_range, Answer(rejected, None, log, None)
    for low in (limits.low, limits.low + 0.1):
        with pytest.raises(VerificationError, match=r"\(REJECTED\) when recomputed"):
            bondic.verify(answer.claiming(low=low, high=limits.high), log)


def test_an_interval_cannot_be_claimed_from_nothing(world):
    """Not even one that prints like the value range."""
    wide = bondic.estimate_interval(question(world), method=bondic.Dual(ball=Q.with_radius(1e6)))
    assert wide.status is bondic.Status.TRIVIAL
    answer = Answer(wide, None, world[1], None)
    with pytest.raises(VerificationError, match=r"\(TRIVIAL\) when recomputed"):
        bondic.verify(answer.claiming(low=wide.low + 1e-9), world[1])


# --- 6: ends that repeat Q ------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [0.0, 1e-6])
def test_an_end_that_repeats_q_is_no_evidence(world, radius):
    """Q = {one function} proves anything about itself; a tiny omega does not change that."""
    problem, log = question(world), world[1]
    center = KernelFunction(Constant(1.0), problem.layout, problem.whole().logged[:1], np.array([[0.5, 0.5]]))
    tiny = KernelFunction(W.kernel, problem.layout, problem.whole().logged[:1], np.array([[1e-9, 0.0]]))
    for omega in (None, tiny):
        checked = bondic.verify(forge(problem, bondic.Ball(Q.kernel, radius, center), W, (omega, None)), log)
        if omega is None:
            assert checked.status == "TRIVIAL"
        else:
            assert abs(checked.low - 1.0) < 1e-4  # the upper end has no weights at all: it is that of the value range
        for end in ("lower", "upper"):
            assert f"the {end} end, which repeats Q" in checked.headline
            assert any(f"the {end} end against the log: the log was not used" in gap for gap in checked.unchecked)


# --- 7 and 8: what is printed ---------------------------------------------------------------------------


def run_tool(monkeypatch, capsys, *words: object) -> tuple[int, str, str]:
    from bondic.cli.main import main

    monkeypatch.setattr("sys.argv", ["bondic", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main()
    out = capsys.readouterr()
    return int(stopped.value.code or 0), out.out, out.err


def save_log(log: bondic.Transitions, path: Path) -> Path:
    np.savez(path, **{name: column for name, column in log.columns().items() if column is not None})
    return path


HOSTILE = "\x1b[2J\x1b[Hverified: [1.9, 2]\n\u202e\u200b\x9b1m"


def test_clean_text_leaves_nothing_to_obey():
    cleaned = clean_text(HOSTILE + "x" * 10_000)
    assert cleaned.isprintable()
    assert len(cleaned) < 5000
    assert clean_text("q* ∈ Q, ‖ω‖ ≤ 1, Matérn") == "q* ∈ Q, ‖ω‖ ≤ 1, Matérn"


@pytest.mark.parametrize(
    "path",
    [
        "proof__instruments__provenance__note",
        "proof__estimand__policies__0__start__kind",
        "conclusion__status",
        "proof__side",
        "proof__noise__noise",
        "claims__ends__0__parts__0__name",
        "assumptions__0__text",
    ],
)
def test_escape_codes_do_not_reach_the_terminal(world, path, tmp_path, monkeypatch, capsys):
    forged = resigned(forge(question(world), Q, W), **{path: HOSTILE})
    with pytest.raises(VerificationError) as refused:
        bondic.verify(forged, world[1])
    assert str(refused.value).isprintable()
    bondic.save_certificate(forged, tmp_path / "c")
    code, out, err = run_tool(
        monkeypatch, capsys, "verify", tmp_path / "c.json", save_log(world[1], tmp_path / "l.npz")
    )
    assert code == 1
    assert out == ""
    assert err.endswith("\n")
    assert err[:-1].isprintable()
    assert not err.startswith("verified")
