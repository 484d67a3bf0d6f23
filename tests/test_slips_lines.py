"""JSON lines as newcomers write them: names of their own, lists of objects, and messages that say the line of the file."""

import json

import numpy as np
import pytest

import bondic
from bondic.core.errors import InvalidInput
from test_tool import run

LINES = [
    {"old_logprobs": [-0.7, -0.1], "new_logprobs": [-0.2, -0.1], "score": 1.0},
    {"old_logprobs": [-1.6], "new_logprobs": [-3.0], "score": 0.0},
    {"old_logprobs": [-1.6, -0.5, -0.3], "new_logprobs": [-3.0, -0.2, -0.1], "score": 0.5},
]
USUAL = {"old_logprobs": "logprobs", "new_logprobs": "target_logprobs", "score": "reward"}
NAMED = {"behavior_log_probs": "old_logprobs", "target_log_probs": "new_logprobs", "rewards": "score"}


def written(folder, lines=LINES, between="\n"):
    path = folder / "log.jsonl"
    path.write_text(between.join(map(json.dumps, lines)))
    return path


def usual(**changes):
    """The lines under usual names, the last with other values."""
    lines = [{USUAL[name]: value for name, value in line.items()} for line in LINES]
    lines[2] |= changes
    return lines


def test_a_log_of_probabilities_is_told_what_it_lacks(tmp_path, capsys):
    path, asked = written(tmp_path), ["--policy", "logged", "--gamma", 1, "--horizon", 3, "--reward-range", 0, 1]
    _, _, err = run(capsys, "evaluate", path, *asked, "--out", tmp_path / "out")
    options = [f"{part}={name}" for part, name in NAMED.items()]
    line = " ".join(f"--columns {option}" for option in options)
    assert "(--policy logged) observations and actions are not needed" in err
    assert line in err
    told = bondic.read_log(path, columns=NAMED).transitions
    np.testing.assert_array_equal(told.target_log_probs, [-0.2, -0.1, -3.0, -3.0, -0.2, -0.1])


def test_lists_of_objects_are_lists_of_their_values(tmp_path):
    lines = [
        {
            "steps": [{"p": {"old": o, "new": n}} for o, n in zip(*list(line.values())[:2], strict=True)],
            "reward": line["score"],
        }
        for line in LINES
    ]
    path = written(tmp_path, lines)
    with pytest.raises(InvalidInput, match=r"steps\.p\.old, steps\.p\.new"):
        bondic.read_log(path)
    found = bondic.read_log(path, columns={"behavior_log_probs": "steps.p.old", "target_log_probs": "steps.p.new"})
    same = bondic.read_log(written(tmp_path), columns=NAMED)
    assert found.transitions.content_hash == same.transitions.content_hash


def test_lines_of_several_steps_are_not_one_step(tmp_path):
    path = written(tmp_path, usual())
    with pytest.raises(InvalidInput, match=r"episodes of up to 3 steps.*Leave it out.*sum of the log-prob") as told:
        bondic.read_log(path, one_step=True)
    assert "column terminations" not in str(told.value)
    summed = [{name: float(np.sum(value)) for name, value in line.items()} for line in usual()]
    assert len(bondic.read_log(written(tmp_path, summed), one_step=True).transitions) == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target_logprobs": [-3.0, 0.2, -0.1]}, r"at row 4.*\(In the file row 4 is step 1 of line 5\.\)"),
        ({"target_logprobs": [-3.0, -0.1]}, r"log\.jsonl: line 5 is an episode whose lists differ"),
        ({"target_logprobs": [-3.0, [], -0.1]}, r"log\.jsonl: step 1 of line 5 has a list"),
        ({"reward": "good"}, r"In the file row 5 is step 2 of line 5"),
    ],
)
def test_what_is_wrong_is_named_by_the_line_of_the_file(tmp_path, changes, words):
    with pytest.raises(InvalidInput, match=words):
        bondic.read_log(written(tmp_path, usual(**changes), "\n\n"))


def test_a_row_per_line_is_named_by_its_line(tmp_path):
    rows = [{"state": 0, "action": 1, "reward": 0.5}, {"state": 1, "action": 1, "reward": None}]
    with pytest.raises(InvalidInput, match=r"missing at row 1.*In the file row 1 is line 3"):
        bondic.read_log(written(tmp_path, rows, "\n\n"), one_step=True)
