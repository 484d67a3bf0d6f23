"""A log that is looked at while it grows: intervals that hold at once, plans that never change, files that survive."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import bondic
from bondic.cli import main as cli
from bondic.core.claims import Status
from bondic.core.errors import InvalidInput
from bondic.errors import NoInterval, PolicyError
from bondic.methods import monitor_files
from bondic.methods.sequential import Sequential
from bondic.policies.protocol import RowProbabilities
from bondic.tuning.defaults import Advanced, Choices
from builders import COLUMNS, continuous, part, synthetic, tabular


def portions(log, cuts):
    return [part(log, slice(first, stop)) for first, stop in zip([0, *cuts], [*cuts, len(log)], strict=False)]


def watched(monitor, log, cuts):
    """Results of all updates; a log of len(log) rows that came in portions."""
    return [monitor.update(rows) for rows in portions(log, cuts)]


# ------------------------------------------------------------------------------------- worst-time coverage


RUNS, LEVEL = 12, 0.1
MAX_MISSES = 4
"""A binomial number of 12 runs that each fail with probability 0.1 exceeds 4 with probability 0.004."""


def coin(seed, n=400):
    """One state, one action, rewards 0 or 1 with probability 1/2: the value is 1/2."""
    state = np.zeros((n, 1))
    rewards = (np.random.default_rng(seed).random(n) < 0.5).astype(float)
    return bondic.Transitions(state, np.zeros(n, int), rewards, state, np.ones(n, bool))


def coin_monitor(n=400, alpha=LEVEL):
    return bondic.SequentialMonitor(
        bondic.UniformPolicy(1),
        bondic.InitialStates.exact([[0.0]]),
        gamma=0.0,
        reward_range=(0, 1),
        planned_rows=n,
        alpha=alpha,
        method=bondic.Table(pilot=40),
    )


def test_all_looks_hold_at_once_and_others_do_not():
    misses, peeked = 0, 0
    for seed in range(RUNS):
        log, rng = coin(seed), np.random.default_rng(1000 + seed)
        monitor = coin_monitor()
        results = watched(monitor, log, np.sort(rng.choice(np.arange(50, 399), 2, replace=False)))
        misses += monitor.status is Status.REJECTED or not all(r.low <= 0.5 <= r.high for r in results)
        peeked += not _normal_intervals_all_hold(log.rewards)
        assert monitor.interval.length < 0.2
    assert misses <= MAX_MISSES
    assert peeked > MAX_MISSES, "an interval for one look, looked at all the time, has to fail"


def _normal_intervals_all_hold(rewards):
    counts = np.arange(1, len(rewards) + 1)
    means = np.cumsum(rewards) / counts
    wide = 1.645 * np.sqrt(np.maximum(means * (1 - means), 1e-9) / counts)
    return bool(np.all(np.abs(means - 0.5)[30:] <= wide[30:]))


def test_the_running_interval_is_what_all_have_in_common():
    monitor = coin_monitor()
    low, high = monitor.interval.low, monitor.interval.high
    for rows in portions(coin(3), [35, 200, 280, 350]):
        result = monitor.update(rows)
        low, high = max(low, result.low), min(high, result.high)
        assert (monitor.interval.low, monitor.interval.high) == (low, high)
    assert [record.rows for record in monitor.updates] == [35, 200, 280, 350, 400]
    assert monitor.updates[0].certificate == ""
    assert monitor.status is Status.INTERVAL
    (length,) = (item for item in result.assumptions if item.name == "length")
    assert "400 rows were planned" in length.text
    assert "stopped at any time" in length.text


@pytest.mark.filterwarnings("ignore:The log does not stand still")
def test_a_rejection_is_for_good():
    """Rewards of which the second half is another world: what was true of the first half cannot be true of both."""
    monitor = coin_monitor(n=2000)
    first = coin(1, 2000)
    watched(monitor, part(first, slice(1000)), [500])
    assert monitor.status is Status.INTERVAL
    for _ in range(4):
        monitor.update(part(first, slice(1000), rewards=np.ones(1000)), accept=["repeated-batch"])
    assert monitor.status is Status.REJECTED
    monitor.update(part(first, slice(1000, 1500)))
    assert monitor.status is Status.REJECTED
    assert (monitor.running.low, monitor.running.high) == pytest.approx((0.0, 1.0))
    with pytest.raises(NoInterval):
        _ = monitor.interval
    last = monitor.updates[-1].as_row()
    assert (last["running_low"], last["running_high"], last["running_status"]) == (None, None, "REJECTED")
    *_, line = csv.DictReader(monitor_files.history_text(monitor.updates).splitlines())
    assert (line["running_low"], line["running_high"]) == ("", "")


def test_numbers_without_a_statement_are_refused():
    log, asked, _ = smooth()
    monitor = new_monitor(asked, Sequential(choices=Choices(categorical=False)))
    with pytest.raises(
        bondic.InvalidInput, match=r"states are numbers: without a statement .* radius= \(--with radius\) or ball="
    ):
        monitor.update(part(log, slice(500)))
    assert len(monitor) == 0


# ------------------------------------------------------------------------------------------ predictability


def a_table():
    mdp, log, policy, initial = tabular(700, seed=3)
    return log, {"policy": policy, "initial": initial, "reward_range": mdp.reward_range}, Sequential(pilot=80)


def smooth():
    mdp, log, policy, initial = synthetic(700, seed=3)
    return log, {"policy": policy, "initial": initial, "reward_range": mdp.reward_range}, Sequential(radius=9.0)


def starts_of_the_log():
    log, asked, method = smooth()
    return log, {**asked, "initial": None}, method


def drawn():
    log, policy, initial = continuous(700)
    more = {"reward_range": (-1, 1), "draws": 2, "initial_draws": 20}
    return (
        log,
        {"policy": policy, "initial": initial, **more},
        Sequential(radius=9.0, pilot=100, advanced=Advanced(rank=40)),
    )


CASES = (a_table, starts_of_the_log, drawn)
CUTS = [60, 270, 410, 415, 600]


def new_monitor(asked, method):
    return bondic.SequentialMonitor(**asked, gamma=0.8, planned_rows=650, method=method)


def planned_alike(mine, theirs, row):
    """Weights and quotas of the blocks that begin before this row, and the events, on the cells that both know."""
    one, other, cells = mine.events, theirs.events, min(mine.events.reference.size, theirs.events.reference.size)
    blocks = sum(begin <= row for begin in (mine.estimand.rows[0], *one.stops[:-1]))
    assert mine.budget.parts == theirs.budget.parts
    assert np.array_equal(one.cells.rates[:, :cells], other.cells.rates[:, :cells])
    assert np.array_equal(one.quotas[:blocks, :cells], other.quotas[:blocks, :cells])
    for end, tail in one.tails.items():
        assert np.array_equal(tail.weights[:blocks, :cells], other.tails[end].weights[:blocks, :cells])


@pytest.mark.parametrize("case", CASES)
def test_an_interval_depends_on_the_rows_and_not_on_how_they_came(case):
    """Updates, another division into updates, and all rows at once, planned from scratch: the same plan and interval."""
    log, asked, method = case()
    results = watched(new_monitor(asked, method), log, CUTS)
    last = new_monitor(asked, method)
    final = watched(last, log, [350])[-1]
    assert (final.low, final.high, final.hashes) == (results[-1].low, results[-1].high, results[-1].hashes)
    whole, terms = last.log, {key: value for key, value in asked.items() if key not in ("policy", "initial")}
    initial = bondic.InitialStates.from_log(whole) if asked["initial"] is None else asked["initial"]
    problem = bondic.make_problem(whole, asked["policy"], initial, gamma=0.8, **terms)
    alone = bondic.Table(pilot=80) if case is a_table else method
    once = bondic.estimate_interval(problem, method=replace(alone, planned_rows=650))
    assert (once.low, once.high) == (final.low, final.high)
    checked = bondic.verify(final.certificate, whole, asked["policy"])
    assert (checked.low, checked.high) == (final.low, final.high)


# --------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("case", [a_table, drawn])
def test_resumed_is_as_if_it_had_never_been_away(case, tmp_path):
    log, asked, method = case()
    at_once = new_monitor(asked, method)
    expected = watched(at_once, log, CUTS)
    monitor = new_monitor(asked, method)
    for rows, wanted in zip(portions(log, CUTS), expected, strict=True):
        found = monitor.update(rows)
        assert (found.low, found.high, found.hashes) == (wanted.low, wanted.high, wanted.hashes)
        monitor.save(tmp_path / "folder")
        monitor = bondic.SequentialMonitor.load(tmp_path / "folder", asked["policy"])
        assert monitor.result is None
        assert len(monitor.updates) == len(monitor_files.read_document(tmp_path / "folder")["updates"])
    assert [replace(record, time="") for record in monitor.updates] == [
        replace(record, time="") for record in at_once.updates
    ]
    assert monitor.interval == at_once.interval


def test_weights_of_a_table_that_were_used_stay_when_states_are_new():
    """A state that nobody saw before, also as a start, comes in the last update: weights before it stay, bit for bit."""
    log, asked, method = a_table()
    last = np.arange(700) >= 600
    states = np.where(last[:, None] & (log.observations == 1.0), 9.0, log.observations)
    grown = part(log, observations=states, next_observations=np.where(last[:, None], 9.0, log.next_observations))
    policy = bondic.CallablePolicy(lambda s: asked["policy"].action_probs(np.minimum(s, 5.0)))
    more = {"accept": ["next-observations"]}
    for initial in (asked["initial"], None):  # given, or the starts of the log, which become known one by one
        monitor = new_monitor({**asked, "policy": policy, "initial": initial, **more}, method)
        *_, before, after = watched(monitor, grown, CUTS)
        assert after.proof.cells.states.shape[0] > before.proof.cells.states.shape[0]
        planned_alike(before.proof, after.proof, before.rows[1] - 1)
        bondic.verify(after.certificate, monitor.log, policy)


class Killed(BaseException):
    pass


def held(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_killed_save_leaves_what_was_there(tmp_path, monkeypatch):
    log, asked, method = a_table()
    rows, folder = portions(log, CUTS), tmp_path / "folder"
    monitor = new_monitor(asked, method)
    for portion in rows[:2]:
        monitor.update(portion)
    monitor.save(folder)
    before, wanted = held(folder), monitor.update(rows[2])
    real, calls, deadly = monitor_files.write_atomically, [], [0]

    def write(target, content):
        calls.append(target.name)
        if len(calls) == deadly[0]:
            raise Killed
        real(target, content)

    monkeypatch.setattr(monitor_files, "write_atomically", write)
    for deadly[0] in range(1, 10):
        calls.clear()
        with pytest.raises(Killed):
            monitor.save(folder)
        committed = calls[-1] == monitor_files.HISTORY
        assert committed or held(folder) == before
        assert len(bondic.SequentialMonitor.load(folder, asked["policy"]).updates) == 2 + committed
        if committed:
            break
    monkeypatch.undo()
    monitor.save(folder)
    assert (folder / "history.csv").read_text().count("\n") == 4
    again = bondic.SequentialMonitor.load(folder, asked["policy"])
    assert again.updates[-1].certificate == wanted.hashes["certificate"]
    assert not list(tmp_path.rglob(".*"))


def test_a_killed_update_has_not_happened(monkeypatch):
    log, asked, method = a_table()
    rows = portions(log, CUTS)
    wanted = watched(new_monitor(asked, method), part(log, slice(410)), CUTS[:2])[-1]
    monitor = new_monitor(asked, method)
    for portion in rows[:2]:
        monitor.update(portion)

    def fail(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bondic.Table, "evaluate", fail)
        with pytest.raises(KeyboardInterrupt):
            monitor.update(part(rows[2], rewards=1.0 - rows[2].rewards))
    assert len(monitor) == 270
    found = monitor.update(rows[2])  # not the rows that were lost: a planner that had seen those would show here
    assert (found.low, found.high, found.hashes) == (wanted.low, wanted.high, wanted.hashes)


def test_damaged_and_foreign_folders_are_refused(tmp_path):
    log, asked, method = a_table()
    monitor = new_monitor(asked, method)
    with pytest.raises(InvalidInput, match="nothing to save"):
        monitor.save(tmp_path / "empty")
    watched(monitor, log, [300])
    monitor.save(tmp_path / "a")
    other = new_monitor(asked, method)
    other.update(part(log, slice(350)))
    with pytest.raises(InvalidInput, match="another monitor"):
        other.save(tmp_path / "a")
    with pytest.raises(PolicyError, match="begin a new monitor"):
        bondic.SequentialMonitor.load(tmp_path / "a", bondic.UniformPolicy(3))
    with pytest.raises(InvalidInput, match="holds no monitor"):
        bondic.SequentialMonitor.load(tmp_path / "nowhere", asked["policy"])

    def changed(name, content, words):
        file = tmp_path / "a" / name
        whole = file.read_bytes()
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            np.savez(file, **{key: content(key, array) for key, array in np.load(file).items()})
        with pytest.raises(InvalidInput, match=words):
            bondic.SequentialMonitor.load(tmp_path / "a", asked["policy"])
        file.write_bytes(whole)

    changed("monitor.json", b"{", "monitor.json")
    changed("updates/000002.npz", b"PK", "000002.npz")
    changed("updates/000001.npz", lambda key, array: 1.0 - array if key == "rewards" else array, "a file was changed")
    doubled = lambda key, array: 2 * array if key.endswith("quotas") else array  # noqa: E731
    changed("certificates/000002.npz", doubled, "not the certificate of the last update")


# ----------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"planned_rows": 0}, "whole number of rows"),
        ({"planned_rows": 30}, "some rows have to remain"),
        ({"method": bondic.Dual()}, "method= is a Sequential or a Table"),
        ({"method": Sequential(planned_rows=10)}, "pass one of them"),
        ({"alpha": 1.5}, "alpha"),
        ({"gamma": 1.2}, "gamma"),
        ({"initial": [[0.0]]}, "Initial states are InitialStates"),
        ({"seed": -1}, "seed"),
        ({"policy": RowProbabilities(np.ones((3, 1)), np.ones((1, 1)))}, "belong to one log"),
    ],
)
def test_what_cannot_be_watched_is_refused_at_once(changed, words):
    _, asked, method = a_table()
    with pytest.raises(InvalidInput, match=words):
        bondic.SequentialMonitor(**{**asked, "gamma": 0.8, "planned_rows": 650, "method": method, **changed})


def test_rows_that_do_not_fit_are_not_taken_in():
    log, asked, method = a_table()
    monitor = new_monitor(asked, method)
    monitor.update(part(log, slice(50)))
    low, high = asked["reward_range"]
    with pytest.raises(InvalidInput, match="row 52"):
        monitor.update(part(log, slice(50, 60), rewards=np.where(np.arange(10) == 2, high + 1, low)))
    with pytest.raises(InvalidInput, match="same columns"):
        monitor.update(part(log, slice(50, 60), drop=("timesteps",)))
    with pytest.raises(InvalidInput, match="same columns"):
        monitor.update(part(log, slice(50, 60), actions=np.zeros((10, 2))))
    with pytest.raises(InvalidInput, match=r"same \(episode, timestep\) key"):
        monitor.update(part(log, slice(40, 60)))
    with pytest.raises(InvalidInput, match="New rows are Transitions"):
        monitor.update([1, 2])
    assert len(monitor) == 50
    with pytest.raises(InvalidInput, match="Pass initial=None"):
        new_monitor({**asked, "initial": bondic.InitialStates.from_log(log)}, method)
    draws, more, other = drawn()
    with pytest.raises(InvalidInput, match="whose means over actions are exact"):
        new_monitor({**more, "initial": None}, other).update(draws)


# -------------------------------------------------------------------------------------------- command line


def write_rows(path, log, rows=slice(None)):
    np.savez(path, **{name: getattr(log, name)[rows] for name in COLUMNS if getattr(log, name) is not None})
    return str(path)


def history(folder):
    return list(csv.DictReader((folder / "history.csv").read_text().splitlines()))


def call(*words):
    return CliRunner().invoke(cli.group, ["monitor", *map(str, words)])


def statements(place, asked):
    np.savez(place / "policy.npz", probs=asked["policy"].action_probs(np.arange(6.0)[:, None]))
    low, high = asked["reward_range"]
    words = f"--policy {place / 'policy.npz'} --gamma 0.8 --planned-rows 650"
    return [*words.split(), "--reward-range", low, high]


def test_the_command_appends_new_rows_and_grown_logs(tmp_path):
    log, asked, _ = a_table()
    folder, stated, (low, high) = tmp_path / "watch", statements(tmp_path, asked), asked["reward_range"]
    files = {
        "first": write_rows(tmp_path / "first.npz", log, slice(300)),
        "second": write_rows(tmp_path / "second.npz", log, slice(300, 450)),
        "whole": write_rows(tmp_path / "whole.npz", log),
    }
    assert "Missing option" in call(folder, "--log", files["first"]).output
    made = call(folder, "--log", files["first"], *stated, "--with", "pilot=80")
    assert made.exit_code in (0, 4), made.output
    assert call(folder, "--log", files["second"]).exit_code in (0, 4)
    done = call(folder, "--log", files["whole"], "--json")
    assert json.loads(done.stdout)["new_rows"] == 250
    lines = history(folder)
    assert [int(line["rows"]) for line in lines] == [300, 450, 700]
    again = call(folder, "--log", files["whole"])  # nothing new: nothing happens
    assert again.exit_code == done.exit_code
    assert "0 new rows" in again.output
    assert history(folder) == lines
    monitor = bondic.SequentialMonitor(
        asked["policy"], None, gamma=0.8, reward_range=(low, high), planned_rows=650, method=Sequential(pilot=80)
    )
    watched(monitor, log, [300, 450])
    assert [line["certificate"] for line in lines] == [record.certificate for record in monitor.updates]
    assert (float(lines[-1]["running_low"]), float(lines[-1]["running_high"])) == (
        monitor.interval.low,
        monitor.interval.high,
    )
    for number, rows in ((2, 450), (3, 700)):
        found = bondic.load_certificate(folder / "certificates" / f"{number:06d}.json")
        bondic.verify(found, part(log, slice(rows)), asked["policy"])
    _check_refusals(folder, files, tmp_path)


def _check_refusals(folder, files, tmp_path):
    before = held(folder)
    for words, expected in (
        (["--log", files["whole"], "--gamma", 0.9], "--gamma"),
        (["--log", files["first"]], "first of the 700 that are known"),
        (["--log", files["second"]], "same (episode, timestep) key"),
        (["--log", tmp_path / "none.npz"], "none.npz"),
    ):
        failed = call(folder, *words)
        assert failed.exit_code != 0
        assert expected in str(failed.exception) + failed.output
    assert held(folder) == before


def test_the_command_leaves_nothing_behind_when_it_is_interrupted(tmp_path, monkeypatch):
    log, asked, _ = a_table()
    stated, rows = statements(tmp_path, asked), write_rows(tmp_path / "rows.npz", log)
    names = set(tmp_path.iterdir())

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(monitor_files, "save_certificate", interrupt)
    stopped = call(tmp_path / "watch", "--log", rows, *stated)
    assert stopped.exit_code == 1
    assert set(tmp_path.iterdir()) == names
    monkeypatch.undo()
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    refused = call(tmp_path / "taken", "--log", rows, *stated)
    assert "holds no monitor" in str(refused.exception)
    assert [path.name for path in Path(tmp_path / "taken").iterdir()] == ["file"]
