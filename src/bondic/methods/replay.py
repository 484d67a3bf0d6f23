"""Make the plan of a certificate again, from prefixes of the log: `bondic verify`, where the policy is given.

A plan is a function of the rows before each of its blocks and of the planner's options. The certificate says which options; here
the planner gets the log cut before every block. So whoever picked weights, models, clips or cuts with later rows in view is found
out, unless they are those that the planner would have made anyway. Method, first row and options are those that the default
chooses from the rows before the certified ones, with what was stated; the others are named, and so are the statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from bondic.core.cells.allowance import Allowance
from bondic.core.cells.proof import CellsProof
from bondic.core.certificate import Certificate
from bondic.core.claims import ErrorBudget
from bondic.core.codec import Decoder, first_difference
from bondic.core.columns import RowRange
from bondic.core.errors import BondicError, one_line, refuse
from bondic.core.proof import Proof
from bondic.core.separate import SeparateProof
from bondic.core.sums.forms import Sums
from bondic.core.verify import Replayed, UserFunctions
from bondic.data.initial import InitialStates
from bondic.methods.base import options_of, read_options
from bondic.methods.candidates import CANDIDATES
from bondic.methods.default import Default
from bondic.methods.groups import GroupPlanner, Groups
from bondic.methods.propensities import Propensities
from bondic.methods.propensity_pilot import logged
from bondic.methods.table import Table
from bondic.rows import Rows
from bondic.rows.prefix import Prefixes
from bondic.tuning.defaults import Advanced, Choices

METHODS: dict[str, Any] = {**CANDIDATES, Groups.name: GroupPlanner}
"""Methods that plan; `replan(prefixes, proof, sums)` of each gives the proof with a plan from prefixes, and what that shows."""
_NAMES = "categorical"
_STATED = (
    "ball", "radius", "misspecification", "planned_rows", "planned", "value", "gamma_sensitivity", "max_ratio",
    "min_propensity", "allowance", _NAMES,
)  # fmt: skip
"""Options that are statements of the user."""
_FIRST_LINE = ("side",)
"""Options that the first line of a verification shows beside the interval."""
_ROUNDED = 1e-9
_MOST = 10_000
"""Landmarks and features that a description may ask for: far above what the library writes."""


def replay(
    certificate: Certificate, proof: Proof, *, rows: Sequence[Rows], functions: UserFunctions | None, sums: Sums
) -> Replayed:
    """The proof with its plan made again; VerificationError where that cannot be done, with the reason."""
    again = partial(_replay, arrays=certificate.arrays, functions=functions, sums=sums)
    if not isinstance(proof, SeparateProof):
        return again(certificate.planner, "planner", proof, rows)
    data = certificate.planner
    known = data is None or (type(data) is dict and set(data) == {"parts"} and type(data["parts"]) is list)
    refuse(not known or (data is not None and len(data["parts"]) != len(proof.parts)), _DAMAGED)
    numbers = [str(number) for number, _ in enumerate(proof.parts, 1)]
    budget = ErrorBudget.split(proof.budget.alpha, dict.fromkeys(numbers, 1.0))
    uneven = first_difference(proof.budget, budget, "budget", _ROUNDED)
    refuse(bool(uneven), f"proof.{uneven} is not what a planner gives: each policy has half of alpha.")
    parts = [
        again(
            None if data is None else data["parts"][k],
            f"planner.parts.{k}",
            replace(part, budget=replace(part.budget, alpha=budget[numbers[k]])),  # type: ignore[type-var]
            (own.restricted(RowRange(*part.estimand.rows)),),
        )
        for k, (part, own) in enumerate(zip(proof.parts, rows, strict=True))
    ]
    names = ("made", "options", "stated")
    made, options, stated = (tuple(dict.fromkeys(i for part in parts for i in getattr(part, name))) for name in names)
    if options == () and data is not None:  # else the method is named already
        method = _read(data["parts"][0], "planner.parts.0", certificate.arrays, rows[0], functions)[0]
        usual = _usual(method, proof, rows, _statements(method))
        options = () if usual is None or not usual[2] else ("each policy by itself",)
    return Replayed(replace(proof, budget=budget, parts=tuple(part.proof for part in parts)), made, options, stated)


def _replay(
    data: Any,
    place: str,
    proof: Proof,
    rows: Sequence[Rows],
    *,
    arrays: Mapping[str, Any],
    functions: UserFunctions | None,
    sums: Sums,
) -> Replayed:
    if not proof.has_plan:
        return Replayed(proof)
    method, first = _read(data, place, arrays, rows[0], functions)
    refuse(method.side != proof.side, f"The plan was made for side={method.side!r}, the proof is for {proof.side!r}.")
    prefixes, *others = (Prefixes(_question(proof, one, first)) for one in rows)
    made, shown = method.replan(prefixes, proof, sums, **({"against": others[0]} if others else {}))
    allowance = {"allowance": proof.allowance} if isinstance(proof, CellsProof) and proof.allowance is not None else {}
    return Replayed(made, shown, *_chosen(method, first, proof, rows, allowance))


_DAMAGED = "The certificate's words on how its plan was made are damaged."


def _read(
    data: Any, place: str, arrays: Mapping[str, Any], rows: Rows, functions: UserFunctions | None
) -> tuple[Any, int]:
    """The method with its options, and the first row that it was shown."""
    refuse(
        data is None,
        "The plan cannot be made again: the certificate does not say how it was made. Plans of a monitor, and those with a "
        "regressor of the user's own, cannot be replayed; verify without it.",
    )
    known = type(data) is dict and set(data) == {"method", "first", "options"} and type(data["options"]) is dict
    refuse(not known or data["method"] not in METHODS, _DAMAGED)
    cls, first = METHODS[data["method"]], data["first"]
    refuse(type(first) is not int or not 0 <= first <= rows.rows.start, f"The plan was begun at row {first!r}.")
    decoder = Decoder(arrays, {"layout": rows.layout, "functions": functions or {}})
    options = read_options(cls, data["options"], decoder, f"{place}.options")
    advanced = options.get("advanced", Advanced())
    most = max(advanced.rank or 0, advanced.pairs)
    refuse(most > _MOST, f"The plan would need {most} landmarks or features, more than {_MOST}.")
    return cls(**options), first


def _question(proof: Proof, rows: Rows, first: int) -> Rows:
    """The planner's problem: the rows before the certified ones as well, and starts that come with the rows."""
    whole, states = rows.restricted(RowRange(first, rows.rows.stop)), rows.initial_states
    if not proof.estimand.start.from_log:
        return whole
    own = states.of_log(rows.log) if not states.count_fixed else InitialStates.from_log(rows.log, count=len(states))
    same = np.array_equal(own.observations, states.observations)
    refuse(not same, "The certificate calls its initial states those of the log; they are not.")
    return replace(whole, initial_states=replace(states, from_rows=True))


def _chosen(
    method: Any, first: int, proof: Proof, rows: Sequence[Rows], allowance: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the default would not have chosen from the rows before the certified ones, and what was stated."""
    given, stated = _given(method) | allowance, _statements(method) | allowance
    usual, begun, together = _usual(method, proof, rows, stated) or (None, 0, False)
    found = [f"first row {first}"] if first != begun else []
    if usual is None or usual.name != method.name:
        usual, found = type(method)(), [f"method={method.name}", *found]
    elif len(rows) > 1 and not together:
        found.append("one event for both policies")
    chosen = {name: mine for name, mine in given.items() if name not in (*stated, *_FIRST_LINE)}
    found += [_option(name, mine) for name, mine in chosen.items() if mine != getattr(usual, name, None)]
    return tuple(found), tuple(_option(name, value) for name, value in stated.items())


def _given(method: Any) -> dict[str, Any]:
    """The options, with what states are as one of their own."""
    given = options_of(method)
    if isinstance(choices := given.get("choices"), Choices):
        given |= {"choices": replace(choices, categorical=None), _NAMES: choices.categorical}
    return given


def _statements(method: Any) -> dict[str, Any]:
    """Options of the method that state something."""
    given, usual = _given(method), type(method)()
    return {name: given[name] for name in _STATED if name in given and given[name] != getattr(usual, name, None)}


def _usual(method: Any, proof: Proof, rows: Sequence[Rows], stated: dict[str, Any]) -> tuple[Any, int, bool] | None:
    """The default's method with these statements, its first row, and whether it would answer about two policies together.

    None where it refuses them.
    """
    known = {field.name for field in fields(Default)}
    own = {name: value for name, value in stated.items() if name in known}
    if isinstance(method, Propensities) and (about := {name: stated[name] for name in stated if name not in own}):
        own["propensities"] = Propensities(**about)
    own |= {"side": method.side} | ({"choices": Choices(categorical=stated[_NAMES])} if _NAMES in stated else {})
    seen, alpha = proof.estimand.rows[0], proof.budget.alpha
    # propensities are chosen by the form of the log and by whole episodes, which no prefix shows
    cut = seen > 0 and not logged(rows[0])
    questions = (_question(proof, one, 0) for one in rows)
    problem, *others = (Prefixes(one).announced(seen) if cut else one for one in questions)
    try:
        choice = Default(**own).choice(problem, alpha)
        found, begun = choice.method, choice.rows.rows.start
        together = bool(others) and isinstance(found, Propensities)
        if others and isinstance(found, Table | Groups):
            together = found.differs(problem, others[0], alpha)
    except BondicError:
        return None
    return found, begun, together


def _option(name: str, value: Any) -> str:
    """In words, or its name alone where it has many parts."""
    value = value.pair if isinstance(value, Allowance) else value
    plain = isinstance(value, bool | int | float | str | tuple)
    return one_line(f"{name}={value!r}", 100) if plain else name
