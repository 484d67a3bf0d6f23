"""Compiled functions whose cache on disk knows all the sources they are made of.

numba looks at the file of a function, but what is inlined into it lives in other files. Here a cached function is stale as
soon as any source of this package, or numba itself, is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba


@cache
def _stamp() -> tuple[str, str]:
    """Content of all files that compiled code may come from (U is read from `rounding`), and the compiler."""
    here = Path(__file__).parent
    digest = hashlib.blake2b()
    for source in (*sorted(here.glob("*.py")), here.parent / "core/bounded.py"):
        digest.update(f"{source.name} {source.stat().st_size} ".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest(), numba.__version__


def helper(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """A function that is inlined into compiled ones."""
    return numba.njit(nogil=True, **options)  # type: ignore[no-any-return]


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """A function compiled at its first call in this or an earlier process."""
    if function is None:
        return lambda given: compiled(given, **options)
    dispatcher = numba.njit(nogil=True, cache=True, **options)(function)
    stored = dispatcher._cache._cache_file  # where numba compares the stamp of a stored function with that of its file
    assert hasattr(stored, "_source_stamp"), "numba keeps its stamps elsewhere: stale code could be loaded"
    stored._source_stamp = _stamp()
    return dispatcher
