"""Numbers in the output that pages show, after an interval has moved: `python scripts/refresh_pages.py docs/tool.md ...`.

A page is followed as `tests/test_docs.py` does it. Where what is printed differs from what is shown, a shown line is replaced by
the printed line that differs from it in numbers alone; `...` and `…` stay. What else has changed is left for a person: the
tests name it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import pages  # noqa: E402  # the tests are no package


def skeleton(line: str) -> str:
    """The line without its numbers, and without what aligns them."""
    return re.sub(r"[-\d.,e+\s━─╇┃│]+", " ", line).strip()


def refreshed(shown: str, printed: str) -> str:
    """What the page should show."""
    fresh = [line.rstrip() for line in printed.rstrip().splitlines()]
    out, place = [], 0
    for line in shown.splitlines():
        near = [k for k in range(place, len(fresh)) if skeleton(fresh[k]) == skeleton(line)]
        kept = line.strip() in ("", "...") or not near
        out.append(line if kept else fresh[near[0]])
        place = place if kept else near[0] + 1
    return "".join(f"{line}\n" for line in out)


def refresh(page: Path) -> int:
    """Follow the page, and write it again with other numbers; how many outputs have changed."""
    changed: list[tuple[str, str]] = []
    compare = pages.shows

    def note(shown: str, printed: str) -> bool:
        if not compare(shown, printed):
            changed.append((shown, refreshed(shown, printed)))
        return True

    pages.shows = note
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            pages.Reader(page, Path(folder)).follow()
            os.chdir(ROOT)
    finally:
        pages.shows = compare
    text = page.read_text()
    for old, new in changed:
        text = text.replace(old, new, 1)
    page.write_text(text)
    return len(changed)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(f"{name}: {refresh(ROOT / name)} outputs")
