"""Plans made with rows that they must not see: plain verification says that it does not know, a replay refuses them."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

import bondic
import propensity_cases as cases
from bondic.core.balls import Instruments
from bondic.core.certificate import Certificate
from bondic.core.columns import RowRange
from bondic.core.errors import VerificationError
from bondic.core.kernels.leaves import Constant
from bondic.core.sequential.plan import RidgeModel
from bondic.data.stream import ArrayStream
from bondic.engines.sums import STANDARD
from bondic.methods.base import describe
from bondic.rows import inputs
from bondic.rows.prefix import Prefixes
from bondic.search.sequential.history import History
from bondic.tuning.defaults import Advanced, Choices
from bondic_lab.noise.plug_in import PlugIn
from builders import synthetic

UNKNOWN = "when the plan was made"


class Case:
    """An honest answer, and certificates of other proofs for the same question that say that it is theirs."""

    def __init__(self, log, policy, initial, method, name, **statements):
        self.log, self.policy, self.method, self.name = log, policy, method, name
        self.problem = bondic.make_problem(log, policy, initial, accept=None, **statements)
        self.result = bondic.estimate_interval(self.problem, method=method)
        self.rows, self.proof = self.problem.select(*self.result.rows), self.result.proof

    def certificate(self, proof) -> Certificate:
        """With claims, digest and words on the planner that fit."""
        planner = describe(self.name, self.method, self.problem)
        return bondic.Result.of(proof, self.rows, method=self.name, planner=planner).certificate

    def with_blocks(self, change):
        """Every block of the plan changed, as a function of it and of the positions of its rows."""
        log_rows = np.arange(self.rows.rows.start, self.rows.rows.stop)
        blocks = tuple(change(block, part) for block, part in self.proof.plan.pieces(log_rows))
        return replace(self.proof, plan=replace(self.proof.plan, blocks=blocks, rounds=()))

    def refused(self, proof, match):
        """Plain verification cannot see it and says so; a replay refuses it and names the piece."""
        certificate = self.certificate(proof)
        checked = bondic.verify(certificate, self.log, self.policy, replay=False)
        assert checked.headline[0] == UNKNOWN
        assert not any(item.state == "checked" for item in checked.assumptions if item.name == "plan")
        with pytest.raises(VerificationError, match=match):
            bondic.verify(certificate, self.log, self.policy)
        return checked


@pytest.fixture(scope="module")
def ball():
    """States that are numbers, a stated radius: a plan with coordinates."""
    mdp, log, policy, initial = synthetic(600, gamma=0.3)
    method = bondic.Sequential(radius=5.0)
    return Case(log, policy, initial, method, "sequential", gamma=0.3, reward_range=mdp.reward_range)


@pytest.fixture(scope="module")
def coin():
    """One state, rewards 0 or 1 whatever is done, with mean 0.505."""
    rng, n = np.random.default_rng(0), 1500
    rewards = (rng.random(n) < 0.505).astype(np.float64)
    log = bondic.Transitions(np.zeros((n, 1)), rng.integers(0, 2, n), rewards, np.zeros((n, 1)), np.ones(n, bool))
    method = bondic.Sequential(ball=bondic.Ball(Constant(1.0), 2.0))
    start, policy = bondic.InitialStates.exact([[0.0]]), bondic.TablePolicy([[0.5, 0.5]])
    return Case(log, policy, start, method, "sequential", gamma=0.0, reward_range=(0.0, 1.0))


def picked_by_rewards(case):
    """Weights of rows with a reward alone, one sub-block for each row, and nothing learned about q*."""

    def change(block, part):
        rows, found = case.rows.rows.start + np.arange(part.start, part.stop), {}
        for end, own in block.weightings.items():
            place = np.searchsorted(own.starts, rows, side="right") - 1
            wanted = np.where(case.log.rewards[rows] > np.median(case.log.rewards), 1.5, 0.0)
            found[end] = replace(own, starts=rows, directions=own.directions[place] * wanted[:, None])
        return replace(block, weightings=found, rate=1e-9, margin=np.inf)

    return case.with_blocks(change)


# --- five kinds -----------------------------------------------------------------------------------------


def test_weights_picked_by_the_rows_own_rewards(coin):
    """The interval misses the value by far; that is all that a plan can do, and all that verification can say about it."""
    assert 0.505 in coin.result.interval
    checked = coin.refused(picked_by_rewards(coin), r"proof\.plan\.blocks\.0")
    assert checked.low > 0.9


def later_instruments(case):
    """Rates of the vector event that were picked because the interval is shorter with them."""
    return case.with_blocks(lambda block, _: replace(block, rate=3 * block.rate))


def later_models(case):
    """Models that were fitted to the rows they predict."""
    data, seen = case.proof.evidence(case.rows, STANDARD).data, case.proof.plan.visible

    def change(block, part):
        design = np.hstack([np.ones((part.stop - part.start, 1)), data.here[part, :seen]])
        following = np.column_stack([data.outcome[part], data.next.coordinates[part][:, :seen]])
        own = np.linalg.solve(design.T @ design + 0.1 * np.eye(1 + seen), design.T @ following)
        return replace(block, model=RidgeModel(own))

    return case.with_blocks(change)


def later_clips(case):
    """Clips that were picked because the interval is shorter with them."""
    return case.with_blocks(lambda block, _: replace(block, margin=2 * block.margin))


def later_cuts(case):
    """Blocks whose ends were picked because the lower end is higher with them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("bondic.search.sequential.blocks.CUTS", (0.5, 1.0))
        other = bondic.estimate_interval(case.problem, method=case.method)
    assert other.low > case.result.low + 0.05
    return other.proof


@pytest.mark.parametrize(
    ("forge", "piece"),
    [
        (picked_by_rewards, r"blocks\.0\.\w+"),
        (later_instruments, r"blocks\.0\.rate"),
        (later_models, r"blocks\.0\.model\.coefficients"),
        (later_clips, r"blocks\.0\.margin"),
        (later_cuts, "blocks"),
    ],
    ids=["weights", "instruments", "models", "clips", "cuts"],
)
def test_a_plan_made_with_later_rows_is_refused(ball, forge, piece):
    ball.refused(forge(ball), rf"proof\.plan\.{piece} is not what the rows before it give")


def test_one_later_block_is_found(ball):
    """The first blocks are honest: the message names the one that is not."""
    plan, last = ball.proof.plan, ball.proof.plan.blocks[-1]
    changed = replace(plan, blocks=(*plan.blocks[:-1], replace(last, predicted_error=1.01 * last.predicted_error)))
    ball.refused(replace(ball.proof, plan=changed), rf"blocks\.{len(plan.blocks) - 1}\.predicted_error")


def test_w_of_the_dual_bound_is_replayed():
    """W that was tuned on the certified rows, with words that say otherwise."""
    mdp, log, policy, initial = synthetic(400, gamma=0.3)
    method = bondic.Dual(radius="paper", gauge=PlugIn(0.02), advanced=Advanced(pairs=8))
    case = Case(log, policy, initial, method, "dual", gamma=0.3, reward_range=mdp.reward_range)
    tuned = bondic.estimate_interval(case.problem.select(200), method=method).proof.instruments
    own = replace(method, instruments=Instruments(tuned.kernel))
    forged = bondic.estimate_interval(case.rows, method=own).proof
    said = replace(forged.instruments, provenance=case.proof.instruments.provenance)
    forged = replace(forged, budget=case.proof.budget, instruments=said)
    case.refused(forged, r"proof\.(ball|instruments|tests)")


@pytest.mark.parametrize("population", [None, "iid"])
def test_propensities_are_replayed(population):
    log = cases.decisions(800)
    method = bondic.Propensities(max_ratio=cases.LARGEST)
    start = bondic.InitialStates.from_log(log, population=population)
    case = Case(log, cases.ThreeStates(), start, method, "propensities", gamma=0.0, reward_range=(0.0, 1.0))
    if population is None:
        rates = {end: tuple(1.5 * rate for rate in own) for end, own in case.proof.rates.items()}
        case.refused(replace(case.proof, rates=rates), r"proof\.rates\.lower")
        return
    other = bondic.estimate_interval(case.problem, method=replace(method, pilot=90)).proof
    assert other.control.borders != case.proof.control.borders
    case.refused(other, r"proof\.control\.borders")
    case.refused(replace(case.proof, planned=3 * case.proof.planned), r"proof\.planned")


# --- what the planner is given --------------------------------------------------------------------------


def test_a_prefix_holds_no_later_row(ball):
    """Rows, policy answers and the log's own starts end where it does: nothing can be read beyond."""
    log, policy = ball.log, ball.policy
    whole = bondic.make_problem(log, policy, bondic.InitialStates.from_log(log), gamma=0.3, reward_range=(-2.0, 2.0))
    cut = 250
    known = Prefixes(whole).before(cut)
    assert len(known) == len(known.log) == known.rows.stop == cut
    assert max(batch.rows.stop for batch in known.kept) == cut
    assert known.log.content_hash == log.content_hash  # a plan names the log that it is for
    own = bondic.InitialStates.from_log(bondic.Transitions(**_columns(log, cut)))
    np.testing.assert_array_equal(known.initial_states.observations, own.observations)
    assert len(known.initial.points) == len(known.answers.initial) == len(own)
    announced = Prefixes(whole).announced(cut)
    assert len(announced.rows) == len(log)
    assert announced.load(0, len(log)).whole().rewards.size == cut
    blind = Prefixes(whole).with_unseen_starts(known, 3)
    assert (blind.initial_states.observations[3:] == own.observations[0]).all()


def _columns(log, count):
    return {name: column[:count] for name, column in log.columns().items() if column is not None}


def test_a_planner_that_looks_ahead_is_found_out(ball, monkeypatch):
    """A fault of the library's own planner, which is there when it is replayed, too: the rows are not."""
    honest = History.before
    monkeypatch.setattr(History, "before", lambda self, row: replace(honest(self, row + 30), row=row))
    result = bondic.estimate_interval(ball.problem, method=ball.method)
    with pytest.raises(VerificationError, match=r"proof\.plan\.blocks\.0\.model"):
        bondic.verify(result.certificate, ball.log, ball.policy, replay=True)


# --- what cannot be replayed, and what stays believed ---------------------------------------------------


def test_options_that_are_not_the_defaults_are_named(ball):
    """A replay shows that the plan is the one of these options; when they were chosen, nobody knows."""
    method = replace(ball.method, choices=Choices(value_bandwidth=2.0), pilot=100)
    result = bondic.estimate_interval(ball.problem, method=method)
    checked = bondic.verify(result.certificate, ball.log, ball.policy, replay=True)
    (head,) = checked.headline
    assert "options" in head
    assert "choices" in head
    assert "pilot=100" in head
    assert bondic.verify(ball.result.certificate, ball.log, ball.policy, replay=True).headline == ()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("planner",), None, "does not say how"),
        (("planner", "method"), "magic", "damaged"),
        (("planner", "first"), 10**6, "begun at row"),
        (("planner", "first"), 1, r"proof\."),
        (("planner", "options", "advanced", "rank"), 10**9, "landmarks"),
        (("planner", "options", "advanced", "rank"), "many", "whole number"),
        (("planner", "options", "side"), "upper", "side"),
        (("planner", "options", "pilot"), 0.5, "pilot"),
        (("planner", "options", "radius"), 4.0, r"proof\.ball\.radius"),
    ],
)
def test_other_words_on_the_planner_are_refused(ball, path, value, words):
    body = copy.deepcopy(ball.result.certificate.body)
    node = body
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    forged = Certificate(body, ball.result.certificate.arrays)
    assert bondic.verify(forged, ball.log, ball.policy, replay=False).low == pytest.approx(ball.result.low)
    with pytest.raises(VerificationError, match=words):
        bondic.verify(forged, ball.log, ball.policy, replay=True)


@pytest.mark.parametrize("which", [slice(None, None, -1), slice(7)], ids=["reversed", "the first seven"])
def test_starts_that_are_not_the_logs_own_are_refused(which, monkeypatch):
    monkeypatch.setattr(inputs, "_refuse_other_log", lambda *_: None)
    mdp, log, policy, _ = synthetic(600, gamma=0.3)
    chosen = bondic.InitialStates.from_log(log).observations[which]
    claimed = bondic.InitialStates(chosen, np.full(len(chosen), 1 / len(chosen)), "log", from_rows=True)
    case = Case(
        log, policy, claimed, bondic.Sequential(radius=5.0), "sequential", gamma=0.3, reward_range=mdp.reward_range
    )
    with pytest.raises(VerificationError, match="calls its initial states those of the log"):
        bondic.verify(case.result.certificate, log, policy, replay=True)


def test_streams_and_monitors_say_that_they_cannot(ball):
    columns = _columns(ball.log, len(ball.log))
    stream = ArrayStream(columns, batch_rows=100)
    assert UNKNOWN in bondic.verify(ball.result.certificate, stream, ball.policy).headline
    with pytest.raises(VerificationError, match="cannot be cut"):
        bondic.verify(ball.result.certificate, stream, ball.policy, replay=True)
    start = bondic.InitialStates.exact(ball.problem.initial_states.observations, ball.problem.initial_states.weights)
    terms = {"gamma": 0.3, "reward_range": ball.problem.terms.reward_range, "planned_rows": 600}
    monitor = bondic.SequentialMonitor(ball.policy, start, method=ball.method, **terms)
    result = monitor.update(ball.log.cut(RowRange(0, 400)))
    with pytest.raises(VerificationError, match="monitor"):
        bondic.verify(result.certificate, monitor.log, ball.policy, replay=True)


# --- what a review of the merged change found ------------------------------------------------------------------------------


def stamped_log(rows=900):
    """Column 0 is a time stamp, column 1 is what matters: units that are worlds apart."""
    rng = np.random.default_rng(0)
    states, after = (np.column_stack([1.7e9 + 1e7 * rng.random(rows), rng.random(rows)]) for _ in range(2))
    rewards = (rng.random(rows) < 0.75).astype(float)
    return bondic.Transitions(states, rng.integers(0, 2, rows), rewards, after, np.ones(rows, bool))


def with_bandwidth(kernel, bandwidth):
    if hasattr(kernel, "bandwidth"):
        return replace(kernel, bandwidth=bandwidth)
    if hasattr(kernel, "parts"):
        return replace(kernel, parts=tuple(with_bandwidth(part, bandwidth) for part in kernel.parts))
    return kernel


def test_a_class_of_the_dual_method_is_compared_number_by_number():
    """Beside a column of time stamps any bandwidth of another column is small."""
    log = stamped_log()
    policy = bondic.CallablePolicy(lambda o: np.full((len(o), 2), 0.5))
    starts = bondic.InitialStates.exact([[1.705e9, 2.9]])
    problem = bondic.make_problem(log, policy, starts, gamma=0.0, reward_range=(0, 1))
    honest = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper"))
    assert bondic.verify(honest.certificate, log, policy, replay=True).headline == (
        "when the options of the plan were chosen: method=dual",
    )
    ball = replace(honest.proof.ball, kernel=with_bandwidth(honest.proof.ball.kernel, np.array([4.8e6, 100.0])))
    other = bondic.estimate_interval(problem, method=bondic.Dual(ball=ball)).certificate
    forged = Certificate(other.body | {"planner": honest.certificate.body["planner"]}, other.arrays)
    with pytest.raises(VerificationError, match="bandwidth"):
        bondic.verify(forged, log, policy, replay=True)
