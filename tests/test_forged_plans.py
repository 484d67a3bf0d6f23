"""Every field of every proof, changed so that an end looks best: a replay refuses it, or names it, or gives the honest end."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bondic
import propensity_cases as cases
from bondic.core.certificate import Certificate
from bondic.core.codec import Encoder, decode
from bondic.core.errors import BondicError, VerificationError
from bondic.core.proof import Proof
from bondic.decisions.difference import difference_interval
from bondic.rows.estimand import rebuild, rows_of
from bondic.tuning.defaults import Advanced
from builders import synthetic
from test_proofs import table

FACTORS = (0.25, 0.8, 1.25, 4.0)
NO_CHOICE = ("log_hash", "terms", "policies", "coefficient", "alpha", "kernel", "layout")
"""The question, and what has a name of its own on the first line."""


class Worlds:
    """An honest answer of every kind of proof, with its log and policies."""

    @staticmethod
    def free(**options):
        log, start = cases.decisions(300, seed=5), None
        return log, cases.ThreeStates(), None, start, {"gamma": 0.0, "reward_range": (0.0, 1.0)}, bondic.Propensities(**options)

    @staticmethod
    def robust():
        return Worlds.free(max_ratio=cases.LARGEST)

    @staticmethod
    def contexts():
        return Worlds.free(value="contexts")

    @staticmethod
    def difference():
        log, policy, _, start, terms, method = Worlds.free()
        return log, policy, bondic.TablePolicy([[0.5, 0.5]] * 3) if False else Fair(), start, terms, method

    @staticmethod
    def table():
        problem, log, policy, method = table(bondic.Table(), 900)
        return log, policy, None, problem.initial_states, {"gamma": 0.5, "reward_range": (0.0, 1.0)}, method

    @staticmethod
    def paired_table():
        log, policy, _, start, terms, method = Worlds.table()
        return log, policy, bondic.TablePolicy([[0.9, 0.1], [0.6, 0.4]]), start, terms, method

    @staticmethod
    def _numbers(rows, method):
        mdp, log, policy, start = synthetic(rows, gamma=0.3)
        return log, policy, None, start, {"gamma": 0.3, "reward_range": mdp.reward_range}, method

    @staticmethod
    def groups():
        return Worlds._numbers(1200, bondic.Groups(allowance=(0.01, 0.1), count=2))

    @staticmethod
    def sequential():
        return Worlds._numbers(600, bondic.Sequential(radius=2.0))

    @staticmethod
    def own_starts():
        log, policy, other, _, terms, method = Worlds._numbers(1500, bondic.Sequential(radius=2.0))
        return log, policy, other, bondic.InitialStates.from_log(log), terms, method

    @staticmethod
    def dual():
        return Worlds._numbers(400, bondic.Dual(radius="paper", advanced=Advanced(pairs=8)))

    @staticmethod
    def separate():
        log, policy, _, start, terms, method = Worlds._numbers(600, bondic.Sequential(radius=2.0))
        return log, policy, bondic.UniformPolicy(2), start, terms, method


class Fair:
    """Either action alike."""

    def action_probs(self, observations):
        return np.full((len(observations), 2), 0.5)


class Honest:
    def __init__(self, name):
        self.log, self.policy, self.against, start, terms, method = getattr(Worlds, name)()
        problem = bondic.make_problem(self.log, self.policy, start, accept=None, **terms)
        if self.against is None:
            self.result = bondic.estimate_interval(problem, method=method)
        else:
            self.result = difference_interval(problem, self.against, method=method)
        self.layout, self.certificate = problem.layout, self.result.certificate

    def verify(self, certificate, **options):
        return bondic.verify(certificate, self.log, self.policy, against=self.against, **options)

    def forged(self, body, arrays) -> bondic.Result | None:
        """The answer of a proof with other fields; None where it is no proof."""
        try:
            proof = decode(Proof, body, arrays, "proof", layout=self.layout)
            rows = rows_of(rebuild(proof.estimand, self.log, self.policy, None, self.against))
            kept = {name: array for name, array in self.certificate.arrays.items() if name.startswith("planner.")}
            with np.errstate(all="ignore"):
                found = bondic.Result.of(proof, rows[0], method="forged", against=rows[1] if rows[1:] else None)
        except (BondicError, ValueError, IndexError, AssertionError, OverflowError, KeyError):
            return None
        made = found.certificate
        made = Certificate(made.body | {"planner": self.certificate.planner}, {**made.arrays, **kept})
        return Forged(found.low, found.high, made)

    def forgeries(self) -> Iterator[tuple[str, Any]]:
        """Fields by name, each with the change of it that gives the best-looking end."""
        best: dict[str, Any] = {}
        for name, body, arrays in changed(self.certificate):
            found = self.forged(body, arrays)
            if found is None:
                continue
            gain = max(found.low - self.result.low, self.result.high - found.high)
            if gain > 1e-6 and gain > best.get(name, (0.0,))[0]:
                best[name] = gain, found
        yield from best.items()


class Forged:
    def __init__(self, low, high, certificate):
        self.low, self.high, self.certificate = low, high, certificate


def changed(certificate) -> Iterator[tuple[str, Any, Any]]:
    """Every field of the proof with other values: its name, the data of the proof, the arrays."""
    body, arrays = certificate.body["proof"], certificate.arrays

    def put(path, value):
        data = copy.deepcopy(body)
        node = data
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        return data

    def walk(node, path):
        name = ".".join(str(key) for key in path if not isinstance(key, int))
        if any(str(key) in NO_CHOICE for key in path):
            return
        if isinstance(node, dict) and set(node) == {"array"}:
            for factor in FACTORS:
                for other in moved(arrays[node["array"]], factor):
                    yield name, body, {**arrays, node["array"]: other}
        elif isinstance(node, dict):
            if path[-1:] == ["parts"] and all(isinstance(part, float) for part in node.values()):
                for one in node:
                    for share in (0.3, 0.03):
                        total = sum(node.values())
                        rest = total - node[one]
                        scale = (total - share * node[one]) / rest if rest else 0
                        yield name, put(path, {k: share * v if k == one else scale * v * (1 - 1e-12) for k, v in node.items()}), arrays
                return
            for key, item in node.items():
                yield from walk(item, [*path, key])
        elif isinstance(node, list):
            for key, item in enumerate(node):
                yield from walk(item, [*path, key])
        elif isinstance(node, bool):
            yield name, put(path, not node), arrays
        elif isinstance(node, int):
            for value in (node + 1, node + 25, node - 1, 2 * node, 10 * node, node // 2):
                yield name, put(path, value), arrays
        elif isinstance(node, float):
            for factor in FACTORS:
                yield name, put(path, factor * node), arrays
        elif node is None:
            for value in (10, 100, 10_000, 0.5, [0.01, 0.1]):
                yield name, put(path, value), arrays

    yield from walk(body, [])


def moved(array, factor):
    if array.dtype.kind == "f" and array.size:
        yield factor * array
        step = array.copy()
        step.reshape(-1)[:: 2] *= factor
        yield step
    elif array.dtype.kind == "i" and array.size:
        yield array + int(factor)


@pytest.mark.parametrize("name", [name for name in vars(Worlds) if not name.startswith("_")])
def test_a_field_that_was_chosen_after_the_look_is_refused_or_named(name):
    honest = Honest(name)
    usual = honest.verify(honest.certificate, replay=True)
    found = []
    for field, (gain, forged) in honest.forgeries():
        try:
            checked = honest.verify(forged.certificate, replay=True)
        except VerificationError as problem:
            print(name, f"{field}: gain {gain:.4g}, refused: {str(problem)[:90]}")
            continue
        better = max(checked.low - usual.low, usual.high - checked.high)
        news = set(checked.headline) - set(usual.headline)
        print(name, f"{field}: gain {gain:.4g}, PASSED better by {better:.4g}, named: {news}")
        if better > 1e-6 and not news:
            found.append(field)
    print(name, usual.headline)
    assert not found
