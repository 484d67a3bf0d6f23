"""Tutorials as notebooks: text, code and what it prints come from the pages, so there is one source.

    python scripts/make_notebooks.py    # writes notebooks/*.ipynb from docs/tutorials/*.md

A block that a page writes to a file becomes `%%writefile`, a session becomes commands after `!`. Outputs are those of the page,
which tests compare with what the code prints.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from pages import FENCE, Block, commands  # noqa: E402

PAGES = ("clicks-and-prices", "short-episodes", "language-model-logs", "reinforcement-learning")
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def notebook(page: Path) -> dict[str, Any]:
    """The page as a notebook of format 4."""
    cells: list[dict[str, Any]] = []
    text = page.read_text()
    place = 0
    for match in FENCE.finditer(text):
        _say(cells, text[place : match.start()], page)
        _run(cells, Block(*(group or "" for group in match.groups())))
        place = match.end()
    _say(cells, text[place:], page)
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    return {"cells": cells, "metadata": {"kernelspec": _KERNEL}, "nbformat": 4, "nbformat_minor": 5}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _say(cells: list[dict[str, Any]], text: str, page: Path) -> None:
    """Links lead from the notebook's folder to the pages."""
    if not text.strip():
        return

    def moved(found: re.Match[str]) -> str:
        target = (page.parent / found.group(1)).resolve().relative_to(ROOT)
        return f"](../{target}{found.group(2)})"

    shown = re.sub(r"\]\((?!https?:)([^)#\s]+)([^)]*)\)", moved, text.strip())
    cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(shown)})


def _run(cells: list[dict[str, Any]], block: Block) -> None:
    if block.kind == "text" and cells[-1]["cell_type"] == "code":
        cells[-1]["outputs"] = [_printed(block.text)]
    elif block.title:
        cells.append(_code(f"%%writefile {block.title}\n{block.text}"))
    elif block.kind == "python":
        cells.append(_code(block.text))
    elif block.session:
        for command, shown in commands(block.text):
            cells.append(_code(f"!{command}"))
            cells[-1]["outputs"] = [_printed(shown)] if shown.strip() else []
    else:
        raise ValueError(f"a notebook has no cell for a block of {block.kind!r}")


def _code(text: str) -> dict[str, Any]:
    source = _lines(text.rstrip("\n"))
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def _printed(text: str) -> dict[str, Any]:
    return {"name": "stdout", "output_type": "stream", "text": _lines(text)}


def main() -> None:
    folder = ROOT / "notebooks"
    folder.mkdir(exist_ok=True)
    for name in PAGES:
        made = json.dumps(notebook(ROOT / "docs" / "tutorials" / f"{name}.md"), indent=1, ensure_ascii=False)
        (folder / f"{name}.ipynb").write_text(made + "\n")


if __name__ == "__main__":
    main()
