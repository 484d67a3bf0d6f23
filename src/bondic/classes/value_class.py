"""What every class Q has: a center, a radius in some norm, and where it comes from (section 3)."""

from __future__ import annotations

from abc import ABC
from typing import Literal

from bondic.classes.provenance import Provenance
from bondic.functions.functions import Function
from bondic.registry import kind

Origin = Literal["stated", "chosen"]
"""Who named the class: the user, or the library. A choice is shown as one."""


@kind("class")
class ValueClass(ABC):
    """Q = { q : |q - center| <= radius }; the bias of omega is at most radius times the dual norm of mu_omega.

    `misspecification` = beta weakens q* in Q to "some q in Q is within beta of q* everywhere".
    """

    radius: float
    center: Function | None
    misspecification: float
    provenance: Provenance
    origin: Origin


def check_origin(origin: str) -> None:
    """Anything else would let a choice pass for a statement."""
    if origin not in ("stated", "chosen"):
        raise ValueError(f"a class is stated or chosen, not {origin!r}")
