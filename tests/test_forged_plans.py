"""Every field of every proof, changed so that an end looks best: a replay refuses it, or the first line names it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bondic
import propensity_cases as cases
from bondic.core.certificate import Certificate
from bondic.core.claims import ErrorBudget
from bondic.core.codec import decode
from bondic.core.errors import BondicError, VerificationError
from bondic.core.proof import Proof
from bondic.decisions.difference import _separate, difference_interval, other_rows, separate_proof
from bondic.rows.estimand import rebuild, rows_of
from bondic.tuning.defaults import Advanced
from builders import continuous, synthetic

QUESTION = {"log_hash", "terms", "policies", "coefficient", "alpha"}
VALID_FOR_ALL = {
    "rounds": "each round of the sequential interval holds on the one event of the plan",
    "reference": "b of (13) on cells may come from anywhere",
    "omegas": "(10) holds for every ω at once",
    "witnesses": "and so does the test",
}
"""Fields that may be chosen with the rows in view."""
ZERO_ONE = {"gamma": 0.0, "reward_range": (0.0, 1.0)}


class Mostly(cases.ThreeStates):
    """Nearly the target policy."""

    def action_probs(self, observations):
        return 0.9 * super().action_probs(observations) + 0.05


def decisions(method, against=None, rows=200):
    log = cases.decisions(rows, seed=5)
    return log, cases.ThreeStates(), against, bondic.InitialStates.from_log(log), ZERO_ONE, method


def names(method, against=None, rows=400):
    """Two states with names, and some rows that end."""
    rng = np.random.default_rng(3)
    states, actions = rng.integers(0, 2, (rows, 1)).astype(float), rng.integers(0, 2, rows)
    rewards = (rng.random(rows) < 0.2 + 0.5 * actions).astype(np.float64)
    log = bondic.Transitions(
        states, actions, rewards, rng.integers(0, 2, (rows, 1)).astype(float), rng.random(rows) < 0.1
    )
    start, terms = bondic.InitialStates.exact([[0.0]]), {**ZERO_ONE, "gamma": 0.5}
    return log, bondic.TablePolicy([[0.1, 0.9], [0.6, 0.4]]), against, start, terms, method


def numbers(method, against=None, rows=300, own=False):
    mdp, log, policy, start = synthetic(rows, gamma=0.3)
    start = bondic.InitialStates.from_log(log) if own else start
    return log, policy, against, start, {"gamma": 0.3, "reward_range": mdp.reward_range}, method


APART = "each policy by itself"
KINDS = {
    "free propensities": lambda: decisions(bondic.Propensities()),
    "doubly robust": lambda: decisions(bondic.Propensities(max_ratio=cases.LARGEST)),
    "difference": lambda: decisions(bondic.Propensities(), Mostly()),
    "table": lambda: names(bondic.Table()),
    "difference of tables": lambda: names(bondic.Table(), bondic.TablePolicy([[0.9, 0.1], [0.6, 0.4]])),
    "groups": lambda: numbers(bondic.Groups(allowance=(0.01, 0.1), count=2), rows=600),
    "stated ball": lambda: numbers(bondic.Sequential(radius=2.0)),
    "the log's own starts": lambda: numbers(bondic.Sequential(radius=2.0), rows=900, own=True),
    "dual": lambda: numbers(bondic.Dual(radius="paper", advanced=Advanced(pairs=8))),
    APART: lambda: numbers(bondic.Sequential(radius=2.0), bondic.UniformPolicy(2)),
}


class Honest:
    """An honest answer, and others to its question that say that they were planned like it."""

    def __init__(self, log, policy, against, start, terms, method):
        self.log, self.policy, self.against = log, policy, against
        self.problem = bondic.make_problem(log, policy, start, accept=None, **terms)
        if against is None:
            self.result = bondic.estimate_interval(self.problem, method=method)
        else:
            self.result = difference_interval(self.problem, against, method=method)
        self.certificate = self.result.certificate

    def verify(self, certificate):
        return bondic.verify(certificate, self.log, self.policy, against=self.against)

    def forged(self, body, arrays) -> tuple[float, Certificate] | None:
        """How much better an end looks, and the certificate; None where it is no proof."""
        try:
            proof = decode(Proof, body, arrays, "proof", layout=self.problem.layout)
            rows = rows_of(rebuild(proof.estimand, self.log, self.policy, None, self.against))
            with np.errstate(all="ignore"):
                found = bondic.Result.of(proof, rows[0], method="forged", against=rows[1] if rows[1:] else None)
        except (BondicError, ValueError, IndexError, AssertionError, OverflowError):
            return None
        kept = {name: array for name, array in self.certificate.arrays.items() if name.startswith("planner.")}
        made = found.certificate
        made = Certificate(made.body | {"planner": self.certificate.planner}, {**made.arrays, **kept})
        return max(found.low - self.result.low, self.result.high - found.high), made

    def forgeries(self) -> dict[str, Certificate]:
        """By field: the change of it that gives the best-looking end, where one looks better."""
        best: dict[str, Any] = {}
        for name, body, arrays in changed(self.certificate):
            found = self.forged(body, arrays)
            if found is not None and found[0] > max(1e-6, best.get(name, (0.0,))[0]):
                best[name] = found
        return {name: certificate for name, (_, certificate) in best.items()}


def changed(certificate) -> Iterator[tuple[str, Any, Any]]:
    """Every field of the proof with other values: its name, the data of the proof, the arrays."""
    body, arrays = certificate.body["proof"], certificate.arrays

    def put(path, value):
        node = data = copy.deepcopy(body)
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        return data

    def walk(node, path):
        words = [key for key in path if isinstance(key, str)]
        name = ".".join(words)
        if not QUESTION.isdisjoint(words):
            return
        if isinstance(node, dict) and set(node) == {"array"}:
            for other in others(arrays[node["array"]]):
                yield name, body, {**arrays, node["array"]: other}
        elif words[-2:] == ["budget", "parts"]:
            for one in node:
                less, rest = 0.1 * node[one], sum(node.values()) - node[one]
                moved = {
                    key: share * (1 + 0.9 * node[one] / max(rest, 1e-9)) * (1 - 1e-12) for key, share in node.items()
                }
                yield name, put(path, moved | {one: less}), arrays
        elif isinstance(node, dict | list):
            items = list(node.items() if isinstance(node, dict) else enumerate(node))
            for key, item in items if isinstance(node, dict) else {0: items[0], 1: items[-1]}.values() if items else ():
                yield from walk(item, [*path, key])
        elif not isinstance(node, str):
            for value in others(node):
                yield name, put(path, value), arrays

    yield from walk(body, [])


def others(value):
    """Values beside this one."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and value.size:
            half = value.copy()
            half.reshape(-1)[::2] *= 0.5
            return [0.5 * value, half]
        return []
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 25, 2 * value, value // 2]
    return [10, 1000] if value is None else [0.5 * value, 2.0 * value]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != APART])  # its parts are searched by themselves
def test_a_field_that_was_chosen_after_the_look_is_refused_or_named(kind):
    honest, believed = Honest(*KINDS[kind]()), []
    usual = honest.verify(honest.certificate)
    forgeries = honest.forgeries()
    for name, certificate in forgeries.items():
        try:
            checked = honest.verify(certificate)
        except VerificationError:
            continue
        named = {*checked.headline, *checked.stated} - {*usual.headline, *usual.stated}
        better = max(checked.low - usual.low, usual.high - checked.high) > 1e-6
        if better and not named and VALID_FOR_ALL.keys().isdisjoint(name.split(".")):
            believed.append(name)
    assert forgeries
    assert believed == []


def test_what_a_planner_was_told_is_on_the_first_line():
    """An honest plan of the best of many options, first rows and planned lengths."""
    log, policy, _, start, terms, _ = KINDS["free propensities"]()
    problem, found = bondic.make_problem(log, policy, start, accept=None, **terms), []
    for first in (0, 20, 60):
        for told in (
            {},
            {"planned_rows": 100},
            {"planned_rows": 500},
            {"max_ratio": 3.0},
            {"max_ratio": 2.5, "pilot": 100},
        ):
            rows = problem.select(first, len(log))
            found.append((bondic.estimate_interval(rows, method=bondic.Propensities(**told)), first, told))
    best = {end: max(found, key=lambda one: sign * getattr(one[0], end)) for end, sign in (("low", 1), ("high", -1))}
    assert any(first or told for _, first, told in best.values())
    for result, first, told in found:
        checked = bondic.verify(result, log, policy)
        words = " ".join((*checked.headline, *checked.stated))
        assert all(f"{name}={value!r}" in words for name, value in told.items())
        assert (f"first row {first}" in words) == bool(first)
        assert bool(words) == bool(first or told)


def test_parts_of_alpha_and_which_event_a_difference_has_are_not_chosen_afterwards():
    """Separate proofs at other shares than halves are refused; separate proofs where one event is the default's are named."""
    honest = Honest(*KINDS[APART]())
    assert honest.verify(honest.certificate).headline == ()
    method = bondic.Sequential(radius=2.0)
    other = other_rows(honest.problem, honest.against)
    budget = ErrorBudget(0.1, {"1": 0.09, "2": 0.01 * (1 - 1e-12)})
    parts = [
        bondic.estimate_interval(rows, alpha=share, method=method)
        for rows, share in zip((honest.problem, other), budget.parts.values(), strict=True)
    ]
    proof = separate_proof(tuple(part.proof for part in parts), budget, "both")
    rows = rows_of(rebuild(proof.estimand, honest.log, honest.policy, None, honest.against))
    planner = honest.certificate.planner
    forged = bondic.Result.of(proof, rows[0], method="forged", against=rows[1], planner=planner).certificate
    forged = Certificate(forged.body, {**honest.certificate.arrays, **forged.arrays})
    with pytest.raises(VerificationError, match=r"proof\.budget\.parts"):
        honest.verify(forged)
    tables = Honest(*KINDS["difference of tables"]())
    rows = other_rows(tables.problem, tables.against)
    apart = _separate(tables.problem, rows, 0.1, bondic.Table(), None)
    assert tables.verify(tables.certificate).headline == ()
    assert tables.verify(apart.certificate).headline == (
        "when the options of the plan were chosen: each policy by itself",
    )


def test_draws_and_the_number_of_starts_are_on_the_first_line():
    log, policy, start = continuous(300)
    problem = bondic.make_problem(log, policy, start, gamma=0.3, reward_range=(-1.0, 1.0), draws=2, seed=7)
    result = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", advanced=Advanced(pairs=8)))
    assert "seed 7 and 2 actions of the policy drawn at a state" in bondic.verify(result, log, policy).stated
    log, policy, _, _, terms, method = KINDS["stated ball"]()
    some = bondic.InitialStates.from_log(log, count=10)
    result = bondic.estimate_interval(bondic.make_problem(log, policy, some, **terms), method=method)
    assert "the first 10 starts of the log" in bondic.verify(result, log, policy).stated
