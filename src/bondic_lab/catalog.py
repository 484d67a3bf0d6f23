"""What the lab adds to `bondic`: baselines and noise bounds by name; what a name stands for is imported when it is looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

NAMES = (
    "tis", "pdis", "sntis", "snpdis", "tis-hoeffding", "pdis-hoeffding", "is-percentile", "is-bca", "hcope", "pdis-betting",
    "dr-betting", "dm", "dm-neural", "dr", "mis", "lstd", "drl", "coindice", "model", "duan-wang", "feng2020", "lipschitz",
)  # fmt: skip
"""Those of bondic_lab.baselines.registry, in its order."""
_GAUGES = ("finite", "self-normalized", "plug-in")
"""Those of bondic_lab.noise.gauges."""
_REGISTERED = ("finite_class", "self_normalized", "plug_in", "v_statistic")


class Lazy(Mapping[str, Any]):
    """A table of another module, whose names are known before it is imported."""

    def __init__(self, names: tuple[str, ...], module: str, table: str) -> None:
        self._names, self._module, self._table = names, module, table

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        return getattr(import_module(self._module), self._table)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Catalog:
    """The `bondic.extensions.Extension` of the lab."""

    methods = Lazy(NAMES, "bondic_lab.baselines.registry", "BASELINES")
    gauges = Lazy(_GAUGES, "bondic_lab.noise.gauges", "GAUGES")
    registered = MappingProxyType({name.replace("_", "-"): f"bondic_lab.noise.{name}" for name in _REGISTERED})


CATALOG = Catalog()
