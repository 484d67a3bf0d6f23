"""`bondic verify CERTIFICATE LOG`: recompute the interval with the trusted core alone.

The test of Q that follows looks for witnesses, which the core does not do: --no-retest leaves it out, and then nothing that
searches or tunes is loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from bondic.bounds.dual import Setting
from bondic.claims import Rejection
from bondic.cli.policy import choose_policy
from bondic.cli.reading import read_initial, read_rows
from bondic.cli.work import reads_in_parts, sums_of
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.log import Log
from bondic.errors import InvalidInput, VerificationError
from bondic.policies.adapters.imported import import_module
from bondic.proofs.certificate import Certificate
from bondic.proofs.io import load_certificate
from bondic.proofs.limits import MOST_ARRAY_BYTES, clean_text
from bondic.proofs.verify import Verification, verify_certificate
from bondic.rendering import STATE_WORDS, interval_text
from bondic.rows.inputs import action_names


def command(certificate: Path, log: str, **options: Any) -> None:
    """Read, verify, print."""
    for place in options["modules"]:
        import_module(place)
    found = load_certificate(certificate, most_bytes=_most_bytes(log))
    options = reads_in_parts(options)
    rows, loaded = read_rows(log, options)
    _refuse_unstated_order(found, loaded, options)
    initial = _initial(found, rows, loaded, options)
    spec = options["policy"]
    chosen = None if spec is None else choose_policy(spec, loaded, _start_count(found), options)
    retest = _retest if options["retest"] else None
    with sums_of(options) as sums:
        checked = verify_certificate(found, rows, chosen, initial=initial, retest=retest, sums=sums)
    _print(checked)


def _retest(setting: Setting) -> Rejection | None:
    """A test of Q that the certificate does not name: a search, so it is loaded last, when every end was recomputed."""
    from bondic.methods.retest import rich_test

    return rich_test(setting)


_LABELS = {
    "finite-sample": "verified",
    "asymptotic": "recomputed, holds only in the limit of large logs",
    "none": "recomputed, WITHOUT any guarantee",
}


_STATES = {**STATE_WORDS, "stated": "stated by the certificate's maker"}


def _print(checked: Verification) -> None:
    """What was found, what was checked and what was not, and under which assumptions it is to be read."""
    sides = "" if checked.side == "both" else f", {checked.side} bound"
    word = ", except" if checked.guarantee == "finite-sample" else ", not checked"
    lacking = f"{word} {'; '.join(checked.headline)}" if checked.headline else ""
    chosen = checked.status == "INTERVAL" and any(item.state == "chosen" for item in checked.assumptions)
    ends = interval_text(checked.low, checked.high) if checked.status != "REJECTED" else "no interval"
    click.echo(
        f"{_LABELS[checked.guarantee]}{clean_text(lacking)}: {ends} at alpha = "
        f"{checked.alpha:g} ({checked.status.lower()}{sides})"
        + (", valid if what bondic chose holds" if chosen else "")
    )
    for check in checked.checks:
        click.echo(f"  {clean_text(check)}")
    for gap in checked.unchecked:
        click.echo(f"  not checked: {clean_text(gap)}")
    click.echo("under these assumptions:")
    for item in checked.assumptions:
        click.echo(f"  {item.name} ({_STATES[item.state]}): {clean_text(item.text)}")


def _most_bytes(log: str) -> int:
    """Answers at every next state may take several times the room of a log; that much is granted to its certificate."""
    path = Path(log)
    files = path.rglob("*") if path.is_dir() else [path]
    return max(MOST_ARRAY_BYTES, 16 * sum(file.stat().st_size for file in files if file.is_file()))


def _refuse_unstated_order(found: Certificate, loaded: LoadedLog | None, options: dict[str, Any]) -> None:
    """A log with text actions has one content hash per order of their names."""
    if loaded is None or action_names(loaded) is None or options["actions"]:
        return
    if loaded.transitions.content_hash != found.asked.log_hash:
        raise InvalidInput(
            "The log's actions are text, and in the sorted order of their names it is not the certified log. Pass --actions "
            "as it was when the certificate was made (see configuration.toml beside it)."
        )


def _start_count(found: Certificate) -> int | None:
    """How many episode starts of the log the certificate is about; None where it is about others."""
    start = found.asked.start
    return int(start.weights.size) if start.from_log else None


def _initial(found: Certificate, rows: Log, loaded: LoadedLog | None, options: dict[str, Any]) -> InitialStates | None:
    """The states of --initial, held against those of the certificate where it has them."""
    if options["initial"] is None:
        return None
    states, weights = read_initial(options["initial"], rows, loaded)
    start = found.asked.start
    # the kind is a statement of the certificate; what a file can be compared with are states and weights
    sample = start.kind == "sample" and weights is None
    initial = InitialStates.sample(states) if sample else InitialStates.exact(states, weights)
    if start.observations is not None and not np.array_equal(start.observations, initial.observations):
        raise VerificationError(f"The initial states in {options['initial']} are not those of the certificate.")
    return initial
