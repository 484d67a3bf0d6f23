"""What a command loads in a fresh process: verifying needs no search, reading a log needs no sums."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest

import bondic
from bondic.tuning.defaults import Choices
from builders import tabular

RUN = """
import json, sys
from bondic.cli.main import main
sys.argv = ["bondic", *json.loads(sys.argv[1])]
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, 7), stop.code  # 7: verified, but for when the plan was made
print(json.dumps(sorted(sys.modules)))
"""
SEARCHES = {f"bondic.{name}" for name in ("search", "tuning", "methods", "estimate", "result", "report")}


def loaded(*words):
    """(names of modules and of their packages, output) after `bondic WORDS`."""
    command = [sys.executable, "-c", RUN, json.dumps(list(map(str, words)))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *said, modules = done.stdout.splitlines()
    names = {".".join(name.split(".")[:depth]) for name in json.loads(modules) for depth in (1, 2, 3)}
    return names, "\n".join(said)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A log and the certificate of an interval that rests on a ball, so that there is a class to test."""
    folder = tmp_path_factory.mktemp("loading")
    mdp, log, policy, initial = tabular(300, gamma=0.5)
    np.savez(folder / "log.npz", **{name: column for name, column in log.columns().items() if column is not None})
    method = bondic.Dual(radius="paper", choices=Choices(categorical=False))
    problem = bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=mdp.reward_range)
    result = bondic.estimate_interval(problem, alpha=0.1, method=method)
    bondic.save_certificate(result.certificate, folder / "certificate")
    return folder


def test_verify_loads_the_trusted_core_alone(place):
    names, said = loaded("verify", place / "certificate.json", place / "log.npz")
    assert said.startswith("not checked: when the plan was made")
    assert "none was looked for" in said or "whether another would is not known" in said
    assert "bondic.core.verify" in names
    assert not names & (SEARCHES | {"rich", "bondic.cli.inputs"})


def test_a_replay_is_what_brings_the_search_in(place):
    """Without it the test above could not fail."""
    names, _ = loaded("verify", place / "certificate.json", place / "log.npz", "--replay")
    assert {"bondic.methods.replay", "bondic.search"} <= names
    assert not names & {"bondic_lab.baselines", "bondic.report", "rich"}


def test_check_loads_no_sums_and_no_compiler(place):
    names, said = loaded("check", place / "log.npz")
    assert "300 transitions" in said
    core = ("sums", "dual", "sequential", "propensities", "verify")
    ours = ("engines", "rows", "search", "methods", "report", *(f"core.{name}" for name in core))
    heavy = {"numba", "scipy", "matplotlib", "torch", *(f"bondic.{name}" for name in ours)}
    assert all(
        importlib.util.find_spec(f"bondic.{name}") for name in ours
    )  # of a name that is gone nothing would be said
    assert not names & heavy
