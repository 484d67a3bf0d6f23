"""Propensities with stated starts: answered from the rows that start there (21a), or refused; never by the log's own starts."""

import json
import math
from dataclasses import replace
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

import bondic
from bondic import Table
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.propensities.betting import MeansProcess, Strategy, means_end
from bondic.core.propensities.ratios import Stated
from bondic.core.propensities.strata import BalancedRates, Strata
from bondic.data.initial import InitialStates
from bondic.methods.dual import Dual
from bondic.methods.propensities import Propensities
from bondic.policies.logged_target import LoggedTarget
from bondic.rows.decisions import read_decisions
from bondic.rows.estimand import estimand_of
from bondic.tuning.defaults import Choices
from propensity_cases import (
    BEHAVIOR,
    LARGEST,
    REWARD,
    STATES,
    TARGET,
    ThreeStates,
    decisions,
    one_step,
    question,
)

REFERENCE = json.loads((Path(__file__).parent / "reference" / "strata.json").read_text())
OF_STATE = (TARGET * REWARD).sum(axis=1)
EVEN = bondic.CallablePolicy(lambda states: np.full((len(states), 2), 0.5))


# --- what was asked is what is answered -------------------------------------------------------------------------------


def two_contexts(n=3000, seed=0, share=0.5, **columns):
    """Two contexts with the values .1 and .9, whatever is done; the first one comes with the probability `share`."""
    rng = np.random.default_rng(seed)
    context = (rng.random(n) >= share).astype(np.int64)
    reward = (rng.random(n) < np.array([0.1, 0.9])[context]).astype(float)
    half = np.full(n, 0.5)
    return one_step(context[:, None] * 1.0, rng.integers(0, 2, n), reward, behavior_action_probs=half, **columns)


def two_steps(n=1500, seed=0):
    """The same contexts as starts of episodes whose second step earns nothing."""
    first = two_contexts(n, seed)
    states = np.column_stack([first.observations[:, 0], np.full(n, 2.0)]).reshape(-1, 1)
    rewards = np.column_stack([first.rewards, np.zeros(n)]).reshape(-1)
    return bondic.Transitions(
        states, np.repeat(first.actions, 2), rewards, np.full((2 * n, 1), 2.0), np.tile([False, True], n),
        episode_ids=np.repeat(np.arange(n), 2), timesteps=np.tile([0, 1], n), behavior_action_probs=np.full(2 * n, 0.5),
    )  # fmt: skip


def asked(log, start, method=None, policy=EVEN, gamma=0.0, alpha=0.1, reward_range=(0.0, 1.0), **statements):
    problem = bondic.make_problem(log, policy, start, gamma=gamma, reward_range=reward_range, accept=None, **statements)
    return bondic.estimate_interval(problem, alpha=alpha, method=method)


@pytest.mark.parametrize(("weights", "truth"), [((1.0, 0.0), 0.1), ((0.0, 1.0), 0.9), ((0.75, 0.25), 0.3)])
def test_weights_of_stated_starts_count(weights, truth):
    start = InitialStates.exact([[0.0], [1.0]], weights)
    told = two_contexts(target_action_probs=np.full(3000, 0.5))
    episodes = {"gamma": 0.9, "value_range": (0.0, 1.0)}
    found = [
        asked(two_contexts(), start, Propensities()),
        asked(two_contexts(), start),
        asked(told, start, policy=LoggedTarget()),
        asked(two_steps(), start, Propensities(), **episodes),
        asked(two_steps(), start, **episodes),
    ]
    for result in found:
        assert result.low <= truth <= result.high
        assert result.high - result.low < 0.2
    first = found[0]
    assert first.low < first.estimate < first.high
    assert first.proof.value == "stated starts"
    assert "nothing is assumed about how often" in next(a.text for a in first.assumptions if a.name == "start")
    bondic.verify(first.certificate, two_contexts(), EVEN)
    bondic.verify(found[3].certificate, two_steps(), EVEN)


@pytest.mark.parametrize(
    "start",
    [InitialStates.sample(np.zeros((50, 1))), InitialStates.from_log(two_contexts(200, 1, 0.95), population="iid")],
)
def test_a_stated_sample_is_refused_and_the_default_takes_another_method(start):
    told = two_contexts(target_action_probs=np.full(3000, 0.5))
    episodes = {"gamma": 0.9, "value_range": (0.0, 1.0)}
    refused = [
        lambda: asked(two_contexts(), start, Propensities()),
        lambda: asked(told, start, policy=LoggedTarget()),
        lambda: asked(two_steps(), start, Propensities(), **episodes),
    ]
    for ask in refused:
        with pytest.raises(InvalidInput, match=r"not read off this log.*Leave `initial` out"):
            ask()
    result = asked(two_contexts(), start)
    assert result.method == "table"
    assert result.low <= 0.1
    assert "propensities applies" not in result.choices["other methods"]


def test_the_logs_own_starts_as_a_sample_in_any_form_are_the_population():
    log = two_contexts()
    own = InitialStates.from_log(log, population="iid")
    forms = [own, InitialStates.from_log(log, count=200), InitialStates.sample(log.observations)]
    found = [asked(log, start, Propensities()) for start in forms]
    found.append(asked(log, None, Propensities(), population="iid"))
    assert len({(one.low, one.high) for one in found}) == 1
    assert {one.proof.value for one in found} == {"population"}
    assert asked(log, None).method == "propensities"
    for one in found:
        bondic.verify(one.certificate, log, EVEN)


def test_a_list_that_cannot_be_answered_is_refused():
    with pytest.raises(InvalidInput, match="No decision of the log starts at"):
        asked(two_contexts(), InitialStates.exact([[0.5]]), Propensities())
    with pytest.raises(InvalidInput, match="No episode of the log starts at"):
        asked(two_steps(), InitialStates.exact([[2.0]]), Propensities(), gamma=0.9)
    bare = replace(two_contexts(target_action_probs=np.full(3000, 0.5)), unrecorded=("observations",))
    with pytest.raises(InvalidInput, match="rows that start at the stated states cannot be found"):
        asked(bare, InitialStates.exact([[0.0]]), policy=LoggedTarget())


def test_states_that_never_come_count_with_the_worst_value():
    start = InitialStates.exact([[0.0], [1.0], [5.0]], [0.5, 0.25, 0.25])
    result = asked(two_contexts(), start, Propensities())
    assert result.low < 0.5 * 0.1 + 0.25 * 0.9
    assert result.high > 0.5 * 0.1 + 0.25 * 0.9 + 0.25
    assert "1 of 3 states never come (weight 0.25)" in result.choices["stated starts"]


def test_one_stated_state_where_every_unit_starts_is_the_population():
    log = two_contexts(share=1.0)
    one = asked(log, InitialStates.exact([[0.0], [0.0], [1.0]], [0.5, 0.5, 0.0]), Propensities())
    own = asked(log, None, Propensities(), population="iid")
    assert one.proof.value == "population"
    assert (one.low, one.high) == (own.low, own.high)


def test_rows_that_the_choice_has_seen_are_not_certified_from_stated_starts():
    """Decisions from a list set no pilot aside themselves; the rows by which the default compares methods are left out."""
    log = two_contexts()
    other = np.random.default_rng(1).random(3000) < 0.3  # states that come once: no table
    states = np.where(other, 5 + np.linspace(0, 1, 3000), log.observations[:, 0])[:, None]
    log = one_step(states, log.actions, log.rewards, behavior_action_probs=log.behavior_action_probs)
    start = InitialStates.exact([[0.0], [1.0]])
    numbers = Choices(categorical=())
    for planned in (3000, 5000):
        method = bondic.Default(planned_rows=None if planned == 3000 else planned, choices=numbers)
        result = asked(log, start, method)
        assert result.method == "propensities"
        assert result.rows[0] > 0
        assert f"first {result.rows[0]} rows predict" in result.choices["method"]
        assert result.proof.planned == planned - result.rows[0]
        assert result.low <= 0.5 <= result.high


def test_bets_on_a_population_need_one_that_was_stated():
    log = two_contexts()
    stated = question(log, EVEN, population="iid")
    proof = bondic.estimate_interval(stated, method=Propensities()).proof
    with pytest.raises(VerificationError, match="a population that nobody stated"):
        bondic.Result.of(replace(proof, estimand=estimand_of(question(log, EVEN))), question(log, EVEN), method="bets")


def test_a_certificate_cannot_turn_stated_starts_into_the_logs():
    log = two_contexts()
    problem = bondic.make_problem(
        log, EVEN, InitialStates.exact([[0.0], [1.0]], [0.9, 0.1]), gamma=0.0, reward_range=(0, 1)
    )
    proof = bondic.estimate_interval(problem, method=Propensities()).proof
    own = asked(log, None, Propensities(), population="iid").proof
    with pytest.raises((InvalidInput, VerificationError), match="log's own starts"):
        bondic.Result.of(replace(proof, value="population"), problem, method="propensities")
    with pytest.raises((InvalidInput, VerificationError), match="exact list"):
        bondic.Result.of(replace(own, value="stated starts"), question(log, EVEN), method="propensities")


# --- rows that go on are no decisions of their own (γ = 0) ---------------------------------------------------------------


def long_episodes(n=1000, seed=0, **columns):
    """Three steps in a row of states 0, 1, 2; 0.01 is earned at the start, about 3/4 after it. No ids, no timesteps."""
    rng = np.random.default_rng(seed)
    state = np.tile([0.0, 1.0, 2.0], n)
    reward = np.where(state > 0, rng.random(3 * n) < 0.75, 0.01)
    return bondic.Transitions(
        state[:, None], rng.integers(0, 2, 3 * n), reward, np.tile([1.0, 2.0, 0.0], n)[:, None],
        np.tile([False, False, True], n), behavior_action_probs=np.full(3 * n, 0.5), **columns,
    )  # fmt: skip


@pytest.mark.parametrize("columns", [{}, {"timesteps": np.tile([0, 1, 2], 1000)}])
def test_later_steps_are_not_taken_for_starts(columns):
    log = long_episodes(**columns)
    for method in (None, Table(), Dual()):
        result = asked(log, None, method)
        assert result.low <= 0.01 <= result.high < 0.3
        with pytest.raises(InvalidInput, match="Row 0 goes on"):  # both policies are one: they differ by 0
            bondic.evaluate_policy(
                log, EVEN, gamma=0.0, reward_range=(0, 1), against="today", method=method, accept=None
            )
    for gamma in (0.0, 0.5):
        with pytest.raises(InvalidInput, match=r"Row 0 goes on.*`episode_ids`.*--one-step"):
            asked(log, None, Propensities(), gamma=gamma)
    told = long_episodes(target_action_probs=np.full(3000, 0.5), **columns)
    with pytest.raises(InvalidInput, match="Row 0 goes on"):
        asked(told, None, policy=LoggedTarget())
    named = long_episodes(episode_ids=np.repeat(np.arange(1000), 3), **columns)
    assert asked(named, None, Propensities()).high < 0.02


# --- the formula --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFERENCE)
@pytest.mark.parametrize("end", ["lower", "upper"])
def test_the_bound_is_that_of_sixty_digits(name, end):
    case = REFERENCE[name]
    expected, sign = case["expected"], 1.0 if end == "lower" else -1.0
    low = sign * case["reward_range"][0 if end == "lower" else 1]
    strata, rates = Strata(np.array(case["stratum"]), np.array(case["start_weights"])), np.array(case["v"])
    total = strata.total(rates)
    assert expected["V"] <= total <= expected["V"] * (1 + 1e-13)
    for version in expected["versions"]:
        values, centers = sign * np.array(version[f"x_{end}"]), sign * np.array(case[f"c_{end}"])
        bets = MeansProcess(values - low, centers - low, np.zeros(24), rates, 0.99, 1.0)
        right = (bets.intercept - math.log(1 / case["delta_end"])).lower
        assert right == pytest.approx(version[f"right_side_{end}"], rel=1e-12, abs=1e-12)
        found, width = sign * low + sign * means_end([(bets, total)], 2.0, case["delta_end"]), 1e-9
        exact = version[end]
        assert exact - width <= found <= exact if end == "lower" else exact <= found <= exact + width


@pytest.mark.parametrize("name", [name for name in REFERENCE if name.startswith("no model")])
def test_weighted_rewards_are_those_of_sixty_digits_from_both_ends(name):
    """The upper end under Γ is that of r_hi - (ρ/Γ)(r_hi - r), not of ρΓ cut at the range."""
    case = REFERENCE[name]
    states = np.array(case["stratum"])[:, None] * 1.0
    columns = {"behavior_action_probs": case["behavior"], "target_action_probs": case["target"]}
    log = one_step(states, np.zeros(24, np.int64), np.array(case["rewards"]), **columns)
    problem = question(log, LoggedTarget(), reward_range=tuple(case["reward_range"]))
    decided = read_decisions(problem, None, every_action=False)
    for version in case["expected"]["versions"]:
        stated = Stated(gamma_sensitivity=version["Gamma"])
        (lower,), (upper,) = (decided.from_end(end).estimators(None, stated) for end in ("lower", "upper"))
        assert np.asarray(lower.values) == pytest.approx(np.array(version["x_lower"]), rel=1e-12, abs=1e-12)
        assert -np.asarray(upper.values) == pytest.approx(np.array(version["x_upper"]), rel=1e-12, abs=1e-12)


def slow_rates(rows, weights, floor, planned, delta, multiple, most):
    """The rule for one bet, sums made anew for every row: (state, value, center, rate) of the rows at listed states."""
    found, due, reachable = [], 0, math.inf
    for i, (k, x) in enumerate(rows):
        if not weights[k]:
            continue
        here = [value for j, value, _, _ in found if j == k]
        overall = (floor + 0.5 + math.fsum(value for _, value, _, _ in found)) / (1 + len(found))
        center = (overall + math.fsum(here)) / (1 + len(here))
        caps = {j: most / (c - floor) for j, _, c, _ in found} | {k: most / (center - floor)}
        visits = {j: sum(one == j for one, _ in rows[: i + 1]) for j in caps}
        sums = {j: math.fsum(rate for one, _, _, rate in found if one == j) for j in caps}
        if i >= due:
            room = {j: sums[j] + caps[j] * max(planned - i, 0) * visits[j] / (i + 1) for j in caps}
            short, reachable = 0.0, math.inf
            for j in sorted(caps, key=lambda j: room[j] / weights[j]):
                short += room[j] * most / caps[j]
                if short >= math.log(1 / delta):
                    reachable = room[j] / weights[j]
                    break
            due = i + sum(one > 0 for one in weights) + min(i, max(planned - i, 0)) // 64
        frequencies = [
            sum(one == j for one, _ in rows[: n + 1]) / (n + 1) for n, (j, _) in enumerate(rows[:i]) if weights[j]
        ]
        squares = [
            (weights[j] / frequency * (value - c)) ** 2
            for (j, value, c, _), frequency in zip(found, frequencies, strict=True)
        ]
        spread = (0.25 + math.fsum(squares)) / (1 + len(squares))
        goal = min(multiple * math.sqrt(2 * math.log(1 / delta) * planned / spread), reachable)
        lacking = max(goal * weights[k] - sums[k], 0.0)
        rate = min(lacking / max((planned - i) * visits[k] / (i + 1), 1.0), caps[k])
        found.append((k, x, center, rate))
    return found


def slow_ends(log, weights, delta, planned):
    """Both ends for rewards in [0, 1] and the stated weights of STATES: row by row, in 50 digits."""
    mp.mp.dps = 50
    ends = []
    places = np.searchsorted(STATES[:, 0], log.observations[:, 0])
    ratios = TARGET[places, log.actions] / log.behavior_action_probs
    for sign, floor in ((1, 0), (-1, -1)):
        values = floor + ratios * (sign * log.rewards - floor)
        rows, parts = list(zip(places.tolist(), values.tolist(), strict=True)), []
        for multiple, most in Strategy().bets:
            bets = slow_rates(rows, weights, floor, planned, delta, multiple, most)
            exponent, sums = mp.mpf(0), [mp.mpf(0)] * 3
            for k, x, center, rate in bets:
                x, center, rate = map(mp.mpf, (x, center, rate))
                exponent += mp.log(1 + rate * (x - center)) + rate * (center - floor)
                sums[k] += rate
            total = max(one / mp.mpf(weight) for one, weight in zip(sums, weights, strict=True) if weight)
            parts.append((exponent, total))

        def wealth(mean, parts=parts):
            return mp.fsum(mp.exp(one - total * mean) / 2 for one, total in parts)

        low, high = mp.mpf(0), mp.mpf(1)
        for _ in range(45):
            middle = (low + high) / 2
            low, high = (middle, high) if wealth(middle) >= 1 / mp.mpf(delta) else (low, middle)
        ends.append(float(sign * (floor + low)))
    return ends


@pytest.mark.parametrize(("weights", "planned"), [((0.75, 0.0, 0.25), None), ((0.5, 0.25, 0.25), 400)])
def test_ends_are_those_of_a_slow_loop_in_fifty_digits(weights, planned):
    log = decisions(200, seed=5)
    result = asked(log, InitialStates.exact(STATES, weights), Propensities(planned_rows=planned), ThreeStates())
    low, high = slow_ends(log, weights, (0.1 - 0.001) / 2, planned or 200)  # a thousandth checks the propensities
    assert 0.0 < low < high < 1.0
    assert low - 1e-9 <= result.low <= low + 1e-11
    assert high - 1e-11 <= result.high <= high + 1e-9


def test_rates_see_nothing_later():
    rng = np.random.default_rng(0)
    values, places = rng.random(300), rng.integers(-1, 3, 300)
    strata = Strata(places, np.array([0.2, 0.3, 0.5]))

    def rates(values, strata):
        centers = strata.means(values, 0.5)
        return centers, BalancedRates(300, 0.05, 0.25, 1.0, 1.0, 0.75).of(strata, values - centers, centers)

    changed, moved = values.copy(), places.copy()
    changed[200:], moved[201:] = 7.0, 0
    for mine, other in zip(rates(values, strata), rates(changed, replace(strata, places=moved)), strict=True):
        assert np.array_equal(mine[:201], other[:201])


# --- coverage and length ------------------------------------------------------------------------------------------------


def ends_of(seed, weights, frequencies, alpha, method, n=250):
    """An interval for the stated weights from a log whose situations come with these frequencies, and the truth."""
    rng = np.random.default_rng(seed)
    situation = rng.choice(3, size=n, p=frequencies)
    action = (rng.random(n) >= BEHAVIOR[situation, 0]).astype(np.int64)
    reward = (rng.random(n) < REWARD[situation, action]) * 1.0
    log = one_step(STATES[situation], action, reward, behavior_action_probs=BEHAVIOR[situation, action])
    result = asked(log, InitialStates.exact(STATES, weights), method, ThreeStates(), alpha=alpha)
    return result.low, result.high, float(np.dot(weights, OF_STATE))


@pytest.mark.parametrize(
    ("weights", "frequencies", "alpha", "method"),
    [
        ((0.8, 0.2, 0.0), (0.2, 0.4, 0.4), 0.1, Propensities()),
        ((0.1, 0.1, 0.8), (0.5, 0.4, 0.1), 0.5, Propensities(max_ratio=LARGEST)),
    ],
)
def test_stated_starts_are_covered(weights, frequencies, alpha, method):
    """40 logs: more than 13 (30) misses have a probability below 1e-4 if the level holds."""
    found = [ends_of(seed, weights, frequencies, alpha, method) for seed in range(40)]
    misses = sum(not low <= truth <= high for low, high, truth in found)
    assert misses <= (13 if alpha == 0.1 else 30)
    assert np.mean([high - low for low, high, _ in found]) < 0.75


def test_the_mean_in_the_place_of_the_maximum_fails(monkeypatch):
    """The control: V as the mean over the stated states is the value over the log's own starts."""
    monkeypatch.setattr(Strata, "total", lambda _, rates: float(rates.sum()))
    found = [ends_of(seed, (0.5, 0.0, 0.5), (1.0, 0.0, 0.0), 0.1, Propensities(), n=1500) for seed in range(10)]
    assert sum(not low <= truth <= high for low, high, truth in found) >= 9
