"""Make the plan of a certificate again, from prefixes of the log: `bondic verify --replay`.

A plan is a function of the rows before each of its blocks and of the planner's options. The certificate says which options; here
the planner gets the log cut before every block. So whoever picked weights, models, clips or cuts with later rows in view is found
out, unless they are those that the planner would have made anyway. What stays believed is named: when the options were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from bondic.core.certificate import Certificate
from bondic.core.codec import Decoder
from bondic.core.columns import RowRange
from bondic.core.errors import refuse
from bondic.core.proof import Proof
from bondic.core.separate import SeparateProof
from bondic.core.sums.forms import Sums
from bondic.core.verify import Replayed, UserFunctions
from bondic.data.initial import InitialStates
from bondic.methods.base import OUTSIDE, read_options
from bondic.methods.candidates import CANDIDATES
from bondic.methods.groups import GroupPlanner, Groups
from bondic.rows import Rows
from bondic.rows.prefix import Prefixes
from bondic.tuning.defaults import Advanced, Choices

METHODS: dict[str, Any] = {**CANDIDATES, Groups.name: GroupPlanner}
"""Methods that plan; `replan(prefixes, proof, sums)` of each gives the proof with a plan from prefixes, and what that shows."""
_STATED = (
    "ball", "radius", "side", "misspecification", "planned_rows", "planned", "value", "gamma_sensitivity", "max_ratio",
    "min_propensity",
)  # fmt: skip
"""Options that are statements of the user: they stand among the assumptions."""
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
    parts = [
        again(
            None if data is None else data["parts"][k],
            f"planner.parts.{k}",
            part,
            (own.restricted(RowRange(*part.estimand.rows)),),
        )
        for k, (part, own) in enumerate(zip(proof.parts, rows, strict=True))
    ]
    shown = (dict.fromkeys(item for part in parts for item in getattr(part, name)) for name in ("made", "options"))
    return Replayed(replace(proof, parts=tuple(part.proof for part in parts)), *map(tuple, shown))


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
    if not proof.needs_replay:
        return Replayed(proof, (), ())
    method, first = _read(data, place, arrays, rows[0], functions)
    refuse(method.side != proof.side, f"The plan was made for side={method.side!r}, the proof is for {proof.side!r}.")
    prefixes, *others = (Prefixes(_question(proof, one, first)) for one in rows)
    made, shown = method.replan(prefixes, proof, sums, **({"against": others[0]} if others else {}))
    return Replayed(made, shown, (*((f"first row {first}",) if first else ()), *_unusual(method)))


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


def _unusual(method: Any) -> tuple[str, ...]:
    """Options that are not the defaults, and no statements."""
    usual, found = type(method)(), []
    for field in fields(method):
        mine, other = getattr(method, field.name), getattr(usual, field.name)
        if isinstance(mine, Choices):
            mine = replace(mine, categorical=None)
        if field.name not in (*_STATED, *OUTSIDE) and mine != other:
            plain = isinstance(mine, bool | int | float | str | tuple)
            found.append(f"{field.name}={mine!r}" if plain else field.name)
    return tuple(found)
