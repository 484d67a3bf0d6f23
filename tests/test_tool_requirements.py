"""What was required of an interval, names with slips, a folder to verify, and kernels of one's own, on the command line."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import bondic
from bondic.cli.commands import METHODS
from test_tool import evaluate, place, run

assert place  # the fixture: a folder with the log in three formats, a policy file and initial states

pytestmark = pytest.mark.usefixtures("place")


# --- requirements -------------------------------------------------------------------------------------------------------


def test_a_requirement_decides_the_exit_code_and_nothing_else(place, capsys):
    code, plain, _ = evaluate(capsys, "--json", "--out", "plain")
    low, high = json.loads(plain)["low"], json.loads(plain)["high"]
    assert code == 0
    for name, bound, wanted in (
        ("above", low, 0),
        ("above", high, 5),
        ("below", high, 0),
        ("below", low, 5),
    ):
        code, out, err = evaluate(capsys, f"--require-{name}", repr(bound), "--json", "--force", "--out", "asked")
        assert code == wanted, err
        assert json.loads(out)["low"] == low
        assert ("requirement not met" in err) == (wanted == 5)
        assert (place / "asked" / "certificate.json").is_file()
    assert f"--require-below {low!r}" in json.loads((place / "asked" / "result.json").read_text())["command"]


def test_what_shows_nothing_meets_no_requirement(capsys):
    code, _, err = evaluate(capsys, "--method", "lstd", "--require-above", "-99", "--quiet", "--out", "limit")
    assert code == 5
    assert "a finite-sample one is needed" in err
    few = ["--method", "dual", "--with", "gauge=paper", "--alpha", "0.0001", "--with", "radius=1e6"]
    code, _, err = evaluate(capsys, *few, "--require-above", "-99", "--quiet", "--out", "trivial")
    assert code == 4
    assert "requirement not met: trivial" in err


# --- names with slips ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_a_method_that_nobody_knows_is_refused_before_the_log_is_read(command, capsys):
    stated = ["--policy", "absent.npz", "--gamma", "0.2", "--reward-range", "0", "1"]
    code, _, err = run(capsys, command, "absent.parquet", *stated, "--method", "sequental")
    assert code == 2
    assert "Did you mean `sequential`?" in " ".join(err.split())
    assert "absent" not in err
    assert all(name in err for name in METHODS[:4])


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["--columns", "rewards=rewrd"], "`reward`"),
        (["--columns", "reward=reward"], "`rewards`"),
        (["--method", "tis", "--with", "step=3"], "`steps`"),
        (["--categorical", "obs_1"], "`obs_0`"),
        (["--requir-above", "3"], "--require-above"),
    ],
)
def test_slips_are_answered_with_what_was_meant(words, meant, capsys):
    code, _, err = evaluate(capsys, *words)
    assert code == 2
    assert "Did you mean" in " ".join(err.split())
    assert meant in err


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
    assert (code, err) == (0, "note: the log is read as res/result.json says (columns).\n")
    assert out.startswith("verified, except the policy")
    code, _, err = run(capsys, "verify", "res/certificate.json", "other.csv")
    assert code == 1
    assert "bondic verify res LOG" in " ".join(err.split())
    assert run(capsys, "verify", "res/certificate.json", "other.csv", *named)[0] == 0
    for reading, expected in (
        ({**stated["reading"], "policy": "absent.py:policy", "trust_pickle": True}, 0),  # neither is a word on reading
        ({**stated["reading"], "one_step": True}, 2),
        ({"columns": "rewards=income"}, 2),
        ({"columns": {"rewards": [3]}}, 2),
        ([], 2),
    ):
        file.write_text(json.dumps({**stated, "reading": reading}))
        code, out, err = run(capsys, "verify", "res", "other.csv")
        assert code == expected, err
        assert "Traceback" not in out + err
    file.unlink()
    assert run(capsys, "verify", "res", "other.csv")[0] == 1


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
        assert code == 0, said
        assert "the kernel 'test-inverse-square'" in said
    code, said = alone("-m", "bondic", "verify", "own", "small.npz", "--import", "absent_module")
    assert code == 2
    assert "absent_module cannot be imported" in said
