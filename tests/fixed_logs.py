"""The cases of `fixed_ends.json`: small logs of every kind, and the ends of a stored plan on them.

A plan is a proof as data without its estimand. Logs, policies and starts are made here again, and so is the estimand.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

import bondic
from bondic.core.balls import Instruments
from bondic.core.cells.allowance import Allowance
from bondic.core.claims import conclude
from bondic.core.codec import Decoder, Encoder, data_fields
from bondic.core.kernels.leaves import Dirac
from bondic.core.proof import Proof
from bondic.core.registry import kind_of, lookup, registered
from bondic.core.subgroups import conclude_by_subgroup
from bondic.decisions.difference import difference_interval, other_rows
from bondic.engines.sums import STANDARD
from bondic.policies.logged_target import LoggedBehavior
from bondic.rows import Rows
from bondic.rows.estimand import estimand_of, question_of
from bondic.rows.subgroups import labels_of
from builders import part

ALPHA = 0.1
IID = {"population": "iid"}
KINDS = ("stated lists", "contexts", "today", "this log", "dual", "balls", "population", "sampled starts")
"""By what the estimand rests on. A change of one kind has no business with the others."""

# --- logs ----------------------------------------------------------------------------------------------


def walk(episodes: int, seed: int, *, steps: int = 12, ending: float = 0.1, noise: float = 0.1) -> bondic.Transitions:
    """Four states that are names and two actions; episodes of at most so many steps, with propensities."""
    rng, rows = np.random.default_rng(seed), []
    for episode in range(episodes):
        state = int(rng.choice(4, p=(0.5, 0.3, 0.2, 0.0)))
        for time in range(steps):
            chance = (0.3, 0.5, 0.6, 0.4)[state]
            action = int(rng.random() < chance)
            following = int((state + (1 if rng.random() < 0.8 else 3) * (1 + action)) % 4)
            reward = float(np.clip(0.2 * state + 0.2 * action + noise * rng.uniform(-1, 1), 0, 1))
            over = bool(rng.random() < ending)
            rows.append((state, action, reward, following, over, episode, time, chance if action else 1 - chance))
            if over:
                break
            state = following
    state, action, reward, following, over, episode, time, chance = map(np.array, zip(*rows, strict=True))
    last = np.append(episode[1:] != episode[:-1], True)
    return bondic.Transitions(
        state[:, None].astype(float), action, reward, following[:, None].astype(float), over, last & ~over,
        episode_ids=episode, timesteps=time, behavior_action_probs=chance,
    )  # fmt: skip


def drift(episodes: int, seed: int, *, steps: int = 10) -> bondic.Transitions:
    """A number in [0, 1] as the state, pushed up or down by one of two actions."""
    rng = np.random.default_rng(seed)
    shape = (episodes, steps)
    states, actions = np.empty((episodes, steps + 1)), (rng.random(shape) < 0.5).astype(int)
    states[:, 0] = rng.random(episodes)
    for time in range(steps):
        pushed = 0.6 * states[:, time] + 0.25 * actions[:, time] + 0.15 * rng.random(episodes)
        states[:, time + 1] = pushed
    rewards = np.clip(0.6 * states[:, :-1] + 0.2 * actions + 0.1 * rng.uniform(-1, 1, shape), 0, 1)
    last = np.zeros(shape, bool)
    last[:, -1] = True
    return bondic.Transitions(
        states[:, :-1].reshape(-1, 1), actions.ravel(), rewards.ravel(), states[:, 1:].reshape(-1, 1),
        np.zeros(episodes * steps, bool), last.ravel(), episode_ids=np.repeat(np.arange(episodes), steps),
        timesteps=np.tile(np.arange(steps), episodes), behavior_action_probs=np.full(episodes * steps, 0.5),
    )  # fmt: skip


def visits(rows: int, seed: int, *, doses: bool = False) -> bondic.Transitions:
    """Single decisions: a shop (a name) and a number, three actions or a dose, and whether it went well."""
    rng = np.random.default_rng(seed)
    states = np.column_stack([rng.integers(0, 3, rows), rng.uniform(-1, 1, rows)]).astype(float)
    if doses:
        actions: Any = rng.normal(0.0, 1.0, (rows, 1))
        chances = np.exp(-0.5 * actions[:, 0] ** 2) / np.sqrt(2 * np.pi)
        good = 0.7 - 0.3 * np.tanh((actions[:, 0] - 0.5) ** 2)
    else:
        shares = np.array([[0.5, 0.3, 0.2], [0.2, 0.4, 0.4], [0.3, 0.3, 0.4]])[states[:, 0].astype(int)]
        actions = (rng.random(rows)[:, None] > np.cumsum(shares, axis=1)).sum(axis=1).clip(0, 2)
        chances = shares[np.arange(rows), actions]
        good = 0.4 + 0.15 * actions + 0.1 * states[:, 1]
    rewards = (rng.random(rows) < good).astype(float)
    return bondic.Transitions(
        states, actions, rewards, states, np.ones(rows, bool), np.zeros(rows, bool), episode_ids=np.arange(rows),
        timesteps=np.zeros(rows, int), behavior_action_probs=chances,
    )  # fmt: skip


# --- policies, starts, statements ----------------------------------------------------------------------

EAGER = bondic.TablePolicy(np.array([[0.2, 0.8], [0.3, 0.7], [0.25, 0.75], [0.1, 0.9]]))
CALM = bondic.TablePolicy(np.full((4, 2), 0.5))
UPWARD = bondic.CallablePolicy(lambda s: np.column_stack([1 - (0.3 + 0.5 * s[:, 0]), 0.3 + 0.5 * s[:, 0]]))
EVEN = bondic.UniformPolicy(2)
LATE = bondic.CallablePolicy(lambda s: np.tile([0.1, 0.2, 0.7], (len(s), 1)))
EARLY = bondic.CallablePolicy(lambda s: np.tile([0.5, 0.4, 0.1], (len(s), 1)))
DOSE = bondic.GaussianPolicy(lambda s: np.full((len(s), 1), 0.3), 0.7)
TWO = bondic.InitialStates.exact([[0.0], [1.0]], [0.7, 0.3])
ONE = bondic.InitialStates.exact([[0.0]])
SPREAD = bondic.InitialStates.exact(np.linspace(0.05, 0.95, 6)[:, None])
MANY = bondic.InitialStates.sample(np.random.default_rng(77).random((150, 1)))
UNIT = {"reward_range": (0, 1)}
SMOOTH = bondic.Ball(bondic.Gaussian(0.6), 6.0)


def half(states: Any) -> Any:
    """Low or high."""
    return np.where(np.asarray(states)[:, 0] < 0.5, "low", "high")


def shop(states: Any) -> Any:
    """The first column."""
    return np.array([f"shop {int(one)}" for one in np.asarray(states)[:, 0]])


# --- cases ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A question on a log, and how its interval is planned."""

    name: str
    log: Callable[[], bondic.Transitions]
    policy: Any
    statements: Mapping[str, Any]
    method: Callable[[], Any]
    initial: bondic.InitialStates | None = None
    against: Any = None
    by: Any = None
    allowances: tuple[float, ...] = ()  # at which the plan is looked at, beside what it states
    looks: tuple[int, ...] = ()  # of a monitor: rows at its updates, the last of which is looked at
    kind: str = ""

    def problems(self) -> tuple[Rows, ...]:
        """The rows of the policy, and of the one that it is compared with."""
        log = self.log()
        log = part(log, slice(0, self.looks[-1])) if self.looks else log
        first = bondic.make_problem(log, self.policy, self.initial, accept=None, **self.statements)
        return (first,) if self.against is None else (first, other_rows(first, self.against))

    def plan(self) -> Proof:
        """A proof with a new plan: what is stored, and not made again."""
        if self.looks:
            return self._watched()
        first, *others = self.problems()
        if others:
            result = difference_interval(first, others[0], alpha=ALPHA, method=self.method())
        else:
            result = bondic.estimate_interval(first, alpha=ALPHA, method=self.method())
        assert result.proof is not None, self.name
        return result.proof

    def _watched(self) -> Proof:
        options = {"planned_rows": len(self.log()), "alpha": ALPHA, "method": self.method()}
        monitor = bondic.SequentialMonitor(self.policy, self.initial, **self.statements, **options)
        for first, stop in zip((0, *self.looks), self.looks, strict=False):
            found = monitor.update(part(self.log(), slice(first, stop)))
        assert found.proof is not None, (self.name, found.choices)
        return found.proof

    def limits(self, problems: Sequence[Rows]) -> list[float]:
        """The value range."""
        limits = question_of(problems).limits
        return [limits.low, limits.high]

    def ends(self, proof: Proof, problems: Sequence[Rows]) -> dict[str, list[float]]:
        """Both ends of this very plan: of the whole, by subgroup, and at every allowance."""
        question = question_of([one.select(*proof.estimand.rows) for one in problems])
        claims = proof.claims(question, STANDARD)
        found = {"": conclude(question.limits, claims.ends, claims.rejected, proof.side)}
        if self.by is not None:
            labels = labels_of(problems[0], self.by)
            parts = conclude_by_subgroup(proof, question, labels, STANDARD)
            found |= {name: part.conclusion for name, part in parts.items()}
        for stated in self.allowances:
            claims = replace(proof, allowance=Allowance.of(stated)).claims(question, STANDARD)  # type: ignore[call-arg]
            found[f"{stated}"] = conclude(question.limits, claims.ends, claims.rejected, proof.side)
        return {name: [one.low, one.high] for name, one in found.items()}


def _cases() -> list[Case]:
    table, bets = bondic.Table, bondic.Propensities
    paths, few, numbers, single = (
        cache(one)
        for one in (lambda: walk(60, 1), lambda: walk(90, 2, ending=0.3), lambda: drift(50, 3), lambda: visits(500, 4))
    )
    brief = cache(lambda: walk(300, 8, ending=0.5, noise=0.02))
    short, doses = cache(lambda: walk(200, 5, steps=3, ending=0.0)), cache(lambda: visits(400, 6, doses=True))
    nine, far = ({"gamma": gamma, "value_range": (0, 4), **UNIT} for gamma in (0.9, 0.99))
    myopic, half_, steps = {"gamma": 0.0, **UNIT}, {"gamma": 0.5, **UNIT}, {"gamma": 1.0, "horizon": 3, **UNIT}
    pairs, bounded = partial(bondic.Groups, allowance=0.01, count=2), partial(bets, min_propensity=0.2)
    groups = partial(bondic.Groups, allowance=0.05, count=4)
    flat, by_action = bondic.Ball(bondic.Gaussian(2.0), 1.0), Instruments(Dirac(on="action"))
    by_cell = Instruments(Dirac(on="state") * Dirac(on="action"))
    ball, dual = partial(bondic.Sequential, ball=SMOOTH), partial(bondic.Dual, ball=SMOOTH)
    stated = [
        Case("table", brief, EAGER, nine, table, TWO),
        Case("table, 0.99", brief, EAGER, far, table, TWO),
        Case("table, no discount", paths, EAGER, myopic, table, TWO),
        Case("table, no end", lambda: walk(40, 7, ending=0.0), EAGER, half_ | {"may_terminate": False}, table, ONE),
        Case("table, horizon", short, EAGER, steps, table, ONE),
        Case("table, planned", paths, EAGER, half_, partial(table, planned_rows=600), TWO),
        Case("table, five rows", paths, CALM, half_, partial(table, fewest_rows=5, pilot=60), TWO),
        Case("table, difference", paths, EAGER, half_, table, TWO, against=CALM),
        Case("table, subgroups", paths, EAGER, half_, table, TWO, by=half),
        Case("table, first look", paths, EAGER, half_, table, TWO, looks=(260,)),
        Case("table, third look", paths, EAGER, half_, table, TWO, looks=(120, 260, 330)),
        Case("groups", numbers, UPWARD, half_, groups, SPREAD),
        Case("groups, no discount", numbers, UPWARD, myopic, groups, SPREAD),
        Case(
            "groups, curve",
            numbers,
            UPWARD,
            half_,
            partial(bondic.Groups, count=4),
            SPREAD,
            allowances=(0.0, 0.02, 0.2),
        ),
        Case("groups, difference", numbers, UPWARD, half_, pairs, SPREAD, against=EVEN),
        Case("groups, subgroups", numbers, UPWARD, half_, groups, SPREAD, by=half),
        Case("propensities, list", few, EAGER, half_, bets, TWO),
        Case("propensities, list, horizon", short, EAGER, steps, partial(bets, min_propensity=0.3), TWO),
    ]
    in_contexts = [
        Case("one step", single, LATE, myopic, bets),
        Case("one step, least propensity", single, LATE, myopic, bounded),
        Case("one step, largest ratio", single, EARLY, myopic, partial(bets, max_ratio=3.0)),
        Case("one step, sensitivity", single, LATE, myopic, partial(bets, gamma_sensitivity=1.2)),
        Case("one step, difference", single, LATE, myopic, bets, against=EARLY),
        Case("one step, subgroups", single, LATE, myopic, bets, by=shop),
        Case("one step, difference, bound", single, LATE, myopic, bounded, against=EARLY),
        Case("doses", doses, DOSE, myopic, bets),
    ]
    today = [
        Case("one step", single, LATE, myopic, bets, against="today"),
        Case("one step, least propensity", single, LATE, myopic, partial(bets, min_propensity=0.2), against="today"),
        Case("one step, subgroups", single, EARLY, myopic, bets, against="today", by=shop),
        Case("episodes", short, EAGER, steps, bets, against="today"),
        Case("returns", paths, LoggedBehavior(), half_, bets),
    ]
    balls = [
        Case("ball", numbers, UPWARD, half_, ball, SPREAD),
        Case("ball, no discount", numbers, UPWARD, myopic, ball, SPREAD),
        Case("ball, difference", numbers, UPWARD, half_, ball, SPREAD, against=EVEN),
        Case("ball, subgroups", numbers, UPWARD, half_, ball, SPREAD, by=half),
        Case("ball, look", numbers, UPWARD, half_, ball, SPREAD, looks=(250, 400)),
    ]
    duals = [
        Case("dual", numbers, UPWARD, half_, dual, SPREAD),
        Case("dual, paper", numbers, UPWARD, myopic, partial(bondic.Dual, by_action, flat, "paper"), SPREAD),
        Case("dual, planned", numbers, UPWARD, myopic, partial(dual, planned_rows=600), SPREAD),
        Case("dual, box", paths, EAGER, myopic, partial(bondic.Dual, by_cell), TWO),
    ]
    own = [
        Case("episodes", few, EAGER, half_, bets),
        Case("episodes, horizon", short, EAGER, steps, partial(bets, min_propensity=0.3)),
        Case("episodes, look", short, EAGER, steps, table, looks=(150, 480)),
        Case("table", paths, EAGER, half_, table),
        Case("table, today", paths, EAGER, half_, table, against="today"),
        Case("groups", numbers, UPWARD, half_, groups),
        Case("ball", numbers, UPWARD, half_, ball),
        Case("dual", numbers, UPWARD, myopic, partial(bondic.Dual, ball=flat)),
    ]
    population = [
        Case("one step", single, LATE, myopic | IID, bets),
        Case("one step, largest ratio", single, EARLY, myopic | IID, partial(bets, max_ratio=3.0)),
        Case("one step, difference", single, LATE, myopic | IID, bets, against=EARLY),
        Case("one step, subgroups", single, LATE, myopic | IID, bets, by=shop),
        Case("episodes", few, EAGER, half_ | IID, bets),
        Case("episodes, horizon", short, EAGER, steps | IID, partial(bets, min_propensity=0.3)),
        Case("episodes, sensitivity", short, EAGER, steps | IID, partial(bets, gamma_sensitivity=1.1)),
        Case("episodes, look", short, EAGER, steps | IID, table, looks=(150, 480)),
    ]
    sampled = [
        Case("table", paths, EAGER, half_ | IID, table),
        Case("groups", numbers, UPWARD, half_, pairs, MANY),
        Case("ball", numbers, UPWARD, half_, ball, MANY),
        Case("dual", numbers, UPWARD, myopic, partial(bondic.Dual, ball=flat), MANY),
    ]
    lists = (stated, in_contexts, today, own, duals, balls, population, sampled)
    return [replace(one, kind=kind) for kind, cases in zip(KINDS, lists, strict=True) for one in cases]


CASES = {f"{case.kind}: {case.name}": case for case in _cases()}

# --- plans as data -------------------------------------------------------------------------------------


def write_plan(proof: Proof) -> dict[str, Any]:
    """All fields but the estimand, of which the rows are kept; arrays as text."""
    encoder = Encoder()
    fields = _written(proof, encoder, "")
    return {"proof": fields, "arrays": {name: _packed(array) for name, array in encoder.arrays.items()}}


def _written(proof: Proof, encoder: Encoder, place: str) -> dict[str, Any]:
    named = registered(type(proof))
    assert named is not None
    found: dict[str, Any] = {named[0]: named[1], "rows": list(proof.estimand.rows)}
    for one in data_fields(type(proof)):
        value = getattr(proof, one.name)
        if one.name == "parts":
            found["parts"] = [_written(part, encoder, f"{place}parts.{k}.") for k, part in enumerate(value)]
        elif one.name != "estimand":
            found[one.name] = encoder.encode(value, place + one.name)
    return found


def read_plan(plan: Mapping[str, Any], problems: Sequence[Rows]) -> Proof:
    """The proof with this plan about the value on these rows."""
    encoder = Encoder()
    data = _with_estimand(plan["proof"], problems, encoder, "")
    arrays = {name: _unpacked(text) for name, text in plan["arrays"].items()} | encoder.arrays
    return _Reader(arrays, {"layout": problems[0].layout, "functions": {}}).decode(Proof, data, "proof")  # type: ignore[no-any-return]


def _with_estimand(data: Mapping[str, Any], problems: Sequence[Rows], encoder: Encoder, place: str) -> dict[str, Any]:
    about = estimand_of(*(one.select(*data["rows"]) for one in problems))
    found = {**data, "estimand": encoder.encode(about, f"{place}estimand")}
    if "parts" in found:
        parts = zip(found["parts"], problems, strict=True)
        found["parts"] = [_with_estimand(part, [one], encoder, f"{place}{k}.") for k, (part, one) in enumerate(parts)]
    return found


class _Reader(Decoder):
    """A field that a class no longer has is passed over: the ends say whether it mattered."""

    def _object(self, annotation: type, data: Any, place: str) -> Any:
        if not isinstance(data, dict):
            return super()._object(annotation, data, place)
        kind = kind_of(annotation)
        cls = annotation if kind is None else lookup(kind, data.get(kind), place)
        known = {kind, *(one.name for one in data_fields(cls))}
        return super()._object(annotation, {name: data[name] for name in data if name in known}, place)


def _packed(array: Any) -> list[Any]:
    """Type, shape, and the numbers as compressed bytes."""
    whole = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return [whole.dtype.str, list(array.shape), base64.b64encode(zlib.compress(whole.tobytes(), 9)).decode()]


def _unpacked(packed: Sequence[Any]) -> Any:
    kind, shape, text = packed
    return (
        np.frombuffer(zlib.decompress(base64.b64decode(text)), kind)
        .reshape(shape)
        .astype(np.dtype(kind).newbyteorder("="))
    )
