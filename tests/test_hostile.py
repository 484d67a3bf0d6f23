"""Files and names of others: sizes are bounded before memory is taken, damage is named, and no name moves a terminal."""

import copy
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import click
import numpy as np
import pytest
from click.testing import CliRunner

import bondic
from bondic.cli import main as cli
from bondic.core.errors import BondicError, InvalidInput, VerificationError
from bondic.decisions.choose import choose_policy
from bondic.decisions.gate import gate
from bondic.decisions.ranking import rank_policies
from test_looks import PLANNED, problem
from test_monitor import a_table, new_monitor, statements, watched, write_rows
from test_tool import run

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))
from bondic.cli.main import main
main()
"""
ROWS, DRAW = 600, np.random.default_rng(0)
ITEM, ARM = DRAW.integers(0, 3, ROWS), DRAW.integers(0, 3, ROWS)
REWARD = (DRAW.random(ROWS) < np.array([0.2, 0.5, 0.7])[ARM]).astype(float)
ONE_STEP = ["--one-step", "--reward-range", "0", "1"]


def limited(*words):
    """The command line in a process that gets no more than 4 GB."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED, *map(str, words)], capture_output=True, text=True, timeout=100, check=False
    )


def table(actions, **more):
    return {"state": ITEM, "action": actions, "reward": REWARD, "propensity": np.full(ROWS, 1 / 3)} | more


def write(path, columns):
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


# --- actions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [[7, 48_213, 10**9], [0, 1, 2**63 - 1]])
def test_large_whole_numbers_are_names_of_actions(ids, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "log.csv", table(np.array(ids)[ARM]))
    Path("rules.py").write_text(
        f"import numpy as np\n\n\ndef rule(states):\n    return np.full(len(states), {ids[2]})\n"
    )
    found = limited("evaluate", "log.csv", "--policy", "rules.py:rule", *ONE_STEP, "--out", "out", "--json")
    assert found.returncode == 0, found.stderr
    plain = bondic.evaluate_policy(
        table(ARM), lambda states: np.full(len(states), 2), reward_range=(0, 1), one_step=True
    )
    assert (json.loads(found.stdout)["low"], json.loads(found.stdout)["high"]) == (plain.low, plain.high)
    shown = limited("check", "log.csv", "--one-step")
    assert (shown.returncode, str(ids[2]) in shown.stdout) == (0, True)
    assert limited("verify", "out", "log.csv", "--policy", "rules.py:rule").returncode == 0
    counted = limited("check", "log.csv", "--one-step", "--actions", "50000")
    assert (counted.returncode, "not among the 50000" in counted.stderr) == (2, True)


def test_names_that_are_numbers_stay_the_same_in_every_part_of_a_log(tmp_path):
    first = bondic.read_log(table(np.array([1, 48_213, 10**9])[ARM]), one_step=True)
    assert first.encodings["actions"].values == ("1", "48213", "1000000000")
    assert (first.transitions.actions == ARM).all()
    for codes in ([1, 1, 10**9], ["1", "1", "1000000000"]):
        later = bondic.read_log(table(np.array(codes)[ARM]), one_step=True, like=first)
        assert (later.transitions.actions == np.array([0, 0, 2])[ARM]).all()
    small = bondic.read_log(table(ARM), one_step=True)
    with pytest.raises(InvalidInput, match="actions are text: 'low' at row 0"):
        bondic.read_log(table(np.full(ROWS, "low")), one_step=True, like=small)
    ids = np.array([0, 1, 48_213])[ARM]
    row = int(np.argmax(ids))
    with pytest.raises(InvalidInput, match=f"names.*48213' at row {row}"):  # numbers before, names now
        bondic.read_log(table(ids), one_step=True, like=small)
    path = write(tmp_path / "log.csv", table(ids))
    with pytest.raises(InvalidInput, match=f"names.*48213' at row {row}"):
        bondic.stream_log(path, one_step=True)
    for stated, codes in (((*"01", "48213"), ARM), (50_000, ids)):
        for read in (bondic.stream_log, lambda *a, **more: bondic.read_log(*a, **more).transitions):
            assert (read(path, one_step=True, actions=stated).read().actions == codes).all()


def test_numbers_beyond_every_table_are_refused_where_nothing_names_them():
    with pytest.raises(InvalidInput, match=r"`actions` is 1000000000 at row 1.*np\.unique"):
        bondic.Transitions.one_step(np.zeros((2, 1)), np.array([0, 10**9]), np.zeros(2))
    with pytest.raises(InvalidInput, match="more than 1048576 actions"):
        bondic.read_log(table(ARM), one_step=True, actions=10**12)


def test_a_result_that_states_too_many_actions_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "log.csv", table(ARM))
    found = bondic.evaluate_policy(
        "log.csv", lambda states: np.full(len(states), 2), reward_range=(0, 1), one_step=True
    )
    path = found.save("out") / "result.json"
    held = json.loads(path.read_text())
    for count in (10**9, 1e9, [["0"]]):
        path.write_text(json.dumps(held | {"reading": held["reading"] | {"actions": count}}))
        checked = limited("verify", "out", "log.csv")
        assert checked.returncode == 2
        assert re.search(r"states more than|is damaged \(reading\.actions", checked.stderr), checked.stderr


# --- JSON ------------------------------------------------------------------------------------------------

DEEP = '{"a": ' + "[" * 200_000 + "]" * 200_000 + "}"


def begun_monitor(place):
    """(folder, what loads it, what continues it on the command line)"""
    log, asked, method = a_table()
    monitor, first = new_monitor(asked, method), write_rows(place / "first.npz", log, slice(300))
    watched(monitor, log, [300])
    monitor.save(place / "a")
    stated = statements(place, asked)

    def command(*more):
        words = ["monitor", str(place / "b"), "--log", str(first), *map(str, more)]
        found = CliRunner().invoke(cli.group, words)
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception

    command(*stated, "--with", "pilot=80")
    return lambda: bondic.SequentialMonitor.load(place / "a", asked["policy"]), command


def look(place, rows=1500):
    return gate(problem(rows), above=0.5, method=PLANNED, state=place / "gate.json")


def test_brackets_inside_of_brackets_are_refused_wherever_json_is_read(tmp_path):
    load, continued = begun_monitor(tmp_path)
    (tmp_path / "log.csv").write_text("state,action,reward\n0,1,1\n")
    files = {
        "a/monitor.json": load,
        "b/monitor.json": continued,
        "b/stated.json": continued,
        "gate.json": lambda: look(tmp_path),
        "log.jsonl": lambda: bondic.read_log(tmp_path / "log.jsonl"),
        "c.json": lambda: bondic.load_certificate(tmp_path / "c.json"),
    }
    for name, read in files.items():
        (tmp_path / name).write_text(DEEP)
        with pytest.raises((InvalidInput, VerificationError), match="64 deep"):
            read()
    found = bondic.evaluate_policy(
        table(ARM), lambda states: np.full(len(states), 2), reward_range=(0, 1), one_step=True
    )
    (found.save(tmp_path / "out") / "result.json").write_text(DEEP)
    with pytest.raises(InvalidInput, match="64 deep"):
        bondic.verify(tmp_path / "out", table(ARM))
    text = json.dumps({"state": 0, "action": 1, "reward": 1.0, "words": "[" * 100 + '\\"'})
    (tmp_path / "log.jsonl").write_text(f"{text}\n")  # brackets inside of a text are letters
    assert len(bondic.read_log(tmp_path / "log.jsonl", one_step=True).transitions) == 1


VALUES = (None, [], {}, "x", -1, 10**30, 1e300, True, [[1]], {"a": {}}, "leave out")


def places(value, way=()):
    yield way
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*way, key))


def damaged(document, way, value):
    """The document with one value replaced, or left out."""
    if not way:
        return value
    found = copy.deepcopy(document)
    node = found
    for key in way[:-1]:
        node = node[key]
    if value == "leave out":
        node.pop(way[-1])
    else:
        node[way[-1]] = value
    return found


def damage(path, read, every):
    """One damage of `every` so many; what each leads to: an error of ours, or nothing."""
    whole = path.read_text()
    document = json.loads(whole)
    refused = 0
    for way, value in itertools.islice(itertools.product(places(document), VALUES), 0, None, every):
        path.write_text(json.dumps(damaged(document, way, value)))
        try:
            read()
        except (BondicError, click.ClickException):
            refused += 1
        except Exception as problem:
            raise AssertionError(f"{path.name}: {way} as {value!r}") from problem
    path.write_text(whole)
    return refused


def test_damage_anywhere_in_what_is_kept_between_looks_is_named(tmp_path):
    load, continued = begun_monitor(tmp_path)
    look(tmp_path, 1000)
    look(tmp_path, 1200)
    assert damage(tmp_path / "gate.json", lambda: look(tmp_path), 5) > 80
    assert damage(tmp_path / "a" / "monitor.json", load, 5) > 80
    assert damage(tmp_path / "b" / "monitor.json", continued, 13) > 10
    assert damage(tmp_path / "b" / "stated.json", continued, 7) > 5


# --- names -----------------------------------------------------------------------------------------------

EVIL = "\x1b]0;owned\x07\x1b[2J\u202eno"


def test_names_move_no_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = np.array([f"{EVIL}{k}" for k in range(3)])
    write(tmp_path / "log.csv", table(names[ARM], state=names[ITEM], **{f"other{EVIL}": ITEM}))
    read = ["--columns", f"observations=state,other{EVIL}", *ONE_STEP, "--actions", ",".join(names)]
    for k in range(2):
        np.savez(f"{k}{EVIL}.npz", probs=np.eye(3)[[2 - k] * 3])
        Path(f"{k}{EVIL}.py").write_text(
            f"import numpy as np\n\n\ndef rule(states):\n    return np.full(len(states), {k})\n"
        )
    policies = [f"{k}{EVIL}.py:rule" for k in range(2)]
    out = ["--out", f"out{EVIL}", "--force"]
    told = [
        run(capsys, "check", "log.csv", *read[:3]),
        run(capsys, "compare", "log.csv", *read, *(word for one in policies for word in ("--policy", one))),
        run(capsys, "choose", "log.csv", *read, *(word for one in policies for word in ("--policy", one)), "--quiet"),
        run(
            capsys,
            "evaluate",
            "log.csv",
            *read,
            "--policy",
            policies[0],
            "--by",
            "state",
            *out,
            "--verbose",
            "--also",
            "markdown",
        ),
        run(
            capsys,
            "evaluate",
            "log.csv",
            *read,
            "--policy",
            policies[0],
            "--against",
            policies[1],
            *out,
            "--also",
            "markdown",
        ),
        run(capsys, "verify", f"out{EVIL}", "log.csv", "--by", "state"),
    ]
    (summary,) = (path.read_text() for path in tmp_path.rglob("summary.md"))
    for text in (summary, *(text for _, *texts in told for text in texts)):
        assert not set("\x1b\x07\u202e") & set(text)
    assert [code for code, *_ in told] == [0, 0, 6, 0, 0, 7], told
    assert all(re.search(rf"owned.*no{k}", told[place][1]) for k in range(3) for place in (0, 3, 5))


def test_names_in_python_and_in_pictures_are_as_plain(tmp_path):
    log = bondic.read_log(table(ARM), one_step=True)
    problems = {
        f"{k}{EVIL}": bondic.make_problem(log, lambda s, k=k: np.full(len(s), k), gamma=0, reward_range=(0, 1))
        for k in (0, 2)
    }
    found = bondic.compare({name: bondic.estimate_interval(one) for name, one in problems.items()})
    for text in (str(found), str(rank_policies(problems, "today")), str(choose_policy(problems, "today"))):
        assert "owned" in text
        assert not set("\x1b\x07\u202e") & set(text)
    found.plot().savefig(tmp_path / "all.svg")
    ElementTree.parse(tmp_path / "all.svg")
