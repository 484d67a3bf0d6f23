"""(log, policy, d_0, gamma, reward range) -> points, signed weights, rewards. Everything above sees only this."""

from bondic.core.terms import Terms
from bondic.rows.batch import Batch, Cloud
from bondic.rows.make import make_rows
from bondic.rows.rows import Rows

__all__ = ["Batch", "Cloud", "Rows", "Terms", "make_rows"]
