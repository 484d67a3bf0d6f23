"""The size of the repository against `budget.toml`: `make size`. It fails where a number is exceeded.

A table of the budget is a measure, its keys are what is measured. What has no number there may not exist. After a change
that leaves less, `python scripts/size.py --lower` writes the smaller numbers.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("src/bondic", "src/bondic_lab", "tests")
Numbers = dict[str, int]


def files(root: Path, folder: str) -> dict[str, int]:
    """Lines of every Python file below a folder, by its path."""
    found = sorted((root / folder).rglob("*.py"))
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8").count("\n") for path in found}


def lines(root: Path) -> Numbers:
    """Of the parts of the repository, and of every package of the library; its own modules are the package "."."""
    found = {part: sum(files(root, part).values()) for part in PARTS}
    for name, count in files(root, PARTS[0]).items():
        package = name.split("/")[2] if name.count("/") > 2 else "."
        key = f"{PARTS[0]}/{package}"
        found[key] = found.get(key, 0) + count
    return found


def largest_file(root: Path) -> Numbers:
    return {part: max(files(root, part).values(), default=0) for part in PARTS}


MEASURES: dict[str, Callable[[Path], Numbers]] = {"lines": lines, "largest_file": largest_file}


def read_budget(root: Path = ROOT) -> dict[str, Numbers]:
    return tomllib.loads((root / "budget.toml").read_text(encoding="utf-8"))


def compare(numbers: Mapping[str, Numbers], budget: Mapping[str, Numbers]) -> tuple[list[str], bool]:
    """A line for every number, and whether one is exceeded."""
    if unknown := budget.keys() - numbers.keys():
        raise SystemExit(f"budget.toml: nothing measures {', '.join(sorted(unknown))}. There are {', '.join(numbers)}.")
    table, over = [], False
    for measure, found in numbers.items():
        allowed = budget.get(measure, {})
        table.append(measure)
        for name in sorted(found.keys() | allowed.keys()):
            number, most = found.get(name, 0), allowed.get(name, 0)
            over |= number > most
            table.append(f"  {name:24} {number:7} / {most:<7}{' exceeded' if number > most else ''}".rstrip())
    return table, over


def lowered(text: str, numbers: Mapping[str, Numbers]) -> str:
    """The budget with smaller numbers where there are some; nothing is raised, and what is gone goes."""
    measure, kept = "", []
    for line in text.splitlines():
        header, entry = re.fullmatch(r"\[(\w+)\]", line), re.fullmatch(r'"(.+)" = (\d+)', line)
        measure = header[1] if header else measure
        if entry is None:
            kept.append(line)
        elif number := numbers[measure].get(entry[1]):
            kept.append(f'"{entry[1]}" = {min(number, int(entry[2]))}')
    return "\n".join(kept) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lower", action="store_true", help="write numbers that are smaller than the budget's into it")
    numbers = {name: measure(ROOT) for name, measure in MEASURES.items()}
    if parser.parse_args().lower:
        path = ROOT / "budget.toml"
        path.write_text(lowered(path.read_text(encoding="utf-8"), numbers), encoding="utf-8")
    table, over = compare(numbers, read_budget())
    print("\n".join(table))
    raise SystemExit(over)


if __name__ == "__main__":
    main()
