"""The one place that knows where fast engines come from; they are imported when a sum first asks for them."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from bondic.core.errors import InvalidInput
from bondic.core.sums.engine import Engine

EngineName = Literal["auto", "pairs", "series", "reference", "cuda", "cuda32"]
"""How Gaussian terms are summed; other terms have one way only.

`series` falls back to all pairs where it would need too many features or cannot resolve the result; `reference`
is the definition, slow. `cuda` does all pairs on a GPU (extra cuda), `cuda32` with the larger certified
error of float32.
"""


def check_name(name: str) -> None:
    if name not in get_args(EngineName):
        raise InvalidInput(f"An engine is one of {', '.join(get_args(EngineName))}, not {name!r}.")


@cache
def named_engines(name: str) -> tuple[Engine, ...]:
    """Compiled engines, with the reference for what they leave."""
    check_name(name)
    from bondic.engines.standard import engines  # here and nowhere else: whoever reads a proof can do without them

    return engines(name)
