"""The fast engines by name.

| engine | cost in units of a pair and a weight column | good for |
|---|---|---|
| pairs | n^2 / 2 | small n, or everything near everything in many dimensions |
| series | n times features, far points by pairs | wide bandwidths, few dimensions |
| cuda | n^2 / 2 on a GPU | everything, where there is one and it is named |

The cheapest is taken; that decides cost and radius, every engine encloses the same numbers.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Literal, get_args

from bondic.core.errors import InvalidInput
from bondic.engines.engine import Engine
from bondic.engines.linear import Constants, Features
from bondic.engines.spool import NumpyPairs

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
    """Those that a name stands for, imported when a sum first needs them; the cheapest of them is taken."""
    check_name(name)
    if name == "reference":
        return (Constants(), Features(), NumpyPairs())
    if name in ("cuda", "cuda32"):
        from bondic.engines.cuda import Cuda  # needs torch, and nothing that is compiled here

        return (Constants(), Features(), Cuda("float64" if name == "cuda" else "float32"), NumpyPairs())
    if name == "auto" and not _compiles():
        return _without_numba()
    from bondic.engines.products import Pairs
    from bondic.engines.series import Series

    fast: dict[str, tuple[Engine, ...]] = {
        "auto": (Series(),),
        "series": (Series(always=True),),
        "pairs": (),
    }
    return (Constants(), Features(), Pairs(), NumpyPairs(), *fast[name])


def _compiles() -> bool:
    try:
        return find_spec("numba") is not None
    except ValueError:  # sys.modules holds None in its place
        return False


def _without_numba() -> tuple[Engine, ...]:
    """A machine that has NumPy, SciPy and perhaps torch: its GPU, or the definition."""
    try:
        return named_engines("cuda")
    except InvalidInput:
        return named_engines("reference")
