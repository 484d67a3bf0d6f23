"""What is assumed about q*, and what ω is made of: Q, a set of functions around a center, and W (section 3).

The bias of ω is at most sup { <q - center, μ_ω> : q in Q } = radius |μ_ω| in the dual norm. For a ball of a kernel space that
norm is (7); for a box, the functions with values in a range, it is the total variation. A box around the value range (6) assumes
nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import ClassVar

import numpy as np

from bondic.core.bounded import Enclosure
from bondic.core.errors import InvalidInput, one_line
from bondic.core.functions import FeatureFunction, Function
from bondic.core.kernels.base import Kernel
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.normal_form import Layout, normal_form, operations
from bondic.core.registry import kind, register
from bondic.core.sums.forms import Progress, Sums
from bondic.core.sums.measure import Source
from bondic.core.terms import ValueRange

_LONGEST_NOTE = 300


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a choice comes from: which rows were looked at, of which log.

    It is a statement, checked against the certified rows of the *same* log. Tuning on a copy of the rows under another hash, or
    by hand, and calling it fixed beforehand cannot be found out by any program.

    Parameters
    ----------
    note : str, default "fixed beforehand"
        In words, for the reader of the result.
    rows : (int, int), default None
        First row that was looked at and the row after the last; None when no row was.
    log_hash : str, default ""
        `content_hash` of the log that they are rows of; "" when no row was looked at.
    """

    note: str = "fixed beforehand"
    rows: tuple[int, int] | None = None
    log_hash: str = ""

    def __post_init__(self) -> None:
        # printed on terminals and pages of other people: one printable line, whatever was written
        object.__setattr__(self, "note", one_line(self.note, _LONGEST_NOTE))
        object.__setattr__(self, "log_hash", one_line(self.log_hash, _LONGEST_NOTE))
        if self.rows is not None and not 0 <= self.rows[0] < self.rows[1]:
            raise InvalidInput(
                f"Rows {self.rows} are no stretch of a log: (first, one after the last), at least one row."
            )

    def saw(self, rows: tuple[int, int], log_hash: str) -> bool:
        """Whether any of these rows, or one after them, was used for the choice (an unknown log counts as the same log).

        Rows after them count because what happened later depends on what happened in them.
        """
        if self.rows is None or (self.log_hash and log_hash and self.log_hash != log_hash):
            return False
        return self.rows[0] < self.rows[1] and self.rows[1] > rows[0]

    def __str__(self) -> str:
        return self.note if self.rows is None else f"{self.note} on rows {self.rows[0]} to {self.rows[1] - 1}"


@dataclass(frozen=True, eq=False)
class Instruments:
    """W, the unit ball of the RKHS of `kernel`; weight functions ω are multiples of its members.

    The noise bound needs K_max = sup k(x, x) < inf, and that neither the kernel nor its bandwidth has seen the
    rows that are certified: `provenance` says where they come from and `estimate_interval` checks it.

    Parameters
    ----------
    kernel : Kernel
        k, with a finite K_max. A richer kernel has weights that balance the log better; noise grows with their norm.
    provenance : Provenance
        Which rows kernel and bandwidth were tuned on; none of them may be certified. Default: fixed beforehand.
    """

    kernel: Kernel
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        if not math.isfinite(self.kernel.sup_diag):
            raise InvalidInput(
                f"W needs a kernel that is bounded on the diagonal; {self.kernel!r} has no finite supremum."
            )


@kind("class")
class ValueClass(ABC):
    """Q = { q : |q - center| <= radius } for some norm: sup { <q - center, μ> : q in Q } = radius |μ|.

    `misspecification` = beta weakens q* in Q to "some q in Q is within beta of q* everywhere".
    """

    kernel: Kernel | None  # of the space, where it is one with a kernel
    radius: float
    center: Function | None
    misspecification: float
    provenance: Provenance
    has_radius: ClassVar[bool] = True
    """Whether the radius is a belief: it is then varied."""

    @abstractmethod
    def sizes(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[Enclosure]:
        """|μ| in the dual norm for every measure of the source."""

    @abstractmethod
    def describe(self) -> str:
        """What it means that q* is in Q: "within ...", to the end of the sentence and what has to be said about it."""

    @abstractmethod
    def name(self) -> str:
        """Q in a few words."""

    @abstractmethod
    def with_misspecification(self, beta: float) -> ValueClass:
        """The same Q with this allowance, where there is anything to allow for."""

    def assumes_nothing(self, limits: ValueRange) -> bool:
        """Whether every function with values in `limits` is in Q."""
        del limits
        return False

    @abstractmethod
    def work(self, points: float, layout: Layout) -> float:
        """About how many pairs of points `sizes` runs over."""

    def center_text(self) -> str:
        value = constant_value(self.center)
        return f"the center {self.center!r}" if value is None else f"{value:.6g}"


def constant_function(value: float, layout: Layout) -> Function | None:
    """The function that is `value` everywhere; None for 0."""
    return None if value == 0 else FeatureFunction(Constant(1.0), layout, np.array([value]))


def constant_value(function: Function | None) -> float | None:
    """The value of a function that is constant by construction; None for any other."""
    return 0.0 if function is None or function.is_zero else function.constant


@register("class", "ball")
@dataclass(frozen=True, eq=False)
class Ball(ValueClass):
    """Q = { q : |q - center| <= radius } in the RKHS of `kernel`; center 0 unless given.

    q* in Q is an assumption: it can be rejected by data but not proved. `misspecification` = beta >= 0 weakens it to "some q
    in Q is within beta of q* everywhere".

    Parameters
    ----------
    kernel : Kernel
        k̃: says which functions are smooth, hence have a small norm.
    radius : float
        r_Q, the largest norm of q - center, in units of value. Twice the radius gives at most twice the bias.
    center : Function, default None
        The function in the middle; None is the function 0.
    misspecification : float, default 0
        beta, in units of value: how far q* may be from Q anywhere. It widens the interval.
    provenance : Provenance
        Where kernel and radius come from; shown with the result.
    """

    kernel: Kernel
    radius: float
    center: Function | None = None
    misspecification: float = 0.0
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        _set_size(self, "radius", "The radius of Q")
        _set_size(self, "misspecification", "The misspecification allowance")

    def sizes(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[Enclosure]:
        """|μ| = sqrt( sum_ij c_i k̃(x_i, x_j) c_j ) (7)."""
        return [square.sqrt() for square in sums.squares(normal_form(self.kernel, layout), source, progress)]

    def describe(self) -> str:
        allowance = f", up to {self.misspecification:g} everywhere" if self.misspecification else ""
        return (
            f"within distance {self.radius:.6g} of {self.center_text()} in the space of {self.kernel!r}{allowance}. Data can "
            "reject this but not prove it."
        )

    def name(self) -> str:
        return f"{self.kernel!r}, radius {self.radius:g}"

    def with_misspecification(self, beta: float) -> Ball:
        return replace(self, misspecification=beta)

    def work(self, points: float, layout: Layout) -> float:
        return operations(self.kernel, layout) * points * points / 2

    def with_radius(self, radius: float) -> Ball:
        return replace(self, radius=radius)


@register("class", "box")
@dataclass(frozen=True, eq=False)
class Box(ValueClass):
    """Q = { q : |q(x) - center(x)| <= radius at every point }: the ball of the largest deviation.

    Its dual norm is the total variation sum_x |μ_ω(x)| over distinct points, so the bias is small only where the
    log repeats its points: tables. There is no misspecification to allow for.

    Parameters
    ----------
    radius : float
        The largest |q(x) - center(x)|, in units of value: half the width of the value range where nothing is assumed.
    center : Function, default None
        The function in the middle; None is the function 0. `around` makes the middle of a range.
    provenance : Provenance
        Where the radius comes from; shown with the result.
    """

    radius: float
    center: Function | None = None
    provenance: Provenance = field(default_factory=Provenance)
    has_radius: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_size(self, "radius", "The half-width of a box")

    @property
    def kernel(self) -> None:  # type: ignore[override]
        return None

    @property
    def misspecification(self) -> float:  # type: ignore[override]
        return 0.0

    @staticmethod
    def around(low: float, high: float, layout: Layout) -> Box:
        """The smallest box, up to rounding, that holds every function with values in [low, high]."""
        middle = 0.5 * low + 0.5 * high
        radius = max((Enclosure(high) - middle).upper, (Enclosure(middle) - low).upper, 0.0)
        return Box(radius, constant_function(middle, layout), Provenance("the value range"))

    def sizes(self, source: Source, layout: Layout, sums: Sums, progress: Progress | None = None) -> list[Enclosure]:
        """sum_x |μ(x)|."""
        del layout, progress
        return sums.total_variations(source)

    def describe(self) -> str:
        return f"within {self.radius:.6g} of {self.center_text()} at every point."

    def name(self) -> str:
        return f"box of half-width {self.radius:g}"

    def with_misspecification(self, beta: float) -> Box:
        del beta
        return self

    def assumes_nothing(self, limits: ValueRange) -> bool:
        """Whether every function with values in `limits` is certainly in it; only constant centers are judged."""
        middle = constant_value(self.center)
        if middle is None:
            return False
        return max((Enclosure(limits.high) - middle).upper, (Enclosure(middle) - limits.low).upper) <= self.radius

    def work(self, points: float, layout: Layout) -> float:
        """Points are sorted."""
        del layout
        return 64.0 * points

    def with_radius(self, radius: float) -> Box:
        return replace(self, radius=radius)


def _set_size(of: ValueClass, name: str, words: str) -> None:
    """A finite number >= 0, as a float."""
    value = getattr(of, name)
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < math.inf:
        raise InvalidInput(f"{words} (`{name}`) must be a finite number >= 0, not {value!r}.")
    object.__setattr__(of, name, float(value))
