"""The result of an evaluation: frozen, complete, and able to explain itself."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from numbers import Real
from typing import Any, NamedTuple

from bondic._version import __version__
from bondic.bounds.robustness import Robustness
from bondic.claims import Assumption, Claim, ErrorBudget, Guarantee, Rejection, Side, Status, conclude
from bondic.core.allowance import Allowance
from bondic.curve import METHOD as GROUPS
from bondic.curve import AllowanceCurve, CurvePoint
from bondic.curve_words import alike, break_words, curve_view
from bondic.errors import InvalidInput, Listing, NoInterval
from bondic.proofs.assumptions import VALUE_RANGE
from bondic.proofs.cells import CellsProof
from bondic.proofs.certificate import Certificate, certify
from bondic.proofs.proof import Claims, Proof
from bondic.proofs.withhold import withhold_rows
from bondic.rendering import bound_text, interval_text, number, sentence, three
from bondic.rows import Rows
from bondic.search.search import Search
from bondic.shortcuts import Shortcuts
from bondic.terms import ValueRange, in_full, range_of
from bondic.view import CurveView, Grid, NextStep, Tone, View, assumptions_grid, fragment, parts_grid

_LEVELS: dict[Guarantee, str] = {"asymptotic": " in the limit of large logs", "none": ", as a guess without guarantee,"}
_TONES: dict[Status, Tone] = {Status.INTERVAL: "good", Status.TRIVIAL: "nothing", Status.REJECTED: "bad"}


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
class Result(Shortcuts):
    """An interval for the value of a policy (a discounted sum, not normalized by 1 - gamma)."""

    low: float  # lower end; that of the value range where it was not asked for, and after a rejection
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
    warnings: tuple[str, ...] = ()  # doubts about log and policy: where one applies, the interval is not valid
    notes: tuple[str, ...] = ()  # how the log was read; those that touch validity are of type Doubt
    proof: Proof | None = field(repr=False, compare=False, default=None)  # None: nothing that could be verified again
    certificate: Certificate | None = field(repr=False, default=None)  # the proof as data, with what it shows
    search: Search | None = field(repr=False, compare=False, default=None)  # to search on; never written to a file
    question: Rows | None = field(repr=False, compare=False, default=None)  # what was asked; never written to a file
    steps: tuple[NextStep, ...] = field(repr=False, compare=False, default=())  # what to do next, if it was requested
    curve: AllowanceCurve | None = field(
        repr=False, compare=False, default=None
    )  # intervals by allowance, where there are groups
    robustness: Robustness | None = None  # what the interval is worth if the value function is rougher than Q

    @staticmethod
    def of(
        proof: Proof,
        rows: Rows,
        *,
        method: str,
        estimate: float = math.nan,
        claims: Claims | None = None,
        gap: tuple[float, float] = (math.nan, math.nan),
        choices: dict[str, str] | None = None,
        seeds: dict[str, int] | None = None,
        effective: float = 0.0,
        seconds: dict[str, float] | None = None,
        search: Search | None = None,
        planner: dict[str, Any] | None = None,
    ) -> Result:
        """What a proof shows on its rows, with its certificate; `claims` are those of the proof where they are known already.

        `planner` says how the plan of the proof was made (`bondic.methods.replay.describe`).
        """
        shown = proof.claims(rows) if claims is None else claims
        limits = range_of(rows.terms)
        found = conclude(limits, shown.ends, shown.rejected, proof.side)
        assumptions = proof.assumptions(rows, rejected=found.status is Status.REJECTED)
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
            rows=proof.asked.rows,
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
            search=search,
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
        """What a baseline assumes on its own: nobody has stated it. Intervals of bondic's own methods rest on no such thing."""
        return tuple(item for item in self.assumptions if item.state == "chosen")

    @property
    def is_assumption_free(self) -> bool:
        """Whether Q is every function in the value range: nothing is assumed about the value function."""
        return any(item.name == "values" and item.state == "checked" for item in self.assumptions)

    @property
    def estimate_outside(self) -> bool:
        """Whether the point estimate is not in the interval; after a rejection there is no interval."""
        return self.estimated and self.status is not Status.REJECTED and not self.low <= self.estimate <= self.high

    @property
    def estimated(self) -> bool:
        """Whether there is a point estimate; none where rows decide less of it than the center of Q does."""
        return not math.isnan(self.estimate)

    def __repr__(self) -> str:
        level = f"{100 * (1 - self.alpha):g}%"
        kind = {"both": "interval", "lower": "lower bound", "upper": "upper bound"}[self.side]
        given = f"{level} {kind} {self.interval}" if self.status is not Status.REJECTED else f"no {kind} at {level}"
        estimate = three(self.estimate) if self.estimated else "none"
        return (
            f"Result({given}, estimate={estimate}, status={self.status.name}, "
            f"guarantee={self.guarantee!r}, method={self.method!r}, n={self.rows[1] - self.rows[0]})"
        )

    def __str__(self) -> str:
        return self.summary()

    def terms(self) -> dict[str, dict[str, float]]:
        """Every part of the end points that have more than one: values, then upper bounds of what is added or subtracted."""
        return {claim.end: claim.table() for claim in self.claims if claim.of("spread")}

    def _repr_html_(self) -> str:
        return fragment(self.view())

    def summary(self) -> str:
        """The warnings, if there are any, a line each; then the answer in one sentence."""
        return "\n".join([*(f"Warning: {text}" for text in self.warnings), self.sentence()])

    @property
    def allowance(self) -> Allowance | None:
        """How alike groups are, as it was stated; None where nothing was."""
        return self.proof.allowance if isinstance(self.proof, CellsProof) else None

    @property
    def _on_groups(self) -> bool:
        """Whether the interval is a point of the curve, and not one that the curve stands beside."""
        return self.curve is not None and isinstance(self.proof, CellsProof)

    @property
    def unstated(self) -> bool:
        """Whether there are groups of states, and nothing is stated about how alike they are."""
        return self._on_groups and self.allowance is None

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
        if self._on_groups and stated == self.allowance:
            return self
        proof = curve.stated(stated, first=False)
        made = Result.of(
            proof,
            curve.rows,
            method=GROUPS,
            claims=proof.claims_on(curve.rows, curve.bound),
            choices=self.choices,
            effective=curve.bound.effective_rows(),
            seconds=self.seconds,
            planner=self.certificate.planner if self._on_groups and self.certificate is not None else None,
        )
        made = made if self.question is None else made.with_question(self.question)
        return replace(made, curve=curve, warnings=self.warnings, notes=self.notes)

    def with_question(self, question: Rows) -> Result:
        """The same result with its question, the warnings and notes on it, and what was stated by accepting something."""
        stated = tuple(Assumption("log", text, "stated") for text in question.stated)
        told = {"warnings": question.doubts, "notes": question.notes}
        return replace(self, **told, assumptions=(*self.assumptions, *stated), question=question)  # type: ignore[arg-type]

    def unmet(self, *, above: float | None = None, below: float | None = None) -> tuple[str, ...]:
        """Why the result does not show that the value is at least `above` (at most `below`); empty where it does.

        A finite-sample guarantee is needed: an estimate, or an interval for large logs only, shows nothing about this log.
        Where there is a curve, a reason says up to which allowance the requirement would be met.
        """
        wanted = [(name, bound) for name, bound in (("above", above), ("below", below)) if bound is not None]
        if not wanted:
            raise InvalidInput("Nothing is required: pass above= or below=.")
        if self.status is not Status.INTERVAL:
            return ("; ".join([self._verdict, *self.breaks(above=above, below=below)]),)
        if self.guarantee in _LEVELS:
            return (f"the guarantee of the method {self.method} is {self.guarantee!r}; a finite-sample one is needed",)
        reasons: list[str] = []
        for name, bound in wanted:
            met = self.low >= bound if name == "above" else self.high <= bound
            ends = (
                f"lower end {number(self.low)} is below"
                if name == "above"
                else f"upper end {number(self.high)} is above"
            )
            if not met:
                reasons.append("; ".join([f"the {ends} {in_full(bound)}", *self.breaks(**{name: bound})]))
        return tuple(reasons)

    def breaks(self, *, above: float | None = None, below: float | None = None) -> tuple[str, ...]:
        """Up to which allowance a decision holds, in words; `curve.breaks` has the number. Empty where there is no curve."""
        if self.curve is None:
            return ()
        return tuple(break_words(self.curve, above=above, below=below, stated=self.allowance))

    def with_choice(self, name: str, text: str) -> Result:
        """The same result with one more choice in words, first in the list and in the certificate."""
        choices = {name: text, **self.choices}
        if self.certificate is None:
            return replace(self, choices=choices)
        certificate = self.certificate.with_choices(choices)
        return replace(
            self, choices=choices, certificate=certificate, hashes={**self.hashes, "certificate": certificate.digest}
        )

    def sentence(self) -> str:
        """The answer in one sentence, ends rounded outward; fields and files keep every digit."""
        level = f"At {100 * (1 - self.alpha):g}% confidence{_LEVELS.get(self.guarantee, '')}"
        if self.status is Status.REJECTED:
            return f"{level} no interval is given ({self._verdict})."
        what = {
            "both": f"lies in {interval_text(self.low, self.high)}",
            "lower": f"is at least {bound_text(self.low, -1)}",
            "upper": f"is at most {bound_text(self.high, 1)}",
        }
        return f"{level} the value of the policy {what[self.side]} ({self._verdict})."

    @property
    def ranges(self) -> tuple[str, str]:
        """What implies the value range, and the verb that goes with it."""
        stated = any(item.name == VALUE_RANGE for item in self.assumptions)
        return ("the stated ranges", "imply") if stated else ("the reward range", "implies")

    @property
    def _verdict(self) -> str:
        """The message of the status; it speaks of both ranges where two were stated, and of groups where there are some."""
        ranges, verb = self.ranges
        if self._on_groups and self.curve is not None:
            if self.allowance is None:
                return "trivial: nothing is stated about how alike states are"
            if self.status is Status.INTERVAL:
                return f"stated by you: {alike(self.curve, self.allowance)}"
        return (
            str(self.status)
            .replace("the reward range alone implies", f"{ranges} alone {verb}")
            .replace("the reward range", ranges)
            .replace("the value function q*", "the value function q*" if self._rests_on_class else "the propensities")
        )

    @property
    def _rests_on_class(self) -> bool:
        """Whether a class of value functions was assumed: with propensities none is."""
        return not any(item.name == "propensities" for item in self.assumptions)

    @property
    def told(self) -> tuple[str, ...]:
        """Choices that every view shows: which method was taken by rule, and what the states were taken for."""
        method = self.choices.get("method")
        rule = () if method is None else (f"method chosen by a fixed rule that saw no certified row: {method}",)
        if method is not None and self.unstated:
            rule = (method.removeprefix(f"{GROUPS}, as "),)
        return (*rule, *([self.choices["states"]] if "states" in self.choices else []))

    @property
    def search_words(self) -> str:
        """What a better search could still change; empty where nothing was searched. An end that was not computed is left out."""
        known = {end: gap for end, gap in zip(("lower", "upper"), self.gap, strict=True) if gap == gap}
        if not known:
            return ""
        if not all(map(math.isfinite, known.values())):
            return "how much a better search could shorten the interval is not known"
        gains = ", ".join(f"{three(gap)} ({end})" for end, gap in known.items())
        return f"better weights in the searched space could shorten the interval by at most {gains}"

    def view(self) -> View:
        """What every view shows, as plain data."""
        parts = parts_grid(self.claims)
        return View(
            tone=_TONES[self.status],
            warnings=self.warnings,
            sentence=self.sentence(),
            guarantee=self._guarantee_words(),
            lines=tuple(f"{sentence(line)}." for line in self._lines(split=parts is not None)),
            parts=parts,
            curve=self._curve_view(),
            steps=tuple(step for step in self.steps if step.kind != "allowance"),  # said with the curve
            assumptions=assumptions_grid(self.assumptions),
            choices=Grid("Choices", ("what", "how"), tuple(self.choices.items())),
            hashes=self.hashes,
            ends=(self.low, self.high),
            estimate=self.estimate,
            estimate_outside=self.estimate_outside,
            limits=self.value_range,
        )

    def _curve_view(self) -> CurveView | None:
        if self.curve is None:
            return None
        first = isinstance(self.proof, CellsProof) and self.proof.stated_first
        return curve_view(self.curve, self.allowance, first=first, beside=not self._on_groups)

    def _guarantee_words(self) -> str:
        """What is guaranteed; a log that contradicts the assumptions leaves nothing to guarantee."""
        if self.status is Status.REJECTED:
            return "No interval is given, so nothing is guaranteed."
        words = self.guarantee + (", no assumption about the value function" if self.is_assumption_free else "")
        return f"Guarantee of the interval: {words}."

    @property
    def estimate_words(self) -> str:
        """The point estimate, where it comes from and what it is worth; or why there is none."""
        if not self.estimated:
            return "no point estimate" + ("" if self._on_groups else ", because the rows do not decide one")
        worth = "outside the interval: it has no guarantee" if self.estimate_outside else "no guarantee of its own"
        source = f"{self.choices['estimate']}; " if "estimate" in self.choices else ""
        return f"point estimate {three(self.estimate)} ({source}{worth})"

    def _lines(self, *, split: bool) -> Iterator[str]:
        yield self.estimate_words
        (ranges, imply), limits = self.ranges, self.value_range
        if not self.unstated:  # there it is the interval
            yield f"{ranges} alone {imply} {interval_text(limits.low, limits.high)}"
        used = self.effective_sample_size > 0
        carried = f", effective sample size about {self.effective_sample_size:.0f}" if used else ""
        (first, stop), done = self.rows, "used" if self.certificate is None else "certified"
        inside = self.question.select(first, stop) if self.question is not None and self.question.dropped else None
        within = "" if inside is None else f", {len(inside)} of them inside the horizon"
        yield f"method {self.method}: {stop - first} rows {done} ({first} to {stop - 1}{within}){carried}"
        yield from self.told
        if split and self.search_words:
            yield self.search_words

    def without_rows(self, problem: Rows) -> Result:
        """The same result with a certificate that holds no single row; verification then needs the policy."""
        notes = tuple(note for note in self.notes if not isinstance(note, Listing))
        if self.proof is None or self.certificate is None:
            return replace(self, notes=notes)
        proof = withhold_rows(self.proof, problem)
        certificate = self.certificate.with_proof(proof)
        hashes = {**self.hashes, "certificate": certificate.digest}
        return replace(
            self, proof=proof, certificate=certificate, hashes=hashes, search=None, notes=notes, question=None
        )
