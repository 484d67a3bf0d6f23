"""Several policies against one: K differences that hold together, and what they show (section 15).

Every difference has alpha / K, or a share of alpha that was fixed beforehand. Then all of them hold at once, with probability
at least 1 - alpha, and any of them may be picked after a look: the price is a factor of about sqrt(1 + log K / log(2/alpha)) in
length, 1.4 for twenty policies. What is shown between two of the policies follows from their differences to the third.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from bondic.core.claims import ErrorBudget, Status, check_alpha
from bondic.core.errors import InvalidInput, printable_lines
from bondic.core.printed import bound_text
from bondic.decisions.difference import difference_interval, other_rows
from bondic.methods.base import Progress
from bondic.methods.candidates import Method
from bondic.rendering import confidence
from bondic.result import Result
from bondic.rows import Rows


@dataclass(frozen=True)
class Ranking:
    """Differences to one policy, the largest lower end first.

    Parameters
    ----------
    differences : dict of str to Result
        By policy. All of them hold together.
    alpha : float
        Probability that any of them misses.
    against : str
        The policy they are compared with, in words.
    """

    differences: dict[str, Result]
    alpha: float
    against: str

    def __str__(self) -> str:
        return printable_lines(self.headline())

    @property
    def better(self) -> tuple[str, ...]:
        """The policies that are shown to be better."""
        return tuple(name for name, one in self._known.items() if one.low > 0)

    @property
    def worse(self) -> tuple[str, ...]:
        return tuple(name for name, one in self._known.items() if one.high < 0)

    @property
    def _known(self) -> dict[str, Result]:
        """Those that say something, and prove it."""
        return {
            name: one
            for name, one in self.differences.items()
            if one.status is Status.INTERVAL and one.guarantee == "finite-sample"
        }

    def gain(self, first: str, second: str) -> tuple[float, float]:
        """J(first) - J(second), from both differences: it holds together with them."""
        one, two = (self.differences[name] for name in (first, second))
        return one.low - two.high, one.high - two.low

    def headline(self) -> str:
        """What is shown, in a sentence or two."""
        level = f"At {confidence(self.alpha)}, all together"
        if not self.better:
            worse = f"; {_listed(self.worse)} shown to be worse" if self.worse else ""
            return f"{level}: no policy is shown to be better than {self.against}{worse}."
        best, *others = self.better
        text = f"{level}: {best} is shown to be better than {self.against} (by at least "
        text += f"{bound_text(self.differences[best].low, -1)})"
        if others:
            text += f"; so {'is' if len(others) == 1 else 'are'} {' and '.join(others)}"
        rivals = [name for name in self._known if name != best and self.gain(best, name)[0] <= 0]
        if rivals:
            text += f"; these differences show nothing between {best} and {' or '.join(rivals)} (compare them directly)"
        return f"{text}."


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'}"


def rank_policies(
    problems: Mapping[str, Rows],
    against: Any = "today",
    *,
    alpha: float = 0.1,
    method: Method | str | None = None,
    named: str | None = None,
    shares: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Ranking:
    """Differences of several policies to one, all of which hold together.

    Parameters
    ----------
    problems : dict of str to Rows
        The policies by name: `make_problem(log, policy, ...)` of each, on the same log with the same statements.
    against : policy or "today", default "today"
        What they are compared with; "today" made the log.
    alpha : float, default 0.1
        Probability that any of the differences misses.
    method : Method or str, default None
        As in `estimate_interval`, the same for all policies.
    named : str, default None
        What the other policy is called; by default "today", or its function.
    shares : dict of str to float, default None
        How alpha is divided among the policies, in proportion; None: evenly. A larger share makes a shorter interval. They are
        fixed before the certified rows are looked at: beforehand, or by earlier rows (`problem.select` leaves those out).
    """
    check_alpha(alpha)
    if not problems:
        raise InvalidInput("There is no policy to compare.")
    refuse_other_questions(problems)
    weights = dict.fromkeys(problems, 1.0) if shares is None else dict(shares)
    if set(weights) != set(problems) or not all(0 < weight < math.inf for weight in weights.values()):
        raise InvalidInput(
            f"shares={weights}: one positive number for each of the policies {', '.join(problems)}, or leave it out."
        )
    share = ErrorBudget.split(alpha, weights)
    other = other_rows(next(iter(problems.values())), against)
    found = {
        name: difference_interval(rows, other, alpha=share[name], method=method, progress=progress)
        for name, rows in problems.items()
    }
    order = sorted(found, key=lambda name: -found[name].low)
    named = named or next(iter(found.values())).names[1]
    return Ranking({name: replace(found[name], names=(name, named)) for name in order}, alpha, named)


def refuse_other_questions(problems: Mapping[str, Rows]) -> None:
    """InvalidInput unless all policies are evaluated on the same rows."""
    first = next(iter(problems.values()))
    same = len({(one.log_hash, one.terms, one.rows) for one in problems.values()}) == 1
    if not (same and all(one.initial_states.same(first.initial_states) for one in problems.values())):
        raise InvalidInput("All policies are compared on the same rows of one log, with the same statements.")
