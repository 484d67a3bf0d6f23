"""Differences of two policies on cells, where an end is as sharp as it can be: tables, and groups at the true allowance.

Rows are in a state from which one of two states follows, and there the policies differ: V_1 - V_2 is -1 after almost every row,
and 1 after a share p of them. Bets are as large as they may be, and everything but the jumps is foreseen. p is such that a log
without a jump has an upper end just below the truth: such a log is a miss, and hardly any other one is.

With groups the start is another state than that of the rows, in the same group: what varies inside is true of both policies, with
opposite signs, at the rows and at the start. So the allowance is needed in full four times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from experiments.coverage_checks import Check

import bondic
from bondic.core.cells.allowance import CellAllowance
from bondic.core.cells.ends import CellBound, EndWeights
from bondic.core.cells.forecasts import EarlierRows, Forecasts
from bondic.core.cells.localize import CellTails, Events, VectorEvent
from bondic.core.cells.paired import PairedCells, PairedGroups
from bondic.core.cells.rows import GroupCells
from bondic.core.cells.tally import CellShape, tally
from bondic.rows.paired import PairedRows

LEVELS = (0.1, 0.5)
GAMMA, HERE, THERE = 0.9, 60, 150  # rows at the first state, and at each pair of the two that follow
APART = 0.4  # jumps are more likely at the start than at the rows, by this
NEW, OLD = np.array([[1.0, 0.0]] * 4), np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
# states 0: the rows; 1: the second policy earns 1; 2: the first one does; 3: the start, where it is not that of the rows

FIRST, SECOND = np.eye(6)[0], np.array([0.0, 0.0, 0.0, 1.0, 1.0, 0.0])  # the pair of the rows; what each pair earns


def log_of(jumps: int) -> bondic.Transitions:
    """Rows at state 0, then both actions at 1 and 2: an action earns 1 at 2 if it is the first one, at 1 if it is the second."""
    state = np.concatenate([np.zeros(HERE), np.repeat([1.0, 1.0, 2.0, 2.0], THERE)])
    action = np.concatenate([np.zeros(HERE), np.tile(np.repeat([0.0, 1.0], THERE), 2)]).astype(np.int64)
    earns = ((state == 2) & (action == 0)) | ((state == 1) & (action == 1))
    after = np.where(np.arange(state.size) < HERE - jumps, 1.0, 2.0)
    return bondic.Transitions(
        state[:, None], action, earns.astype(float), after[:, None], state > 0, discrete_observations=True
    )


def rows_of(jumps: int, start: float) -> PairedRows:
    starts = bondic.InitialStates.exact([[start]])
    asked = [
        bondic.make_problem(
            log_of(jumps), lambda states, table=table: table[states[:, 0].astype(int)], starts, gamma=GAMMA,
            reward_range=(0.0, 1.0), value_range=(0.0, 1.0), accept=None,
        ) for table in (NEW, OLD)
    ]  # fmt: skip
    return PairedRows.of(*asked)


@dataclass(frozen=True)
class Sharp:
    """Everything that is fixed before the rows."""

    groups: bool
    width: float = 1.0  # of the range of γ (V_1 - V_2), in units of the right one

    def cells(self, rows: PairedRows) -> PairedCells | PairedGroups:
        if not self.groups:
            return PairedCells(np.arange(3.0)[:, None], 2.0)
        batch = rows.whole()
        group, zeros = batch.logged[:, 0].astype(np.int64), np.zeros(len(batch))
        cell = 2 * group + batch.slots
        following = np.zeros((6, 12))
        following[0, 5] = 1.0  # state 1 with the first action of the one policy and the second of the other
        one = GroupCells(
            3, group, batch.next.points[:, 0].astype(np.int64), np.zeros(1, np.int64), zeros, zeros, np.zeros(1),
            np.zeros_like(group), cell, zeros, Forecasts(np.arange(6), np.zeros(6), following),
        )  # fmt: skip
        own = np.zeros((6, 6))
        own[0, 3] = 1.0
        return PairedGroups(one, replace(one, forecasts=Forecasts(np.arange(6), SECOND, own)), 2.0)

    def bound(self, jumps: int, level: float) -> CellBound:
        """Bets on the first layer at the rows, as large as they may be; those on what follows balance it."""
        rows = rows_of(jumps, 3.0 if self.groups else 0.0)
        cells = self.cells(rows)
        limits = cells.limits(rows)
        narrow = np.where(np.arange(12) < 6, self.width, 1.0)
        limits = replace(limits, width=limits.width * narrow)
        bet = 0.99 / limits.width[0]
        weights, share = np.zeros((1, 12)), GAMMA * bet * HERE / THERE
        weights[0, 0] = bet
        weights[0, [2, 8, 9]] = share, share, -share
        shape, stops, past = CellShape(1, cells.atoms(rows), 2), (rows.rows.stop,), None
        counted = tally(
            cells.parts(rows, stops), shape, GAMMA, np.concatenate([-GAMMA * FIRST, SECOND + GAMMA * FIRST])
        )
        if not self.groups:  # state 1 follows the rows at state 0, in both layers, and nothing the others
            zero, one = np.array([0, 6]), np.array([1, 4])
            past = EarlierRows(np.ones(12), np.concatenate([np.zeros(6), SECOND]), zero, one, np.ones(2))
        labels = cells.labels(counted, rows, stops, past, (0,) if past else ())
        vector, single = VectorEvent(np.ones(12), (0.2, 0.02)), CellTails(np.full((1, 12), 0.3))
        events = Events(vector, 0.05 * level, single, 0.05 * level)
        tails = {1.0: EndWeights(weights, bet * HERE)}
        return CellBound(counted, labels, events, tails, {1.0: 0.9 * level}, cells.starts(rows), limits)

    @cache  # noqa: B019 -- frozen, and few of them
    def upper(self, jumps: int, level: float, share: float = 1.0) -> float:
        """The upper end, at this share of the true allowance: that of the first group, for either policy."""
        allowed = np.where(np.arange(12) % 6 < 2, share * GAMMA * APART / 2, 0.0) if self.groups else np.zeros(12)
        bound = self.bound(jumps, level)
        end = bound.ends(bound.locate(CellAllowance(allowed, np.zeros(12))))[1.0]
        return end.value.mid + end.spread


def truth(chance: float) -> float:
    """V_1 - V_2 a step after the start."""
    return GAMMA * (2 * chance - 1)


def sharp(groups: bool, rng: np.random.Generator) -> list[Check]:
    """One upper end with all of the error, and readings of it that look alike."""
    apart, found = APART if groups else 0.0, list[Check]()
    for level in LEVELS:
        right, narrow = Sharp(groups), Sharp(groups, 0.5)
        readings = [("upper end", right, 1.0), ("with [0, γB] as range", narrow, 1.0)]
        readings += [("at half of the allowance", right, 0.5)] if groups else []
        for name, how, share in readings:
            most = how.upper(0, level)
            chance = (1 + 1e-9) * ((most / GAMMA + 1) / 2 - apart)
            jumps = int(rng.binomial(HERE, chance))
            failed = how.upper(jumps, level, share) < truth(chance + apart)
            role = "claim" if (how, share) == (right, 1.0) else "control"
            found.append(Check(f"{name}, alpha {level:g}", failed, role, level))
    return found
