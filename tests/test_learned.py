"""Policies learned on the log: what a learner is handed, what is certified, mixtures, and what a policy says that it has seen."""

import copy
import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import bondic
from bondic.core.certificate import Certificate
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.propensities.betting import MeansProcess, running_means
from bondic.core.propensities.contrast import Contrast
from bondic.core.propensities.decisions import SingleDecisions
from bondic.core.propensities.ratios import Ratios
from bondic.core.question import Question
from bondic.core.sums.reference import REFERENCE
from bondic.core.terms import make_terms
from bondic.decisions.choose import choose_policy
from bondic.decisions.difference import difference_interval
from bondic.decisions.gate import gate
from bondic.decisions.learned import mixture_of
from bondic.decisions.ranking import rank_policies
from bondic.errors import PolicyError
from bondic.methods.propensities import Propensities
from bondic.policies.learned import LearnedPolicy
from bondic.result import Result
from builders import part
from propensity_cases import REWARD, STATES, ThreeStates, decisions, drawn_walks, one_step, question
from test_tool import run


def best_actions(rows):
    """The action that paid more on these rows, in each situation."""
    situation, paid = np.searchsorted(STATES[:, 0], rows.observations[:, 0]), np.full((3, 2), 0.5)
    taken = np.ones((3, 2))
    np.add.at(paid, (situation, rows.actions), rows.rewards)
    np.add.at(taken, (situation, rows.actions), 1.0)
    table = np.eye(2)[(paid / taken).argmax(axis=1)]
    return lambda observations: table[np.searchsorted(STATES[:, 0], observations[:, 0])]


def values(policy):
    """m(s) of a policy in each situation."""
    return (policy(STATES) * REWARD).sum(axis=1)


def handed(learner=best_actions):
    """A learner, and how many rows it was handed each time."""
    seen = []

    def fit(rows):
        seen.append(len(rows))
        return learner(rows)

    return fit, seen


# --- learned on the first rows --------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "border"), [(0.4, 400), (250, 250)])
def test_a_learner_is_handed_the_first_rows_and_is_certified_on_the_others(rows, border):
    log, (fit, seen) = decisions(1000), handed()
    problem = bondic.make_problem(log, LearnedPolicy(fit, rows), gamma=0.0, reward_range=(0, 1))
    assert seen == [border]
    assert (problem.rows.start, problem.rows.stop) == (border, 1000)
    found = bondic.estimate_interval(problem)
    assert found.rows == (border + (1000 - border) // 5, 1000)  # after a pilot for the rates
    first = log.read(bondic.core.columns.RowRange(0, border))
    own = question(log, best_actions(first)).select(border)
    assert bondic.estimate_interval(own).interval == found.interval
    assert any(item.name == "learning" and f"rows 0 to {border - 1}" in item.text for item in found.assumptions)
    assert f"rows from {border} on" in found.notes[-1]


def test_a_certificate_says_what_taught_the_policy_and_a_learner_is_learned_again():
    log, learner = decisions(1200), LearnedPolicy(best_actions, 0.5)
    found = bondic.evaluate_policy(log, learner, gamma=0.0, reward_range=(0, 1), against="today")
    assert found.proof.estimand.policies[0].learned[0][1].rows == (0, 600)
    checked = bondic.verify(found, log, learner, replay=True)
    assert checked.low == pytest.approx(found.low, abs=1e-12)
    assert "policy gives the stored answers" in checked.checks
    assert not any("were left out" in text for text in checked.unchecked)
    with pytest.raises(VerificationError, match="learned on other rows"):
        bondic.verify(found, log, LearnedPolicy(best_actions, 0.4))
    with pytest.raises(VerificationError, match="not the certified policy"):
        bondic.verify(found, log, LearnedPolicy(lambda _: ThreeStates(), 0.5))


def test_learners_that_fail_say_where():
    log = decisions(300)
    stated = {"gamma": 0.0, "reward_range": (0, 1)}
    with pytest.raises(PolicyError, match=r"raised ZeroDivisionError on rows 0 to 149"):
        bondic.make_problem(log, LearnedPolicy(lambda _: 1 / 0), **stated)
    with pytest.raises(PolicyError, match="returned nothing for rows 0 to 149"):
        bondic.make_problem(log, LearnedPolicy(lambda _: None), **stated)
    with pytest.raises(InvalidInput, match="No row is left"):
        bondic.make_problem(log, LearnedPolicy(best_actions, 300), **stated)
    with pytest.raises(InvalidInput, match="which is no policy"):
        bondic.make_problem(log, LearnedPolicy(lambda _: bondic.LoggedTarget()), **stated)
    for wrong in ({"rows": 0.0}, {"rows": 2.5}, {"rows": -1}, {"blocks": 0}, {"blocks": 1000}):
        with pytest.raises(InvalidInput):
            LearnedPolicy(best_actions, **wrong)
    with pytest.raises(InvalidInput, match="function of the first rows"):
        LearnedPolicy(3)
    with pytest.raises(InvalidInput, match="follows one policy"):
        bondic.SequentialMonitor(LearnedPolicy(best_actions), gamma=0.0, reward_range=(0, 1), planned_rows=300)


@pytest.mark.parametrize("blocks", [1, 3])
def test_models_of_scikit_learn_and_logs_in_batches(blocks, tmp_path):
    """What a learner returns is read as any policy is, and recorded; a log in batches gives the same interval."""
    log = decisions(900)
    columns = {
        "observations": log.observations[:, 0], "actions": np.array(["keep", "send"])[log.actions], "rewards": log.rewards,
        "behavior_action_probs": log.behavior_action_probs,
    }  # fmt: skip
    pd.DataFrame(columns).to_parquet(tmp_path / "log.parquet")

    def fit(rows):
        good = rows.rewards > 0
        return DecisionTreeClassifier(max_depth=2, random_state=0).fit(rows.observations[good], rows.actions[good])

    stated, learner = {"reward_range": (0, 1), "against": "today"}, LearnedPolicy(fit, 0.3, blocks)
    found = bondic.evaluate_policy(tmp_path / "log.parquet", learner, one_step=True, **stated)
    held = found.question.log
    assert found.proof.estimand.policies[0].learned[0][1].rows == (0, 270)
    assert bondic.verify(found, held, learner, replay=True).low == pytest.approx(found.low, abs=1e-12)
    pd.DataFrame(columns | {"actions": held.actions}).to_parquet(tmp_path / "coded.parquet")
    streamed = bondic.stream_log(tmp_path / "coded.parquet", batch_rows=100, one_step=True)
    again = bondic.evaluate_policy(streamed, learner, gamma=0.0, **stated)
    assert again.low == pytest.approx(found.low, abs=1e-12)
    assert bondic.verify(again, streamed, learner).low == pytest.approx(found.low, abs=1e-12)


def walks_fit(rows):
    mean = [rows.rewards[rows.actions == action].mean() for action in (0, 1)]
    return int(np.argmax(mean))


@pytest.mark.parametrize("blocks", [1, 4])
def test_episodes_are_never_cut(blocks):
    log, (fit, seen) = drawn_walks(400, 3), handed(walks_fit)
    starts = np.flatnonzero(np.append(True, np.diff(log.episode_ids) != 0))
    learner = LearnedPolicy(fit, 201, blocks)
    found = bondic.evaluate_policy(log, learner, gamma=0.8, horizon=3, reward_range=(-0.5, 2), against="today")
    assert len(seen) == blocks
    assert set(seen) <= set(starts.tolist())
    assert seen[0] == starts[starts >= 201][0]
    assert found.rows[0] >= seen[0]
    assert found.rows[0] in starts
    assert bondic.verify(found, log, learner, replay=True).low == pytest.approx(found.low, abs=1e-12)


def test_a_table_is_certified_on_the_rows_after():
    demo = bondic.load_demo()
    log = part(demo.log, slice(9000))

    def fit(rows):
        wear = int(np.median(rows.observations))
        return lambda states: (states[:, 0] >= wear + 1).astype(int)

    learner = LearnedPolicy(fit, 0.2)
    found = bondic.evaluate_policy(log, learner, gamma=0.8, reward_range=(0, 1), population="iid")
    assert found.method == "table"
    border = found.proof.estimand.policies[0].learned[0][1].rows[1]
    assert found.rows[0] > border >= 1800
    told = np.flatnonzero(log.timesteps == 0)
    assert found.proof.events.start.skipped == np.searchsorted(
        told, found.rows[0]
    )  # starts that taught it are left out
    assert bondic.verify(found, log, learner, replay=True).low == pytest.approx(found.low, abs=1e-9)
    apart = bondic.evaluate_policy(log, learner, gamma=0.8, reward_range=(0, 1), against="today")
    assert apart.rows[0] >= border
    assert sum(item.name == "learning" for item in apart.assumptions) == 1
    assert bondic.verify(apart, log, learner).low == pytest.approx(apart.low, abs=1e-9)
    with pytest.raises(InvalidInput, match="averages over all of its episode starts"):
        bondic.evaluate_policy(log, learner, gamma=0.8, reward_range=(0, 1), population="iid", method=bondic.Dual())
    own = bondic.evaluate_policy(log, learner, gamma=0.8, reward_range=(0, 1))  # this log: no start is a draw
    assert own.proof.events.start is None
    assert own.rows == found.rows
    assert bondic.verify(own, log, learner, replay=True).low == pytest.approx(own.low, abs=1e-9)
    stated = bondic.InitialStates.exact([[0.0]])
    assert bondic.evaluate_policy(log, learner, initial=stated, gamma=0.8, reward_range=(0, 1), method=bondic.Dual())


# --- mixtures -------------------------------------------------------------------------------------------


def test_every_policy_of_a_mixture_has_seen_the_rows_before_its_block():
    log, (fit, seen) = decisions(1300), handed()
    learner = LearnedPolicy(fit, 100, 4)
    found = bondic.evaluate_policy(log, learner, gamma=0.0, reward_range=(0, 1), against="today")
    assert seen == [100, 400, 700, 1000]
    assert found.rows[0] == 100 + 200  # a pilot for the rates
    shares = mixture_of(found)
    assert [share for share, _ in shares] == pytest.approx([0.1, 0.3, 0.3, 0.3])
    rates = found.proof.columns(bondic.core.question.Question.difference(*rows_of(found, log))).first.ratios.values
    slow = []
    for row in range(*found.rows):
        border = max(one for one in seen[:4] if one <= row)
        policy = best_actions(log.read(bondic.core.columns.RowRange(0, border)))
        slow.append(policy(log.observations[row : row + 1])[0, log.actions[row]] / log.behavior_action_probs[row])
    np.testing.assert_allclose(rates, slow, rtol=1e-15)
    text = next(item.text for item in found.assumptions if item.name == "learning")
    assert "mixture of 4" in text
    assert "100, 400, 700, 1000" in text


def rows_of(found, log):
    from bondic.rows.estimand import rebuild
    from bondic.rows.estimand import rows_of as parts_of

    return parts_of(rebuild(found.proof.estimand, log))


def test_a_mixture_of_one_policy_is_that_policy():
    """The same ends as for the policy over the contexts of the same rows."""
    log = decisions(900)
    mixture = bondic.make_problem(log, LearnedPolicy(lambda _: ThreeStates(), 90, 3), gamma=0.0, reward_range=(0, 1))
    alone = question(log).select(90)
    for method in (Propensities(), Propensities(max_ratio=4.0, model=None)):
        one = bondic.estimate_interval(mixture, method=method)
        other = bondic.estimate_interval(alone, method=method)
        assert tuple(one.interval) == pytest.approx(tuple(other.interval), abs=1e-13)
        one, other = (difference_interval(rows, method=method) for rows in (mixture, alone))
        assert tuple(one.interval) == pytest.approx(tuple(other.interval), abs=1e-13)
    robust = difference_interval(mixture, method=Propensities(max_ratio=4.0))
    start = next(item.text for item in robust.assumptions if item.name == "process")
    assert "mean over that distribution" not in start  # its centers know the states
    alike = difference_interval(mixture, question(log).select(90))  # the policies agree in every row
    assert alike.low == pytest.approx(alike.high, abs=0.03)
    assert bondic.verify(alike, log, against=ThreeStates()).low == pytest.approx(alike.low, abs=1e-12)
    best = question(log, best_actions(log)).select(90)
    for method in (Propensities(), Propensities(max_ratio=8.0), Propensities(min_propensity=0.1)):
        one, other = (difference_interval(rows, best, method=method) for rows in (mixture, alone))
        assert tuple(one.interval) == pytest.approx(tuple(other.interval), abs=1e-13)
        one, other = (difference_interval(rows, method=method) for rows in (mixture, alone))
        assert tuple(one.interval) == pytest.approx(tuple(other.interval), abs=1e-13)
        start = next(
            item.text
            for item in difference_interval(mixture, best, method=method).assumptions
            if item.name == "process"
        )
        assert "mean over that distribution" not in start


def test_certificates_of_mixtures():
    log, learner = decisions(1300), LearnedPolicy(best_actions, 100, 4)
    found = bondic.evaluate_policy(log, learner, gamma=0.0, reward_range=(0, 1), against="today")
    plain = bondic.verify(found, log)
    assert "the policy" in plain.headline
    assert any("pass the learner" in text for text in plain.unchecked)
    checked = bondic.verify(found, log, learner, replay=True)
    assert "policy learned again from the rows before each block gives the stored answers" in checked.checks
    with pytest.raises(VerificationError, match="learned on other rows"):
        bondic.verify(found, log, LearnedPolicy(best_actions, 100, 3))
    with pytest.raises(VerificationError, match="answers differently"):
        bondic.verify(found, log, LearnedPolicy(lambda _: ThreeStates(), 100, 4))
    with pytest.raises(VerificationError, match="pass the learner"):
        bondic.verify(found, log, ThreeStates())
    proof = found.proof
    with pytest.raises(VerificationError, match="mean over the certified units"):
        replace(proof, value="population", rates={})
    with pytest.raises(VerificationError, match="out of order"):
        replace(proof.estimand.policies[0], learned=())
    body = copy.deepcopy(found.certificate.body)
    learned = body["proof"]["estimand"]["policies"][0]["learned"]
    learned[1][1]["rows"] = [0, 500]  # before its block, as if it had seen some of it
    with pytest.raises(VerificationError, match=r"learned on rows 0 to 499 .* from row 400 on"):
        bondic.verify(Certificate(body, found.certificate.arrays), log)
    hidden = found.without_rows(found.question)
    with pytest.raises(VerificationError, match="pass the learner"):
        bondic.verify(hidden, log)
    assert bondic.verify(hidden, log, learner).low == pytest.approx(found.low, abs=1e-12)


def test_mixtures_need_propensities():
    log = one_step(*(getattr(decisions(300), name) for name in ("observations", "actions", "rewards")))
    with pytest.raises(InvalidInput, match="propensities, and the log has none"):
        bondic.make_problem(log, LearnedPolicy(best_actions, 0.2, 3), gamma=0.0, reward_range=(0, 1))
    with pytest.raises(InvalidInput, match="learned block by block"):
        mixture_of(bondic.evaluate_policy(decisions(300), ThreeStates(), gamma=0.0, reward_range=(0, 1)))


# --- Corollary 59a, every log of three rows listed ------------------------------------------------------

PAID = np.array([[0.9, 0.2], [0.3, 0.6]])  # mean of a reward that is 0 or 1


def expected_wealth(*, today, own_row, over):
    """The mean wealth of the bets against the true values; the policy of a row is what paid best before it (or with it)."""
    terms = make_terms(0.0, (0.0, 1.0), None, may_terminate=True, time_varying=False)
    rows, total = np.arange(3), 0.0

    def units(states, rewards, ratios):
        return SingleDecisions(
            "lower", terms, rows=rows, logged_rewards=rewards, continues=np.zeros(3, bool), observations=states[:, None],
            ratios=Ratios.ones(3) if ratios is None else Ratios(ratios, np.zeros(3)), slots=np.zeros(3, int), probs=None,
            episodes=rows, steps=np.zeros(3, int), of_behavior=ratios is None,
        )  # fmt: skip

    for log in itertools.product(itertools.product((0, 1), repeat=3), repeat=3):
        chance, paid, ratios, means = 1.0, np.zeros((2, 2)), [], []
        for state, action, reward in log:
            chance *= 0.25 * (PAID[state, action] if reward else 1 - PAID[state, action])
            paid[state, action] += own_row * (reward - 0.5)
            best = paid.argmax(axis=1)
            paid[state, action] += (1 - own_row) * (reward - 0.5)
            ratios.append(2.0 * (action == best[state]))
            gains = PAID[[0, 1], best] - today * PAID.mean(axis=1)
            means.append(gains[state] if over == "these contexts" else gains.mean())
        states, _, rewards = np.array(log, dtype=float).T
        found = units(states, rewards, np.array(ratios))
        found = Contrast.of(found, units(states, rewards, None)) if today else found
        (one,) = found.free_estimators(1.0)
        centers = running_means(one.values, one.prior[0])(slice(0, one.values.size))
        rates = np.minimum(0.4, 0.9 / (centers - one.floor))
        bets = MeansProcess(one.values, centers, centers - one.floor, rates, 0.9, 1.0)
        total += chance * math.exp(bets.intercept.upper - float(rates @ means))
    return total


@pytest.mark.parametrize("over", ["these contexts", "all contexts"])
@pytest.mark.parametrize("today", [0, 1])
def test_wealth_against_the_truth_does_not_grow_unless_policies_have_seen_their_rows(today, over):
    assert expected_wealth(today=today, own_row=0, over=over) <= 1 + 1e-12
    assert expected_wealth(today=today, own_row=1, over=over) > 1.05


# --- how often: exact truths, and a control that must fail ----------------------------------------------


def test_mixtures_cover_and_the_same_rows_do_not():
    """Rewards without a signal: every policy is worth what today's is. A table of 60 situations learns noise."""
    trials, alpha, count = 40, 0.5, 300
    missed, flattered = 0, 0
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        states, actions = rng.integers(0, 60, (count, 1)).astype(float), rng.integers(0, 2, count)
        log = one_step(states, actions, (rng.random(count) < 0.5) * 1.0, behavior_action_probs=np.full(count, 0.5))

        def fit(rows):
            paid = np.zeros((60, 2))
            np.add.at(paid, (rows.observations[:, 0].astype(int), rows.actions), rows.rewards - 0.5)
            best = paid.argmax(axis=1)
            return lambda s: best[s[:, 0].astype(int)]

        missed += abs_missed(difference_interval(question(log, LearnedPolicy(fit, 0.2, 5)), alpha=alpha))
        flattered += difference_interval(question(log, fit(log)), alpha=alpha).low > 0
    most = trials * alpha + 3 * math.sqrt(trials * alpha * (1 - alpha))
    assert missed <= most
    assert flattered > most


def abs_missed(found):
    return not found.low <= 0 <= found.high


def test_a_family_of_thresholds_may_be_chosen_from_on_the_whole_log():
    """No threshold is better than today's: choosing one is an error. One that is much better is found."""
    trials, alpha, wrong = 40, 0.5, 0
    cuts = np.linspace(0.05, 0.95, 12)
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        states, actions = rng.random((250, 1)), rng.integers(0, 2, 250)
        log = one_step(states, actions, (rng.random(250) < 0.5) * 1.0, behavior_action_probs=np.full(250, 0.5))
        wrong += choose_policy(family(log, cuts), alpha=alpha).chosen is not None
    assert wrong <= trials * alpha + 3 * math.sqrt(trials * alpha * (1 - alpha))
    rng = np.random.default_rng(0)
    states, actions = rng.random((2000, 1)), rng.integers(0, 2, 2000)
    right = (states[:, 0] > 0.5) == actions
    log = one_step(
        states, actions, (rng.random(2000) < 0.2 + 0.6 * right) * 1.0, behavior_action_probs=np.full(2000, 0.5)
    )
    chosen = choose_policy(family(log, cuts), alpha=0.05).chosen
    assert abs(float(chosen) - 0.5) < 0.2


def family(log, cuts):
    return {f"{cut:.2f}": question(log, lambda s, cut=cut: (s[:, 0] > cut).astype(int)) for cut in cuts}


# --- what a policy says that it has seen ----------------------------------------------------------------


class Fitted(ThreeStates):
    def __init__(self, rows=None, log=None):
        self.fitted_rows, self.fitted_log = rows, log


class Model:
    """A classifier that says what it was fitted on."""

    fitted_rows = (0, 500)
    classes_ = np.array([0, 1])

    def predict_proba(self, states):
        return ThreeStates().action_probs(states)

    def predict(self, states):
        return self.predict_proba(states).argmax(axis=1)


@pytest.mark.parametrize(
    "policy",
    [
        Fitted((0, 500)),
        Fitted((300, 301)),
        Model(),
        Model().predict,
        bondic.MixturePolicy(0.5, Fitted((0, 500)), ThreeStates()),
    ],
)
def test_what_has_seen_certified_rows_is_refused_everywhere(policy):
    log = decisions(1000)
    problem = question(log, policy)
    way_out = r"learned on rows .* of this log.*problem\.select\((500|301)\).*--with learn_rows"
    for decide in (
        lambda: bondic.estimate_interval(problem),
        lambda: bondic.estimate_interval(problem, method="dr"),
        lambda: bondic.estimate_interval(problem, method=bondic.Dual(ball=bondic.Ball(bondic.Gaussian(1.0), 3.0))),
        lambda: difference_interval(problem),
        lambda: difference_interval(question(log), policy),
        lambda: gate(problem, better_than="today"),
        lambda: rank_policies({"a": problem, "b": question(log)}),
        lambda: choose_policy({"a": problem}),
    ):
        with pytest.raises(InvalidInput, match=way_out):
            decide()
    assert bondic.estimate_interval(problem.select(500)).rows == (600, 1000)  # 100 rows set the rates


def test_other_logs_and_the_pilot_are_fine():
    log = decisions(1000)
    assert bondic.estimate_interval(question(log, Fitted(None, "another log"))).rows == (200, 1000)
    assert bondic.estimate_interval(question(log, Fitted((0, 500), "another log"))).rows == (200, 1000)
    assert difference_interval(question(log, Fitted((0, 200)))).rows == (200, 1000)  # the pilot of the rates
    with pytest.raises(InvalidInput, match="rows 0 to 999"):
        bondic.estimate_interval(question(log, Fitted(None, log.content_hash)))
    for wrong in ("some", 5, np.arange(7)):
        with pytest.raises(InvalidInput, match="fitted_rows"):
            bondic.estimate_interval(question(log, Fitted(wrong)))


def test_tables_and_monitors_refuse_them_too():
    demo = bondic.load_demo()
    log = part(demo.log, slice(4000))

    class Late:
        fitted_rows = (0, 3000)

        def action_probs(self, states):
            late = states[:, 0] >= 3
            return np.column_stack([~late, late]).astype(float)

    with pytest.raises(InvalidInput, match="rows 0 to 2999"):
        bondic.evaluate_policy(log, Late(), gamma=0.8, reward_range=(0, 1))
    with pytest.raises(InvalidInput, match="rows 0 to 2999"):
        bondic.evaluate_policy(log, Late(), gamma=0.8, reward_range=(0, 1), against="today")
    monitor = bondic.SequentialMonitor(Late(), gamma=0.8, reward_range=(0, 1), planned_rows=4000)
    with pytest.raises(InvalidInput, match="rows 0 to 2999"):
        monitor.update(log)


def memorized(rows):
    """Right at every start that it has seen, wrong elsewhere."""
    known = np.isin(np.arange(60), rows.observations[:, 0].astype(int))
    table = np.eye(2)[np.where(known, np.arange(60) % 2, 1 - np.arange(60) % 2)]
    return lambda states: table[states[:, 0].astype(int)]


def test_starts_that_taught_a_policy_are_no_draws_for_it():
    """The policy is right at the 50 starts that it was learned on: over these its mean is 1, over all states about a half."""
    rng = np.random.default_rng(0)
    state, action = rng.integers(60, size=3000), rng.integers(2, size=3000)
    states, ended = state[:, None].astype(float), np.ones(3000, bool)
    paid = (action == state % 2).astype(float)
    log = bondic.Transitions(states, action, paid, states, ended, episode_ids=np.arange(3000))
    learner, asking = LearnedPolicy(memorized, 50), {"gamma": 0.5, "reward_range": (0, 1)}
    for count in (50, 100):
        starts = bondic.InitialStates.sample(states[:count])
        with pytest.raises(InvalidInput, match=r"no independent draws.*Leave `initial` out"):
            bondic.evaluate_policy(log, learner, initial=starts, method=bondic.Table(), **asking)
    problem = bondic.make_problem(log, learner, population="iid", **asking)
    found = bondic.Table().run(problem, 0.1, None)
    true = np.unique(state[:50]).size / 60
    assert found.low <= true <= found.high
    assert bondic.verify(found, log, learner).low == found.low
    bets = found.proof.events.start
    assert bets.skipped >= 50
    events = replace(found.proof.events, start=replace(bets, skipped=0, center=1.0))
    proof, rows = replace(found.proof, events=events), problem.select(*found.rows)
    claims = proof.claims(Question.value(rows), REFERENCE)
    made = {"estimate": 1.0, "claims": claims, "choices": {}, "effective": 1.0, "seconds": {}}
    with pytest.raises(VerificationError, match="training rows are used as draws"):
        bondic.verify(Result.of(proof, rows, method="table", **made), log, learner)


# --- on the command line --------------------------------------------------------------------------------

LEARNER = """
import numpy as np

def fit(rows):
    situation, paid, taken = rows.observations[:, 0].astype(int), np.zeros((4, 3)), np.ones((4, 3))
    np.add.at(paid, (situation, rows.actions), rows.rewards)
    np.add.at(taken, (situation, rows.actions), 1.0)
    best = (paid / taken).argmax(axis=1)
    return lambda states: best[states[:, 0].astype(int)]

def first(rows):
    return 0

def poor(states):
    return np.zeros(len(states), dtype=int)
"""


@pytest.mark.parametrize("blocks", [[], ["--with", "learn_blocks=6"]])
def test_the_tool_learns_and_certifies(blocks, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(0), 6000
    segment, offer = rng.integers(0, 4, n), rng.integers(0, 3, n)
    chance = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1], [0.2, 0.2, 0.2], [0.1, 0.4, 0.1]])
    bought = (rng.random(n) < chance[segment, offer]).astype(float)
    columns = {"observations": segment, "actions": offer, "rewards": bought, "behavior_action_probs": 1 / 3}
    pd.DataFrame(columns).to_csv("log.csv", index=False)
    (tmp_path / "learn.py").write_text(LEARNER)
    asked = ["log.csv", "--one-step", "--reward-range", "0", "1"]
    learning = ["--policy", "learn.py:fit", "--with", "learn_rows=0.2", *blocks]
    code, out, err = run(capsys, "evaluate", *asked, *learning, "--against", "today", "--out", "out", "--verbose")
    assert code == 0, err
    assert "; better by " in " ".join(out.split())
    assert ("note: The policy is a mixture of 6" if blocks else "note: The policy was learned on rows 0 to 1199") in out
    code, out, err = run(capsys, "verify", "out", "log.csv", *learning, "--replay")
    assert code == 0, err
    assert ("learned again" if blocks else "gives the stored answers") in out
    assert "learning (stated by the certificate's maker)" in out
    gates = ["--require-better-than", "learn.py:poor", "--out", "gate", "--quiet"]
    assert run(capsys, "evaluate", *asked, *learning, *gates)[0] == 0
    several = ["--policy", "learn.py:first", "--quiet"]
    code, out, err = run(capsys, "choose", *asked, *learning, *several)
    assert (code, out.startswith("Take learn.py:fit")) == (0, True), err
    code, out, err = run(capsys, "evaluate", *asked, "--policy", "learn.py:fit", "--with", "learn_blocks=2")
    assert (code, "learn_rows" in err) == (2, True)
