"""The question, W, Q and the noise bound that a certificate describes, from its data and the log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.bounds.dual import ClassTest, Setting
from bondic.claims import ErrorBudget
from bondic.classes.instruments import Instruments
from bondic.classes.value_class import ValueClass
from bondic.codec import Decoder, decode
from bondic.data.blocks import RowRange
from bondic.data.initial import InitialStates
from bondic.data.stream import ArrayStream, LogStream
from bondic.data.transitions import Transitions
from bondic.errors import VerificationError
from bondic.kernels.normal_form import Layout
from bondic.noise.bound import Gauge
from bondic.policies.answers import PolicyAnswers
from bondic.policies.protocol import check_probabilities
from bondic.proofs import known
from bondic.proofs.certificate import Certificate, Spec
from bondic.rounding import U
from bondic.rows import Question, StreamedProblem, Terms, assemble, make_problem
from bondic.rows.frame import make_frame
from bondic.rows.returns import check_returns
from bondic.terms import make_terms

UserFunctions = Mapping[str, Callable[..., Any]]


def rebuild(
    certificate: Certificate,
    log: Transitions | LogStream,
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
    statement = decode(Terms, spec["terms"], arrays, "problem.terms")
    if make_terms(**asdict(statement)) != statement:
        raise VerificationError(f"No problem can be asked with the statements {statement}.")
    return setting_of(certificate, _rebuild_question(spec, arrays, log, states, statement, policy), functions)


def _withheld_states(
    start: Spec, arrays: Mapping[str, npt.NDArray[Any]], log: Transitions | LogStream, initial: InitialStates | None
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
    certificate: Certificate, problem: Question, functions: UserFunctions | None = None
) -> tuple[Setting, ErrorBudget]:
    """W, Q, the gauge and the split of alpha as the certificate states them, for a question that is there already."""
    body = certificate.body
    reader = reader_of(certificate, problem.layout, functions)
    ball = reader.decode(ValueClass, body["ball"], "ball")
    instruments = reader.decode(Instruments, body["instruments"], "instruments")
    gauge = reader.decode(Gauge, body["gauge"], "gauge")
    budget = ErrorBudget(body["alpha"], body["budget"])
    sides = 2 if body["side"] == "both" else 1
    tests = tuple(
        reader.decode(ClassTest, test["test"], f"rejection.tests.{k}.test")
        for k, test in enumerate(body["rejection"]["tests"])
    )
    spent = math.fsum(test.probability for test in tests)
    if not (all(test.probability > 0 for test in tests) and spent <= (budget.get("tests") or 0.0) * (1 + 1e-12)):
        raise VerificationError("The tests of Q spend more than their share of alpha.")
    return Setting(problem, ball, instruments, gauge, budget["noise"], budget.get("initial"), sides, tests), budget


def reader_of(certificate: Certificate, layout: Layout, functions: UserFunctions | None = None) -> Decoder:
    """Reads the parts of a certificate for a question whose points have this layout."""
    assert known.HOMES
    return Decoder(certificate.arrays, {"layout": layout, "functions": functions or {}})


def _rebuild_question(
    spec: Spec,
    arrays: Mapping[str, npt.NDArray[Any]],
    log: Transitions | LogStream,
    initial: InitialStates,
    terms: Terms,
    policy: Any,
) -> Question:
    if spec["answers"]["next"] is None:
        if policy is None:
            raise VerificationError(
                "This certificate does not hold the policy's answers at the next states of the log (it was streamed, or rows "
                "were withheld). Pass the policy: verify(certificate, log, policy) (--policy SPEC)."
            )
        return _ask_again(spec, arrays, log, initial, terms, policy).select(*spec["rows"])
    held = log if isinstance(log, Transitions) else log.read(RowRange(0, len(log)))
    answers = PolicyAnswers(
        arrays[spec["answers"]["next"]["array"]],
        arrays[spec["answers"]["initial"]["array"]],
        spec["answers"]["discrete"],
        spec["answers"]["exact"],
    )
    if answers.discrete:
        # as strict as what was once made of the policy's answers: rows that sum to 1 but for rounding
        for name, values in (("next", answers.next), ("initial", answers.initial)):
            normal = check_probabilities(values, values.shape[0], f"{name} state", answers.slots)
            if np.any(np.abs(values - normal) > 8 * (answers.slots + 2) * U):
                raise VerificationError(f"The stored probabilities at the {name} states do not sum to 1.")
    elif answers.exact and not answers.next.shape[1] == answers.initial.shape[1] == 1:
        raise VerificationError("Means over several drawn actions are not exact, whatever the certificate says.")
    check_returns(held, make_frame(held, initial, terms), terms)
    return assemble(held, initial, answers, terms, seed=spec["seed"]).select(*spec["rows"])


def _ask_again(
    spec: Spec,
    arrays: Mapping[str, npt.NDArray[Any]],
    log: Transitions | LogStream,
    initial: InitialStates,
    terms: Terms,
    policy: Any,
) -> Question:
    """The question of a certificate without answers: batches and draws as they were, so that the draws are the same."""
    asking: dict[str, Any] = {"seed": spec["seed"]}
    if spec.get("asked") is not None:
        asking.update(spec["asked"])
    else:
        at_start = arrays[spec["answers"]["initial"]["array"]]
        asking.update(draws=spec["streamed"]["draws"], initial_draws=None if at_start.ndim == 2 else at_start.shape[1])
    if spec.get("streamed") is not None:
        rows = int(spec["streamed"]["batch_rows"])
        stream = ArrayStream(log.columns(), batch_rows=rows) if isinstance(log, Transitions) else log.rebatched(rows)
        return StreamedProblem.make(stream, policy, initial, terms, **asking)
    held = log if isinstance(log, Transitions) else log.read(RowRange(0, len(log)))
    return make_problem(held, policy, initial, **asdict(terms), **asking, accept=None)
