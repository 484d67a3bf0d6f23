"""Plans and their ends on small logs of every kind, in `tests/fixed_ends.json`; `tests/test_fixed_ends.py` compares.

Entries that are there stay as they are. `--kind NAME` plans those of one kind again, and shows how far their ends moved; with
`--same-plans` the plans stay, and the ends are those that they have now (another formula for the same plan):

    python scripts/fixed_ends.py --kind population
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from fixed_logs import CASES, KINDS, Case, read_plan, write_plan  # noqa: E402

ENDS = TESTS / "fixed_ends.json"


def entry(case: Case, plan: dict[str, Any] | None = None) -> dict[str, Any]:
    """A plan, a new one unless it is passed, and its ends as they come out of what is stored."""
    plan, problems = write_plan(case.plan()) if plan is None else plan, case.problems()
    proof = read_plan(plan, problems)
    ends, limits = case.ends(proof, problems), case.limits(problems)
    if not any(limits[0] < low < high < limits[1] for low, high in ends.values()):
        raise SystemExit(f"{case.kind}: {case.name}: {ends} within {limits}. Choose a log that says something.")
    return {"kind": case.kind, "alpha": proof.budget.alpha, "range": limits, "ends": ends, "plan": plan}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, help="the kind of entries that are planned again")
    parser.add_argument(
        "--same-plans", action="store_true", help="keep their plans, and write the ends that they have now"
    )
    options = parser.parse_args()
    before = json.loads(ENDS.read_text(encoding="utf-8")) if ENDS.exists() else {}
    after = {}
    for name, case in CASES.items():
        old = before.get(name)
        if old is None or case.kind == options.kind:
            after[name] = entry(case, old["plan"] if old and options.same_plans else None)
        else:
            after[name] = old
        if after[name] != old:
            was = "" if old is None else f", was {old['ends']}"
            print(f"{name}: {after[name]['ends']} in {after[name]['range']}{was}", flush=True)
    lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in after.items())
    ENDS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
