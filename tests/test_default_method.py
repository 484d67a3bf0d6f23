"""Which method is taken when none is named: by rule, from nothing that is certified, with the reason in words."""

from dataclasses import replace

import numpy as np
import pytest

import bondic as b
from bondic.core.balls import Box
from bondic.core.cells.proof import CellsProof
from bondic.core.claims import Status
from bondic.core.dual.proof import DualProof
from bondic.core.errors import InvalidInput
from bondic.core.kernels.leaves import Dirac
from bondic.summary import summarize
from bondic.tuning.defaults import Choices
from builders import tabular

MDP, LOG, POLICY, INITIAL = tabular(600, gamma=0.3)
TERMS = {"gamma": 0.3, "reward_range": MDP.reward_range}


def question(rows=600):
    return b.make_problem(LOG, POLICY, INITIAL, **TERMS).select(0, rows)


def numbers(n=1500, seed=0, policy=None, gamma=0.5, **more):
    """States that are numbers, with a value function that is smooth."""
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    following = 0.5 * states + 0.3 * rng.normal(size=(n, 1)) + 0.1 * actions[:, None]
    columns = {"rewards": 0.9 / (1 + np.exp(-states[:, 0])), "next_observations": following, **more}
    never = np.zeros(n, dtype=bool)
    log = b.Transitions(observations=states, actions=actions, terminations=never, truncations=never, **columns)
    return b.make_problem(
        log, policy or b.UniformPolicy(2), b.InitialStates.exact([[0.0]]), gamma=gamma, reward_range=(0.0, 1.0)
    )


def test_without_a_method_it_is_the_table_where_states_are_names():
    result = b.estimate_interval(question())
    assert result.method == "table"
    assert isinstance(result.proof, CellsProof)
    assert result.choices["method"].startswith("table, as states are names")
    assert "Method: table, as states are names" in " ".join(summarize(result).lines)
    assert result.certificate.body["information"]["choices"] == result.choices
    assert result.hashes["certificate"] == result.certificate.digest
    same = b.estimate_interval(question(), method=b.Table(pilot=b.Sequential().pilot_rows(question())))
    assert (same.low, same.high) == (result.low, result.high)
    assert "method" not in same.choices
    assert b.verify(result.certificate, LOG, POLICY).low == result.low
    with pytest.raises(InvalidInput, match=r"method=Table\(\)"):
        b.estimate_interval(question(), method=b.Sequential())
    with pytest.raises(InvalidInput, match=r"method=Table\(\)"):
        b.Sequential(ball=Box(1.0))
    assert isinstance(b.Default(ball=Box(1.0)).choose(question())[0], b.Dual)


WHY = {
    "gauge": (b.Default(gauge="half"), "a noise bound was named"),
    "misspecification": (b.Default(misspecification=0.1), "misspecification"),
    "ball": (b.Default(ball=b.Ball(b.Gaussian(1.0) * Dirac(), 3.0, misspecification=0.1)), "misspecification"),
    "W": (b.Default(choices=Choices(weight_bandwidth=1.0)), "W was described"),
    "no pilot": (b.Default(pilot=0), "no rows may be set aside"),
    "tiny pilot": (b.Default(pilot=10), "too few rows of the pilot"),
    "planned": (b.Default(planned_rows=150), "150 rows are fewer than the 200"),
}


@pytest.mark.parametrize("name", WHY)
def test_what_only_the_dual_method_does_makes_it_the_dual_method(name):
    method, words = WHY[name]
    chosen, why = method.choose(question())
    assert isinstance(chosen, b.Dual)
    assert why.startswith("dual, as ")
    assert words in why
    assert chosen.gauge == (method.gauge or "half")
    assert chosen.pilot == (0.2 if method.pilot is None else method.pilot)


def test_a_short_log_is_for_the_dual_method():
    result = b.estimate_interval(question(199))
    assert result.method == "dual"
    assert isinstance(result.proof, DualProof)
    assert "199 rows are fewer than the 200" in result.choices["method"]
    assert isinstance(b.Default().choose(question(200))[0], b.Table)


STATED = b.Default(radius=2.0)


def test_the_decision_sees_no_certified_row():
    """Rows after the pilot may hold anything: the choice and its words stay."""
    problem = numbers(1500)
    rewards = problem.log.rewards.copy()
    rewards[200:] = 0.0
    other = numbers(1500, rewards=rewards)
    assert STATED.choose(problem)[1] == STATED.choose(other)[1]
    first, second = b.estimate_interval(problem, method=STATED), b.estimate_interval(other, method=STATED)
    assert first.choices == second.choices


UNSTATED = "states are numbers: without a statement on how values vary nothing can be proved"


def test_numbers_without_a_statement_are_answered_with_the_value_range(monkeypatch):
    """No class is fitted, one sentence says why; where a pilot can be set aside, the curve of groups stands beside it."""
    for name in ("paper_ball", "default_value_kernel"):
        monkeypatch.setattr(f"bondic.tuning.defaults.{name}", lambda *_: pytest.fail("nothing is fitted"))
        monkeypatch.setattr(f"bondic.methods.setting.{name}", lambda *_: pytest.fail("nothing is fitted"))
    problem = numbers(1500)
    for rows, method in ((1500, b.Default()), (150, b.Default()), (3, b.Default()), (1500, b.Default(gauge="half")),
                         (1500, b.Default(pilot=0)), (1500, b.Default(no_rows=True))):  # fmt: skip
        asked = problem.select(0, rows)
        found = b.estimate_interval(asked, method=method)
        assert found.status is Status.TRIVIAL
        assert tuple(found.interval) == (found.value_range.low, found.value_range.high)
        assert found.guarantee == "finite-sample"
        assert UNSTATED in found.choices["method"]
        assert "states are numbers" in found.choices["states"]
        assert b.verify(found.certificate, asked.log, asked.policy).status == "TRIVIAL"
        with_groups = rows == 1500 and method == b.Default()
        assert (found.curve is not None) == with_groups == (found.method == "groups")
        assert found.rows == ((300, 1500) if with_groups else (0, rows))
        if not with_groups:
            assert UNSTATED in found.choices["nothing is stated"]
        if method.no_rows:
            found.without_rows(asked)


def test_a_stated_class_needs_a_pilot_that_promises_something(monkeypatch):
    """A pilot that says nothing leaves the value range at once, with the reason; tables are not asked."""
    dull = numbers(1500, gamma=0.99)
    monkeypatch.setattr(b.Dual, "run", lambda *_: pytest.fail("a refused question is not searched"))
    stated = b.Default(radius=200.0)
    found = b.estimate_interval(dull, method=stated)
    assert found.status is Status.TRIVIAL
    assert tuple(found.interval) == (found.value_range.low, found.value_range.high)
    assert found.seconds.get("plan") is None
    for words in (found.choices["method"], found.choices["nothing is stated"]):
        assert "the first 200 rows predict no more than the value range" in words
    assert found.choices["other methods"] == "none"
    assert b.verify(found.certificate, dull.log, dull.policy).status == "TRIVIAL"
    assert replace(stated, pilot=100).choose(dull)[1].startswith("none, as the first 100 rows")
    assert STATED.choose(numbers(1500))[1].startswith("sequential")
    table = b.make_problem(LOG, POLICY, INITIAL, gamma=0.99, reward_range=MDP.reward_range)
    assert b.Default().choose(table)[1].startswith("table")


# --- certificates without rows ----------------------------------------------------------------------------------------


def episodes(steps, count=1200, seed=0, behavior=0.5):
    """Episodes of so many steps on two states; the target takes action 1 with probability 0.6."""
    rng = np.random.default_rng(seed)
    n = steps * count
    states, actions = rng.integers(0, 2, (n, 1)).astype(float), (rng.random(n) < behavior).astype(np.int64)
    following = np.roll(states, -1, axis=0)
    last = np.arange(n) % steps == steps - 1
    return b.Transitions(
        states,
        actions,
        0.5 * actions + 0.25 * states[:, 0],
        following,
        last,
        np.zeros(n, dtype=bool),
        episode_ids=np.arange(n) // steps,
        timesteps=np.arange(n) % steps,
        behavior_action_probs=np.where(actions == 1, behavior, 1 - behavior),
    )


TARGET = b.CallablePolicy(lambda states: np.tile([0.4, 0.6], (len(states), 1)))


def asked(log, policy=TARGET, gamma=0.9, start=None, **terms):
    start = b.InitialStates.from_log(log) if start is None else start
    terms = {"reward_range": (0.0, 0.75), **terms}
    return b.make_problem(log, policy, start, gamma=gamma, **terms)


class TestPropensities:
    def test_single_decisions(self):
        problem = asked(episodes(1), gamma=0.0)
        chosen, why = b.Default().choose(problem)
        assert isinstance(chosen, b.Propensities)
        assert "every decision stands alone" in why
        result = b.estimate_interval(problem)
        assert result.rows == (200, 1200)  # the rates of a mean over this log come from a pilot
        assert result.low <= 0.425 <= result.high
        assert "sequential and dual" in result.choices["other methods"]
        assert b.verify(result.certificate, problem.log, TARGET).low == result.low

    def test_steps_that_end_are_seen_on_the_pilot(self):
        result = b.estimate_interval(asked(episodes(1), gamma=0.9))
        assert result.method == "propensities"
        assert result.rows == (200, 1200)
        assert "the first 200 rows are episodes of one step" in result.choices["method"]

    def test_short_episodes_are_taken_and_long_ones_are_not(self):
        short = b.estimate_interval(asked(episodes(2), horizon=2))
        assert short.method == "propensities"
        assert short.rows[0] == 200
        assert "predict a length of about" in short.choices["method"]
        long = episodes(40, 60)
        assert not isinstance(b.Default().choose(asked(long, horizon=40))[0], b.Propensities)

    @pytest.mark.parametrize("seed", range(6))
    def test_means_that_cross_on_a_pilot_promise_nothing(self, seed):
        """Four steps, a target that the log follows once in 16 episodes: few weights, which may be 1.5 in the mean."""
        log = episodes(4, 3000, seed=seed)
        always = b.CallablePolicy(lambda states: np.tile([0.0, 1.0], (len(states), 1)))
        problem = asked(log, always, gamma=1.0, horizon=4)
        looked, _ = b.Default()._split(problem)
        length = b.Propensities().predicted_length(looked, 0.1, len(log))
        actual = b.estimate_interval(problem, method=b.Propensities())
        assert length >= 0.5 * (actual.high - actual.low)

    def test_a_sample_of_other_starts_predicts_nothing(self):
        start = b.InitialStates.sample(np.random.default_rng(0).integers(0, 2, (300, 1)).astype(float))
        assert b.Propensities().predicted_length(asked(episodes(2), horizon=2, start=start), 0.1) == np.inf

    def test_only_rows_of_the_pilot_are_looked_at(self):
        """And the episode that its end falls into; the rest is certified, whichever method is taken."""
        log = episodes(3, 900)
        result = b.estimate_interval(asked(log, horizon=3))
        pilot = b.Sequential().pilot_rows(asked(log, horizon=3))
        assert result.method == "propensities"
        assert pilot <= result.rows[0] < pilot + 3
        assert result.rows[0] % 3 == 0

    def test_planned_rows_are_planned_decisions_or_episodes(self):
        found = b.Default(planned_rows=1200).choose(asked(episodes(1), gamma=0.0))[0]
        assert found == b.Propensities(planned_rows=1200)
        log = episodes(3, 900)
        result = b.estimate_interval(asked(log, horizon=3), method=b.Default(planned_rows=5400))
        assert result.method == "propensities"
        assert result.proof.planned == (5400 - result.rows[0]) / 3
        assert result.proof.any_length

    @pytest.mark.parametrize("method", [b.Default(radius=2.0), b.Default(gauge="half")])
    def test_what_was_said_about_other_methods_is_heeded(self, method):
        assert not isinstance(method.choose(asked(episodes(1), gamma=0.0))[0], b.Propensities)
        with pytest.raises(InvalidInput, match="name the method"):
            replace(method, propensities=b.Propensities()).choose(asked(episodes(1), gamma=0.0))

    def test_another_initial_distribution_is_another_question(self):
        start = b.InitialStates.exact([[0.0]])
        assert not isinstance(b.Default().choose(asked(episodes(1), gamma=0.0, start=start))[0], b.Propensities)

    @pytest.mark.parametrize("names", [4, 900])
    def test_a_list_of_starts_is_answered_by_what_promises_less(self, names):
        """Second states that hardly ever come again tell a table nothing, and propensities as much as before."""
        log, rng = episodes(2, 3000), np.random.default_rng(1)
        second = rng.integers(2, 2 + names, len(log)).astype(float)
        states = np.where(log.timesteps == 0, log.observations[:, 0], second)[:, None]
        log = replace(log, observations=states, next_observations=np.roll(states, -1, axis=0))
        start = b.InitialStates.exact([[0.0], [1.0]], weights=[0.3, 0.7])
        result = b.estimate_interval(asked(log, horizon=2, start=start))
        assert result.method == ("table" if names == 4 else "propensities")
        assert 0.3 <= result.low <= result.high <= 1.2

    def test_statements_reach_the_method(self):
        problem = asked(episodes(1), gamma=0.0)
        stated = b.Default(propensities=b.Propensities(min_propensity=0.5), side="lower")
        assert stated.choose(problem)[0] == b.Propensities(min_propensity=0.5, side="lower")
        with pytest.raises(InvalidInput, match="does not use propensities here"):
            replace(stated, side="both").choose(question())

    def test_a_target_known_by_its_probabilities_alone(self):
        log = replace(episodes(2), target_action_probs=np.full(2400, 0.5))
        result = b.estimate_interval(asked(log, b.LoggedTarget(), horizon=2))
        assert result.method == "propensities"
        assert result.rows == (400, 2400)


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 0.9])
def test_ranges_that_leave_one_value_are_answered_with_it(names, gamma):
    rng = np.random.default_rng(0)
    states = rng.integers(0, 4, (600, 1)).astype(float) if names else rng.normal(size=(600, 1))
    nothing, rows = np.zeros(600), np.arange(600)
    log = b.Transitions(
        states,
        rng.integers(0, 2, 600),
        nothing,
        np.roll(states, -1, axis=0),
        nothing,
        rows == 599,
        episode_ids=nothing.astype(int),
        timesteps=rows,
    )
    found = b.evaluate_policy(log, lambda s: np.full((len(s), 2), 0.5), gamma=gamma, reward_range=(0, 0))
    assert tuple(found.interval) == (0.0, 0.0)


@pytest.mark.parametrize("rows", [250, 400, 1000])
def test_rows_that_the_choice_has_seen_are_not_certified(rows):
    """The pilot by which methods are compared may be longer than the share that a method would set aside by itself."""
    demo = b.load_demo()
    problem = b.make_problem(demo.log, demo.policy, demo.initial, gamma=0.8, reward_range=(0.0, 1.0))[:rows]
    looked = b.Sequential().pilot_rows(problem)
    assert b.estimate_interval(problem, alpha=0.1).rows[0] >= looked > 0.05 * rows


def test_rows_of_a_longer_pilot_are_not_certified_either():
    """States that come again only after the first 220 rows: the choice looks at more of them."""
    rng = np.random.default_rng(1)
    states = np.concatenate([rng.random((220, 1)), rng.random((20, 1))[rng.integers(0, 20, 2780)]])
    log = b.Transitions.one_step(states, np.arange(3000) % 2, rng.random(3000))
    start = b.InitialStates.exact(states[-1:])
    problem = b.make_problem(log, b.UniformPolicy(2), start, gamma=0.0, reward_range=(0.0, 1.0))
    chosen, _ = b.Default().choose(problem)
    assert isinstance(chosen, b.Table)
    assert chosen.pilot == b.Sequential().pilot_rows(problem) == 300


@pytest.mark.parametrize("hopeless", [True, False])
def test_a_long_table_that_proves_nothing_is_answered_from_its_first_rows(hopeless, monkeypatch):
    """The log takes action 2 in one row of the last tenth alone, and the policy nothing else."""
    monkeypatch.setattr("bondic.methods.default.LONG", 5_000)
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", 1_024)
    planned = []
    plan = b.Table.plan
    monkeypatch.setattr(b.Table, "plan", lambda *given: planned.append(1) or plan(*given))
    rng, rows = np.random.default_rng(3), 8_000
    action, states = rng.integers(2, size=rows), rng.integers(4, size=(rows + 1, 1)).astype(float)
    action[7_900] = 2
    ends = np.arange(rows) % 10 == 9
    log = b.Transitions(
        states[:-1],
        action,
        rng.random(rows),
        states[1:],
        np.zeros(rows, bool),
        ends,
        np.arange(rows) // 10,
        np.arange(rows) % 10,
    )
    policy = b.TablePolicy([[0.0, 0.0, 1.0] if hopeless else [0.5, 0.5, 0.0]] * 4)
    start = b.InitialStates.exact([[0.0]])
    problem = b.make_problem(log, policy, start, gamma=0.8, reward_range=(0.0, 1.0), accept=None)
    result = b.estimate_interval(problem)
    assert bool(planned) is not hopeless
    assert (result.high - result.low > 4.99) is hopeless
    if hopeless:
        assert "the first 1024 of 8000 rows predict no more than the value range" in result.choices["nothing is stated"]
        assert b.verify(result.certificate, log, policy).low == result.low
