"""The certificate: a proof as plain data, what it claims, and one digest over all of it. It need not be trusted.

Every limit is far above what the library writes, and is looked at before the thing it limits is built.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import portions
from bondic.core.claims import Assumption, Conclusion
from bondic.core.codec import Encoder, decode
from bondic.core.errors import refuse
from bondic.core.proof import Claims, Estimand, Proof

FORMAT = "bondic certificate 10"
"""Raised with every change of what is stored, the wording of assumptions included: verification compares it."""
_PARTS = {"format", "proof", "claims", "conclusion", "assumptions", "planner", "information"}

DTYPES = ("f8", "f4", "i8", "b1")
MAX_MEMBERS, MAX_DEPTH, MAX_VALUES, MAX_DIGITS, MAX_LEAVES, MAX_FUNCTIONS = 4096, 40, 100_000, 40, 128, 256
LONGEST_STRING = 100_000
DAMAGED = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, TypeError,
    ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading and evaluating a damaged certificate can raise; RecursionError is a RuntimeError."""


@dataclass(frozen=True, eq=False)
class Certificate:
    """All that `verify` needs besides the log: the proof of an interval as data, and nothing that is run.

    Parameters
    ----------
    body : dict
        JSON data: the estimand, the proof, what it shows, and the result.
    arrays : dict of array
        The arrays that the body refers to, by name.
    digest : str
        Of body and arrays; computed where it is left out.
    """

    body: dict[str, Any]  # the estimand, the proof, what it shows, and the result: JSON data
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
    def estimand(self) -> Estimand:
        """The estimand: enough to make the rows that the proof is about."""
        spec = self.body["proof"]
        refuse(
            type(spec) is not dict or "estimand" not in spec,
            "proof.estimand is missing: what the certificate is about.",
        )
        found: Estimand = self._read(Estimand, spec["estimand"], "proof.estimand")
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

    def _read(self, annotation: Any, data: Any, place: str) -> Any:
        return decode(annotation, data, self.arrays, place)

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
    """Write down everything that verification needs; `information` (estimate, gap, versions) is not part of the proof.

    `planner` says how its plan was made: a replay reads it. Its arrays have names of their own.
    """
    proof.check_learned()
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
        array = np.atleast_1d(arrays[name])
        flat, kind = array.reshape(-1), array.dtype.newbyteorder("<")
        digest.update(f"|{name}:{kind.str}:{array.shape}|".encode())
        for some in portions(flat.size):  # equal weights of many starts are one number, however many there are
            digest.update(np.ascontiguousarray(flat[some], kind).view(np.uint8).data)
    return digest.hexdigest()


# --- what is refused before anything is built -----------------------------------------------------------


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
    for part in ("estimand", "claims", "conclusion", "assumptions"):
        getattr(certificate, part)


def _way_out(body: dict[str, Any]) -> str:
    """What to do with a certificate of another format: the version that wrote it can verify it."""
    versions = information.get("versions") if isinstance(information := body.get("information"), dict) else None
    writer = versions.get("bondic") if isinstance(versions, dict) else None
    if not isinstance(writer, str):
        return "make it again with this version"
    return f"it was written by bondic {writer}; verify it with that version, or make it again with this one"


def check_values(body: Any) -> None:
    """Depth, number, length and type of all values: strings that can be printed, whole numbers of normal size."""
    stack, seen = [(body, 1)], 0
    while stack:
        value, depth = stack.pop()
        seen += 1
        refuse(depth > MAX_DEPTH, f"The certificate is nested more than {MAX_DEPTH} deep.")
        refuse(seen > MAX_VALUES, f"The certificate holds more than {MAX_VALUES} values.")
        if isinstance(value, dict):
            stack += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list):
            stack += [(part, depth + 1) for part in value]
        elif isinstance(value, str):
            _check_string(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            refuse(abs(value) >= 10**MAX_DIGITS, f"The certificate holds a whole number of over {MAX_DIGITS} digits.")
        else:
            refuse(not (value is None or isinstance(value, bool | float)), f"The certificate holds a {type(value)}.")


def _check_string(text: str) -> None:
    refuse(len(text) > LONGEST_STRING, f"The certificate holds a text of {len(text)} characters.")
    refuse(not text.isprintable(), f"The certificate holds text that cannot be printed (control characters): {text}")


def check_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Plain finite numbers of the types that certificates are written with."""
    refuse(len(arrays) > MAX_MEMBERS, f"The certificate holds more than {MAX_MEMBERS} arrays.")
    for name, array in arrays.items():
        _check_string(name)
        known = isinstance(array, np.ndarray) and array.dtype.str[1:] in DTYPES
        refuse(not known, f"The array {name} is of type {getattr(array, 'dtype', type(array))}, not of {DTYPES}.")
        refuse(not np.all(np.isfinite(array)), f"The array {name} holds a number that is not finite.")


_BRANCHES = ("sum", "product", "scaled")


def check_counts(body: Any) -> None:
    """Parts of kernels and number of functions, before any of them is built."""
    functions = sum("function" in node for node in _objects(body))
    refuse(functions > MAX_FUNCTIONS, f"The certificate holds {functions} functions, more than {MAX_FUNCTIONS}.")
    for node in _objects(body):
        if node.get("kernel") in _BRANCHES:
            leaves = sum(
                isinstance(part.get("kernel"), str) and part["kernel"] not in _BRANCHES for part in _objects(node)
            )
            refuse(leaves > MAX_LEAVES, f"A kernel of the certificate has {leaves} parts, more than {MAX_LEAVES}.")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack += node.values()
        elif isinstance(node, list):
            stack += node
