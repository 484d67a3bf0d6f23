"""`bondic.verify`: certificate, log and policy in the forms that people have, as columns for the core (`core.verify`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from bondic.core.certificate import Certificate
from bondic.core.errors import InvalidInput, refuse
from bondic.core.files import load_certificate
from bondic.core.sums.forms import Sums
from bondic.core.verify import (
    Replayed,
    UserFunctions,
    Verification,
    as_verification_error,
    opened,
    read_proof,
    verify_columns,
)
from bondic.data.initial import InitialStates
from bondic.data.log import Log
from bondic.engines.sums import STANDARD
from bondic.extensions import register_named
from bondic.rows.asked import check_policy, check_start, rebuild
from bondic.rows.inputs import take_log, take_policy

Replay = Callable[..., Replayed]
"""Makes a plan again with what the certificate says about its planner; VerificationError where that cannot be done."""


def verify(
    certificate: Certificate | str | os.PathLike[str],
    log: Any,
    policy: Any = None,
    *,
    functions: UserFunctions | None = None,
    initial: InitialStates | None = None,
    replay: bool = False,
    sums: Sums = STANDARD,
) -> Verification:
    """Recompute the interval from the proof and the log; raise VerificationError where the certificate claims more.

    The answer is the recomputed interval. A claim passes if it agrees with it in the digits that are printed, or contains it.

    `certificate` is a certificate, its file, or the folder of a result; `log` and `policy` are whatever `make_problem` takes.
    No policy code is needed: the certificate holds the policy's answers. Give `policy` to check those as well,
    and `functions` when a kernel uses feature functions of your own. The certificate of a streamed log, and one from
    which rows were withheld, does not hold the answers at its next states; there the policy is needed and asked again.
    A sample of initial states that was withheld is read off the log, unless `initial` is given; other initial states are
    compared with `initial`. `replay=True` makes the plan again, every block from the log cut before it, and answers with
    the interval of that plan; without it, when the plan was made is the certificate's own statement.
    `sums=REFERENCE` (`bondic.core.sums.reference`) does without compiled code: slower, by definition.
    The certificate may come from anybody: what it only states is listed in `unchecked`, and nothing in it is run.
    """
    found, source = _certificate(certificate), take_log(log)
    with as_verification_error():
        start = found.asked.start
        starts = int(start.weights.size) if start.from_log else None
        asked = None if policy is None else take_policy(policy, source, starts, found.asked.actions)[0]
    # planners stand above this module, and are loaded where they are asked for
    again: Replay | None = import_module("bondic.methods.replay").replay if replay else None
    given: dict[str, Any] = {"functions": functions, "initial": initial, "replay": again}
    return verify_certificate(found, source.log, asked, sums=sums, **given)


def verify_certificate(
    certificate: Certificate,
    log: Log,
    policy: Any = None,
    *,
    functions: UserFunctions | None = None,
    initial: InitialStates | None = None,
    replay: Replay | None = None,
    sums: Sums = STANDARD,
) -> Verification:
    """The columns of the question from log and policy, which are compared with the certificate; the core does the rest."""
    with as_verification_error():
        asked = opened(certificate)
        register_named(certificate)
        refuse(log.content_hash != asked.log_hash, "The log is not the one that was certified (content hashes differ).")
        rows = rebuild(asked, log, policy, initial)
        stored = read_proof(certificate, rows.layout, functions)
        question = rows if policy is None else replace(rows, policy=policy)
        again = None if replay is None else partial(replay, certificate, rows=question, functions=functions, sums=sums)
        return verify_columns(
            certificate,
            rows,
            len(log),
            policy=check_policy(stored, rows, log, policy),
            start=check_start(rows.initial_states, log, initial),
            functions=functions,
            replay=again,
            sums=sums,
        )


def _certificate(given: Any) -> Certificate:
    """A certificate as it is, of a result, or from disk."""
    if isinstance(given, str | os.PathLike):
        return load_certificate(given)
    found = given if isinstance(given, Certificate) else getattr(given, "certificate", None)
    if not isinstance(found, Certificate):
        raise InvalidInput(
            f"verify(certificate, log) needs a certificate, not {type(given).__name__}: a file or folder, or the `certificate` "
            "of a result whose method leaves one."
        )
    return found
