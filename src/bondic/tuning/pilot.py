"""How many rows tune: a share of the log, no more than a cap, none when too few would be left to tune on."""

from __future__ import annotations

PILOT_SHARE = 0.2
SMALLEST_PILOT = 20
LARGEST_PILOT = 5000


def share_of_rows(share: float, rows: int) -> int:
    """Rows that a share stands for; fewer than SMALLEST_PILOT tune nothing."""
    return min(int(share * rows), LARGEST_PILOT)
