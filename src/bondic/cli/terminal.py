"""Where commands print."""

from __future__ import annotations

import re
from typing import Any

from rich.console import Console

_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$", re.MULTILINE)
"""Spaces before the end of a line, and codes that end a color."""


class Terminal(Console):
    """A console that pads no line with spaces at its end."""

    def print(self, *objects: Any, **options: Any) -> None:
        """As every console does it."""
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write(_PADDING.sub(r"\1", captured.get()))
        self.file.flush()
