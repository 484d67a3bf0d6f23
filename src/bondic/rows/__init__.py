"""(log, policy, d_0, gamma, reward range) -> columns (`core.columns`): what everything above sees."""

from bondic.core.terms import Terms
from bondic.rows.make import make_rows
from bondic.rows.rows import Rows

__all__ = ["Rows", "Terms", "make_rows"]
