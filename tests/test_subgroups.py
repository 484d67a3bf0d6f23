"""Values by subgroup of the starts: one event for all of them (29), units of their own for propensities, and how it is shown."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import bondic
from bondic.core.cells import ends as cell_ends
from bondic.core.cells.allowance import CellAllowance
from bondic.core.cells.ends import end_terms
from bondic.core.cells.localize import locate
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.question import Question
from bondic.core.starts import start_cost
from bondic.core.subgroups import conclude_by_subgroup, shares
from bondic.core.sums.reference import REFERENCE
from bondic.decisions.curves import radius_curve
from bondic.decisions.difference import difference_interval
from bondic.decisions.subgroups import subgroup_problems
from bondic.methods.propensities import Propensities
from bondic.rows.estimand import rebuild
from bondic.rows.subgroups import labels_by
from builders import part
from cells_cases import just_so, random_cell_tails, random_event, random_tail, starts_of, tail_surplus, true_allowance
from test_cells_event import MIN_LOG, draw_case
from test_cells_readings import ROWS, certain_log, ends, setting, two_states
from test_tool import run

# --- (29), on every log on which the events hold ----------------------------------------------------------


def many_starts(seed):
    """For each of twelve d_g: whether an end is wrong, and whether one beats the value range; shared weights, sharp events."""
    rng, world, log, blocks, reference = draw_case(seed)
    worlds = [world, *(replace(world, starts=rng.dirichlet(np.full(world.size[0], 0.3))) for _ in range(11))]
    needed = [true_allowance(replace(log, world=one)) for one in worlds]
    allowance = CellAllowance(
        *(np.max([getattr(one, name) for one in needed], axis=0) for name in ("averages", "single"))
    )
    events = just_so(log, random_event(rng, world), random_cell_tails(rng, log), MIN_LOG)
    ground, found = log.ground(blocks, reference, events), []
    located = locate(ground, allowance)
    for sign in (1.0, -1.0):
        tail = random_tail(rng, log, ground.system.tally, sign)
        probability = math.exp(-max(tail_surplus(log, tail), MIN_LOG)) * (1 - 1e-12)
        for one in worlds:
            end = end_terms(located, starts_of(one), tail, sign, probability)
            bound = sign * end.value.mid + end.value.rad + end.spread
            found.append((sign * one.value > bound, bound < max(sign, 0.0) * world.high))
    return np.array(found)


def test_every_distribution_of_starts_is_covered_on_the_one_event():
    """The formula itself has a twin in 50 digits with arbitrary starts (test_cells_algebra)."""
    found = np.concatenate([many_starts(seed) for seed in range(96)])
    assert not found[:, 0].any()
    assert found[:, 1].sum() >= 100, "ends that say less than the range cannot be wrong"


def test_the_balance_of_other_starts_is_caught(monkeypatch):
    """μ of d_0 in place of μ + Λ (ψ_g - ψ_0)."""
    honest, seen = cell_ends._balance, []

    def of_the_first(tally, starts, tail, sign):
        seen.append((tally, starts))
        first = next(other for one, other in seen if one is tally)
        return honest(tally, first, tail, sign)

    monkeypatch.setattr(cell_ends, "_balance", of_the_first)
    assert np.concatenate([many_starts(seed) for seed in range(48)])[:, 0].sum() >= 10


def test_the_start_averages_of_one_distribution_are_not_those_of_another():
    """Half of the rows, and of the starts, at the state that pays: averages are alike. From that state alone they are not."""
    world, state = two_states(start=0.5), np.arange(ROWS) % 2
    log = certain_log(world, state, np.zeros(ROWS, dtype=np.int64))
    only = replace(world, starts=np.array([1.0, 0.0]))
    ground, weights, rate = setting(log, 1), np.full((1, 1), 0.02), 0.02 * ROWS
    needed = [true_allowance(replace(log, world=one)) for one in (world, only)]
    assert [float(one.averages[0]) for one in needed] == pytest.approx([0.0, 0.5], abs=1e-9)
    _, high = ends(locate(ground, needed[0]), only, weights, rate)
    assert high < only.value - 0.3
    low, high = ends(locate(ground, needed[1]), only, weights, rate)
    assert low <= only.value <= high


# --- proofs, against themselves from other starts ---------------------------------------------------------

MOVE = np.array([[[0.5, 0.2, 0.3], [0.1, 0.6, 0.3]], [[0.3, 0.3, 0.4], [0.1, 0.4, 0.5]]])  # the last one is the end
GAIN = np.array([[0.9, 0.1], [0.4, 0.6]])
POLICY = np.array([[0.7, 0.3], [0.2, 0.8]])
GAMMA = 0.8


def policy(states):
    return POLICY[states[:, 0].astype(int)]


def value_from(state, table=POLICY):
    following = np.einsum("sat,sa->st", MOVE[:, :, :2], table)
    return float(np.linalg.solve(np.eye(2) - GAMMA * following, (table * GAIN).sum(axis=1))[state])


def episodes(rng, count):
    """Starts at 0 three times of four; the last row of an episode ends it."""
    rows = []
    for episode in range(count):
        state, step = int(rng.random() < 0.25), 0
        while state < 2:
            action = int(rng.random() < 0.5)
            after = int(rng.choice(3, p=MOVE[state, action]))
            rows.append(
                (state, action, float(rng.random() < GAIN[state, action]), after % 2, after == 2, episode, step)
            )
            state, step = after, step + 1
    state_, action, reward, after_, ended, episode_, step_ = map(np.array, zip(*rows, strict=True))
    return bondic.Transitions(
        state_[:, None].astype(float), action, reward, after_[:, None].astype(float), ended, episode_ids=episode_,
        timesteps=step_, behavior_action_probs=np.full(len(rows), 0.5),
    )  # fmt: skip


LOG = part(episodes(np.random.default_rng(1), 1500), drop=("behavior_action_probs",))
STATED = {"gamma": GAMMA, "reward_range": (0.0, 1.0), "accept": None}
LISTED = bondic.InitialStates.exact([[0.0], [1.0]], weights=[0.75, 0.25])


def groups_by_column(states):
    return labels_by(0, ())(states)


@pytest.mark.parametrize(
    "method",
    [
        bondic.Table(),
        bondic.Groups(allowance=0.05, groups=lambda states: states[:, 0]),
        bondic.Sequential(radius=10.0),
        bondic.Dual(radius=10.0),
    ],
    ids=lambda method: method.name,
)
def test_a_subgroup_is_what_the_same_proof_shows_from_its_starts(method):
    log = part(LOG, slice(0, 1500))
    result = bondic.evaluate_policy(log, policy, initial=LISTED, method=method, by=0, **STATED)
    assert list(result.subgroups.results) == ["0", "1"]
    for state, one in enumerate(result.subgroups.results.values()):
        proof = result.proof
        if hasattr(proof, "cells"):
            start = np.array([state])
            proof = replace(proof, cells=proof.cells.pick_starts(result.question.initial, start))
        again = bondic.make_problem(log, policy, bondic.InitialStates.exact([[float(state)]]), **STATED)
        claims = {
            claim.end: claim for claim in proof.claims(Question.value(again.select(*result.rows)), REFERENCE).ends
        }
        assert max(one.value_range.low, claims["lower"].bound) == pytest.approx(one.low, abs=1e-9)
        assert min(one.value_range.high, claims["upper"].bound) == pytest.approx(one.high, abs=1e-9)
        assert one.low <= value_from(state) <= one.high
    lows, highs = ([getattr(one, name) for one in result.subgroups.results.values()] for name in ("low", "high"))
    assert result.low >= 0.75 * lows[0] + 0.25 * lows[1] - 1e-9  # the whole has the weights that were made for it
    assert result.high <= 0.75 * highs[0] + 0.25 * highs[1] + 1e-9


def test_starts_that_are_a_sample_pay_for_it_in_every_subgroup():
    """INITIAL is divided by what the skipped starts show: two groups, and a part for those that come later."""
    result = bondic.evaluate_policy(LOG, policy, population="iid", method=bondic.Table(), by=0, **STATED)
    proof, states = result.proof, result.question.initial_states.observations[:, 0]
    skipped = proof.events.start.skipped
    assert 0 < skipped < len(states)
    for state, one in enumerate(result.subgroups.results.values()):
        assert result.subgroups.counts[str(state)] == np.count_nonzero(states[skipped:] == state)
        here = result.question.pick_starts(
            np.concatenate([np.arange(skipped), skipped + np.flatnonzero(states[skipped:] == state)])
        )
        more = math.sqrt((1 + skipped) / (1 + np.count_nonzero(states[:skipped] == state)))
        bets = proof.events.start
        bets = replace(bets, hoeffding=bets.hoeffding * more, rates=tuple(rate * more for rate in bets.rates))
        whole = bondic.core.terms.ValueRange(one.value_range.low, one.value_range.high)
        for claim in one.claims:
            cost = start_cost(
                here, bets, proof.budget["initial"] / 3 * (1 - 2.0**-50), ("lower", "upper"), claim.end, whole
            )
            assert (
                0 < claim["initial distribution"].upper <= cost.upper * (1 + 1e-9)
            )  # what is known of values may help
        assert one.low <= value_from(state) <= one.high


def test_each_subgroup_may_have_an_evaluation_of_its_own():
    problem = bondic.make_problem(LOG, policy, LISTED, **STATED)
    shared = bondic.evaluate_policy(LOG, policy, initial=LISTED, method=bondic.Table(), by=0, **STATED).subgroups
    for state, (name, rows) in enumerate(subgroup_problems(problem, 0).items()):
        assert rows.initial_states.observations.tolist() == [[float(name)]]
        own = bondic.estimate_interval(rows, alpha=0.05, method=bondic.Table())
        assert own.low <= value_from(state) <= own.high
        assert own.length < 1.2 * shared[name].length
        again = bondic.verify(own, LOG, policy, replay=True, initial=bondic.InitialStates.exact([[float(name)]]))
        assert (again.low, again.high) == pytest.approx((own.low, own.high))
    with pytest.raises(InvalidInput, match="of which plans see the first ones"):
        subgroup_problems(bondic.make_problem(LOG, policy, **STATED), 0)


def test_a_policy_in_the_log_has_subgroups_of_stated_starts():
    log = decisions(np.random.default_rng(10), 800)
    log = part(log, target_action_probs=(log.actions == 1).astype(float))
    listed = bondic.InitialStates.exact([[0.0], [1.0]])
    found = bondic.evaluate_policy(log, "logged", initial=listed, method=Propensities(), by=0, **ONE_STEP).subgroups
    assert all(found[str(k)].low <= CHANCE[k, 1] <= found[str(k)].high < 1 for k in (0, 1))


def test_shares_are_known_before_the_draws_they_are_used_on():
    places = np.array([0, 1, 0, 2, 1, 3, 2, 4, 0, 5])

    def divided(count, known):
        groups = {k: np.flatnonzero(places[:count] == k) for k in np.unique(places[:count])}
        return dict(zip(groups, shares(list(groups.values()), known), strict=True))

    for known in (0, 1, 3):
        full = divided(10, known)
        assert math.fsum(full.values()) <= 1
        for count in range(1, 11):
            if count >= known:
                assert all(full[k] == share for k, share in divided(count, known).items())
    assert 1 - 1e-12 < math.fsum(divided(10, None).values()) <= 1
    many = [np.array([k]) for k in range(1000)]
    assert max(math.fsum(shares(many, known)) for known in (0, None)) <= 1


# --- propensities -----------------------------------------------------------------------------------------

STORES = ("north", "south", "harbor")
CHANCE = np.array([[0.3, 0.45], [0.3, 0.4], [0.35, 0.2]])  # by store and action


def decisions(rng, count, weights=(0.5, 0.35, 0.15)):
    store, action = rng.choice(3, count, p=weights), rng.integers(0, 2, count)
    rewards = (rng.random(count) < CHANCE[store, action]).astype(float)
    return bondic.Transitions.one_step(
        store[:, None].astype(float), action, rewards, behavior_action_probs=np.full(count, 0.5)
    )


def second(states):
    return np.eye(2)[np.ones(len(states), dtype=int)]


ONE_STEP = {"gamma": 0.0, "reward_range": (0.0, 1.0), "accept": None}


@pytest.mark.parametrize("against", [None, "other"])
def test_a_subgroup_is_the_log_of_its_own_rows_at_its_share_of_alpha(against):
    log, method = decisions(np.random.default_rng(3), 900), Propensities(model=None)
    stated = {**ONE_STEP, "population": "iid"}
    other = None if against is None else lambda states: np.eye(2)[(states[:, 0] > 0).astype(int)]
    found = bondic.evaluate_policy(log, second, method=method, by=0, against=other, **stated).subgroups
    for name, one in found.results.items():
        own = part(log, log.observations[:, 0] == float(name))
        problem = bondic.make_problem(own, second, **stated)
        level = (0.1 - 0.001) / 3 / 0.98 * (1 - 2.0**-50)  # less what checks the propensities, there and here
        alone = (
            bondic.estimate_interval(problem, alpha=level, method=method)
            if other is None
            else difference_interval(problem, other, alpha=level, method=method)
        )
        assert (one.low, one.high) == pytest.approx((alone.low, alone.high), abs=1e-12)
        assert found.counts[name] == len(own)


def test_doubly_robust_subgroups_use_predictions_from_all_earlier_rows():
    log = decisions(np.random.default_rng(4), 4000)
    result = bondic.evaluate_policy(log, second, method=Propensities(max_ratio=2.0), by=0, **ONE_STEP)
    proof, found = result.proof, result.subgroups
    units = proof.columns(rebuild(proof.estimand, log))
    whole = units.estimators(proof.control, proof.stated)[-1]
    assert whole.robust
    for place, name in enumerate(found.results):
        mine = np.flatnonzero(log.observations[result.rows[0] :, 0] == place)
        own = units.pick(mine).estimators(proof.control, proof.stated)[-1]
        np.testing.assert_array_equal(own.values, whole.values[mine])
        assert found[name].low <= CHANCE[place, 1] <= found[name].high


def test_episodes_are_told_apart_by_their_first_state():
    log = episodes(np.random.default_rng(5), 400)
    stated = {**STATED, "value_range": (0.0, 5.0)}
    result = bondic.evaluate_policy(log, policy, method=Propensities(), by=0, **stated)
    first, found = result.rows[0], result.subgroups
    assert first > 0
    starts = log.observations[first:][log.timesteps[first:] == 0, 0]
    assert found.unit == "episodes"
    assert found.counts == {"0": np.count_nonzero(starts == 0), "1": np.count_nonzero(starts == 1)}
    assert all(found[str(state)].low <= value_from(state) <= found[str(state)].high for state in (0, 1))


def test_stated_starts_have_subgroups_and_those_that_never_come_say_nothing():
    log = decisions(np.random.default_rng(6), 1500)
    listed = bondic.InitialStates.exact([[0.0], [1.0], [7.0]], weights=[0.5, 0.25, 0.25])
    found = bondic.evaluate_policy(log, second, initial=listed, method=Propensities(), by=0, **ONE_STEP).subgroups
    assert found["7"].status.name == "TRIVIAL"
    assert found.counts["7"] == 0
    assert all(found[str(k)].low <= CHANCE[k, 1] <= found[str(k)].high < 1 for k in (0, 1))


@pytest.mark.parametrize(("population", "method"), [("iid", Propensities(planned_rows=1000)), (None, Propensities())])
def test_shares_are_in_the_order_of_appearance_where_the_number_of_each_is_not_known(population, method):
    log = decisions(np.random.default_rng(7), 900)
    found = bondic.evaluate_policy(log, second, population=population, method=method, by=0, **ONE_STEP)
    details = {name: one.lower["log(1/delta)"].mid for name, one in found.subgroups.results.items()}
    certified = log.observations[found.rows[0] :, 0]
    first = sorted(details, key=lambda name: int(np.argmax(certified == float(name))))
    each = [math.log(k * (k + 1) / found.proof.budget["lower"]) for k in (1, 2, 3)]
    assert [details[name] for name in first] == pytest.approx(each)


def test_a_subgroup_that_comes_late_changes_no_share_of_those_before():
    log, found = decisions(np.random.default_rng(8), 900), []
    for late in (0.0, 5.0):
        states = np.where(np.arange(900) < 700, log.observations[:, 0] % 2, late)[:, None]
        columns = {name: column for name, column in log.columns().items() if column is not None}
        own = bondic.Transitions(**(columns | {"observations": states, "next_observations": states}))
        result = bondic.evaluate_policy(own, second, method=Propensities(model=None), by=0, **ONE_STEP)
        found.append({name: one.lower["log(1/delta)"].mid for name, one in result.subgroups.results.items()})
    assert set(found[1]) == {"0", "1", "5"}
    assert found[0] == {name: found[1][name] for name in ("0", "1")}


def test_subgroups_of_this_log_in_worlds_that_move():
    """Rewards fall in the middle of the log: every subgroup is about its own certified rows."""
    missed = 0
    for seed in range(20):
        rng = np.random.default_rng([9, seed])
        store, action = rng.integers(0, 3, 1500), rng.integers(0, 2, 1500)
        mean = np.where(np.arange(1500) < 900, 0.8, 0.2) * (1 - 0.3 * (store == 1))
        log = bondic.Transitions.one_step(
            store[:, None].astype(float), action, (rng.random(1500) < mean).astype(float),
            behavior_action_probs=np.full(1500, 0.5),
        )  # fmt: skip
        found = bondic.evaluate_policy(log, second, by=0, **ONE_STEP)
        here = np.arange(1500) >= found.rows[0]
        truths = {str(k): mean[here & (store == k)].mean() for k in range(3)}
        missed += not all(one.low <= truths[name] <= one.high for name, one in found.subgroups.results.items())
    assert missed <= 5  # more than 5 of 20 at .1: 1 of 100


def all_hold(rng, alpha, divide, population):
    """Whether a policy that earns 0 or 1 at random is covered in each of eight subgroups; `divide`: as it should be."""
    count, groups = 300, 8
    store, action = rng.integers(0, groups, count), rng.integers(0, 2, count)
    log = bondic.Transitions.one_step(
        store[:, None].astype(float), action, (rng.random(count) < 0.5).astype(float),
        behavior_action_probs=np.full(count, 0.5),
    )  # fmt: skip
    level = alpha if divide else min(groups * alpha, 0.999999)
    stated = {**ONE_STEP, "population": population, "alpha": level}
    found = bondic.evaluate_policy(log, second, by=0, method=Propensities(model=None), **stated)
    return all(one.low <= 0.5 <= one.high for one in found.subgroups.results.values())


@pytest.mark.filterwarnings("ignore:alpha is")
def test_all_subgroups_hold_together_and_not_at_alpha_each():
    """alpha = .1, 80 logs: right ones miss in at most .1 (with probability 1e-4 more than 19), eight at alpha each in more."""
    own, right, wrong = (
        sum(not all_hold(np.random.default_rng([8, k]), 0.1, divide, population) for k in range(80))
        for divide, population in ((True, None), (True, "iid"), (False, "iid"))
    )
    assert own <= 19
    assert right <= 19 < wrong


# --- how subgroups are named ------------------------------------------------------------------------------


def test_columns_codes_numbers_and_functions():
    states = np.array([[30.0, 1.0, 0.0], [40.5, 0.0, 1.0], [30.0, 0.0, 0.0]])
    names = ("age", "store=north", "store=south")
    assert {key: list(value) for key, value in labels_by("age", names)(states).items()} == {"30": [0, 2], "40.5": [1]}
    by_store = labels_by("store", names)(states)
    assert {key: list(value) for key, value in by_store.items()} == {"none of these": [2], "north": [0], "south": [1]}
    assert list(labels_by(1, names)(states)) == ["0", "1"]
    assert list(labels_by(lambda rows: rows[:, 0] > 35, ())(states)) == ["False", "True"]


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("stroe", "Did you mean `store`"),
        (5, "counted from 0"),
        (1.5, "the name of a column"),
        (lambda states: states, "a label for each"),
        (lambda states: np.arange(len(states)), "Make bands"),
    ],
)
def test_what_makes_no_subgroups_is_refused(by, words):
    states = np.zeros((200, 2))
    with pytest.raises(InvalidInput, match=words):
        labels_by(by, ("age", "store=north"))(states)


@pytest.mark.parametrize("initial", [LISTED, None], ids=["list", "sample"])
def test_a_difference_on_a_table_has_subgroups(initial):
    given = {"initial": initial, "against": second, "method": bondic.Table(), **STATED}
    result = bondic.evaluate_policy(LOG, policy, by=0, **given)
    checked = bondic.verify(result, LOG, policy, against=second, by=0)
    for state, one in enumerate(result.subgroups.results.values()):
        assert (
            one.low
            <= value_from(state) - value_from(state, second(np.zeros((2, 1))))
            <= one.high
            < one.value_range.high
        )
        assert (checked.subgroups[str(state)].low, checked.subgroups[str(state)].high) == pytest.approx(
            (one.low, one.high)
        )


def test_a_difference_of_two_proofs_has_no_subgroups():
    with pytest.raises(InvalidInput, match="separate proofs"):
        bondic.evaluate_policy(
            part(LOG, slice(0, 600)),
            policy,
            initial=LISTED,
            method=bondic.Dual(radius=6.0),
            by=0,
            against=second,
            **STATED,
        )


# --- certificates and views -------------------------------------------------------------------------------


def test_verification_makes_the_table_again():
    result = bondic.evaluate_policy(LOG, policy, initial=LISTED, method=bondic.Table(), by=0, **STATED)
    checked = bondic.verify(result, LOG, policy, by=0, replay=True)
    for name, one in result.subgroups.results.items():
        assert (checked.subgroups[name].low, checked.subgroups[name].high) == pytest.approx((one.low, one.high))
    assert bondic.verify(result, LOG).subgroups == {}
    with pytest.raises((InvalidInput, VerificationError), match="counted from 0"):
        bondic.verify(result, LOG, by=3)
    question = rebuild(result.proof.estimand, LOG)
    assert list(conclude_by_subgroup(result.proof, question, groups_by_column, REFERENCE)) == ["0", "1"]


def test_the_tool_shows_writes_and_verifies_subgroups(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = decisions(np.random.default_rng(9), 1200)
    text = [
        f"{STORES[int(s)]},{a},{r},0.5"
        for s, a, r in zip(log.observations[:, 0], log.actions, log.rewards, strict=True)
    ]
    (tmp_path / "log.csv").write_text("\n".join(["store,action,reward,behavior_action_probs", *text]))
    (tmp_path / "rules.py").write_text(
        "import numpy as np\n\n\ndef second(states):\n    return np.eye(2)[np.ones(len(states), int)]\n\n\n"
        "def big(states):\n    return np.where(states[:, 1] > 0, 'big', 'other')\n"
    )
    words = ["log.csv", "--policy", "rules.py:second", "--one-step", "--reward-range", "0", "1"]
    words += ["--columns", "observations=store", "--against", "today"]
    code, out, err = run(capsys, "evaluate", *words, "--by", "store", "--out", "res")
    assert code == 0, err
    assert "Gain over today, by store: all 3 intervals together at 90% confidence" in out
    assert "no logged probability can be below\n   0.5, state it: --with min_propensity=0.5." in out
    held = json.loads((tmp_path / "res" / "result.json").read_text())
    lines = held["subgroups"]["lines"]
    assert [line["subgroup"] for line in lines] == sorted(STORES)
    assert sum(line["decisions"] for line in lines) == held["rows"][1] - held["rows"][0]
    assert any(item["name"] == "subgroups" for item in held["assumptions"])
    page = (tmp_path / "res" / "report.html").read_text()
    assert 'aria-label="intervals by subgroup"' in page
    assert "--by store" in page  # the command that checks it
    code, out, err = run(capsys, "verify", "res", "log.csv", "--by", "store", "--policy", "rules.py:second")
    assert code == 0, err
    harbor = next(line for line in lines if line["subgroup"] == "harbor")
    assert f"harbor: {bondic.core.printed.interval_text(harbor['low'], harbor['high'])} (interval)" in out
    code, out, err = run(capsys, "evaluate", *words, "--by", "rules.py:big", "--out", "two", "--json")
    assert [line["subgroup"] for line in json.loads(out)["subgroups"]["lines"]] == ["big", "other"]
    code, out, err = run(capsys, "evaluate", *words, "--by", "shop", "--out", "three")
    assert code == 2
    assert "these are store" in err
    assert not (tmp_path / "three").exists()


# --- curves -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [bondic.Sequential(radius=6.0), bondic.Dual(radius=6.0)], ids=lambda one: one.name)
def test_smaller_radii_are_on_the_same_event(method):
    """The proof itself at the stated radius; nested; too small a ball is refuted. A larger one may be another event."""
    result = bondic.evaluate_policy(part(LOG, slice(0, 1500)), policy, initial=LISTED, method=method, **STATED)
    curve = radius_curve(result, (1e-3, 2.0, 4.0, 6.0))
    assert (curve[6.0].low, curve[6.0].high) == pytest.approx((result.low, result.high), abs=1e-9)
    assert curve[4.0].low >= result.low - 1e-9
    assert curve[4.0].high <= result.high + 1e-9
    if method.name == "sequential":
        assert curve[1e-3].status.name == "REJECTED"
        proof = replace(result.proof, plan=replace(result.proof.plan, limits=(-9.0, 9.0)))
        with pytest.raises(InvalidInput, match="another event"):
            radius_curve(replace(result, proof=proof), (7.0,))
    else:
        assert radius_curve(result, (12.0,))[12.0].length >= result.length


def test_what_has_an_event_for_every_value_is_no_list():
    for stated in ({"gamma": [0.5, 0.8]}, {"horizon": (3, 4)}):
        with pytest.raises(InvalidInput, match="alpha / 2 if all intervals have to hold at once"):
            bondic.make_problem(LOG, policy, LISTED, **{**STATED, **stated})
    with pytest.raises(InvalidInput, match="Call once for each alpha"):
        bondic.evaluate_policy(LOG, policy, initial=LISTED, alpha=[0.05, 0.1], **STATED)
    with pytest.raises(InvalidInput, match="no stated ball"):
        radius_curve(bondic.evaluate_policy(LOG, policy, initial=LISTED, method=bondic.Table(), **STATED), (1.0,))
