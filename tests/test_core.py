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
    lines, code = script("core_size").totals(script("core_size").core_size())
    quoted = re.search(r"([\d ]+) lines, ([\d ]+) of them code", (ROOT / "README.md").read_text())
    assert quoted, "README says how long the core is"
    assert [int(number.replace(" ", "")) for number in quoted.groups()] == [lines, code], "make core-size"


def test_the_core_loads_numpy_alone():
    code = "import json, sys; import bondic.core, bondic.core.verify; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    loaded = json.loads(done.stdout)
    assert not [name for name in HEAVY if name in loaded]
    ours = [name for name in loaded if name.startswith("bondic") and not name.startswith("bondic.core")]
    assert ours == ["bondic", "bondic._version", "bondic.errors"]
    assert "numpy" in loaded
