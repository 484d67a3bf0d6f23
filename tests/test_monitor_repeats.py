"""Rows that came before: refused where chance does not repeat them, taken where it does, and nothing changes on disk."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import bondic
from bondic.cli import main as cli
from bondic.core.errors import InvalidInput
from bondic.data.hygiene.repeats import repeated_run
from bondic.methods.sequential import Sequential
from builders import part, tabular


def outcomes(seed, n, values=2):
    """One state, rewards of so many equally likely values: equal rows are everyday."""
    state = np.zeros((n, 1))
    rewards = np.random.default_rng(seed).integers(values, size=n) / max(values - 1, 1)
    return bondic.Transitions(state, np.zeros(n, int), rewards, state, np.ones(n, bool))


def after(*logs):
    names = [name for name, column in logs[0].columns().items() if column is not None]
    return bondic.Transitions(**{name: np.concatenate([getattr(log, name) for log in logs]) for name in names})


def new_monitor(n=400, **more):
    start = bondic.InitialStates.exact([[0.0]])
    asked = {"gamma": 0.0, "reward_range": (0, 1), "planned_rows": n, "method": Sequential(pilot=40), **more}
    return bondic.SequentialMonitor(bondic.UniformPolicy(1), start, **asked)


# ------------------------------------------------------------------------------------------- what chance gives


@pytest.mark.parametrize(("values", "rows"), [(2, 1), (20, 3), (2, 10), (2, 40)])
def test_new_rows_are_not_taken_for_old_ones(values, rows):
    """Streams of few outcomes, in small portions and in large ones: equal portions are no surprise there."""
    for seed in range(3):
        log = outcomes(seed, 40 * rows, values)
        for k in range(1, 40):
            ends = [rows * (j + 1) for j in range(k)]
            found = repeated_run(part(log, slice(k * rows)), part(log, slice(k * rows, (k + 1) * rows)), ends, 0.1)
            assert found is None or not found.certain


def test_copies_are_found_where_rows_are_few_and_outcomes_two():
    for rows in (30, 300):
        log = outcomes(1, 2 * rows)
        again = part(log, slice(rows, 2 * rows))
        assert repeated_run(log, again, [rows, 2 * rows], 0.1).certain
    log = outcomes(1, 900)
    overlap = repeated_run(log, after(part(log, slice(700, 900)), outcomes(2, 300)), [900], 0.1)
    assert (overlap.first, overlap.earlier, overlap.length) == (0, 700, 200) or overlap.length > 200


def test_rows_that_cannot_differ_are_a_doubt():
    """A process that repeats itself gives the same rows again by itself: a warning, no refusal."""
    cycle = np.arange(70) % 7
    log = bondic.Transitions(
        cycle[:, None].astype(float), np.zeros(70, int), cycle / 7, (cycle[:, None] + 1.0) % 7, np.zeros(70, bool)
    )
    found = repeated_run(log, log, [70], 0.1)
    assert found is not None
    assert not found.certain


# ----------------------------------------------------------------------------------------------- the monitor


def test_the_same_rows_again_are_refused_and_change_nothing():
    monitor, log = new_monitor(), outcomes(1, 400)
    monitor.update(part(log, slice(100)))
    monitor.update(part(log, slice(100, 250)))
    before = monitor.updates
    with pytest.raises(InvalidInput, match=r"All 150 new rows came before.*rows 100 to 249.*update 2.*repeated-batch"):
        monitor.update(part(log, slice(100, 250)))
    with pytest.raises(InvalidInput, match=r"All 100 new rows.*update 1"):
        monitor.update(part(log, slice(100)))
    with pytest.raises(InvalidInput, match=r"120 of the 270 new rows.*rows 130 to 249.*from row 120 on"):
        monitor.update(part(log, slice(130, 400)))
    assert (monitor.updates, len(monitor)) == (before, 250)
    monitor.update(part(log, slice(250, 400)))
    assert len(monitor) == 400


def test_the_log_as_a_whole_that_differs_from_the_known_rows_is_told():
    monitor, log = new_monitor(), outcomes(1, 400)
    monitor.update(part(log, slice(200)))
    changed = part(log, rewards=np.where(np.arange(400) == 190, 1 - log.rewards, log.rewards))
    assert monitor.unseen(changed) is changed
    with pytest.raises(InvalidInput, match=r"begin with all 200 rows that are known, and differs from them at row 190"):
        monitor.update(changed)


def test_rows_may_be_stated_to_be_new_events(tmp_path):
    monitor, log = new_monitor(), outcomes(1, 400)
    monitor.update(part(log, slice(150)))
    result = monitor.update(part(log, slice(150)), accept=["repeated-batch"])
    assert len(monitor) == 300
    assert any("new events" in item.text and item.state == "stated" for item in result.assumptions)
    monitor.save(tmp_path / "folder")
    again = bondic.SequentialMonitor.load(tmp_path / "folder", bondic.UniformPolicy(1))
    assert [record.repeated for record in again.updates] == [False, True]
    for one in (monitor, again):
        later = one.update(part(log, slice(150, 200)))
        assert any("new events" in item.text for item in later.assumptions)
    with pytest.raises(InvalidInput, match=r"when the monitor is made"):
        monitor.update(part(log, slice(200, 300)), accept=["gaps"])


def test_keys_say_what_came_before():
    mdp, log, policy, initial = tabular(700, seed=3)
    monitor = bondic.SequentialMonitor(
        policy, initial, gamma=0.8, reward_range=mdp.reward_range, planned_rows=650, method=Sequential(pilot=80)
    )
    monitor.update(part(log, slice(50)))
    monitor.update(part(log, slice(50, 90)))
    with pytest.raises(InvalidInput, match=r"20 of these 60 rows.*row 0 is row 70 of the log, from update 2.*twice"):
        monitor.update(part(log, slice(70, 130)))
    other = part(log, slice(70, 130), rewards=log.rewards[70:130][::-1])
    with pytest.raises(InvalidInput, match=r"same \(episode, timestep\) key.*values differ.*its own number"):
        monitor.update(other)
    with pytest.raises(InvalidInput, match=r"update 2"):
        monitor.update(part(log, slice(70, 130)), accept=["repeated-batch"])  # two rows of one key are no two events
    assert len(monitor) == 90


# -------------------------------------------------------------------------------------------- command line


def call(*words):
    return CliRunner().invoke(cli.group, ["monitor", *map(str, words)])


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write(path, log):
    np.savez(path, **{name: column for name, column in log.columns().items() if column is not None})
    return path


def test_the_same_file_twice_is_refused_by_the_command(tmp_path):
    """The reported case: three rows, then a file, then the same file: its rows counted twice, with a shorter interval."""
    log, folder = outcomes(1, 900), tmp_path / "watch"
    few, file = write(tmp_path / "few.npz", part(log, slice(3))), write(tmp_path / "file.npz", part(log, slice(3, 900)))
    np.savez(tmp_path / "policy.npz", probs=np.ones((1, 1)))
    np.savez(tmp_path / "start.npz", observations=np.zeros((1, 1)))
    stated = ["--policy", tmp_path / "policy.npz", "--initial", tmp_path / "start.npz", "--planned-rows", 900]
    stated += ["--gamma", 0, "--reward-range", 0, 1, "--with", "pilot=60"]
    assert "waiting" in call(folder, "--log", few, *stated).output
    made = call(folder, "--log", file)
    assert made.exit_code == 0
    assert "planned for 900 rows" in made.output
    before = contents(folder)
    refused = call(folder, "--log", file)
    assert "897 new rows came before" in str(refused.exception)
    assert refused.exit_code != 0
    assert contents(folder) == before
    taken = call(folder, "--log", file, "--accept", "repeated-batch", "--json")
    assert taken.exit_code == 0
    told = json.loads(taken.stdout)
    assert (told["rows"], told["repeated"], told["planned_rows"]) == (1797, True, 900)
    assert json.loads((folder / "stated.json").read_text())["accept"] == []
    assert "came before" in str(call(folder, "--log", file).exception)
