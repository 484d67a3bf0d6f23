"""Fix W, Q, the noise bound and the split of alpha before ω is looked for, from nothing but earlier rows.

What may not be seen: W, the pilot's end and lambda must not depend on certified rows, not even through their number,
through initial states read off them, or through a Q that was chosen with them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt

from bondic.core.balls import Box, Instruments, ValueClass
from bondic.core.claims import ErrorBudget, ends_of
from bondic.core.columns import Cloud
from bondic.core.dual.bound import Setting
from bondic.core.dual.noise import ConstantName, FixedLambda, NoiseBound, Pinelis
from bondic.core.errors import InvalidInput
from bondic.core.starts import INITIAL_SHARE, sampled_start
from bondic.core.terms import Terms, range_at_all_times, range_of
from bondic.data.initial import InitialStates
from bondic.engines.sums import EngineSums
from bondic.errors import TunedOnCertifiedRows
from bondic.extensions import GaugeQuestion, added_gauges
from bondic.methods.base import planned_length
from bondic.rows import Rows
from bondic.rows.make import from_some_starts
from bondic.search.sequential.starts import known_starts
from bondic.search.table import table_kernel
from bondic.tuning.defaults import (
    ball_of_radius,
    check_radius,
    default_instruments,
    default_value_kernel,
    paper_ball,
)
from bondic.tuning.defaults import kind_of_states as kind_of_class
from bondic.tuning.instruments import pick_instruments, pick_table
from bondic.tuning.states import (
    MIN_PILOT,
    StateKind,
    refuse_unstated,
    share_of_rows,
)

if TYPE_CHECKING:
    from bondic.methods.dual import Dual

FloatArray = npt.NDArray[np.float64]

FIXED_LAMBDA = "fixed-lambda"
_MAX_TIMES = 1000

NOTHING = "nothing is stated"
"""The choice that says why the answer is the value range, from no row."""
_NOMINAL = 4
"""Certified rows per row of the pilot, for the choice of W when their number is a stopping time."""

_STAND_IN_STARTS = 200


def pilot_rows(method: Dual, problem: Rows) -> int:
    """Rows set aside for tuning: a share of the planned rows (the log's, when their number was fixed), or a number."""
    total = planned_length(problem, method.planned_rows)
    if isinstance(method.pilot, float):
        if not 0 <= method.pilot < 1:
            raise InvalidInput(f"pilot={method.pilot}: a share of rows in [0, 1), or a whole number of rows.")
        requested = share_of_rows(method.pilot, total)
    else:
        requested = int(method.pilot)
        if not 0 <= requested < len(problem.rows):
            raise InvalidInput(f"pilot={requested} rows cannot be set aside from a log of {len(problem.rows)} rows.")
    if method.instruments is not None or requested < MIN_PILOT:
        return 0
    if isinstance(method.pilot, float) and method.planned_rows is None and _any_time(method.gauge):
        raise InvalidInput(
            "This noise bound is for logs whose length was not fixed beforehand; a pilot of a share of the log would then "
            "depend on the future. Pass pilot= as a whole number of rows, or planned_rows=."
        )
    if requested >= len(problem.rows):
        raise InvalidInput(
            f"The log ended after {len(problem.rows)} rows, within its pilot of {requested} rows: nothing is left."
        )
    return requested


def tuning_problem(problem: Rows, requested: int) -> Rows | None:
    """The pilot as a problem; None when too few of its rows can be used.

    Initial states that were read off the log include later rows: the pilot's first next states stand in for them, or, where
    no row has a next state, those of them that the pilot shows.
    """
    start = problem.rows.start
    pilot = problem.load(start, start + requested)
    if pilot is None or len(pilot) < MIN_PILOT:
        return None
    states = pilot.initial_states
    if states.count_fixed and not states.from_rows:
        return pilot
    rows = pilot.whole()
    count = min(_STAND_IN_STARTS, len(rows.next.points) or len(rows))
    if len(rows.next.points):
        starts = Cloud(rows.next.points[:count], rows.next.weights[:count], np.arange(count))
    elif states.from_rows:
        shown = int((known_starts(problem, pilot).known_from < pilot.rows.stop).sum())
        starts = _own_starts(problem, min(count, shown))
    else:
        starts = Cloud(rows.logged[:count], _even(pilot, count), np.arange(count))
    states = InitialStates.exact(starts.points[:: starts.draws, : problem.layout.observation_dim])
    return replace(pilot, initial=starts, initial_states=states)


def _own_starts(problem: Rows, count: int) -> Cloud:
    """The first starts of the log with the policy's answers, (count,); of a log in batches no other start is read."""
    read = problem.initial if getattr(problem.initial, "made", True) else from_some_starts(problem, count).initial
    return read.cut(0, count)


def _even(pilot: Rows, count: int) -> FloatArray:
    """(count, slots) equal weights on all actions: tuning does not query the policy again."""
    return np.full((count, pilot.initial.weights.shape[1]), 1.0 / pilot.layout.slots)


def make_setting(
    method: Dual, problem: Rows, alpha: float, known: Rows | None = None
) -> tuple[Setting, ErrorBudget, dict[str, str]]:
    """Everything a bound depends on besides ω, with a note on how each choice came about.

    `known`: the question without the rows that W must not see, for a replay; None: it is trusted not to look at them.
    """
    check_radius(method.radius, method.ball)
    known = problem if known is None else known
    sides = len(ends_of(method.side))
    notes: dict[str, str] = {}
    requested = pilot_rows(method, known)
    pilot = tuning_problem(known, requested)
    certified = problem.select(problem.rows.start + requested) if requested else problem
    notes["pilot"] = f"rows before {certified.rows.start} tune, {certified.rows} are certified"
    if pilot is None:
        notes["pilot"] = f"no pilot: {certified.rows} are certified, nothing is tuned on earlier ones"
    kind = _choose_states(method, known, pilot, notes)
    if method.ball is None and method.radius is None and not kind.table:
        refuse_unstated(known.layout)
    instruments = _choose_instruments(method, known, pilot, requested, kind, notes)
    rows = (certified.rows.start, certified.rows.stop)
    if instruments.provenance.saw(rows, certified.log_hash):
        raise TunedOnCertifiedRows(
            f"W was tuned on rows {instruments.provenance.rows}, the interval would certify rows {rows}. W must not see the "
            "rows it is used on: tune on earlier rows, or certify later ones (problem.select)."
        )
    ball = _choose_class(method, certified, pilot, kind, notes)
    budget = ErrorBudget.split(alpha, _shares(sampled_start(certified, sides) is not None))
    gauge = _choose_noise_bound(method, certified, instruments, ball, budget["noise"])
    notes["noise"] = gauge.describe()
    initial = budget.get("initial")
    sums = EngineSums.named(method.engine)
    return Setting(certified, ball, instruments, gauge, budget["noise"], initial, sides, sums), budget, notes


def _any_time(gauge: str | NoiseBound) -> bool:
    """Whether it was given for a number of rows that may be a stopping time."""
    return not isinstance(gauge, str) and gauge.any_time


def _shares(sampled: bool) -> dict[str, float]:
    """How alpha is divided; fixed here, before any data are seen."""
    return {"noise": 1.0 - INITIAL_SHARE, "initial": INITIAL_SHARE} if sampled else {"noise": 1.0}


def kind_of_states(method: Dual, problem: Rows) -> StateKind:
    """What the dual method takes the states of a log for."""
    return _choose_states(method, problem, tuning_problem(problem, pilot_rows(method, problem)), {})


def _choose_states(method: Dual, problem: Rows, pilot: Rows | None, notes: dict[str, str]) -> StateKind:
    """Names or numbers, from the pilot alone; without a pilot from all rows, and then only a statement reaches W."""
    if method.ball is not None and method.instruments is not None:
        return StateKind(False, (), "")
    stated = method.radius if method.ball is None else method.ball
    kind = kind_of_class(stated, method.choices, problem.first_block() if pilot is None else pilot)
    notes["states"] = kind.description
    return kind


def _choose_instruments(
    method: Dual, problem: Rows, pilot: Rows | None, requested: int, kind: StateKind, notes: dict[str, str]
) -> Instruments:
    """W as given, or picked on the pilot with a Q that is made from the pilot alone."""
    declared, table = bool(method.choices.categorical), _table_weights(method, kind)
    if method.instruments is not None:
        instruments: Instruments = method.instruments
    elif table and pilot is None and declared:
        instruments = Instruments(table_kernel(0.5))
    elif pilot is None:  # columns of names that were looked up were looked up in certified rows
        instruments = default_instruments(
            problem, None, method.choices, kind.columns if declared else (), method.advanced
        )
    else:
        instruments, notes["W picked"] = _pick(method, problem, pilot, requested, kind)
    notes["W"] = f"{instruments.kernel!r} ({instruments.provenance})"
    return instruments


def _pick(method: Dual, problem: Rows, pilot: Rows, requested: int, kind: StateKind) -> tuple[Instruments, str]:
    ahead, limits = _rows_ahead(method, problem, requested), range_at_all_times(pilot.terms)
    if _table_weights(method, kind):
        return pick_table(pilot, ahead, _box(pilot), method.advanced.constant_share)
    plain = default_instruments(problem, pilot, method.choices, kind.columns, method.advanced)
    kernel = default_value_kernel(pilot, method.choices, kind.columns)
    ball, _ = paper_ball(pilot, kernel, plain, limits)  # only ranks candidates: whatever Q is, any W is valid
    return pick_instruments(pilot, ahead, ball, method.choices, kind.columns, method.advanced)


def _table_weights(method: Dual, kind: StateKind) -> bool:
    """Whether W is a table; a bandwidth speaks of features, whatever states are."""
    return kind.table and method.choices.weight_bandwidth is None


def _rows_ahead(method: Dual, problem: Rows, requested: int) -> int:
    """How many rows W is picked for: never the number that a stopping time happened to give."""
    if method.planned_rows is None and _any_time(method.gauge):
        return max(_NOMINAL * requested, 1)
    return max(planned_length(problem, method.planned_rows) - requested, 1)


def _choose_class(
    method: Dual, certified: Rows, pilot: Rows | None, kind: StateKind, notes: dict[str, str]
) -> ValueClass:
    """Q as given; else the box where states are names, which assumes nothing."""
    if method.ball is not None:
        return _with_allowance(method, method.ball, notes)
    if kind.table and method.radius is None:
        box = _box(certified)
        notes["Q"] = f"every function with values in the value range: half-width {box.radius:.6g}, nothing is assumed"
        return _with_allowance(method, box, notes)
    assert method.radius is not None  # refused before
    kernel = default_value_kernel(certified, method.choices, kind.columns)
    plain = partial(default_instruments, certified, pilot, method.choices, kind.columns, method.advanced)
    fitted = certified.first_block() if pilot is None else pilot
    ball, notes["Q"] = ball_of_radius(method.radius, certified, fitted, plain, kernel)
    return _with_allowance(method, ball, notes)


def _with_allowance(method: Dual, ball: ValueClass, notes: dict[str, str]) -> ValueClass:
    notes.setdefault("Q", f"{ball.name()} ({ball.provenance})")
    return ball.with_misspecification(method.misspecification) if method.misspecification else ball


def _box(problem: Rows) -> Box:
    limits = range_at_all_times(problem.terms)
    return Box.around(limits.low, limits.high, problem.layout)


def _choose_noise_bound(
    method: Dual, problem: Rows, instruments: Instruments, ball: ValueClass, probability: float
) -> NoiseBound:
    """The one that was passed; else by name. "half" means fixed lambda when ranges differ by time or n is a stopping time."""
    if not isinstance(method.gauge, str):
        return method.gauge
    name, planned = method.gauge, method.planned_rows
    if name == "half" and (planned is not None or problem.terms.horizon is not None):
        name = FIXED_LAMBDA
    rows = planned_length(problem, planned)
    if name == FIXED_LAMBDA:
        size = mean_square_width(problem.terms)
        sup_diag = instruments.kernel.sup_diag
        return FixedLambda.planned(rows, probability=probability, sup_diag=sup_diag, mean_square_width=size)
    if name in get_args(ConstantName):
        if planned is not None:
            raise InvalidInput(
                "planned_rows works with gauge='half' and gauge='finite', whose lambda is fixed beforehand, and with "
                "gauge='self-normalized', whose rho is."
            )
        return Pinelis(name)  # type: ignore[arg-type]
    if name not in added_gauges():
        known = ", ".join(map(repr, (*get_args(ConstantName), FIXED_LAMBDA, *added_gauges())))
        raise InvalidInput(f"gauge={method.gauge!r}; choose {known} or pass a noise bound.")
    return added_gauges()[name](GaugeQuestion(problem, instruments, ball, probability, rows, method.rank))


def mean_square_width(terms: Terms) -> float:
    """Average of B_t^2 over the times of the horizon: known beforehand, so it may set lambda.

    Any lambda fixed beforehand is valid: over a long horizon the average is taken at evenly spaced times.
    """
    horizon = 1 if terms.horizon is None else terms.horizon
    count = min(horizon, _MAX_TIMES)
    middles = [(2 * k + 1) * horizon // (2 * count) for k in range(count)]  # of `count` equal stretches
    return float(np.mean(np.square([range_of(terms, time).width for time in middles])))
