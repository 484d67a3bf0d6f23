"""A gate: approve, refuse, or cannot tell.

The value (or the improvement over another policy) θ is at least a stated number with a lower end L >= it, and below it with an
upper end U < it. Each end may be wrong with probability alpha, and for a given θ only one of the two answers is wrong: so a
policy is approved wrongly, or refused wrongly, with probability at most alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bondic.core.claims import Side, Status, check_alpha
from bondic.core.errors import InvalidInput
from bondic.core.printed import bound_text
from bondic.core.terms import in_full
from bondic.decisions.difference import difference_interval, sided
from bondic.estimate import as_method
from bondic.methods.base import Progress
from bondic.methods.candidates import Method
from bondic.result import Result
from bondic.rows import Rows
from bondic.summary import other_policy

Verdict = Literal["approve", "refuse", "cannot tell"]


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
    """

    verdict: Verdict
    bound: float
    upward: bool
    alpha: float
    result: Result
    other: Result | None = None

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """The verdict and what it rests on."""
        level = f"at {100 * (1 - self.alpha):g}% confidence"
        if self.result.status is Status.REJECTED:
            return f"Cannot tell: {self.result.sentence()}"
        if self.result.guarantee != "finite-sample":
            kind = f"the guarantee of {self.result.method} is {self.result.guarantee!r}"
            return f"Cannot tell: {kind}; a finite-sample one is needed."
        what = (
            "the value of the policy" if not self.result.is_difference else f"the gain over {other_policy(self.result)}"
        )
        needed = f"{'at least' if self.upward else 'at most'} {in_full(self.bound)}"
        said = " and ".join(_end(one) for one in (self.result, self.other) if one is not None)
        if self.verdict == "cannot tell":
            return f"Cannot tell: {what} is {said}, {level} each; {needed} is required.{self.conditions}"
        return f"{self.verdict.capitalize()}: {level} {what} is {_end(self.result)}; {needed} is required.{self.conditions}"

    @property
    def conditions(self) -> str:
        """What was stated about values, and the verdict rests on."""
        stated = [item for item in self.result.assumptions if item.name.startswith("values") and item.state == "stated"]
        return "".join(f" This holds if what you stated does: {item.text}" for item in stated)


def gate(
    problem: Rows,
    *,
    better_than: Any = None,
    above: float | None = None,
    below: float | None = None,
    alpha: float = 0.1,
    method: Method | str | None = None,
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
    """
    check_alpha(alpha)
    if above is None and below is None and better_than is not None:
        above = 0.0
    if (above is None) == (below is None):
        raise InvalidInput("A gate needs one requirement: better_than=, above= or below=.")
    bound, upward = (float(above), True) if above is not None else (float(below or 0.0), False)

    def end(side: Side) -> Result:
        one = sided(as_method(method), side)
        if better_than is None:
            found = one.run(problem, alpha, progress)
        else:
            found = difference_interval(problem, better_than, alpha=alpha, method=one, progress=progress)
        return found.with_question(problem)

    sides: tuple[Side, Side] = ("lower", "upper") if upward else ("upper", "lower")
    first = end(sides[0])
    if _proved(first) and (first.low >= bound if upward else first.high <= bound):
        return Gate("approve", bound, upward, alpha, first)
    second = end(sides[1])
    if _proved(second) and (second.high < bound if upward else second.low > bound):
        return Gate("refuse", bound, upward, alpha, second)
    return Gate("cannot tell", bound, upward, alpha, first, second)


def _proved(result: Result) -> bool:
    """Whether it is an interval with a finite-sample guarantee; a method without sides proves both ends at once."""
    return result.status is Status.INTERVAL and result.guarantee == "finite-sample"


def _end(result: Result) -> str:
    """The end that was computed, in words."""
    both = f"between {bound_text(result.low, -1)} and {bound_text(result.high, 1)}"
    ends = {"lower": f"at least {bound_text(result.low, -1)}", "upper": f"at most {bound_text(result.high, 1)}"}
    return ends.get(result.side, both)
