"""The figures of the paper: trials, their store, the tests of failures, the command."""

from __future__ import annotations

import importlib
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

import bondic
from bondic.cli import main as cli
from bondic.core.errors import InvalidInput
from bondic.methods.dual import Dual
from bondic.methods.setting import make_setting
from bondic_lab.noise.v_statistic import VStatistic
from bondic_lab.reproduction import ablations, fig1, fig2, pendulum_ablations, prior, tightness, trials, worlds
from bondic_lab.reproduction.intervals import GAUGES, dual_intervals
from bondic_lab.reproduction.known import (
    start_rule,
    synthetic,
    synthetic_world,
    tabular,
    tabular_world,
    weight_features,
)
from bondic_lab.reproduction.registry import EXPERIMENTS, find_experiment
from bondic_lab.reproduction.store import fingerprint, read_trial, trial_path, write_trial
from bondic_lab.reproduction.summary import binomial_checks, efficiency_limit, failed, holm, slope
from bondic_lab.reproduction.trials import Job, run_jobs
from bondic_lab.worlds.occupancy import efficient_variance, log_distribution


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
            method = bondic.Dual(instruments=setup.instruments, ball=ball, gauge=chosen, rank=50)
            twin = bondic.estimate_interval(setup.problem, alpha=item.alpha, method=method)
            assert (item.low, item.high) == (twin.low, twin.high)
            assert item.status == twin.status.name
            assert item.guarantee == twin.guarantee


def test_a_radius_that_is_too_small_is_rejected_and_gives_the_value_range():
    setup = tabular(2000, np.random.default_rng(0), seed=11, gamma=0.5)
    tiny = setup.ball.with_radius(1e-3)
    ((found,),) = dual_intervals(setup.problem, setup.instruments, [tiny], gauges=["plug-in"], rank=50)
    assert found.status == "REJECTED"
    assert (found.low, found.high) == pytest.approx((0.0, 2.0), abs=1e-12)


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


def test_other_parameters_and_broken_files_are_run_again(tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    jobs = [Job("test", {"marks": str(marks), "n": n}, 0, counted) for n in (1, 2)]
    assert fingerprint(jobs[0].identity) != fingerprint(jobs[1].identity)
    run_jobs(jobs[:1], tmp_path / "trials")
    assert read_trial(tmp_path / "trials", jobs[1].identity) is None
    path = trial_path(tmp_path / "trials", jobs[0].identity)
    path.write_bytes(path.read_bytes()[:40])  # as if the disk had filled up under another program
    assert read_trial(tmp_path / "trials", jobs[0].identity) is None
    assert len(run_jobs(jobs, tmp_path / "trials")) == 2
    assert not list((tmp_path / "trials").glob(".*"))  # no temporary file stays behind
    moved = write_trial(tmp_path / "trials", jobs[0].identity, [{"value": 1.0}])
    moved.replace(trial_path(tmp_path / "trials", jobs[1].identity))  # a file under a wrong name is not believed
    assert read_trial(tmp_path / "trials", jobs[1].identity) is None


def test_spawned_processes_give_the_same_rows(tmp_path):
    jobs = [Job("tightness", TINY["tightness"], number, tightness.trial) for number in range(2)]
    one, two = run_jobs(jobs, tmp_path / "one"), run_jobs(jobs, tmp_path / "two", processes=2)
    drop = [[{key: row[key] for key in row if key != "seconds"} for row in rows] for rows in (one, two)]
    assert drop[0] == drop[1]
    with pytest.raises(InvalidInput, match="at least one process"):
        run_jobs(jobs, tmp_path / "one", processes=0)


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


def test_a_miss_within_the_truths_own_error_is_none_and_a_slope_is_a_slope():
    assert failed({"low": 0.6, "high": 1.0, "truth": 0.5, "slack": 0.05})
    assert not failed({"low": 0.6, "high": 1.0, "truth": 0.5, "slack": 0.11})
    assert slope([10, 100, 1000], [7 / 10**0.5, 7 / 10, 7 / 10**1.5]) == pytest.approx(-0.5)


def test_worlds_have_the_rows_and_values_they_claim():
    setup = synthetic(501, np.random.default_rng(0), length=7, mixtures=(0.0, 0.5, 0.9))
    assert len(setup.problem) == 501
    assert setup.ball.radius == pytest.approx(10 * synthetic_world().q_norm)
    assert setup.truth == synthetic_world().value
    assert setup.problem.layout.action_dim == setup.problem.layout.observation_dim == 1
    assert setup.problem.whole().next.points.shape == (501 * 5, 2)
    table = tabular(130, np.random.default_rng(0), seed=11, gamma=0.9)
    assert len(table.problem) == 130
    mdp = tabular_world(11, 0.9)
    assert table.ball.radius == pytest.approx(10 * np.sqrt(np.sum(mdp.q_star**2)))
    value, error = worlds.simulate_value("cartpole", 4)
    stored = worlds.SIMULATED["cartpole"]
    assert abs(value - stored.value) < 5 * np.hypot(error, stored.standard_error)
    log = worlds.simulated("pendulum", 333, np.random.default_rng(0)).problem
    starts = {tuple(state) for state in worlds.start_states("pendulum")}
    assert len(log) == 333
    assert tuple(log.whole().logged[0]) in starts
    with pytest.raises(InvalidInput, match="no recipe"):
        worlds.simulated_world("mountain car")


def test_rivals_get_whole_episodes_whose_number_does_not_depend_on_the_log():
    counts = set()
    for seed in range(3):
        setup = worlds.simulated("pendulum", 333, np.random.default_rng(seed), whole=True)
        whole, log = setup.episodes.log, setup.problem.log
        lengths = np.unique(whole.episode_ids, return_counts=True)[1]
        last = np.cumsum(lengths) - 1
        # every episode fell, or was cut at its 50 steps; none was interrupted by the end of the log
        assert np.all(whole.terminations[last] | (lengths == 50))
        same = min(len(log), len(whole)) - 1
        np.testing.assert_array_equal(whole.observations[:same], log.observations[:same])
        counts.add(lengths.size)
    assert len(counts) == 1
    assert 100 < len(whole) < 1000


@pytest.mark.parametrize("gamma", [0.95, 0.99])
def test_the_list_of_starts_stands_for_the_initial_law(gamma):
    """At q* it is exact to 1e-12, far within the slack; the question holds that list and pays no δ for it."""
    mdp = synthetic_world(gamma)
    states, actions, weights = start_rule(mdp)
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert weights @ mdp.q_star(states, actions) == pytest.approx(mdp.value, abs=1e-12)
    setup = synthetic(60, np.random.default_rng(0), gamma=gamma)
    assert np.array_equal(setup.problem.initial.points, np.hstack([states, actions]))
    assert np.array_equal(setup.problem.answers.initial[:, 0], actions)
    np.testing.assert_allclose(setup.problem.initial_states.weights, weights, rtol=1e-12)
    setting, budget, _ = make_setting(Dual(instruments=setup.instruments, ball=setup.ball), setup.problem, 0.1)
    assert setting.initial_term().mid == setting.initial_term().rad == 0.0
    assert budget["noise"] == 0.1


def test_limits_of_the_synthetic_world_stand_beside_its_lengths():
    cell = {"rows": 300, "gamma": 0.95, "steps": 10, "world": "s, a in R"}
    rows = ablations.length_trial(cell, np.random.default_rng(0))
    mdp = synthetic_world()
    variance = efficient_variance(mdp, log_distribution(mdp, 10))
    expected = 2 * stats.norm.ppf(0.95) * np.sqrt(variance / 300)
    assert [row["limit"] for row in rows] == pytest.approx([expected] * len(rows))
    stored = [{**cell, **row} for row in rows]
    dashed = ablations.limits_against(stored, "steps")
    assert (dashed.x, dashed.kind) == ((10.0,), "dashed")
    assert dashed.y == pytest.approx((expected,))
    union, single = (ablations.limit(300, mixtures=rates) for rates in ((0.0, 0.8), (0.0,)))
    assert union < single


def test_the_law_of_the_log_is_the_limit_of_long_logs():
    """A, b and S of the population against means over a long log with its drawn next actions, within sampling error."""
    law, mdp = prior.population(0.95, 50), synthetic_world()
    problem = synthetic(40_000, np.random.default_rng(5)).problem
    rng, features = np.random.default_rng(1), weight_features(problem.whole().logged)
    assert np.abs(features.T @ features / len(problem) - law.second).max() < 0.03
    assert law.residual_variance == pytest.approx(
        mdp.residual_variances(*np.hsplit(problem.whole().logged, 2)).mean(), rel=0.02
    )
    # ‖μ_0‖ of the list of starts, exactly
    states, actions, weights = start_rule(mdp)
    points = np.hstack([states, actions])
    gram = bondic.Gaussian(mdp.bandwidth).block(points, points) + mdp.offset
    assert np.linalg.norm(law.start) == pytest.approx(np.sqrt(weights @ gram @ weights), rel=1e-6)
    # ‖A w‖² as a mean over pairs of independent rows, one row of each of 800 episodes
    w = rng.normal(size=features.shape[1])
    rows = np.arange(0, 40_000, 50) + rng.integers(50, size=800)
    omega, now = features[rows] @ w, problem.whole().logged[rows]
    later = problem.whole().next.points.reshape(40_000, -1, 2)[rows, 0]
    signs, all_points = np.concatenate([omega, -mdp.gamma * omega]), np.concatenate([now, later])
    pairs = signs[:, None] * (bondic.Gaussian(mdp.bandwidth).block(all_points, all_points) + mdp.offset) * signs
    table = pairs.reshape(2, 800, 2, 800).sum(axis=(0, 2))
    np.fill_diagonal(table, 0.0)
    error = 2 * (table.sum(axis=1) / 799).std() / np.sqrt(800)
    assert abs(table.sum() / (800 * 799) - np.sum((law.balance @ w) ** 2)) < 4 * error


def test_promised_lengths_are_ordered_and_need_no_finer_landmarks():
    mdp = synthetic_world()
    radius = 10 * mdp.q_norm
    law = prior.population(0.95, 50)
    for gauge in ("paper", "half", "plug-in"):
        found = [prior.promise(gauge, n, radius, 0.1) for n in (1000, 10_000, 10**6)]
        assert all(one.ideal <= one.prior <= 2 * radius * np.linalg.norm(law.start) * (1 + 1e-12) for one in found)
        assert all(one.ideal >= two.ideal and one.prior >= two.prior for one, two in pairwise(found))
        assert found[0].ideal <= prior.promise(gauge, 1000, 2 * radius, 0.1).ideal
    fine = prior.describe(mdp, log_distribution(mdp, 50), np.linspace(-4, 4, 21))
    for epsilon, noise in ((0.01, 0.0), (0.001, 0.001)):
        assert fine.length(epsilon, radius, noise) == pytest.approx(law.length(epsilon, radius, noise), rel=1e-3)


def test_the_a_priori_length_is_the_formula_at_the_true_ratio():
    mdp = tabular_world(11, 0.5)
    short, long = (tightness.a_priori_length(mdp, n, 0.1, 2.0) for n in (4000, 1000))
    assert long == pytest.approx(2 * short)
    assert efficiency_limit(2.0, 1000, 0.1) == pytest.approx(2 * efficiency_limit(2.0, 4000, 0.1))
    # the norm of omega* by brute force: least squares over coefficients of kernel sections
    ratio = mdp.density_ratio(mdp.log_distribution(tightness.STEPS)).ravel()
    gram = 0.5 + 0.5 * np.eye(8)
    coefficients = np.linalg.lstsq(gram, ratio, rcond=None)[0]
    norm = np.sqrt(coefficients @ gram @ coefficients)
    bias = tightness.a_priori_length(mdp, 1000, 0.1, 1.0) - tightness.a_priori_length(mdp, 1000, 0.1, 0.0)
    unit = np.sqrt(2 * np.log(20) / 1000)
    assert tightness.a_priori_length(mdp, 1000, 0.1, 0.0) == pytest.approx(2 * unit * 0.5 * 2.0 * norm)
    assert bias == pytest.approx(2 * unit * 1.5 * ratio.max())


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


def test_without_the_lab_its_command_is_absent_and_the_hint_says_where_it_is(monkeypatch):
    assert [command.name for command in cli.lab_commands()] == ["reproduce"]
    monkeypatch.setattr(cli, "LAB", "no_lab_of_this_name")
    assert cli.lab_commands() == ()
    done = CliRunner().invoke(cli.Commands(), ["reproduce", "fig1"])
    assert done.exit_code == 2
    assert "no_lab_of_this_name, which is not installed" in done.output


def test_a_lab_that_lacks_something_it_needs_is_not_taken_for_an_absent_one(monkeypatch, tmp_path):
    broken = tmp_path / "broken_lab"
    broken.mkdir()
    (broken / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cli, "LAB", "broken_lab")
    with pytest.raises(ModuleNotFoundError, match="commands"):
        cli.lab_commands()


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


def test_cells_are_plain_data_and_quick_is_smaller():
    for experiment in EXPERIMENTS.values():
        full, quick = experiment.jobs(quick=False, trials=None), experiment.jobs(quick=True, trials=None)
        assert len(quick) < len(full)
        json.dumps([job.identity for job in full])
        assert len({fingerprint(job.identity) for job in full}) == len(full)
    assert sum(job.cell["panel"] == "alpha" for job in fig1.EXPERIMENT.jobs(quick=False, trials=None)) == 100
    assert len(fig2.EXPERIMENT.jobs(quick=False, trials=None)) == 150
    assert len(ablations.RADIUS.jobs(quick=True, trials=1)) == 2
    assert len(pendulum_ablations.BANDWIDTH.jobs(quick=True, trials=3)) == 12
    with pytest.raises(InvalidInput, match="at least one trial"):
        fig1.EXPERIMENT.jobs(quick=True, trials=0)
    with pytest.raises(InvalidInput, match="no figure"):
        find_experiment("fig9")


def test_tables_of_the_page_come_from_the_summaries(monkeypatch):
    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(str(root / "scripts"))
    script = importlib.import_module("reproduction_page")
    page = (root / "docs" / "reproduction.md").read_text()
    for mark in (*script.TABLES, "verdict"):
        assert script.insert(page, mark, "here").count("here\n<!-- end -->") == 1
    with pytest.raises(SystemExit, match="no place for fig9"):
        script.insert(page, "fig9", "")
    line = {"trials": 50, "low": -1.7061, "high": 0.0, "misses": 3}
    table = [{"world": world, "method": method, **line} for world in "ab" for method in ("half", "dm")]
    assert script.fig2({"table": table}).splitlines()[2:] == [
        "| half | [−1.71, 0] (3 of 50) | [−1.71, 0] (3 of 50) |",
        "| `dm` | [−1.71, 0] (3 of 50) | [−1.71, 0] (3 of 50) |",
    ]
    lengths = [{"rows": n, "method": "half", "raw length": 100.0 / n**0.5} for n in (1250, 5000, 20_000)]
    assert script.fig1({"table": lengths}).splitlines()[-1] == "| half | 2.83 | 1.41 | 0.707 | −0.50 | −0.50 |"
    checks = [{"trials": 20, "failures": 1, "violated": False}, {"trials": 30, "failures": 9, "violated": True}]
    assert script.verdict([{"checks": checks}]) == "2 cells, 50 intervals, 10 misses, 1 violations."
    with pytest.raises(SystemExit, match="complete run"):
        script.of(table, world="c")
