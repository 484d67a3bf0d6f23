"""What plans on cells share, for tables and for groups: pilot, blocks, alpha, starts, and the predicted length."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from bondic.core.betting import bet_cost
from bondic.core.cells.localize import ValueLimits
from bondic.core.cells.proof import SINGLE, CellsProof
from bondic.core.cells.rows import Cells
from bondic.core.cells.tally import Tally
from bondic.core.claims import End, ErrorBudget, Side, ends_of
from bondic.core.errors import refuse
from bondic.core.sequential.proof import INITIAL, VECTOR
from bondic.core.starts import StartBets, sampled_start
from bondic.core.terms import ValueRange
from bondic.errors import TooFewRows
from bondic.methods.setting import tuning_problem
from bondic.plan.cells import FULL_BET, Costs, reference_of
from bondic.rows import Rows
from bondic.rows.prefix import Prefixes
from bondic.search.sequential.starts import KnownStarts, known_starts, propose_bets
from bondic.tuning.states import MIN_PILOT, rows_set_aside

FloatArray = npt.NDArray[np.float64]

SIGNS: dict[End, float] = {"lower": -1.0, "upper": 1.0}
CLIPS = (2.0, 0.25)
"""Where forecasts of differences are cut, in units of the value range (above 1: nowhere). The pilot tells what promises more."""
CAREFUL = 0.5
"""What is known of values is predicted from this share of the rows: imbalance that was taken to be cheap is the worst."""
_COMPARED_STARTS = 256
"""Starts whose values enter a prediction."""


def pilot_of(problem: Rows, pilot: float | int, planned: int) -> Rows:
    """The rows that are set aside, as a problem of their own; a share has enough of them to fit something."""
    rows = rows_set_aside(pilot, planned)
    found = tuning_problem(problem, rows) if 0 < rows < len(problem.rows) else None
    if found is None:
        raise TooFewRows(
            f"A pilot is needed, of at least {MIN_PILOT} usable rows and fewer than all: {rows} of {len(problem.rows)} "
            "rows cannot be set aside for one. Pass pilot= as another share of the rows, or a number."
        )
    return found


def replayed_pilot(prefixes: Prefixes, proof: CellsProof, pilot: Callable[[Rows], Rows]) -> Rows:
    """The pilot from the rows before the certified ones alone."""
    first = proof.estimand.rows[0]
    refuse(first == prefixes.problem.rows.start, "No rows were set aside for a pilot.")
    begin = pilot(prefixes.problem).rows.stop
    refuse(begin != first, f"Rows from {begin} on follow the pilot, not {first}.")
    known = prefixes.before(first)
    found = tuning_problem(known, len(known.rows))
    refuse(found is None, "The pilot has no row that counts.")
    assert found is not None
    return found


def cell_budget(problem: Rows, alpha: float, shares: dict[str, float], side: Side) -> ErrorBudget:
    """alpha in these shares, that of the starts only where they are a sample, and the rest over the ends."""
    ends = ends_of(side)
    sampled = sampled_start(problem, len(ends)) is not None
    own = {name: share for name, share in shares.items() if name != INITIAL or sampled}
    return ErrorBudget.split(alpha, own | dict.fromkeys(ends, (1 - sum(own.values())) / len(ends)))


def costs_of(budget: ErrorBudget, ends: Sequence[End], width: FloatArray | float) -> Costs:
    vector, single = (math.log(2 / budget[name]) for name in (VECTOR, SINGLE))
    return Costs(vector, single, math.log(1 / min(budget[end] for end in ends)), width)


def planned_stops(problem: Rows, pilot: Rows, planned: int, cuts: Sequence[float]) -> tuple[int, ...]:
    """Rows of the log before which blocks should end, the pilot first. What is planned with them must not see how many came."""
    ends = [problem.rows.start + math.ceil(cut * planned) for cut in cuts]
    return (pilot.rows.stop, *(sorted({end for end in ends if end > pilot.rows.stop}) or [pilot.rows.stop + 1]))


def reference(tally: Tally, limits: ValueLimits) -> FloatArray:
    return reference_of(tally, tally.count.sum(axis=0) > 0, limits.middle)


def known_mean(cells: Cells, starts: KnownStarts, row: int) -> FloatArray:
    """(p,) ψ_0, as the starts that are known before a row show it; the first of the log is known once there is a row."""
    known = starts.known_from < max(row, int(starts.known_from[0]) + 1)
    weights = np.where(known, np.maximum(starts.weights, 0.0), 0.0)
    weights = weights if weights.sum() > 0 else known.astype(np.float64)
    return cells.start_mean(starts.cloud, weights / weights.sum())


def start_bets(
    problem: Rows,
    pilot: Rows,
    cells: Cells,
    starts: KnownStarts,
    budget: ErrorBudget,
    ends: Sequence[End],
    planned: int,
    values: FloatArray,
) -> StartBets | None:
    """Bets on sampled starts, at the spread of the values over those that are left out."""
    probability = budget.get(INITIAL)
    if probability is None:
        return None
    spread, skipped = math.inf, min(starts.skipped, 1024)
    if skipped:
        seen, center = cells.start_cells(problem.initial, 0, skipped)
        spread = float((center + seen @ values).std())
    return propose_bets(
        problem,
        pilot,
        problem.rows.start + planned,
        probability / len(ends),
        spread=spread,
        limits=cells.value_range(problem),
    )


def expected_starts(problem: Rows, pilot: Rows, rows: int) -> float:
    """How many sampled starts will be used; 0 where starts are a list."""
    states = problem.initial_states
    if states.kind != "sample":
        return 0.0
    known = known_starts(problem, pilot).skipped
    if states.from_rows and not states.count_fixed:
        return max(known * rows / max(len(pilot.rows), 1), 1.0)
    return float(len(states) - known)


def start_cost(
    pilot: Rows,
    cells: Cells,
    values: FloatArray,
    unknown: Callable[[FloatArray], FloatArray],
    budget: ErrorBudget,
    starts: float,
    ends: int,
    width: float,
) -> float:
    """What sampled starts add to an end: min over bets b of ( log(1/δ) / b + sum_j g(-b |V(x_j) - mean|) / b ) / n_0.

    `values` (p,) are those of the cells, `unknown` says how far means of them (m, p) may be off.
    """
    probability = budget.get(INITIAL)
    if probability is None or starts <= 0:
        return 0.0
    seen, center = cells.start_cells(pilot.initial, 0, min(len(pilot.initial_states), _COMPARED_STARTS))
    middle = center + seen @ values
    apart = np.minimum(np.abs(middle - middle.mean()) + unknown(seen - seen.mean(axis=0)), width)
    price, best = math.log(2 * ends / probability), width
    for bet in FULL_BET / width * np.geomspace(1e-3, 1.0, 16):
        best = min(best, (price / starts + float(bet_cost(-bet * apart).mean())) / bet)
    return best


def predicted_interval(limits: ValueRange, ends: dict[End, float]) -> float:
    """The length of the interval between predicted ends, within the value range; a missing end is that of the range."""
    high, low = min(limits.high, ends.get("upper", limits.high)), max(limits.low, ends.get("lower", limits.low))
    return max(high - low, 0.0)
