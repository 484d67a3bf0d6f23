"""inspect_log: what looks wrong in a log, before any question is asked of it."""

from __future__ import annotations

from bondic.data.hygiene.findings import Finding
from bondic.data.log import Log, is_log
from bondic.errors import InvalidInput


def inspect_log(log: Log, *, gamma: float | None = None, horizon: int | None = None) -> tuple[Finding, ...]:
    """Faults that would move an interval without a word, the worst first; `make_problem` refuses or warns by them.

    Looked for: next observations that are not the following observation or were filled in, states of the next episode where
    one was cut, rows of a resetting environment, missing rows and episodes, time limits recorded as terminations, copies of
    rows and whole stretches, rewards in another unit from some row on. With `gamma` and `horizon` of the question, ends that
    are natural for it are not reported.
    """
    if not is_log(log):
        raise InvalidInput(f"inspect_log(log) needs Transitions or a stream, not {type(log).__name__}: see read_log.")
    return log.inspection.findings(gamma=gamma, horizon=horizon)
