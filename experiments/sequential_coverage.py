"""Whole sequential intervals against somebody who wants them to miss: rare jumps, adaptive behavior, wrong models, bad times.

    python experiments/sequential_coverage.py [--only TEXT] [--trials 20] [--seed 0]
        [--out out/sequential-coverage.json] [--page out/sequential-coverage.md]

Every log is judged several times: the interval after all rows; the worst of the intervals at all block ends; the interval with
models that are wrong (of another state with mirrored rewards, a tenth of that, three times the prediction); the events with
q* known; and the theorem itself, "if the events hold then all bounds hold", which has to be true log by log.
Exit status 1 when a statement fails too often. Log t of a case is made from (seed, name of the case, t).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

if not __package__:  # run as a script: this folder must not be searched, or numba takes coverage.py for another one
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.coverage import as_record, write_atomically
from experiments.coverage_checks import ALPHA, Check, FloatArray, Tally, tally
from experiments.sequential_known import (
    ENDING,
    EPISODIC,
    TABULAR,
    IntArray,
    Known,
    certify,
    continuous_actions,
    continuous_states,
    table,
    with_jumps,
)
from experiments.sequential_oracle import contradictions, facts

import bondic
from bondic.core.question import Question
from bondic.core.sequential.plan import NextModel
from bondic.core.sequential.proof import SequentialProof
from bondic.core.terms import range_of
from bondic.engines.sums import STANDARD
from bondic.rows.rows import Rows

ROWS = 2000
CASES: dict[str, Callable[[np.random.Generator], Known]] = {
    "table": lambda rng: table(rng, TABULAR, ROWS),
    "table, adaptive, ball": lambda rng: table(rng, TABULAR, ROWS, behavior="adaptive", ball=True),
    "table, adaptive, episodes end": lambda rng: table(rng, ENDING, ROWS, behavior="adaptive"),
    "table, rare jumps": lambda rng: table(rng, with_jumps(TABULAR, ROWS), ROWS),
    "table, rare jumps, adaptive": lambda rng: table(rng, with_jumps(TABULAR, ROWS), ROWS, behavior="adaptive"),
    "table, horizon 2, γ = 1": lambda rng: table(rng, EPISODIC, 2 * ROWS, horizon=2),
    "table, starts sampled": lambda rng: table(rng, ENDING, ROWS, starts=1000),
    "continuous states": partial(continuous_states, rows=ROWS),
    "continuous states, adaptive": partial(continuous_states, rows=ROWS, behavior="adaptive"),
    "continuous actions, adaptive": partial(continuous_actions, rows=ROWS // 4),
}
NEVER = 1e-9
"""Level of what follows from the events: a single failure is an error."""


class Wrong(NextModel):
    """A model made wrong on purpose, still a function of x alone."""

    def __init__(self, model: NextModel, change: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]):
        self.model, self.change = model, change

    def predict(self, points: FloatArray, slots: IntArray, coordinates: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.change(*self.model.predict(points, slots, coordinates))


def with_models(proof: SequentialProof, change: Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]):
    blocks = tuple(replace(block, model=Wrong(block.model, change)) for block in proof.plan.blocks)
    return replace(proof, plan=replace(proof.plan, blocks=blocks, rounds=()))


def at_block_ends(proof: SequentialProof, rows: Rows):
    """The proof that there was after every block, with the rows that it knew."""
    blocks = proof.plan.blocks
    for count in range(1, len(blocks) + 1):
        plan = replace(proof.plan, blocks=blocks[:count], rounds=())
        yield replace(proof, plan=plan), rows.select(rows.rows.start, blocks[count - 1].stop)


def misses(known: Known, proof: SequentialProof, rows: Rows) -> tuple[bool, float]:
    """Whether the interval is without J* (a rejection counts), and its length as a share of the value range."""
    claims, limits = proof.claims(Question.value(rows), STANDARD), range_of(rows.terms)
    if claims.rejected:
        return True, 0.0
    ends = {claim.end: claim.bound for claim in claims.ends}
    low, high = max(ends["lower"], limits.low), min(ends["upper"], limits.high)
    return not low <= known.value <= high, (high - low) / limits.width


def trial(known: Known) -> list[Check]:
    """All statements about one log."""
    proof, rows = certify(known, ALPHA)
    limits = range_of(rows.terms)
    failed, length = misses(known, proof, rows)
    worst = any(misses(known, *earlier)[0] for earlier in at_block_ends(proof, rows))
    out = [
        Check("interval", failed, length=length),
        Check("interval, worst block end", worst),
    ]
    models = {
        "model of another state, rewards mirrored": lambda y, k: (limits.low + limits.high - y, np.roll(k, 1, axis=1)),
        "a tenth of that": lambda y, k: (
            0.9 * y + 0.1 * (limits.low + limits.high - y),
            0.9 * k + 0.1 * np.roll(k, 1, axis=1),
        ),
        "model times three": lambda y, k: (y + limits.width / 4.0, 3.0 * k),
    }
    for name, change in models.items():
        failed, length = misses(known, with_models(proof, change), rows)
        out.append(Check(f"interval, {name}", failed, length=length))
    found = facts(known, proof, rows)
    levels = {name: proof.budget[name] for name in ("vector", "lower", "upper")}
    out.append(Check("vector event", found.vector > math.log(2.0 / levels["vector"]), level=levels["vector"]))
    for end, needed in found.tails.items():
        out.append(Check(f"{end} tail", needed > math.log(1.0 / levels[end]), level=levels[end]))
    out.append(Check("events imply bounds", bool(contradictions(known, proof, found)), level=NEVER))
    return out


def run(name: str, *, trials: int, seed: int) -> list[Tally]:
    key = zlib.crc32(name.encode())
    return tally(name, [trial(CASES[name](np.random.default_rng([seed, key, log]))) for log in range(trials)])


def line(row: Tally) -> str:
    length = "" if np.isnan(row.length) else f"{100.0 * row.length:.3g} %"
    verdict = ("violated" if row.violated else "holds") + ("" if row.as_expected else ": NOT AS EXPECTED")
    cells = (row.case, row.statement, f"{row.misses} / {row.trials}", f"{row.level:.2g}", length, verdict)
    return f"| {' | '.join(cells)} |"


HEADER = ("| case | statement | failed | level | length | verdict |", "|---|---|---:|---:|---:|---|")


def page(rows: list[Tally], seconds: float) -> str:
    """The Markdown page of a run."""
    trials, cases = max(row.trials for row in rows), len({row.case for row in rows})
    missed = [row for row in rows if row.statement.startswith("interval")]
    text = [
        "# Coverage of the sequential interval",
        "",
        "The [events](sequential-validity.md) behind the sequential interval are sharp; a whole interval adds bounds for all "
        "that q\\* can still be, and should miss less often. Here somebody who knows the problem tries to make it miss. "
        "Generated from one run of",
        "",
        "```sh",
        "python experiments/sequential_coverage.py --page out/sequential-coverage.md  # part of make experiments",
        "```",
        "",
        f"with {trials} logs in each of {cases} cases, α = {ALPHA}, about {seconds / 60.0:.0f} minutes of one processor core. A "
        "failed interval is one without J\\*, or a rejection (what is assumed is true in all cases). Lengths are shares of the "
        "value range. A claim is violated if its failures have probability below 10⁻⁴ at its level.",
        "",
        "| statement | meaning |",
        "|---|---|",
        *(f"| {name} | {meaning} |" for name, meaning in MEANINGS.items()),
        "",
        *HEADER,
        *map(line, rows),
        "",
        f"Failed intervals in all: {sum(row.misses for row in missed)} of {sum(row.trials for row in missed)}.",
    ]
    return "\n".join(text) + "\n"


MEANINGS = {
    "interval": "after all rows",
    "interval, worst block end": "looked at after every block; one failure among them counts",
    "interval, model …": "the models of all blocks are replaced by wrong ones, functions of the state and the action alone: of "
    "another state with mirrored rewards, a tenth of that, three times the prediction",
    "vector event, lower tail, upper tail": "(16) at its worst moment and (15) after all rows, with q\\* known, each at its "
    "share of α",
    "events imply bounds": "with the smallest log terms for which the events of this log are true, q\\* lies in all that is "
    "left of Q, deviations lie within their bounds, and the value within the interval: a theorem, so that a single failure is "
    "an error",
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Whole sequential intervals, under attack.")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this text")
    parser.add_argument("--trials", type=int, default=20, help="logs per case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/sequential-coverage.json"))
    parser.add_argument("--page", type=Path)
    options = parser.parse_args(arguments)
    names = [name for name in CASES if options.only in name]
    if not names:
        print(f"no case contains {options.only!r}; there are: {', '.join(CASES)}", file=sys.stderr)
        return 2
    rows: list[Tally] = []
    total = 0.0
    print(*HEADER, sep="\n")
    for name in names:
        started = time.process_time()
        found = run(name, trials=options.trials, seed=options.seed)
        print("\n".join(map(line, found)), flush=True)
        seconds = time.process_time() - started
        print(f"{name}: {seconds:.0f} s", file=sys.stderr, flush=True)
        rows, total = rows + found, total + seconds
    record = {"seed": options.seed, "bondic": bondic.__version__, "statements": [as_record(row) for row in rows]}
    write_atomically(options.out, json.dumps(record, indent=1) + "\n")
    if options.page is not None:
        write_atomically(options.page, page(rows, total))
    return int(any(not row.as_expected for row in rows))


if __name__ == "__main__":
    sys.exit(main())
