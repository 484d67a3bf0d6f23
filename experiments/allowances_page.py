"""Tables and words of `out/allowances.md`, and what must not happen, from the runs of `allowances.py`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

OLD = json.loads(Path(__file__).with_name("old_default_lengths.json").read_text())
HIDDEN = "stated bands"
SEEN = ("stated bands hide a threshold", "stated bands of another column")
"""Hidden cliffs that halve a group: β_min has to see them."""
CLEAR = 0.5
"""The control has to fail in this share of logs at hidden cliffs. A mark with a smaller rank correlation predicts nothing."""
MARKS = ("ruled out", "two models", "halves of groups", "starts")
Run = dict[str, Any]


def by_world(runs: list[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run["world"], []).append(run)
    return found


def median(runs: list[Run], key: str) -> str:
    values = [run[key] for run in runs if key in run]
    return rounded(float(np.median(values))) if values else "–"


def rounded(value: float) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:.2g}"


def count(runs: list[Run], key: str) -> int:
    return sum(bool(run.get(key)) for run in runs)


def table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def most(alpha: float, logs: int) -> float:
    """Misses that a method with exactly this chance would exceed once in a thousand times."""
    return alpha * logs + 3.1 * math.sqrt(alpha * (1 - alpha) * logs)


def summary(found: list[Run], alpha: float) -> list[str]:
    """What must not happen, in words; empty where nothing of it did."""
    wrong = [f"{run['world']}, seed {run['seed']}: rests on a choice of bondic" for run in found if run["chosen"]]
    judged = [run for run in found if "miss" in run]
    for name, runs in [("all worlds", judged), *by_world(judged).items()]:
        for key, words in (("miss", "misses at the true allowance"), ("over", "β_min larger than the truth")):
            if count(runs, key) > most(alpha, len(runs)):
                wrong.append(f"{name}: {words} in {count(runs, key)} of {len(runs)} logs")
    for name, runs in by_world([run for run in judged if run["world"].startswith(HIDDEN)]).items():
        clear = [run for run in runs if run["half_short"]]
        if count(clear, "control") < CLEAR * len(runs):
            wrong.append(
                f"{name}: half of the true averages misses in {count(clear, 'control')} of {len(runs)} logs only"
            )
        if name.startswith(SEEN) and sum(run["ruled_out"] > 0 for run in runs) < CLEAR * len(runs):
            wrong.append(f"{name}: β_min is 0")
    return wrong


def validity(runs: list[Run]) -> str:
    rows = []
    for name, logs in by_world(runs).items():
        clear = [run for run in logs if run["half_short"]]
        seen = sum(run["ruled_out"] > 0 for run in logs)
        rows.append(
            [
                name, len(logs), count(logs, "miss"), count(logs, "short"), f"{count(clear, 'control')} of {len(clear)}",
                median(logs, "mean"), median(logs, "single"), f"{seen}, {median(logs, 'ruled_out')}",
                median(logs, "halves"), count(logs, "over"),
            ]
        )  # fmt: skip
    head = ["world", "logs", "misses at the true allowance", "shorter than the range there"]
    head += ["misses at half of the averages, where shorter than the range", "true β̄", "true β_∞", "β_min > 0, median"]
    return table([*head, "true number over halves", "β_min too large"], rows)


def sizes(runs: list[Run]) -> str:
    rows = []
    for name, logs in by_world(runs).items():
        at_truth = median(logs, "length") if "length" in logs[0] else "–"
        rows.append(
            [
                name, logs[0]["rows"], median(logs, "range"), median(logs, "zero_length"),
                f"{count(logs, 'zero')} of {len(logs)}", median(logs, "needed"), at_truth, median(logs, "groups"),
                median(logs, "seconds"),
            ]
        )  # fmt: skip
    head = [
        "world",
        "rows",
        "range",
        "length at 0",
        "J* inside at 0",
        "needed allowance",
        "length at the true one",
        "groups",
    ]
    return table([*head, "seconds"], rows)


def old_figures(name: str, truth: float) -> list[str]:
    """Length, J* inside, seconds of the default before groups."""
    runs = [run for run in OLD["runs"] if run["world"] == name]
    answers = [run for run in runs if "low" in run]
    if not answers:
        return ["no answer", f"0 of {len(runs)}", "–"]
    length = np.median([run["high"] - run["low"] for run in answers])
    slack = 1e-6 * max(1.0, abs(truth))
    inside = sum(run["low"] - slack <= truth <= run["high"] + slack for run in answers)
    return [f"{length:.2g}", f"{inside} of {len(runs)}", f"{np.median([run['seconds'] for run in answers]):.2g}"]


def lengths(runs: list[Run]) -> str:
    rows = []
    for name, logs in by_world(runs).items():
        at_truth = [median(logs, "length"), f"{len(logs) - count(logs, 'miss')} of {len(logs)}"]
        at_truth = at_truth if "length" in logs[0] else ["–", "–"]
        old = old_figures(name, logs[0]["truth"])
        rows.append(
            [
                name, logs[0]["rows"], median(logs, "range"), *old[:2], median(logs, "zero_length"),
                f"{count(logs, 'zero')} of {len(logs)}", *at_truth, median(logs, "mean"), median(logs, "needed"),
                f"{old[2]}, {median(logs, 'seconds')}",
            ]
        )  # fmt: skip
    head = [
        "world",
        "rows",
        "range",
        "old default",
        "J* inside",
        "at allowance 0",
        "J* inside",
        "at the true allowance",
    ]
    return table([*head, "J* inside", "true β̄", "needed allowance", "seconds, old and new"], rows)


def correlations(runs: list[Run]) -> list[list[Any]]:
    """Name; rank correlation with the needed allowance over all logs, where one is needed, at γ = 0; where it is enough."""
    found = []
    for name in MARKS:
        pairs = []
        for run in runs:
            mark = run["ruled_out"] if name == "ruled out" else run["marks"].get(name)
            if mark is not None:
                pairs.append((mark / run["range"], run["needed"] / run["range"], run["gamma"]))
        needing = [pair for pair in pairs if pair[1] > 0]
        enough = f"{sum(mark >= need for mark, need, _ in needing)} of {len(needing)}"
        parts = (pairs, needing, [pair for pair in pairs if not pair[2]])
        found.append([name, *map(ranks, parts), enough])
    return found


def ranks(pairs: list[tuple[float, float, float]]) -> float:
    if len(pairs) < 3 or any(np.ptp(column) == 0 for column in np.array(pairs).T[:2]):
        return math.nan
    marks, needs, _ = zip(*pairs, strict=True)
    return float(spearmanr(marks, needs).statistic)


def verdict(found: list[list[Any]]) -> str:
    best = [name for name, every, needing, _, _ in found if min(every, needing) >= CLEAR]
    if not best:
        return (
            "**None of them predicts the allowance that is needed**: none has a rank correlation of 0.5 in the first two "
            "columns, and whoever states a mark as the allowance is wrong in the logs that the last column leaves out. So none "
            "is a default. A mark can say that groups are bad; no mark says that they are good enough."
        )
    return (
        f"Correlated with what is needed: *{', '.join(best)}*. But look at the last column: whoever states the mark itself as "
        "the allowance is wrong in all other logs. So none is a default. A mark can say that groups are bad; no mark says that "
        "they are good enough."
    )


def page(found: list[Run]) -> str:
    worlds = [run for run in found if run["kind"] == "worlds"]
    named = [run for run in found if run["kind"] == "lengths"]
    judged = [run for run in found if "miss" in run]
    hidden = [run for run in worlds if run["world"].startswith(HIDDEN) and run["half_short"]]
    other = [run for run in worlds if not run["world"].startswith(HIDDEN) and run["half_short"]]
    marks = correlations(found)
    shown = [
        [name, *("–" if math.isnan(one) else f"{one:.2f}" for one in values), enough] for name, *values, enough in marks
    ]
    return TEXT.format(
        kinds=len(by_world(worlds)),
        logs=len(judged),
        chosen=count(found, "chosen"),
        misses=count(judged, "miss"),
        short=count(judged, "short"),
        hidden=f"{count(hidden, 'control')} of {len(hidden)}",
        other=f"{count(other, 'control')} of {len(other)}",
        over=count(judged, "over"),
        positive=sum(run["ruled_out"] > 0 for run in found),
        everything=len(found),
        inside=count(found, "zero"),
        validity=validity(worlds),
        sizes=sizes(worlds),
        lengths=lengths(named),
        commit=OLD["commit"],
        marks=table(
            ["mark", "all logs", "logs that need an allowance", "γ = 0", "mark at least what is needed"], shown
        ),
        verdict=verdict(marks),
    )


TEXT = """# Allowances on worlds with known values

States that are numbers: is the curve of allowances right, how long are its intervals, and does anything tell which
allowance is needed? {kinds} worlds whose values are known exactly: thresholds in the state, in a dose, a price, a torque; ids in
four codings; hours, stripes, checkerboards, parities, needles; a change of regime, subgroups, continuous actions, smooth worlds
as controls; γ = 0 to .95. α = .1, default settings. In the worlds called *{hidden_name}* the user states groups and a model, and
a cliff lies inside a group: no tree can find it.

```bash
python experiments/allowances.py --workers 2
python experiments/allowances.py --lengths --seeds 5 --workers 2
python experiments/allowances.py --seeds 0 --page out/allowances.md
```

## In short

| | |
|---|---|
| intervals that rest on an assumption that bondic chose | {chosen} of {everything} |
| J\\* outside the interval at the *true* allowance (at most 10 %) | {misses} of {logs}; {short} are shorter than the range |
| the same at *half* of the true averages, where a stated group hides a cliff (has to fail) | {hidden} |
| the same in all other worlds | {other} |
| β_min larger than the true number over halves (at most 10 %) | {over} of {logs}; positive in {positive} of {everything} |
| J\\* inside at allowance 0, which nobody promised | {inside} of {everything} |

The true allowance is that of (23) in cells: for every cell the least number for which the statement holds
on this log, computed from the known values; the number e of a cell comes from another log of the same world. Half of it fails
where the cliff matters, so the true one is no exaggeration.

## At the true allowance, and at half of it

{validity}

True β̄: the mean over the cells that the policy visits; β_∞ the largest; both medians over logs.

## What allowance 0 gives

{sizes}

*Needed allowance*: the least, both numbers alike, whose interval holds J\\*. Nobody knows it outside such worlds.

## Lengths, beside the old default

Up to commit `{commit}` the default chose a ball of functions by itself. Its intervals on the same logs, where it was right and
where it was not:

{lengths}

Medians over logs. Glucose has no exact values, only simulated ones: no true allowance. The old default had at most 150 s.

## Do the marks tell?

Rank correlations of each mark with the needed allowance, both as shares of the value range. A mark
is called correlated from 0.5 on, over all logs and over those that need an allowance; γ = 0 is shown beside it, as the unit of
a mark (one step, or a value) plays no part there:

{marks}

{verdict}
""".replace("{hidden_name}", HIDDEN)
