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
from bondic.core.codec import decode
from bondic.core.errors import BondicError, VerificationError
from bondic.core.proof import Proof
from bondic.decisions.difference import difference_interval
from bondic.rows.estimand import rebuild, rows_of
from bondic.tuning.defaults import Advanced
from builders import synthetic

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
    log = bondic.Transitions(states, actions, rewards, rng.integers(0, 2, (rows, 1)).astype(float), rng.random(rows) < 0.1)
    start, terms = bondic.InitialStates.exact([[0.0]]), {**ZERO_ONE, "gamma": 0.5}
    return log, bondic.TablePolicy([[0.1, 0.9], [0.6, 0.4]]), against, start, terms, method


def numbers(method, against=None, rows=300, own=False):
    mdp, log, policy, start = synthetic(rows, gamma=0.3)
    start = bondic.InitialStates.from_log(log) if own else start
    return log, policy, against, start, {"gamma": 0.3, "reward_range": mdp.reward_range}, method


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
    "each policy by itself": lambda: numbers(bondic.Sequential(radius=2.0), bondic.UniformPolicy(2)),
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
                moved = {key: share * (1 + 0.9 * node[one] / max(rest, 1e-9)) * (1 - 1e-12) for key, share in node.items()}
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


@pytest.mark.parametrize("kind", KINDS)
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
    print(kind, sorted(forgeries), usual.headline, usual.stated)
    assert forgeries
    assert believed == []
