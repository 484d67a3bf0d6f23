"""A gate: approve, refuse, or cannot tell.

The value (or the improvement over another policy) θ is at least a stated number with a lower end L >= it, and below it with an
upper end U < it. Each end may be wrong with probability alpha, and for a given θ only one of the two answers is wrong: so a
policy is approved wrongly, or refused wrongly, with probability at most alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from bondic.core.claims import Status, check_alpha
from bondic.core.errors import InvalidInput
from bondic.core.printed import bound_text
from bondic.core.terms import in_full
from bondic.decisions.difference import difference_interval
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
        The interval behind it: each of its ends may be wrong with probability alpha, both together with twice that.
    """

    verdict: Verdict
    bound: float
    upward: bool
    alpha: float
    result: Result

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
        low, high = bound_text(self.result.low, -1), bound_text(self.result.high, 1)
        needed = f"{'at least' if self.upward else 'at most'} {in_full(self.bound)}"
        said = {
            "approve": f"at least {low}" if self.upward else f"at most {high}",
            "refuse": f"at most {high}" if self.upward else f"at least {low}",
            "cannot tell": f"between {low} and {high}",
        }[self.verdict]
        if self.verdict == "cannot tell":  # both ends together
            level = f"at {100 * (1 - 2 * self.alpha):g}% confidence"
        return f"{self.verdict.capitalize()}: {level} {what} is {said}; {needed} is required.{self.conditions}"

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
    if alpha >= 0.5:
        raise InvalidInput(f"alpha is {alpha:g}: a gate that may be wrong more often than not is none.")
    if above is None and below is None and better_than is not None:
        above = 0.0
    if (above is None) == (below is None):
        raise InvalidInput("A gate needs one requirement: better_than=, above= or below=.")
    bound, upward = (float(above), True) if above is not None else (float(below or 0.0), False)
    if better_than is None:
        result = as_method(method).run(problem, 2 * alpha, progress)
    else:
        result = difference_interval(problem, better_than, alpha=2 * alpha, method=method, progress=progress)
    result = result.with_question(problem)
    return Gate(verdict_of(result, bound, upward), bound, upward, alpha, result)


def verdict_of(result: Result, bound: float, upward: bool) -> Verdict:
    """From an interval whose ends hold at alpha each."""
    if result.status is not Status.INTERVAL or result.guarantee != "finite-sample":
        return "cannot tell"
    reached = result.low >= bound if upward else result.high <= bound
    missed = result.high < bound if upward else result.low > bound
    return "approve" if reached else "refuse" if missed else "cannot tell"
