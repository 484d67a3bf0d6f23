"""What an answer will cost, said before the work begins; what would take days is refused with the way out.

    seconds of one core = 3 sums over all points (by pairs where nothing better is known) + rows × landmarks² × 1e-8

as measured (benchmarks/many_actions.py). A guess, right within a factor of two or three on a machine that does nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from bondic.core.balls import ValueClass
from bondic.core.errors import InvalidInput
from bondic.engines.threads import cores
from bondic.rendering import three
from bondic.rows import Rows
from bondic.search.sequential.basis import PointSlots
from bondic.search.sequential.plan import MOST_LANDMARKS
from bondic.tuning.defaults import FEWEST_ROWS, Choices, Radius, default_value_kernel, seconds_of_sums

BYTES_PER_NUMBER = 100
"""Memory of the sequential interval for each row and landmark, as measured: plan and evaluation hold several copies."""
MOST_BYTES = 8_000_000_000
_FEWEST_LANDMARKS = 50
"""With fewer landmarks the set of value functions that is left of Q is too coarse, unless the log has no more pairs."""
_STEP = 1e-8
"""Seconds for each row and pair of landmarks."""
_WORTH_SAYING = 60.0
_MOST_SECONDS = 2 * 86_400.0
"""Of one core: two days."""


@dataclass(frozen=True)
class Effort:
    """Seconds of one core and bytes, about.

    Parameters
    ----------
    rows : int
        Rows of the log.
    actions : int
        Discrete actions; 1 for continuous ones.
    sums : float
        Seconds for the sums over all points.
    others : float
        Seconds for everything that is linear in the rows.
    memory : float
        Bytes.
    """

    rows: int
    actions: int
    sums: float
    others: float
    memory: float

    @property
    def seconds(self) -> float:
        """On the cores that there are."""
        return (self.sums + self.others) / cores()

    def words(self) -> str:
        """One line; empty where it is not worth a word."""
        if self.seconds < _WORTH_SAYING:
            return ""
        size = f"{self.rows} rows" + (f" with {self.actions} actions" if self.actions > 1 else "")
        return f"{size}: about {_duration(self.seconds)} and {three(self.memory / 1e9)} GB"

    def check(self) -> None:
        """InvalidInput where it would take days."""
        if self.sums > _MOST_SECONDS:
            raise InvalidInput(
                f"The sums over all pairs of points of these {self.rows} rows would take about "
                f"{_duration(self.sums / cores())}. Use a Q whose sums are linear in the rows, such as method=Sequential("
                "ball=Ball(GaussianSeries(...) * Dirac() + Constant(1.0), radius)), fewer rows (problem[:100_000]), or fewer "
                "columns (round or leave out what does not matter: equal states are summed once). A method that is named, such "
                "as method=Sequential(ball=...) or --method sequential, is not refused."
            )


def forecast(
    problem: Rows,
    ball: ValueClass | None = None,
    choices: Choices | None = None,
    planned: int | None = None,
    radius: Radius | None = None,
) -> Effort:
    """For the default method, from the first block of the rows; logs of fewer than 20 000 rows take no time worth a word."""
    rows = len(problem.rows) if planned is None else planned
    actions = problem.layout.slots
    if rows < FEWEST_ROWS:
        return Effort(rows, actions, 0.0, 0.0, 0.0)
    first, said = problem.first_block(), Choices() if choices is None else choices
    sums = 0.0  # of a table, or where nothing is stated about numbers
    kernel = None if ball is None else ball.kernel
    if kernel is not None or radius is not None:
        kernel = default_value_kernel(first, said, planned=rows) if kernel is None else kernel
        sums = seconds_of_sums(kernel, problem.layout, first.some_points(FEWEST_ROWS), rows)
    landmarks = min(MOST_LANDMARKS, MOST_BYTES // (BYTES_PER_NUMBER * rows))
    tables = 8.0 * 3 * actions * (rows + len(problem.initial_states))
    memory = BYTES_PER_NUMBER * rows * landmarks + tables
    if problem.log.plan is not None:  # read in batches, within what the user allows
        memory = min(memory, float(problem.log.plan.budget))
    return Effort(rows, actions, sums, _STEP * rows * landmarks**2, memory)


def room(problem: Rows) -> float:
    """Bytes that may be held: what the user allows for a log that is read in batches, less what reading it takes."""
    plan = problem.log.plan
    return float(MOST_BYTES if plan is None else max(min(plan.budget - plan.fixed, MOST_BYTES), 0))


def landmarks_that_fit(pilot: Rows, rows: int, room: float) -> int:
    """As many as there is room for; 0 where these are too few to follow the value function."""
    most = min(int(room / (BYTES_PER_NUMBER * rows)), MOST_LANDMARKS)
    if most >= _FEWEST_LANDMARKS:
        return most
    batch = pilot.whole()
    pairs = len(PointSlots(batch.logged, batch.slots).distinct(MOST_LANDMARKS))
    return most if most >= 2 * pairs else 0


def _duration(seconds: float) -> str:
    for size, name in ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * size:
            return f"{three(seconds / size)} {name}"
    return f"{seconds:.0f} seconds"
