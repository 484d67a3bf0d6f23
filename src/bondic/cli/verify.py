"""`bondic verify CERTIFICATE LOG`: recompute the interval with the trusted core alone.

Nothing that searches or tunes is loaded, unless the plan is made again.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bondic.cli.executors import choose_policy, sums_of, work_elsewhere
from bondic.cli.reading import LARGE, SAMPLE, read_initial, read_rows, reading_options
from bondic.cli.say import say
from bondic.core.certificate import Certificate
from bondic.core.claims import Status
from bondic.core.errors import InvalidInput, VerificationError, clean_text
from bondic.core.printed import interval_text
from bondic.core.verify import UNREPLAYED, Replayed, Verification
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.log import Log
from bondic.errors import ValidityWarning, command_words
from bondic.loading import MAX_ARRAY_BYTES, load_certificate, load_reading, reading_words
from bondic.modules import import_module
from bondic.rendering import STATE_WORDS
from bondic.rows.estimand import verify_certificate
from bondic.rows.inputs import GivenLog, action_names, take_policy
from bondic.rows.subgroups import labels_by


def command(certificate: Path, log: str, **options: Any) -> int:
    """Read, verify, print; the exit code tells whether the plan was made again."""
    for place in options["modules"]:
        import_module(place)
    found = load_certificate(certificate, most_bytes=_most_bytes(log))
    reading = _reading(certificate, options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ValidityWarning)
        rows, loaded = read_rows(log, options, reading=reading, most=LARGE)
    for one in caught:
        say(f"warning: {command_words(str(one.message))}", err=True)
    _refuse_unstated_order(found, loaded, reading)
    _refuse_another_log(found, rows)
    initial = _initial(found, rows, loaded, options)
    chosen, against = (_policy(found, rows, loaded, options, name) for name in ("policy", "against"))
    with sums_of(options) as sums:
        work_elsewhere(rows, sums)
        by, names = options["by"], rows.observation_names if loaded is None else loaded.names
        given = {"against": against, "initial": initial, "labels": None if by is None else labels_by(by, names)}
        given["must_replay"] = options["replay"]
        checked = verify_certificate(found, rows, chosen, replay=_replay, sums=sums, **given)
    _print(checked, by)
    return PLAN_NOT_CHECKED if UNREPLAYED in checked.headline else 0


PLAN_NOT_CHECKED = 7
"""What the command ends with where everything follows, and when the plan was made is the certificate's word."""


def _reading(certificate: Path, options: dict[str, Any]) -> dict[str, Any]:
    """How the log is read: as result.json beside the certificate says, and as the options say."""
    held, stated = load_reading(certificate), reading_options(options)
    found = {name: value for name, value in held.items() if name not in stated}
    if found:
        say(f"note: the log is read as its result.json says: {reading_words(found)}.", err=True)
    return {**found, **stated}


def _refuse_another_log(stored: Certificate, rows: Log) -> None:
    """The core refuses it as well; here it is known what may have been forgotten."""
    if rows.content_hash == stored.estimand.log_hash:
        return
    raise VerificationError(
        "The log is not the one that was certified (content hashes differ). If it was read in another way then (other columns, "
        "say), state this here as well, or keep the result.json of the result beside its certificate: it says how."
    )


def _replay(*given: Any, **more: Any) -> Replayed:
    """The plan made again: planners are imported where it is."""
    from bondic.methods.replay import replay

    return replay(*given, **more)


_LABELS = {
    "finite-sample": "verified",
    "asymptotic": "recomputed, holds only in the limit of large logs",
    "none": "recomputed, WITHOUT any guarantee",
}


_STATES = {**STATE_WORDS, "stated": "stated by the certificate's maker"}


def _print(checked: Verification, by: str | None) -> None:
    """What was found, what was checked and what was not, and under which assumptions it is to be read."""
    sides = "" if checked.side == "both" else f", {checked.side} bound"
    word = ", except" if checked.guarantee == "finite-sample" else ", not checked"
    lacking = f"{word} {'; '.join(checked.headline)}" if checked.headline else ""
    said = f" (as stated: {', '.join(checked.stated)})" if checked.stated else ""
    label = _LABELS[checked.guarantee]
    if UNREPLAYED in checked.headline:
        label, lacking = f"not checked: {'; '.join(checked.headline)}", f", {label} otherwise"
    ends = interval_text(checked.low, checked.high) if checked.status != "REJECTED" else "no interval"
    say(f"{clean_text(label + lacking + said)}: {ends} at alpha = {checked.alpha:g} ({checked.status.lower()}{sides})")
    if by is not None:
        say(f"  by {clean_text(by)}, all {len(checked.subgroups)} together:")
    for name, one in checked.subgroups.items():
        ends = "no interval" if one.status is Status.REJECTED else interval_text(one.low, one.high)
        say(f"    {clean_text(name)}: {ends} ({one.status.name.lower()})")
    for check in checked.checks:
        say(f"  {clean_text(check)}")
    for gap in checked.unchecked:
        say(f"  not checked: {clean_text(gap)}")
    say("under these assumptions:")
    for item in checked.assumptions:
        name = item.name.replace("(policy 1)", "of the new policy").replace("(policy 2)", "of the other policy")
        say(f"  {name} ({_STATES[item.state]}): {clean_text(item.text)}")


def _most_bytes(log: str) -> int:
    """Answers at every next state may take several times the room of a log; that much is granted to its certificate."""
    path = Path(log)
    files = path.rglob("*") if path.is_dir() else [path]
    return max(MAX_ARRAY_BYTES, 16 * sum(file.stat().st_size for file in files if file.is_file()))


def _refuse_unstated_order(certificate: Certificate, loaded: LoadedLog | None, reading: dict[str, Any]) -> None:
    """A log with text actions has one content hash per order of their names."""
    if loaded is None or action_names(loaded) is None or "actions" in reading:
        return
    if loaded.transitions.content_hash != certificate.estimand.log_hash:
        raise InvalidInput(
            "The log's actions are text, and in the sorted order of their names it is not the certified log. Pass --actions "
            "as it was when the certificate was made (see `reading` in result.json beside it)."
        )


def _policy(
    certificate: Certificate,
    rows: Log,
    loaded: LoadedLog | None,
    options: dict[str, Any],
    name: Literal["policy", "against"],
) -> Any:
    """The policy of an option, for as many actions as the certificate's; the order of their names is that of the log's hash."""
    policies = certificate.estimand.policies
    if options[name] is None:
        return None
    if name == "against" and len(policies) == 1:
        raise InvalidInput("--against: the certificate is about one policy.")
    starts = _start_count(certificate)
    given = options if name == "policy" else {**options, "learn_rows": None, "learn_blocks": 1}
    source = GivenLog(rows, loaded, order_stated=True)
    chosen = choose_policy(options[name], source, starts, given)
    stored = policies[0 if name == "policy" else 1]
    return take_policy(chosen, source, starts, stored.actions)[0]


def _start_count(certificate: Certificate) -> int | None:
    """How many episode starts of the log the certificate is about; None where it is about others."""
    start = certificate.estimand.start
    return int(start.weights.size) if start.from_log else None


def _initial(
    certificate: Certificate, rows: Log, loaded: LoadedLog | None, options: dict[str, Any]
) -> InitialStates | None:
    """The states of --initial, held against those of the certificate where it has them."""
    if options["initial"] is None:
        return None
    states, weights = read_initial(Path(options["initial"].removeprefix(SAMPLE)), rows, loaded)
    start = certificate.estimand.start
    # the kind is a statement of the certificate; what a file can be compared with are states and weights
    sample = start.kind == "sample" and weights is None
    initial = InitialStates.sample(states) if sample else InitialStates.exact(states, weights)
    if start.observations is not None and not np.array_equal(start.observations, initial.observations):
        raise VerificationError(f"The initial states in {options['initial']} are not those of the certificate.")
    return initial
