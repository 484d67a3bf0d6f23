"""A certificate without single rows: for logs about people.

What is left out: the policy's answers row by row, and initial states that are a sample. Verification asks the policy
again and reads the initial states off the log (or is given them). What stays: kernels, omega as feature coordinates,
claims, and an exact list of initial states, which states the question and is nobody's row.

What cannot be withheld: omega written with landmark points. A landmark that fewer than five rows share *is* a row, and
such a certificate is refused; W made of random features has none. Numbers made from many rows (bandwidths, centers of
kernels, hashes) are not protected further: this is no differential privacy.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.codec import Arrays
from bondic.errors import InvalidInput
from bondic.proofs.certificate import Certificate, Spec
from bondic.rows import Question, StreamedProblem

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FEWEST_ROWS = 5
"""A point that at least this many rows share says nothing about one of them."""


def withhold_rows(certificate: Certificate, question: Question) -> Certificate:
    """The same claims and the same proof, with every single row left out.

    `question` is the one that was answered, pilot rows included: what was tuned on them may be made of them.
    """
    body, arrays = copy.deepcopy(certificate.body), dict(certificate.arrays)
    problem = body["problem"]
    if question.log_hash != problem["log_hash"]:
        raise InvalidInput("The certificate belongs to another log than the problem (content hashes differ).")
    _refuse_landmarks_that_are_rows(body, arrays, question)
    answers = question.answers
    draws = question.draws if isinstance(question, StreamedProblem) else question.next_draws
    problem["asked"] = {
        "draws": max(draws, 1),
        "initial_draws": None if answers.discrete else int(answers.initial.shape[1]),
    }
    _drop(problem["answers"], "next", arrays)
    if problem["initial"]["kind"] == "sample":
        _drop(problem["answers"], "initial", arrays)
        _drop(problem["initial"], "observations", arrays)
        problem["initial"]["from_log"] = question.initial_states.from_rows  # where verification finds them again
    return Certificate(body, arrays)


def _drop(spec: Spec, name: str, arrays: Arrays) -> None:
    if spec[name] is not None:
        arrays.pop(spec[name]["array"])
        spec[name] = None


def _refuse_landmarks_that_are_rows(body: Spec, arrays: Arrays, question: Question) -> None:
    functions = [
        body["ball"]["center"],
        *(end["omega"] for end in body["ends"].values()),
        *body["rejection"]["witnesses"],
        *(test["witness"] for test in body["rejection"]["tests"]),
    ]
    names = sorted({name for function in functions for name in _center_names(function)})
    if not names:
        return
    centers = np.unique(np.concatenate([arrays[name] for name in names]), axis=0)
    shared = _rows_sharing(question, centers, sampled=body["problem"]["initial"]["kind"] == "sample")
    alone = int(((shared > 0) & (shared < FEWEST_ROWS)).sum())
    if alone:
        raise InvalidInput(
            f"omega is written with {centers.shape[0]} landmark points, and {alone} of them are states of fewer than "
            f"{FEWEST_ROWS} rows: the certificate would show rows. Use a W with explicit features, for instance random "
            "features: Dual(choices=Choices(weight_bandwidth=1.0)) (--weight-bandwidth 1)."
        )


def _center_names(function: Any) -> list[str]:
    """Arrays of landmark points in the spec of a function."""
    if function is None or "coordinates" in function:
        return []
    parts = function.get("parts", [function])
    return [part["centers"]["array"] for part in parts]


def _rows_sharing(question: Question, centers: FloatArray, *, sampled: bool) -> IntArray:
    """How many rows share each center: as the logged point or as a next one, whichever are more.

    Not their sum: the next state of a row is the logged state of the one after it, so one visit would count twice.
    Initial states that are draws are rows of their own.
    """
    logged, following = np.zeros((2, centers.shape[0]), dtype=np.int64)
    initial = np.zeros(centers.shape[0], dtype=np.int64)
    for part in question.parts():
        logged += _occurrences(part.logged, np.arange(len(part)), centers)
        following += _occurrences(part.next.points, part.next.rows, centers)
        if sampled:
            initial = _occurrences(part.initial.points, part.initial.rows, centers)
    return np.maximum(np.maximum(logged, following), initial)


def _occurrences(points: FloatArray, rows: IntArray, centers: FloatArray) -> IntArray:
    """In how many rows a point equals each center; `rows[j]` is the row of point j."""
    if not points.shape[0]:
        return np.zeros(centers.shape[0], dtype=np.int64)
    _, group = np.unique(np.concatenate([points, centers]) + 0.0, axis=0, return_inverse=True)
    group = group.reshape(-1)
    once = np.unique(np.column_stack([group[: points.shape[0]], rows]), axis=0)
    counts = np.bincount(once[:, 0], minlength=int(group.max()) + 1)
    return np.asarray(counts[group[points.shape[0] :]], dtype=np.int64)
