"""`bondic verify CERTIFICATE LOG`: recompute the interval with the trusted core alone."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path

import click
import numpy as np

from bondic.certificate.io import load_certificate
from bondic.certificate.verify import verify
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput

_COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations",
            "episode_ids", "timesteps", "behavior_action_probs")  # fmt: skip


def read_npz_log(path: Path) -> Transitions:
    """A log as an npz file with the field names of `Transitions`."""
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as data:
            columns = {name: data[name] for name in data.files if name in _COLUMNS}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as problem:
        reason = (
            problem.strerror if isinstance(problem, OSError) and problem.strerror else "not an npz file of plain arrays"
        )
        raise InvalidInput(f"{path} cannot be read as an npz log ({reason}).") from problem
    missing = [name for name in _COLUMNS[:5] if name not in columns]
    if missing:
        raise InvalidInput(f"{path} lacks {', '.join(missing)}. A log has {', '.join(_COLUMNS[:5])}.")
    return Transitions(**columns)


@click.command("verify", help="Re-check a certificate against its log.")
@click.argument("certificate", type=click.Path(path_type=Path))
@click.argument("log", type=click.Path(path_type=Path))
def command(certificate: Path, log: Path) -> None:
    """CERTIFICATE is NAME.json (NAME.npz beside it), LOG an npz file with the columns of Transitions."""
    checked = verify(load_certificate(certificate), read_npz_log(log))
    click.echo(
        f"verified: [{checked.low:.6g}, {checked.high:.6g}] at alpha = {checked.alpha:g} ({checked.status.lower()})"
    )
    for check in checked.checks:
        click.echo(f"  {check}")
