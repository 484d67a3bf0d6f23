"""Silent data errors are refused or warned about; honest logs are left in peace."""

from __future__ import annotations

import json
import sys
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import bondic
import bondic_lab
import builders
from bondic.core.errors import InvalidInput
from bondic.data.hygiene.findings import ACCEPTABLE, Finding, judge
from bondic.errors import ValidityWarning

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import corruptions
from experiments.corruptions_honest import HARD
from experiments.corruptions_logs import (
    FAULTS,
    GOOD,
    HONEST,
    autoreset,
    filled_next,
    limit_as_end,
    pasted,
    stale_next,
    table,
)

from propensity_cases import STATES, ThreeStates, decisions, one_step
from test_tool import run

TERMS = {"gamma": 0.9, "reward_range": (-10.0, 10.0)}
START = [[1.0]]


def log_of(columns, **changes):
    return bondic.Transitions(**{**columns, **changes})


def kinds(log, **terms):
    return {item.kind: item for item in bondic.inspect_log(log, **terms)}


def found(columns, kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        return [item for item in bondic.inspect_log(bondic.Transitions(**columns)) if item.kind == kind]


def rng(seed=0):
    return np.random.default_rng([5, seed])


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_caught_in_every_log_that_can_have_it(fault):
    lines = [line for name in GOOD if (line := corruptions.run_fault(fault, name, 2)) is not None]
    assert len(lines) >= 2
    assert all(line.caught == line.trials for line in lines), lines


@pytest.mark.parametrize("name", [*HONEST, *HARD])
def test_logs_without_a_fault_are_left_in_peace(name):
    """Some of them look faulty."""
    assert corruptions.false_alarms(name, 4) == []


BY_ONE = ("observations written as next observations", "next observations of other rows", "three rows lost")


@pytest.mark.parametrize(
    ("fault", "batch_rows", "rows"), [*product(FAULTS, [17], [1200]), *product(BY_ONE, [1], [100])]
)
def test_a_streamed_log_has_the_same_findings(fault, batch_rows, rows):
    """Rows are compared across the borders of batches, and episodes are put together from parts."""
    spoil, kind = FAULTS[fault]
    short = ({key: column[:rows] for key, column in GOOD[name](rng()).items()} for name in ("table", "cart-pole"))
    columns = next(spoiled for log in short if (spoiled := spoil(log, rng())) is not None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        whole = bondic.inspect_log(log_of(columns))
        parts = bondic.inspect_log(bondic.stream_log(columns, batch_rows=batch_rows))
    assert kind in {item.kind for item in whole}
    assert {(item.kind, item.count, item.row) for item in parts} == {
        (item.kind, item.count, item.row) for item in whole
    }


# Next observations


def test_the_rows_and_the_way_out_are_named():
    columns = table(rng())
    columns["next_observations"][41] += 1.0
    found = kinds(log_of(columns))["next-observations"]
    assert (found.severity, found.count, found.row) == ("warn", 1, 41)
    for needle in ("first: row 41, followed by row 42", "put missing rows back", "--accept next-observations"):
        assert needle in str(found)


def test_single_precision_is_tolerated_and_noted():
    columns = GOOD["cart-pole"](rng())
    columns["next_observations"] = columns["next_observations"].astype(np.float32)
    assert kinds(log_of(columns))["next-observations"].severity == "note"
    assert bondic.inspect_log(log_of(columns))[0].row == -1
    problem = bondic.make_problem(
        log_of(columns), bondic.UniformPolicy(2), bondic.InitialStates.exact(columns["observations"][:1]), **TERMS
    )
    assert problem.validity_notes == ()


def test_rows_that_nothing_joins_are_not_judged():
    """Without ids rows may be independent draws; only timesteps that count up say otherwise."""
    draw = np.random.default_rng(0)
    columns = {
        "observations": draw.normal(size=(50, 2)), "actions": draw.integers(2, size=50), "rewards": draw.random(50),
        "next_observations": draw.normal(size=(50, 2)), "terminations": np.zeros(50, dtype=bool),
    }  # fmt: skip
    assert bondic.inspect_log(log_of(columns)) == ()
    assert bondic.inspect_log(log_of(columns, timesteps=draw.integers(30, size=50))) == ()
    assert kinds(log_of(columns, timesteps=np.arange(50)))["next-observations"].severity == "warn"


# Ends of episodes


def test_a_process_that_goes_on_is_warned_about_and_can_be_accepted():
    """A continuing process cut into pieces looks like a reset at once: only its owner knows."""
    states = np.cumsum(np.random.default_rng(0).normal(size=201))
    columns = {
        "observations": states[:-1, None], "actions": np.arange(200) % 2, "rewards": np.tanh(states[1:]),
        "next_observations": states[1:, None], "terminations": np.zeros(200, dtype=bool),
        "truncations": np.arange(200) % 20 == 19, "episode_ids": np.arange(200) // 20,
    }  # fmt: skip
    log, start = log_of(columns), bondic.InitialStates.exact([[0.0]])
    with pytest.warns(ValidityWarning, match="first observation of the next episode"):
        problem = bondic.make_problem(log, bondic.UniformPolicy(2), start, **TERMS)
    assert len(problem.validity_notes) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stated = bondic.make_problem(log, bondic.UniformPolicy(2), start, **TERMS, accept=["resets"])
    assert stated.validity_notes == ()
    assert any("the process went on" in text for text in stated.stated)


def test_environments_numbered_as_episodes_are_warned_about():
    columns = table(rng())
    found = kinds(
        log_of(columns, episode_ids=columns["episode_ids"] // 4, timesteps=np.arange(len(columns["rewards"])))
    )
    assert found["rows-after-cut"].row == 20
    spoiled = autoreset(table(rng()), rng())
    assert "resets" in kinds(log_of({k: v for k, v in spoiled.items() if k not in ("episode_ids", "timesteps")}))


@pytest.mark.parametrize(("terms", "said"), [({}, True), ({"gamma": 0.0}, False), ({"horizon": 20}, False)])
def test_a_time_limit_is_natural_for_some_questions(terms, said):
    log = log_of(limit_as_end(table(rng()), rng()))
    assert ("time-limit" in kinds(log, **terms)) == said


def test_a_state_that_knows_the_time_may_end_with_it():
    columns = limit_as_end(GOOD["few starts"](rng()), rng())
    for name, shift in (("observations", 0), ("next_observations", 1)):
        columns[name] = np.column_stack([columns[name], columns["timesteps"] + shift])
    assert "time-limit" not in kinds(log_of(columns))


# Copies


@pytest.mark.parametrize("episodes", [1, 3])
def test_few_long_episodes_are_compared_piece_by_piece(episodes):
    columns = {name: column[: 1600 - 1600 % episodes] for name, column in table(rng()).items()}
    rows = columns["rewards"].size
    columns["truncations"] = np.zeros(rows, dtype=bool)
    columns["next_observations"][:-1] = columns["observations"][1:]
    columns["episode_ids"] = np.arange(rows) // (rows // episodes)
    columns["timesteps"] = np.arange(rows) % (rows // episodes)
    assert "copies" not in kinds(log_of(columns))
    assert kinds(log_of(pasted(columns, rng())))["copies"].severity == "warn"


# Next observations


def test_a_filled_column_is_named_once_with_its_first_row():
    columns = filled_next(GOOD["cart-pole"](rng()), rng())
    (item,) = found(columns, "next-observations")
    stays = (columns["observations"] == columns["next_observations"]).all(axis=1) & ~columns["terminations"]
    assert item.row == np.argmax(stays)
    assert 0.95 * stays.sum() < item.count <= stays.sum()
    keyed = GOOD["cart-pole"](rng())
    keyed["next_observations"] = keyed["observations"].copy()
    (item,) = found(keyed, "next-observations")
    assert item.severity == "refuse"  # here following rows contradict it


# Copies


@pytest.mark.parametrize(("ids", "each", "scale"), [(300, 10, 1.0), (50, 20, 0.37), (1000, 5, 0.37)])
def test_rows_that_are_sorted_by_customer_are_no_copies(ids, each, scale):
    """Equal contents stand near each other there: matches at short distances are common all over the log."""
    for seed in range(5):
        draws = rng(seed)
        who = np.repeat(np.arange(ids), each)
        actions = draws.integers(0, 2, who.size)
        rewards = (draws.random(who.size) < draws.random(ids)[who] * 0.6 + 0.3 * actions).astype(float)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ValidityWarning)
            log = bondic.Transitions.one_step(scale * who[:, None], actions, rewards)
        assert not [item for item in bondic.inspect_log(log) if item.kind == "copies"]


@pytest.mark.parametrize(("moves", "alarms"), [(False, 1), (True, 0)])
def test_states_that_are_few_and_never_left(moves, alarms):
    draws = rng()
    state = draws.integers(0, 3, 400)
    after = np.where((np.arange(400) == 17) & moves, (state + 1) % 3, state)
    columns = {
        "observations": state[:, None], "actions": draws.integers(0, 2, 400), "rewards": draws.random(400),
        "next_observations": after[:, None], "terminations": np.zeros(400, bool),
    }  # fmt: skip
    assert len(found(columns, "next-observations")) == alarms
    alone = {**columns, "observations": np.zeros((400, 1)), "next_observations": np.zeros((400, 1))}
    assert not found(alone, "next-observations")


# Propensities that were counted in the log itself


def with_propensities(log, probs, *, logarithms=False):
    columns = {"behavior_log_probs": np.log(probs)} if logarithms else {"behavior_action_probs": probs}
    return one_step(log.observations, log.actions, log.rewards, **columns)


def frequencies(log, *, by_state):
    state = np.searchsorted(STATES[:, 0], log.observations[:, 0]) if by_state else np.zeros(len(log), dtype=np.int64)
    counts = np.zeros((3, 2))
    np.add.at(counts, (state, log.actions), 1)
    return counts[state, log.actions] / counts.sum(axis=1)[state]


@pytest.mark.parametrize(
    ("by_state", "logarithms", "digits"),
    [(True, True, np.float64), (False, True, np.float32), (True, False, np.float32)],
)
def test_counted_propensities_are_doubted(by_state, logarithms, digits):
    log = decisions(997, seed=3)
    counted = frequencies(log, by_state=by_state).astype(digits).astype(float)
    estimated = with_propensities(log, counted, logarithms=logarithms)
    assert list(kinds(estimated)) == ["estimated-propensities"]
    with pytest.warns(ValidityWarning, match=r"gamma_sensitivity=\.\.\."):
        result = bondic.evaluate_policy(estimated, ThreeStates(), gamma=0.0, reward_range=(0, 1))
    assert any("estimated from this log" in one for one in result.warnings)
    accepted = bondic.evaluate_policy(
        estimated, ThreeStates(), gamma=0.0, reward_range=(0, 1), accept=["estimated-propensities"]
    )
    assert not accepted.warnings


def test_true_propensities_are_not_doubted():
    assert not any("estimated-propensities" in kinds(decisions(n, seed=n)) for n in (1, 2, 10, 400, 3000))
    rng = np.random.default_rng(0)
    for n in (10, 500, 4000):  # one coin that happens to be, or was made, even
        even = one_step(rng.normal(size=(n, 2)), np.arange(n) % 2, rng.random(n), behavior_action_probs=np.full(n, 0.5))
        assert list(kinds(even)) == []
    states = rng.normal(size=(300, 2))  # contexts that never repeat, drawn with a rule
    probs = 1 / (1 + np.exp(-states[:, 0]))
    action = (rng.random(300) < probs).astype(np.int64)
    drawn = one_step(states, action, rng.random(300), behavior_action_probs=np.where(action, probs, 1 - probs))
    assert list(kinds(drawn)) == []


def test_exact_halves_are_doubted_where_chance_does_not_explain_them():
    """Three states by halves may be chance; sixty are not: it is asked about, and can be accepted."""
    for count, expected in ((3, []), (60, ["estimated-propensities"])):
        states = np.arange(float(count)).repeat(200)[:, None]
        halves = np.full(len(states), 0.5)
        log = one_step(states, np.arange(len(states)) % 2, np.zeros(len(states)), behavior_action_probs=halves)
        assert [kind for kind in list(kinds(log)) if "propensities" in kind] == expected


# What becomes of findings


def test_faults_are_refused_and_accepted_ones_are_stated():
    fault = Finding("copies", "refuse", 3, 7, "Three rows come again.", "Keep each once.")
    doubt = Finding("gaps", "warn", 1, 2, "A row is missing.", "Put it back.")
    with pytest.raises(InvalidInput, match=r"Three rows come again.*--accept copies"):
        judge([fault, doubt], ())
    validity_notes, stated = judge([fault, doubt], ["copies"])
    assert validity_notes == (str(doubt),)
    assert stated == (ACCEPTABLE["copies"],)
    with pytest.raises(InvalidInput, match="'everything' is nothing that can be accepted"):
        judge([], ["everything"])


def test_an_action_that_was_never_logged_is_the_first_line_of_every_answer():
    log = log_of(table(rng()))
    unused = log.actions.max() + 1
    probs = np.append(np.full(unused, 0.9 / unused), 0.1)
    wide = bondic.TablePolicy(np.tile(probs, (int(log.observations.max()) + 1, 1)))
    with pytest.warns(ValidityWarning, match="never took"):
        problem = bondic.make_problem(log, wide, bondic.InitialStates.exact(START), **TERMS)
    result = bondic.estimate_interval(problem, method=bondic_lab.make_baseline("lstd"))
    assert "10.0% of its probability at the log's next states" in result.summary().splitlines()[0]
    assert json.loads(result.to_json())["warnings"] == list(result.warnings)
    assert "Warning:" in result.to_markdown().splitlines()[2].replace("*", "")
    assert result._repr_html_().index("never took") < result._repr_html_().index("oint estimate")


def test_continuous_actions_far_from_the_log_are_warned_about():
    log, start = bondic.Transitions(**builders.columns(90, action_dim=1)), bondic.InitialStates.exact([[0.0, 0.0]])
    near, far = (bondic.GaussianPolicy(lambda s, a=a: 0 * s[:, :1] + a, 0.1) for a in (0.0, 9.0))
    assert bondic.make_problem(log, near, start, **TERMS).validity_notes == ()
    with pytest.warns(ValidityWarning, match="outside the range of all logged actions"):
        bondic.make_problem(log, far, start, **TERMS)


def test_a_certificate_of_an_accepted_log_is_verified_without_accepting_again():
    columns = table(rng())
    columns["next_observations"][:200] = columns["observations"][:200]
    log, start = log_of(columns), bondic.InitialStates.exact(START)
    policy = bondic.UniformPolicy(int(log.actions.max()) + 1)
    with pytest.raises(InvalidInput, match="is not the observation of the following row"):
        bondic.make_problem(log, policy, start, **TERMS)
    problem = bondic.make_problem(log, policy, start, **TERMS, accept=["next-observations"])
    result = bondic.estimate_interval(problem, method=bondic.Dual(pilot=200))
    assert bondic.verify(result.certificate, log, policy).low == pytest.approx(result.low)


# The command line


def test_check_lists_what_would_be_refused_and_evaluate_says_it_first(tmp_path, capsys):
    np.savez(tmp_path / "log.npz", **stale_next(table(rng()), rng()))
    code, out, _ = run(capsys, "check", tmp_path / "log.npz")
    assert code == 2
    assert "refused: In" in out
    columns = limit_as_end(table(rng()), rng())
    np.savez(tmp_path / "log.npz", **columns)
    actions = int(columns["actions"].max()) + 2
    np.savez(tmp_path / "policy.npz", probs=np.full((int(columns["observations"].max()) + 1, actions), 1 / actions))
    asked = ["evaluate", tmp_path / "log.npz", "--policy", tmp_path / "policy.npz", "--gamma", "0.9", "--method", "lstd",
             "--reward-range", "-10", "10", "--out", tmp_path / "out", "--quiet"]  # fmt: skip
    _, out, err = run(capsys, *asked)
    assert out.startswith("Warning: The policy takes actions that the log never took")
    assert "steps, none later" in err
    _, out, err = run(capsys, *asked, "--force", "--accept", "time-limit", "--accept", "unseen-actions")
    assert "Warning" not in out + err
    stated = json.loads((tmp_path / "out" / "result.json").read_text())["assumptions"]
    assert ACCEPTABLE["time-limit"] in [item["text"] for item in stated]
