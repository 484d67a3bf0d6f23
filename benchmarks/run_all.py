"""Every benchmark, one after the other; figures are ratios measured in the same run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SCRIPTS = (
    ["pairs.py", "--quick"],
    ["solvers.py"],
    ["environments.py"],
    ["estimate.py", "--rows", "100000"],
    ["groups.py", "--rows", "10000", "100000"],
    ["large.py", "--rows", "100000", "1000000", "--rivals", "--tool"],
    ["waits.py", "--most", "100000"],
    ["many_actions.py", "--actions", "34", "300"],
    ["decisions.py", "--rows", "100000"],
    ["cluster.py", "--rows", "1000000"],
    ["scale.py", "--rows", "1000000"],
)


def main() -> None:
    for script, *arguments in SCRIPTS:
        print(f"\n== {script} {' '.join(arguments)}", flush=True)
        subprocess.run([sys.executable, str(HERE / script), *arguments], check=True)


if __name__ == "__main__":
    main()
