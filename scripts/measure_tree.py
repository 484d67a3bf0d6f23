"""The shape of a source tree in figures: how much there is, what verifying reaches and runs, how deep imports go.

    python scripts/measure_tree.py src                  the tree beside this script
    python scripts/measure_tree.py src ../other/src     several trees, side by side
    python scripts/measure_tree.py src --json           with the chain, the packages and the modules by name

Imports are read from the sources: those inside functions are counted apart, and what is imported by its name at run time
(public names, commands, engines) is not seen. What runs and what is loaded is measured in fresh processes. Compiled
lines do not show among those executed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

PACKAGE = "bondic"
VERIFY = ("bondic.core.verify", "bondic.proofs.verify")  # its place now, and before the core had a package of its own
COUNTED = (
    "edges between packages", "imports across packages", "imports of vocabulary", "named constants", "isinstance on own types",
    "public names", "options of evaluate",
)  # fmt: skip
WATCHED = ("numba", "scipy", "rich", "pyarrow")


# --- sources ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Import:
    """One import of our own: the module, the names fetched from it, and whether it waits inside a function."""

    target: str
    names: tuple[str, ...]
    lazy: bool


@dataclass
class Module:
    """One file: its syntax tree and its imports."""

    name: str
    lines: int
    tree: ast.Module
    imports: list[Import] = field(default_factory=list)

    @property
    def package(self) -> str:
        return self.name.split(".")[1] if "." in self.name else self.name


def read_modules(src: Path) -> dict[str, Module]:
    """Every module of the library by its name, with imports resolved to modules."""
    found: dict[str, Module] = {}
    for path in sorted((src / PACKAGE).rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, text.count("\n"), ast.parse(text))
    for module in found.values():
        module.imports = [item for node, lazy in _statements(module.tree) for item in _resolve(node, lazy, found)]
    return found


def _statements(node: ast.AST, lazy: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, lazy
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _statements(child, lazy or isinstance(child, ast.FunctionDef))


def _resolve(node: ast.Import | ast.ImportFrom, lazy: bool, modules: dict[str, Module]) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(item.name, (), lazy) for item in node.names if item.name in modules)
        return
    names = [item.name for item in node.names]
    inside = [name for name in names if f"{node.module}.{name}" in modules]
    yield from (Import(f"{node.module}.{name}", (), lazy) for name in inside)
    if node.module in modules and len(inside) < len(names):
        yield Import(node.module, tuple(name for name in names if name not in inside), lazy)


def loaded_by(modules: dict[str, Module], start: str, *, lazy: bool) -> set[str]:
    """Modules that importing `start` loads, packages included; with `lazy` also what its functions import later."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in modules:
            continue
        seen.add(name)
        parts = name.split(".")
        waiting += [".".join(parts[:depth]) for depth in range(1, len(parts))]
        waiting += [item.target for item in modules[name].imports if lazy or not item.lazy]
    return seen


def longest_chain(modules: dict[str, Module]) -> list[str]:
    """The longest path of imports; a circle raises CycleError with its modules."""
    graph = {name: {item.target for item in module.imports if not item.lazy} for name, module in modules.items()}
    longest: dict[str, list[str]] = {}
    for name in TopologicalSorter(graph).static_order():
        below = max((longest[target] for target in sorted(graph[name])), key=len, default=[])
        longest[name] = [name, *below]
    return max(longest.values(), key=len)


def vocabulary(modules: dict[str, Module]) -> int:
    """Imports across packages that fetch nothing but constants, aliases and classes that are never built there. Rough."""
    count = 0
    for module in modules.values():
        used = {_called(node) for node in ast.walk(module.tree) if isinstance(node, ast.Call)}
        for item in module.imports:
            if not item.names or modules[item.target].package == module.package:
                continue
            count += all(name not in used and _is_word(modules, item.target, name) for name in item.names)
    return count


def _called(node: ast.Call) -> str:
    """`Ball` of Ball(...) and of Ball.exact(...)."""
    return ast.unparse(node.func).split(".")[0]


def _is_word(modules: dict[str, Module], home: str, name: str) -> bool:
    """Whether a name of a module is a class or a value, there or where the module has it from; not a function."""
    for node in modules[home].tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return True
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return True
    source = next((item.target for item in modules[home].imports if name in item.names), None)
    return source is not None and _is_word(modules, source, name)


# --- what runs --------------------------------------------------------------------------------------------------------

MAKE = """
import numpy as np, bondic
rng = np.random.default_rng(0)
states = rng.normal(size=(300, 2)); actions = rng.integers(0, 2, 300)
rewards = np.tanh(states[:, 0]) * actions; after = 0.7 * states + 0.1 * rng.normal(size=(300, 2))
log = bondic.Transitions(states, actions, rewards, after, rng.random(300) < 0.05)
policy = bondic.CallablePolicy(lambda s: np.full((len(s), 2), 0.5))
start = bondic.InitialStates.exact(rng.normal(size=(6, 2)))
result = bondic.evaluate_policy(log, policy, initial=start, gamma=0.5, reward_range=(-1, 1))
bondic.save_certificate(result.certificate, "certificate")
np.savez("log.npz", **{name: column for name, column in log.columns().items() if column is not None})
"""
LOADED = """
print(json.dumps(sorted(sys.modules)))
"""
COMMAND = """
import json, sys
from bondic.cli.main import main
sys.argv = ["bondic", *WORDS]
try:
    main()
except SystemExit as stop:
    assert stop.code in (0, 7), stop.code  # 7: verified without the policy
"""
TRACE = """
import json, sys
import bondic
from bondic.data.io.read import read_log
certificate, log = bondic.load_certificate("certificate.json"), read_log("log.npz").transitions
bondic.verify(certificate, log)  # loads and compiles
lines = set()
def look(frame, event, argument):
    if "/bondic/" not in frame.f_code.co_filename:
        return None
    if event == "line":
        lines.add((frame.f_code.co_filename.rpartition("/bondic/")[2], frame.f_lineno))
    return look
log = read_log("log.npz").transitions
sys.settrace(look)
bondic.verify(certificate, log)
sys.settrace(None)
print(json.dumps(sorted(lines)))
"""


def _last_line(script: str, src: Path, place: Path) -> Any:
    """What a script printed last, run on the tree in a fresh process."""
    env = os.environ | {"PYTHONPATH": str(src), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=place, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{src}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _loads(script: str, src: Path, place: Path) -> dict[str, Any]:
    names = _last_line(script + LOADED, src, place)
    ours = [name for name in names if name.split(".")[0] == PACKAGE]
    return {"modules": len(ours), "foreign": [name for name in WATCHED if name in names], "names": ours}


def measure_runs(src: Path, verify: str) -> dict[str, Any]:
    """Lines of one verification, and what starting it and reading a log load."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _last_line(MAKE + "print(0)", src, place)
        ran = _last_line(TRACE, src, place)
        words = {
            "bondic verify": ["verify", "certificate.json", "log.npz"],
            "bondic verify with its test of Q": ["verify", "certificate.json", "log.npz"],
            "bondic check": ["check", "log.npz"],
        }
        loads = {"import verify": _loads(f"import json, sys, {verify}\n", src, place)}
        for name, command in words.items():
            loads[name] = _loads(COMMAND.replace("WORDS", repr(command)), src, place)
        return {
            "executed": len(ran),
            "executed by package": _tally(file.split("/")[0] for file, _ in ran),
            "loads": loads,
        }


# --- together ---------------------------------------------------------------------------------------------------------


def _tally(words: Iterable[str]) -> dict[str, int]:
    found = list(words)
    return {word: found.count(word) for word in sorted(set(found))}


def _lines(folder: Path) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in folder.rglob("*.py"))


def own_types(modules: dict[str, Module]) -> int:
    """`isinstance` on classes that the library defines."""
    own = {node.name for module in modules.values() for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)}
    count = 0
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                count += any(name in own for name in re.findall(r"\w+", ast.unparse(node.args[1])))
    return count


def constants(modules: dict[str, Module]) -> int:
    """Numbers that have a name in capitals at the level of a module."""
    found = 0
    for module in modules.values():
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and re.fullmatch(r"[\d\s.,()eE+*/-]+", ast.unparse(node.value)):
                targets = [ast.unparse(name) for target in node.targets for name in getattr(target, "elts", [target])]
                found += sum(bool(re.fullmatch(r"_?[A-Z][A-Z_0-9]*", name)) for name in targets)
    return found


def public_names(src: Path) -> int:
    tree = ast.parse((src / PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    tables = [node.value for node in tree.body if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)]
    return sum(len(table.keys) for table in tables)


def options_of_evaluate(src: Path) -> int:
    script = "import bondic.cli.main as m, json, click; c = m.group.commands['evaluate']"
    script += "; print(json.dumps(sum(isinstance(p, click.Option) for p in c.params)))"
    with tempfile.TemporaryDirectory() as place:
        return int(_last_line(script, src, Path(place)))


def measure(src: Path) -> dict[str, Any]:
    """All figures of one tree."""
    modules = read_modules(src)
    verify = next(name for name in VERIFY if name in modules)
    eager, late = (loaded_by(modules, verify, lazy=lazy) for lazy in (False, True))
    engines = {name for name in late if ".engines" in name}
    pairs = [(module.package, modules[item.target].package) for module in modules.values() for item in module.imports]
    return {
        "lines": {
            "bondic": _lines(src / PACKAGE),
            "bondic.core": _lines(src / PACKAGE / "core"),
            "bondic_lab": _lines(src / "bondic_lab"),
            "tests": _lines(src.parent / "tests"),
        },
        "verify reaches": {
            "modules": len(eager),
            "lines": sum(modules[name].lines for name in eager),
            "engine modules, whenever loaded": len(engines),
            "engine lines, whenever loaded": sum(modules[name].lines for name in engines),
            "more modules, loaded in functions": len(late - eager),
            "more lines, loaded in functions": sum(modules[name].lines for name in late - eager),
            "names": sorted(eager),
        },
        "runs": measure_runs(src, verify),
        "longest chain": longest_chain(modules),
        "edges between packages": len({(above, below) for above, below in pairs if above != below}),
        "imports across packages": sum(above != below for above, below in pairs),
        "imports of vocabulary": vocabulary(modules),
        "named constants": constants(modules),
        "isinstance on own types": own_types(modules),
        "public names": public_names(src),
        "options of evaluate": options_of_evaluate(src),
    }


def rows(found: dict[str, Any]) -> dict[str, str]:
    """The table's rows for one tree."""
    loads = {
        f"modules loaded: {name}": f"{load['modules']} + {', '.join(load['foreign']) or 'nothing heavy'}"
        for name, load in found["runs"]["loads"].items()
    }
    core = {f"verify reaches: {name}": number for name, number in found["verify reaches"].items() if name != "names"}
    table = {
        **{f"lines of {name}": number for name, number in found["lines"].items()},
        **core,
        "lines executed in one verification": found["runs"]["executed"],
        **loads,
        "longest import chain": len(found["longest chain"]),
        **{name: found[name] for name in COUNTED},
    }
    return {name: str(value) for name, value in table.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("src", nargs="+", type=Path, help="Folder that holds the package.")
    parser.add_argument("--json", action="store_true", help="Everything, as JSON.")
    arguments = parser.parse_args()
    found = {str(src): measure(src.resolve()) for src in arguments.src}
    if arguments.json:
        print(json.dumps(found, indent=1))
        return
    tables = [rows(item) for item in found.values()]
    for name in tables[0]:
        print(f"{name:52}" + "".join(f"{table[name]:>34}" for table in tables))
    for src, item in found.items():
        print(f"\nlongest import chain of {src}: " + " > ".join(item["longest chain"]))


if __name__ == "__main__":
    main()
