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
from bondic.codec import Encoder
from bondic.functions.functions import Function
from bondic.rows import StreamedProblem

Spec = dict[str, Any]

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
    writer, problem = Encoder(), setting.problem
    streamed = isinstance(problem, StreamedProblem)
    body: Spec = {
        "format": FORMAT,
        "alpha": budget.alpha,
        "budget": dict(budget.parts),
        "side": side,
        "problem": {
            "log_hash": problem.log_hash,
            "terms": writer.encode(problem.terms, "terms"),
            "rows": [problem.rows.start, problem.rows.stop],
            "seed": problem.seed,
            "answers": {
                "next": None if streamed else writer.encode(problem.answers.next, "policy.next"),
                "initial": writer.encode(problem.answers.initial, "policy.initial"),
                "discrete": problem.answers.discrete,
                "exact": problem.answers.exact,
            },
            # answers at the next states of a streamed log are not stored: verification asks the policy again
            "streamed": {"batch_rows": problem.log.batch_rows, "draws": problem.draws}
            if isinstance(problem, StreamedProblem)
            else None,
            "initial": {
                "observations": writer.encode(problem.initial_states.observations, "initial.observations"),
                "weights": writer.encode(problem.initial_states.weights, "initial.weights"),
                "kind": problem.initial_states.kind,
                "count_fixed": problem.initial_states.count_fixed,
            },
        },
        "ball": writer.encode(setting.ball, "ball"),
        "instruments": writer.encode(setting.instruments, "instruments"),
        "gauge": writer.encode(setting.gauge, "gauge"),
        "ends": {
            claim.end: {"omega": _function(writer, omega, f"omega.{claim.end}"), "claim": claim_spec(claim)}
            for claim, omega in ends
        },
        "rejection": _rejection_spec(writer, setting, rejection, witnesses, tests),
        "claims": {"low": conclusion.low, "high": conclusion.high, "status": conclusion.status.name},
        "assumptions": [asdict(item) for item in assumptions],
        "information": information,
    }
    return Certificate(_plain(body), writer.arrays)


def _function(writer: Encoder, function: Function | None, name: str) -> Spec | None:
    return None if function is None or function.is_zero else writer.encode(function, name)


def _rejection_spec(
    writer: Encoder,
    setting: Setting,
    rejection: Rejection,
    witnesses: tuple[Function | None, ...],
    tests: tuple[tuple[Function | None, Rejection], ...],
) -> Spec:
    """What W says about Q, and what the further tests say, each with its instruments and witness."""
    return {
        "witnesses": [_function(writer, w, f"witness.{k}") for k, w in enumerate(witnesses)],
        "claim": asdict(rejection),
        "tests": [
            {
                "test": writer.encode(test, f"test.{k}"),
                "witness": _function(writer, witness, f"test.{k}.witness"),
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
