"""Safe choice: the policy that is shown to be better than today's, or today's (section 15).

Lower ends L_k of J(π_k) - J(π_0) that hold together, at alpha/K each: the largest one, if it is above 0. Or one favorite, named
by rows that are not certified, at the full alpha. Either way a policy that is worse than the incumbent is chosen with probability
at most alpha. Which of the two is used is decided by those rows as well: by the gain that each is expected to show.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.claims import ErrorBudget, Status, check_alpha
from bondic.core.errors import InvalidInput
from bondic.core.printed import bound_text
from bondic.core.propensities.betting import moderate
from bondic.decisions.difference import difference_interval, incumbent_words, other_rows, paired_units, sided
from bondic.decisions.ranking import refuse_other_questions
from bondic.estimate import as_method
from bondic.methods.base import Progress
from bondic.methods.candidates import Method
from bondic.methods.default import Default
from bondic.methods.propensities import Propensities
from bondic.methods.propensity_pilot import expected_spread
from bondic.rendering import three
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.episodes import split_episodes

FloatArray = npt.NDArray[np.float64]

PILOT = 0.1
"""Share of the rows that may name a favorite; they are not certified."""
_DRAWS = 1000


@dataclass(frozen=True)
class SafeChoice:
    """The policy to take.

    Parameters
    ----------
    chosen : str or None
        The name of a policy that is shown to be better than the incumbent; None: keep the incumbent.
    results : dict of str to Result
        The differences that were certified, by policy.
    favorite : str or None
        The policy that rows before the certified ones have named, if one was tested alone.
    alpha : float
        Probability that the chosen policy is worse than the incumbent.
    incumbent : str
        Its name, in words.
    """

    chosen: str | None
    results: dict[str, Result]
    favorite: str | None
    alpha: float
    incumbent: str

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """What to do, what is shown, and about how many rows would settle it where nothing is."""
        level = f"at {100 * (1 - self.alpha):g}% confidence"
        if self.chosen is not None:
            gain = bound_text(self.results[self.chosen].low, -1)
            return f"Take {self.chosen}: {level} it is better than {self.incumbent} by at least {gain}."
        text = f"Keep {self.incumbent}: {level} no policy is shown to be better."
        name, rows = self.rows_needed()
        if not any(result.estimated for result in self.results.values()):
            return f"{text} The log says too little to tell which one looks better."
        if name is None:
            return f"{text} None of them looks better, either."
        return f"{text} About {three(rows)} rows like these would show it for {name} (an estimate, not guaranteed)."

    def rows_needed(self) -> tuple[str | None, float]:
        """The policy that would be shown to be better first, and with about how many rows: lengths fall like 1 / sqrt(rows)."""
        found: tuple[str | None, float] = (None, math.inf)
        for name, result in self.results.items():
            if not (result.estimated and result.estimate > 0 and result.status is Status.INTERVAL):
                continue
            rows = (result.rows[1] - result.rows[0]) * ((result.estimate - result.low) / result.estimate) ** 2
            if rows < found[1]:
                found = (name, rows)
        return found


def choose_policy(
    problems: Mapping[str, Rows],
    incumbent: Any = "today",
    *,
    alpha: float = 0.1,
    method: Method | str | None = None,
    progress: Progress | None = None,
) -> SafeChoice:
    """The best proved improvement over the incumbent, or the incumbent.

    Parameters
    ----------
    problems : dict of str to Rows
        The candidates by name: `make_problem(log, policy, ...)` of each, on the same log with the same statements.
    incumbent : policy or "today", default "today"
        What is kept unless a candidate is shown to be better; "today" made the log.
    alpha : float, default 0.1
        Probability that the chosen policy is worse than the incumbent.
    method : Method or str, default None
        As in `estimate_interval`, the same for all candidates.
    """
    check_alpha(alpha)
    if not problems:
        raise InvalidInput("There is no policy to choose from.")
    rows = dict(problems)
    refuse_other_questions(rows)
    favorite = None
    if len(rows) > 1:
        favorite, rows = _favorite(rows, incumbent, alpha, as_method(method))
    tested = rows if favorite is None else {favorite: rows[favorite]}
    share, lower = ErrorBudget.split(alpha, dict.fromkeys(tested, 1.0)), sided(as_method(method), "lower")
    results = {
        name: difference_interval(one, incumbent, alpha=share[name], method=lower, progress=progress)
        for name, one in tested.items()
    }
    proved = (
        one for one in results.items() if one[1].status is Status.INTERVAL and one[1].guarantee == "finite-sample"
    )
    shown = {name: result.low for name, result in proved if result.low > 0}
    chosen = max(shown, key=lambda name: shown[name]) if shown else None
    return SafeChoice(chosen, results, favorite, alpha, incumbent_words(incumbent))


def _favorite(
    rows: dict[str, Rows], incumbent: Any, alpha: float, method: Method
) -> tuple[str | None, dict[str, Rows]]:
    """The policy to test alone, if that is expected to show more, and the rows after those that were looked at."""
    first = next(iter(rows.values()))
    paired = method.choice(first, alpha).method if isinstance(method, Default) else method
    split = {name: split_episodes(one, round(PILOT * len(one.rows))) for name, one in rows.items()}
    parts = {name: both for name, both in split.items() if both is not None}
    if not isinstance(paired, Propensities) or len(parts) < len(rows):
        return None, rows
    values = []
    for pilot, _ in parts.values():
        units = paired_units(pilot, other_rows(pilot, incumbent))
        values.append(moderate(units.free_estimators(paired.gamma_sensitivity)[0].values))
    looked, rest = next(iter(parts.values()))
    place = expected_favorite(np.array(values), len(values[0]) * len(rest.rows) / len(looked.rows), alpha)
    return (None if place is None else list(rows)[place]), {name: later for name, (_, later) in parts.items()}


def expected_favorite(values: FloatArray, later: float, alpha: float) -> int | None:
    """The policy whose proved gain is expected to exceed the best of all at alpha / K each; None where it is not.

    `values` (K, units) were observed, about `later` units follow. Means that the observed ones leave possible are drawn, then
    those of the later units; an end lies below them by what bets usually cost.
    """
    policies, units = values.shape
    means, spread = values.mean(axis=1), np.atleast_2d(np.cov(values)) + 1e-300 * np.eye(policies)
    costs = {
        share: np.array([expected_spread(float(v.var()), float(np.ptp(v)), later, share) for v in values])
        for share in (alpha, alpha / policies)
    }
    draws = np.random.default_rng(0).multivariate_normal(
        means, spread * (1 / units + 1 / later), size=_DRAWS, method="eigh"
    )
    best = int(np.argmax(means - costs[alpha]))
    alone = np.maximum(draws[:, best] - costs[alpha][best], 0.0).mean()
    together = np.maximum((draws - costs[alpha / policies]).max(axis=1), 0.0).mean()
    return best if alone >= together else None
