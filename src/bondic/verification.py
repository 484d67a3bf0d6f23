"""`bondic.verify`: certificate, log and policy in the forms that people have, as columns for the core (`core.verify`)."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from bondic.core.certificate import Certificate
from bondic.core.errors import InvalidInput, refuse
from bondic.core.sums.forms import Sums
from bondic.core.verify import (
    UserFunctions,
    Verification,
    as_verification_error,
)
from bondic.data.initial import InitialStates
from bondic.engines.sums import STANDARD
from bondic.loading import load_certificate
from bondic.rows.estimand import Replay, verify_certificate
from bondic.rows.inputs import take_log, take_policy
from bondic.rows.subgroups import labels_by


def verify(
    certificate: Certificate | str | os.PathLike[str],
    log: Any,
    policy: Any = None,
    *,
    against: Any = None,
    functions: UserFunctions | None = None,
    initial: InitialStates | None = None,
    replay: bool = False,
    by: Any = None,
    sums: Sums = STANDARD,
) -> Verification:
    """Recompute the interval from the proof and the log; raise VerificationError where the certificate claims more.

    The answer is the recomputed interval. A claim passes if it agrees with it in the digits that are printed, or contains it.

    `certificate` is a certificate, its file, or the folder of a result; `log` and `policy` are whatever `make_problem` takes.
    No policy code is needed: the certificate holds the policy's answers. Give `policy` (of a difference also `against`, the
    other policy) to check those as well, and `functions` when a kernel uses feature functions of your own. The certificate of
    a streamed log, and one from which rows were withheld, does not hold the answers at its next states; there the policy is
    needed and asked again.
    A sample of initial states that was withheld is read off the log, unless `initial` is given; other initial states are
    compared with `initial`. `replay=True` makes the plan again, every block from the log cut before it, and answers with
    the interval of that plan; without it, when the plan was made is the certificate's own statement.
    `by`, as in `evaluate_policy`, makes the intervals of all subgroups of starts again: `subgroups` of the answer.
    `sums=REFERENCE` (`bondic.core.sums.reference`) does without compiled code: slower, by definition.
    The certificate may come from anybody: what it only states is listed in `unchecked`, and nothing in it is run.
    """
    found, source = _certificate(certificate), take_log(log)
    with as_verification_error():
        start = found.estimand.start
        starts = int(start.weights.size) if start.from_log else None
        asked = [
            None if given is None else take_policy(given, source, starts, stored.actions)[0]
            for stored, given in zip(found.estimand.policies, (policy, against), strict=False)
        ]
        refuse(against is not None and len(asked) == 1, "The certificate is about one policy: leave `against` out.")
    # planners stand above this module, and are loaded where they are asked for
    again: Replay | None = import_module("bondic.methods.replay").replay if replay else None
    labels = None if by is None else labels_by(by, source.names)
    given: dict[str, Any] = {"functions": functions, "initial": initial, "replay": again, "labels": labels}
    return verify_certificate(
        found, source.log, *asked[:1], against=asked[1] if asked[1:] else None, sums=sums, **given
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
