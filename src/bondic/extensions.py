"""What other packages add, such as the lab: methods and noise bounds, found by the entry points of the group `bondic.methods`.

An entry point leads to an `Extension`. Its names are known at once; what a name stands for is imported when it is looked up, so
nothing of another package is loaded before it is used.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from bondic.core.balls import Instruments, ValueClass
    from bondic.core.certificate import Certificate
    from bondic.core.dual.noise import NoiseBound
    from bondic.rows.rows import Rows

GROUP = "bondic.methods"


class NamedMethod(Protocol):
    """A method, and the fields that its short name stands for."""

    @property
    def method(self) -> type[Any]: ...
    @property
    def fixed(self) -> Mapping[str, Any]: ...

    def make(self, **options: Any) -> Any:
        """The method with these fields."""


@dataclass(frozen=True, eq=False)
class GaugeQuestion:
    """What a noise bound is planned with, before a certified row is seen."""

    problem: Rows
    instruments: Instruments
    ball: ValueClass
    probability: float
    rows: int  # planned
    rank: int  # of a search


class Extension(Protocol):
    """What a package adds."""

    @property
    def methods(self) -> Mapping[str, NamedMethod]:
        """By short name."""

    @property
    def gauges(self) -> Mapping[str, Callable[[GaugeQuestion], NoiseBound]]:
        """By the name that `Dual(gauge=...)` takes."""

    @property
    def registered(self) -> Mapping[str, str]:
        """The module of each noise bound, by its name in certificates."""


@cache
def _extensions() -> tuple[Extension, ...]:
    return tuple(entry.load() for entry in entry_points(group=GROUP))


@cache
def added_methods() -> Mapping[str, NamedMethod]:
    """By short name; empty where no other package adds any."""
    return ChainMap(*(extension.methods for extension in _extensions()))  # type: ignore[arg-type]


@cache
def added_gauges() -> Mapping[str, Callable[[GaugeQuestion], NoiseBound]]:
    """By name."""
    return ChainMap(*(extension.gauges for extension in _extensions()))  # type: ignore[arg-type]


def register_named(certificate: Certificate) -> None:
    """Import the module of the noise bound that a certificate names, where an installed package has it."""
    proof = certificate.body.get("proof")
    noise = proof.get("noise") if isinstance(proof, dict) else None
    name = noise.get("noise") if isinstance(noise, dict) else None
    for extension in _extensions():
        if isinstance(name, str) and name in extension.registered:
            import_module(extension.registered[name])
