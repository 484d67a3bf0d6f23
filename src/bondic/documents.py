"""JSON that may come from others: bounded in bytes and in depth before anything is built of it."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

from bondic.core.errors import InvalidInput, one_line

MAX_BYTES = 64 * 2**20
"""Of a whole file; Python needs up to thirty times as much to hold it."""
MAX_DEPTH = 64
"""Brackets inside of brackets. Whatever walks through deeper values would run out of stack somewhere."""
_MOST_DIGITS = 41
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """What the text says; ValueError where it is not JSON, or too deep."""
    data = text.encode() if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _too_deep(data):
        raise InvalidInput(f"brackets stand more than {MAX_DEPTH} deep")
    return json.loads(data.decode("utf-8-sig"), **hooks)


def _too_deep(data: bytes) -> bool:
    """Whether so many brackets are open at once, those inside of texts not counted."""
    outside = b"".join(data.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
    steps = (1 if bracket in b"[{" else -1 for bracket in outside.translate(None, _NO_BRACKETS))
    return any(depth > MAX_DEPTH for depth in accumulate(steps))


def read_json(path: Path, most_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The named values of a file; InvalidInput where it holds anything else, OSError where it cannot be read."""
    refuse_devices(path)
    size = path.stat().st_size
    if size > most_bytes:
        raise InvalidInput(f"{path} is too large ({size} bytes; at most {most_bytes} are read).")
    try:
        found = parse_json(path.read_bytes(), object_pairs_hook=_once, parse_int=_whole_number)
    except ValueError as problem:
        raise damaged(path, problem) from problem
    if type(found) is not dict:
        raise damaged(path, "it is not a list of named values")
    return found


def damaged(path: Path, problem: object) -> InvalidInput:
    """The error for a file that is not what was written."""
    words = f"no value {problem}" if isinstance(problem, KeyError) else problem
    return InvalidInput(f"{path} is damaged ({one_line(words, 200)}). Take it from a copy, or have it written anew.")


def refuse_devices(path: Path) -> None:
    """Reading a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise InvalidInput(f"{path.name} is not a plain file.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two values of one name, different readers would take different ones."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidInput("it holds two values of the same name")
    return found


def _whole_number(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise InvalidInput(f"it holds a whole number of {len(digits)} digits")
    return int(digits)
