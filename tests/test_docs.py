"""Every code block of README and docs runs, and shows what it really prints."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = {"console", "bash", "sh", "shell"}


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(match.group(1), match.group(2)) for match in BLOCK.finditer(page.read_text())]


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(kind == "python" for kind, _ in blocks(p))], ids=lambda p: p.name
)
def test_python_blocks_run_and_print_what_the_page_says(page):
    names: dict[str, object] = {"__name__": "__docs__"}
    found = blocks(page)
    for index, (kind, code) in enumerate(found):
        if kind != "python":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{page.name} block {index}", "exec"), names)
        following = found[index + 1] if index + 1 < len(found) else ("", "")
        if printed.getvalue():
            assert following[0] == "text", f"block {index} of {page.name} prints, but the page does not show it"
            assert printed.getvalue().strip() == following[1].strip()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_exist_and_links_lead_somewhere(page):
    text = page.read_text()
    for kind, code in blocks(page):
        assert kind in {"python", "text", "mermaid", ""} | SHELL, f"a {kind!r} block in {page.name} is not executed"
        if kind in SHELL:
            for line in code.splitlines():
                check_command(line)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_that_is_named_exists(page):
    for name in re.findall(r"`((?:[\w.]+/)+[\w]+\.py)`", page.read_text()):
        places = [ROOT / name, ROOT / "src" / "bondic" / name]
        assert any(place.exists() for place in places), f"{page.name} names {name}"


def test_the_architecture_page_shows_every_module():
    """The picture of the tree is complete: a newcomer finds any module there."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    modules = (ROOT / "src" / "bondic").rglob("*.py")
    missing = [m.name for m in modules if not m.name.startswith("_") and m.name not in text and m.parent.name != "cli"]
    assert missing == []


def check_command(line: str) -> None:
    """`make X` must be a target (dry run); `python script` must exist; `bondic X` must be a command."""
    words = line.split("#")[0].replace("$ ", "").split()
    if not words:
        return
    if words[0] == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif words[0] == "bondic":
        from bondic.cli.main import group

        assert group.get_command(None, words[1]) is not None, line
    elif words[0].startswith("python"):
        assert (ROOT / words[1]).exists(), line
    else:
        raise AssertionError(f"a command that no test can check: {line}")
