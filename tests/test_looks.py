"""Gates and choices that are looked at while a log grows: one process, one alpha, nothing that changes on the way."""

import json
import math

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput
from bondic.decisions.choose import choose_policy
from bondic.decisions.difference import behavior_change, difference_interval
from bondic.decisions.gate import gate
from bondic.errors import TooFewRows
from bondic.methods.propensities import Propensities
from bondic.policies.learned import LearnedPolicy
from propensity_cases import BEHAVIOR, REWARD, STATES, decisions, question
from test_tool import run

BEST = np.eye(2)[REWARD.argmax(axis=1)]
PLANNED = bondic.Default(planned_rows=3000)
LOG = decisions(3000)


def policy(share):
    table = (1 - share) * BEHAVIOR + share * BEST
    return lambda observations: table[np.searchsorted(STATES[:, 0], observations[:, 0])]


def first(log, rows):
    return bondic.Transitions(**{name: column[:rows] for name, column in log.columns().items() if column is not None})


def problem(rows, share=0.6, log=LOG, population=None):
    return question(first(log, rows), policy(share), population=population)


def walks(episodes, seed=0, propensities=True):
    """Up to three steps over two states, both actions alike."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        for step in range(3):
            over = bool(rng.random() < 0.3) or step == 2
            rows.append((rng.integers(2), rng.integers(2), rng.random() < 0.5, over, episode, step))
            if over:
                break
    state, action, reward, over, episode, step = map(np.array, zip(*rows, strict=True))
    following = np.where(over, 0, np.roll(state, -1))
    known = {"behavior_action_probs": np.full(len(rows), 0.5)} if propensities else {}
    return bondic.Transitions(
        state[:, None].astype(float), action, reward.astype(float), following[:, None].astype(float), over,
        episode_ids=episode, timesteps=step, **known,
    )  # fmt: skip


def walk_problem(log, table=((0.8, 0.2), (0.3, 0.7))):
    answers = np.array(table)
    stated = {"gamma": 0.9, "horizon": 3, "reward_range": (0.0, 1.0)}
    return bondic.make_problem(log, lambda s: answers[s[:, 0].astype(int)], **stated)


# --- what looks show -------------------------------------------------------------------------------------


@pytest.mark.parametrize("population", [None, "iid"])
def test_a_value_that_stands_still_keeps_the_best_end_of_all_looks(tmp_path, population):
    state, lows, kept = tmp_path / "looks.json", [], []
    for rows in (200, 600, 1500, 3000):
        found = gate(problem(rows, population=population), above=0.55, method=PLANNED, state=state)
        lows.append(found.result.low)
        kept.append(found.looks.best("lower", "lower"))
    if population is None:  # that of this log is another one at every look
        assert kept == [None, *lows[1:]]  # the first rows set rates
    else:
        assert kept == [max(lows[: k + 1]) for k in range(4)]
    assert found.verdict == "approve"
    assert "look 4, 3000 rows" in str(found)
    held = json.loads(state.read_text())
    assert [look["rows"] for look in held["looks"]] == [200, 600, 1500, 3000]
    first_word = "cannot tell" if population else "cannot tell yet"
    assert [look["decision"] for look in held["looks"]] == [first_word, "cannot tell", "cannot tell", "approve"]


def test_an_earlier_approval_stays_where_the_value_stands_still(tmp_path):
    """The last rows pay nothing: the end of the last look alone would not pass."""
    state = tmp_path / "looks.json"
    rewards = LOG.rewards.copy()
    rewards[1500:] = 0.0
    log = bondic.Transitions(**{**{n: c for n, c in LOG.columns().items() if c is not None}, "rewards": rewards})
    bets = Propensities(planned_rows=3000)  # (40): ends of single looks fall
    for against, kept in ((policy(0.0), "iid"), (policy(0.0), None), ("today", None)):
        place = state.with_name(f"{kept} {against == 'today'}.json")
        early = gate(problem(1500, 0.9, log, kept), better_than=against, method=PLANNED, state=place)
        late = gate(problem(3000, 0.9, log, kept), better_than=against, above=0.12, method=PLANNED, state=place)
        assert early.verdict == "approve"
        assert late.looks.best("lower", "lower") == (
            max(early.result.low, late.looks.looks[-1].ends["lower"].bound)
            if kept
            else late.looks.looks[-1].ends["lower"].bound
        )
    early = gate(problem(1500, 0.9, log), above=0.3, method=bets, state=state)
    late = gate(problem(3000, 0.9, log), above=0.3, method=bets, state=state)
    assert early.verdict == "approve"
    assert late.verdict != "approve"  # a mean over the rows so far


def test_looks_are_at_the_process_of_a_monitor(tmp_path):
    """Episodes with propensities, and a table: gate and monitor plan alike."""

    def alike(states):
        return np.array([[0.8, 0.2], [0.3, 0.7]])[states[:, 0].astype(int)]

    for propensities in (True, False):
        log = walks(700, propensities=propensities)
        asked = {"gamma": 0.9, "horizon": 3, "reward_range": (0.0, 1.0), "planned_rows": len(log)}
        monitor = bondic.SequentialMonitor(alike, **asked, method=bondic.Table(side="lower"))
        before = 0
        for rows in (500, 901, len(log)):
            part = {name: column[before:rows] for name, column in log.columns().items() if column is not None}
            result, before = monitor.update(bondic.Transitions(**part)), rows
            found = gate(
                walk_problem(first(log, rows)), above=1.2, method=bondic.Default(planned_rows=len(log)),
                state=tmp_path / f"{propensities}.json",
            )  # fmt: skip
            assert found.result.method == result.method
            assert found.result.rows == result.rows
            assert (found.looks.looks[-1].ends["lower"].bound or 0.0) == pytest.approx(result.low, abs=1e-9)


@pytest.mark.parametrize("against", [None, "today", "other"])
@pytest.mark.parametrize("propensities", [True, False])
def test_every_end_spends_at_most_alpha(tmp_path, against, propensities):
    """One-sided ends: all events of an end together, with the starts of a sample."""
    log, other = walks(600, propensities=propensities), lambda s: np.full((len(s), 2), 0.5)
    asked = {"better_than": other if against == "other" else against, "above": 5.0 if against is None else 0.3}
    for rows in (700, len(log)):
        found = gate(
            walk_problem(first(log, rows)), **asked, alpha=0.2, method=bondic.Default(planned_rows=len(log)),
            state=tmp_path / "looks.json",
        )  # fmt: skip
        for one in (found.result, found.other):
            if one is not None:
                assert one.side in ("lower", "upper")
                parts = getattr(one.proof, "parts", (one.proof,))
                assert math.fsum(part.budget.alpha for part in parts) <= 0.2 * (1 + 1e-12)
                for part in parts:
                    assert math.fsum(part.budget.parts.values()) <= part.budget.alpha * (1 + 1e-12)
                    assert part.any_length


def test_nothing_is_said_before_the_pilot_is_complete(tmp_path):
    state = tmp_path / "looks.json"
    found = gate(problem(100), better_than="today", method=PLANNED, state=state)
    assert found.verdict == "cannot tell"
    assert str(found).startswith("Cannot tell yet")
    assert gate(problem(3000), better_than="today", method=PLANNED, state=state).verdict == "approve"
    with pytest.raises(TooFewRows, match="begins after a pilot"):
        gate(problem(100), better_than="today", method=PLANNED)


def test_rows_of_episodes_that_go_on_wait(tmp_path):
    log = walks(700)
    cut = int(np.flatnonzero(~log.terminations)[-1]) + 1  # inside an episode
    whole = int(np.flatnonzero(log.terminations[:cut])[-1]) + 1
    method = bondic.Default(planned_rows=len(log))
    one, two = (
        gate(walk_problem(first(log, rows)), above=1.0, method=method, state=tmp_path / f"{rows}.json")
        for rows in (cut, whole)
    )
    assert one.result.rows == two.result.rows
    assert one.result.low == two.result.low
    assert one.looks.looks[-1].log == two.looks.looks[-1].log
    assert any("wait" in note for note in one.result.question.notes)


# --- what is refused -------------------------------------------------------------------------------------


def changed(rows):
    rewards = LOG.rewards[:rows].copy()
    rewards[7] = 1.0 - rewards[7]
    return {**{name: column[:rows] for name, column in LOG.columns().items() if column is not None}, "rewards": rewards}


@pytest.mark.parametrize(
    ("again", "reason"),
    [
        (lambda: (problem(900), {}), "has 900 rows, and .* has looked at 1000"),
        (lambda: (question(bondic.Transitions(**changed(1500)), policy(0.6)), {}), "first 1000 rows are not those"),
        (lambda: (problem(1500, 0.7), {}), "Policy 1 answers differently"),
        (lambda: (problem(1500), {"better_than": policy(0.1)}), "another value of `policies`"),
        (lambda: (problem(1500), {"alpha": 0.05}), "another value of `alpha`"),
        (lambda: (problem(1500), {"method": bondic.Default(planned_rows=4000)}), "another value of `method`"),
        (lambda: (problem(1500).select(10), {}), "another value of `first row`"),
    ],
)
def test_another_decision_is_refused_and_the_file_stays(tmp_path, again, reason):
    state = tmp_path / "looks.json"
    gate(problem(1000), better_than="today", method=PLANNED, state=state)
    before = state.read_bytes()
    rows, other = again()
    with pytest.raises(InvalidInput, match=reason) as problem_:
        gate(rows, **{"better_than": "today", "method": PLANNED, "state": state} | other)
    assert "Begin another file" in str(problem_.value)
    assert state.read_bytes() == before


def test_looks_need_a_planned_length_and_a_file(tmp_path):
    with pytest.raises(InvalidInput, match="State how many rows are planned"):
        gate(problem(1000), above=0.5, state=tmp_path / "looks.json")
    with pytest.raises(InvalidInput, match="is no folder"):
        gate(problem(1000), above=0.5, method=PLANNED, state=tmp_path / "nowhere" / "looks.json")
    for text in ("", "{}", "[1]", '{"format": "x", "stated": {}, "looks": [{}]}'):
        (tmp_path / "damaged.json").write_text(text)
        with pytest.raises(InvalidInput, match=r"no file of|is damaged"):
            gate(problem(1000), above=0.5, method=PLANNED, state=tmp_path / "damaged.json")


def test_a_policy_is_learned_once_on_a_number_of_rows(tmp_path):
    def fit(rows):
        paid = [rows.rewards[rows.actions == action].mean() for action in (0, 1)]
        return lambda states: np.full(len(states), int(np.argmax(paid)))

    def asked(count, **learning):
        learned = LearnedPolicy(fit, **learning)
        return bondic.make_problem(first(LOG, count), learned, gamma=0.0, reward_range=(0, 1), accept=None)

    state, required = tmp_path / "looks.json", {"better_than": "today", "method": PLANNED}
    for rows in (1200, 2400):
        found = gate(asked(rows, rows=300), **required, state=state)
        assert found.result.rows[0] >= 300
    assert len(found.looks.looks) == 2
    with pytest.raises(InvalidInput, match="another value of `first row`"):
        gate(asked(3000, rows=0.5), **required, state=state)
    with pytest.raises(InvalidInput, match="Learn it once"):
        gate(asked(3000, rows=300, blocks=4), **required, state=tmp_path / "other.json")


def test_an_episode_that_goes_on_and_a_learned_policy(tmp_path):
    log = walks(900)
    cut = int(np.flatnonzero(~log.terminations)[-1]) + 1
    stated = {"gamma": 0.9, "horizon": 3, "reward_range": (0.0, 1.0)}
    learned = LearnedPolicy(lambda _: lambda states: np.full((len(states), 2), 0.5), rows=400)
    asked = bondic.make_problem(first(log, cut), learned, **stated)
    found = gate(asked, above=0.5, method=bondic.Default(planned_rows=len(log)), state=tmp_path / "looks.json")
    assert found.result.rows[1] < cut
    assert found.result.rows[0] >= 400


def test_decisions_that_become_episodes_are_another_plan(tmp_path):
    log = walks(900)
    starts = np.flatnonzero(log.timesteps == 0)
    keep = np.concatenate([starts[:500], np.arange(starts[500], len(log))])
    columns = {name: column[keep] for name, column in log.columns().items() if column is not None}
    columns["terminations"] = columns["terminations"].copy()
    columns["terminations"][:500] = True
    mixed, state = bondic.Transitions(**columns), tmp_path / "looks.json"
    method = bondic.Default(planned_rows=1000, pilot=100)
    gate(walk_problem(first(mixed, 500)), above=1.0, method=method, state=state)
    with pytest.warns(bondic.ValidityWarning, match="does not stand still"):
        later = walk_problem(mixed)
    with pytest.raises(InvalidInput, match="another chance to be wrong"):
        gate(later, above=1.0, method=method, state=state)


def test_a_list_of_one_start_that_units_leave_is_another_plan(tmp_path):
    """As long as all decisions start there, the list is the log's own start; then it is not."""
    states = np.append(np.zeros(400), np.ones(200))[:, None]
    rng, state = np.random.default_rng(0), tmp_path / "looks.json"
    log = bondic.Transitions(
        states, rng.integers(0, 2, 600), rng.random(600), states, np.ones(600, bool), behavior_action_probs=np.full(600, 0.5)
    )  # fmt: skip

    def asked(rows):
        start = bondic.InitialStates.exact([[0.0]])
        stated = {"gamma": 0.0, "reward_range": (0, 1), "accept": None}
        return bondic.make_problem(first(log, rows), lambda s: np.ones(len(s), dtype=int), start, **stated)

    bets = Propensities(planned_rows=600)
    gate(asked(400), above=0.1, method=bets, state=state)
    with pytest.raises(InvalidInput, match=r"population\); of these rows it would be .* stated starts"):
        gate(asked(600), above=0.1, method=bets, state=state)


def test_ends_that_cross_contradict_the_assumptions(tmp_path):
    state = tmp_path / "looks.json"
    gate(problem(1000, population="iid"), above=0.99, method=PLANNED, state=state)
    held = json.loads(state.read_text())
    held["looks"][0]["ends"]["upper"]["bound"] = 0.1
    state.write_text(json.dumps(held))
    found = gate(problem(1500, population="iid"), above=0.3, method=PLANNED, state=state)
    assert found.verdict == "cannot tell"
    assert "contradict" in str(found)


# --- choices ---------------------------------------------------------------------------------------------


def candidates(rows, shares=(0.2, 0.5, 0.9)):
    return {f"mix {share}": problem(rows, share) for share in shares}


def test_a_choice_keeps_its_favorite(tmp_path):
    state = tmp_path / "looks.json"
    waiting = choose_policy(candidates(200), method=PLANNED, state=state)
    assert waiting.chosen is None
    assert "no decision yet" in str(waiting)
    found = [choose_policy(candidates(rows), method=PLANNED, state=state) for rows in (800, 1500, 3000)]
    assert len({one.favorite for one in found}) == 1
    assert {one.results[next(iter(one.results))].rows[0] for one in found} == {
        found[0].results[next(iter(found[0].results))].rows[0]
    }
    assert found[-1].chosen == "mix 0.9"
    assert "look 4, 3000 rows" in str(found[-1])
    held = json.loads(state.read_text())
    held["looks"][1]["fixed"]["favorite"] = "mix 0.2"
    state.write_text(json.dumps(held))
    with pytest.raises(InvalidInput, match=r"the favorite was 'mix 0\.2'"):
        choose_policy(candidates(3000), method=PLANNED, state=state)
    with pytest.raises(InvalidInput, match="another value of"):
        choose_policy(candidates(3000, (0.2, 0.5)), method=PLANNED, state=state)
    with pytest.raises(InvalidInput, match="share of the planned rows"):
        choose_policy(candidates(800), method=Propensities(), state=tmp_path / "other.json")


def test_a_choice_among_tables(tmp_path):
    log = walks(700, propensities=False)
    method, state = bondic.Default(planned_rows=len(log)), tmp_path / "looks.json"
    for rows in (700, len(log)):
        tables = {"one": ((0.8, 0.2), (0.3, 0.7)), "two": ((0.2, 0.8), (0.3, 0.7))}
        problems = {name: walk_problem(first(log, rows), table) for name, table in tables.items()}
        found = choose_policy(problems, method=method, state=state)
        assert found.chosen is None
        assert found.favorite is None
        assert set(found.results) == set(tables)


def test_a_choice_says_what_it_rests_on():
    """States are numbers: the allowance is a statement, and never passes in silence."""
    rng = np.random.default_rng(0)
    states, actions = rng.random((3000, 1)), rng.integers(0, 2, 3000)
    rewards = (rng.random(3000) < np.where(actions == 1, 0.95, 0.05)).astype(float)
    log = bondic.Transitions(states, actions, rewards, states, np.ones(3000, dtype=bool))
    asked = bondic.make_problem(log, lambda s: np.ones(len(s), dtype=int), gamma=0.0, reward_range=(0, 1))
    for decided in (
        choose_policy({"one": asked}, method=bondic.Groups(allowance=0.02)),
        gate(asked, better_than="today", method=bondic.Groups(allowance=0.02)),
    ):
        assert "This holds if what you stated does: Alike inside a group" in str(decided)
    assert choose_policy({"one": asked}).chosen is None


@pytest.mark.parametrize(("population", "usual"), [(None, 1), ("iid", 10)])
def test_null_policies_are_seldom_approved_at_any_look(tmp_path, population, usual):
    """A fair coin, a log that goes on five times as long as planned: 0.5 would be kept by about 40 of 80."""
    wrong, fair = 0, np.full((1, 2), 0.5)
    for seed in range(80):
        rng = np.random.default_rng([seed, 1])
        rewards = (rng.random(250) < 0.5).astype(float)
        states = np.zeros((250, 1))
        log = bondic.Transitions(
            states, rng.integers(0, 2, 250), rewards, states, np.ones(250, dtype=bool), behavior_action_probs=np.full(250, 0.5)
        )  # fmt: skip
        for rows in (50, 120, 250):
            stated = {"gamma": 0.0, "reward_range": (0.0, 1.0), "accept": None, "population": population}
            asked = bondic.make_problem(first(log, rows), lambda s: fair[s[:, 0].astype(int)], **stated)
            method, state = bondic.Default(planned_rows=50), tmp_path / f"{seed}.json"
            if gate(asked, above=0.5 + 1e-9, alpha=0.5, method=method, state=state).verdict == "approve":
                wrong += 1
                break
    assert usual <= wrong <= 80 * 0.5 + 3 * math.sqrt(80 * 0.25)


# --- today, and the command line -------------------------------------------------------------------------


def test_a_behavior_that_changed_is_named():
    assert behavior_change(problem(500)) == ""
    found = difference_interval(problem(1000))
    assert "average behavior" not in found.sentence()
    before, after = first(LOG, 600), decisions(400, seed=1, behavior=np.full((3, 2), [0.55, 0.45]))
    joined = {n: np.concatenate([one, getattr(after, n)]) for n, one in before.columns().items() if one is not None}
    drifting = question(bondic.Transitions(**joined), policy(0.6))
    assert behavior_change(drifting).startswith("the average behavior over these rows: rows ")
    found = difference_interval(drifting)
    assert "(today: the average behavior over these rows)" in found.sentence()
    assert "have the same state and action, and propensities" in found.choices["today"]
    other = difference_interval(drifting, policy(0.1))
    assert "average behavior" not in other.sentence()


def test_a_behavior_that_changed_is_named_in_batches_too():
    columns = {name: column[:1000] for name, column in LOG.columns().items() if column is not None}
    for changes in (False, True):
        chances = columns["behavior_action_probs"].copy()
        if changes:
            chances[600:] = np.where(chances[600:] > 0.5, 0.45, 0.55)
        held = bondic.Transitions(**{**columns, "behavior_action_probs": chances})
        log = bondic.stream_log({name: one for name, one in held.columns().items() if one is not None}, batch_rows=128)
        words = [behavior_change(question(one, policy(0.6))) for one in (held, log)]
        assert words[0] == words[1]
        assert bool(words[0]) is changes


def test_an_average_over_starts_is_no_population_value_with_predictions():
    """Doubly robust values vary around predictions at these starts alone: only without them the mean over d_0 is covered."""
    plain, robust = (
        difference_interval(problem(2000), method=method) for method in (None, Propensities(max_ratio=4.0))
    )
    texts = [next(item.text for item in one.assumptions if item.name == "process") for one in (plain, robust)]
    assert "mean over that distribution, too" in texts[0]
    assert robust.proof.control is not None
    assert "mean over that distribution, too" not in texts[1]


def test_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for rows in (100, 1500, 1000):
        columns = first(LOG, rows).columns()
        np.savez(f"log{rows}.npz", **{name: column for name, column in columns.items() if column is not None})
    table, states = (0.4 * BEHAVIOR + 0.6 * BEST).tolist(), STATES[:, 0].tolist()
    (tmp_path / "rules.py").write_text(
        f"import numpy as np\n\n\ndef new(states):\n    return np.array({table})[np.searchsorted({states}, states[:, 0])]\n"
    )
    asked = ["--policy", "rules.py:new", "--one-step", "--reward-range", 0, 1, "--quiet"]
    looks = ["--with", "planned_rows=3000", "--with", "state=gate.json"]
    required = ["--require-better-than", "today", "--force"]
    codes = []
    for rows in (100, 1500, 1500, 1000):
        code, out, err = run(capsys, "evaluate", f"log{rows}.npz", *asked, *required, *looks)
        codes.append(code)
    assert codes == [6, 0, 0, 2]
    assert "has looked at 1500" in err
    assert len(json.loads((tmp_path / "gate.json").read_text())["looks"]) == 2
    assert "gate" in json.loads((tmp_path / "bondic-out" / "result.json").read_text())["choices"]
    code, _, err = run(capsys, "evaluate", "log1500.npz", *asked, *looks, "--out", "plain")
    assert code == 2
    assert "bondic monitor" in err
    code, _, err = run(capsys, "compare", "log1500.npz", *asked, *looks)
    assert code == 2
    assert "makes no decision" in err
    for rows, expected in ((100, 6), (1500, 0)):
        code, out, _ = run(
            capsys, "choose", f"log{rows}.npz", *asked, "--with", "planned_rows=3000", "--with", "state=choice.json"
        )
        assert code == expected, out
