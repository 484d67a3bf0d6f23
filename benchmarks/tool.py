"""`bondic evaluate` on a Parquet log of a million rows, with report and certificate: wall time and peak memory.

python benchmarks/tool.py                        writes the parts, then evaluates them
python benchmarks/tool.py --rows 100000 --keep DIR
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import describe
from streaming import model, write

POLICY = """
import bondic
from bondic_lab.worlds.synthetic import SyntheticMDP

policy = bondic.CallablePolicy(SyntheticMDP.default(0.9, seed=1, dimension=4).target_probs)
"""


def evaluate(folder: Path, parts: Path) -> dict[str, float | str]:
    """The command as a user would type it, in a process of its own."""
    mdp = model()
    (folder / "rules.py").write_text(POLICY)
    columns = [f"observations_{axis}" for axis in range(mdp.initial_states.shape[1])]
    table = np.column_stack([mdp.initial_states, mdp.initial_probs])
    np.savetxt(folder / "starts.csv", table, delimiter=",", header=",".join([*columns, "weight"]), comments="")
    low, high = mdp.reward_range
    command = [
        *(
            sys.executable,
            "-m",
            "bondic",
            "evaluate",
            str(parts),
            "--method",
            "dual",
            "--policy",
            "rules.py:policy",
            "--gamma",
            "0.9",
        ),
        *("--reward-range", repr(low), repr(high), "--initial", "starts.csv", "--out", "result", "--quiet"),
    ]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 4):
        raise SystemExit(done.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = json.loads((folder / "result" / "result.json").read_text())
    return {
        "seconds": round(seconds, 1),
        "processor s": round(used.ru_utime + used.ru_stime, 1),
        **{f"{stage} s": round(value, 1) for stage, value in result["seconds"].items()},
        "peak GB": round(used.ru_maxrss * 1024 / 1e9, 3),
        "report MB": round((folder / "result" / "report.html").stat().st_size / 1e6, 3),
        "answer": done.stdout.strip(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, default=None)
    args = parser.parse_args()
    print(json.dumps(describe()))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        parts = folder / "log" if args.keep is None else args.keep.absolute()
        os.makedirs(parts, exist_ok=True)
        write(parts, args.rows)
        print(json.dumps({"rows": args.rows, **evaluate(folder, parts)}))


if __name__ == "__main__":
    main()
