"""How a plan was made, as plain data for its certificate: the method, its options, and the first row it was shown."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from bondic.rows import Rows

OUTSIDE = ("engine", "candidates", "solver")
"""Options without a part in a plan: how sums are computed, and where an ω comes from, which may have seen every row."""


def describe(name: str, method: Any, problem: Rows) -> dict[str, Any]:
    """What a replay needs besides the log, the policy's answers and alpha (`bondic.methods.replay` reads it)."""
    options = {field.name: getattr(method, field.name) for field in fields(method) if field.name not in OUTSIDE}
    return {"method": name, "first": problem.rows.start, "options": options}
