"""bondic's own methods, and the questions that each of them answers before it is chosen.

The default takes the shortest predicted length among candidates that assume nothing, or only what the user stated. So an interval
never rests on an assumption that bondic chose. Predictions read pilot rows, which are not certified.
"""

from __future__ import annotations

from typing import Literal, Protocol

from bondic.methods.base import Progress
from bondic.methods.dual import Dual
from bondic.methods.groups import Groups
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.methods.table import Table
from bondic.result import Result
from bondic.rows import Rows

Assumes = Literal["nothing", "stated"]
"""About q*, beyond the value range: nothing, or what the user stated."""


class Method(Protocol):
    """A way to make an interval."""

    def run(self, problem: Rows, alpha: float, progress: Progress | None) -> Result: ...


class Candidate(Method, Protocol):
    """A method that can be compared with others before it runs."""

    @property
    def name(self) -> str: ...

    @property
    def assumes(self) -> Assumes: ...

    def applies(self, problem: Rows) -> str | None:
        """None, or why it does not."""

    def predicted_length(self, problem: Rows, alpha: float) -> float:
        """About how long its interval will be, in units of value; inf where none can be predicted.

        The default, advice and plans of more rows all ask this one function.
        """


CANDIDATES: dict[str, type[Candidate]] = {kind.name: kind for kind in (Table, Groups, Sequential, Dual, Propensities)}
"""bondic's own methods by name."""
