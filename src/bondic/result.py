"""The result of an evaluation: frozen, complete, and able to explain itself."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bondic._version import __version__
from bondic.core.cells.allowance import Allowance
from bondic.core.cells.proof import CellsProof
from bondic.core.certificate import Certificate, certify
from bondic.core.claims import Assumption, Claim, ErrorBudget, Guarantee, Rejection, Side, Status, conclude
from bondic.core.errors import InvalidInput, printable_lines
from bondic.core.printed import interval_text
from bondic.core.proof import Claims, Proof
from bondic.core.question import Question
from bondic.core.separate import SeparateProof
from bondic.core.terms import ValueRange
from bondic.curve import METHOD as GROUPS
from bondic.curve import AllowanceCurve, CurvePoint
from bondic.engines.sums import STANDARD
from bondic.errors import Listing, NoInterval, ValidityNote
from bondic.rendering import confidence, three
from bondic.robustness import Robustness
from bondic.rows import Rows
from bondic.withhold import withhold_rows

StepKind = Literal[
    "decision", "overlap", "rejected", "term", "allowance", "rows", "discount", "start", "range", "method"
]
KnownBy = Literal["counted", "extrapolated", "yours"]
_LABELS: dict[KnownBy, str] = {"counted": "", "extrapolated": " (extrapolated, not guaranteed)", "yours": ""}


def _view(name: str) -> Any:
    """A function of the views, which stand above results and are imported when used: "module.function"."""
    module, _, function = name.rpartition(".")
    return getattr(import_module(f"bondic.{module}"), function)


@cache
def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    libraries = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "numba")}
    return {"bondic": __version__, "python": platform.python_version(), **libraries}


class ConfidenceInterval(NamedTuple):
    """[low, high], a pair: `low, high = result.interval`."""

    low: float
    high: float

    @property
    def length(self) -> float:
        return self.high - self.low

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Real) and self.low <= float(value) <= self.high

    def __str__(self) -> str:
        return interval_text(self.low, self.high)


@dataclass(frozen=True)
class NextStep:
    """What would help, and how far that is known. It is advice, never a guarantee.

    Parameters
    ----------
    kind : str
        What it is about: "decision", "overlap", "rejected", "term", "allowance", "rows", "discount", "start", "range" or
        "method".
    text : str
        What was found and what to do, in a sentence or two.
    basis : {"counted", "extrapolated", "yours"}
        Counted in log and result; extrapolated from them; or a statement that only you can make.
    loud : bool, default False
        Whether nothing else helps before this is done.
    numbers : dict of str to float
        The numbers in the text, for programs.
    """

    kind: StepKind
    text: str
    basis: KnownBy = "counted"
    loud: bool = False
    numbers: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """The text with its label."""
        return f"{self.text.removesuffix('.')}{_LABELS[self.basis]}."

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "kind": self.kind,
            "text": str(self),
            "basis": self.basis,
            "loud": self.loud,
            "numbers": {name: float(value) for name, value in self.numbers.items()},
        }


@dataclass(frozen=True)
class Ruling:
    """What a gate says on the ground of a result: the first line of every view, and of what to do next.

    Parameters
    ----------
    verdict : {"approve", "refuse", "cannot tell"}
    text : str
        The verdict and what it rests on.
    rows : float, default NaN
        Where it cannot tell: about how many rows in all would, if the estimate is right. An extrapolation.
    holds : bool, default True
        Whether the requirement would then be met.
    """

    verdict: Literal["approve", "refuse", "cannot tell"]
    text: str
    rows: float = math.nan
    holds: bool = True


@dataclass(frozen=True)
class Subgroups:
    """Intervals by subgroup of the starts, which hold together with probability at least 1 - alpha: `result.subgroups["north"]`.

    Parameters
    ----------
    by : str
        The column, or the name of the function, that makes the subgroups.
    results : dict of str to Result
        By subgroup. Their certificate is that of the whole: `verify(result, log, by=...)` makes all of them again.
    counts : dict of str to int
        How many starts, decisions or episodes of the log each of them has.
    unit : str
        What is counted: "starts", "decisions" or "episodes".
    """

    by: str
    results: dict[str, Result]
    counts: dict[str, int]
    unit: str

    def __getitem__(self, name: str) -> Result:
        if name not in self.results:
            raise InvalidInput(f"There is no subgroup {name!r}; there are {', '.join(self.results)}.")
        return self.results[name]

    def __str__(self) -> str:
        return "\n".join([f"{self.headline()}:", *(f"{name}: {one!r}" for name, one in self.results.items())])

    def headline(self) -> str:
        """The joint guarantee of the intervals."""
        alpha = next(iter(self.results.values())).alpha
        count = f"all {len(self.results)} intervals together" if len(self.results) > 1 else "one subgroup"
        return f"By {self.by}: {count} at {100 * (1 - alpha):g}% confidence"

    def to_rows(self) -> list[dict[str, Any]]:
        """A dict per subgroup: its name, ends, estimate, status and count; no ends after a rejection."""
        return [
            {
                "subgroup": name,
                **{key: row[key] for key in ("low", "high", "estimate", "status")},
                self.unit: self.counts[name],
            }
            for name, row in ((name, one.to_row()) for name, one in self.results.items())
        ]


@dataclass(frozen=True)
class Result:
    """An interval for the value of a policy (a discounted sum, not normalized by 1 - gamma)."""

    low: float  # lower end; that of the value range where `side` leaves it out, and after a rejection
    high: float  # upper end, likewise: after a rejection no comparison with the ends shows anything
    estimate: float  # point estimate, NaN where the rows decide none; no guarantee of its own; choices["estimate"]: its source
    alpha: float  # probability that the interval may miss the value
    side: Side  # which ends were computed
    method: str  # the name of the method
    guarantee: Guarantee  # what alpha means: for this log, in the limit of long logs, or nothing
    status: Status  # whether the log narrowed the value range, or contradicts the assumptions
    value_range: ValueRange  # what the reward range and a stated value range imply without the log
    claims: tuple[Claim, ...]  # the end points that were found, each split into its parts
    rejection: Rejection | None  # None where the method tests nothing
    gap: tuple[float, float]  # how far each end may be from the best ω could do
    rows: tuple[int, int]  # certified rows of the log
    budget: ErrorBudget  # how alpha was divided over events
    assumptions: tuple[Assumption, ...]  # what the interval rests on, and who has stated it
    choices: dict[str, str]  # every default that was filled in, in words
    seeds: dict[str, int]  # every seed, by what it draws
    versions: dict[str, str]  # of the libraries that computed the numbers
    hashes: dict[str, str]  # of the log, and of the certificate where there is one
    effective_sample_size: float  # how many rows (or episodes) carry the weights; no part of a proof
    seconds: dict[str, float]  # time spent, by stage
    warnings: tuple[str, ...] = ()  # about log and policy: where one applies, the interval is not valid
    notes: tuple[str, ...] = ()  # how the log was read
    proof: Proof | None = field(repr=False, compare=False, default=None)  # None: nothing that could be verified again
    certificate: Certificate | None = field(repr=False, default=None)  # the proof as data, with what it shows
    question: Rows | None = field(repr=False, compare=False, default=None)  # the problem; never written to a file
    steps: tuple[NextStep, ...] = field(repr=False, compare=False, default=())  # what to do next, if it was requested
    curve: AllowanceCurve | None = field(
        repr=False, compare=False, default=None
    )  # intervals by allowance, where there are groups
    parts: tuple[Result, ...] = field(
        repr=False, compare=False, default=()
    )  # of a difference: the values of both policies, each by itself at the same alpha
    names: tuple[str, str] = ("new", "today")  # of both policies of a difference
    today: Result | None = field(
        repr=False, compare=False, default=None
    )  # how far the policy exceeds the one that made the log, where the log says it cheaply
    subgroups: Subgroups | None = field(repr=False, compare=False, default=None)  # intervals by subgroup, if requested
    ruling: Ruling | None = field(repr=False, compare=False, default=None)  # of a gate that the result decides
    robustness: Robustness | None = None  # what the interval is worth if the value function is rougher than Q

    @staticmethod
    def of(
        proof: Proof,
        rows: Rows,
        *,
        method: str,
        against: Rows | None = None,
        estimate: float = math.nan,
        claims: Claims | None = None,
        gap: tuple[float, float] = (math.nan, math.nan),
        choices: dict[str, str] | None = None,
        seeds: dict[str, int] | None = None,
        effective: float = 0.0,
        seconds: dict[str, float] | None = None,
        planner: dict[str, Any] | None = None,
    ) -> Result:
        """What a proof shows on its rows, with its certificate; `claims` are those of the proof where they are known already.

        The value of the policy of `rows`, or how far it exceeds that of the policy of `against`, on the same rows.
        `planner` says how the plan of the proof was made (`bondic.methods.replay.describe`).
        """
        question = Question.value(rows) if against is None else Question.difference(rows, against)
        shown = proof.claims(question, STANDARD) if claims is None else claims
        limits = question.limits
        found = conclude(limits, shown.ends, shown.rejected, proof.side)
        assumptions = proof.all_assumptions(question, rejected=found.status is Status.REJECTED)
        notes = {"estimate": estimate, "gap": gap, "choices": choices or {}, "versions": versions()}
        certificate = certify(proof, shown, found, assumptions, notes, planner)
        return Result(
            low=found.low,
            high=found.high,
            estimate=estimate,
            alpha=proof.budget.alpha,
            side=proof.side,
            method=method,
            guarantee=proof.guarantee,
            status=found.status,
            value_range=limits,
            claims=shown.ends,
            rejection=shown.tests[0] if shown.tests else None,
            gap=gap,
            rows=proof.estimand.rows,
            budget=proof.budget,
            assumptions=assumptions,
            choices=choices or {},
            seeds={"policy draws": rows.seed, **(seeds or {})},
            versions=versions(),
            hashes={"log": rows.log_hash, "certificate": certificate.digest},
            effective_sample_size=effective,
            seconds=seconds or {},
            proof=proof,
            certificate=certificate,
        )

    @property
    def lower(self) -> Claim | None:
        return next((claim for claim in self.claims if claim.end == "lower"), None)

    @property
    def upper(self) -> Claim | None:
        return next((claim for claim in self.claims if claim.end == "upper"), None)

    @property
    def interval(self) -> ConfidenceInterval:
        """[low, high]; NoInterval after a rejection."""
        if self.status is Status.REJECTED:
            raise NoInterval
        return ConfidenceInterval(self.low, self.high)

    @property
    def length(self) -> float:
        """high - low; NoInterval after a rejection."""
        return self.interval.length

    @property
    def chosen(self) -> tuple[Assumption, ...]:
        """What a baseline assumes without a statement of the user. bondic's own methods assume nothing of the kind."""
        return tuple(item for item in self.assumptions if item.state == "chosen")

    @property
    def is_assumption_free(self) -> bool:
        """Whether Q is every function in the value range: nothing is assumed about the value function, of any policy."""
        states = {item.state for item in self.assumptions if item.name.partition(" (")[0] == "values"}
        return states == {"checked"}

    @property
    def is_difference(self) -> bool:
        """Whether it is about how far one policy exceeds another."""
        return self.proof is not None and len(self.proof.estimand.policies) > 1

    @property
    def comparison(self) -> Result | None:
        """The difference of two policies, with both values: this one, or the one with today's; None where there is none."""
        found = self if self.is_difference else self.today
        if found is None or len(found.parts) != 2:
            return None
        return None if any(one.status is Status.REJECTED for one in (found, *found.parts)) else found

    @property
    def says_nothing_of_new(self) -> bool:
        """Whether it is a difference of two values by themselves, of which the first is the whole value range."""
        apart = isinstance(self.proof, SeparateProof) and len(self.parts) == 2
        return apart and self.parts[0].status is Status.TRIVIAL

    @property
    def estimate_outside(self) -> bool:
        """Whether the point estimate is not in the interval; after a rejection there is no interval."""
        return self.estimated and self.status is not Status.REJECTED and not self.low <= self.estimate <= self.high

    @property
    def estimated(self) -> bool:
        """Whether there is a point estimate; none where rows decide less of it than the center of Q does."""
        return not math.isnan(self.estimate)

    def __repr__(self) -> str:
        level = confidence(self.alpha).removesuffix(" confidence")
        kind = {"both": "interval", "lower": "lower bound", "upper": "upper bound"}[self.side]
        given = f"{level} {kind} {self.interval}" if self.status is not Status.REJECTED else f"no {kind} at {level}"
        estimate = three(self.estimate) if self.estimated else "none"
        return (
            f"Result({given}, estimate={estimate}, status={self.status.name}, "
            f"guarantee={self.guarantee!r}, method={self.method!r}, n={self.rows[1] - self.rows[0]})"
        )

    def __str__(self) -> str:
        return printable_lines("\n".join([*(f"Warning: {text}" for text in self.warnings), self.headline()]))

    def _repr_html_(self) -> str:
        return str(_view("report.pens.fragment")(self))

    def summary(self) -> str:
        """The warnings, if there are any, a line each; then the answer in one sentence."""
        return "\n".join([*(f"Warning: {text}" for text in self.warnings), self.sentence()])

    def headline(self) -> str:
        """Both values and their difference, where today's is known; else the answer, as `sentence` has it."""
        return str(_view("summary.headline")(self))

    def sentence(self) -> str:
        """The answer in one sentence, ends rounded outward; fields and files keep every digit."""
        return str(_view("summary.answer")(self))

    def terms(self) -> dict[str, dict[str, float]]:
        """Every part of the end points that have more than one: values, then upper bounds of what is added or subtracted."""
        return {claim.end: claim.table() for claim in self.claims if claim.of("spread")}

    @property
    def allowance(self) -> Allowance | None:
        """How alike groups are, as it was stated; None where nothing was."""
        return self.proof.allowance if isinstance(self.proof, CellsProof) else None

    @property
    def on_groups(self) -> bool:
        """Whether the interval is a point of the curve, and not one that the curve stands beside."""
        return self.curve is not None and isinstance(self.proof, CellsProof)

    @property
    def unstated(self) -> bool:
        """Whether there are groups of states, and nothing is stated about how alike they are."""
        return self.on_groups and self.allowance is None

    def _curve(self) -> AllowanceCurve:
        if self.curve is None:
            raise InvalidInput(
                f"This result has no curve of allowances: the method {self.method} has no groups of states. "
                "Pass method=Groups() (--method groups)."
            )
        return self.curve

    def at(self, allowance: Allowance | float | tuple[float, float]) -> CurvePoint:
        """The interval if groups are as alike as an allowance says, one number or (averages, single values); no rerun."""
        return self._curve().at(allowance)

    def with_allowance(self, allowance: Allowance | float | tuple[float, float]) -> Result:
        """The result at an allowance that you state now, with its certificate; no rerun.

        That it was stated after the curve was shown is recorded: the interval then misses while the statement is true with
        probability at most alpha, but nothing is known of how likely such a statement is to be true.
        """
        curve, stated = self._curve(), Allowance.of(allowance)
        if self.on_groups and stated == self.allowance:
            return self
        proof, question = curve.stated(stated, first=False), curve.rows.policies()
        made = Result.of(
            proof,
            question[0],
            against=question[1] if len(question) > 1 else None,
            method=GROUPS,
            claims=proof.claims_on(curve.rows, curve.bound),
            choices=self.choices,
            effective=curve.bound.effective_rows(),
            seconds=self.seconds,
            planner=self.certificate.planner if self.on_groups and self.certificate is not None else None,
        )
        made = made if self.question is None else made.with_question(self.question)
        return replace(made, curve=curve, warnings=self.warnings, notes=self.notes)

    def with_question(self, question: Rows) -> Result:
        """The same result with its question, the warnings and notes on it, and what was stated by accepting something."""
        stated = tuple(Assumption("log", text, "stated") for text in question.stated)
        said = [note for note in question.notes if isinstance(note, ValidityNote)]
        if self.estimate_outside:
            said.append(ValidityNote(
                f"The point estimate, {three(self.estimate)}, lies outside of its own interval, "
                f"{interval_text(self.low, self.high)}: parts of the log disagree. Look for rows out of order, for drift "
                "and for wrong propensities before you use either."
            ))  # fmt: skip
        return replace(
            self,
            warnings=tuple(dict.fromkeys((*question.validity_notes, *said))),
            notes=tuple(dict.fromkeys(note for note in question.notes if not isinstance(note, ValidityNote))),
            assumptions=(*self.assumptions, *stated),
            question=question,
        )

    def with_choice(self, name: str, text: str) -> Result:
        """The same result with one more choice in words, first in the list and in the certificate."""
        return self.with_choices({name: text})

    def with_choices(self, first: dict[str, str]) -> Result:
        """The same with several: the digest covers all arrays of the certificate, and is made once."""
        choices = {**first, **{known: words for known, words in self.choices.items() if known not in first}}
        if self.certificate is None:
            return replace(self, choices=choices)
        certificate = self.certificate.with_choices(choices)
        return replace(
            self, choices=choices, certificate=certificate, hashes={**self.hashes, "certificate": certificate.digest}
        )

    def without_rows(self, problem: Rows) -> Result:
        """The same result with a certificate that holds no single row; verification then needs the policy."""
        notes = tuple(note for note in self.notes if not isinstance(note, Listing))
        if self.proof is None or self.certificate is None:
            return replace(self, notes=notes)
        proof = withhold_rows(self.proof, problem)
        certificate = self.certificate.with_proof(proof)
        hashes = {**self.hashes, "certificate": certificate.digest}
        return replace(self, proof=proof, certificate=certificate, hashes=hashes, notes=notes, question=None)

    def breaks(self, *, above: float | None = None, below: float | None = None) -> tuple[str, ...]:
        """Up to which allowance a decision holds, in words; `curve.breaks` has the number. Empty where there is no curve."""
        found: tuple[str, ...] = _view("summary.breaks")(self, above=above, below=below)
        return found

    def next_steps(self) -> tuple[NextStep, ...]:
        """What would help where the answer is trivial, wide or rejected. Advice, never a guarantee."""
        found: tuple[NextStep, ...] = self.steps or _view("advice.levers.next_steps")(self)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data: exactly what `result.json` holds, next steps included where the question is still there."""
        complete = replace(self, steps=self.next_steps()) if self.question is not None else self
        found: dict[str, Any] = _view("report.exports.result_dict")(complete)
        return found

    def to_json(self) -> str:
        """`to_dict` as text; the docstring of `report/exports.py` lists its fields."""
        return str(_view("report.exports.as_json")(self.to_dict()))

    def to_row(self) -> dict[str, Any]:
        """One row of a table of many results, by column; the columns of `result.csv`."""
        found: dict[str, Any] = _view("report.exports.result_row")(self)
        return found

    def to_csv(self, *, header: bool = True) -> str:
        """`to_row` as text, so that many results make a table."""
        return str(_view("report.exports.result_csv")(self, header=header))

    def to_frame(self) -> Any:
        """`to_row` as a pandas DataFrame of one row; `pandas.concat` makes a table of many."""
        return _view("report.exports.frame")([self.to_row()])

    def to_markdown(self, title: str = "Policy evaluation") -> str:
        """A summary for an issue, a merge request or a mail."""
        return str(_view("report.pens.result_markdown")(self, title))

    def plot(self, ax: Any = None) -> Any:
        """Both ends as stacks of their terms, with the interval (extra `plot`): a matplotlib Figure, or `ax`, drawn on."""
        return _view("report.plots.terms_plot")(self, ax)

    def report(self, path: str | os.PathLike[str], *, title: str = "Policy evaluation") -> Path:
        """Write the report, one page that opens anywhere."""
        written: Path = _view("report.exports.write_report")(self, path, title=title)
        return written

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        title: str = "Policy evaluation",
        overwrite: bool = False,
        no_rows: bool = False,
    ) -> Path:
        """Write result, certificate and report into a folder that appears when it is complete, as `bondic evaluate` does.

        `overwrite` replaces an earlier result as a whole, `no_rows` keeps every single row out of report and certificate.
        """
        written: Path = _view("report.exports.save_result")(
            self, folder, title=title, overwrite=overwrite, no_rows=no_rows
        )
        return written
