"""Which W: the one with the shortest predicted interval on pilot rows.

Any W that has not seen the certified rows is valid.
"""

from __future__ import annotations

import math

import numpy as np

from bondic.core.balls import Ball, Box, Instruments
from bondic.core.kernels.base import Kernel
from bondic.core.terms import largest_width
from bondic.rows import Rows
from bondic.search import spectral
from bondic.search.actions import Cap
from bondic.search.basis import capped_basis
from bondic.search.model import build_model
from bondic.search.table import TableSearch, table_kernel, table_model
from bondic.tuning.defaults import Advanced, Choices, feature_pairs, instruments_kernel, provenance
from bondic.tuning.scales import measure_scales, pilot_points

_WIDTHS = (0.5, 1.0, 2.0, 4.0)
_SHARES = (0.2, 0.5, 0.8)
_NOMINAL = 0.1
"""The comparison assumes this error probability whatever alpha is, so that W does not change with alpha."""
_MAX_ROWS = 1500
_FEWER_PAIRS, _RANK = 48, 100
_CAP = Cap(400, 10)
"""The comparison runs on the last pilot rows with fewer features: it only ranks candidates."""
_FEWER_TABLE_PAIRS = 600


def pick_instruments(
    pilot: Rows,
    certified_rows: int,
    ball: Ball,
    choices: Choices,
    names: tuple[int, ...] = (),
    advanced: Advanced | None = None,
) -> tuple[Instruments, str]:
    """Search both ends on the pilot with the noise level of the certified rows; keep the kernel of the least length."""
    whole = pilot.whole()
    rows = pilot.select(int(whole.log_rows[-_MAX_ROWS]) if len(pilot) > _MAX_ROWS else pilot.rows.start)
    points = np.concatenate([whole.logged, pilot.initial.points])
    values = capped_basis(ball.kernel, pilot, points, rank=_RANK, cap=_CAP, tolerance=1e-9)
    more = Advanced() if advanced is None else advanced
    quick = min(_FEWER_PAIRS, feature_pairs(pilot.layout, more.pairs, _CAP.coordinates))
    best: tuple[float, int] | None = None
    for index, (_, kernel) in enumerate(_candidates(pilot, choices, names, more, quick)):
        weights = capped_basis(kernel, pilot, rows.whole().logged, rank=_RANK, cap=_CAP, tolerance=1e-9)
        spectrum = spectral.Spectrum.of(build_model(rows, weights, values, ball.center))
        kappa = _noise_level(pilot, certified_rows) * math.sqrt(kernel.sup_diag)
        ends = [
            spectral.propose(spectrum, sign=sign, radius=ball.radius, kappa=kappa, tolerance=1e-3).objective
            for sign in (1.0, -1.0)
        ]
        if best is None or sum(ends) < best[0]:
            best = (sum(ends), index)
    assert best is not None
    name, kernel = _candidates(pilot, choices, names, more, more.pairs)[best[1]]
    return Instruments(kernel, provenance(pilot, "kernel", "picked")), name


def pick_table(pilot: Rows, certified_rows: int, box: Box, share: float | None) -> tuple[Instruments, str]:
    """The same among tables with more or less of a constant; Q is a box, which no W has to test."""
    shares = (0.0, *_SHARES) if share is None else (share,)
    model = table_model(pilot, box.center, _FEWER_TABLE_PAIRS)
    kappa = _noise_level(pilot, certified_rows)
    lengths = []
    for share in shares:
        search = TableSearch(model, table_kernel(share), share, pilot.layout)
        ends = [search.solve(sign=sign, radius=box.radius, kappa=kappa)[1] for sign in (1.0, -1.0)]
        lengths.append(sum(ends))
    share = shares[int(np.argmin(lengths))]
    return Instruments(table_kernel(share), provenance(pilot, "kernel", "picked")), _table_name(share)


def _table_name(share: float) -> str:
    return "state-action table" if share == 0 else f"state-action table, constant share {share:g}"


def _noise_level(pilot: Rows, rows: int) -> float:
    return largest_width(pilot.terms) * math.sqrt(math.log(2.0 / _NOMINAL) / (2.0 * rows))


def _candidates(
    pilot: Rows, choices: Choices, names: tuple[int, ...], advanced: Advanced, pairs: int
) -> list[tuple[str, Kernel]]:
    widths = _WIDTHS if choices.weight_bandwidth is None else (choices.weight_bandwidth,)
    shares = _SHARES if advanced.constant_share is None else (advanced.constant_share,)
    scales = measure_scales(pilot_points(pilot), pilot.layout.dimension, names)
    return [
        (
            f"{pairs} feature pairs, bandwidth {width:g} x median distance, constant share {share:g}",
            instruments_kernel(pilot.layout, scales, pairs, choices.seed, width, share),
        )
        for width in widths
        for share in shares
    ]
