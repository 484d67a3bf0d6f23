"""The figures of the paper: trials, their store, the tests of failures, the command."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import bondic
from bondic.cli import main as cli
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.v_statistic import VStatistic
from bondic_lab.reproduction import tightness, trials, worlds
from bondic_lab.reproduction.intervals import GAUGES, dual_intervals
from bondic_lab.reproduction.known import (
    tabular,
)
from bondic_lab.reproduction.registry import EXPERIMENTS, find_experiment
from bondic_lab.reproduction.summary import binomial_checks, failed, holm
from bondic_lab.reproduction.trials import Job, run_jobs


@pytest.fixture(autouse=True)
def small_pilot(monkeypatch):
    """The pilot log fixes scales and radius; 300 rows do for a test."""
    monkeypatch.setattr(worlds, "PILOT_ROWS", 300)
    worlds._classes.cache_clear()
    yield
    worlds._classes.cache_clear()


TINY = {
    "fig1": {"panel": "alpha", "rows": 200, "alphas": [0.1, 0.2]},
    "fig2": {"world": "cartpole", "rows": 400},
    "ablation-radius": {"rows": 200},
    "ablation-temperature": {"rows": 200, "rate": -1.0, "rates": [0.0, 0.4, 0.8]},
    "ablation-bandwidth": {"rows": 200, "k": 0.5, "k~": 1.0},
    "ablation-behavior": {"rows": 200, "temperature": 0.5},
    "ablation-length": {"rows": 200, "gamma": 0.99, "steps": 7},
    "tightness": {"seed": 11, "gamma": 0.5, "rows": 300},
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_trial_of_every_figure_gives_intervals_inside_the_value_range(name):
    job = Job(name, TINY[name], 0, find_experiment(name).trial)
    rows = job.run()
    assert {"method", "alpha", "low", "high", "truth", "slack", "guarantee"} <= set(rows[0])
    for row in rows:
        if row["status"] == "REFUSED":
            assert row["refused"]
            continue
        assert row["low"] <= row["high"]
        if row["guarantee"] == "finite-sample":
            assert not failed(row)  # far wider than needed on logs this short
    by_name = {(row["method"], row.get("factor"), row["alpha"]): row["high"] - row["low"] for row in rows}
    for (method, factor, alpha), length in by_name.items():
        if method == "half":
            assert length <= by_name["paper", factor, alpha] if name != "ablation-bandwidth" else True


def test_trials_are_determined_by_figure_cell_and_number():
    first, again = (Job("tightness", TINY["tightness"], 3, tightness.trial).run() for _ in range(2))
    other = Job("tightness", TINY["tightness"], 4, tightness.trial).run()
    clean = [[{key: row[key] for key in row if key != "seconds"} for row in rows] for rows in (first, again, other)]
    assert clean[0] == clean[1]
    assert clean[0] != clean[2]


@pytest.mark.parametrize("gauge", GAUGES)
def test_shared_decomposition_gives_the_intervals_of_dual(gauge):
    setup = tabular(900, np.random.default_rng(0), seed=11, gamma=0.5)
    wider = setup.ball.with_radius(3 * setup.ball.radius)
    found = dual_intervals(
        setup.problem, setup.instruments, [setup.ball, wider], gauges=[gauge], alphas=[0.05, 0.3], rank=50
    )
    for ball, line in zip((setup.ball, wider), found, strict=True):
        for item in line:
            chosen = VStatistic("paper") if gauge == "feng2020" else gauge
            method = bondic.Dual(instruments=setup.instruments, ball=ball, gauge=chosen, advanced=Advanced(rank=50))
            twin = bondic.estimate_interval(setup.problem, alpha=item.alpha, method=method)
            assert (item.low, item.high) == (twin.low, twin.high)
            assert item.status == twin.status.name
            assert item.guarantee == twin.guarantee


def counted(cell, rng):
    """A trial that leaves a mark, named after its own random numbers."""
    (Path(cell["marks"]) / f"{rng.integers(2**62)}").touch()
    return [{"value": float(rng.random())}]


def test_an_interrupted_run_resumes_with_the_rest_only(tmp_path):
    marks, folder = tmp_path / "marks", tmp_path / "trials"
    marks.mkdir()
    calls = []

    def once(cell, rng):
        if len(calls) == 2:
            calls.append("stop")
            raise KeyboardInterrupt
        calls.append(cell)
        return counted(cell, rng)

    jobs = [Job("test", {"marks": str(marks)}, number, once) for number in range(5)]
    with pytest.raises(KeyboardInterrupt):
        run_jobs(jobs, folder)
    assert len(list(folder.glob("*.parquet"))) == len(list(marks.iterdir())) == 2
    seen = []
    resumed = run_jobs(jobs, folder, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(2, 5), (3, 5), (4, 5), (5, 5)]
    assert len(list(marks.iterdir())) == 5
    fresh = run_jobs(jobs, tmp_path / "elsewhere")
    assert resumed == fresh  # an interruption changes nothing
    assert run_jobs(jobs, folder) == fresh
    assert len(list(marks.iterdir())) == 5  # same seeds, same marks: nothing new ran under another seed


def rows_with(misses: int, trials: int, alpha: float = 0.1, method: str = "half", guarantee: str = "finite-sample"):
    hit, miss = {"low": 0.0, "high": 1.0}, {"low": 0.6, "high": 1.0}
    common = {"truth": 0.5, "slack": 0.01, "alpha": alpha, "method": method, "guarantee": guarantee, "n": 1}
    return [common | (miss if index < misses else hit) for index in range(trials)]


def test_binomial_checks_are_exact_one_sided_and_corrected():
    rows = rows_with(18, 60) + rows_with(6, 60, method="paper") + rows_with(60, 60, method="x", guarantee="none")
    bad, fine = binomial_checks(rows, "n")
    # the slow twin: the sum of binomial probabilities from 18 on, times the number of tests
    tail = sum(stats.binom.pmf(k, 60, 0.1) for k in range(18, 61))
    assert bad.p_value == pytest.approx(tail, rel=1e-9)
    assert bad.corrected == pytest.approx(2 * tail, rel=1e-9)
    assert bad.violated
    assert not fine.violated
    assert fine.failures == 6
    # 11 of 60 would be called a violation alone, but not as one of forty cells
    assert binomial_checks(rows_with(11, 60), "n")[0].violated
    many = rows_with(11, 60) + [row for k in range(39) for row in rows_with(6, 60, method=f"m{k}")]
    assert not binomial_checks(many, "n")[0].violated


def test_holm_against_its_definition():
    values = np.random.default_rng(0).random(7) ** 3
    order = np.sort(values)
    for value, corrected in zip(values, holm(list(values)), strict=True):
        rank = int(np.searchsorted(order, value))
        assert corrected == pytest.approx(max(min(1.0, (7 - j) * order[j]) for j in range(rank + 1)))
    assert holm([]) == []


def test_command_runs_resumes_and_writes_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(tightness, "QUICK_ROWS", (200, 400))
    monkeypatch.setattr(tightness, "WORLDS", ((11, 0.5),))
    call = ["reproduce", "tightness", "--quick", "--trials", "2", "--out", str(tmp_path)]
    done = CliRunner().invoke(cli.group, call, catch_exceptions=False)
    assert done.exit_code == 0
    assert "0 violated" in done.output
    summary = json.loads((tmp_path / "tightness-quick" / "summary.json").read_text())
    assert {row["trials"] for row in summary["table"]} == {2}
    assert len(summary["checks"]) == 6
    monkeypatch.setattr(trials, "_run_and_store", None)  # nothing is left to run
    assert CliRunner().invoke(cli.group, call, catch_exceptions=False).output == done.output
    assert CliRunner().invoke(cli.group, ["reproduce", "fig9"]).exit_code != 0


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_figure_is_summed_up_and_drawn(name, tmp_path):
    experiment = find_experiment(name)
    rows = []
    pattern = Job(name, TINY[name], 0, experiment.trial).run()
    for cell, _ in experiment.cells(True):
        plain = {key: value for key, value in cell.items() if not isinstance(value, list)}
        for number in range(2):
            rows += [row | plain | {"trial": number} for row in pattern]
    data = experiment.summarize(rows)
    assert data.name == name
    assert data.panels
    assert all(panel.series or panel.heat for panel in data.panels)
    json.dumps([*data.table, *(check.record() for check in data.checks)])
    importlib.import_module("matplotlib")
    from bondic_lab.reproduction.plots import save_figure

    png, svg = save_figure(data, tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_bytes() == save_figure(data, tmp_path)[1].read_bytes()
