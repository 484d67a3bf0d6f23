"""Options, requirements, names with slips, a folder to verify, and kernels of one's own, on the command line."""

import html
import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic
import bondic_lab
from bondic.cli.commands import COMMANDS, METHODS
from bondic.cli.options import CHECKERS, SETTINGS
from bondic.rendering import sentence
from test_tool import LOG, MDP, POLICY, QUESTION, START, columns, evaluate, place, run

assert place  # the fixture: a folder with the log in three formats, a policy file and initial states

pytestmark = pytest.mark.usefixtures("place")


def test_a_log_without_terminations_and_one_with_gaps(capsys):
    pq.write_table(pa.table({k: v for k, v in columns().items() if k != "terminated"}), "endless.parquet")
    gap = pa.array(columns()["obs_0"], mask=np.arange(len(LOG)) == 17)
    pq.write_table(pa.table(columns() | {"obs_0": gap}), "gaps.parquet")
    for name, wanted, words in (
        ("endless.parquet", "--columns terminations=none", ["--columns", "terminations=none"]),
        ("gaps.parquet", "--missing obs_0=VALUE", ["--missing", "obs_0=2"]),
        ("gaps.parquet", "--missing", ["--missing", "indicator"]),
    ):
        code, _, err = run(capsys, "check", name)
        assert (code, wanted in err) == (2, True)
        assert run(capsys, "check", name, *words)[0] == 0
    assert run(capsys, "check", "gaps.parquet", "--missing", "indicator", "--missing", "obs_0=2")[0] == 2


def test_baselines_take_their_own_options(capsys):
    arguments = ["compare", "log.parquet", "--policy", "policy.npz", *QUESTION, "--initial", "starts.csv", "--json"]
    arguments += ["--horizon", "3", "--method", "pdis-hoeffding", "--method", "lstd"]
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "--with max_ratio" in json.loads(out)[0]["reason"]
    code, out, _ = run(capsys, *arguments, "--with", "pdis-hoeffding.min_propensity=0.01", "--with", "steps=3")
    assert code == 0
    problem = bondic.make_problem(LOG, POLICY, START, gamma=0.2, reward_range=MDP.reward_range, horizon=3)
    method = bondic_lab.make_baseline("pdis-hoeffding", min_propensity=0.01, steps=3)
    expected = bondic.estimate_interval(problem, alpha=0.1, method=method)
    assert (json.loads(out)[0]["low"], json.loads(out)[0]["high"]) == (expected.low, expected.high)


BAD_OPTIONS = {
    "unknown": (["--method", "tis", "--method", "lstd", "--with", "color=3"], "tis: steps, behavior, max_ratio"),
    "of the dual method": (["--method", "sequential", "--with", "gauge=half"], "sequential: pilot, value_bandwidth"),
    "side": (["--method", "tis", "--with", "side=left"], "'left' is not one of"),
    "no value": (["--method", "tis", "--with", "steps="], "KEY=VALUE"),
    "not a number": (["--method", "lstd", "--with", "ridge=much"], "`ridge` of lstd is a number or none"),
    "too small": (["--method", "dm", "--with", "replicates=0"], "at least 1"),
    "twice": (["--method", "tis", "--with", "steps=3", "--with", "steps=4"], "given twice"),
    "meanings differ": (["--method", "all", "--with", "constant=2"], "METHOD.KEY=VALUE"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options_that_no_method_has_or_that_do_not_fit_are_refused(name, capsys):
    words, expected = BAD_OPTIONS[name]
    code, out, err = run(capsys, "compare", "log.parquet", "--policy", "policy.npz", *QUESTION, *words)
    assert (code, out) == (2, "")
    assert expected in err


# --- names or numbers --------------------------------------------------------------------------------------------------


def test_a_statement_on_the_states_is_used_printed_and_written(place, capsys):
    words = {"table": [], "named": ["--categorical", "obs_0"], "numbers": ["--categorical", "none"]}
    found = {}
    for out, option in words.items():
        code, printed, err = evaluate(capsys, *option, "--out", out, "--verbose")
        assert code in (0, 4), err
        found[out] = json.loads((place / out / "result.json").read_text())
        said = found[out]["choices"]["states"]
        assert f"{sentence(said)}." in " ".join(printed.replace("│", " ").split())
        assert f">{sentence(said)}.</p>" in html.unescape((place / out / "report.html").read_text())
        assert ("as you stated" in said) == bool(option)
    assert [data["status"] == "TRIVIAL" for data in found.values()] == [False, False, True]
    assert found["table"]["low"] == found["named"]["low"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--categorical", "ward"], "--categorical ward is no observation column"),
        (["--categorical", "1"], "their numbers are 0 to 0"),
        (["--categorical", "obs", "--categorical", "none"], "Keep one of them"),
    ],
)
def test_statements_that_cannot_be_meant_are_refused(words, message, capsys):
    for command in (["check", "log.parquet"], ["evaluate", "log.parquet", "--policy", "policy.npz", *QUESTION]):
        code, out, err = run(capsys, *command, *words)
        assert code == 2
        assert message in " ".join(err.split())
        assert "transitions" not in out


# --- which method ------------------------------------------------------------------------------------------------------


ASKED = ["log.parquet", "--policy", "policy.npz", *QUESTION, "--initial", "starts.csv"]


@pytest.mark.parametrize(
    ("words", "method"),
    [
        ((), "table"),
        (("--method", "dual"), "dual"),
        (("--with", "gauge=finite", "--with", "radius=paper"), "dual"),
        (("--with", "planned_rows=900", "--with", "pilot=100", "--with", "side=lower"), "table"),
        (("--method", "sequential", "--with", "radius=50", "--with", "side=lower"), "sequential"),
    ],
)
def test_the_method_follows_from_the_options(words, method, place, capsys):
    code, _, err = run(capsys, "evaluate", *ASKED, *words, "--out", "m", "--quiet")
    assert code in (0, 4), err
    data = json.loads((place / "m" / "result.json").read_text())
    assert data["method"] == method
    named = "--method" in words
    assert ("method" in data["choices"]) == (not named)
    if not named:
        assert data["choices"]["method"].startswith(method)


def test_help_lists_every_option_once_in_the_groups_of_the_question(capsys):
    _, out, _ = run(capsys, "evaluate", "--help")
    groups = ["Question:", "Log:", "Policy:", "Method:", "Output:"]
    assert [line for line in out.splitlines() if line in groups] == groups
    (described,) = (command for command in COMMANDS if command.name == "evaluate")
    names = [parameter.opts for parameter in described.params if parameter.opts[0].startswith("--")]
    for first, *others in names:
        begins = tuple(f"  {first}{end}" for end in (" ", ","))
        assert sum(line.startswith(begins) or line.strip() == first for line in out.splitlines()) == 1, first
        assert all(other in out for other in others)
    assert len(names) <= 27  # what is rarer is a setting of --with


@pytest.mark.parametrize("command", ["", *(command.name for command in COMMANDS)])
def test_help_fits_a_terminal_and_cuts_nothing(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, *command.split(), "--help")
    assert code == 0
    assert [line for line in out.splitlines() if len(line) > 80 or line != line.rstrip()] == []
    assert [
        line for line in out.splitlines()[1:] if line.endswith("...")
    ] == []  # a first sentence that click cut short


def test_help_explains_every_setting(capsys):
    for name, known in (("evaluate", SETTINGS), ("verify", CHECKERS)):
        _, out, _ = run(capsys, name, "--help")
        section = out.split("Settings of --with:")[1]
        assert [key for key in known if f"  {key}=" not in section and key != "learn_blocks"] == []


# --- requirements -------------------------------------------------------------------------------------------------------


def test_a_gate_decides_the_exit_code_and_nothing_else(place, capsys):
    ends = {}
    for side, name in (("lower", "low"), ("upper", "high")):
        code, plain, _ = evaluate(capsys, "--json", "--out", side, "--with", f"side={side}")
        assert code == 0
        ends[name] = json.loads(plain)[name]
    low, high = ends["low"], ends["high"]
    for name, bound, wanted, verdict in (
        (["--require-above"], low, 0, "Approve"),
        (["--require-above"], high + 0.01, 5, "Refuse"),
        (["--require-above"], (low + high) / 2, 6, "Cannot tell"),
        (["--with", "require_below"], high, 0, "Approve"),
        (["--with", "require_below"], low - 0.01, 5, "Refuse"),
    ):
        words = [*name, repr(bound)] if len(name) == 1 else [name[0], f"{name[1]}={bound!r}"]
        code, out, err = evaluate(capsys, *words, "--json", "--force", "--out", "asked")
        assert code == wanted, err
        assert {json.loads(out)["low"], json.loads(out)["high"]} & {low, high}  # one-sided at the full alpha
        assert verdict in err
        assert (place / "asked" / "certificate.json").is_file()
    assert f"require_below={low - 0.01!r}" in json.loads((place / "asked" / "result.json").read_text())["command"]


def test_contradictory_gates_are_refused(capsys):
    for wrong in (
        ["--require-above", "0.1", "--with", "require_below=0.2"],
        ["--require-better-than", "today", "--against", "policy.npz"],
        ["--require-above", "0.1", "--require-above", "0.2"],
        ["--require-better-than", "today", "--require-better-than", "policy.npz"],
    ):
        assert evaluate(capsys, *wrong, "--out", "no")[0] == 2


def test_what_shows_nothing_passes_no_gate(capsys):
    code, out, _ = evaluate(capsys, "--method", "lstd", "--require-above", "-99", "--quiet", "--out", "limit")
    assert code == 6
    assert "a finite-sample one is needed" in out
    few = ["--method", "dual", "--with", "gauge=paper", "--alpha", "0.0001", "--with", "radius=1e6"]
    code, out, _ = evaluate(capsys, *few, "--require-above", "-99", "--quiet", "--out", "trivial")
    assert code == 6
    assert "Cannot tell" in out


# --- names with slips ---------------------------------------------------------------------------------------------------


def test_a_method_that_nobody_knows_is_refused_before_the_log_is_read(capsys):
    stated = ["--policy", "absent.npz", "--gamma", "0.2", "--reward-range", "0", "1"]
    code, _, err = run(capsys, "evaluate", "absent.parquet", *stated, "--method", "sequental")
    assert code == 2
    assert "Did you mean `sequential`?" in " ".join(err.split())
    assert "absent" not in err
    assert all(name in err for name in METHODS[:4])


def test_an_option_with_a_slip_is_answered_with_what_was_meant(capsys):
    code, _, err = evaluate(capsys, "--requir-above", "3")
    assert (code, "--require-above" in err) == (2, True)


# --- verifying ----------------------------------------------------------------------------------------------------------


def test_verify_reads_the_log_as_the_folder_says_and_runs_no_code_of_it(place, capsys):
    """The log has another name for its rewards, and the folder a policy that must not be loaded."""
    table = pd.read_csv(place / "log.csv")
    table["income"], table["reward"] = table["reward"], 0.0
    table.to_csv(place / "other.csv", index=False)
    named = ["--columns", "rewards=income"]
    assert evaluate(capsys, *named, "--out", "res", "--quiet", log="other.csv")[0] == 0
    file = place / "res" / "result.json"
    stated = json.loads(file.read_text())
    assert stated["reading"] == {"columns": {"rewards": "income"}}
    code, out, err = run(capsys, "verify", "res", "other.csv")
    assert (code, err) == (7, "note: the log is read as its result.json says: columns {'rewards': 'income'}.\n")
    assert out.startswith("not checked: when the plan was made; the policy, verified otherwise")
    for more in ([], named, ["--text", "codes"]):  # what is stated here adds to what is stated there
        assert run(capsys, "verify", "res/certificate.json", "other.csv", *more)[0] == 7
    checked = bondic.verify("res/certificate.json", "other.csv")
    assert any("result.json" in gap and "income" in gap for gap in checked.unchecked)
    assert run(capsys, "verify", "res", "other.csv", "--columns", "rewards=reward")[0] == 1
    for reading, expected in (
        ({**stated["reading"], "policy": "absent.py:policy", "trust_pickle": True}, 7),  # neither is a word on reading
        ({**stated["reading"], "one_step": True}, 2),
        ({"columns": "rewards=income"}, 2),
        ({"columns": [3]}, 2),
        ([], 2),
    ):
        file.write_text(json.dumps({**stated, "reading": reading}))
        code, out, err = run(capsys, "verify", "res", "other.csv")
        assert code == expected, err
        assert "Traceback" not in out + err
    file.unlink()
    code, _, err = run(capsys, "verify", "res", "other.csv")
    assert (code, "result.json" in err) == (1, True)
    assert run(capsys, "verify", "res", "other.csv", *named)[0] == 7


@pytest.mark.parametrize("more", [0, 2])
def test_verify_knows_how_many_actions_there_are(more, place, capsys):
    """A function that returns actions does not say it; the certificate does, also where the log shows fewer."""
    mostly = "np.where(states[:, 0] > 1, 1, 0)"
    (place / "rules.py").write_text(
        f"import numpy as np\nimport bondic\n\n\ndef rule(states):\n    return {mostly}\n\n\n"
        f"counted = bondic.DeterministicPolicy(rule, n_actions={3 + more})\n"
    )
    which = "rules.py:counted" if more else "rules.py:rule"
    assert evaluate(capsys, "--out", "res", "--quiet", policy=which)[0] == 0
    code, out, err = run(capsys, "verify", "res", "log.csv", "--policy", "rules.py:rule")
    assert code == 0, err
    assert "policy gives the stored answers" in out


OWN_KERNEL = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bondic.core.kernels.base import Leaf
from bondic.core.registry import register


@register("kernel", "test-inverse-square")
@dataclass(frozen=True, eq=False)
class InverseSquare(Leaf):
    on: ClassVar = "observation"
    bandwidth: float = 1.0
    sup_diag: ClassVar = 1.0

    def block(self, x, y):
        return 1.0 / (1.0 + (((x[:, None, :] - y[None, :, :]) / self.bandwidth) ** 2).sum(axis=2))

    def diag(self, x):
        return np.ones(x.shape[0])

    def value_error(self, x, y):
        return (x.shape[1] + 6) * 2.0**-52
"""
CERTIFY = """
import bondic, own_kernel
from bondic.core.balls import Instruments
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.leaves import Dirac
from bondic_lab.noise.plug_in import PlugIn

log = bondic.read_log("small.npz").transitions
start = bondic.InitialStates.exact(log.observations[:1])
kernel = own_kernel.InverseSquare() * Dirac() + Constant(1.0)
method = bondic.Dual(instruments=Instruments(kernel), ball=bondic.Ball(kernel, 3.0), gauge=PlugIn(1e-3))
asked = {"gamma": 0.5, "reward_range": (0, 1), "initial": start, "method": method}
bondic.evaluate_policy(log, bondic.UniformPolicy(2), **asked).save("own")
"""


def alone(*words):
    """A command in a process of its own, which has not met the kernel."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_kernel_of_ones_own_is_verified_once_its_module_is_named(place):
    (place / "own_kernel.py").write_text(OWN_KERNEL)
    demo = bondic.load_demo().log.columns()
    np.savez("small.npz", **{name: column[:400] for name, column in demo.items() if column is not None})
    code, said = alone("-c", CERTIFY)
    assert code == 0, said
    code, said = alone("-m", "bondic", "verify", "own", "small.npz")
    assert code == 1
    assert "there is no kernel 'test-inverse-square'" in said
    assert "--import MODULE" in said
    for module in ("own_kernel", "own_kernel.py"):
        code, said = alone("-m", "bondic", "verify", "own", "small.npz", "--import", module)
        assert code == 7, said
        assert "the kernel 'test-inverse-square'" in said
    code, said = alone("-m", "bondic", "verify", "own", "small.npz", "--import", "absent_module")
    assert code == 2
    assert "absent_module cannot be imported" in said
