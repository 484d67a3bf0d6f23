"""Published data as logs with propensities, in small: sets of scikit-learn, and a shop with files like those of Open Bandit."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments import propensity_logs
from experiments.coverage_checks import tally
from experiments.defaults_problems_bandits import SETS, campaign, labeled_data, logged_labels
from experiments.propensity_logs import BERNSTEIN, BETS, METHODS, checks, failures, measured, weighted_bernstein

ITEMS, SHOWN = 5, 1200
RATES = np.array([0.02, 0.05, 0.1, 0.2, 0.4])
LIKED = np.array([0.05, 0.1, 0.15, 0.3, 0.4])


def write_log(path, rng, probs):
    items = rng.choice(ITEMS, SHOWN, p=probs)
    clicks = rng.random(SHOWN) < RATES[items]
    lines = [",timestamp,item_id,position,click,propensity_score,user_feature_0"]
    for row, (item, click) in enumerate(zip(items, clicks, strict=True)):
        lines.append(f"{row},{row},{item},{1 + row % 3},{int(click)},{probs[item]},{'ab'[row % 2]}")
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A package with the folders and columns of obp, and clicks whose rates are known."""
    rng = np.random.default_rng(3)
    for name in propensity_logs.CAMPAIGNS:
        folder = tmp_path / "obp" / "dataset" / "obd"
        write_log(folder / "random" / name / f"{name}.csv", rng, np.full(ITEMS, 1 / ITEMS))
        write_log(folder / "bts" / name / f"{name}.csv", rng, LIKED)
    (tmp_path / "obp" / "__init__.py").write_text("raise ImportError('its files are read, it is not imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    campaign.cache_clear()
    yield float(LIKED @ RATES)
    campaign.cache_clear()


def test_every_method_says_what_it_holds_for_on_a_shop(shop):
    found = measured("men")
    assert (found.items, found.rows) == (ITEMS, SHOWN)
    assert abs(found.mean - shop) < 4 * found.error
    for key, (low, high) in found.intervals.items():
        assert 0 <= low <= shop <= high <= 1, key
    lengths = {key: high - low for key, (low, high) in found.intervals.items()}
    assert max(lengths[key] for key in ("bets, ratio", "bets, population")) < min(lengths[key] for key in BERNSTEIN)


def test_logged_labels_know_the_probabilities_of_their_actions():
    data = logged_labels(*labeled_data("wine"), np.random.default_rng(0), 20_000)
    assert data.propensities.min() >= data.least == 0.5 / 3
    assert abs(np.mean(1 / data.propensities) / 3 - 1) < 0.02  # E[1/b] is the number of actions
    ratios = (data.policy.action_probs(data.features).argmax(axis=1) == data.actions) / data.propensities
    assert abs(np.mean(ratios * data.rewards) - data.truth) < 0.03


def test_empirical_bernstein_is_the_formula():
    data = logged_labels(*labeled_data("wine"), np.random.default_rng(1), 500)
    log = propensity_logs.one_step_log(data.features, data.actions, data.rewards, data.propensities)
    asked = propensity_logs.Decisions(log, data.policy, data.least, 1 / data.least)
    taken = data.policy.action_probs(data.features).argmax(axis=1) == data.actions
    values = taken * data.rewards / data.propensities
    level = np.log(2 / 0.05)
    radius = np.sqrt(2 * values.var(ddof=1) * level / 500) + 7 * 6 * level / (3 * 499)
    low, high, first = weighted_bernstein(asked)
    assert first == 0
    assert low == pytest.approx(values.mean() - radius)
    assert high == pytest.approx(min(values.mean() + radius, 1.0))


def test_digits_are_shorter_with_bets_and_nothing_else_is_accepted():
    rows = tally("digits", [checks("digits", np.random.default_rng([5, t])) for t in range(2)])
    assert failures([], rows) == []
    longer = [replace(row, length=1.0) if row.statement in BETS else row for row in rows]
    assert failures([], longer) == [f"digits: {key} is not shorter" for key in BETS]
    missing = [replace(row, misses=20, trials=20) for row in rows]
    assert len(failures([], missing)) == sum(method.role == "claim" for method in METHODS.values())


def test_a_shop_that_measured_something_else_is_noticed(shop):
    del shop
    found = measured("all")
    assert failures([found], []) == []
    assert len(failures([replace(found, mean=0.9, error=0.001)], [])) >= len(BETS)


def test_the_script_writes_table_and_page(shop, tmp_path, capsys):
    del shop
    out, page = tmp_path / "o.json", tmp_path / "p.md"
    assert propensity_logs.main(["--logs", "1", "--out", str(out), "--page", str(page)]) == 0
    records = json.loads(out.read_text())
    assert [shop["campaign"] for shop in records["open bandit"]] == list(propensity_logs.CAMPAIGNS)
    assert len(records["sets"]) == len(SETS) * len(METHODS)
    text = page.read_text()
    assert text.count("| `Propensities()` |") == 3
    assert "not as expected" not in capsys.readouterr().out
