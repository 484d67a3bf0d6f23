"""Pages of documentation as programs: python blocks, files, and commands with the output that they show.

    ```python                     is run; what it prints must be the ```text block after it
    ```python title="rules.py"    is written to that file (any language)
    ```console                    lines with `$ ` are run in the page's folder; the lines below each are its output

In shown output a line `...` stands for any lines, and … for any characters (with the blanks around it). All blocks of a
page share one folder and one namespace. `echo $?` prints the exit code of the command before it; a code other than 0 has
to be shown that way. `head -3 a.csv > b.csv` writes a file.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

FENCE = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SHELL = {"console", "bash", "sh", "shell"}
FILES = {"cat", "head", "ls", "wc"}


@dataclass(frozen=True)
class Block:
    kind: str
    title: str
    text: str

    @property
    def session(self) -> bool:
        """Commands with a prompt are run; without one they are only looked up."""
        return self.kind in SHELL and self.text.startswith("$ ")


def blocks(page: Path) -> list[Block]:
    return [Block(*(group or "" for group in match.groups())) for match in FENCE.finditer(page.read_text())]


def commands(text: str) -> list[tuple[str, str]]:
    """(command, shown output) for every line with a prompt; a command goes on after a backslash."""
    joined = re.sub(r"\\\n> *", "", text)
    parts = re.split(r"^\$ (.*)\n", joined, flags=re.MULTILINE)
    assert not parts[0].strip(), "a session starts with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def shows(shown: str, printed: str) -> bool:
    """Whether a page may show `shown` where `printed` was printed."""
    pattern = []
    for line in shown.rstrip().splitlines():
        if line.strip() == "...":
            pattern.append(r"(?:.*\n)*?")
        else:
            pattern.append("[^\n]*".join(map(re.escape, re.split(" *… *", line.rstrip()))) + "\n")
    lines = "".join(line.rstrip() + "\n" for line in printed.rstrip().splitlines())
    return re.fullmatch("".join(pattern), lines) is not None


@dataclass
class Reader:
    """Works through a page from top to bottom, as a reader would."""

    page: Path
    folder: Path
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "__docs__"})
    code: int = 0

    def follow(self) -> None:
        found = blocks(self.page)
        for index, block in enumerate(found):
            following = found[index + 1] if index + 1 < len(found) else Block("", "", "")
            if block.title:
                (self.folder / block.title).write_text(block.text)
            elif block.kind == "python":
                self._python(index, block, following)
            elif block.session:
                self._session(block)

    def _python(self, index: int, block: Block, following: Block) -> None:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, f"{self.page.name} block {index}", "exec", dont_inherit=True), self.names)
        if printed.getvalue():
            assert following.kind == "text", f"block {index} of {self.page.name} prints, but the page does not show it"
            shown = following.text
            assert shows(shown, printed.getvalue()), f"{self.page.name}\n{printed.getvalue()}\nnot\n{shown}"

    def _session(self, block: Block) -> None:
        for command, shown in commands(block.text):
            if command != "echo $?":  # a failure that the page does not mention would surprise its reader
                assert self.code == 0, f"{self.page.name}: before $ {command} stands exit code {self.code}"
            printed = self._command(command)
            assert shows(shown, printed), f"{self.page.name}: $ {command}\nprints\n{printed}\nnot\n{shown}"
        assert self.code == 0, f"{self.page.name}: a session ends with exit code {self.code}"

    def _command(self, command: str) -> str:
        words = shlex.split(command)
        if command == "echo $?":
            shown, self.code = f"{self.code}\n", 0
            return shown
        if words[0] == "bondic":
            self.code, printed = run_bondic(words[1:])
            return printed
        assert words[0] in FILES, f"a command that no test runs: {command}"
        into = words.pop() if words[-2:-1] == [">"] else ""
        done = subprocess.run(
            words[:-1] if into else words, cwd=self.folder, capture_output=True, text=True, check=False
        )
        self.code = done.returncode
        if into:
            (self.folder / into).write_text(done.stdout)
        return done.stderr if into else done.stdout + done.stderr


def run_bondic(arguments: list[str]) -> tuple[int, str]:
    """Exit code, and stdout and stderr together, of the command line at 80 columns; in this process to save time."""
    from bondic.cli.main import main

    printed = io.StringIO()
    with (
        patch.object(sys, "argv", ["bondic", *arguments]),
        patch.dict("os.environ", {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("default")
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0
    # a slow machine says what is going on
    return code, re.sub(r"^.*, \d+ s so far\n", "", printed.getvalue(), flags=re.MULTILINE)
