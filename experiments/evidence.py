"""The table of evidence: kind of log, logs, misses, informative answers, length, seconds. Default settings, known values.

    python experiments/evidence.py [--seeds 20] [--kinds PATTERN] [--jobs 2] [--out out/evidence.json] [--page docs/evidence.md]

Logs are those of the experiments (`defaults_problems_*`, `number_worlds*`, `real_logs`, `tables`), drawn again from seeds. Every
log is one call of `evaluate_policy` with log, policy, γ, reward range and, where a user has them, starts. The page keeps its
words; the table between its marks is replaced. Runs are stored in the file of --out, so that a stopped run continues, and
--render writes the table of what is stored there.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import write_atomically
from experiments.defaults import all_cells
from experiments.defaults_cells import Cell, Trial, at_starts
from experiments.defaults_judge import ALPHA, Row, not_run
from experiments.defaults_runs import code_digest, read_rows, run
from experiments.medical_table import BEST, GAMMA, NEAR, policy, world
from experiments.number_worlds import number_worlds
from experiments.real_logs import labels
from experiments.tables import FiniteWorld, garnet
from scipy import stats

import bondic
from bondic_lab.reproduction.summary import failed

MARKS = re.compile(r"(?<=<!-- table of logs -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Kind:
    """A line of the table: the cells whose names fit the pattern, and whether the answer is of use today."""

    words: str
    pattern: str
    useful: bool = True
    slow: bool = False  # a quarter of the logs


KINDS = (
    Kind("clicks of a shop, probabilities logged (Open Bandit)", r"Open Bandit (all|men|women)(, 8 items)?$"),
    Kind("labels as decisions, probabilities logged (scikit-learn)", r"\w+, \d+ decisions$"),
    Kind("up to three steps, probabilities logged, behavior learns", r"reminders$"),
    Kind("labels as decisions, no probabilities", r"(digits|breast_cancer|wine|iris)(, contexts known)?$"),
    Kind("games on a board, γ = .9 and .95 (Gymnasium)", r"(FrozenLake|CliffWalking|Taxi)(, values known)?$"),
    Kind("tables of 8 to 200 states, γ = .9 and .95", r"garnet.*|coded states.*|corridor of places.*"),
    Kind("a medical table of 700 states, 4 000 stays, near the doctors' policy, probabilities logged", r"stays, near.*"),
    Kind("the same, 40 000 stays, no probabilities", r"medical, near.*, 40000", slow=True),
    Kind("a medical table, 4 000 stays, no probabilities", r"medical, near.*, 4000", False, slow=True),
    Kind("a medical table, 4 000 stays, the best policy, probabilities logged", r"stays, best.*", False, slow=True),
    Kind("a medical table, 40 000 stays, the best policy, no probabilities", r"medical, best.*", False, slow=True),
    Kind("control, γ = .98 and .99: carts, steering, drift", r"MountainCar.*|CartPole.*|drift.*|noisy.*", False),
    Kind("numbers, nothing stated: thresholds, needles, ids, stripes", r"numbers, .*", useful=False),
    Kind("fewer than 200 rows, γ = .9", r"(six states|bumps), (20|50|100)$", useful=False),
)  # fmt: skip
BROKEN = r"threshold in the state|needle|ids as (integers|random)|checkerboard|stripes|regime|parity of 3"


def medical(kind: str, stays: int, logged: bool, rng: np.random.Generator) -> Trial:
    """700 states, 25 treatments, about 12 decisions a stay; with the doctors' probabilities and no starts, or the reverse."""
    table, log = policy(kind), world().log(stays, int(rng.integers(2**31)))
    starts, values = world().starts, world().values(table)
    return Trial(
        log if logged else replace(log, behavior_action_probs=None),
        bondic.TablePolicy(table),
        GAMMA,
        (0.0, 1.0),
        at_starts(log, values) if logged else float(values[starts].mean()),
        initial=None if logged else bondic.InitialStates.exact(starts[:, None].astype(float)),
        statements={"value_range": (0.0, 1.0)},
    )


@cache
def small(states: int) -> FiniteWorld:
    return garnet(8, 2, 0.9, ()) if states == 8 else garnet(50, 4, 0.95, ())


def finite(make: Callable[[], FiniteWorld], rows: int, rng: np.random.Generator) -> Trial:
    world = make()
    problem = world.problem(rows, int(rng.integers(2**31)))
    truth = float(world.start @ world.values[0])
    starts = np.flatnonzero(world.start > 0)
    return Trial(
        problem.log,
        problem.policy,
        world.gamma,
        world.reward_range,
        truth,
        initial=bondic.InitialStates.exact(starts[:, None].astype(float), world.start[starts]),
        statements={"may_terminate": bool((world.transition.sum(axis=2) < 1 - 1e-9).any())},
    )


def numbers(name: str, rng: np.random.Generator) -> Trial:
    (world,) = (one for one in number_worlds() if one.name == name)
    log = world.make_log(world.rows, int(rng.integers(2**31)))
    statements = {"may_terminate": world.terminates, "value_range": world.value_range}
    return Trial(
        log,
        world.policy,
        world.gamma,
        world.reward_range,
        world.truth,
        1e-6,
        initial=world.initial,
        statements=statements,
    )


ANSWERS = np.array([[0.35, 0.40], [0.08, 0.40], [0.03, 0.30]])
"""Chances that message 1, 2, 3 is answered: by mail, by phone (the world of the tutorial on short episodes)."""


def reminders(rng: np.random.Generator, patients: int = 4000) -> Trial:
    """First mails, then calls; each evening the share of calls follows what was answered."""
    rows, tries, answers, call = [], np.full(2, 10.0), np.full(2, 3.0), 0.3
    for patient in range(patients):
        if patient % 100 == 0:
            call = float(np.clip(answers[1] / tries[1] / np.sum(answers / tries), 0.3, 0.5))
        for message in range(3):
            action = int(rng.random() < call)
            answered = bool(rng.random() < ANSWERS[message, action])
            ended = answered or message == 2
            reward = float(ended and rng.random() < (0.9 if answered else 0.1))
            rows.append((message, action, reward, message + 1, ended, patient, message, call if action else 1 - call))
            tries[action] += 1
            answers[action] += answered
            if ended:
                break
    state, action, reward, after, ended, episode, step, propensity = map(np.array, zip(*rows, strict=True))
    log = bondic.Transitions(
        state[:, None].astype(float), action, reward, after[:, None].astype(float), ended,
        episode_ids=episode, timesteps=step, behavior_action_probs=propensity,
    )  # fmt: skip
    calls = np.array([0.1, 0.9, 0.9])
    silent = float(np.prod(1 - (1 - calls) * ANSWERS[:, 0] - calls * ANSWERS[:, 1]))
    policy = bondic.TablePolicy(np.column_stack([1 - calls, calls]))
    statements = {"horizon": 3, "value_range": (0.0, 1.0)}
    return Trial(log, policy, 1.0, (0.0, 1.0), 0.1 * silent + 0.9 * (1 - silent), statements=statements)


def cells() -> dict[str, Cell]:
    """All logs of the table, by name."""
    found = all_cells()
    found["reminders"] = Cell("up to three messages", reminders)
    for name, rows in (("digits", 5000), ("breast_cancer", 2000), ("wine", 2000)):
        found[f"{name}, {rows} decisions"] = Cell("with propensities", partial(labels, name, rows))
    for states, rows in ((8, 4000), (8, 20_000), (50, 100_000)):
        found[f"garnet {states}, {rows}"] = Cell("a random table", partial(finite, partial(small, states), rows))
    for kind, stays in ((NEAR, 4000), (BEST, 4000)):
        found[f"stays, {kind}, {stays}"] = Cell("700 states", partial(medical, kind, stays, True))
    for kind, stays in ((NEAR, 4000), (NEAR, 40_000), (BEST, 40_000)):
        found[f"medical, {kind}, {stays}"] = Cell("700 states", partial(medical, kind, stays, False))
    for one in number_worlds():
        if re.match(BROKEN, one.name):
            found[f"numbers, {one.name}"] = Cell(one.name, partial(numbers, one.name))
    return found


def line(kind: Kind, rows: list[Row]) -> str:
    """Misses of a kind are pooled; its usual length is the median over logs."""
    answered = [row for row in rows if "low" in row]
    informative = [row for row in answered if row["status"] != "TRIVIAL"]
    misses = sum(map(failed, answered))
    shares = [100 * (row["high"] - row["low"]) / row["width"] for row in answered]
    used = " or ".join(sorted({row["used"] for row in informative})) or "–"
    chance = stats.binom.sf(misses - 1, max(len(informative), 1), ALPHA)
    mark = " **too many**" if chance < 1e-3 else ""
    return (
        f"| {kind.words} | {len(rows)} | {misses}{mark} | {len(informative)} | {np.median(shares):.3g} % | {used} | "
        f"{_short(float(np.median([row['seconds'] for row in rows])))} |"
    )


def _short(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.2g}"


def table(kinds: list[tuple[Kind, list[Row]]]) -> str:
    head = (
        "| kind of log | logs | misses | informative | usual length | method | processor seconds |\n"
        "|---|---:|---:|---:|---:|---|---:|"
    )
    good, bad = ([line(kind, rows) for kind, rows in kinds if kind.useful is useful] for useful in (True, False))
    parts = [
        "",
        head,
        *good,
        "",
        "**What fails today.** The answer is right, and says next to nothing:",
        "",
        head,
        *bad,
        "",
    ]
    return "\n".join(parts)


def parsed(arguments: list[str] | None) -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--kinds", default="", metavar="PATTERN")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--out", type=Path, default=Path("out/evidence.json"))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--render", action="store_true", help="run nothing")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    given = parsed(arguments)
    everything = {name: cell for name, cell in cells().items() if cell.judged and not not_run(cell)}
    kinds = [kind for kind in KINDS if re.search(given.kinds, kind.words)]
    members = {kind: [name for name in everything if re.fullmatch(kind.pattern, name)] for kind in kinds}
    rows = read_rows(given.out, code_digest()) if given.render else []
    for slow, seeds in () if given.render else ((False, given.seeds), (True, max(1, given.seeds // 4))):
        names = [name for kind, found in members.items() for name in found if kind.slow is slow]
        rows += run(cells, names, seeds=seeds, jobs=given.jobs, limit=given.limit, out=given.out)
    own = {kind: [row for row in rows if row["cell"] in found] for kind, found in members.items()}
    text = table([(kind, found) for kind, found in own.items() if found])
    print(text)
    if given.page:
        write_atomically(given.page, MARKS.sub(lambda _: text, given.page.read_text()))
    return int("**too many**" in text)


if __name__ == "__main__":
    sys.exit(main())
