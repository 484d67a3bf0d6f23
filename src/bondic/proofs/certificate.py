"""The certificate: specs, arrays and claims, with one digest over all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.bounds.dual import Setting
from bondic.claims import Assumption, Claim, Conclusion, ErrorBudget, Rejection
from bondic.classes.ball import Ball
from bondic.classes.value_class import ValueClass
from bondic.functions.functions import Function
from bondic.proofs.spec import Arrays, Spec, Writer

FORMAT = "bondic certificate 4"
"""Raised with every change of what is stored, the wording of assumptions included: verification compares it."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """`body` is JSON data, `arrays` what it refers to; `digest` covers both."""

    body: Spec
    arrays: Mapping[str, npt.NDArray[Any]]
    digest: str = field(default="")

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", compute_digest(self.body, self.arrays))

    @property
    def low(self) -> float:
        return float(self.body["claims"]["low"])

    @property
    def high(self) -> float:
        return float(self.body["claims"]["high"])

    def __repr__(self) -> str:
        return f"Certificate([{self.low:.6g}, {self.high:.6g}], digest={self.digest[:12]})"


def compute_digest(body: Spec, arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """sha256 of the canonical JSON text and of every array with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        portable = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"|{name}:{portable.dtype.str}:{portable.shape}|".encode())
        digest.update(portable.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def claim_spec(claim: Claim) -> Spec:
    """One end point: its parts as they are added, every size as [value, error], and what they come to."""
    parts = [{"name": part.name, "role": part.role, "size": [part.size.mid, part.size.rad]} for part in claim.parts]
    return {"bound": claim.bound, "rounding": claim.rounding, "uses_log": claim.uses_log, "parts": parts}


def make_certificate(
    setting: Setting,
    budget: ErrorBudget,
    *,
    side: str,
    ends: Sequence[tuple[Claim, Function | None]],
    rejection: Rejection,
    witnesses: tuple[Function | None, ...],
    tests: tuple[tuple[Function | None, Rejection], ...] = (),
    conclusion: Conclusion,
    assumptions: tuple[Assumption, ...],
    information: Spec,
) -> Certificate:
    """Write down everything a stranger needs; `information` (estimate, gap, versions) is not part of the proof."""
    writer = Writer()
    problem, ball = setting.problem, setting.ball
    answers = problem.stored_answers()
    body: Spec = {
        "format": FORMAT,
        "alpha": budget.alpha,
        "budget": dict(budget.parts),
        "side": side,
        "problem": {
            "log_hash": problem.log_hash,
            "terms": asdict(problem.terms),
            "rows": [problem.rows.start, problem.rows.stop],
            "seed": problem.seed,
            "answers": {
                # those at the next states of a log that is read in batches are not stored: the policy is asked again
                "next": None if answers is None else writer.array("policy.next", answers),
                "initial": writer.array("policy.initial", problem.answers.initial),
                "discrete": problem.answers.discrete,
                "exact": problem.answers.exact,
            },
            "asked": {
                "draws": problem.answers.draws,
                "initial_draws": None if problem.answers.discrete else int(problem.answers.initial.shape[1]),
            },
            "initial": {
                "observations": writer.array("initial.observations", problem.initial_states.observations),
                "weights": writer.array("initial.weights", problem.initial_states.weights),
                "kind": problem.initial_states.kind,
                "count_fixed": problem.initial_states.count_fixed,
            },
        },
        "ball": _class_spec(writer, ball),
        "instruments": {
            "kernel": writer.kernel(setting.instruments.kernel, "w"),
            "provenance": asdict(setting.instruments.provenance),
        },
        "gauge": writer.gauge(setting.gauge),
        "ends": {
            claim.end: {"omega": writer.function(omega, f"omega.{claim.end}"), "claim": claim_spec(claim)}
            for claim, omega in ends
        },
        "rejection": _rejection_spec(writer, setting, rejection, witnesses, tests),
        "claims": {"low": conclusion.low, "high": conclusion.high, "status": conclusion.status.name},
        "assumptions": [asdict(item) for item in assumptions],
        "information": information,
    }
    return Certificate(_plain(body), writer.arrays)


def _class_spec(writer: Writer, ball: ValueClass) -> Spec:
    """Q; without a kernel it is the box, whose norm is the largest deviation."""
    return {
        "kernel": writer.kernel(ball.kernel, "q") if isinstance(ball, Ball) else None,
        "radius": ball.radius,
        "center": writer.function(ball.center, "center"),
        "misspecification": ball.misspecification,
        "provenance": asdict(ball.provenance),
        "origin": ball.origin,
    }


def _rejection_spec(
    writer: Writer,
    setting: Setting,
    rejection: Rejection,
    witnesses: tuple[Function | None, ...],
    tests: tuple[tuple[Function | None, Rejection], ...],
) -> Spec:
    """What W says about Q, and what the further tests say, each with its instruments and witness."""
    return {
        "witnesses": [writer.function(w, f"witness.{k}") for k, w in enumerate(witnesses)],
        "claim": asdict(rejection),
        "tests": [
            {
                "name": test.name,
                "kernel": writer.kernel(test.instruments.kernel, f"test.{k}"),
                "provenance": asdict(test.instruments.provenance),
                "probability": test.probability,
                "witness": writer.function(witness, f"test.{k}.witness"),
                "claim": asdict(found),
            }
            for k, (test, (witness, found)) in enumerate(zip(setting.tests, tests, strict=True))
        ],
    }


def _plain(value: Any) -> Any:
    """The same data after a JSON round trip, so that digests agree before and after saving."""
    return json.loads(json.dumps(value, allow_nan=True, default=_scalar))


def _scalar(value: Any) -> Any:
    """A numpy number as the Python number it is."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} does not belong into a certificate")


__all__ = ["FORMAT", "Arrays", "Certificate", "claim_spec", "compute_digest", "make_certificate"]
