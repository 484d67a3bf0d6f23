"""What methods share: stages with their times, options that are checked by name, and how a plan was made as plain data."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import wraps
from typing import Any, TypeVar

from bondic.core.claims import Claim
from bondic.core.codec import Decoder, field_types
from bondic.core.dual.bound import VALUE
from bondic.core.errors import InvalidInput, one_line, refuse
from bondic.core.proof import Proof
from bondic.core.sequential.ends import decided_by_rows
from bondic.errors import did_you_mean
from bondic.rows import Rows

Progress = Callable[[str, float], None]
"""Called with the name of a stage and the share of it that is done."""


class Clock:
    """Stages with their times, reported to the progress callback."""

    def __init__(self, progress: Progress | None) -> None:
        self.progress, self.seconds, self._last = progress, {}, time.perf_counter()  # type: ignore[var-annotated]

    def stage(self, name: str) -> Callable[[float], None]:
        def report(share: float) -> None:
            if self.progress is not None:
                self.progress(name, share)

        report(0.0)
        return report

    def done(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
        if self.progress is not None:
            self.progress(name, 1.0)


Kind = TypeVar("Kind", bound=type)
AnyProof = TypeVar("AnyProof", bound=Proof)


def listing_options(kind: Kind) -> Kind:
    """The dataclass, whose constructor names its options where it is given one that it has not."""
    names, made = [field.name for field in fields(kind) if field.init], kind.__init__  # type: ignore[misc]

    @wraps(made)
    def checked(self: Any, *values: Any, **options: Any) -> None:
        for name in options:
            if name not in names:
                raise InvalidInput(
                    f"{kind.__name__} has no option `{one_line(name)}`.{did_you_mean(name, names)} It has {', '.join(names)}."
                )
        made(self, *values, **options)

    kind.__init__ = checked  # type: ignore[misc]
    return kind


OUTSIDE = ("engine", "solver")
"""Options without a part in a plan: how sums are computed, and where an ω comes from, which may have seen every row."""


def options_of(method: Any) -> dict[str, Any]:
    """The options of a method that have a part in its plan, by name."""
    found = {field.name: getattr(method, field.name) for field in fields(method) if field.name not in OUTSIDE}
    if "advanced" in found:
        found["advanced"] = replace(found["advanced"], candidates=())
    return found


def read_options(kind: type[Any], data: Any, decoder: Decoder, place: str) -> dict[str, Any]:
    """The same, read from plain data; VerificationError where they are not those of the method."""
    names = [field.name for field in fields(kind) if field.name not in OUTSIDE]
    refuse(set(data) != set(names), f"Other options than those of the method {kind.name}: {', '.join(data)}.")
    types: dict[str, Any] = field_types(kind)  # type: ignore[arg-type]
    return {name: decoder.decode(types[name], data[name], f"{place}.{name}") for name in names}


def describe(name: str, method: Any, problem: Rows) -> dict[str, Any]:
    """What a replay needs besides the log, the policy's answers and alpha (`bondic.methods.replay` reads it)."""
    return {"method": name, "first": problem.rows.start, "options": options_of(method)}


def planned_length(problem: Rows, planned_rows: int | None) -> int:
    """A number of rows that is known before the log: the length of a log may be a stopping time."""
    return len(problem.rows) if planned_rows is None else planned_rows


def estimate_of(claims: Iterable[Claim]) -> tuple[float, dict[str, str]]:
    """The mean of the doubly robust values of the ends that rows decide, and where it comes from; NaN where there is none."""
    values = {claim.end: claim[VALUE].mid for claim in claims if decided_by_rows(claim)}
    if not values:
        return math.nan, {}
    source = f"doubly robust, by the weights of the {' and '.join(values)} end"
    return sum(values.values()) / len(values), {"estimate": source}


def check_proof(proof: Proof, kind: type[AnyProof], name: str) -> AnyProof:
    """The proof, if it is one of the method of this name."""
    refuse(not isinstance(proof, kind), f"The proof is not one of the method {name}.")
    assert isinstance(proof, kind)
    return proof
