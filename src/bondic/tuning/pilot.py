"""How many rows tune: a share of the log, no more than a cap, none when too few would be left to tune on."""

from __future__ import annotations

import math

PILOT_SHARE = 0.2
"""Of the dual method."""
PILOT, LONG_PILOT = 0.05, 0.1
"""Of the sequential one: where states come again within the first, and where they do not."""
_ENOUGH = 200
"""Its pilot has at least so many rows, or a fifth of the log."""
SMALLEST_PILOT = 20
LARGEST_PILOT = 5000


def share_of_rows(share: float, rows: int) -> int:
    """Rows that a share stands for; fewer than SMALLEST_PILOT tune nothing."""
    return min(int(share * rows), LARGEST_PILOT)


def pilot_length(share: float, rows: int) -> int:
    """Rows that the sequential method sets aside for a share of so many, but enough to fit something."""
    return max(share_of_rows(share, rows), fewest_of_share(rows))


def rows_set_aside(pilot: float | int, planned: int) -> int:
    """Rows of a pilot for cells: a share of the planned number, but enough to fit something; or a number."""
    return max(math.ceil(pilot * planned), fewest_of_share(planned)) if isinstance(pilot, float) else int(pilot)


def fewest_of_share(rows: int) -> int:
    """Rows that are enough to fit something, or a fifth of those there are."""
    return min(_ENOUGH, rows // 5)
