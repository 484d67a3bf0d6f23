"""The baselines by their short names, as `bondic` finds them: the names at once, a method when it is looked up."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

NAMES = (
    "tis", "pdis", "sntis", "snpdis", "tis-hoeffding", "pdis-hoeffding", "is-percentile", "is-bca", "hcope", "pdis-betting",
    "dr-betting", "dm", "dm-neural", "dr", "mis", "lstd", "drl", "coindice", "model", "duan-wang", "feng2020", "lipschitz",
)  # fmt: skip
"""Those of bondic_lab.baselines.registry, in its order."""


class Catalog(Mapping[str, Any]):
    """`BASELINES` of the registry, which is imported when the first of them is looked up."""

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(name)
        return importlib.import_module("bondic_lab.baselines.registry").BASELINES[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


CATALOG = Catalog()
