"""The primal bound as a method for small logs: a conic solver finds it, the dual certifies it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bondic.core.errors import InvalidInput
from bondic.methods.dual import Dual
from bondic.result import Result
from bondic.rows import Rows
from bondic_lab.search.conic import ConicSearch

_MAX_ROWS = 3000


@dataclass(frozen=True)
class Primal:
    """sup / inf { E[q] : q in Q, L_W(q) <= eps } through its conic dual.

    A primal value is a bound only at the global optimum, which no solver proves. Its dual solution is an ω, and
    F+-(ω) *is* proved: that is what is reported. Both agree to the solver's accuracy when some q in Q is
    strictly feasible; `Result.gap` shows by how much they differ.

    Parameters
    ----------
    settings : Dual
        W, Q, noise bound and the rest; its `solver` is not used.
    tolerance : float, default 1e-9
        Where the conic solver stops.
    """

    settings: Dual = field(default_factory=Dual)
    tolerance: float = 1e-9

    def run(self, problem: Rows, alpha: float, progress: Callable[[str, float], None] | None) -> Result:
        if len(problem) > _MAX_ROWS:
            raise InvalidInput(
                f"The primal method solves a cone program over all points; {len(problem)} rows are too many (at most "
                f"{_MAX_ROWS}). Use Dual(), which gives the same interval."
            )
        advanced = replace(self.settings.advanced, rank=max(self.settings.rank, 3 * len(problem)))
        dual = replace(self.settings, solver=ConicSearch(self.tolerance), advanced=advanced)
        return replace(dual.run(problem, alpha, progress), method="primal")
