"""The value of this log: the mean over its certified decisions, or over its certified episodes from their own starts (40)."""

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest

import bondic
from bondic.core.errors import VerificationError
from bondic.core.propensities.betting import Strategy
from bondic.core.question import Question
from bondic.decisions.gate import gate
from bondic.errors import TooFewRows
from bondic.methods.propensities import Propensities
from bondic.rows.decisions import read_decisions
from builders import part
from propensity_cases import (
    GAMMA,
    PI,
    STATES,
    STEPS,
    TARGET,
    B,
    ThreeStates,
    TwoStates,
    all_walks,
    decisions,
    drawn_walks,
    interval,
    one_step,
    question,
    walk_log,
    walk_value,
)

WALKS = {"policy": TwoStates(), "reward_range": (-0.5, 2.0), "gamma": GAMMA}


def changed(log, **columns):
    return bondic.Transitions(**({n: c for n, c in log.columns().items() if c is not None} | columns))


# --- the formula, in 50 digits --------------------------------------------------------------------------


def slow_end(values, floor, guess, most, rate, delta):
    """(40) for a mixture of the strategy's bets; a center is lowered where its bet would risk more than it may."""
    found, total = [], mp.mpf(guess)
    for multiple, risk in Strategy().bets:
        v, total, logs, centers = mp.mpf(rate) * multiple, mp.mpf(guess), mp.mpf(0), mp.mpf(0)
        for i, x in enumerate(values):
            center = min(total / (1 + i), floor + mp.mpf(risk) / v)
            logs, centers, total = logs + mp.log(1 + v * (x - center)), centers + center, total + x
        found.append((v, logs, centers / len(values)))

    def wealth(mean):
        exponents = [logs - len(values) * mp.log(1 + v * (mean - center)) for v, logs, center in found]
        return mp.fsum(map(mp.exp, exponents)) / len(found)

    low, high = mp.mpf(floor), mp.mpf(most)
    for _ in range(60):
        middle = (low + high) / 2
        fine = all(1 + v * (middle - center) > 0 for v, _, center in found)
        low, high = (middle, high) if not fine or wealth(middle) >= 1 / mp.mpf(delta) else (low, middle)
    return low


def slow_walk_values(log, first, sign):
    """v_0 + sum_t γ^t ρ_{0:t} (r_t + γ v - v) of the episodes from row `first` on, seen from one end."""
    worst = -0.5 if sign > 0 else -2.0
    least, found = mp.mpf(worst) / (1 - mp.mpf(GAMMA)), {}
    for row in range(first, len(log)):
        state, action = int(log.observations[row, 0]), int(log.actions[row])
        total, weight, t = found.get(log.episode_ids[row], (least, mp.mpf(1), 0))
        weight *= mp.mpf(PI[state, action]) / mp.mpf(B[state, action])
        later = mp.mpf(GAMMA) * least if not log.terminations[row] else 0
        total += mp.mpf(GAMMA) ** t * weight * (sign * mp.mpf(log.rewards[row]) + later - least)
        found[log.episode_ids[row]] = total, weight, t + 1
    return [total for total, _, _ in found.values()], least


@pytest.mark.parametrize("kind", ["decisions", "episodes"])
def test_ends_are_those_of_a_slow_loop_in_fifty_digits(kind):
    mp.mp.dps = 50
    if kind == "decisions":
        log, result = decisions(150, seed=8), interval(decisions(150, seed=8), Propensities())
    else:
        log = drawn_walks(120, seed=2)
        result = interval(log, Propensities(), **WALKS)
    (first, _), delta, ends = result.rows, result.proof.budget["lower"], []
    assert first > 0
    assert delta == pytest.approx((0.1 - 0.001) / 2)
    for sign, end in ((1, "lower"), (-1, "upper")):
        if kind == "decisions":
            places, floor = np.searchsorted(STATES[:, 0], log.observations[:, 0]), mp.mpf(min(sign, 0))
            ratios = [
                mp.mpf(x) / mp.mpf(y)
                for x, y in zip(TARGET[places, log.actions], log.behavior_action_probs, strict=True)
            ]
            values = [floor + ratio * (sign * mp.mpf(r) - floor) for ratio, r in zip(ratios, log.rewards, strict=True)][
                first:
            ]
            guess, most = floor + 0.5, floor + 1
        else:
            values, floor = slow_walk_values(log, first, sign)
            guess = (floor + (2 if sign > 0 else 0.5)) / 2
            most = 10 if sign > 0 else 2.5
        ends.append(float(sign * slow_end(values, floor, guess, most, result.proof.rates[end][0], delta)))
    low, high = ends
    assert low - 1e-8 <= result.low <= low + 1e-11  # rounded outward, and by no more than that
    assert high - 1e-11 <= result.high <= high + 1e-8


# --- what is planned does not know what comes later -------------------------------------------------------


@pytest.mark.parametrize("method", [Propensities(), Propensities(max_ratio=9.0), Propensities(pilot=60)])
@pytest.mark.parametrize("kind", ["decisions", "episodes"])
def test_rates_and_the_first_row_are_those_of_the_rows_before(kind, method):
    """Any certified row may be another one: an action, a reward, the lengths of later episodes."""
    rng = np.random.default_rng(0)
    asked = {} if kind == "decisions" else {**WALKS, "horizon": STEPS}
    log = decisions(600, seed=3) if kind == "decisions" else drawn_walks(300, seed=3)
    result = interval(log, method, **asked)
    first, rows = result.rows[0], np.arange(len(log))
    others = [changed(log, rewards=np.where(rows < first, log.rewards, rng.permutation(log.rewards)))]
    if kind == "decisions":
        actions = np.where(rows < first, log.actions, 1 - log.actions)
        others.append(changed(log, actions=actions))
    else:  # later episodes of one step each, or of three
        for length in (1, 3):
            paths = [path for path, _ in all_walks() if len(path) == length]
            head = part(log, slice(first))
            tail = part(walk_log([paths[k % len(paths)] for k in range(len(log))]), slice(len(log) - first))
            cut = np.array(tail.truncations)
            cut[-1] = not tail.terminations[-1]
            tail = changed(tail, episode_ids=tail.episode_ids + 10**6, truncations=cut)
            joined = {n: np.concatenate([c, getattr(tail, n)]) for n, c in head.columns().items() if c is not None}
            others.append(bondic.Transitions(**joined))
    for other in others:
        again = interval(other, method, **asked)
        assert again.rows == result.rows
        assert again.proof.planned == result.proof.planned
        assert again.proof.rates == result.proof.rates


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize(("count", "first"), [(900, 180), (6000, 300)])
def test_lengths_of_episodes_that_adapt_do_not_move_what_is_planned(count, first, adaptive):
    """Episodes of one step while they pay, of three else: how many there are is told by the rewards."""
    rng, rows = np.random.default_rng(5), []
    while len(rows) < count:
        length = 1 if not adaptive or len(rows) < count // 3 or rng.random() < 0.5 else 3
        rows += [(length, t) for t in range(length)]
    length, step = (np.array(one) for one in zip(*rows[:count], strict=True))
    ids = np.cumsum(step == 0)
    log = bondic.Transitions(
        np.zeros((count, 1)), rng.integers(0, 2, count), np.full(count, 0.5), np.zeros((count, 1)), step == length - 1,
        episode_ids=ids, timesteps=step, behavior_action_probs=np.full(count, 0.5),
    )  # fmt: skip
    half = bondic.CallablePolicy(lambda states: np.full((len(states), 2), 0.5))
    result = interval(log, Propensities(), policy=half, gamma=0.9, horizon=3)
    assert (result.rows[0], result.proof.planned) == (first, count - first)


# --- which episodes are certified ---------------------------------------------------------------------------


def interleaved(log, width, seed):
    """The same episodes, `width` of them at a time: rows in the order in which their steps come."""
    rng, open_rows, order = np.random.default_rng(seed), [], []
    waiting = [list(np.flatnonzero(log.episode_ids == e)) for e in np.unique(log.episode_ids)]
    while waiting or open_rows:
        while waiting and len(open_rows) < width:
            open_rows.append(waiting.pop(0))
            order.append(open_rows[-1].pop(0))
        k = int(rng.integers(len(open_rows)))
        if open_rows[k]:
            order.append(open_rows[k].pop(0))
        if not open_rows[k]:
            open_rows.pop(k)
    return part(log, np.array(order))


@pytest.mark.parametrize("method", [Propensities(), Propensities(pilot=40), Propensities(max_ratio=9.0)])
def test_episodes_side_by_side_are_certified_from_the_first_that_begins_after_the_pilot(method):
    log = interleaved(drawn_walks(200, seed=4), 4, 1)
    result = interval(log, method, **WALKS, horizon=STEPS)
    first, steps = result.rows[0], log.timesteps
    assert steps[first] == 0
    kept = np.unique(log.episode_ids[first:][steps[first:] == 0])
    assert not np.isin(kept, log.episode_ids[:first]).any()
    # the same rows of these episodes, one after the other behind the same pilot
    own = np.flatnonzero(np.isin(log.episode_ids, kept))
    tail = own[
        np.argsort(
            np.searchsorted(own, [own[log.episode_ids[own] == e][0] for e in log.episode_ids[own]]), kind="stable"
        )
    ]
    columns = read_decisions(
        question(log, TwoStates(), reward_range=(-0.5, 2.0), gamma=GAMMA, horizon=STEPS), None, every_action=False
    )
    alone = read_decisions(
        question(part(log, tail), TwoStates(), reward_range=(-0.5, 2.0), gamma=GAMMA, horizon=STEPS),
        None,
        every_action=False,
    )
    for end in ("lower", "upper"):
        mine = columns.since(first).from_end(end).free_estimators(1.0)[0].values
        assert np.array_equal(mine, alone.from_end(end).free_estimators(1.0)[0].values)
    checked = bondic.verify(result.certificate, log, TwoStates(), replay=True)
    assert (checked.low, checked.high) == pytest.approx((result.low, result.high), abs=1e-12)


def test_a_selection_may_begin_within_episodes():
    """Those that began before are left out, of the pilot as well; where none is left, that is said."""
    log = interleaved(drawn_walks(200, seed=4), 30, 1)
    problem = question(log, TwoStates(), reward_range=(-0.5, 2.0), gamma=GAMMA, horizon=STEPS)
    for start, pilot in ((1, 0.05), (33, 1), (38, 2), (200, 0.05)):
        result = bondic.estimate_interval(problem.select(start), method=Propensities(pilot=pilot))
        assert result.rows[0] > start
        assert walk_value(STEPS) in result.interval
        assert bondic.verify(result.certificate, log, TwoStates(), replay=True).low == pytest.approx(result.low)
    late = question(log, TwoStates(), reward_range=(-0.5, 2.0), gamma=GAMMA).select(len(log) - 2)  # two last steps
    with pytest.raises(TooFewRows, match="No episode of these 2 rows begins after a pilot"):
        bondic.estimate_interval(late, method=Propensities())


def test_last_steps_of_earlier_episodes_are_no_decisions():
    """Behind the pilot every episode has one step; what pays much are the second steps of those that began before it."""
    n = 40
    head = [(0, e, 0, False, 0.0) for e in range(n)]
    tail = [row for e in range(n) for row in ((1, e, 1, True, 1.0), (0, n + e, 0, True, 0.0))]
    state, episode, step, over, reward = map(np.array, zip(*head, *tail, strict=True))
    log = bondic.Transitions(
        state[:, None] * 1.0, np.arange(3 * n) % 2, reward, np.full((3 * n, 1), 1.0), over, episode_ids=episode, timesteps=step,
        behavior_action_probs=np.full(3 * n, 0.5),
    )  # fmt: skip
    half = bondic.CallablePolicy(lambda states: np.full((len(states), 2), 0.5))
    result = interval(log, Propensities(pilot=n), policy=half, gamma=0.5)
    assert result.rows == (n + 1, 3 * n)
    assert result.proof.columns(Question.value(result.question.select(*result.rows))).unit == "episode"
    assert result.proof.columns(Question.value(result.question.select(*result.rows))).units == n
    assert result.low == 0.0
    assert result.high < 0.25
    assert bondic.verify(result.certificate, log, half, replay=True).high == pytest.approx(result.high)


def test_episodes_of_one_step_before_longer_ones_are_replayed_as_episodes():
    paths, weights = zip(*all_walks(), strict=True)
    drawn = np.random.default_rng(1).choice(len(paths), 40, p=np.array(weights) / sum(weights))
    log = walk_log([next(path for path in paths if len(path) == 1)] * 30 + [paths[k] for k in drawn])
    for stated in ({}, {"horizon": STEPS}, {"value_range": (-1.5, 5.0)}):
        for method in (Propensities(), Propensities(max_ratio=2.25)):
            result = interval(log, method, **WALKS, **stated)
            assert result.rows[0] < 30
            assert bondic.verify(result.certificate, log, TwoStates(), replay=True).low == pytest.approx(result.low)


@pytest.mark.parametrize("rows", range(1, 11))
def test_the_shortest_logs_have_an_answer(rows):
    log = decisions(rows, seed=rows)
    result = bondic.evaluate_policy(log, ThreeStates(), gamma=0.0, reward_range=(0, 1), accept=None, categorical=True)
    assert -1e-12 <= result.low <= result.high <= 1 + 1e-12
    assert bondic.verify(result.certificate, log, ThreeStates(), replay=True).low == result.low
    walks = part(drawn_walks(rows, seed=rows), slice(rows))
    stated = {**WALKS, "horizon": STEPS, "accept": None, "categorical": True}
    result = bondic.evaluate_policy(walks, **stated)
    assert bondic.verify(result.certificate, walks, TwoStates(), replay=True).low == result.low


def test_rows_beyond_the_horizon_are_left_out_and_replayed():
    log = drawn_walks(400, seed=6)
    result = interval(log, Propensities(max_ratio=9.0), **WALKS, horizon=2)
    assert walk_value(2) in result.interval
    assert log.timesteps[result.rows[0]] == 0
    assert bondic.verify(result.certificate, log, TwoStates(), replay=True).low == pytest.approx(result.low)


def test_first_steps_of_episodes_are_the_decisions_without_discount():
    log = drawn_walks(400, seed=7)
    result = interval(log, Propensities(), **{**WALKS, "gamma": 0.0})
    assert (PI[0] * [1.0, -0.5]).sum() in result.interval
    assert result.proof.columns(Question.value(question(
        log, TwoStates(), reward_range=(-0.5, 2.0)).select(*result.rows))).unit == "episode"  # fmt: skip
    assert bondic.verify(result.certificate, log, TwoStates(), replay=True).low == pytest.approx(result.low)


# --- worlds that move -----------------------------------------------------------------------------------


def drifting(n, seed, top=0.9, bottom=0.2):
    """Both actions pay alike, less and less; the mean of the reward at every row."""
    rng, mean = np.random.default_rng(seed), np.linspace(top, bottom, n)
    rewards = (rng.random(n) < mean).astype(float)
    log = one_step(np.zeros((n, 1)), rng.integers(0, 2, n), rewards, behavior_action_probs=np.full(n, 0.5))
    return log, mean


def second(states):
    return np.tile([0.2, 0.8], (len(states), 1))


ASKED = {"gamma": 0.0, "reward_range": (0.0, 1.0)}


@pytest.mark.filterwarnings("ignore:The log does not stand still")
def test_a_monitor_of_a_drift_is_about_the_rows_so_far():
    """And is not rejected by it: a statement of a population is."""
    missed, rejected = 0, 0
    for seed in range(15):
        log, mean = drifting(3000, seed)
        monitors = [
            bondic.SequentialMonitor(second, **ASKED, planned_rows=3000, population=stated) for stated in (None, "iid")
        ]
        wrong = False
        for stop in (600, 1200, 1800, 2400, 3000):
            for monitor in monitors:
                result = monitor.update(part(log, slice(stop - 600, stop)))
                if monitor is monitors[0]:
                    assert result.status is bondic.Status.INTERVAL
                    assert tuple(monitor.interval) == (result.low, result.high)
                    wrong |= not result.low <= mean[slice(*result.rows)].mean() <= result.high
        missed += wrong
        rejected += monitors[1].status is bondic.Status.REJECTED
    assert missed <= 4  # all updates of 15 monitors at .1: more with a chance of .01
    assert rejected >= 12


def test_a_gate_on_a_drift_approves_nothing_false(tmp_path):
    """Earlier rows paid more than is required, the rows so far do not: an approval of the first look does not stay."""
    wrong = 0
    for seed in range(10):
        log, mean = drifting(3000, seed)
        for stated in (None, "iid"):
            verdicts = []
            for stop in (1000, 2000, 3000):
                problem = bondic.make_problem(part(log, slice(stop)), second, **ASKED, population=stated, accept=None)
                found = gate(
                    problem,
                    above=0.62,
                    method=bondic.Default(planned_rows=3000),
                    state=tmp_path / f"{seed}{stated}.json",
                )
                verdicts.append(found.verdict)
                false = found.verdict == "approve" and mean[slice(*found.result.rows)].mean() < 0.62
                wrong += false and stated is None
            assert stated or verdicts[0] == "approve"  # which was right then
    assert wrong == 0


def test_episodes_of_a_drift_are_covered():
    """Two steps; what they pay falls. Truth: the mean over the certified episodes."""
    missed = 0
    for seed in range(25):
        rng, n = np.random.default_rng(seed), 800
        mean = np.repeat(np.linspace(0.9, 0.1, n), 2)
        log = bondic.Transitions(
            np.tile([0.0, 1.0], n)[:, None], rng.integers(0, 2, 2 * n), (rng.random(2 * n) < mean).astype(float),
            np.ones((2 * n, 1)), np.tile([False, True], n), episode_ids=np.repeat(np.arange(n), 2),
            timesteps=np.tile([0, 1], n), behavior_action_probs=np.full(2 * n, 0.5),
        )  # fmt: skip
        result = bondic.evaluate_policy(log, second, gamma=0.9, horizon=2, reward_range=(0, 1), accept=None)
        assert result.method == "propensities"
        truth = 1.9 * mean[slice(*result.rows)].mean()
        missed += not result.low <= truth <= result.high
    assert missed <= 6  # at .1: more with a chance of .01


# --- certificates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["decisions", "episodes"])
@pytest.mark.parametrize("streamed", [False, True])
def test_default_certificates_are_verified_and_replayed(kind, streamed):
    log = decisions(900) if kind == "decisions" else drawn_walks(500, seed=9)
    policy = ThreeStates() if kind == "decisions" else TwoStates()
    stated = {**ASKED} if kind == "decisions" else {"gamma": GAMMA, "horizon": STEPS, "reward_range": (-0.5, 2.0)}
    held = bondic.evaluate_policy(log, policy, **stated, accept=None)
    assert held.method == "propensities"
    assert held.proof.estimand.start.kind == "log"
    assert bondic.verify(held.certificate, log, policy, replay=True).low == pytest.approx(held.low, abs=1e-12)
    if streamed:
        stream = bondic.stream_log({n: c for n, c in log.columns().items() if c is not None}, batch_rows=128)
        again = bondic.evaluate_policy(stream, policy, **stated, accept=None)
        assert (again.low, again.high, again.rows) == (held.low, held.high, held.rows)
        assert bondic.verify(again.certificate, stream, policy).low == again.low
        assert bondic.verify(again.certificate, log, policy, replay=True).low == pytest.approx(held.low, abs=1e-12)


@pytest.mark.parametrize("method", [Propensities(), bondic.Table()])
def test_starts_that_are_not_those_of_the_log_cannot_be_called_so(method):
    log = decisions(600)
    problem = question(log)
    proof = bondic.estimate_interval(problem, method=method).proof
    states = problem.initial_states
    for other in (states.observations[::-1], np.full_like(states.observations, 2.0)):
        first = replace(proof.estimand.policies[0].start, observations=other)
        policies = (replace(proof.estimand.policies[0], start=first),)
        forged = replace(proof, estimand=replace(proof.estimand, policies=policies))
        certificate = bondic.estimate_interval(problem, method=method).certificate.with_proof(forged)
        with pytest.raises(VerificationError):
            bondic.verify(certificate, log, ThreeStates())


def test_a_table_beside_todays_value_starts_where_its_episodes_do():
    """Episodes without propensities whose starts move: both are means over the episodes that today's value is about."""
    rng, n = np.random.default_rng(3), 3000
    start = (rng.random(n) < np.linspace(0.0, 1.0, n)).astype(float)  # state 1 pays, and comes more and more often
    reward = (rng.random(n) < 0.1 + 0.8 * start).astype(float)
    log = bondic.Transitions(
        start[:, None], rng.integers(0, 2, n), reward, start[:, None], np.ones(n, bool), episode_ids=np.arange(n)
    )
    result = bondic.evaluate_policy(
        log, second, gamma=0.5, reward_range=(0, 1), against="today", method=bondic.Table(), accept=None
    )
    first = result.proof.parts[1].estimand.rows[0]
    truth = (0.1 + 0.8 * start[first:]).mean()
    states = result.proof.parts[0].estimand.start
    assert first > 0
    assert np.array_equal(np.flatnonzero(states.weights), np.arange(first, n))
    assert result.parts[0].low <= (0.1 + 0.8 * start).mean() <= result.parts[0].high  # by itself: all starts of the log
    assert result.parts[1].low <= truth <= result.parts[1].high
    assert result.low <= 0.0 <= result.high
    checked = bondic.verify(result.certificate, log, second, replay=True)
    assert (checked.low, checked.high) == pytest.approx((result.low, result.high), abs=1e-9)


def test_propensities_of_all_rows_are_checked_by_themselves():
    """A target that never meets the wrong ones is rejected as well, and alpha is spent once."""
    log = decisions(3000)
    wrong = changed(
        log,
        behavior_action_probs=np.where(log.actions == 1, 0.5 * log.behavior_action_probs, log.behavior_action_probs),
    )
    keep = bondic.CallablePolicy(lambda states: np.tile([1.0, 0.0], (len(states), 1)))
    result = interval(wrong, Propensities(), policy=keep)
    assert result.status is bondic.Status.REJECTED
    assert "action 1" in result.choices["propensities"]
    assert bondic.verify(result.certificate, wrong, keep).status == "REJECTED"
    fine = interval(log, Propensities(), policy=keep)
    assert fine.status is bondic.Status.INTERVAL
    assert sum(fine.proof.budget.parts.values()) == pytest.approx(0.1)
    assert fine.proof.budget["propensities"] == pytest.approx(0.001)
