"""How far one policy exceeds another, or today's: values, ends, certificates, coverage, and controls that must miss."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bondic
from bondic.core.claims import ErrorBudget
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.propensities.betting import BettingProcess
from bondic.core.propensities.bound import LowerEnd
from bondic.core.propensities.contrast import Contrast
from bondic.core.propensities.control import StoredControl
from bondic.core.propensities.decisions import Decisions, SingleDecisions
from bondic.core.propensities.ratios import Ratios, Stated
from bondic.core.propensities.wealth import lower_end
from bondic.core.separate import SeparateProof
from bondic.core.terms import make_terms
from bondic.core.verify import read_proof
from bondic.decisions.difference import difference_interval, today_value, with_values
from bondic.methods.propensities import Propensities
from propensity_cases import (
    BEHAVIOR,
    GAIN,
    GAMMA,
    MOVE,
    PI,
    REWARD,
    STATES,
    TARGET,
    B,
    ThreeStates,
    decisions,
    drawn_walks,
    question,
)

REFERENCE = json.loads((Path(__file__).parent / "reference" / "differences.json").read_text())


# --- values, one by one, against independent arithmetic -------------------------------------------------


def contrast(given, *, today):
    """The 24 rows of a reference problem."""
    rows, actions = np.arange(len(given["rewards"])), np.array(given["actions"])
    behavior = np.array(given["behavior"])[rows, actions]
    terms = make_terms(0.0, (given["r_lo"], given["r_hi"]), None, may_terminate=True, time_varying=False)
    shared = {
        "terms": terms, "rows": rows, "logged_rewards": np.array(given["rewards"]), "continues": np.zeros(rows.size, bool),
        "observations": np.zeros((rows.size, 1)), "slots": actions, "episodes": rows, "steps": np.zeros_like(rows),
    }  # fmt: skip
    found = []
    for name in ("pi_1", "pi_2"):
        probs = np.array(given[name])
        ratios = Ratios.of(probs[rows, actions], behavior, probs.shape[1])
        found.append(SingleDecisions("lower", ratios=ratios, probs=probs, **shared))
    if today:
        found[1] = replace(found[1], ratios=Ratios.ones(rows.size), probs=None, of_behavior=True)
    return Contrast.of(*found)


CASES = [(problem, kind) for problem in REFERENCE for kind in problem["expected"]["kinds"]]


@pytest.mark.parametrize(("problem", "kind"), CASES, ids=[f"{p['name']}-{k['kind']}-{k['Gamma']}" for p, k in CASES])
def test_values_floors_and_ends_are_those_of_the_theory(problem, kind):
    given = problem["inputs"]
    units = contrast(given, today=kind["kind"] == "today")
    size, delta = max(1.0, abs(given["r_lo"]), abs(given["r_hi"])), given["delta_end"]
    width = given["r_hi"] - given["r_lo"]
    for end in ("lower", "upper"):
        seen = units.from_end(end)
        if kind["kind"] == "model":
            q = np.array(given["q_hat"])
            control = StoredControl((1,), (given["r_lo"], given["r_hi"]), (0.0, 1.0), q[1:])
            cap = float(max(np.max(problem["expected"][name]) for name in ("rho_1", "rho_2"))) * 4
            found = seen.robust_estimator(control, Stated(max_ratio=cap))
            expected, floors = np.array(kind[f"x_{end}"])[1:], np.array(kind[f"floor_{end}"])[1:]
            assert found.floor <= floors.min()
        else:
            (found,) = seen.free_estimators(kind["Gamma"])
            expected, floors = np.array(kind[f"x_{end}"]), np.array(kind[f"floor_{end}"])
            if found.floors is not None:
                assert np.all(found.floors <= floors)
                np.testing.assert_allclose(found.floors, floors, atol=1e-12 * size)
            assert found.floor == pytest.approx(-width, rel=1e-12)
        assert np.all(found.values <= expected + 1e-300)
        np.testing.assert_allclose(found.values, expected, rtol=1e-12, atol=2e-12 * size)
        sign = 1.0 if end == "lower" else -1.0
        if kind["kind"] == "model":
            continue
        for ends in kind["ends"]:
            rate = ends["v"]
            # one bet of a constant rate, not cut: below the least value plus 1/v nothing is lost
            process = BettingProcess(found.values, float(found.values.min()) - 1e-9, np.full(24, rate), 0.99, 1.0)
            reached = lower_end([[process]], -width, width, delta)
            root = sign * ends[f"{end}_root"]
            if -width < root < width and rate * (root - found.values.min()) < 0.98:
                assert reached >= root - 1e-8 * size  # it may have been reached before the last row
        strategy = replace_bets(units, seen, found, given, kind, end)
        if strategy is not None:
            assert strategy


def replace_bets(units, seen, found, given, kind, end):
    """(21) with one rate and the floor as center, as the reference has it."""
    del units, seen
    if found.floors is None:
        return None
    rate, count = given["v_constant"][0], found.values.size
    intercept = math.fsum(
        rate * f + math.log1p(rate * (x - f)) for x, f in zip(found.values, found.floors, strict=True)
    )
    expected = next(one for one in kind["ends"] if one["v"] == rate)
    mine = (intercept - math.log(1 / given["delta_end"])) / (count * rate)
    sign = 1.0 if end == "lower" else -1.0
    return mine == pytest.approx(sign * expected[f"contexts_{end}"], abs=1e-11)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1.5]), st.booleans(), st.booleans())
def test_means_are_at_most_the_difference_and_no_value_is_below_its_floor(seed, factor, overlap, today):
    """Every action and outcome of one state, listed: with actions that the behavior never takes, and propensities off by Γ."""
    rng = np.random.default_rng(seed)
    actions, low, high = int(rng.integers(2, 5)), -1.0, 2.5
    logged = rng.dirichlet(np.ones(actions))
    if not overlap:
        logged[0] = 0.0
        logged /= logged.sum()
    one, two = rng.dirichlet(np.ones(actions), 2)
    if rng.random() < 0.3:
        two = one.copy()
    # the truth is within Γ of what the log states
    drawn = logged * rng.uniform(1 / factor, factor, actions)
    drawn = np.minimum(drawn / drawn.sum(), factor * logged)
    drawn[np.argmax(drawn)] += 1.0 - drawn.sum()
    if np.any(drawn > factor * logged * (1 + 1e-12)):
        return
    means = rng.uniform(low, high, actions)
    taken, rewards = np.repeat(np.arange(actions), 2), np.tile([low, high], actions)
    chance = np.repeat(drawn, 2) * np.where(rewards == low, high - means[taken], means[taken] - low) / (high - low)
    known = np.flatnonzero(logged[taken] > 0)
    taken, rewards, chance = taken[known], rewards[known], chance[known]
    data = {"rewards": rewards, "actions": taken, "r_lo": low, "r_hi": high}
    data |= {
        name: np.tile(probs, (taken.size, 1)) for name, probs in (("behavior", logged), ("pi_1", one), ("pi_2", two))
    }
    units = contrast(data, today=today)
    second = float(drawn @ means) if today else float(two @ means)
    for end, sign in (("lower", 1.0), ("upper", -1.0)):
        (found,) = units.from_end(end).free_estimators(factor)
        assert float(chance @ found.values) <= sign * (float(one @ means) - second) + 1e-12
        assert np.all(found.values >= found.floor)
        if found.floors is not None:
            assert np.all(found.values >= found.floors)
            if np.array_equal(one, two):
                assert np.all(found.values == 0.0)


# --- a log with propensities ----------------------------------------------------------------------------

OTHER = TARGET.copy()
OTHER[0] = OTHER[0][::-1]
DIFFERENCE = float(((TARGET - OTHER) * REWARD).sum(axis=1).mean())
AGAINST_TODAY = float(((TARGET - BEHAVIOR) * REWARD).sum(axis=1).mean())


def other(observations):
    return OTHER[np.searchsorted(STATES[:, 0], observations[:, 0])]


@pytest.mark.parametrize(
    "method",
    [Propensities(), Propensities(max_ratio=4.0), Propensities(min_propensity=0.2), Propensities(side="lower")],
)
@pytest.mark.parametrize("against", [other, "today"])
def test_a_difference_is_certified_verified_and_replayed(method, against):
    log = decisions(1500)
    problem = question(log)
    result = difference_interval(problem, against, method=method)
    truth = AGAINST_TODAY if against == "today" else DIFFERENCE
    assert result.low <= truth <= result.high
    assert result.high - result.low < 0.75 * 2
    known = None if against == "today" else against
    again = bondic.verify(result.certificate, log, ThreeStates(), against=known, replay=True)
    assert (again.low, again.high) == pytest.approx((result.low, result.high), abs=1e-12)
    assert not any("the policy" in text for text in again.headline)
    assert ("the other policy is the one that made the log" in again.checks) == (against == "today")


def test_a_difference_is_shorter_than_two_intervals_and_zero_where_policies_agree():
    log = decisions(2000)
    problem = question(log)
    apart = with_values(difference_interval(problem, other), problem, other)
    two = sum(part.high - part.low for part in apart.parts)
    assert apart.high - apart.low < 0.6 * two
    same = difference_interval(problem, ThreeStates())
    assert same.low <= 0.0 <= same.high
    assert same.high - same.low < 0.02
    assert (apart.value_range.low, apart.value_range.high) == pytest.approx((-1.0, 1.0))


def test_the_other_policy_is_compared_too():
    log = decisions(400)
    result = difference_interval(question(log), other)
    with pytest.raises(VerificationError, match="not the certified policy"):
        bondic.verify(result.certificate, log, ThreeStates(), against=ThreeStates())
    with pytest.raises(VerificationError, match="leave the policy out"):
        bondic.verify(difference_interval(question(log)).certificate, log, ThreeStates(), against=other)


def test_today_cannot_be_declared_another_policy():
    """The ends of a population need one mean for all rows; a behavior that changes has many."""
    log = decisions(400)
    proof = difference_interval(question(log)).proof
    assert proof.value == "contexts"
    with pytest.raises(VerificationError, match="mean over the certified units"):
        replace(proof, value="population", rates={})
    first, second = proof.estimand.policies
    with pytest.raises(VerificationError, match="Answers are stored exactly where"):
        replace(second, known_by="answers")
    with pytest.raises(VerificationError, match="Answers are stored exactly where"):
        replace(first, known_by="behavior")


# --- every policy by itself -----------------------------------------------------------------------------


def test_separate_proofs_hold_together_and_are_checked():
    demo = bondic.load_demo()
    log = bondic.Transitions(
        demo.log.observations[:6000], demo.log.actions[:6000], demo.log.rewards[:6000], demo.log.next_observations[:6000],
        demo.log.terminations[:6000], episode_ids=demo.log.episode_ids[:6000], truncations=demo.log.truncations[:6000],
        timesteps=None if demo.log.timesteps is None else demo.log.timesteps[:6000],
    )  # fmt: skip
    problem = bondic.make_problem(log, demo.policy, demo.initial, gamma=demo.gamma, reward_range=demo.reward_range)
    result = difference_interval(problem, alpha=0.2)
    assert isinstance(result.proof, SeparateProof)
    assert result.low > 0.0  # the demonstration's policy is better than today's
    again = bondic.verify(result.certificate, log, demo.policy)
    assert (again.low, again.high) == pytest.approx((result.low, result.high), abs=1e-9)
    proof = read_proof(result.certificate, problem.layout)
    one, two = proof.parts
    spent = ErrorBudget(0.15, dict(one.budget.parts))
    with pytest.raises(VerificationError, match="spends more"):
        replace(proof, parts=(replace(one, budget=spent), two))
    with pytest.raises(VerificationError, match="not about its value"):
        replace(proof, parts=(two, one))
    with pytest.raises(VerificationError, match="leaves out an end"):
        replace(proof, parts=(one, replace(two, side="lower", rates={"lower": two.rates["lower"]})))
    with pytest.raises(VerificationError, match="number of proofs"):
        replace(proof, parts=(one,))
    first, second = proof.estimand.policies
    for coefficient in (-0.1, 1.0, -100.0):
        with pytest.raises(VerificationError, match="difference of two policies"):
            replace(proof, estimand=replace(proof.estimand, policies=(first, replace(second, coefficient=coefficient))))
    shorter = replace(two, estimand=replace(two.estimand, rows=(two.estimand.rows[0], two.estimand.rows[1] - 100)))
    with pytest.raises(VerificationError, match="leaves out rows"):
        replace(proof, parts=(one, shorter))


def test_policies_that_start_elsewhere_are_refused():
    """Units are weighed once: a second policy with starts of its own would be answered for those of the first."""
    log = decisions(300)
    here, there = (
        bondic.make_problem(
            log, policy, bondic.InitialStates.exact(STATES[k : k + 1]), gamma=0.0, reward_range=(0, 1), accept=None
        )
        for policy, k in ((ThreeStates(), 0), (other, 1))
    )
    with pytest.raises(InvalidInput, match="and starts"):
        difference_interval(here, there)
    with pytest.raises(VerificationError, match="different starts"):
        Propensities().run(here, 0.1, None, against=there)


def test_forged_questions_are_refused():
    log = decisions(400)
    problem = question(log)
    single = bondic.estimate_interval(problem)
    with pytest.raises(VerificationError, match="one policy"):
        bondic.verify(single.certificate, log, ThreeStates(), against=other)
    apart = difference_interval(problem, other)
    assert (
        "bounded is the value of the policy minus that of the other policy"
        in bondic.verify(apart.certificate, log).checks
    )
    policies = apart.proof.estimand.policies
    half = replace(apart.proof.estimand, policies=(policies[0], replace(policies[1], coefficient=-0.5)))
    with pytest.raises(VerificationError, match="difference of two"):
        bondic.verify(apart.certificate.with_proof(replace(apart.proof, estimand=half)), log)


def test_what_cannot_be_compared_is_refused():
    log = decisions(300)
    problem = question(log)
    with pytest.raises(InvalidInput, match="same rows"):
        difference_interval(problem, problem.select(10))
    with pytest.raises(InvalidInput, match="make_problem"):
        difference_interval(log)
    starts = bondic.InitialStates.exact(STATES)
    listed = bondic.make_problem(log, ThreeStates(), starts, gamma=0.0, reward_range=(0, 1), accept=None)
    with pytest.raises(InvalidInput, match="Leave `initial` out"):
        difference_interval(listed, method=Propensities())


# --- coverage, with controls ----------------------------------------------------------------------------


def lower_misses(truth, make, trials, alpha):
    missed = 0
    for seed in range(trials):
        result = make(seed)
        missed += not result.low <= truth
        missed += not truth <= result.high
    return missed, trials * alpha


@pytest.mark.parametrize("against", [other, "today"])
def test_coverage_of_single_decisions(against):
    """alpha = .5: misses are common; 3 standard deviations above alpha fail by chance in 1 of 700 runs."""
    truth, trials = (AGAINST_TODAY if against == "today" else DIFFERENCE), 150
    missed, expected = lower_misses(
        truth, lambda seed: difference_interval(question(decisions(300, seed)), against, alpha=0.5), trials, 0.5
    )
    assert missed <= expected + 3 * math.sqrt(trials * 0.25)


def test_a_difference_with_the_range_of_one_value_misses():
    """The control: with [0, B] for the range of r_hi - r on one side alone the mean is not below the difference."""
    log = decisions(40_000)
    problem = question(log)
    proof = difference_interval(problem, other, method=Propensities(model=None)).proof
    units = proof.columns(bondic_question(problem, other))
    (found,) = units.free_estimators(1.0)
    wrong = replace(found, values=found.values - found.floors)  # as if TV_i B were 0
    end = LowerEnd(units, (wrong,), proof.strategy, False, len(log), 0.05).population(())
    assert end.bound > DIFFERENCE


def bondic_question(problem, policy):
    from bondic.decisions.difference import other_rows
    from bondic.rows.estimand import question_of

    return question_of((problem, other_rows(problem, policy)))


def test_a_behavior_that_learns_is_compared_with_its_own_mean():
    """Today's value is the mean over the certified rows of what the behavior was worth at each of them."""
    missed = 0
    for seed in range(60):
        rng, n = np.random.default_rng(seed), 600
        situation, level = rng.integers(0, 3, n), np.linspace(0.1, 0.9, n)
        action = (rng.random(n) < level).astype(np.int64)
        reward = (rng.random(n) < REWARD[situation, action]).astype(float)
        written = np.where(action == 1, level, 1 - level)
        log = bondic.Transitions(
            STATES[situation], action, reward, STATES[situation], np.ones(n, bool), behavior_action_probs=written
        )
        result = difference_interval(question(log), alpha=0.5)
        first, stop = result.rows
        behavior = (1 - level) * REWARD[situation, 0] + level * REWARD[situation, 1]
        truth = float(((TARGET * REWARD).sum(axis=1)[situation] - behavior)[first:stop].mean())
        missed += not result.low <= truth <= result.high
    assert missed <= 30 + 3 * math.sqrt(15)


def test_episodes_of_two_policies():
    """Three steps at most; the second policy mirrors the first one in state 0."""
    second = PI.copy()
    second[0] = second[0][::-1]

    def value(policy):
        found = np.zeros(2)
        for _ in range(3):
            found = (policy * (GAIN + GAMMA * MOVE[:, :, :2] @ found)).sum(axis=1)
        return float(found[0])

    truth, today = value(PI) - value(second), value(PI) - value(B)
    missed = 0
    for seed in range(12):
        log = drawn_walks(400, seed)
        problem = question(log, policy_of(PI), gamma=GAMMA, reward_range=(-0.5, 2.0), horizon=3)
        for against, true in ((policy_of(second), truth), ("today", today)):
            for method in (Propensities(), Propensities(max_ratio=3.0)):
                result = difference_interval(problem, against, alpha=0.4, method=method)
                missed += not result.low <= true <= result.high
    assert missed <= 48 * 0.4 + 3 * math.sqrt(48 * 0.24)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.2, 40.0), st.floats(-1.0, 1e6))
def test_predictions_are_shrunk_so_that_no_value_is_below_a_floor_of_its_own(seed, usual, low):
    """Lemma 38a: every action and the extreme rewards of some states, listed; the mean stays that of the policy."""
    rng, actions, high = np.random.default_rng(seed), int(np.random.default_rng(seed).integers(2, 6)), low + 2.0
    behavior, target, q = (
        rng.dirichlet(np.full(actions, 5.0)),
        rng.dirichlet(np.full(actions, 0.3), 3),
        rng.uniform(low, high, (3, actions)),
    )
    least, means = float(behavior.min()), rng.uniform(low, high, (3, actions))
    state, taken, reward = (
        x.ravel() for x in np.meshgrid(np.arange(3), np.arange(actions), [low, high], indexing="ij")
    )
    terms = make_terms(0.0, (low, high), None, may_terminate=True, time_varying=False)
    size = state.size
    units = SingleDecisions(
        "lower", terms, np.arange(size), reward, Ratios.of(target[state, taken], behavior[taken], actions), np.zeros(size, bool),
        np.zeros((size, 1)), taken, target[state], np.arange(size), np.zeros(size, int),
    )  # fmt: skip
    caps = Stated(min_propensity=least).caps(1 / least, units.probs, size)
    floor = low - usual * (high - low)
    shrunk = units.kept_above(floor, q[state], caps)
    mean, logged = units.policy_means(shrunk)
    values = units.robust_values(logged, mean)
    assert values.min() >= floor - 1e-12 * (abs(low) + usual)
    chance = (
        behavior[taken] * np.where(reward == low, high - means[state, taken], means[state, taken] - low) / (high - low)
    )
    found = np.bincount(state, weights=chance * values)
    np.testing.assert_allclose(found, (target * means).sum(axis=1), atol=1e-9 * (1 + abs(low)))
    if usual > 1 / least:
        assert np.array_equal(shrunk, q[state])  # nothing to shrink
    unshrunk = units.robust_values(*units.policy_means(q[state])[::-1])
    assert unshrunk.min() >= floor or not np.array_equal(shrunk, q[state])  # the control: as it was, a value was below


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_today_is_no_longer_than_the_textbook_interval_where_returns_are_small(gamma):
    """Complete episodes whose returns fill a hundredth of their range; Hoeffding's inequality, at the same level."""
    rng, count = np.random.default_rng(3), 400
    lengths = np.minimum(rng.geometric(0.2, count), 30)
    ids, steps = np.repeat(np.arange(count), lengths), np.concatenate([np.arange(n) for n in lengths])
    rewards, over = 0.02 * rng.integers(0, 2, steps.size), steps + 1 == np.repeat(lengths, lengths)
    log = bondic.Transitions(
        np.zeros((steps.size, 1)), rng.integers(0, 2, steps.size), rewards, np.zeros((steps.size, 1)), over,
        episode_ids=ids, timesteps=steps,
    )  # fmt: skip
    problem = bondic.make_problem(
        log, lambda s: np.zeros(len(s), int), gamma=gamma, reward_range=(0.0, 1.0), accept=None
    )
    found = today_value(problem, 0.1)
    returns = np.bincount(ids, weights=rewards * gamma**steps)
    half = math.sqrt(math.log(2 / 0.1) / (2 * count)) / (1 - gamma)
    assert returns.mean() - half < found.low < returns.mean() < found.high < returns.mean() + half


def test_the_bound_of_ratios_comes_from_the_policy():
    """Thirty actions taken evenly, a policy that is nowhere sure: stating its largest ratio as well buys nothing."""
    rng, count, actions = np.random.default_rng(5), 4000, 30
    taken = rng.integers(0, actions, count)
    log = bondic.Transitions(
        np.zeros((count, 1)), taken, (rng.random(count) < 0.01 * (1 + (taken < 5))).astype(float), np.zeros((count, 1)),
        np.ones(count, bool), behavior_action_probs=np.full(count, 1 / actions),
    )  # fmt: skip
    probs = np.where(np.arange(actions) < 5, 0.15, 0.01)
    problem = bondic.make_problem(
        log, lambda s: np.tile(probs, (len(s), 1)), gamma=0.0, reward_range=(0.0, 1.0), accept=None
    )
    plain, one, two = (
        bondic.estimate_interval(problem, method=Propensities(**stated)).length
        for stated in ({}, {"min_propensity": 1 / actions}, {"min_propensity": 1 / actions, "max_ratio": 4.5001})
    )
    assert one < 0.8 * plain
    assert one == pytest.approx(two, rel=0.02)


def policy_of(table):
    return lambda observations: table[observations[:, 0].astype(int)]


def test_units_of_other_rows_are_refused():
    units = contrast(REFERENCE[0]["inputs"], today=False)
    short = units.first.part(slice(0, 5))
    with pytest.raises(InvalidInput, match="other rows"):
        Contrast.of(short, units.first)
    assert isinstance(short, Decisions)
