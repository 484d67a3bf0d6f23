"""A log that is looked at while it grows: intervals that hold at once, plans that never change, files that survive."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import bondic
from bondic.cli import main as cli
from bondic.core.cells.ends import EndWeights
from bondic.core.cells.proof import CellsProof
from bondic.core.claims import Status
from bondic.core.errors import InvalidInput, NoInterval, PolicyError
from bondic.core.sequential.plan import columns
from bondic.core.terms import make_terms
from bondic.engines.sums import STANDARD
from bondic.methods import monitor_files
from bondic.methods.sequential import Sequential
from bondic.policies.protocol import CallableSampler, RowProbabilities
from bondic.rows.asked import rebuild
from bondic.rows.growing import GrowingRows, Statements
from bondic.tuning.defaults import Choices
from builders import COLUMNS, continuous, part, synthetic, tabular


def portions(log, cuts):
    return [part(log, slice(first, stop)) for first, stop in zip([0, *cuts], [*cuts, len(log)], strict=False)]


def watched(monitor, log, cuts):
    """Results of all updates; a log of len(log) rows that came in portions."""
    return [monitor.update(rows) for rows in portions(log, cuts)]


# ------------------------------------------------------------------------------------- worst-time coverage


RUNS, LEVEL = 12, 0.1
MOST_MISSES = 4
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
    misses, peeked, cheated = 0, 0, 0
    for seed in range(RUNS):
        log, rng = coin(seed), np.random.default_rng(1000 + seed)
        monitor = coin_monitor()
        results = watched(monitor, log, np.sort(rng.choice(np.arange(50, 399), 2, replace=False)))
        misses += monitor.status is Status.REJECTED or not all(r.low <= 0.5 <= r.high for r in results)
        peeked += not _normal_intervals_all_hold(log.rewards)
        low, high = _planned_again(results[-1], log)
        cheated += not low <= 0.5 <= high
        assert monitor.interval.length < 0.2
    assert misses <= MOST_MISSES
    assert peeked > MOST_MISSES, "an interval for one look, looked at all the time, has to fail"
    assert cheated == RUNS, "weights that are made after their rows have to fail"


def _normal_intervals_all_hold(rewards):
    counts = np.arange(1, len(rewards) + 1)
    means = np.cumsum(rewards) / counts
    wide = 1.645 * np.sqrt(np.maximum(means * (1 - means), 1e-9) / counts)
    return bool(np.all(np.abs(means - 0.5)[30:] <= wide[30:]))


def _planned_again(result, log):
    """The same proof with weights on the rows that suit: as if every row were a block that is planned after a look at it."""
    proof, events, first = result.proof, result.proof.events, result.rows[0]
    rewards, stops = log.rewards[first:], tuple(range(first + 1, len(log) + 1))
    tails = {}
    for end, chosen in (("upper", rewards == 0), ("lower", rewards == 1)):
        sign = 1.0 if end == "upper" else -1.0
        tails[end] = EndWeights(sign * 0.3 * chosen[:, None].astype(float), 0.3 * float(chosen.sum()))
    quotas = np.ones((len(stops), 1))
    plan = replace(events, stops=stops, tails=tails, quotas=quotas, eras=(0,))
    proof = replace(proof, events=plan)
    ends = {claim.end: claim.bound for claim in proof.claims(rebuild(proof.asked, log, None, None), STANDARD).ends}
    return ends["lower"], ends["upper"]


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
    last = monitor.updates[-1].told()
    assert (last["running_low"], last["running_high"], last["running_status"]) == (None, None, "REJECTED")
    begun = monitor.updates[0].told()
    assert (begun["running_low"], begun["running_high"]) == (
        monitor.updates[0].running_low,
        monitor.updates[0].running_high,
    )
    *_, line = csv.DictReader(monitor_files.history_text(monitor.updates).splitlines())
    assert (line["running_low"], line["running_high"]) == ("", "")


def test_confidence_that_is_taken_for_alpha_is_doubted():
    with pytest.warns(bondic.ValidityWarning, match=r"alpha is 0.95.*alpha is 0.05"):
        monitor = coin_monitor(alpha=0.95)
    results = [monitor.update(rows) for rows in portions(coin(3), [35, 200])]
    assert [sum("alpha is 0.95" in text for text in result.warnings) for result in results] == [1, 1, 1]


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
    return log, {"policy": policy, "initial": initial, **more}, Sequential(radius=9.0, pilot=100, rank=40)


CASES = (a_table, smooth, starts_of_the_log, drawn)
CUTS = [60, 270, 410, 415, 600]


def new_monitor(asked, method):
    return bondic.SequentialMonitor(**asked, gamma=0.8, planned_rows=650, method=method)


def planned_alike(mine, theirs, row):
    """Whether two proofs are the same, bit for bit, as far as they were made from rows before this one."""
    if isinstance(mine, CellsProof):
        return _tables_alike(mine, theirs, row)
    mine, theirs = mine.plan, theirs.plan
    seen = slice(mine.seen)
    assert np.array_equal(mine.basis.points[seen], theirs.basis.points[seen])
    assert np.array_equal(mine.basis.matrix[seen, seen], theirs.basis.matrix[seen, seen])
    for one, other in zip(mine.blocks, theirs.blocks, strict=False):
        assert one.stop == other.stop
        for end, weighting in one.weightings.items():
            early = int(np.searchsorted(weighting.starts, row, side="right"))
            if early:
                assert np.array_equal(one.model.coefficients, other.model.coefficients)
                assert np.array_equal(one.whitening, other.whitening)
                assert (one.rate, one.usual, one.margin) == (other.rate, other.usual, other.margin)
                assert np.array_equal(weighting.directions[:early], other.weightings[end].directions[:early])
    return True


def _tables_alike(mine, theirs, row):
    """Weights and quotas of the blocks that begin before this row, and the events, on the cells that both know."""
    one, other, cells = mine.events, theirs.events, min(mine.events.reference.size, theirs.events.reference.size)
    blocks = sum(begin <= row for begin in (mine.asked.rows[0], *one.stops[:-1]))
    assert mine.budget.parts == theirs.budget.parts
    assert one.vector.rates == other.vector.rates
    assert np.array_equal(one.cells.rates[:, :cells], other.cells.rates[:, :cells])
    assert np.array_equal(one.quotas[:blocks, :cells], other.quotas[:blocks, :cells])
    for end, tail in one.tails.items():
        assert np.array_equal(tail.weights[:blocks, :cells], other.tails[end].weights[:blocks, :cells])
    return True


@pytest.mark.parametrize("case", CASES)
def test_an_interval_depends_on_the_rows_and_not_on_how_they_came(case):
    """Updates, another division into updates, and all rows at once, planned from scratch: the same plan and interval."""
    log, asked, method = case()
    results = watched(new_monitor(asked, method), log, CUTS)
    plans = [result.proof for result in results if result.proof is not None]
    last = new_monitor(asked, method)
    final = watched(last, log, [350])[-1]
    for plan, result in zip(plans, results[-len(plans) :], strict=True):
        assert planned_alike(plan, plans[-1], result.rows[1] - 1)
        assert planned_alike(plan, final.proof, result.rows[1] - 1)
    assert (final.low, final.high, final.hashes) == (results[-1].low, results[-1].high, results[-1].hashes)
    whole, terms = last.log, {key: value for key, value in asked.items() if key not in ("policy", "initial")}
    initial = bondic.InitialStates.from_log(whole) if asked["initial"] is None else asked["initial"]
    problem = bondic.make_problem(whole, asked["policy"], initial, gamma=0.8, **terms)
    alone = bondic.Table(pilot=80) if case is a_table else method
    once = bondic.estimate_interval(problem, method=replace(alone, planned_rows=650))
    assert (once.low, once.high) == (final.low, final.high)
    checked = bondic.verify(final.certificate, whole, asked["policy"])
    assert (checked.low, checked.high) == (final.low, final.high)


def test_later_rows_change_nothing_earlier():
    log, asked, method = a_table()
    first, second = (new_monitor(asked, method) for _ in range(2))
    other = part(log, rewards=np.where(np.arange(700) < 415, log.rewards, 1.0 - log.rewards))
    mine, theirs = watched(first, log, CUTS), watched(second, other, CUTS)
    for before, after in zip(mine[:4], theirs[:4], strict=True):
        assert (before.low, before.high, before.hashes) == (after.low, after.high, after.hashes)
    assert mine[-1].hashes["certificate"] != theirs[-1].hashes["certificate"]
    assert planned_alike(mine[-1].proof, theirs[-1].proof, 415)


def test_what_is_bet_on_a_row_stays_to_the_last_bit():
    """Predictions, instruments and weights are computed again at every update, with more rows and other landmarks."""
    log, asked, method = smooth()
    results = [result for result in watched(new_monitor(asked, method), log, CUTS) if result.proof is not None]
    found = [_bets(result, log) for result in results]
    for bets in found[:-1]:
        for mine, theirs in zip(bets, found[-1], strict=True):
            assert np.array_equal(mine, theirs[: len(mine)])


def _bets(result, log):
    """Of every certified row: predictions, λ|φ| and the weights of both ends."""
    proof, plan = result.proof, result.proof.plan
    data = proof.evidence(rebuild(proof.asked, part(log, slice(result.rows[1])), None, None).columns, STANDARD).data
    made = []
    for block, where in plan.pieces(data.log_rows):
        rows = data.stretch(where)
        here = rows.here[:, : plan.seen]
        made.append(columns(block, data.gamma, rows.log_rows, rows.points, rows.slots, here, rows.limits))
    sizes = [np.linalg.norm(own.instruments, axis=1) for own in made]
    others = ([own.predicted for own in made], *([own.weights[end] for own in made] for end in ("lower", "upper")))
    return [np.concatenate(column) for column in (sizes, *others)]


def fussy_sampler():
    """Draws until it likes what it has: how much it takes of its generator depends on the states it is asked at."""

    def sample(states, rng):
        out = rng.standard_normal((len(states), 1))
        while (bad := out[:, 0] * states[:, 0] > 1.0).any():
            out[bad] = rng.standard_normal((int(bad.sum()), 1))
        return out

    return CallableSampler(sample)


def test_draws_of_earlier_rows_stay():
    log, _, initial = continuous(900)
    said = Statements(fussy_sampler(), initial, make_terms(0.8, (-1, 1), None, True, False), draws=2, initial_draws=3)
    rows = GrowingRows.begin(said, part(log, slice(300)))
    held = rows.answers.next
    assert rows.used == 256
    for first, stop in ((300, 520), (520, 530), (530, 900)):
        rows = rows.grown(part(log, slice(first, stop)))
        assert rows.used == stop // 256 * 256
        assert np.array_equal(rows.answers.next[: len(held)], held)
        held = rows.answers.next
    terms = {"gamma": 0.8, "reward_range": (-1, 1), "draws": 2, "initial_draws": 3}
    fresh = [
        bondic.make_problem(part(log, slice(n)), said.policy, initial, **terms).stored_answers()
        for n in (768, 300, 400)
    ]
    assert np.array_equal(fresh[0], held)
    assert not np.array_equal(fresh[1], fresh[2][: len(fresh[1])]), "or there would be nothing to wait for"


def test_starts_of_the_log_are_asked_for_once():
    mdp, log, policy, _ = synthetic(400, seed=1)
    asked = []

    def counted(states):
        asked.append(len(states))
        return policy.action_probs(states)

    said = Statements(bondic.CallablePolicy(counted), None, make_terms(0.8, mdp.reward_range, None, True, False))
    rows = GrowingRows.begin(said, part(log, slice(100)))
    for first in (100, 200, 300):
        rows = rows.grown(part(log, slice(first, first + 100)))
    assert sum(asked) == len(rows.answers.initial) + len(rows.answers.next)
    problem = rows.problem()
    again = bondic.make_problem(
        log, policy, bondic.InitialStates.from_log(log), gamma=0.8, reward_range=mdp.reward_range
    )
    assert np.array_equal(problem.answers.initial, again.answers.initial)
    assert np.array_equal(problem.stored_answers(), again.stored_answers())


# --------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("case", [a_table, starts_of_the_log, drawn])
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


def test_a_plan_from_elsewhere_is_kept_to_the_last_bit():
    """Another machine may plan with other last digits: what was planned there is used as it is."""
    log, asked, method = smooth()
    monitor = new_monitor(asked, method)
    rows = portions(log, CUTS)
    for portion in rows[:4]:
        monitor.update(portion)
    plan = monitor.result.proof.plan
    nudged = tuple(
        replace(block, rate=np.nextafter(block.rate, 0.0), guess=block.guess * (1 + 1e-15)) for block in plan.blocks
    )
    monitor._plans = replace(monitor._plans, plan=replace(plan, blocks=nudged))
    found = monitor.update(rows[4]).proof.plan
    for kept, block in zip(nudged, found.blocks, strict=False):
        assert kept.rate == block.rate
        assert np.array_equal(kept.guess, block.guess)
    assert len(found.blocks[len(nudged) - 1].weightings["upper"].starts) >= len(nudged[-1].weightings["upper"].starts)


def test_weights_of_a_table_that_were_used_stay_when_states_are_new():
    """A state that nobody saw before, also as a start, comes in the last update: weights before it stay, bit for bit."""
    log, asked, method = a_table()
    last = np.arange(700) >= 600
    for initial in (asked["initial"], None):  # given, or the starts of the log, which become known one by one
        states = np.where(last[:, None] & (log.observations == 1.0), 9.0, log.observations)
        grown = part(log, observations=states, next_observations=np.where(last[:, None], 9.0, log.next_observations))
        policy = bondic.CallablePolicy(lambda s: asked["policy"].action_probs(np.minimum(s, 5.0)))
        more = {"accept": ["next-observations"]}
        monitor = new_monitor({**asked, "policy": policy, "initial": initial, **more}, method)
        *_, before, after = watched(monitor, grown, CUTS)
        assert after.proof.cells.states.shape[0] > before.proof.cells.states.shape[0]
        assert planned_alike(before.proof, after.proof, before.rows[1] - 1)
        bondic.verify(after.certificate, monitor.log, policy)


class Killed(BaseException):
    pass


def test_a_killed_save_leaves_what_was_there(tmp_path, monkeypatch):
    log, asked, method = a_table()
    rows, folder = portions(log, CUTS), tmp_path / "folder"
    monitor = new_monitor(asked, method)
    for portion in rows[:2]:
        monitor.update(portion)
    monitor.save(folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    wanted = monitor.update(rows[2])
    real, calls = monitor_files.write_atomically, []
    for deadly in range(1, 10):
        calls.clear()

        def write(target, content, deadly=deadly):
            calls.append(target)
            if len(calls) == deadly:
                raise Killed
            real(target, content)

        monkeypatch.setattr(monitor_files, "write_atomically", write)
        try:
            monitor.save(folder)
        except Killed:
            held = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            committed = calls[-1].name == monitor_files.HISTORY
            assert committed or held == before
            again = bondic.SequentialMonitor.load(folder, asked["policy"])
            assert len(again.updates) == 2 + committed
            if not committed:
                continue
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
    with pytest.raises(PolicyError, match="not the one that is followed"):
        bondic.SequentialMonitor.load(tmp_path / "a", bondic.UniformPolicy(3))
    with pytest.raises(InvalidInput, match="holds no monitor"):
        bondic.SequentialMonitor.load(tmp_path / "nowhere", asked["policy"])
    for name, content in (("monitor.json", b"{"), ("updates/000002.npz", b"PK")):
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        (tmp_path / "b" / name).write_bytes(content)
        with pytest.raises(InvalidInput):
            bondic.SequentialMonitor.load(tmp_path / "b", asked["policy"])
        shutil.rmtree(tmp_path / "b")
    numbers = tmp_path / "a" / "certificates" / "000002.npz"
    whole = numbers.read_bytes()
    arrays = dict(np.load(numbers))
    name = next(name for name in arrays if name.endswith("quotas"))
    np.savez(numbers, **{**arrays, name: arrays[name] * 2})
    with pytest.raises(InvalidInput, match="not the certificate of the last update"):
        bondic.SequentialMonitor.load(tmp_path / "a", asked["policy"])
    numbers.write_bytes(whole)
    arrays = dict(np.load(tmp_path / "a" / "updates" / "000001.npz"))
    arrays["rewards"][3] = 1.0 - arrays["rewards"][3]
    np.savez(tmp_path / "a" / "updates" / "000001.npz", **arrays)
    with pytest.raises(InvalidInput, match="a file was changed"):
        bondic.SequentialMonitor.load(tmp_path / "a", asked["policy"])


# ----------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"planned_rows": 0}, "whole number of rows"),
        ({"planned_rows": 30}, "some have to be left"),
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


def test_the_command_appends_new_rows_and_grown_logs(tmp_path):
    log, asked, _ = a_table()
    folder = tmp_path / "watch"
    np.savez(tmp_path / "policy.npz", probs=asked["policy"].action_probs(np.arange(6.0)[:, None]))
    low, high = asked["reward_range"]
    stated = ["--policy", tmp_path / "policy.npz", "--gamma", 0.8, "--reward-range", low, high, "--planned-rows", 650]
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
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    for words, expected in (
        (["--log", files["whole"], "--gamma", 0.9], "--gamma"),
        (["--log", files["first"]], "first of the 700 that are known"),
        (["--log", files["second"]], "same (episode, timestep) key"),
        (["--log", tmp_path / "none.npz"], "none.npz"),
    ):
        failed = call(folder, *words)
        assert failed.exit_code != 0
        assert expected in str(failed.exception) + failed.output
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_the_command_leaves_nothing_behind_when_it_is_interrupted(tmp_path, monkeypatch):
    log, asked, _ = a_table()
    np.savez(tmp_path / "policy.npz", probs=asked["policy"].action_probs(np.arange(6.0)[:, None]))
    rows = write_rows(tmp_path / "rows.npz", log)
    low, high = asked["reward_range"]
    stated = ["--policy", tmp_path / "policy.npz", "--gamma", 0.8, "--reward-range", low, high, "--planned-rows", 650]
    names = set(tmp_path.iterdir())

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(monitor_files, "save_certificate", interrupt)
    stopped = call(tmp_path / "watch", "--log", rows, *stated)
    assert stopped.exit_code == 1
    assert set(tmp_path.iterdir()) == names
    monkeypatch.undo()
    refused = call(tmp_path / "watch", "--log", rows, *stated[2:], "--policy", "columns")
    assert "no columns with the policy's probabilities" in str(refused.exception)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("mine")
    refused = call(tmp_path / "taken", "--log", rows, *stated)
    assert "holds no monitor" in str(refused.exception)
    assert [path.name for path in Path(tmp_path / "taken").iterdir()] == ["file"]


def test_a_plan_waits_for_the_first_start_after_the_pilot():
    """Episodes are long there: nothing is given up meanwhile."""
    rng, rows = np.random.default_rng(0), 4000
    late = 399 + 380 * np.arange(10) + np.arange(10) ** 2
    last = np.where(np.arange(rows) < 195, np.arange(rows) % 10 == 9, np.isin(np.arange(rows), late))
    after = rng.integers(0, 3, rows)
    state = np.where(np.concatenate([[True], last[:-1]]), 0, np.concatenate([[0], after[:-1]]))
    action = rng.integers(0, 2, rows)
    columns = {
        "observations": state[:, None], "actions": action, "rewards": (rng.random(rows) < 0.3 + 0.2 * action).astype(float),
        "next_observations": after[:, None], "terminations": last, "episode_ids": np.cumsum(last) - last,
    }  # fmt: skip
    monitor = bondic.SequentialMonitor(
        bondic.TablePolicy(np.full((3, 2), 0.5)), gamma=0.5, reward_range=(0, 1), planned_rows=rows,
        method=bondic.Table(pilot=200),
    )  # fmt: skip
    first = monitor.update(bondic.Transitions(**{name: column[:260] for name, column in columns.items()}))
    assert "no episode has begun" in first.choices["waiting"]
    last_one = monitor.update(bondic.Transitions(**{name: column[260:] for name, column in columns.items()}))
    assert last_one.status.name == "INTERVAL"
