"""What a monitor was told, as plain data and back: terms, initial states, the options of its method, and Q."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from bondic.core.balls import Ball, ValueClass
from bondic.core.codec import Encoder, decode
from bondic.core.errors import InvalidInput, one_line
from bondic.core.terms import make_terms
from bondic.core.verify import KNOWN, UserFunctions
from bondic.data.initial import InitialStates
from bondic.methods.monitor_files import Arrays, Saved
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.policies.answers import StartAnswers
from bondic.rows.growing import INITIAL, GrowingRows, Statements
from bondic.tuning.defaults import Choices

_PLAIN = ("radius", "side", "pilot", "planned_rows", "vector_share", "rank", "engine")
_STATES, _WEIGHTS = "initial_states", "initial_weights"
_DAMAGED = (KeyError, TypeError, ValueError)


def write_statements(
    said: Statements, method: Sequential, alpha: float, rows: GrowingRows, bets: Propensities | None
) -> tuple[dict[str, Any], Arrays]:
    """JSON values, and the arrays that belong to them; fixed with the first rows."""
    if not isinstance(method.engine, str):
        raise InvalidInput(
            "An engine of your own cannot be saved: name one (engine='auto'), or keep the monitor in memory."
        )
    encoder = Encoder()
    ball = None if method.ball is None else encoder.encode(method.ball, "ball")
    arrays = dict(encoder.arrays)
    initial, start = said.initial, rows.start
    if initial is not None:
        arrays |= {_STATES: initial.observations, _WEIGHTS: initial.weights, INITIAL: start.initial}
    statements = {
        "terms": asdict(said.terms),
        "draws": said.draws,
        "initial_draws": said.initial_draws,
        "seed": int(said.seed),
        "accept": said.accept,
        "initial": None if initial is None else {"kind": initial.kind, "count_fixed": initial.count_fixed},
        "discrete_observations": rows.log.discrete_observations,
        "policy": {"discrete": start.discrete, "exact": start.exact, "draws": start.draws},
        "alpha": alpha,
        "method": {name: getattr(method, name) for name in _PLAIN},
        "cuts": method.cuts,
        "choices": asdict(method.choices),
        "ball": ball,
    }
    if rows.log.unrecorded:
        statements["unrecorded"] = rows.log.unrecorded
    if bets is not None:
        if not (bets.model is None or isinstance(bets.model, str)):
            raise InvalidInput(
                "A regressor cannot be saved: Propensities(model='linear'), or keep the monitor in memory."
            )
        statements["propensities"] = {item.name: getattr(bets, item.name) for item in fields(bets)}
    return _plain(statements), arrays


def _plain(value: Any) -> Any:
    """As JSON gives it back, so that what is written can be compared with what is read."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def read_statements(saved: Saved, policy: Any) -> tuple[Statements, GrowingRows]:
    """What was asked, and all rows with the answers to it."""
    try:
        data, arrays = saved.statements, saved.arrays
        terms, kind = make_terms(**data["terms"]), data["initial"]
        initial = None if kind is None else InitialStates(arrays[_STATES], arrays[_WEIGHTS], **kind)
        asked = {name: data[name] for name in ("draws", "initial_draws", "seed")}
        statements = Statements(policy, initial, terms, **asked, accept=tuple(data["accept"]))
        portions = [saved.part(number) for number in range(len(saved.updates))]
        start = StartAnswers(arrays.get(INITIAL, np.zeros(0)), **data["policy"])
        codes = data["discrete_observations"]
        rows = GrowingRows.restored(
            statements, portions, saved.updates[-1].used, start, codes, data.get("unrecorded", ())
        )
        rows = replace(rows, repeated=saved.updates[-1].repeated)
    except _DAMAGED as problem:
        raise InvalidInput(f"The saved monitor is damaged ({one_line(problem, 200)}).") from problem
    if rows.log.content_hash != saved.log_hash:
        raise InvalidInput("The saved rows are not those that were seen (content hashes differ): a file was changed.")
    return statements, rows


def read_method(
    saved: Saved, rows: GrowingRows, functions: UserFunctions | None
) -> tuple[Sequential, Propensities | None, float]:
    """The method with its options, what was stated about propensities, and alpha."""
    assert KNOWN  # what the library itself writes can be read
    try:
        data, choices = saved.statements, dict(saved.statements["choices"])
        if isinstance(choices["categorical"], list):
            choices["categorical"] = tuple(choices["categorical"])
        ball: Any = None
        if data["ball"] is not None:
            supplies = {"layout": rows.layout, "functions": functions or {}}
            ball = decode(ValueClass, data["ball"], saved.arrays, "ball", **supplies)
            assert isinstance(ball, Ball)
        method = Sequential(ball=ball, cuts=tuple(data["cuts"]), choices=Choices(**choices), **data["method"])
        bets = Propensities(**data["propensities"]) if "propensities" in data else None
        return method, bets, float(data["alpha"])
    except _DAMAGED as problem:
        raise InvalidInput(f"The saved monitor is damaged ({one_line(problem, 200)}).") from problem
