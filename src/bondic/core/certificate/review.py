"""What a certificate says about where its choices come from: compared with the log where it can be, named where not.

Nobody can see in a certificate how W, the certified rows and the initial states were picked. What can be compared is
compared; the rest is listed, so that it is not taken for checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bondic.core.classes.provenance import Provenance
from bondic.core.codec import instances
from bondic.core.columns import RowRange, Starts
from bondic.core.kernels.base import fingerprint
from bondic.core.registry import from_outside, registered

_SHOWN_STATES, _SHOWN_NUMBERS = 3, 4


@dataclass(frozen=True)
class Review:
    """What was compared, and what is the certificate's own statement; `headline` if no reader may miss it."""

    checks: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    headline: tuple[str, ...] = ()

    @staticmethod
    def all_of(reviews: Sequence[Review]) -> Review:
        checks, unchecked, headline = zip(*((f.checks, f.unchecked, f.headline) for f in reviews), strict=True)
        return Review(sum(checks, ()), sum(unchecked, ()), sum(headline, ()))


def check_origin(proof: object) -> Review:
    """Proofs, kernels, functions, classes and noise bounds from outside the library: their own code was run and believed."""
    outside = {type(value) for value in instances(proof, object) if from_outside(value)}
    names = {cls: name for cls in outside if (name := registered(cls)) is not None}
    known = sorted(f"the {kind} {name!r} of the module {cls.__module__}" for cls, (kind, name) in names.items())
    unchecked = tuple(
        f"{one} is not part of bondic: its formulas were run, whether they are true is not known" for one in known
    )
    return Review(unchecked=unchecked, headline=tuple(known))


def check_rows(rows: RowRange, log_rows: int, choices: tuple[Provenance, ...]) -> Review:
    """Which rows are certified; rows left out after them may have been left out because of what they say."""
    front, end = rows.start, log_rows - rows.stop
    text = f"certified are rows {rows.start}..{rows.stop - 1} of {log_rows}"
    left = [f"{count} {where} them" for count, where in ((front, "before"), (end, "after")) if count]
    checks = (f"{text}; left out: {', '.join(left)}" if left else text,)
    unchecked = []
    if front and not any(choice.rows is not None and choice.rows[1] >= front for choice in choices):
        unchecked.append(f"why the first {front} rows were left out: no choice of the proof is said to come from them")
    if end:
        unchecked.append(f"why the last {end} rows were left out: the end may have been picked with the rows in view")
    return Review(checks, tuple(unchecked), (f"the choice of rows ({end} left out at the end)",) if end else ())


def describe_start(states: Starts) -> str:
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
