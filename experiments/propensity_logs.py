"""Intervals from propensities on published data: a shop's logs (Open Bandit) and scikit-learn's sets as logged decisions.

    python experiments/propensity_logs.py [--only TEXT] [--logs 20] [--seed 0] [--out out/propensity-logs.json]
        [--page out/propensity-logs.md]

Open Bandit: from the log of the random policy to the item shares of Thompson sampling (bts), whose own log says what came
out. Classification sets: log t is made from (seed, name of the set, t), and the value is known. Exit status 1 when a method with
a guarantee misses too often, or when bets are not shorter than empirical Bernstein bounds on digits.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import write_atomically
from experiments.coverage_checks import ALPHA, Check, Role, Tally, tally
from experiments.defaults_cells import one_step_log
from experiments.defaults_problems_bandits import (
    CAMPAIGNS,
    ROWS,
    SETS,
    campaign,
    labeled_data,
    logged_labels,
    shares_policy,
)

import bondic
from bondic.methods.propensities import Propensities
from bondic_lab.baselines.intervals import bernstein_lower
from bondic_lab.baselines.registry import make_baseline

Interval = tuple[float, float, int]
"""Low, high, and the first row that is certified."""
WIDER = 1.0 + 1e-9
"""A bound of the ratios is rounded up: it is computed from the same numbers as the ratios."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """A log of single decisions with rewards in [0, 1], and what is known before it is seen."""

    log: bondic.Transitions
    policy: Any
    least: float  # behavior takes no action with less, by its design
    largest: float  # no ratio π/b exceeds it, by the design of both


# --- methods --------------------------------------------------------------------------------------------


def interval_of(data: Decisions, method: Any, population: Any = None) -> Interval:
    found = bondic.evaluate_policy(
        data.log, data.policy, gamma=0.0, reward_range=(0.0, 1.0), alpha=ALPHA, method=method, population=population
    )
    if found.status is bondic.Status.REJECTED:  # a miss: nothing lies between these ends
        return found.value_range.high, found.value_range.low, found.rows[0]
    return found.low, found.high, found.rows[0]


def weighted_bernstein(data: Decisions) -> Interval:
    """Maurer and Pontil's bound of both ends for ρ r in [0, R], R a bound of the ratios."""
    probs = data.policy.action_probs(data.log.observations)
    taken = probs[np.arange(len(data.log)), data.log.actions]
    values, top = taken / data.log.behavior_action_probs * data.log.rewards, data.largest
    low = bernstein_lower(values, top, ALPHA / 2)
    return max(low, 0.0), min(top - bernstein_lower(top - values, top, ALPHA / 2), 1.0), 0


@dataclass(frozen=True, eq=False)
class Method:
    words: str
    states: str  # what has to be known about ratios
    guarantee: str
    ends: Callable[[Decisions], Interval]
    role: Role = "claim"
    population: bool = True  # or this log


_LOG, _FIXED = "for this log", "at one number of rows, for independent rows"
_EVERY = "at every number of rows, for a population that is stated"
METHODS = {
    "bets": Method(
        "`Propensities()`", "nothing", _LOG, lambda data: interval_of(data, Propensities()), population=False
    ),
    "bets, least": Method(
        "`Propensities(min_propensity=…)`", "least b", _LOG,
        lambda data: interval_of(data, Propensities(min_propensity=data.least)),
        population=False,
    ),
    "bets, ratio": Method(
        "`Propensities(max_ratio=…)`", "largest π/b", _LOG,
        lambda data: interval_of(data, Propensities(max_ratio=data.largest)),
        population=False,
    ),
    "bets, population": Method(
        '`Propensities(max_ratio=…)`, `population="iid"`', "largest π/b", _EVERY,
        lambda data: interval_of(data, Propensities(max_ratio=data.largest), "iid"),
    ),
    "hcope": Method(
        "`hcope`: truncated weights, empirical Bernstein", "nothing", _FIXED,
        lambda data: interval_of(data, make_baseline("hcope")),
    ),
    "bernstein": Method("weighted rewards, empirical Bernstein", "largest π/b", _FIXED, weighted_bernstein),
    "t": Method(
        "`tis`: weighted rewards, Student t", "nothing", "in the limit of many rows",
        lambda data: interval_of(data, make_baseline("tis")),
        role="no guarantee",
    ),
}  # fmt: skip
BERNSTEIN = ("hcope", "bernstein")
BETS = ("bets", "bets, least", "bets, ratio", "bets, population")


# --- Open Bandit ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """One campaign: what bts earned in its own log, and what the methods say from the random log."""

    campaign: str
    items: int
    rows: int
    clicks: int
    largest: float
    mean: float
    error: float
    intervals: dict[str, tuple[float, float]]


def random_log(name: str) -> Decisions:
    data = campaign(name)
    items = len(data.rates)
    log = one_step_log(data.contexts, data.items, data.clicks, data.propensities)
    return Decisions(log, shares_policy(data.shares), 1 / items, items * float(data.shares.max()) * WIDER)


def measured(name: str) -> Measured:
    data, asked = campaign(name), random_log(name)
    found = {key: method.ends(asked)[:2] for key, method in METHODS.items()}
    counts = (len(data.rates), len(data.clicks), int(data.clicks.sum()))
    return Measured(name, *counts, asked.largest, data.bts_mean, data.bts_error, found)


def open_bandit(only: str) -> list[Measured]:
    names = [name for name in CAMPAIGNS if only in f"Open Bandit {name}"]
    if names and not (find_spec("obp") and find_spec("pandas")):
        print("Open Bandit is not run: the package obp, whose files are read, or pandas is not installed")
        return []
    return [measured(name) for name in names]


# --- classification sets --------------------------------------------------------------------------------


def checks(name: str, rng: np.random.Generator) -> list[Check]:
    """One log, every method: whether it holds its own value."""
    data = logged_labels(*labeled_data(name), rng, ROWS)
    log = one_step_log(data.features, data.actions, data.rewards, data.propensities)
    asked = Decisions(log, data.policy, data.least, 1 / data.least * WIDER)
    found = []
    for key, method in METHODS.items():
        low, high, first = method.ends(asked)
        truth = data.truth if method.population else float(data.right[first:].mean())
        found.append(Check(key, not low <= truth <= high, method.role, length=max(high - low, 0.0)))
    return found


def classification(only: str, logs: int, seed: int) -> list[Tally]:
    rows: list[Tally] = []
    for name in SETS:
        if only in name:
            key = zlib.crc32(name.encode())
            rows += tally(name, [checks(name, np.random.default_rng([seed, key, t])) for t in range(logs)])
    return rows


def failures(shops: list[Measured], rows: list[Tally]) -> list[str]:
    """What should not be: too many misses, digits not shorter, a shop's interval that its own measurement contradicts."""
    found = [f"{row.case}: {row.statement} misses {row.misses} of {row.trials}" for row in rows if not row.as_expected]
    lengths = {row.statement: row.length for row in rows if row.case == "digits"}
    if lengths:
        shortest = min(lengths[key] for key in BERNSTEIN)
        found += [f"digits: {key} is not shorter" for key in BETS if not lengths[key] < shortest]
    for shop in shops:
        for key in (*BETS, *BERNSTEIN):
            low, high = shop.intervals[key]
            if not low - 3 * shop.error <= shop.mean <= high + 3 * shop.error:
                found.append(f"{shop.campaign}: {key} is more than three standard errors from what bts earned")
    return found


# --- the page -------------------------------------------------------------------------------------------

_HEAD = """# Propensities on published data

Intervals from propensities beside others, on data that nobody made for them. α = {alpha:g}. Generated from
one run of

```sh
python experiments/propensity_logs.py --page out/propensity-logs.md  # part of make experiments
```

| method | has to be known | holds |
|---|---|---|
{methods}
*Least b* and *largest π/b* are known before a log is seen: from how the behavior draws its actions, and from the policy.
Nothing is taken from the ratios of the log.

"""
_SHOPS = """## A shop: Open Bandit

A fashion shop showed items at random for a week and logged with which probability; on the same days it ran Thompson
sampling (bts) on other visits. The sample that comes with the package `obp` has 10 000 rows of each. The policy that is
asked about shows the items as often as bts did, by position. What bts earned is known from its own log, up to its standard
error. The shares are means over a week in which bts learned, so the two may differ a little; nothing is judged by it but a
difference of three standard errors.

| campaign | items | clicks in {rows} rows | largest π/b | bts earned |
|---|---:|---:|---:|---:|
{shops}
Clicks per showing, in percent:

| method |{names}
|---|{lines}
{table}
The bound of the ratios decides the upper end. *Least b* alone lets a ratio be as large as the number of items, as if the policy
might always show one item; the shares of the policy say how large it can be.

"""
_SETS = """## Known answers: digits, breast_cancer, wine

Sets of scikit-learn as logs of {rows} decisions: the behavior takes a label, half of the time at random, and earns 1 for the
right one. The policy is a decision tree that was fitted to the other half of the data. {logs} logs of each set; a miss is an
interval without the value of the policy, or a rejection; α allows one in ten on average. All values lie in [0, 1].

| method |{names}
|---|{lines}
{table}"""


def page(shops: list[Measured], rows: list[Tally]) -> str:
    methods = _lines((method.words, method.states, method.guarantee) for method in METHODS.values())
    text = _HEAD.format(alpha=ALPHA, methods=methods)
    if shops:
        facts = _lines(
            (s.campaign, s.items, s.clicks, f"{s.largest:.1f}", f"{100 * s.mean:.2f} ± {100 * s.error:.2f} %")
            for s in shops
        )
        table = _lines((m.words, *(_percent(s.intervals[key]) for s in shops)) for key, m in METHODS.items())
        columns = [s.campaign for s in shops]
        text += _SHOPS.format(rows=shops[0].rows, shops=facts, table=table, **_columns(columns))
    if rows:
        cases = list(dict.fromkeys(row.case for row in rows))
        cells = {(row.case, row.statement): row for row in rows}
        table = _lines((m.words, *(_misses(cells[case, key]) for case in cases)) for key, m in METHODS.items())
        columns = [f"{case}: mean length, misses" for case in cases]
        text += _SETS.format(rows=ROWS, logs=rows[0].trials, table=table, **_columns(columns))
    return text


def _columns(names: list[str]) -> dict[str, str]:
    return {"names": "".join(f" {name} |" for name in names), "lines": "---:|" * len(names)}


def _lines(rows: Any) -> str:
    return "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in rows)


def _percent(ends: tuple[float, float]) -> str:
    return f"[{100 * ends[0]:.2f}, {100 * ends[1]:.2f}]"


def _misses(row: Tally) -> str:
    return f"{row.length:.3f}, {row.misses} / {row.trials}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Intervals from propensities on published data.")
    parser.add_argument("--only", default="", metavar="TEXT", help="sets and campaigns whose name contains this text")
    parser.add_argument("--logs", type=int, default=20, help="logs of each classification set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    shops = open_bandit(options.only)
    for shop in shops:
        print(f"Open Bandit {shop.campaign}: bts earned {shop.mean:.4f} ± {shop.error:.4f}")
        for key, (low, high) in shop.intervals.items():
            print(f"  {key:15} [{low:.4f}, {high:.4f}]")
    rows = classification(options.only, options.logs, options.seed)
    for row in rows:
        print(f"{row.case:15} {row.statement:15} {row.misses:3} / {row.trials} missed, length {row.length:.4f}")
    wrong = failures(shops, rows)
    for line in wrong:
        print(f"not as expected: {line}")
    if options.out is not None:
        records = {"open bandit": [asdict(shop) for shop in shops], "sets": [asdict(row) for row in rows]}
        write_atomically(options.out, json.dumps(records, indent=1))
    if options.page is not None:
        write_atomically(options.page, page(shops, rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
