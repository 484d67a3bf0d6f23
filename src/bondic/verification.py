"""`bondic.verify`: certificate, log and policy in the forms that people have, as columns for the core (`core.verify`)."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from typing import Any

from bondic.core.certificate import Certificate
from bondic.core.errors import InvalidInput, refuse
from bondic.core.sums.forms import Sums
from bondic.core.verify import (
    Replayed,
    UserFunctions,
    Verification,
    as_verification_error,
)
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.log import is_log
from bondic.engines.sums import STANDARD
from bondic.loading import load_certificate, load_reading, reading_words
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
    replay: bool | None = None,
    by: Any = None,
    sums: Sums = STANDARD,
) -> Verification:
    """Recompute the interval from the certificate's proof and the log; VerificationError where the certificate claims more.

    Returned is the recomputed interval. A claim passes if it agrees with it in the printed digits, or contains it. The
    certificate need not be trusted: nothing in it is run, and what it only states is listed in `unchecked`.

    Parameters
    ----------
    certificate : Certificate, Result or path
        A certificate, its file, or the folder of a result.
    log : object
        The log that it was made from, as in `make_problem`. A file or table is read as the result.json beside the certificate
        says.
    policy, against : object, default None
        The policy (of a difference also the other one), to compare with the stored answers. Needed where the certificate stores
        none: for a streamed log, or where rows were withheld.
    functions : mapping, default None
        Your feature functions by label, where a kernel uses some.
    initial : InitialStates, default None
        Initial states, to compare with those of the certificate. None: withheld ones are read off the log.
    replay : bool, default None
        Make the plan again, every block from the log cut before it, and return the interval of that plan. None: where the
        policy is passed (or stands in the log) and the certificate says how it was planned. True: or refuse. Without it the
        time at which the plan was made is the certificate's own statement, and the first item of `headline` says so.
    by : str, int or callable, default None
        As in `evaluate_policy`: the intervals of all subgroups again, as `subgroups` of the answer.
    sums : Sums
        How kernel sums are computed; `bondic.core.sums.reference.REFERENCE` uses no compiled code and is slower.
    """
    found, reading = _certificate(certificate), {}
    if isinstance(certificate, str | os.PathLike) and not (is_log(log) or isinstance(log, LoadedLog)):
        reading = load_reading(certificate)
    source = take_log(log, **reading)
    with as_verification_error():
        start = found.estimand.start
        starts = int(start.weights.size) if start.from_log else None
        policies = [
            None if given is None else take_policy(given, source, starts, stored.actions)[0]
            for stored, given in zip(found.estimand.policies, (policy, against), strict=False)
        ]
        refuse(against is not None and len(policies) == 1, "The certificate is about one policy: leave `against` out.")
    again: Replay | None = None if replay is False else _replay
    labels = None if by is None else labels_by(by, source.names)
    given: dict[str, Any] = {"functions": functions, "initial": initial, "replay": again, "labels": labels}
    given["must_replay"] = replay is True
    checked = verify_certificate(
        found, source.log, *policies[:1], against=policies[1] if policies[1:] else None, sums=sums, **given
    )
    words = (f"that the log is to be read as its result.json says: {reading_words(reading)}",) if reading else ()
    return replace(checked, unchecked=(*checked.unchecked, *words))


def _replay(*given: Any, **more: Any) -> Replayed:
    """The plan made again: planners stand above this module, and are imported where they are used."""
    found: Replayed = import_module("bondic.methods.replay").replay(*given, **more)
    return found


def _certificate(value: Any) -> Certificate:
    """A certificate as it is, of a result, or from disk."""
    if isinstance(value, str | os.PathLike):
        return load_certificate(value)
    found = value if isinstance(value, Certificate) else getattr(value, "certificate", None)
    if not isinstance(found, Certificate):
        raise InvalidInput(
            f"verify(certificate, log) needs a certificate, not {type(value).__name__}: a file or folder, or the `certificate` "
            "of a result whose method leaves one."
        )
    return found
