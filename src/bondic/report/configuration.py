"""configuration.toml: the options behind a result, in a file that --config reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bondic.data.io.words import UNWRITTEN

CONFIGURATION = "configuration.toml"


def to_toml(values: Mapping[str, Any]) -> str:
    """The effective configuration as a TOML file that --config reads again."""
    return "# the configuration behind the result beside this file; run it again with --config\n" + _lines(values)


def reading_toml(stated: Mapping[str, Any]) -> str:
    """How the log was read, for `bondic verify FOLDER LOG`; what runs code (a policy, pickles) is no part of it."""
    written = {name: value for name, value in stated.items() if name != UNWRITTEN}
    head = "# how the log behind the result beside this file was read; `bondic verify` reads it in the same way\n"
    return (
        head
        + _lines(written)
        + "".join(
            f"# {name} was stated in Python, in a way for which the command line has no words\n"
            for name in stated.get(UNWRITTEN, ())
        )
    )


def _lines(values: Mapping[str, Any]) -> str:
    said = {name: value for name, value in values.items() if value is not None and value != ()}
    return "".join(f"{name.replace('_', '-')} = {_toml(value)}\n" for name, value in said.items())


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(str(value), ensure_ascii=False)
