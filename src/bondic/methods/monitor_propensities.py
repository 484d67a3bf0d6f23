"""A growing log with propensities: bets that are fixed before the rows they are used on, at every number of units at once.

The wealth of bets on decisions or whole episodes is one process: what is bet on a unit comes from units before it and from the
planned number of rows, so the interval of every update is read off the same process, and all of them hold at once. The pilot sets
the rates and, but for single decisions (γ = 0), decides whether this method is used at all; certified are the rows after it. An
episode counts when it and all before it are complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.core.propensities.proof import PropensityProof
from bondic.errors import PolicyError
from bondic.methods.base import Clock, Progress
from bondic.methods.propensities import Propensities
from bondic.policies.logged_target import LoggedTarget
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.decisions import query_target, single_rows
from bondic.rows.growing import GrowingRows, complete_rows, has_propensities

_SAME_POLICY = 1e-9


@dataclass(frozen=True)
class BetPlan:
    """What is fixed before the first certified row."""

    first: int  # rows before it were looked at; 0: none was yet
    why: str

    @staticmethod
    def of(proof: PropensityProof, method: str) -> BetPlan:
        """That of an earlier update; `method` is what it said about its method."""
        return BetPlan(proof.estimand.rows[0], method.removeprefix("propensities, as "))


def not_used(grown: GrowingRows) -> str:
    """Why the propensities of a log are of no use whatever its rows are; empty where they are, or where there are none."""
    stated = grown.statements
    if not has_propensities(grown.log):
        return ""
    if stated.initial is not None:
        return "initial states are stated, and propensities give the value from the log's own starts"
    if not (grown.answers.discrete or hasattr(stated.policy, "action_density")):
        return "actions are numbers, and the policy has no action_density"
    if grown.log.episode_ids is None and not grown.log.terminations.all():
        row = int(np.argmin(grown.log.terminations))
        return f"row {row} goes on, and nothing says which rows are one episode (episode_ids)"
    return ""


def decide(
    grown: GrowingRows, method: Propensities, pilot: int, planned_rows: int, alpha: float
) -> BetPlan | str | None:
    """The plan of the bets, or why there is none; None while the pilot is not complete. Decided by the pilot's rows alone."""
    policy, ends = grown.statements.policy, complete_rows(grown.log)
    if grown.statements.terms.gamma == 0.0:
        return BetPlan(0, "the log holds propensities and every decision stands alone")
    if len(grown.log) <= pilot:
        return None
    # an episode that is cut in two by the end of the pilot is longer than others: bets begin after it
    looked, after = int(ends[ends <= pilot].max(initial=0)), ends[ends >= pilot]
    why = "the policy is known by its probabilities of the logged actions alone"
    if not isinstance(policy, LoggedTarget):
        ahead = max(planned_rows - looked, 1e-9 * looked)
        why = method.advantage(grown.earlier(looked), ahead, alpha) if looked else ""
        if not why:
            return f"the whole episodes in the first {pilot} rows predict too long an interval without a stated class"
    if not after.size:
        return None
    return BetPlan(int(after[0]), why)


def evaluate(
    problem: Rows, plan: BetPlan, method: Propensities, alpha: float, before: PropensityProof | None, clock: Clock
) -> Result:
    """The interval of all complete units; `before` is the proof of the update before, which these bets continue."""
    progress: Progress | None = clock.progress
    result = (replace(method, pilot=plan.first) if plan.first else method).run(problem, alpha, progress)
    assert isinstance(result.proof, PropensityProof)
    certified = problem.select(result.proof.estimand.rows[0])
    known = (0, plan.first) if plan.first else None if before is None else before.estimand.rows
    if known is not None and single_rows(problem.select(*known)) != single_rows(certified):
        raise InvalidInput(
            "So far every row was an episode of one step, and these episodes are longer: bets on single decisions cannot "
            "continue as bets on episodes. Begin a new monitor with all rows."
        )
    if before is not None:
        _refuse_other_bets(before, result.proof, problem)
    units = "decisions" if single_rows(certified) else "episodes"
    number = f"the interval holds at every number of {units} at once; bets are made for {result.proof.planned} of them"
    return result.with_choice("number of rows", number).with_choice("method", f"propensities, as {plan.why}")


def _refuse_other_bets(before: PropensityProof, now: PropensityProof, problem: Rows) -> None:
    """Bets that were made stay as they were: predictions, and the policy's answers."""
    old, new = before.control, now.control
    if old is not None and (
        new is None or old.by_action != new.by_action or old.borders != new.borders[: len(old.borders)]
    ):
        raise InvalidInput(
            "The monitor bets on doubly robust values, for which episodes have to follow one another and all rows have to fit "
            "into memory. Begin a new monitor without max_ratio= and min_propensity=."
        )
    (then,), (target,) = before.targets, now.targets
    if then is not None and target is not None:
        known, earlier = then.probs, problem.restricted(RowRange(*then.rows))
        again = query_target(
            earlier, every_action=known.ndim == 2, again=True
        )  # answers that are held cannot have changed
        fresh = target.probs[: len(known)] if again is None else again.probs
        if fresh.shape != known.shape or not np.allclose(fresh, known, rtol=_SAME_POLICY, atol=_SAME_POLICY):
            raise PolicyError(
                "The policy answers differently at the logged states than at earlier updates. A monitor is about one policy: "
                "begin a new monitor for another one."
            )
