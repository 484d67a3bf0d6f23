"""docs/notation.md, executed: every file in its tables exists and defines the names that the row gives."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "notation.md"
PLACES = (ROOT / "src" / "bondic", ROOT / "src" / "bondic_lab")


def table_rows():
    """(symbol, API names, files) of every row."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0] != "symbol" and set(cells[0]) != {"-"}:
            yield pytest.param(_names(cells[2]), re.findall(r"`([^`]+)`", cells[4]), id=cells[0])


def _names(cell):
    """`Pinelis(constant)` is a class and an argument; `Result.low` a member; "texts" in quotes are values."""
    return [name for text in re.findall(r"`([^`]+)`", cell) for name in re.findall(r"[A-Za-z_][\w.]*", text)]


def _defined(path):
    """Names and members of classes that a file or the files of a folder define; imports do not count."""
    out = set()
    for file in path.rglob("*.py") if path.is_dir() else [path]:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        out |= _bound(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                out |= {f"{node.name}.{name}" for name in _bound(node)}
    return out


def _bound(tree):
    """Functions, classes, arguments, variables, attributes of self."""
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            out.add(node.name)
        elif isinstance(node, ast.arg):
            out.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            out.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            out.add(node.attr)
    return out


def missing(names, files):
    """What is wrong with a row, in words."""
    paths = [next((place / file for place in PLACES if (place / file).exists()), None) for file in files]
    lost = [file for file, path in zip(files, paths, strict=True) if path is None]
    if lost:
        return f"{lost[0]} is neither in src/bondic nor in src/bondic_lab: name the file that the thing has moved to."
    known = set().union(*map(_defined, paths))
    if unknown := [name for name in names if name not in known]:
        return f"{', '.join(files)} does not define {unknown[0]}: give the name that it has now, or the file that defines it."
    return None


@pytest.mark.parametrize(("names", "files"), list(table_rows()))
def test_every_name_is_defined_in_the_file_of_its_row(names, files):
    assert bool(names) <= bool(files), f"docs/notation.md: {names[0]} has no file in its row."
    assert (fault := missing(names, files)) is None, f"docs/notation.md: {fault}"


def test_a_wrong_row_would_be_seen():
    assert "moved" in missing(["Ball"], ["classes/no_such_file.py"])
    assert "does not define Pinelis" in missing(["Ball", "Pinelis"], ["core/balls.py"])
    assert "does not define Ball.no_such_member" in missing(["Ball.no_such_member"], ["core/balls.py"])
    assert missing(["Ball.radius", "Pinelis"], ["core/balls.py", "core/dual/noise.py"]) is None
    assert len(list(table_rows())) > 40
