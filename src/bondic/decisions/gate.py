"""A gate: approve, refuse, or cannot tell.

The value (or the improvement over another policy) θ is at least a stated number with a lower end L >= it, and below it with an
upper end U < it. Each end may be wrong with probability alpha, and for a given θ only one of the two answers is wrong: so a
policy is approved wrongly, or refused wrongly, with probability at most alpha.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any, Literal

from bondic.core.claims import Status, check_alpha
from bondic.core.errors import InvalidInput, printable_lines
from bondic.core.printed import bound_text
from bondic.core.terms import in_full
from bondic.decisions.difference import difference_interval, other_rows, sided, stated_conditions
from bondic.decisions.looks import End, Looks, complete_episodes, refuse_undecided
from bondic.errors import TooFewRows
from bondic.estimate import as_method
from bondic.methods.base import Progress
from bondic.methods.candidates import Method
from bondic.methods.value_range import WholeRange
from bondic.policies.logged_target import LoggedBehavior
from bondic.result import Result, Ruling
from bondic.rows import Rows
from bondic.summary import other_policy

Verdict = Literal["approve", "refuse", "cannot tell"]
_BOTH: tuple[End, End] = ("lower", "upper")


@dataclass(frozen=True)
class Gate:
    """What a log says about a requirement.

    Parameters
    ----------
    verdict : {"approve", "refuse", "cannot tell"}
    bound : float
        The number that the value, or the improvement, has to reach.
    upward : bool
        Whether it has to be at least (else at most) the bound.
    alpha : float
        Probability of a wrong approval, and of a wrong refusal.
    result : Result
        The end that decides, one-sided at alpha: the lower one of what has to be large. Where neither decides, that one.
    other : Result or None
        The other end, one-sided at alpha, where it was needed.
    looks : Looks or None
        All looks, where the log is evaluated repeatedly as it grows.
    waiting : str
        Why there is no decision yet; `result` is then the value range of the policy.
    """

    verdict: Verdict
    bound: float
    upward: bool
    alpha: float
    result: Result
    other: Result | None = None
    looks: Looks | None = None
    waiting: str = ""

    def __str__(self) -> str:
        return printable_lines(self.sentence())

    def sentence(self) -> str:
        """The verdict and what it rests on."""
        level = f"at {100 * (1 - self.alpha):g}% confidence"
        if self.waiting:
            return f"Cannot tell yet: {self.waiting}"
        if self.looks is not None and self.looks.rejected and self.result.status is not Status.REJECTED:
            return "Cannot tell: all looks together contradict the assumptions."
        if self.result.status is Status.REJECTED:
            return f"Cannot tell: {self.result.sentence()}"
        if self.result.guarantee != "finite-sample":
            kind = f"the guarantee of {self.result.method} is {self.result.guarantee!r}"
            return f"Cannot tell: {kind}; a finite-sample one is needed."
        what = (
            "the value of the policy" if not self.result.is_difference else f"the gain over {other_policy(self.result)}"
        )
        needed = f"{'at least' if self.upward else 'at most'} {in_full(self.bound)}"
        said = " and ".join(self._end(one) for one in (self.result, self.other) if one is not None)
        more = "" if self.looks is None else f" ({self.looks})"
        if self.verdict == "cannot tell":
            return f"Cannot tell: {what} is {said}, {level} each; {needed} is required{more}.{self.conditions}"
        return f"{self.verdict.capitalize()}: {level} {what} is {said}; {needed} is required{more}.{self.conditions}"

    @property
    def ruling(self) -> Ruling:
        """The verdict in words; where it cannot tell, how many rows in all would, as ends come nearer like 1 / sqrt(rows)."""
        text, holds = str(self), True
        found = (self.result, self.other) if self.upward else (self.other, self.result)
        if self.verdict != "cannot tell" or self.looks is not None or None in found:
            return Ruling(self.verdict, text)
        for one, sign in zip(found, (1.0, -1.0), strict=True):
            assert one is not None
            beyond = sign * (one.estimate - self.bound)  # NaN where nothing is estimated
            if beyond > 0 and _proved(one):
                gap = beyond + sign * (self.bound - (one.low if sign > 0 else one.high))
                holds = (sign > 0) is self.upward
                return Ruling(self.verdict, text, (one.rows[1] - one.rows[0]) * (gap / beyond) ** 2, holds)
        return Ruling(self.verdict, text)

    def told(self) -> Gate:
        """The same gate, whose result leads with the verdict."""
        return replace(self, result=replace(self.result, ruling=self.ruling))

    def _end(self, result: Result) -> str:
        """The end that was computed, in words: the best one of all looks."""
        low, high = result.low, result.high
        if self.looks is not None:
            lower, upper = (self.looks.best(end, end) for end in _BOTH)
            low, high = low if lower is None else lower, high if upper is None else upper
        both = f"between {bound_text(low, -1)} and {bound_text(high, 1)}"
        ends = {"lower": f"at least {bound_text(low, -1)}", "upper": f"at most {bound_text(high, 1)}"}
        return ends.get(result.side, both)

    @property
    def conditions(self) -> str:
        """What was stated about values, and the verdict rests on."""
        return stated_conditions(self.result)


def gate(
    problem: Rows,
    *,
    better_than: Any = None,
    above: float | None = None,
    below: float | None = None,
    alpha: float = 0.1,
    method: Method | str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Gate:
    """Whether the policy of a problem may pass.

    Parameters
    ----------
    problem : Rows
        What `make_problem` returns.
    better_than : policy or "today", default None
        Another policy, or the one that made the log: the gain over it has to be at least 0, or at least `above`.
    above, below : float, default None
        What the value (the gain, with `better_than`) has to reach, or may not exceed. One of them.
    alpha : float, default 0.1
        Probability of a wrong approval, and of a wrong refusal; below one half.
    state : path, default None
        A file that keeps the looks at a log that grows: alpha is then that of all looks together. The method needs a planned
        number of rows, `Default(planned_rows=N)`.
    """
    check_alpha(alpha)
    if above is None and below is None and better_than is not None:
        above = 0.0
    if (above is None) == (below is None):
        raise InvalidInput("A gate needs one requirement: better_than=, above= or below=.")
    bound, upward = (float(above), True) if above is not None else (float(below or 0.0), False)
    chosen = as_method(method)
    other = None if better_than is None else other_rows(problem, better_than)
    looks: Looks | None = None

    def end(side: End) -> Result:
        nonlocal looks
        one = sided(chosen, side)
        if other is None:
            found = one.run(problem, alpha, progress)
        else:
            found = difference_interval(problem, other, alpha=alpha, method=one, progress=progress)
        looks = None if looks is None else looks.showing(side, found, side, problem)
        return found.with_question(problem)

    def proved(result: Result, side: End) -> float:
        """The end, or one that decides nothing."""
        nothing = -math.inf if side == "lower" else math.inf
        if looks is None:
            return (result.low if side == "lower" else result.high) if _proved(result) else nothing
        best = None if looks.rejected else looks.best(side, side)
        return nothing if best is None else best

    def decided(verdict: Verdict, result: Result, second: Result | None = None) -> Gate:
        kept = None if looks is None else looks.write(verdict)
        return Gate(verdict, bound, upward, alpha, result, second, kept).told()

    sides: tuple[End, End] = ("lower", "upper") if upward else ("upper", "lower")
    try:
        if state is not None:
            problem = complete_episodes(problem, today=other is not None and isinstance(other.policy, LoggedBehavior))
            other = other if other is None else other_rows(problem, other.policy)
            looks = Looks.at(state, [one for one in (problem, other) if one is not None], sided(chosen, "both"), alpha)
            refuse_undecided(chosen, problem)
        first = end(sides[0])
        shown = proved(first, sides[0])
        if shown >= bound if upward else shown <= bound:
            return decided("approve", first)
        second = end(sides[1])
        shown = proved(second, sides[1])
        if shown < bound if upward else shown > bound:
            return decided("refuse", second)
        return decided("cannot tell", first, second)
    except TooFewRows as why:
        if state is None:
            raise
        if looks is not None:
            looks.write("cannot tell yet")
        nothing = WholeRange(str(why), sides[0]).run(problem, alpha, progress)
        nothing = nothing.with_question(problem)
        return Gate("cannot tell", bound, upward, alpha, nothing, looks=looks, waiting=str(why)).told()


def _proved(result: Result) -> bool:
    """Whether it is an interval with a finite-sample guarantee; a method without sides proves both ends at once."""
    return result.status is Status.INTERVAL and result.guarantee == "finite-sample"
