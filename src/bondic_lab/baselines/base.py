"""What all baselines share: the rows are held at once, α is divided, ends are found, cut to the value range and labeled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bondic.core.claims import ErrorBudget, Guarantee, Side
from bondic.result import Result
from bondic.rows import Rows
from bondic_lab.baselines import outcome as out


class Listed:
    """A method with a short name: what the registry lists of it is said on its class."""

    name: ClassVar[str]
    words: ClassVar[str]  # what it is
    guarantee: ClassVar[Guarantee] = "asymptotic"  # under its own assumptions and with default fields
    needs: ClassVar[tuple[str, ...]] = ()  # optional columns that the log must hold
    extra: ClassVar[str | None] = None  # the optional library without which it cannot be made

    def __init_subclass__(
        cls,
        name: str = "",
        words: str = "",
        guarantee: Guarantee | None = None,
        needs: tuple[str, ...] = (),
        extra: str | None = None,
    ) -> None:
        """`class Lstd(OverFeatures, name="lstd", words="temporal differences")`; what is not said is inherited."""
        said = {"name": name, "words": words, "guarantee": guarantee, "needs": needs, "extra": extra}
        for key, value in said.items():
            if value:
                setattr(cls, key, value)

    @classmethod
    def short_names(cls) -> tuple[ShortName, ...]:
        """One, unless its fields make several methods of it."""
        return (ShortName(cls.name, cls, cls.words, cls.guarantee),)


@dataclass(frozen=True)
class ShortName:
    """An entry of the registry: the method, and the fields that its short name stands for."""

    name: str
    method: type[Listed]
    words: str
    guarantee: Guarantee
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def make(self, **options: Any) -> Any:
        """The method with these fields."""
        return self.method(**{**self.fixed, **options})


@dataclass(frozen=True, kw_only=True)
class Baseline(Listed, ABC):
    """One of the other intervals: `ends` is all that is special about it. `side` says which ends to compute."""

    side: Side = "both"

    @property
    def title(self) -> str:
        """The name in results, where fields may be told apart that share a short name."""
        return self.name

    def budget(self, problem: Rows, alpha: float) -> ErrorBudget:
        """α over the ends to compute, in equal parts."""
        del problem
        return out.split_ends(alpha, self.side)

    @abstractmethod
    def ends(self, problem: Rows, budget: ErrorBudget, watch: out.Stopwatch) -> out.Outcome:
        """The interval before the value range is taken into account; an end that was not computed is infinite."""

    def run(self, problem: Rows, alpha: float, progress: out.Progress | None) -> Result:
        """The ends as a result, with the label that they carry."""
        watch = out.Stopwatch(self.title, progress)
        budget = self.budget(problem, alpha)
        found = self.ends(problem, budget, watch)
        return out.conclude_baseline(
            problem,
            found,
            guarantee=found.guarantee or self.guarantee,
            budget=budget,
            name=self.title,
            alpha=alpha,
            side=self.side,
            watch=watch,
        )
