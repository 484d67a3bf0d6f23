"""Docstrings as they are meant: `q*` and `|x|` are symbols, not Markdown. Loaded by mkdocs.yml when the site is built."""

from __future__ import annotations

import inspect
import re
from typing import Any

from griffe import Extension

from bondic._version import __version__


def on_config(config: Any) -> Any:
    """Called by mkdocs: the site belongs to one version, and says which."""
    config["site_name"] += f" {__version__}"
    return config


_CODE = re.compile(r"(`[^`]*`)")
_SPECIAL = re.compile(r"([*_<>|\[\]#~])")
_PARAMETERS = re.compile(r"^Parameters\n-+\n((?:.+\n?)+)", re.MULTILINE)
_PARAMETER = re.compile(r"^(\w+) : (.*)\n((?:    .*\n?)+)", re.MULTILINE)


def listed(section: re.Match[str]) -> str:
    """Parameters as a list: `name` (type): what it means."""
    return _PARAMETER.sub(lambda m: f"- `{m[1]}` ({m[2]}): {' '.join(m[3].split())}\n", section[1])


def escape(text: str) -> str:
    """Backslashes before whatever Markdown would take for markup, outside `code` and indented formulas."""
    out = []
    for line in _PARAMETERS.sub(listed, inspect.cleandoc(text)).splitlines():
        if line.startswith("    "):
            out.append(line)
            continue
        parts = _CODE.split(line)
        out.append("".join(part if index % 2 else _SPECIAL.sub(r"\\\1", part) for index, part in enumerate(parts)))
    return "\n".join(out)


class PlainDocstrings(Extension):
    """Runs before mkdocstrings renders anything."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = escape(obj.docstring.value)
