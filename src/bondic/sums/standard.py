"""The one place that knows where fast engines come from; they are imported when a sum first asks for them."""

from __future__ import annotations

from functools import cache
from typing import Literal, get_args

from bondic.errors import InvalidInput
from bondic.sums.engine import Engine

EngineName = Literal["auto", "pairs", "series", "cutoff", "reference", "cuda", "cuda32"]
"""How Gaussian terms are summed; other terms have one way only.

`series` falls back to all pairs where it would need too many features or cannot resolve the result; `cutoff` always
applies; `reference` is the definition, slow. `cuda` does all pairs on a GPU (extra cuda), `cuda32` with the larger certified
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


def name_of(engines: tuple[Engine, ...]) -> str | None:
    """The name that stands for these engines in every process; None: one of them is not the library's own."""
    if all(type(one).__module__.startswith("bondic.sums.") for one in engines):
        return "reference"
    on_gpu = [one.name for one in engines if one.name.startswith("cuda")]
    mine = [(type(one), one.name) for one in engines]
    for name in on_gpu or ("auto", "pairs", "series", "cutoff"):
        if mine == [(type(one), one.name) for one in named_engines(name)]:
            return name
    return None


def engine_called(name: str) -> Engine:
    """The engine of this name in the library, for a process that was told no more."""
    group = name if name.startswith("cuda") else "auto"
    return next(engine for engine in named_engines(group) if engine.name == name)
