"""The certificate: a proof as data, what it claims, and one digest over all of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.certificate import known
from bondic.core.certificate.asked import Asked
from bondic.core.certificate.limits import check_arrays, check_counts, check_values, refuse
from bondic.core.certificate.proof import Claims, Proof
from bondic.core.claims import Assumption, Conclusion
from bondic.core.codec import Encoder, decode
from bondic.core.kernels.normal_form import Layout

UserFunctions = Mapping[str, Callable[..., Any]]

FORMAT = "bondic certificate 6"
"""Raised with every change of what is stored, the wording of assumptions included: verification compares it."""
_PARTS = {"format", "proof", "claims", "conclusion", "assumptions", "planner", "information"}


@dataclass(frozen=True, eq=False)
class Certificate:
    """`body` is JSON data, `arrays` what it refers to; `digest` covers both."""

    body: dict[str, Any]  # what was asked, the proof, what it shows, and the result: JSON data
    arrays: Mapping[str, npt.NDArray[Any]]  # the arrays that the body refers to, by name
    digest: str = field(default="")  # of both; left out, it is computed

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", compute_digest(self.body, self.arrays))

    @property
    def low(self) -> float:
        return self.conclusion.low

    @property
    def high(self) -> float:
        return self.conclusion.high

    @property
    def asked(self) -> Asked:
        """What was asked: enough to make the rows that the proof is about."""
        spec = self.body["proof"]
        refuse(type(spec) is not dict or "asked" not in spec, "proof.asked is missing: what was asked.")
        found: Asked = self._read(Asked, spec["asked"], "proof.asked")
        return found

    @property
    def claims(self) -> Claims:
        found: Claims = self._read(Claims, self.body["claims"], "claims")
        return found

    @property
    def conclusion(self) -> Conclusion:
        found: Conclusion = self._read(Conclusion, self.body["conclusion"], "conclusion")
        return found

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        found: tuple[Assumption, ...] = self._read(tuple[Assumption, ...], self.body["assumptions"], "assumptions")
        return found

    def proof(self, layout: Layout, functions: UserFunctions | None = None) -> Proof:
        """The proof itself, for points of this layout; `functions` are feature functions of the user, by their labels."""
        assert known.HOMES  # what the library itself writes can be read
        supplies = {"layout": layout, "functions": functions or {}}
        found: Proof = self._read(Proof, self.body["proof"], "proof", **supplies)
        return found

    def _read(self, annotation: Any, data: Any, place: str, **supplies: Any) -> Any:
        return decode(annotation, data, self.arrays, place, **supplies)

    def with_proof(self, proof: Proof) -> Certificate:
        """The same claims with the proof in another form."""
        encoder = Encoder()
        body = self.body | {"proof": encoder.encode(proof, "")}
        kept = {name: array for name, array in self.arrays.items() if name.startswith("planner.")}
        return Certificate(body, {**encoder.arrays, **kept})

    @property
    def planner(self) -> Any:
        """How the plan of the proof was made, as plain data and not believed: the method, its options, the first row it saw."""
        return self.body["planner"]

    def with_choices(self, choices: dict[str, str]) -> Certificate:
        """The same proof and claims beside other words on how choices came about."""
        return Certificate(self.body | {"information": {**self.body["information"], "choices": choices}}, self.arrays)

    def __repr__(self) -> str:
        return f"Certificate([{self.low:.6g}, {self.high:.6g}], digest={self.digest[:12]})"


def certify(
    proof: Proof,
    claims: Claims,
    conclusion: Conclusion,
    assumptions: tuple[Assumption, ...],
    information: dict[str, Any] | None = None,
    planner: dict[str, Any] | None = None,
) -> Certificate:
    """Write down everything a stranger needs; `information` (estimate, gap, versions) is not part of the proof.

    `planner` says how its plan was made: a replay reads it. Its arrays have names of their own.
    """
    encoder, planned = Encoder(), Encoder()
    parts = {
        "claims": claims,
        "conclusion": conclusion,
        "assumptions": assumptions,
        "information": information or {},
    }
    body = {"format": FORMAT, "proof": encoder.encode(proof, ""), "planner": planned.encode(planner, "planner")}
    body |= {name: encoder.encode(part, name) for name, part in parts.items()}
    return Certificate(body, {**encoder.arrays, **planned.arrays})


def compute_digest(body: dict[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """sha256 of the canonical JSON text and of every array with its name, type and shape."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True, allow_nan=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        portable = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"|{name}:{portable.dtype.str}:{portable.shape}|".encode())
        digest.update(portable.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def check_certificate(certificate: Certificate) -> None:
    """Format, sizes and texts, then what is claimed; VerificationError with the place of what does not belong there."""
    body = certificate.body
    refuse(type(body) is not dict, "The certificate is damaged: it is not a list of named values.")
    stated = body.get("format")
    refuse(stated != FORMAT, f"This is a certificate of format {stated!r}, and {FORMAT!r} is read: {_way_out(body)}.")
    refuse(
        set(body) != _PARTS, f"The certificate is damaged: it has the parts {', '.join(sorted(_PARTS))} and no others."
    )
    check_values(body)
    check_arrays(certificate.arrays)
    check_counts(body)
    for part in ("asked", "claims", "conclusion", "assumptions"):
        getattr(certificate, part)


def _way_out(body: dict[str, Any]) -> str:
    """What to do with a certificate of another format: the version that wrote it can verify it."""
    versions = information.get("versions") if isinstance(information := body.get("information"), dict) else None
    writer = versions.get("bondic") if isinstance(versions, dict) else None
    if not isinstance(writer, str):
        return "make it again with this version"
    return f"it was written by bondic {writer}; verify it with that version, or make it again with this one"
