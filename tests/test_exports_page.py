"""The files that docs/exports.md shows are not run with the page: here they are, with stand-ins for what they import."""

import shlex
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml

from bondic.cli.main import group
from pages import blocks
from test_ways_in import ask

PAGE = Path(__file__).parent.parent / "docs" / "exports.md"


def shown(title):
    (found,) = (block.text for block in blocks(PAGE) if block.title == title)
    return found


@pytest.fixture(scope="module")
def result():
    return ask()


def test_mlflow_is_given_numbers_words_and_a_folder(result, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    recorded = MagicMock()
    monkeypatch.setitem(sys.modules, "mlflow", recorded)
    exec(shown("to_mlflow.py"), {"result": result})
    (metrics,), (words,) = recorded.log_metrics.call_args.args, recorded.log_params.call_args.args
    assert metrics == {"low": result.low, "high": result.high, "estimate": result.estimate}
    assert words["guarantee"] == "finite-sample"
    assert (Path(recorded.log_artifacts.call_args.args[0]) / "certificate.json").is_file()


def test_weights_and_biases_is_given_the_same(result, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = MagicMock()
    run.__enter__.return_value = run
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **_: run))
    exec(shown("to_wandb.py"), {"result": result})
    assert run.log.call_args.args[0]["low"] == result.low
    assert run.summary.update.call_args.args[0]["alpha"] == 0.1
    assert (Path(run.log_artifact.call_args.args[0]) / "result.json").is_file()


def test_the_workflow_is_one_and_its_command_is_understood():
    steps = yaml.safe_load(shown("policy.yml"))["jobs"]["evaluate"]["steps"]
    (line,) = (step["run"] for step in steps if step.get("run", "").startswith("bondic"))
    words = shlex.split(line)
    command = group.get_command(None, words[1])
    parsed = command.make_context("evaluate", words[2:]).params
    assert parsed["require_above"] == 4.0
    assert parsed["also"] == ("markdown",)
    assert all(set(step) & {"uses", "run"} for step in steps)
