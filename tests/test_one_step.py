"""Logs in which every row is an episode of its own: read as they are, evaluated rightly, shown with the policy's actions."""

import sys
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
import bondic_lab
from bondic.cli import main as cli
from bondic.decisions.difference import difference_interval
from bondic.policies.protocol import CallableSampler, RowProbabilities
from bondic.report.health import examine

ACTIONS = 3
MEANS = np.random.default_rng(9).uniform(0.1, 0.9, size=(5, ACTIONS))
TARGET = np.random.default_rng(4).dirichlet(np.ones(ACTIONS), size=5)
TRUTH = float(np.mean(np.sum(MEANS * TARGET, axis=1)))


def bandit(n, seed=0):
    """Five contexts, uniform behavior, rewards 0 and 1."""
    rng = np.random.default_rng(seed)
    context, action = rng.integers(0, 5, size=n), rng.integers(0, ACTIONS, size=n)
    reward = (rng.uniform(size=n) < MEANS[context, action]).astype(float)
    return {"observations": context[:, None].astype(float), "actions": action, "rewards": reward}


def smooth(n, seed=0):
    """Normal contexts, actions that are numbers, rewards in [0, 1]; the truth is a mean over many draws."""
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(n, 1)), rng.uniform(-2, 2, size=(n, 1))
    mean = np.exp(-((actions - np.tanh(states)) ** 2))[:, 0]
    return {"observations": states, "actions": actions, "rewards": (rng.uniform(size=n) < mean).astype(float)}


def table(data):
    return pa.table({name: pa.array(c.tolist()) if c.ndim == 2 else pa.array(c) for name, c in data.items()})


# --- reading -------------------------------------------------------------------------------------------


def test_contexts_actions_and_rewards_are_enough(tmp_path):
    data = bandit(50)
    expected = b.Transitions.one_step(**data)
    assert expected.terminations.all()
    assert not expected.next_observations.any()
    assert len(expected) == 50
    pq.write_table(table(data), tmp_path / "log.parquet")
    np.savez(tmp_path / "log.npz", **data)
    for source in (data, table(data), tmp_path / "log.parquet", tmp_path / "log.npz"):
        loaded = b.read_log(source, one_step=True)
        assert loaded.transitions.content_hash == expected.content_hash
        assert any("one step" in note for note in loaded.notes)
    for source in (data, tmp_path / "log.parquet"):
        stream = b.stream_log(source, one_step=True, batch_rows=7)
        assert stream.content_hash == expected.content_hash
        np.testing.assert_array_equal(stream.read().rewards, data["rewards"])


def test_without_the_statement_the_message_names_it():
    with pytest.raises(b.InvalidInput, match=r"one_step=True \(--one-step\)"):
        b.read_log(bandit(5))


def test_terminations_that_are_all_true_need_no_truncations():
    log = b.read_log(bandit(20) | {"terminations": np.ones(20, dtype=bool)}).transitions
    assert len(log) == 20
    np.testing.assert_array_equal(log.rewards, bandit(20)["rewards"])


@pytest.mark.parametrize(
    ("more", "needles"),
    [
        ({"terminated": np.arange(6) != 3}, ("`terminations`", "false at row 3", "one_step")),
        ({"truncated": np.arange(6) == 4}, ("`truncations`", "true at row 4", "--columns truncations=none")),
        ({"episode": np.array([0, 1, 2, 1, 4, 5])}, ("rows 1 and 3", "--columns episode_ids=none")),
    ],
    ids=["goes on", "cut", "shared id"],
)
def test_columns_that_say_otherwise_are_refused_with_their_row(more, needles):
    with pytest.raises(b.InvalidInput) as caught:
        b.read_log(bandit(6) | more, one_step=True)
    for needle in needles:
        assert needle in str(caught.value)


def test_ids_can_be_left_out_and_clocks_and_next_states_are_not_read():
    data = bandit(6)
    more = {"episode": np.zeros(6, dtype=int), "t": np.arange(6) + 17, "next_observations": np.full((6, 1), np.nan)}
    log = b.read_log(data | more, one_step=True, columns={"episode_ids": None}).transitions
    assert log.content_hash == b.Transitions.one_step(**data).content_hash


def test_ends_beside_the_statement_are_refused_for_arrays():
    with pytest.raises(b.InvalidInput, match="leave out terminations"):
        b.Transitions.one_step(**bandit(6), terminations=np.ones(6))
    with pytest.raises(b.InvalidInput, match="leave out terminations"):
        b.stream_log(bandit(6) | {"terminations": np.ones(6)}, one_step=True, batch_rows=3)


# --- evaluation ----------------------------------------------------------------------------------------


def evaluated(log, policy, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return b.evaluate_policy(log, policy, gamma=0.0, reward_range=(0.0, 1.0), **more)


@pytest.mark.parametrize("method", [b.Dual(radius="paper"), b.Sequential(radius="paper")], ids=["dual", "sequential"])
def test_the_value_of_a_bandit_is_found(method):
    """The truth is known; 6 logs at alpha = 0.1: more than 3 misses would happen in fewer than one of 700 valid methods."""
    policy = b.TablePolicy(TARGET)
    found = [
        evaluated(b.Transitions.one_step(**bandit(1000, seed)), policy, method=method, alpha=0.1) for seed in range(6)
    ]
    assert sum(not item.low <= TRUTH <= item.high for item in found) <= 3
    assert np.mean([item.high - item.low for item in found]) < 0.6
    assert abs(np.mean([item.estimate for item in found]) - TRUTH) < 0.03
    other = b.TablePolicy(np.eye(ACTIONS)[np.argmin(MEANS, axis=1)])  # a policy that is worse: the intervals tell
    worst = evaluated(b.Transitions.one_step(**bandit(3000)), other, method=method)
    assert worst.high < TRUTH


@pytest.mark.parametrize("method", [b.Dual(radius="paper"), b.Sequential(radius="paper")], ids=["dual", "sequential"])
def test_continuous_contexts_and_actions_are_evaluated_and_verified(method):
    rng = np.random.default_rng(5)
    states = rng.normal(size=(200_000, 1))
    actions = 0.5 * np.tanh(states) + 0.3 * rng.normal(size=states.shape)
    truth = float(np.mean(np.exp(-((actions - np.tanh(states)) ** 2))))
    policy = CallableSampler(lambda s, draw: 0.5 * np.tanh(s) + 0.3 * draw.normal(size=s.shape))
    log = b.Transitions.one_step(**smooth(1500))
    found = evaluated(log, policy, method=method)
    assert found.low <= truth <= found.high
    assert b.verify(found.certificate, log).low == pytest.approx(found.low, abs=1e-9)


BEST = MEANS.argmax(axis=1)
PAIRS = {  # policies, and what they answer at the five contexts
    "two actions": (1, 0, np.eye(ACTIONS)[1], np.eye(ACTIONS)[0]),
    "a rule against an action": (lambda states: BEST[states[:, 0].astype(int)], 0, np.eye(ACTIONS)[BEST], np.eye(ACTIONS)[0]),
    "a table against chance": (b.TablePolicy(TARGET), b.UniformPolicy(ACTIONS), TARGET, 1 / ACTIONS),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_two_policies_are_compared_without_propensities(pair):
    """The truth is the difference of two tables of means; one event costs less than two at half of alpha."""
    one, two, first, second = PAIRS[pair]
    truth = float(((first - second) * MEANS).sum(axis=1).mean())
    asking, missed = {"reward_range": (0, 1), "gamma": 0.0}, 0
    for seed in range(6):
        log = b.Transitions.one_step(**bandit(3000, seed))
        found = difference_interval(b.make_problem(log, one, **asking), two)
        missed += not found.low <= truth <= found.high
        assert found.estimate == pytest.approx(truth, abs=0.1)
    assert missed <= 2
    apart = [b.estimate_interval(b.make_problem(log, policy, **asking), alpha=0.05) for policy in (one, two)]
    assert found.high - found.low < 0.85 * sum(result.high - result.low for result in apart)
    again = b.verify(found.certificate, log, one, against=two, replay=True)
    assert (again.low, again.high) == found.interval


def test_two_policies_are_compared_on_groups_and_in_batches():
    data = smooth(2000) | {"actions": bandit(2000)["actions"]}
    log = b.Transitions.one_step(**data)
    found = b.evaluate_policy(log, 1, against=0, gamma=0.0, reward_range=(0, 1), allowance=0.05)
    assert (found.method, found.is_difference) == ("groups", True)
    assert -1 < found.low < found.high < 1
    names = b.Transitions.one_step(**bandit(2000))
    whole, parts = (
        b.evaluate_policy(log, 1, against=0, gamma=0.0, reward_range=(0, 1))
        for log in (names, b.stream_log(bandit(2000), one_step=True, batch_rows=300))
    )
    assert whole.interval == parts.interval


@pytest.mark.parametrize("name", ["pdis", "dr", "dm"])
def test_baselines_take_rows_for_episodes(name):
    log = b.Transitions.one_step(**bandit(1500), behavior_action_probs=np.full(1500, 1 / ACTIONS))
    if name == "dm":
        log = b.Transitions.one_step(**bandit(1500), episode_ids=np.arange(1500))
    found = evaluated(log, b.TablePolicy(TARGET), method=bondic_lab.make_baseline(name))
    assert found.estimate == pytest.approx(TRUTH, abs=0.06)


# --- what is shown -------------------------------------------------------------------------------------


def question(policy, data, initial=None):
    log = b.Transitions.one_step(**data)
    start = b.InitialStates.from_log(log) if initial is None else initial
    return b.make_problem(log, policy, start, gamma=0.0, reward_range=(0.0, 1.0))


def test_the_policys_actions_are_counted_at_logged_states():
    data = bandit(400)
    states = data["observations"][:, 0].astype(int)
    rows = TARGET[states]
    for policy in (b.TablePolicy(TARGET), RowProbabilities(np.zeros_like(rows), rows, rows)):
        health = examine(question(policy, data))
        assert health.queried_at == "logged states"
        np.testing.assert_allclose([use.target for use in health.actions], rows.mean(axis=0), rtol=1e-12)


def test_a_policy_that_cannot_be_asked_again_is_counted_at_initial_states():
    data = bandit(400)
    rows = TARGET[data["observations"][:, 0].astype(int)]
    health = examine(question(RowProbabilities(np.zeros_like(rows), rows), data))
    assert health.queried_at == "initial states"
    np.testing.assert_allclose([use.target for use in health.actions], rows.mean(axis=0), rtol=1e-12)
    drawn = examine(question(CallableSampler(lambda s, _: 0 * s + 0.25), smooth(300)))
    assert [use.target for use in drawn.actions] == pytest.approx([0.25])


def test_the_tool_reads_and_evaluates_without_a_discount(tmp_path, capsys, monkeypatch):
    pq.write_table(table(bandit(1500)), tmp_path / "log.parquet")
    np.savez(tmp_path / "policy.npz", probs=TARGET)
    asked = ["--policy", tmp_path / "policy.npz", "--reward-range", 0, 1, "--out", tmp_path / "out", "--quiet"]

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bondic", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        return stop.value.code, capsys.readouterr()

    code, said = run("evaluate", tmp_path / "log.parquet", *asked)
    assert code == 2
    assert "that every row ends by --one-step" in said.err
    assert "columns={" not in said.err  # the command line speaks its own words
    code, said = run("evaluate", tmp_path / "log.parquet", *asked, "--one-step")
    assert code == 0, said.err
    code, said = run("verify", tmp_path / "out" / "certificate.json", tmp_path / "log.parquet", "--one-step")
    assert code == 7, said.err  # without the policy no plan is made again
    streamed = ["--with", "memory=1GB", "--one-step", "--method", "dual", "--force"]
    assert run("evaluate", tmp_path / "log.parquet", *asked, *streamed)[0] == 0
    assert run("check", tmp_path / "log.parquet", "--one-step")[0] == 0


def test_a_policy_in_columns_of_single_decisions_is_told_which_columns():
    data = bandit(200)
    probs = {f"p_{k}": TARGET[data["observations"][:, 0].astype(int), k] for k in range(ACTIONS)}
    asked = {"gamma": 0.0, "reward_range": (0, 1)}
    with pytest.raises(b.InvalidInput, match=r"--columns 'logged_action_probs=p_\*'"):
        b.evaluate_policy(b.read_log(data | probs, one_step=True), "columns", **asked)
    log = b.read_log(data | probs, one_step=True, columns={"logged_action_probs": list(probs)})
    assert b.evaluate_policy(log, "columns", **asked).high <= 1.0
