"""`bondic verify CERTIFICATE LOG`: recompute the interval with the trusted core alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bondic.certificate.io import load_certificate
from bondic.certificate.verify import Verification, verify
from bondic.cli.options import LOG, add_options, parse_columns
from bondic.data.io.read import read_log
from bondic.data.open import stream_log
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.policies.adapters.load import load_policy


@click.command("verify", short_help="Re-check a certificate against its log.")
@click.argument("certificate", type=click.Path(path_type=Path))
@click.argument("log")
@click.option(
    "--policy", metavar="SPEC", help="Also check that this policy gives the stored answers (needed if none are)."
)
@click.option("--memory", metavar="SIZE", help="Read the log in batches within this budget, e.g. 2GB (Parquet).")
@add_options(LOG)
def command(certificate: Path, log: str, policy: str | None, memory: str | None, **options: Any) -> None:
    """CERTIFICATE is NAME.json (NAME.npz beside it), LOG the log it was made from, in any format that can be read."""
    found = load_certificate(certificate)
    chosen = None if policy is None else load_policy(policy, trust_pickle=options["trust_pickle"])
    checked = verify(found, _read(log, memory, options), chosen)
    _print(checked)


_LABELS = {
    "finite-sample": "verified",
    "asymptotic": "recomputed, holds only in the limit of large logs",
    "none": "recomputed, WITHOUT any guarantee",
}


def _print(checked: Verification) -> None:
    """What was found, what was checked and what was not, and under which assumptions it is to be read."""
    sides = "" if checked.side == "both" else f", {checked.side} bound"
    click.echo(
        f"{_LABELS[checked.guarantee]}: [{checked.low:.6g}, {checked.high:.6g}] at alpha = {checked.alpha:g} "
        f"({checked.status.lower()}{sides})"
    )
    for check in checked.checks:
        click.echo(f"  {check}")
    for gap in checked.unchecked:
        click.echo(f"  not checked: {gap}")
    click.echo("under these assumptions:")
    for item in checked.assumptions:
        click.echo(f"  {item.name} ({item.state}): {item.text}")


def _read(log: str, memory: str | None, options: dict[str, Any]) -> Transitions | LogStream:
    columns = parse_columns(options["columns"])
    if memory:
        return stream_log(Path(log), memory=memory, columns=columns)
    loaded = read_log(
        log,
        columns=columns,
        missing=options["missing"],
        categorical=options["categorical"],
        trust_pickle=options["trust_pickle"],
    )
    return loaded.transitions
