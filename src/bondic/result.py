"""The result of an evaluation: frozen, complete, and able to explain itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bondic.bounds.dual import BoundTerms
from bondic.bounds.rejection import Rejection
from bondic.certificate.assumptions import Assumption
from bondic.certificate.certificate import Certificate
from bondic.certificate.conclude import Status
from bondic.certificate.withhold import withhold_rows
from bondic.concentration.budget import ErrorBudget
from bondic.concentration.gauge import Guarantee
from bondic.concentration.value_range import ValueRange
from bondic.errors import InvalidInput
from bondic.problem import Question
from bondic.rendering import result_fragment
from bondic.solvers.model import SearchModel


@dataclass(frozen=True)
class ConfidenceInterval:
    """[low, high]."""

    low: float
    high: float

    @property
    def length(self) -> float:
        return self.high - self.low

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"[{self.low:.6g}, {self.high:.6g}]"


@dataclass(frozen=True)
class Result:
    """An interval for the value of a policy (a discounted sum, not normalised by 1 - gamma)."""

    low: float
    high: float
    estimate: float  # point estimate: no guarantee of its own
    alpha: float
    side: str
    method: str
    guarantee: Guarantee
    status: Status
    value_range: ValueRange  # what the reward range alone implies
    lower: BoundTerms | None
    upper: BoundTerms | None
    rejection: Rejection | None  # None where the method tests nothing
    gap: tuple[float, float]  # how far each end may be from the best omega could do
    rows: tuple[int, int]  # certified rows of the log
    budget: ErrorBudget
    assumptions: tuple[Assumption, ...]
    choices: dict[str, str]  # every default that was filled in, in words
    seeds: dict[str, int]
    versions: dict[str, str]
    hashes: dict[str, str]
    effective_sample_size: float
    seconds: dict[str, float]
    warnings: tuple[str, ...] = ()  # doubts about log and policy: where one applies, the interval is not valid
    certificate: Certificate | None = field(repr=False, default=None)  # None: nothing that could be verified again
    search: SearchModel | None = field(repr=False, compare=False, default=None)  # to search on; never written to a file

    @property
    def interval(self) -> ConfidenceInterval:
        return ConfidenceInterval(self.low, self.high)

    @property
    def length(self) -> float:
        return self.high - self.low

    @property
    def proof(self) -> Certificate:
        """The certificate, for whoever needs one."""
        if self.certificate is None:
            raise InvalidInput(
                f"The method {self.method!r} leaves no certificate: there is nothing to verify or to vary."
            )
        return self.certificate

    def __repr__(self) -> str:
        level = f"{100 * (1 - self.alpha):g}%"
        kind = {"both": "interval", "lower": "lower bound", "upper": "upper bound"}[self.side]
        return (
            f"Result({level} {kind} {self.interval}, estimate={self.estimate:.6g}, status={self.status.name}, "
            f"guarantee={self.guarantee!r}, method={self.method!r}, n={self.rows[1] - self.rows[0]})"
        )

    def terms(self) -> dict[str, dict[str, float]]:
        """Every term of both end points: the signed value, then upper bounds of what is added or subtracted."""
        ends = {"lower": self.lower, "upper": self.upper}
        return {name: end.table() for name, end in ends.items() if end is not None}

    def _repr_html_(self) -> str:
        return result_fragment(self)

    def summary(self) -> str:
        """The warnings, if there are any, a line each; then the answer in one sentence."""
        return "\n".join([*(f"Warning: {text}" for text in self.warnings), self.sentence()])

    def with_doubts(self, question: Question) -> Result:
        """The same result with the warnings of its question, and with what was stated by accepting findings."""
        stated = tuple(Assumption("log", text, "stated") for text in question.stated)
        return replace(self, warnings=question.doubts, assumptions=(*self.assumptions, *stated))

    def sentence(self) -> str:
        """The answer in one sentence."""
        level = f"At {100 * (1 - self.alpha):g}% confidence"
        if self.guarantee != "finite-sample":
            level += (
                " in the limit of large logs" if self.guarantee == "asymptotic" else ", as a guess without guarantee,"
            )
        if self.status is Status.REJECTED:
            return f"{level} no interval is given ({self.status})."
        what = {
            "both": f"lies in {self.interval}",
            "lower": f"is at least {self.low:.6g}",
            "upper": f"is at most {self.high:.6g}",
        }
        return f"{level} the value of the policy {what[self.side]} ({self.status})."

    def without_rows(self, problem: Question) -> Result:
        """The same result with a certificate that holds no single row; verification then needs the policy."""
        if self.certificate is None:
            return self
        certificate = withhold_rows(self.certificate, problem)
        hashes = {**self.hashes, "certificate": certificate.digest}
        return replace(self, certificate=certificate, hashes=hashes, search=None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: what the certificate's body holds, or the fields of a result without one."""
        if self.certificate is not None:
            return {**self.certificate.body, "warnings": list(self.warnings)}
        skipped = ("certificate", "search", "rejection", "lower", "upper", "gap")
        return {name: value for name, value in asdict(self).items() if name not in skipped} | {
            "status": self.status.name
        }
