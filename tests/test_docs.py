"""Every code block of README and docs runs, and shows what it really prints."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import yaml

import bondic
import bondic_lab
from bondic.cli.main import group
from pages import FILES, SHELL, Reader, blocks, commands, shows
from test_ways_in import ask

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BESIDE = [
    *sorted((ROOT / "src").rglob("README.md")),
    ROOT / "benchmarks" / "README.md",
    ROOT / "experiments" / "reproduction" / "README.md",
]
"""What stands beside its sources runs like a page."""
WORDS = 40_000
"""Of all pages."""


def running(pages: list[Path]) -> list[object]:
    chosen = [page for page in pages if any(b.kind == "python" or b.session for b in blocks(page))]
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in chosen]


@pytest.mark.parametrize("page", running([*PAGES, *BESIDE]))
def test_blocks_run_and_print_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Reader(page, tmp_path).follow()


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_exist_and_links_lead_somewhere(page):
    text = page.read_text()
    for block in blocks(page):
        known = block.kind in {"python", "text", "mermaid", ""} | SHELL or block.title
        assert known, f"a {block.kind!r} block in {page.name} is not executed"
        if block.kind in SHELL:
            lines = [command for command, _ in commands(block.text)] if block.session else block.text.splitlines()
            for line in lines:
                check_command(line)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_file_that_is_named_exists(page):
    for name in re.findall(r"`((?:[\w.]+/)+[\w]+\.py)`", page.read_text()):
        places = [ROOT / name, *(ROOT / "src" / package / name for package in ("", "bondic", "bondic_lab"))]
        assert any(place.exists() for place in places), f"{page.name} names {name}"


def check_command(line: str) -> None:
    """`make X` must be a target (dry run); `python script` must exist; `bondic X` must be a command."""
    words = line.split("#")[0].replace("$ ", "").split()
    if not words:
        return
    if words[0] == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    elif words[0] == "bondic":
        assert group.get_command(None, words[1]) is not None, line
    elif words[0].startswith("python"):
        assert (ROOT / words[1]).exists(), line
    elif words[0] in FILES or line == "echo $?":
        return  # run with the page
    else:
        raise AssertionError(f"a command that no test can check: {line}")


# --- the site -----------------------------------------------------------------------------------------


FRONT = 13
"""Pages in front: twelve to use it, and the evidence."""


def _leaves(nav):
    for entry in nav:
        for item in [entry] if isinstance(entry, str) else entry.values():
            yield from [item] if isinstance(item, str) else _leaves(item)


def test_the_site_leads_to_every_page_and_loads_nothing_from_elsewhere():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    listed = list(_leaves(settings["nav"]))
    assert sorted(listed) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))
    assert sum(isinstance(item, str) for entry in settings["nav"] for item in entry.values()) == FRONT
    assert settings["theme"]["font"] is False
    assert not {"extra_javascript", "extra_css"} & set(settings)


def test_pages_stay_short():
    assert sum(len(page.read_text().split()) for page in PAGES) <= WORDS


def _described():
    """Every object that a page of the reference describes, by its path."""
    text = "".join(page.read_text() for page in sorted((DOCS / "reference").glob("*.md")))
    return re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE)


def test_every_public_name_is_in_the_reference():
    objects = []
    for path in _described():
        module, _, name = path.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        assert found.__doc__, f"{path} has no docstring"
        objects.append(found)
    public = [getattr(package, name) for package in (bondic, bondic_lab) for name in package._HOMES]
    assert [one for one in public if not any(one is found for found in objects)] == []
    assert len(_described()) == len(set(_described()))


def test_the_overview_of_the_reference_names_what_can_be_imported():
    table = (DOCS / "reference" / "index.md").read_text().partition("| page |")[2]
    assert set(re.findall(r"`(\w+)`", table)) == {*bondic._HOMES, *bondic_lab._HOMES}


def test_pictures_are_small_and_each_has_its_place():
    shown = set()
    for page in PAGES:
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", page.read_text()):
            assert words, f"{target} in {page.name} has no words for those who cannot see it"
            shown.add((page.parent / target).resolve())
    pictures = {path.resolve() for path in (DOCS / "images").rglob("*.*")}
    assert shown == pictures
    assert all(path.stat().st_size < 200_000 for path in pictures)


# --- files that docs/report.md shows are not run with the page: here they are, with stand-ins for what they import ------


def shown(title):
    (found,) = (block.text for block in blocks(DOCS / "report.md") if block.title == title)
    return found


@pytest.fixture(scope="module")
def result():
    return ask()


def test_mlflow_is_given_numbers_words_and_a_folder(result, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    recorded = MagicMock()
    monkeypatch.setitem(sys.modules, "mlflow", recorded)
    exec(shown("to_mlflow.py"), {"result": result})
    (metrics,), (words,) = recorded.log_metrics.call_args.args, recorded.log_params.call_args.args
    assert metrics == {"low": result.low, "high": result.high, "estimate": result.estimate}
    assert words["guarantee"] == "finite-sample"
    assert (Path(recorded.log_artifacts.call_args.args[0]) / "certificate.json").is_file()


def test_weights_and_biases_is_given_the_same(result, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = MagicMock()
    run.__enter__.return_value = run
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=lambda **_: run))
    exec(shown("to_wandb.py"), {"result": result})
    assert run.log.call_args.args[0]["low"] == result.low
    assert run.summary.update.call_args.args[0]["alpha"] == 0.1
    assert (Path(run.log_artifact.call_args.args[0]) / "result.json").is_file()


def test_the_workflow_is_one_and_its_command_is_understood():
    steps = yaml.safe_load(shown("policy.yml"))["jobs"]["evaluate"]["steps"]
    (line,) = (step["run"] for step in steps if step.get("run", "").startswith("bondic"))
    words = shlex.split(line)
    command = group.get_command(None, words[1])
    parsed = command.make_context("evaluate", words[2:]).params
    assert parsed["require"] == ("4",)
    assert parsed["also"] == ("markdown",)
    assert all(set(step) & {"uses", "run"} for step in steps)


# --- the tests of these tests -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "printed", "agrees"),
    [
        ("a\nb\n", "a  \nb\n\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("took … s\n", "took 3.1 s\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n...\nd\n", "a\nb\n", False),
        ("1.5\n", "1x5\n", False),
    ],
)
def test_shown_output_is_compared(shown, printed, agrees):
    assert shows(shown, printed) is agrees


@pytest.mark.parametrize(
    "text",
    [
        "```python\nprint(1)\n```\n\n```text\n2\n```\n",
        "```python\nprint(1)\n```\n",
        "```console\n$ bondic --version\nbondic, version 99\n```\n",
        "```console\n$ bondic check nothing.csv\n...\n```\n",  # the exit code is not shown
        "```console\n$ cat missing\n...\n$ echo $?\n0\n```\n",
        "```console\n$ rm -r x\n```\n",
    ],
)
def test_a_page_that_is_wrong_is_noticed(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError):
        Reader(page, tmp_path).follow()


def test_files_commands_and_code_share_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        '```python title="rule.py"\nlimit = 3\n```\n\n```python\nfrom pathlib import Path\n'
        'assert Path("rule.py").read_text() == "limit = 3\\n"\nPath("new.txt").write_text("hello\\n")\n```\n\n'
        "```console\n$ cat new.txt\nhello\n$ bondic check \\\n>     nothing.csv\nerror: …\n$ echo $?\n2\n```\n"
    )
    Reader(page, tmp_path).follow()
