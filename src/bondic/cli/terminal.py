"""Where views print: nothing in them can make a terminal do anything but show it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from bondic.core.errors import printable_lines

_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
"""Spaces before the end of a line, and codes that end a color."""


class PlainConsole(Console):
    """A console whose texts, names of other people among them, hold no code that a terminal would obey."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As every console does it; colors and the moves of a progress bar are no texts."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=_shown(segment.text))


def _shown(text: str) -> str:
    """With as many blanks for a code as the column that it stands in was measured with: often none."""
    return "".join(c if c == printable_lines(c) else " " * cell_len(c) for c in text)


class Terminal(PlainConsole):
    """One that pads no line with spaces at its end either."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As every console does it."""
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(_PADDING.sub(r"\1", captured.get()))
        self.file.flush()
