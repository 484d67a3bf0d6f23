"""Faults of logs that moved an interval without a word: how many of them are refused or warned about now.

    python experiments/corruptions.py [--seeds 20] [--honest 200] [--page out/corruptions.md]

Every fault is put into seeded logs that are good, and every good log is looked at as it is: what is said about those is
a false alarm. Exit status 1 when a fault slips through or a good log is not left in peace.
"""

from __future__ import annotations

import argparse
import sys
import warnings
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: this folder must not be searched
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.corruptions_honest import CHANGING, HARD
from experiments.corruptions_logs import FAULTS, GOOD, HONEST, Columns

import bondic
from bondic.data.hygiene.findings import Finding

ALL_HONEST = {**HONEST, **HARD}
UNSEEN = "policy takes an action that was never logged"


@dataclass(frozen=True)
class Line:
    """One fault in one kind of log."""

    fault: str
    log: str
    refused: int
    warned: int
    trials: int

    @property
    def caught(self) -> int:
        return self.refused + self.warned


def examined(columns: Columns) -> tuple[Finding, ...]:
    """What is found, the warnings about equal rows that building a log gives included."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", bondic.ValidityWarning)
        log = bondic.Transitions(**columns)
    told = [Finding("copies", "warn", 1, -1, str(item.message), "") for item in caught]
    return (*told, *bondic.inspect_log(log, gamma=0.9))


def _rng(*words: object) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(str(word).encode()) for word in words])


def run_fault(fault: str, name: str, seeds: int) -> Line | None:
    """None where the log cannot have the fault."""
    spoil, kind = FAULTS[fault]
    seen: Counter[str] = Counter()
    for seed in range(seeds):
        rng = _rng(name, seed)
        spoiled = spoil(ALL_HONEST[name](rng), rng)
        if spoiled is None:
            return None
        found = {item.severity for item in examined(spoiled) if item.kind == kind}
        seen["refuse" if "refuse" in found else "warn" if "warn" in found else ""] += 1
    return Line(fault, name, seen["refuse"], seen["warn"], seeds)


def run_unseen(name: str, seeds: int) -> Line:
    """A policy with one action more than the log has."""
    warned = 0
    for seed in range(seeds):
        log = bondic.Transitions(**GOOD[name](_rng(name, seed)))
        policy = bondic.UniformPolicy(int(log.actions.max()) + 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bondic.ValidityWarning)
            problem = bondic.make_problem(log, policy, gamma=0.9, reward_range=(-1e3, 1e3))
        warned += any("never took" in doubt for doubt in problem.validity_notes)
    return Line(UNSEEN, name, 0, warned, seeds)


def false_alarms(name: str, seeds: int) -> list[str]:
    """Kinds of findings about logs that have no fault, one entry per log and kind."""
    return [
        item.kind
        for seed in range(seeds)
        for item in examined(ALL_HONEST[name](_rng("honest", name, seed)))
        if item.severity != "note" and not (item.kind == "drift" and name in CHANGING)
    ]


def run(seeds: int, honest: int) -> tuple[list[Line], dict[str, list[str]]]:
    pairs = [(fault, name) for fault in FAULTS for name in GOOD]
    lines = [line for pair in pairs if (line := run_fault(*pair, seeds)) is not None]
    lines += [run_unseen(name, seeds) for name in GOOD]
    return lines, {name: false_alarms(name, honest) for name in ALL_HONEST}


def faults_table(lines: list[Line]) -> str:
    head = "| fault | log | caught | refused | warned |\n|---|---|---:|---:|---:|\n"
    return head + "".join(
        f"| {line.fault} | {line.log} | {line.caught} of {line.trials} | {line.refused} | {line.warned} |\n"
        for line in lines
    )


def honest_table(alarms: dict[str, list[str]], honest: int) -> str:
    head = "| log without a fault | logs | false alarms |\n|---|---:|---:|\n"
    return head + "".join(f"| {name} | {honest} | {len(found)} |\n" for name, found in alarms.items())


def page(lines: list[Line], alarms: dict[str, list[str]], seeds: int, honest: int) -> str:
    return f"""# Faulty logs

Generated from one run of

```sh
python experiments/corruptions.py --page out/corruptions.md  # part of make experiments
```

Each fault was put into {seeds} seeded logs of each kind, and each log was inspected as `make_problem` does it. *Refused* means
that no interval is given; *warned*, that the warning stands at the top of the answer. The rules are on the page
logs and policies.

The logs: *cart-pole* has continuous states and starts; *few starts* has continuous states and starts at a few points; *table*
and *grid* have a few discrete states. All are episodes that are cut after 20 or 25 steps, some end before. A fault that a log
cannot have has no line: discrete states stay where they are, and come back.

{faults_table(lines)}
Logs without a fault must be left in peace, also where episodes start at one state, last one step, repeat themselves because
a policy has settled down, or have neither episode ids nor timesteps. In *learns* and *good after bad* a point is driven to the
origin by a behavior that becomes better, slowly or at once, so that rewards change by large factors: that these drift is no false
alarm, and is not counted. Other worlds have no chance
in them, so that states come back; or their states wait.

{honest_table(alarms, honest)}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--honest", type=int, default=200)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    lines, alarms = run(options.seeds, options.honest)
    print(faults_table(lines))
    print(honest_table(alarms, options.honest))
    if options.page is not None:
        options.page.write_text(page(lines, alarms, options.seeds, options.honest), encoding="utf-8")
    missed = [line for line in lines if line.caught < line.trials]
    return 1 if missed or any(alarms.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
