"""Where states are numbers and nothing was stated: an allowance makes an interval."""

from __future__ import annotations

from collections.abc import Iterator

from bondic.advice.situation import Situation
from bondic.view import NextStep


def state_allowance(situation: Situation) -> Iterator[NextStep]:
    """The sentence under the curve."""
    shown = situation.result.view().curve
    if situation.result.unstated and shown is not None:
        yield NextStep("allowance", shown.advice, "yours")
