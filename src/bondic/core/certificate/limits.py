"""What a certificate of unknown origin may ask of the machine that checks it.

Every limit is far above what the library writes, and is looked at before the thing it limits is built.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import VerificationError, one_line

MOST_TEXT_BYTES = 4 * 2**20
"""The JSON file; Python needs up to thirty times as much to hold it."""
MOST_ARRAY_BYTES = 256 * 2**20
"""All arrays together, unpacked; `load_certificate(..., most_bytes=)` for the answers of a policy at millions of states."""
MOST_MEMBERS = 4096
MOST_DEPTH = 40
MOST_VALUES = 100_000
MOST_DIGITS = 40
MOST_LEAVES = 128
MOST_FUNCTIONS = 256
MOST_DRAWS = 4096
LONGEST_STRING = 100_000

DTYPES = ("f8", "f4", "i8", "b1")

DAMAGED = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
    ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading and evaluating a damaged certificate can raise; RecursionError is a RuntimeError."""


def clean_text(text: Any, longest: int = 4000) -> str:
    """One line of printable characters: a note with escape codes could rewrite the screen, and the interval on it."""
    return one_line(text, longest)


def refuse(condition: bool, message: str) -> None:
    """Foreign text may be part of the message."""
    if condition:
        raise VerificationError(clean_text(message, 600))


def check_values(body: Any) -> None:
    """Depth, number, length and type of all values: strings that can be printed, whole numbers of normal size."""
    stack, seen = [(body, 1)], 0
    while stack:
        value, depth = stack.pop()
        seen += 1
        refuse(depth > MOST_DEPTH, f"The certificate is nested more than {MOST_DEPTH} deep.")
        refuse(seen > MOST_VALUES, f"The certificate holds more than {MOST_VALUES} values.")
        if isinstance(value, dict):
            stack += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list):
            stack += [(part, depth + 1) for part in value]
        elif isinstance(value, str):
            _check_string(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            refuse(abs(value) >= 10**MOST_DIGITS, f"The certificate holds a whole number of over {MOST_DIGITS} digits.")
        else:
            refuse(not (value is None or isinstance(value, bool | float)), f"The certificate holds a {type(value)}.")


def _check_string(text: str) -> None:
    refuse(len(text) > LONGEST_STRING, f"The certificate holds a text of {len(text)} characters.")
    refuse(not text.isprintable(), f"The certificate holds text that cannot be printed (control characters): {text}")


def check_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Plain finite numbers of the types that certificates are written with."""
    refuse(len(arrays) > MOST_MEMBERS, f"The certificate holds more than {MOST_MEMBERS} arrays.")
    for name, array in arrays.items():
        _check_string(name)
        known = isinstance(array, np.ndarray) and array.dtype.str[1:] in DTYPES
        refuse(not known, f"The array {name} is of type {getattr(array, 'dtype', type(array))}, not of {DTYPES}.")
        refuse(not np.all(np.isfinite(array)), f"The array {name} holds a number that is not finite.")


_BRANCHES = ("sum", "product", "scaled")


def check_counts(body: Any) -> None:
    """Parts of kernels and number of functions, before any of them is built."""
    functions = sum("function" in node for node in _objects(body))
    refuse(functions > MOST_FUNCTIONS, f"The certificate holds {functions} functions, more than {MOST_FUNCTIONS}.")
    for node in _objects(body):
        if node.get("kernel") in _BRANCHES:
            leaves = sum(
                isinstance(part.get("kernel"), str) and part["kernel"] not in _BRANCHES for part in _objects(node)
            )
            refuse(leaves > MOST_LEAVES, f"A kernel of the certificate has {leaves} parts, more than {MOST_LEAVES}.")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack += node.values()
        elif isinstance(node, list):
            stack += node


_FREE_PAIRS, _PAIRS_PER_PAIR = 4e9, 1000.0
"""Some seconds of work for anybody; beyond, a multiple of what the pairs of the log's own rows cost."""


def check_workload(pairs: float, points_per_row: int, log_rows: int, slots: int) -> None:
    """The certificate must not decide how long its sums take: `pairs` is what they would run over."""
    own = float(points_per_row * log_rows)
    allowed = _FREE_PAIRS + _PAIRS_PER_PAIR * own * own * max(slots, 1)
    refuse(
        pairs > allowed,
        f"Evaluating this certificate would take about {pairs:.2g} pairs of points, and {allowed:.2g} are allowed for a log of "
        f"{log_rows} rows: it holds too many centers, starts or terms of kernels.",
    )
