"""Safe choice: the policy that is shown to be better than today's, or today's (section 15).

Lower ends L_k of J(π_k) - J(π_0) that hold together, at alpha/K each: the largest one, if it is above 0. Or one favorite, named
by rows that are not certified, at the full alpha. Either way a policy that is worse than the incumbent is chosen with probability
at most alpha. Which of the two is used is decided by those rows as well: by the gain that each is expected to show. Where the log
is evaluated repeatedly as it grows, those rows are a share of the planned ones, so that every look has the same favorite.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.claims import ErrorBudget, Status, check_alpha
from bondic.core.errors import InvalidInput, printable_lines
from bondic.core.printed import bound_text
from bondic.core.propensities.betting import moderate
from bondic.decisions.difference import (
    difference_interval,
    incumbent_words,
    is_today,
    other_rows,
    paired_units,
    sided,
    stated_conditions,
)
from bondic.decisions.looks import Looks, complete_episodes, refuse_undecided
from bondic.decisions.ranking import refuse_other_questions
from bondic.errors import TooFewRows
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
    looks : Looks or None
        All looks, where the log is evaluated repeatedly as it grows.
    waiting : str
        Why there is no decision yet.
    """

    chosen: str | None
    results: dict[str, Result]
    favorite: str | None
    alpha: float
    incumbent: str
    looks: Looks | None = None
    waiting: str = ""

    def __str__(self) -> str:
        return printable_lines(self.sentence())

    def sentence(self) -> str:
        """What to do, what is shown, and about how many rows a decision needs where nothing is shown."""
        level, more = f"at {100 * (1 - self.alpha):g}% confidence", "" if self.looks is None else f" ({self.looks})"
        if self.waiting:
            return f"Keep {self.incumbent}; there is no decision yet: {self.waiting}"
        if self.chosen is not None:
            conditions = stated_conditions(self.results[self.chosen])
            best = None if self.looks is None else self.looks.best(self.chosen, "lower")
            gain = bound_text(self.results[self.chosen].low if best is None else best, -1)
            return (
                f"Take {self.chosen}: {level} it is better than {self.incumbent} by at least {gain}{more}.{conditions}"
            )
        text = f"Keep {self.incumbent}: {level} no policy is shown to be better{more}."
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
    state: str | os.PathLike[str] | None = None,
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
    state : path, default None
        A file that keeps the looks at a log that grows: alpha is then that of all looks together. The method needs a planned
        number of rows, `Default(planned_rows=N)`.
    """
    check_alpha(alpha)
    if not problems:
        raise InvalidInput("There is no policy to choose from.")
    rows, chosen = dict(problems), as_method(method)
    refuse_other_questions(rows)
    words = incumbent_words(incumbent)
    if state is None:
        found, favorite, _ = _tested(rows, incumbent, alpha, chosen, None, progress)
        shown = {name: one.low for name, one in found.items() if _proved(one) and one.low > 0}
        return SafeChoice(_largest(shown), found, favorite, alpha, words)
    looks: Looks | None = None
    try:
        today = is_today(incumbent.policy if isinstance(incumbent, Rows) else incumbent)
        rows = {name: complete_episodes(one, today=today) for name, one in rows.items()}
        other = other_rows(next(iter(rows.values())), incumbent.policy if isinstance(incumbent, Rows) else incumbent)
        looks = Looks.at(state, (*rows.values(), other), sided(chosen, "lower"), alpha, candidates=list(rows))
        refuse_undecided(chosen, next(iter(rows.values())))
        found, favorite, seen = _tested(rows, other.policy, alpha, chosen, looks, progress)
    except TooFewRows as why:
        looks = None if looks is None else looks.write("keep: no decision yet")
        return SafeChoice(None, {}, None, alpha, words, looks, waiting=str(why))
    assert seen is not None
    ends = {} if seen.rejected else {name: seen.best(name, "lower") for name in found}
    taken = _largest({name: low for name, low in ends.items() if low is not None and low > 0})
    return SafeChoice(taken, found, favorite, alpha, words, seen.write(taken or "keep"))


def _proved(result: Result) -> bool:
    return result.status is Status.INTERVAL and result.guarantee == "finite-sample"


def _largest(shown: Mapping[str, float]) -> str | None:
    return max(shown, key=lambda name: shown[name]) if shown else None


def _tested(
    rows: dict[str, Rows],
    incumbent: Any,
    alpha: float,
    method: Method,
    looks: Looks | None,
    progress: Progress | None,
) -> tuple[dict[str, Result], str | None, Looks | None]:
    """Lower ends of the favorite at alpha, or of all at alpha / K; the favorite; and the looks with these ends."""
    favorite = None
    if len(rows) > 1:
        favorite, rows, method = _favorite(rows, incumbent, alpha, method, again=looks is not None)
    tested = rows if favorite is None else {favorite: rows[favorite]}
    looks = None if looks is None else looks.fixing("favorite", favorite or "none: all are tested together")
    share, lower, found = ErrorBudget.split(alpha, dict.fromkeys(tested, 1.0)), sided(method, "lower"), {}
    for name, one in tested.items():
        found[name] = difference_interval(one, incumbent, alpha=share[name], method=lower, progress=progress)
        looks = None if looks is None else looks.showing(name, found[name], "lower", one)
    return found, favorite, looks


def _favorite(
    rows: dict[str, Rows], incumbent: Any, alpha: float, method: Method, *, again: bool
) -> tuple[str | None, dict[str, Rows], Method]:
    """The policy to test alone, if that is expected to show more; the rows after those that were looked at; and the method there.

    `again`: the log is looked at as it grows, so that its length may decide nothing.
    """
    first = next(iter(rows.values()))
    paired = method.choice(first, alpha).method if isinstance(method, Default) else method
    planned: int | None = getattr(method, "planned_rows", None)
    total = len(first.rows) if planned is None else planned
    if not isinstance(paired, Propensities):
        return None, rows, method
    if again and planned is None:
        raise InvalidInput(
            "A favorite is named by a share of the planned rows: state their number, method=Default(planned_rows=N) "
            "(--with planned_rows=N)."
        )
    split = {name: split_episodes(one, round(PILOT * total)) for name, one in rows.items()}
    parts = {name: both for name, both in split.items() if both is not None}
    if len(parts) < len(rows):
        if again:
            raise TooFewRows(f"The first {round(PILOT * total)} rows name a favorite, and are not complete yet.")
        return None, rows, method
    values = []
    for pilot, _ in parts.values():
        units = paired_units(pilot, other_rows(pilot, incumbent))
        values.append(moderate(units.free_estimators(paired.gamma_sensitivity)[0].values))
    looked, rest = next(iter(parts.values()))
    ahead = len(rest.rows) if planned is None else max(first.rows.start + planned - rest.rows.start, 1)
    place = expected_favorite(np.array(values), len(values[0]) * ahead / len(looked.rows), alpha)
    later = method if planned is None else replace(method, planned_rows=ahead)  # type: ignore[type-var]
    return (None if place is None else list(rows)[place]), {name: part for name, (_, part) in parts.items()}, later


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
