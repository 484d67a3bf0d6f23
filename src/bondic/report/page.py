"""A result as one self-contained page for whoever decides: opens offline, follows light and dark, prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bondic.advice.steps import next_steps
from bondic.claims import Status
from bondic.data.log import Log
from bondic.errors import InvalidInput
from bondic.functions.functions import Function
from bondic.methods.frontier import Frontier
from bondic.methods.sensitivity import result_frontier
from bondic.proofs.dual import DualProof
from bondic.proofs.proof import Proof
from bondic.report import sections
from bondic.report.allowance import allowance_data, allowance_section
from bondic.report.answer import answer, assumptions
from bondic.report.document import document
from bondic.report.exports import split_notes
from bondic.report.health import examine
from bondic.report.logged_value import logged_value
from bondic.report.support import column_names, find_support
from bondic.report.what_if import what_if
from bondic.report.words import glossary
from bondic.result import Result
from bondic.rows import Rows

_ELSEWHERE = "The sliders below show other radii."


def report_page(
    result: Result,
    problem: Rows,
    *,
    title: str,
    sensitivity: Frontier | None = None,
    no_rows: bool = False,
    log: Log | None = None,
    columns: Sequence[str] = (),
    notes: Sequence[str] = (),
    command: str = "",
) -> str:
    """The whole report as HTML text.

    `problem` is the question that `result` answers; `log` adds episodes, ends and copies to the data health (a streamed
    problem knows its log); `columns` names the observations. `no_rows` keeps every single row out: thin cells are left
    out, no row is listed. Bandwidths, radii and other numbers made from many rows stay in. `notes` are those of
    `read_log`: what touches validity is shown first. `command` is what a reader types to check the number, if there is such
    a command. What only the dual bound has (sliders, weights to show) is left out for other proofs; a method without a proof,
    such as a baseline, has nothing to verify.
    """
    if problem.log_hash != result.hashes["log"]:
        raise InvalidInput("The result belongs to another log than the problem (content hashes differ).")
    proof = result.proof
    certified = problem.select(*result.rows)
    frontier = sensitivity
    if frontier is None and isinstance(proof, DualProof):
        frontier = result_frontier(result, problem)
    numbers = {} if frontier is None else frontier.to_dict()
    curve = allowance_data(result)
    doubts, others = split_notes(notes)
    steps = result.steps or next_steps(result, problem, no_rows=no_rows)
    body = [
        answer(result, doubts, "" if frontier is None else _ELSEWHERE, logged_value(problem, result.alpha)),
        allowance_section(result),
        sections.next_steps([step for step in steps if step.kind != "allowance"]),  # that one is said with the curve
        sections.contributions(result),
        "" if frontier is None else _what_if(result, frontier, numbers),
        assumptions(result),
        "" if proof is None or result.unstated else _support(result, proof, certified, columns, no_rows),
        sections.data_health(examine(certified, log, no_rows=no_rows), no_rows, doubts, others),
        sections.no_proof(result) if proof is None else _verification(result, proof, command),
        glossary(groups=result.curve is not None),
    ]
    return document(title, "".join(body), {**numbers, "curve": curve} if curve else numbers)


def _verification(result: Result, proof: Proof, command: str) -> str:
    return sections.verification(result, proof.asked.answers.next is None, command)


def _what_if(result: Result, frontier: Frontier, numbers: dict[str, Any]) -> str:
    fixed = numbers["noise"]["kind"] == "fixed"
    return what_if(frontier, fixed_alpha=fixed, rejected=result.status is Status.REJECTED)


def _support(result: Result, proof: Proof, certified: Rows, columns: Sequence[str], no_rows: bool) -> str:
    omega, found = _shown_omega(result, proof) if isinstance(proof, DualProof) else None, None
    if omega is not None:
        found = find_support(certified, omega, names=column_names(certified.layout, columns), no_rows=no_rows)
    return sections.support(result, found, len(certified), no_rows)


def _shown_omega(result: Result, proof: DualProof) -> Function | None:
    """The ω of an end that narrows the value range, the lower one first; otherwise any that there is."""
    useful = {claim.end: claim.gain(result.value_range) > 0 for claim in result.claims}
    given = {end: omega for end, omega in proof.omegas.items() if omega is not None}
    return next((given[end] for end in sorted(given, key=lambda end: (not useful[end], end))), None)
