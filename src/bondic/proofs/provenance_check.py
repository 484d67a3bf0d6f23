"""What a certificate says about where its choices come from: compared with the log where it can be, named where not.

Nobody can see in a certificate how W, the certified rows and the initial states were picked. What can be compared is
compared; the rest is listed, so that it is not taken for checked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bondic.bounds.dual import Setting, dual_bound
from bondic.bounds.weighing import Weighing
from bondic.claims import Claim, End
from bondic.classes.ball import Ball
from bondic.classes.provenance import Provenance
from bondic.data.initial import InitialStates
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput, VerificationError
from bondic.identity.measure import start_measure
from bondic.kernels.base import fingerprint
from bondic.kernels.normal_form import normal_form
from bondic.rounding import Enclosure
from bondic.sums.quadratic import quadratic_form
from bondic.sums.streamed import Batch
from bondic.sums.total_variation import total_variations

_SHOWN_STATES, _SHOWN_NUMBERS = 3, 4
_UNMOVED = 1e-3
"""An end that the log moves by less than this share of the value range is what Q says without it."""


@dataclass(frozen=True)
class Finding:
    """What was compared, and what is the certificate's own statement; `headline` if no reader may miss it."""

    checks: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    headline: tuple[str, ...] = ()


def check_instruments(setting: Setting, log: Transitions | LogStream) -> Finding:
    """W must not have seen the certified rows: their positions can be compared, its history cannot."""
    rows, provenance = setting.problem.rows, setting.instruments.provenance
    for used in (provenance, *(test.instruments.provenance for test in setting.tests)):
        if used.saw((rows.start, rows.stop), log.content_hash):
            raise VerificationError("W, or a test of Q, was tuned on rows that it certifies, or on rows after them.")
    if provenance.rows is None:
        text = f"that W was picked without the certified rows: it is only stated ({provenance.note})"
        return Finding(unchecked=(text,))
    where = f"rows {provenance.rows[0]}..{provenance.rows[1] - 1}"
    if provenance.log_hash != log.content_hash:
        return Finding(unchecked=(f"where W comes from: it is said to come from {where} of another log",))
    return Finding(
        (f"W is said to come from {where} of this log, which precede the certified ones",),
        ("whether W was really picked on those rows alone",),
    )


def check_rows(setting: Setting, log_rows: int) -> Finding:
    """Which rows are certified; rows left out after them may have been left out because of what they say."""
    rows = setting.problem.rows
    front, end = rows.start, log_rows - rows.stop
    text = f"certified are rows {rows.start}..{rows.stop - 1} of {log_rows}"
    left = [f"{count} {where} them" for count, where in ((front, "before"), (end, "after")) if count]
    checks = (f"{text}; left out: {', '.join(left)}" if left else text,)
    unchecked = []
    if front and not any(
        _reaches(choice, front) for choice in (setting.instruments.provenance, setting.ball.provenance)
    ):
        unchecked.append(f"why the first {front} rows were left out: neither W nor Q is said to come from them")
    if end:
        unchecked.append(f"why the last {end} rows were left out: the end may have been picked with the rows in view")
    return Finding(checks, tuple(unchecked), (f"the choice of rows ({end} left out at the end)",) if end else ())


def _reaches(provenance: Provenance, front: int) -> bool:
    return provenance.rows is not None and provenance.rows[1] >= front


def describe_start(states: InitialStates) -> str:
    """Number, kind, fingerprint and the first initial states."""
    rows = [_state(row) for row in states.observations[:_SHOWN_STATES]]
    more = ", …" if len(states) > _SHOWN_STATES else ""
    distinct = np.unique(states.observations, axis=0).shape[0]
    copies = f", {distinct} of them distinct" if distinct < len(states) else ""
    kind = "exact list" if states.kind == "exact" else "sample"
    count = "1 state" if len(states) == 1 else f"{len(states)} states"
    print_of = fingerprint(states.observations, states.weights)
    return f"{kind} of {count}{copies}: {', '.join(rows)}{more} (sha256 {print_of})"


def _state(row: np.ndarray) -> str:
    more = ", …" if row.size > _SHOWN_NUMBERS else ""
    return "[" + ", ".join(f"{value:.4g}" for value in row[:_SHOWN_NUMBERS]) + more + "]"


def check_start(setting: Setting, log: Transitions | LogStream, given: InitialStates | None) -> Finding:
    """The initial states against those given, or a sample against the episode starts of the log."""
    states = setting.problem.initial_states
    text = describe_start(states)
    if given is not None:
        return Finding((f"initial states are those given: {text}",))
    if states.kind == "sample" and _is_from_log(states, log):
        return Finding((f"initial states are the episode starts of the log: {text}",))
    other = ", and no episode starts of this log" if states.kind == "sample" else ""
    return Finding(
        unchecked=(
            f"the initial distribution, which is the certificate's own statement{other}: {text}; pass initial= (--initial "
            "FILE) to compare",
        )
    )


def _is_from_log(states: InitialStates, log: Transitions | LogStream) -> bool:
    """A number that was not fixed beforehand stands for all starts; a fixed one for the first of them."""
    try:
        starts = InitialStates.from_log(log).observations
    except InvalidInput:  # no episodes to be told apart, or they do not begin at their first step
        return False
    wanted = starts[: len(states)] if states.count_fixed else starts
    return np.array_equal(wanted, states.observations)


def check_use_of_log(setting: Setting, claims: tuple[Claim, ...]) -> Finding:
    """Ends inside the value range that omega = 0 gives as well, or nearly: the log was not used, they repeat Q."""
    limits, alone = setting.range(), _without_log(setting, tuple(claim.end for claim in claims))
    unchecked, headline = [], []
    for claim, without in zip(claims, alone, strict=True):
        if claim.gain(limits) > 0 and claim.gain(without) <= _UNMOVED * limits.width:
            unchecked.append(f"the {claim.end} end against the log: the log was not used for this end, it repeats Q")
            headline.append(f"the {claim.end} end, which repeats Q")
    return Finding(unchecked=tuple(unchecked), headline=tuple(headline))


def _without_log(setting: Setting, ends: tuple[End, ...]) -> tuple[Claim, ...]:
    """The end points at omega = 0: what Q says about the initial states, from no row at all."""
    start, ball = start_measure(setting.problem), setting.ball
    if isinstance(ball, Ball):
        terms = normal_form(ball.kernel, setting.problem.layout)
        size = quadratic_form(terms, start.points, start.weights, weight_error=start.error).sqrt()
    else:
        (size,) = total_variations([Batch(start.points, start.weights[None], start.error)], 1)
    nothing = Weighing(Enclosure(0.0), Enclosure(0.0), size, eta=0.0, effective=0.0)
    return dual_bound(setting, None, ends, weighing=nothing)
