"""What evaluate takes, a monitor takes: text, policies that return actions, propensities; alike from file to file."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner

import bondic
from bondic.cli import main as cli
from bondic.core.claims import Status
from bondic.core.errors import InvalidInput
from bondic.data.io.read import read_log
from bondic.errors import PolicyError
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.rows.growing import complete_rows
from builders import part

POLICY = """
import numpy as np

def push(states):
    return np.array(["push"] * len(states))

def one(states):
    return np.ones(len(states), dtype=int)

def even(states):
    return np.full((len(states), 2), 0.5)
"""


def write_shop(
    path, rows, seed, *, channels=("app", "web"), actions=("hold", "push"), first=0, propensities=False, gap=None
):
    """Single decisions with text in states, actions and ids; pushing earns 0.6 in the app, 0.2 elsewhere."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(
            ["obs_channel", "obs_age", "action", "reward", "episode_id", *(["propensity"] if propensities else [])]
        )
        for row in range(rows):
            channel = channels[rng.integers(len(channels))]
            chance = 0.5 if channel == "app" else 0.3
            pushed = int(rng.random() < chance)
            reward = int(rng.random() < (0.6 if pushed and channel == "app" else 0.2))
            age = "" if row == gap else rng.integers(20, 60)
            more = [chance if pushed else 1 - chance] if propensities else []
            table.writerow([channel, age, actions[pushed], reward, f"user {first + row}", *more])
    return path


def call(*words, command="monitor"):
    return CliRunner().invoke(cli.group, [command, *map(str, words)])


def shop(folder, policy, *more):
    (folder / "rules.py").write_text(POLICY)
    columns = ["observations=obs_channel,obs_age", "episode_ids=episode_id"]
    words = ["--policy", f"{folder / 'rules.py'}:{policy}", "--one-step", "--reward-range", 0, 1, "--planned-rows", 900]
    return [*words, *[word for item in columns for word in ("--columns", item)], *more]


# ------------------------------------------------------------------------------------------------------ text


def test_text_is_read_alike_from_file_to_file(tmp_path):
    """The second file lacks a category, and has new ids: a log read at once is the same, bit for bit."""
    first = write_shop(tmp_path / "first.csv", 300, 1)
    second = write_shop(tmp_path / "second.csv", 200, 2, channels=("web",), first=300)
    whole = tmp_path / "whole.csv"
    whole.write_text(first.read_text() + second.read_text().partition("\n")[2])
    how = {"columns": {"observations": ["obs_channel", "obs_age"], "episode_ids": "episode_id"}, "one_step": True}
    begun = read_log(first, **how)
    later, at_once = read_log(second, like=begun, **how), read_log(whole, **how)
    assert later.names == begun.names == at_once.names
    assert np.array_equal(
        np.concatenate([begun.transitions.observations, later.transitions.observations]),
        at_once.transitions.observations,
    )
    assert np.array_equal(later.transitions.episode_ids, at_once.transitions.episode_ids[300:])
    folder = tmp_path / "watch"
    stated = shop(tmp_path, "even", "--actions", "hold,push")
    for file, rows in ((first, 300), (second, 500), (whole, 500)):
        done = call(folder, "--log", file, *(stated if file is first else []))
        assert done.exit_code == 0, done.exception
        assert f"{rows} in all" in done.output
    assert "0 new rows" in done.output
    read = [word for word in stated if word not in (*stated[:2], "--reward-range", 0, 1, "--planned-rows", 900)]
    checked = call(folder / "certificates" / "000002.json", whole, *read, command="verify")
    assert checked.output.startswith("not checked: when the plan was made"), checked.output


def test_ids_of_episodes_are_of_one_kind():
    """Text is numbered: beside ids that are numbers, two episodes would be one."""
    columns = {"observations": [0.5, 1.5], "actions": [0, 1], "rewards": [0.0, 1.0]}
    numbers, text = ({**columns, "episode_ids": ids} for ids in ([0, 1], ["a", "b"]))
    begun = read_log(text, one_step=True)
    assert read_log(numbers, one_step=True, like=begun).transitions.episode_ids.tolist() == [2, 3]
    assert read_log(text, one_step=True, like=begun).transitions.episode_ids.tolist() == [0, 1]
    with pytest.raises(InvalidInput, match="ids of one kind"):
        read_log(text, one_step=True, like=read_log(numbers, one_step=True))


def test_a_new_category_is_refused_by_name_unless_it_was_stated(tmp_path):
    first = write_shop(tmp_path / "first.csv", 300, 1)
    second = write_shop(tmp_path / "second.csv", 200, 2, channels=("app", "tv"), first=300)
    stated = shop(tmp_path, "even", "--actions", "hold,push")
    call(tmp_path / "watch", "--log", first, *stated)
    refused = str(call(tmp_path / "watch", "--log", second).exception)
    assert all(word in refused for word in ("obs_channel is 'tv' at row", "app, web", "--text obs_channel=app,web,tv"))
    told = [*stated, "--text", "obs_channel=app,web,tv"]
    assert call(tmp_path / "stated", "--log", first, *told).exit_code == 0
    done = call(tmp_path / "stated", "--log", second)
    assert "500 in all" in done.output, done.exception
    with pytest.raises(InvalidInput, match=r"names nothing, which is no dimension"):
        read_log(first, columns={"observations": "obs_channel"}, one_step=True, categories={"nothing": ["a"]})
    with pytest.raises(InvalidInput, match=r"each of them once"):
        read_log(first, columns={"observations": "obs_channel"}, one_step=True, categories={"obs_channel": ["a", "a"]})


def test_a_gap_has_its_column_in_every_file(tmp_path):
    first = write_shop(tmp_path / "first.csv", 300, 1, gap=7)
    second = write_shop(tmp_path / "second.csv", 200, 2, first=300)
    stated = shop(tmp_path, "even", "--actions", "hold,push", "--missing", "indicator")
    for file, total in ((first, 300), (second, 500)):
        done = call(tmp_path / "watch", "--log", file, *(stated if file is first else []))
        assert f"{total} in all" in done.output, done.exception
    begun = call(tmp_path / "other", "--log", second, *stated)
    assert begun.exit_code == 0
    assert "obs_age_missing" in str(call(tmp_path / "other", "--log", first).exception)


# --------------------------------------------------------------------------------------------------- actions


def test_policies_may_return_actions(tmp_path):
    """By name, or by number; those of the first file are all there are."""
    first, second = write_shop(tmp_path / "first.csv", 300, 1), write_shop(tmp_path / "second.csv", 200, 2, first=300)
    third = write_shop(tmp_path / "third.csv", 100, 3, actions=("hold", "call"), first=500)
    results = {}
    for policy, more in (("push", []), ("one", ["--actions", "hold,push"])):
        done = call(tmp_path / policy, "--log", first, *shop(tmp_path, policy, *more))
        assert done.exit_code == 0, done.exception
        assert "2 actions, hold, push" in done.output.replace("\n", " ") or more
        results[policy] = json.loads(call(tmp_path / policy, "--log", second, "--json").stdout)
    assert results["push"]["low"] == results["one"]["low"]
    refused = call(tmp_path / "push", "--log", third)
    assert "'call' at row" in str(refused.exception)
    refused = call(tmp_path / "even", "--log", first, *shop(tmp_path, "even"))
    assert "the order of the policy's answers is unknown" in str(refused.exception)


# ---------------------------------------------------------------------------------------------- propensities


def takes_one(states):
    return np.ones(len(states), dtype=int)


def bandit(seed, n):
    """Two states, two actions; taking action 1 earns 0.7 on average."""
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=n)
    chance = np.where(state == 0, 0.3, 0.6)
    action = (rng.random(n) < chance).astype(int)
    rewards = (rng.random(n) < np.where(action == 1, 0.6 + 0.2 * state, 0.1)).astype(float)
    nothing = np.zeros((n, 1))
    probs = np.where(action == 1, chance, 1 - chance)
    return bondic.Transitions(
        state[:, None].astype(float), action, rewards, nothing, np.ones(n, bool), behavior_action_probs=probs
    )


def episodes(seed, count, length=6):
    """Two states; under action 1 a step earns 0.5 on average and the episode goes on with probability 0.3."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(count):
        state = int(rng.integers(2))
        for step in range(length):
            action, following = int(rng.random() < 0.5), int(rng.integers(2))
            reward, ended = float(rng.random() < 0.3 + 0.4 * action * state), rng.random() < 0.5 + 0.2 * action
            rows.append((state, action, reward, following, ended, not ended and step == length - 1, episode, step))
            state = following
            if ended:
                break
    state, action, reward, following, ended, cut, ids, steps = map(np.array, zip(*rows, strict=True))
    return bondic.Transitions(
        state[:, None].astype(float), action, reward, following[:, None].astype(float), ended.astype(bool),
        cut.astype(bool), ids, steps, behavior_action_probs=np.full(len(rows), 0.5),
    )  # fmt: skip


VALUE = 0.5 / (1 - 0.9 * 0.3)


def episode_monitor(n, **more):
    asked = {"gamma": 0.9, "reward_range": (0, 1), "value_range": (0, 6), "planned_rows": n, **more}
    return bondic.SequentialMonitor(takes_one, **asked)


def test_decisions_with_propensities_are_bets_that_every_update_continues():
    """The interval of an update is that of the method on all rows so far, with the planned number; it needs no Q and no pilot."""
    log = bandit(2, 900)
    for stated in (None, Propensities(min_propensity=0.3)):
        monitor = bondic.SequentialMonitor(
            takes_one, gamma=0.0, reward_range=(0, 1), planned_rows=900, propensities=stated
        )
        assert monitor.update(part(log, slice(50))).status is Status.TRIVIAL  # rows that set rates
        for stop in (300, 600, 900):
            result = monitor.update(part(log, slice(len(monitor), stop)))
            problem = bondic.make_problem(part(log, slice(stop)), takes_one, gamma=0.0, reward_range=(0, 1))
            alone = Propensities(planned_rows=900, min_propensity=None if stated is None else 0.3)
            wanted = bondic.estimate_interval(problem, method=alone)
            assert (result.low, result.high, result.method) == (wanted.low, wanted.high, "propensities")
        assert monitor.used_method == "propensities"
        assert f"for {900 - result.rows[0]} of them" in result.choices["number of rows"]
        policy = bondic.DeterministicPolicy(takes_one, n_actions=2)
        assert bondic.verify(result.certificate, monitor.log, policy).low == result.low
        assert 0.7 in monitor.interval
        assert tuple(monitor.interval) == (result.low, result.high)  # about the rows so far
        assert result.rows[0] > 0


RUNS, MAX_MISSES = 20, 6
"""A binomial number of 20 runs that each fail with probability 0.1 exceeds 6 with probability 0.003."""


def test_intervals_from_propensities_hold_at_all_updates_at_once():
    missed, peeked = 0, 0
    for seed in range(RUNS):
        log = bandit(100 + seed, 400)
        monitor = bondic.SequentialMonitor(takes_one, gamma=0.0, reward_range=(0, 1), planned_rows=400)
        for first in range(0, 400, 50):
            monitor.update(part(log, slice(first, first + 50)))
        missed += any(not line.low <= 0.7 <= line.high for line in monitor.updates)
        values = np.where(log.actions == 1, log.rewards / log.behavior_action_probs, 0.0)
        counts = np.arange(50, 401)
        means = np.cumsum(values)[49:] / counts
        wide = 1.645 * np.array([values[:n].std() for n in counts]) / np.sqrt(counts)
        peeked += bool((np.abs(means - 0.7) > wide).any())
    assert missed <= MAX_MISSES
    assert peeked > MAX_MISSES, "an interval for one look, looked at all the time, has to fail"


def test_episodes_count_when_they_are_complete(tmp_path):
    log = episodes(1, 600)
    n = len(log)
    monitor, other = episode_monitor(n), episode_monitor(n)
    pilot = next(stop for stop in complete_rows(log).tolist() if stop >= n // 5)
    cuts = [20, *range(pilot, pilot + 8), 700, n]  # the first episodes after the pilot, which may have one step each
    for stop in cuts:
        result = monitor.update(part(log, slice(len(monitor), stop)))
        held = monitor.log
        complete = complete_rows(part(log, slice(stop))).max(initial=0)
        assert (0 if held is None else len(held)) == complete
        if complete < stop:
            assert f"episode of row {complete}" in result.choices["waiting rows"]
        monitor.save(tmp_path / "folder")
        monitor = bondic.SequentialMonitor.load(tmp_path / "folder", takes_one)
    for stop in (450, n):
        last = other.update(part(log, slice(len(other), stop)))
    assert (last.low, last.high, last.hashes) == (result.low, result.high, result.hashes)
    assert "propensities, as the log holds propensities" in result.choices["method"]
    assert last.rows[0] >= n // 5
    assert log.timesteps[last.rows[0]] == 0
    assert VALUE in monitor.interval
    bondic.verify(last.certificate, other.log, bondic.DeterministicPolicy(takes_one, n_actions=2))


def test_whole_episodes():
    log = episodes(3, 40)
    ended = log.terminations | log.truncations
    order = np.argsort(log.timesteps, kind="stable")  # all first steps, then all second ones
    for rows in (part(log, slice(10)), log, part(part(log, order), slice(40)), part(log, order)):
        ids = rows.episode_ids.tolist()
        last = {episode: row for row, episode in enumerate(ids)}
        over = {episode for episode, row in last.items() if (rows.terminations | rows.truncations)[row]}
        whole = [
            n for n in range(1, len(ids) + 1) if all(episode in over and last[episode] < n for episode in set(ids[:n]))
        ]
        assert complete_rows(rows).tolist() == whole
    assert complete_rows(part(log, drop=("episode_ids",))).tolist() == (np.flatnonzero(ended) + 1).tolist()


def test_what_was_cut_does_not_go_on():
    log = episodes(1, 300)
    monitor = episode_monitor(len(log))
    stop = int(complete_rows(part(log, slice(400))).max())
    last = np.arange(stop) == stop - 1
    monitor.update(part(log, slice(stop), terminations=log.terminations[:stop] & ~last, truncations=last))
    more = {"episode_ids": log.episode_ids[stop - 1 : stop], "timesteps": log.timesteps[stop - 1 : stop] + 1}
    with pytest.raises(InvalidInput, match="had ended or was cut"):
        monitor.update(part(log, slice(stop, stop + 1), **more))


@pytest.mark.filterwarnings("ignore:The propensities look like those of the action that was not taken")
def test_propensities_are_never_ignored_without_a_word():
    log = episodes(1, 200)
    start = bondic.InitialStates.exact([[0.0], [1.0]])
    stated = episode_monitor(len(log), initial=start, method=Sequential(pilot=100))
    assert "initial states are stated" in stated.update(log).choices["propensities"]
    long = part(log, behavior_action_probs=np.full(len(log), 0.02))  # ratios of 50: episodes say nothing
    little = bondic.SequentialMonitor(
        takes_one, gamma=0.9, reward_range=(0, 1), planned_rows=len(log), method=Sequential(pilot=100)
    )
    little.update(part(long, slice(60)))
    assert little.used_method == "undecided"
    result = little.update(part(long, slice(60, 151)))
    assert little.used_method == "table"
    assert "predict too long an interval" in result.choices["propensities"]
    assert len(little.log) == 151


def test_a_policy_that_the_log_holds_is_followed(tmp_path):
    """LoggedTarget: states and actions need not be recorded, and no policy is asked."""
    whole = bandit(3, 600)
    target = np.where(whole.actions == 1, 1.0, 0.0)
    kept = {name: getattr(whole, name) for name in ("rewards", "behavior_action_probs")}
    for name, rows in (("first", slice(250)), ("second", slice(250, 600))):
        np.savez(tmp_path / f"{name}.npz", target_action_probs=target[rows], **{k: v[rows] for k, v in kept.items()})
    stated = ["--policy", "logged", "--one-step", "--reward-range", 0, 1, "--planned-rows", 600]
    assert call(tmp_path / "watch", "--log", tmp_path / "first.npz", *stated).exit_code == 0
    done = call(tmp_path / "watch", "--log", tmp_path / "second.npz", "--json")
    assert done.exit_code == 0, done.exception
    told = json.loads(done.stdout)
    # without actions propensities are not checked by themselves: that would take a thousandth
    monitor = bondic.SequentialMonitor(takes_one, gamma=0.0, reward_range=(0, 1), planned_rows=600, alpha=0.101)
    wanted = [monitor.update(part(whole, rows)) for rows in (slice(250), slice(250, 600))][-1]
    assert (told["low"], told["high"]) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
    assert told["method"] == "propensities"


def test_a_policy_in_columns_comes_with_the_rows(tmp_path):
    """Episodes that go on in the next file, with and without propensities: as if the policy itself had been asked."""
    whole = episodes(5, 250)
    n, probs = len(whole), np.tile([0.25, 0.75], (len(whole), 1))
    policy = bondic.CallablePolicy(lambda states: np.tile([0.25, 0.75], (len(states), 1)))
    for dropped in ((), ("behavior_action_probs",)):
        log = part(whole, drop=dropped)
        asked = {"gamma": 0.9, "reward_range": (0, 1), "value_range": (0, 6), "planned_rows": n}
        known, columns = bondic.SequentialMonitor(policy, **asked), bondic.SequentialMonitor("columns", **asked)
        for first, stop in ((0, 101), (101, 333), (333, n)):
            rows = part(log, slice(first, stop))
            held = {name: column for name, column in rows.columns().items() if column is not None}
            loaded = read_log(
                {**held, "logged_action_probs": probs[first:stop], "next_action_probs": probs[first:stop]}
            )
            found, wanted = columns.update(loaded), known.update(rows)
            assert (found.low, found.high, found.hashes) == (wanted.low, wanted.high, wanted.hashes)
            columns.save(tmp_path / f"folder{len(dropped)}")
            columns = bondic.SequentialMonitor.load(tmp_path / f"folder{len(dropped)}", "columns")
        assert found.method == ("table" if dropped else "propensities")
        with pytest.raises(InvalidInput, match="the same columns"):
            columns.update(part(log, slice(0, 5), episode_ids=log.episode_ids[:5] + 10_000))
    with pytest.raises(InvalidInput, match="come with the rows"):
        bondic.SequentialMonitor("columns", **asked).update(log)


def test_what_is_stated_about_propensities_is_kept(tmp_path):
    first = write_shop(tmp_path / "first.csv", 300, 1, propensities=True)
    second = write_shop(tmp_path / "second.csv", 300, 2, first=300, propensities=True)
    lengths = {}
    for name, more in (("exact", []), ("doubted", ["--with", "gamma_sensitivity=1.2"])):
        stated = shop(tmp_path, "push", "--columns", "behavior_action_probs=propensity", *more)
        assert call(tmp_path / name, "--log", first, *stated).exit_code == 0
        told = json.loads(call(tmp_path / name, "--log", second, "--json").stdout)
        lengths[name] = told["high"] - told["low"]
        assert told["method"] == "propensities"
    assert lengths["doubted"] > lengths["exact"] + 0.05
    refused = call(tmp_path / "bad", "--log", first, *shop(tmp_path, "push", "--with", "steps=5"))
    assert "steps" in str(refused.exception)
    with pytest.raises(InvalidInput, match="no planned_rows="):
        bondic.SequentialMonitor(
            takes_one, gamma=0.0, reward_range=(0, 1), planned_rows=600, propensities=Propensities(planned_rows=10)
        )


def test_another_policy_and_other_units_are_refused():
    log = bandit(4, 300)
    answers = [0.0]
    policy = bondic.CallablePolicy(lambda states: np.tile([answers[0], 1 - answers[0]], (len(states), 1)))
    monitor = bondic.SequentialMonitor(policy, gamma=0.0, reward_range=(0, 1), planned_rows=600)
    monitor.update(part(log, slice(200)))
    answers[0] = 0.5
    with pytest.raises(PolicyError, match="begin a new monitor"):
        monitor.update(part(log, slice(200, 300)))
    answers[0] = 0.0
    assert monitor.update(part(log, slice(200, 300))).status is Status.INTERVAL
