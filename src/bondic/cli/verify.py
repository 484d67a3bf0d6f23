"""`bondic verify CERTIFICATE LOG`: recompute the interval with the trusted core alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from bondic.certificate.certificate import Certificate
from bondic.certificate.io import load_certificate
from bondic.certificate.verify import verify
from bondic.cli.inputs import choose_policy, load_log, read_initial
from bondic.cli.options import LOG, PATH, add_options, parse_columns
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.open import stream_log
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput, VerificationError


@click.command("verify", short_help="Re-check a certificate against its log.")
@click.argument("certificate", type=click.Path(path_type=Path))
@click.argument("log")
@click.option(
    "--policy", metavar="SPEC", help="Also check that this policy gives the stored answers (needed if none are)."
)
@click.option("--memory", metavar="SIZE", help="Read the log in batches within this budget, e.g. 2GB (Parquet).")
@click.option(
    "--initial",
    type=PATH,
    help="File with the initial states, where a sample of them was withheld from the certificate.",
)
@add_options(LOG)
def command(certificate: Path, log: str, policy: str | None, memory: str | None, **options: Any) -> None:
    """CERTIFICATE is NAME.json (NAME.npz beside it), LOG the log it was made from, in any format that can be read."""
    found = load_certificate(certificate)
    rows, loaded = _read(log, memory, options)
    _refuse_unstated_order(found, loaded, options)
    initial = _initial(found, rows, loaded, options)
    chosen = None if policy is None else choose_policy(policy, loaded, _start_count(found), options)
    checked = verify(found, rows, chosen, initial=initial)
    click.echo(
        f"verified: [{checked.low:.6g}, {checked.high:.6g}] at alpha = {checked.alpha:g} ({checked.status.lower()})"
    )
    for check in checked.checks:
        click.echo(f"  {check}")


def _read(log: str, memory: str | None, options: dict[str, Any]) -> tuple[Transitions | LogStream, LoadedLog | None]:
    if memory:
        return stream_log(Path(log), memory=memory, columns=parse_columns(options["columns"])), None
    loaded = load_log(log, options)
    return loaded.transitions, loaded


def _refuse_unstated_order(found: Certificate, loaded: LoadedLog | None, options: dict[str, Any]) -> None:
    """A log with text actions has one content hash per order of their names."""
    coding = None if loaded is None else loaded.encodings.get("actions")
    if loaded is None or coding is None or options["actions"]:
        return
    if loaded.transitions.content_hash != found.body["problem"]["log_hash"]:
        raise InvalidInput(
            "The log's actions are text, and in the sorted order of their names it is not the certified log. Pass --actions "
            "as it was when the certificate was made (see configuration.toml beside it)."
        )


def _start_count(found: Certificate) -> int:
    return int(found.arrays[found.body["problem"]["initial"]["weights"]["array"]].shape[0])


def _initial(
    found: Certificate, rows: Transitions | LogStream, loaded: LoadedLog | None, options: dict[str, Any]
) -> InitialStates | None:
    """The states of --initial, held against those of the certificate where it has them."""
    if options["initial"] is None:
        return None
    states, weights = read_initial(options["initial"], rows, loaded)
    initial = InitialStates.exact(states, weights)
    stored = found.body["problem"]["initial"]["observations"]
    if stored is not None and not np.array_equal(found.arrays[stored["array"]], initial.observations):
        raise VerificationError(f"The initial states in {options['initial']} are not those of the certificate.")
    return initial
