"""The question, W, Q and the noise bound that a certificate describes, from its data and the log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.bounds.dual import ClassTest, Setting
from bondic.claims import ErrorBudget
from bondic.classes.ball import Ball
from bondic.classes.box import Box
from bondic.classes.instruments import Instruments
from bondic.classes.provenance import Provenance
from bondic.classes.value_class import ValueClass
from bondic.data.initial import InitialStates
from bondic.data.log import Log
from bondic.errors import VerificationError
from bondic.policies.answers import StoredAnswers
from bondic.policies.protocol import check_probabilities
from bondic.proofs.certificate import Certificate
from bondic.proofs.spec import Reader, Spec, UserFunctions
from bondic.rounding import U
from bondic.rows import Rows, Terms, make_rows
from bondic.terms import make_terms


def rebuild(
    certificate: Certificate,
    log: Log,
    functions: UserFunctions | None = None,
    *,
    policy: Any = None,
    initial: InitialStates | None = None,
) -> tuple[Setting, ErrorBudget]:
    """The setting that the certificate describes, from its data and the log (and the policy, if answers are withheld)."""
    body, arrays = certificate.body, certificate.arrays
    spec = body["problem"]
    start = spec["initial"]
    for flag in (start["count_fixed"], spec["answers"]["discrete"], spec["answers"]["exact"]):
        if not isinstance(flag, bool):
            raise VerificationError(f"The certificate is damaged: {flag!r} stands where true or false belongs.")
    if start["observations"] is not None:
        observations = arrays[start["observations"]["array"]]
        if initial is not None and not (
            initial.kind == start["kind"]
            and initial.count_fixed >= start["count_fixed"]
            and np.array_equal(initial.observations, observations)
            and np.allclose(initial.weights, arrays[start["weights"]["array"]], rtol=1e-12, atol=0.0)
        ):
            raise VerificationError(
                "The certificate was made for other initial states than those given, or for another kind of them (it holds its "
                "own: `initial` is not needed)."
            )
    else:
        observations = _withheld_states(start, arrays, log, initial)
    states = InitialStates(observations, arrays[start["weights"]["array"]], start["kind"], start["count_fixed"])
    terms = spec["terms"]
    pairs = {name: tuple(pair) for name, pair in terms.items() if isinstance(pair, list)}
    statement = Terms(**{**terms, **pairs})
    if make_terms(**terms) != statement:
        raise VerificationError(f"No problem can be asked with the statements {terms}.")
    return setting_of(certificate, _rebuild_rows(spec, arrays, log, states, statement, policy), functions)


def _withheld_states(
    start: Spec, arrays: Mapping[str, npt.NDArray[Any]], log: Log, initial: InitialStates | None
) -> npt.NDArray[Any]:
    """The sample of initial states that the certificate leaves out: given, or read off the log if it came from there."""
    count = arrays[start["weights"]["array"]].shape[0]
    if initial is None and not start.get("from_log", True):
        raise VerificationError(
            f"The {count} initial states, a sample that does not stand in the log, were withheld from this certificate. Pass "
            "them: verify(..., initial=InitialStates.sample(states)) (--initial FILE)."
        )
    if initial is None:
        return InitialStates.from_log(log, count=count).observations
    if len(initial) != count:
        raise VerificationError(
            f"The certificate was made with {count} initial states, {len(initial)} were given (initial=, --initial)."
        )
    return initial.observations


def setting_of(
    certificate: Certificate, problem: Rows, functions: UserFunctions | None = None
) -> tuple[Setting, ErrorBudget]:
    """W, Q, the gauge and the split of alpha as the certificate states them, for a question that is there already."""
    body = certificate.body
    reader = Reader(certificate.arrays, problem.layout, functions)
    ball = _value_class(reader, body["ball"])
    instruments = Instruments(
        reader.kernel(body["instruments"]["kernel"]), _provenance(body["instruments"]["provenance"])
    )
    budget = ErrorBudget(body["alpha"], body["budget"])
    sides = 2 if body["side"] == "both" else 1
    tests = tuple(
        ClassTest(
            test["name"],
            Instruments(reader.kernel(test["kernel"]), _provenance(test["provenance"])),
            test["probability"],
        )
        for test in body["rejection"]["tests"]
    )
    spent = math.fsum(test.probability for test in tests)
    if not (all(test.probability > 0 for test in tests) and spent <= (budget.get("tests") or 0.0) * (1 + 1e-12)):
        raise VerificationError("The tests of Q spend more than their share of alpha.")
    gauge = reader.gauge(body["gauge"])
    return Setting(problem, ball, instruments, gauge, budget["noise"], budget.get("initial"), sides, tests), budget


def _value_class(reader: Reader, spec: Spec) -> ValueClass:
    center, provenance = reader.function(spec["center"]), _provenance(spec["provenance"])
    if spec["origin"] not in ("stated", "chosen"):
        raise VerificationError(f"Q is stated or chosen, not {spec['origin']!r}.")
    if spec["kernel"] is not None:
        kernel = reader.kernel(spec["kernel"])
        return Ball(kernel, spec["radius"], center, spec["misspecification"], provenance, spec["origin"])
    if spec["misspecification"] != 0:
        raise VerificationError("A box has no misspecification allowance.")
    return Box(spec["radius"], center, provenance, spec["origin"])


def _rebuild_rows(
    spec: Spec,
    arrays: Mapping[str, npt.NDArray[Any]],
    log: Log,
    initial: InitialStates,
    terms: Terms,
    policy: Any,
) -> Rows:
    """Rows with the stored answers in place of the policy, which is asked again where there are none."""
    if spec["answers"]["next"] is not None:
        policy = _stored_answers(spec["answers"], arrays)
    elif policy is None:
        raise VerificationError(
            "This certificate does not hold the policy's answers at the next states of the log (it was streamed, or rows "
            "were withheld). Pass the policy: verify(certificate, log, policy) (--policy SPEC)."
        )
    return make_rows(log, policy, initial, terms, seed=spec["seed"], **spec["asked"]).select(*spec["rows"])


def _stored_answers(spec: Spec, arrays: Mapping[str, npt.NDArray[Any]]) -> StoredAnswers:
    following, initial = (arrays[spec[name]["array"]] for name in ("next", "initial"))
    answers = StoredAnswers(following, initial, spec["discrete"], spec["exact"])
    if answers.discrete:
        # as strict as what was once made of the policy's answers: rows that sum to 1 but for rounding
        slots = int(initial.shape[1])
        for name, values in (("next", following), ("initial", initial)):
            normal = check_probabilities(values, values.shape[0], f"{name} state", slots)
            if np.any(np.abs(values - normal) > 8 * (slots + 2) * U):
                raise VerificationError(f"The stored probabilities at the {name} states do not sum to 1.")
    elif answers.exact and not following.shape[1] == initial.shape[1] == 1:
        raise VerificationError("Means over several drawn actions are not exact, whatever the certificate says.")
    return answers


def _provenance(spec: Spec) -> Provenance:
    rows = spec["rows"]
    if rows is not None and not all(isinstance(row, int) and not isinstance(row, bool) for row in rows):
        raise VerificationError(f"The certificate is damaged: rows {rows!r} are not whole numbers.")
    return Provenance(spec["note"], None if rows is None else (rows[0], rows[1]), spec["log_hash"])
