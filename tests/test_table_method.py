"""`Table` on small problems whose values are known: coverage, what a plan may see, certificates, and who is refused."""

from dataclasses import replace

import numpy as np
import pytest

import bondic
from bondic.core.cells import system
from bondic.core.cells.allowance import Allowance
from bondic.core.cells.ends import EndWeights
from bondic.core.cells.localize import CellTails, VectorEvent
from bondic.core.cells.proof import CellsProof
from bondic.core.cells.rows import TableCells
from bondic.core.claims import ErrorBudget
from bondic.core.codec import same
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.question import Question
from bondic.engines.sums import STANDARD
from bondic.methods import on_tables
from bondic.methods.base import describe
from bondic_lab.worlds.tabular import TabularMDP
from builders import as_log, part

GAMMA = 0.6


def small_world(seed=3, states=3, **more):
    settings = {"n_states": states, "n_actions": 2, "gamma": GAMMA, "termination": 0.2, "reward_noise": 0.1}
    return TabularMDP.random(np.random.default_rng(seed), **settings | more)


def every_state(mdp):
    return np.arange(mdp.initial_probs.size, dtype=float)[:, None]


def problem_of(mdp, log, initial=None, **statements):
    initial = initial or bondic.InitialStates.exact(every_state(mdp), mdp.initial_probs)
    more = {"gamma": mdp.gamma, "reward_range": mdp.reward_range, "accept": None, **statements}
    return bondic.make_problem(log, bondic.TablePolicy(mdp.target), initial, **more)


def log_of(mdp, seed, episodes=100, length=12):
    return as_log(mdp.rollout(episodes, length, np.random.default_rng([seed, 8])))


@pytest.fixture(scope="module")
def world():
    mdp = small_world()
    log = log_of(mdp, 1, 250)
    return mdp, log, problem_of(mdp, log)


@pytest.fixture(scope="module")
def honest(world):
    return bondic.estimate_interval(world[2], method=bondic.Table())


# --- coverage -------------------------------------------------------------------------------------------

HORIZON = 2


def exact_list(mdp, seed):
    return problem_of(mdp, log_of(mdp, seed)), mdp.value


def never_ending(mdp, seed):
    mdp = replace(mdp, termination=np.zeros_like(mdp.termination))
    return problem_of(mdp, log_of(mdp, seed, 120)), mdp.value


def drawn_starts(mdp, seed):
    starts = bondic.InitialStates.sample(mdp.starts(400, np.random.default_rng([seed, 9])))
    return problem_of(mdp, log_of(mdp, seed), starts), mdp.value


def own_starts(mdp, seed):
    """The mean over the starts of the log, whatever they are."""
    log = log_of(mdp, seed, 150)
    start = bondic.InitialStates.from_log(log)
    return problem_of(mdp, log, start), float(mdp.v_star[start.observations[:, 0].astype(int)].mean())


def population(mdp, seed):
    log = log_of(mdp, seed, 150)
    return problem_of(mdp, log, bondic.InitialStates.from_log(log, population="iid")), mdp.value


def horizon(mdp, seed):
    return problem_of(mdp, log_of(mdp, seed, 2000, HORIZON), horizon=HORIZON, gamma=1.0), mdp.finite_value(HORIZON)


SETTINGS = (exact_list, never_ending, drawn_starts, own_starts, population, horizon)


@pytest.mark.parametrize("make", SETTINGS, ids=lambda make: make.__name__)
def test_coverage(make):
    """8 logs for each of six ways to ask, where many may miss; rejections are misses. Seeds are fixed."""
    missed, lengths, repeats, alpha = 0, [], 8, 0.5
    for seed in range(repeats):
        mdp = small_world(seed % 4, gamma=1.0 if make is horizon else GAMMA)
        problem, truth = make(mdp, seed)
        side = ("both", "both", "lower", "upper")[seed % 4]
        result = bondic.estimate_interval(problem, alpha=alpha, method=bondic.Table(side=side, pilot=60))
        missed += result.status is bondic.Status.REJECTED or not result.low <= truth <= result.high
        lengths.append((result.high - result.low) / result.value_range.width)
        if side != "both":
            free = result.high if side == "lower" else result.low
            assert free == (result.value_range.high if side == "lower" else result.value_range.low)
    assert missed <= alpha * repeats
    assert np.median(lengths) < 0.97


def test_lengths_are_predicted_by_the_pilot():
    """Within a factor of 2.5, one-sided, with sampled starts and at a value near the end of its range."""
    for make, side in ((exact_list, "both"), (exact_list, "upper"), (drawn_starts, "both"), (own_starts, "upper")):
        problem, _ = make(small_world(), 3)
        method = bondic.Table(side=side, pilot=120)
        result = bondic.estimate_interval(problem, method=method)
        assert 0.4 <= method.predicted_length(problem, 0.1) / (result.high - result.low) <= 2.5


# --- options --------------------------------------------------------------------------------------------


def test_one_side_spends_all_of_alpha_on_it(world):
    problem = world[2]
    both = bondic.estimate_interval(problem, method=bondic.Table())
    lower = bondic.estimate_interval(problem, method=bondic.Table(side="lower"))
    assert lower.low > both.low
    assert lower.high == lower.value_range.high
    assert lower.budget.parts.keys() == {"vector", "cells", "lower"}
    assert sum(lower.budget.parts.values()) == pytest.approx(0.1)


def test_that_the_world_stays_the_same_is_stated_by_tables_and_not_needed_by_propensities(world):
    """Rows that are far apart in time speak about one function q*; bets on decisions compare each with itself."""
    mdp, log, _ = world
    log = bondic.Transitions.one_step(
        log.observations, log.actions, log.rewards, behavior_action_probs=log.behavior_action_probs
    )
    problem = bondic.make_problem(log, bondic.TablePolicy(mdp.target), gamma=0.0, reward_range=(0.0, 1.0), accept=None)
    for method, named in ((bondic.Table(), True), (bondic.Dual(radius=5.0), True), (bondic.Propensities(), False)):
        result = bondic.estimate_interval(problem, method=method)
        for items in (result.assumptions, bondic.verify(result.certificate, log).assumptions):
            states = {item.name: item.state for item in items}
            assert states.get("world") == ("stated" if named else None)


def test_actions_that_were_never_logged_leave_the_range(world):
    """The policy takes action 1 alone, the log action 0 alone: nothing is stated, and nothing fails."""
    mdp, log, _ = world
    log = part(log, np.asarray(log.actions) == 0, drop=("behavior_action_probs",))
    always = bondic.TablePolicy(np.tile([0.0, 1.0], (3, 1)))
    starts = bondic.InitialStates.exact(every_state(mdp), mdp.initial_probs)
    problem = bondic.make_problem(log, always, starts, gamma=GAMMA, reward_range=(0, 1), accept=None)
    result = bondic.estimate_interval(problem, method=bondic.Table())
    assert (result.low, result.high) == (result.value_range.low, result.value_range.high)


class TwoAnswers:
    """Another answer every time it is asked: no function of the state."""

    n_actions = 2

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def action_probs(self, observations):
        return self.rng.dirichlet(np.ones(2), size=len(observations))


def test_a_policy_with_several_answers_at_one_state_is_refused(world):
    mdp, log, _ = world
    starts = bondic.InitialStates.exact(every_state(mdp), mdp.initial_probs)
    with pytest.raises(bondic.BondicError, match="differently when it is queried again in another order"):
        bondic.make_problem(log, TwoAnswers(), starts, gamma=GAMMA, reward_range=(0, 1), accept=None)


# --- what a plan may see --------------------------------------------------------------------------------


def scrambled(log, first):
    """Another law from row `first` on: states renamed, actions swapped, other rewards."""
    later = np.arange(len(log.rewards)) >= first
    turned = {
        name: np.where(later[:, None], (np.asarray(getattr(log, name)) + 1) % 3, getattr(log, name))
        for name in ("observations", "next_observations")
    }
    other = np.random.default_rng(first).random(later.size)
    actions, rewards = np.where(later, 1 - np.asarray(log.actions), log.actions), np.where(later, other, log.rewards)
    return part(log, actions=actions, rewards=rewards, **turned)


def plan_of(problem, **options):
    return bondic.Table(**options).plan(problem, 0.1).events


@pytest.mark.parametrize("start", ["exact", "own", "iid"])
def test_weights_of_a_block_do_not_see_later_rows(world, start):
    """From the rows of a block on everything is another: the weights of that block and of those before are the same bits."""
    mdp, log, _ = world
    log = part(log, drop=("behavior_action_probs",))

    def plan(rows):
        own = (
            None
            if start == "exact"
            else bondic.InitialStates.from_log(rows, population="iid" if start == "iid" else None)
        )
        return plan_of(problem_of(mdp, rows, own))

    honest = plan(log)
    stops = (honest.provenance.rows[1], *honest.stops)
    for block in (0, 1, 5, len(stops) - 2):
        again = plan(scrambled(log, stops[block]))
        assert again.stops == honest.stops
        assert again.vector.rates == honest.vector.rates
        assert np.array_equal(again.cells.rates, honest.cells.rates)
        for end, tail in honest.tails.items():
            mine, theirs = tail.weights, again.tails[end].weights
            assert np.array_equal(mine[: block + 1], theirs[: block + 1])
            assert np.array_equal(honest.quotas[: block + 1], again.quotas[: block + 1])
            if block < len(stops) - 2:  # and it is a plan of these rows
                assert not np.array_equal(mine[block + 1 :], theirs[block + 1 :])
    assert plan(scrambled(log, 10)).vector.rates != honest.vector.rates


@pytest.mark.parametrize("limit", [None, ("MAX_TOGETHER", 20), ("_MAX_DIFFERENCES", 600), ("_MAX_DIFFERENCES", 3000)])
def test_new_states_later_change_earlier_weights_by_rounding_at_most(world, monkeypatch, limit):
    """The equations have another size then; cells keep their numbers. A limit of sizes between both must not be met by it."""
    mdp, log, _ = world
    plain = part(log, drop=("behavior_action_probs", "episode_ids", "timesteps"))
    more = np.asarray(plain.observations).copy()
    policy, n = np.vstack([mdp.target, mdp.target[:2]]), len(plain.rewards)
    more[int(0.9 * n) :: 7] += 3.0
    starts = bondic.InitialStates.exact(every_state(mdp), mdp.initial_probs)

    def asked(rows):
        return bondic.make_problem(
            rows,
            bondic.TablePolicy(np.vstack([policy, policy[:1]])),
            starts,
            gamma=GAMMA,
            reward_range=(0, 1),
            accept=None,
        )

    if limit is not None:
        name, value = limit
        for module in (on_tables, system):
            monkeypatch.setattr(module, name, value, raising=module is on_tables)
    one, two = plan_of(asked(plain)), plan_of(asked(part(plain, observations=more)))
    assert two.reference.size > one.reference.size
    assert two.eras == one.eras
    cells = one.reference.size
    assert (two.past.count[:cells] == one.past.count).all()
    np.testing.assert_allclose(two.past.outcome[:cells], one.past.outcome, rtol=1e-9)
    before = [k for k, stop in enumerate(one.stops) if stop <= 0.9 * n]
    for end, tail in one.tails.items():
        mine = tail.weights[before]
        assert np.array_equal(two.quotas[before][:, : mine.shape[1]], one.quotas[before])
        np.testing.assert_allclose(two.tails[end].weights[before][:, : mine.shape[1]], mine, rtol=1e-9, atol=1e-12)
        assert two.tails[end].rate == pytest.approx(tail.rate, rel=1e-9)
    known = two.cells.rates[:, : one.reference.size]
    np.testing.assert_allclose(known, one.cells.rates, rtol=1e-9)
    assert not two.cells.rates[:, one.reference.size :].any()


@pytest.mark.parametrize("rows", [1200, 2000, 2600])
def test_with_a_planned_length_the_plan_does_not_see_the_length(rows):
    """A log that ends early, in time, or late: the same pilot, blocks, rates and weights."""
    mdp = replace(small_world(), termination=np.zeros((3, 2)))
    whole = part(log_of(mdp, 5, 260, 10), drop=("behavior_action_probs", "episode_ids", "timesteps"))
    assert len(whole.rewards) == 2600

    def plan(n):
        return plan_of(problem_of(mdp, part(whole, slice(0, n))), planned_rows=2000)

    usual, other = plan(2000), plan(rows)
    assert usual.stops[:-1] == other.stops[:-1]
    assert usual.vector.rates == other.vector.rates
    assert np.array_equal(usual.cells.rates, other.cells.rates)
    shared = [k for k, stop in enumerate(usual.stops[:-1]) if stop <= rows]
    for end, tail in usual.tails.items():
        assert np.array_equal(tail.weights[shared], other.tails[end].weights[shared])
        if rows >= 2000:
            assert np.array_equal(tail.weights, other.tails[end].weights)
    result = bondic.estimate_interval(
        problem_of(mdp, part(whole, slice(0, rows))), method=bondic.Table(planned_rows=2000)
    )
    length = next(item for item in result.assumptions if item.name == "length")
    assert "2000 rows were planned" in length.text


# --- batches --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [97, 400])
def test_a_streamed_log_gives_the_same_bits(world, honest, batch):
    mdp, log, _ = world
    columns = {name: column for name, column in log.columns().items() if column is not None}
    result = bondic.estimate_interval(
        problem_of(mdp, bondic.stream_log(columns, batch_rows=batch)), method=bondic.Table()
    )
    assert (result.low, result.high, result.estimate) == (honest.low, honest.high, honest.estimate)
    assert result.claims == honest.claims
    assert same(result.proof.events, honest.proof.events)
    assert same(result.proof.cells, honest.proof.cells)


# --- certificates ---------------------------------------------------------------------------------------


def certificate_of(problem, proof, method=None):
    """With claims, digest and words on the planner that fit."""
    method = method or bondic.Table()
    rows = problem.select(*proof.estimand.rows)
    return bondic.Result.of(proof, rows, method="table", planner=describe("table", method, problem)).certificate


def changed_events(proof, **changes):
    return replace(proof, events=replace(proof.events, **changes))


@pytest.mark.parametrize("start", ["sample", "own"])
@pytest.mark.parametrize(
    "options", [{}, {"side": "upper", "pilot": 100, "planned_rows": 3000}], ids=["plain", "options"]
)
def test_honest_certificates_pass_a_replay(world, start, options):
    mdp, log, _ = world
    drawn = bondic.InitialStates.sample(mdp.starts(300, np.random.default_rng(2)))
    initial = drawn if start == "sample" else bondic.InitialStates.from_log(log)
    problem = problem_of(mdp, log, initial)
    result = bondic.estimate_interval(problem, method=bondic.Table(**options))
    checked = bondic.verify(result.certificate, log, bondic.TablePolicy(mdp.target), replay=True)
    assert (checked.low, checked.high) == pytest.approx((result.low, result.high), abs=1e-9)


def test_a_reference_may_come_from_anywhere(world, honest):
    """It changes the length and nothing else; a replay does not ask where it is from."""
    mdp, log, problem = world
    rng = np.random.default_rng(0)
    other = changed_events(honest.proof, reference=honest.proof.events.reference + 0.05 * rng.normal(size=6))
    checked = bondic.verify(certificate_of(problem, other), log, bondic.TablePolicy(mdp.target), replay=True)
    assert checked.low <= mdp.value <= checked.high


def forgeries(proof):
    """Plans that another planner would have made."""
    events, tails = proof.events, proof.events.tails
    bold = {end: EndWeights(tail.weights * 1.01, tail.rate) for end, tail in tails.items()}
    last = {
        end: EndWeights(np.vstack([tail.weights[:-1], 0 * tail.weights[-1:]]), tail.rate) for end, tail in tails.items()
    }
    states = proof.cells.states
    yield "weights", changed_events(proof, tails=bold)
    yield "the last block's weights", changed_events(proof, tails=last)
    yield "quotas", changed_events(proof, quotas=events.quotas + 1.0)
    yield "rows before", changed_events(proof, past=replace(events.past, outcome=events.past.outcome + 0.5))
    yield "eras", changed_events(proof, eras=events.eras[:-1])
    yield (
        "rates of the vector event",
        changed_events(proof, vector=VectorEvent(events.vector.shape, tuple(0.9 * r for r in events.vector.rates))),
    )
    yield (
        "the shape of the vector event",
        changed_events(proof, vector=VectorEvent(events.vector.shape * 0.9, events.vector.rates)),
    )
    yield "rates of cells", changed_events(proof, cells=CellTails(events.cells.rates * 0.7))
    yield "fewer events of cells", changed_events(proof, cells=CellTails(events.cells.rates[:1]))
    yield "other blocks", changed_events(proof, stops=(events.stops[0] - 7, *events.stops[1:]))
    yield "states in another order", replace(proof, cells=TableCells(states[::-1].copy()))
    parts = {name: proof.budget.alpha / len(proof.budget.parts) for name in proof.budget.parts}
    yield "another split of alpha", replace(proof, budget=ErrorBudget(proof.budget.alpha, parts))


@pytest.mark.parametrize("kind", range(12))
def test_forged_plans_are_refused_by_a_replay(world, honest, kind):
    """Plain verification cannot see it, and says so."""
    mdp, log, problem = world
    name, proof = list(forgeries(honest.proof))[kind]
    certificate, policy = certificate_of(problem, proof), bondic.TablePolicy(mdp.target)
    assert "when the plan was made" in bondic.verify(certificate, log, policy, replay=False).headline
    with pytest.raises(VerificationError, match=r"proof|plan"):
        bondic.verify(certificate, log, policy, replay=True)
    assert name


def test_proofs_that_are_none_are_refused(world, honest):
    problem, proof = world[2], honest.proof
    assert isinstance(proof, CellsProof)
    for changes, match in (
        ({"allowance": Allowance(0.1)}, "needs no allowance"),
        ({"planned": 0}, "planned"),
        ({"side": "upper"}, "weights of an end"),
        ({"budget": ErrorBudget(0.1, {"vector": 0.02, "lower": 0.04, "upper": 0.04})}, "no part of alpha"),
    ):
        with pytest.raises(VerificationError, match=match):
            replace(proof, **changes)
    events = proof.events
    for changes, match in (
        ({"stops": events.stops[::-1]}, "follow one another"),
        ({"stops": ()}, "follow one another"),
        ({"reference": np.zeros(2)}, "other cells"),
        ({"cells": CellTails(np.zeros((1, 2)))}, "other cells"),
    ):
        with pytest.raises(VerificationError, match=match):
            replace(events, **changes)
    for states, match in ((np.zeros((2, 1)), "all different"), (np.full((1, 1), np.nan), "finite")):
        with pytest.raises(InvalidInput, match=match):
            TableCells(states)
    few = TableCells(proof.cells.states[:2])
    shorter = replace(proof, cells=few)
    with pytest.raises((InvalidInput, VerificationError)):
        shorter.claims(Question.value(problem.select(*proof.estimand.rows)), STANDARD)
    early = replace(proof, events=replace(events, stops=(*events.stops[:-1], events.stops[-1] - 2)))
    with pytest.raises(InvalidInput, match="end before the rows do"):
        early.claims(Question.value(problem.select(*proof.estimand.rows)), STANDARD)


def test_a_certificate_without_rows_has_no_pair_of_few_rows(world):
    """The reference at a pair with one row is its outcome; weights after a short pilot know what followed single rows."""
    mdp, log, problem = world
    with pytest.raises(InvalidInput, match=r"fewer than 5 rows.*fewest_rows=5"):
        bondic.estimate_interval(problem, method=bondic.Table(pilot=20)).without_rows(problem)
    longer = bondic.estimate_interval(problem, method=bondic.Table(pilot=500))
    bare = longer.without_rows(problem)
    checked = bondic.verify(bare.certificate, log, bondic.TablePolicy(mdp.target), replay=True)
    assert (checked.low, checked.high) == pytest.approx((longer.low, longer.high), abs=1e-9)
    pairs = np.asarray(log.observations)[:, 0] * 2 + np.asarray(log.actions)
    once = np.flatnonzero((pairs == 0) & (np.arange(pairs.size) >= 500))[1:]  # one certified row of a pair
    rare = problem_of(mdp, part(log, np.setdiff1d(np.arange(pairs.size), once), drop=("episode_ids", "timesteps")))
    with pytest.raises(InvalidInput, match="fewer than 5 rows"):
        bondic.estimate_interval(rare, method=bondic.Table(pilot=500)).without_rows(rare)


# --- states ---------------------------------------------------------------------------------------------


def test_starts_that_all_lie_in_the_pilot_say_no_more_when_they_are_verified():
    """No start follows the pilot: nothing is known of d_0, and a verifier must not take another bound for it."""
    rng, n = np.random.default_rng(0), 4000
    actions, states = rng.integers(0, 2, n), np.zeros(n + 1, dtype=int)
    for row in range(n):
        states[row + 1] = int(rng.random() < 0.3 + 0.4 * actions[row])
    rewards = (rng.random(n) < 0.2 + 0.5 * states[:n]).astype(float)
    episodes = np.minimum(np.arange(n), 150)
    keys = {"episode_ids": episodes, "timesteps": np.where(episodes < 150, 0, np.arange(n) - 150)}
    log = bondic.Transitions(states[:n, None], actions, rewards, states[1:, None], episodes < 150, **keys)
    ask = {"gamma": 0.5, "reward_range": (0, 1), "method": bondic.Table()}
    found = bondic.evaluate_policy(log, lambda x: np.tile([0.3, 0.7], (len(x), 1)), population="iid", **ask)
    assert found.proof.events.start is None
    checked = bondic.verify(found.certificate, log)
    assert (checked.low, checked.high) == (found.low, found.high)
    assert checked.status == found.status.name == "TRIVIAL"
