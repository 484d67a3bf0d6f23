"""What README promises of the trusted core: its size, and that it stands alone."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("scipy", "numba", "pyarrow", "click", "rich", "matplotlib", "pandas", "sklearn")


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_quotes_the_size_of_the_core():
    quoted = re.search(r"at most ([\d ]+) lines", (ROOT / "README.md").read_text())
    assert quoted, "README says how long the core is"
    assert int(quoted[1].replace(" ", "")) == script("size").read_budget()["lines"]["src/bondic/core"]


def test_a_size_above_its_budget_fails():
    size, found = script("size"), {"lines": {"tests": 5, "src": 3}}
    assert not size.compare(found, {"lines": {"tests": 5, "src": 4, "gone": 1}})[1]
    table, over = size.compare(found, {"lines": {"tests": 4}})
    assert over
    assert table[1:] == [
        "  src                            3 / 0       exceeded",
        "  tests                          5 / 4       exceeded",
    ]
    budget = '# kept\n[lines]\n"tests" = 4\n"src" = 9\n"gone" = 1\n'
    assert size.lowered(budget, found) == '# kept\n[lines]\n"tests" = 4\n"src" = 3\n'


def test_the_core_loads_numpy_alone():
    code = "import json, sys; import bondic.core, bondic.core.verify; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    loaded = json.loads(done.stdout)
    assert not [name for name in HEAVY if name in loaded]
    ours = [name for name in loaded if name.startswith("bondic") and not name.startswith("bondic.core")]
    assert ours == ["bondic", "bondic._version", "bondic.errors"]
    assert "numpy" in loaded
