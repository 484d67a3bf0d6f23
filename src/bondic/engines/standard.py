"""The fast engines by name.

| engine | cost in units of a pair and a weight column | good for |
|---|---|---|
| pairs | n^2 / 2 | small n, or everything near everything in many dimensions |
| series | n times features, far points by pairs | wide bandwidths, few dimensions |
| cuda | n^2 / 2 on a GPU | everything, where there is one and it is named |

The cheapest is taken; that decides cost and radius, every engine encloses the same numbers.
"""

from __future__ import annotations

from importlib.util import find_spec

from bondic.core.errors import InvalidInput
from bondic.core.sums.engine import Engine
from bondic.core.sums.linear import Constants, Features
from bondic.core.sums.reference import Reference


def engines(name: str) -> tuple[Engine, ...]:
    """Those that a name stands for; the cheapest of them is taken."""
    if name in ("cuda", "cuda32"):
        from bondic.engines.cuda import Cuda  # needs torch, and nothing that is compiled here

        return (Constants(), Features(), Cuda("float64" if name == "cuda" else "float32"), Reference())
    if name == "auto" and not _compiles():
        return _without_numba()
    from bondic.engines.products import Pairs
    from bondic.engines.series import Series

    fast: dict[str, tuple[Engine, ...]] = {
        "auto": (Series(),),
        "series": (Series(always=True),),
        "pairs": (),
    }
    return (Constants(), Features(), Pairs(), Reference(), *fast[name])


def _compiles() -> bool:
    try:
        return find_spec("numba") is not None
    except ValueError:  # somebody has put None in its place
        return False


def _without_numba() -> tuple[Engine, ...]:
    """A machine that has NumPy, SciPy and perhaps torch: its GPU, or the definition."""
    try:
        return engines("cuda")
    except InvalidInput:
        return (Constants(), Features(), Reference())
