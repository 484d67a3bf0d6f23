"""(log, policy, d_0, gamma, reward range) -> columns (`core.columns`): what everything above sees."""

from typing import Any

from bondic.core.terms import Terms
from bondic.rows.rows import Rows

__all__ = ["Rows", "Terms", "make_rows"]


def __getattr__(name: str) -> Any:
    """`make_rows` is loaded when it is needed: most readers want the type alone."""
    if name == "make_rows":
        from bondic.rows.make import make_rows

        return make_rows
    raise AttributeError(name)
