"""The scalar event of the sequential interval, theory (15): Σ v_i Z_i ≤ log(1/δ) + Σ g(−v_i Δ_i) at every n at once.

All logs of a case run side by side, one array entry per log and one step per row. A row has a value Y in [0, 1] with
mean q given the past, a weight v and a center Ŷ fixed before Y is drawn, Z = q − Y and Δ = Y − Ŷ. The excess
Σ v Z − Σ g(−v Δ) must stay below log(1/δ). Probabilities that have a closed form are computed, not only counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from experiments.coverage_checks import FloatArray, Role
from scipy import stats

from bondic.core.betting import bet_cost as g

DELTA = 0.05
LOG = math.log(1.0 / DELTA)
CAP = 0.99
"""Largest |v| times the one-sided range, as the library proposes it."""

Flags = npt.NDArray[np.bool_]
Number = FloatArray | float


@dataclass(frozen=True)
class Finding:
    """One statement on all logs of a case: which of them break it, and how often they should, where that is known."""

    statement: str
    failed: Flags
    role: Role = "claim"
    rate: float | None = None
    level: float = DELTA


@dataclass
class Excess:
    """Σ v Z − Σ g(−v Δ), now and at its worst moment so far."""

    now: FloatArray
    worst: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.worst = self.now.copy()

    @classmethod
    def start(cls, logs: int) -> Excess:
        return cls(np.zeros(logs))

    def add(self, weight: Number, mean: Number, value: FloatArray, center: Number) -> None:
        """One more row; for the lower tail pass −v."""
        self.now = self.now + weight * (mean - value) - g(-weight * (value - center))
        np.maximum(self.worst, self.now, out=self.worst)


Step = Callable[[int, Excess, np.random.Generator], tuple[Number, Number, FloatArray, Number]]
"""Row number, the past, fresh randomness → weight, mean, value, center."""


def play(step: Step, rng: np.random.Generator, logs: int, rows: int) -> Excess:
    excess = Excess.start(logs)
    for row in range(rows):
        excess.add(*step(row, excess, rng))
    return excess


# --- rare jumps: as sharp as an inequality of this kind can be ------------------------------------------

JUMP = 0.01
PLANNED = math.ceil(LOG / (CAP * JUMP))
"""Rows after which a log without a jump breaks the bound: n x p > log(1/δ)."""


def jump_rate(rows: int, weight: float, log: float = LOG) -> float:
    """P( n v p + N log(1 − v) > log ), N ~ Bin(n, p): exact failure rate of the lower tail after n rows, v < 1."""
    most = math.ceil((rows * weight * JUMP - log) / -math.log1p(-weight)) - 1
    return float(stats.binom.cdf(most, rows, JUMP))


def crossing_rate(rows: int, drift: float, jump: float, log: float = LOG) -> float:
    """P( n drift + N_n jump > log for some n ≤ rows ), by carrying the law of N_n on logs that have not crossed yet."""
    counts = np.arange(rows + 1)
    alive = np.where(counts == 0, 1.0, 0.0)
    for row in range(1, rows + 1):
        alive[1:] = (1.0 - JUMP) * alive[1:] + JUMP * alive[:-1]
        alive[0] *= 1.0 - JUMP
        alive[row * drift + counts * jump > log] = 0.0
    return float(1.0 - alive.sum())


def rare_jumps(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """Y = 1, with probability p it is 0. The model predicts 1; v = −0.99 bets on "no jump": factor e^{vp} or (1 − v) e^{vp}."""
    jumps = rng.random((PLANNED, logs)) < JUMP
    ends = play(lambda row, *_: (-CAP, 1.0 - JUMP, 1.0 - jumps[row], 1.0), rng, logs, PLANNED).now
    yield Finding("tail at n = 303", ends > LOG, rate=jump_rate(PLANNED, CAP))
    short = math.ceil(0.5 * LOG / (CAP * JUMP))
    early = play(lambda row, *_: (-CAP, 1.0 - JUMP, 1.0 - jumps[row], 1.0), rng, logs, short).now
    yield Finding(f"half of the log term, n = {short}", early > 0.5 * LOG, "control", jump_rate(short, CAP, 0.5 * LOG))
    # |v| range = 0.99 with a range that is half of the true one: the jump is taken for one of size 1/2
    seen = jumps[:short].sum(axis=0)
    believed = short * 2.0 * CAP * JUMP + seen * (-2.0 * CAP * 1.0 - float(g(np.array(-CAP))))
    rate = float(stats.binom.cdf(0, short, JUMP))
    yield Finding(f"range believed half, n = {short}", believed > LOG, "control", rate)


def rare_jumps_at_the_worst_time(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """The same, watched for 1 500 rows; and the other side, where the jump is what one bets on."""
    rows, gain = 1500, math.log1p(-CAP)
    jumps = rng.random((rows, logs)) < JUMP
    worst = play(lambda row, *_: (-CAP, 1.0 - JUMP, 1.0 - jumps[row], 1.0), rng, logs, rows).worst
    yield Finding("no jump, at the worst time", worst > LOG, rate=crossing_rate(rows, CAP * JUMP, gain))
    yield Finding(
        "no jump, half of the log term", worst > 0.5 * LOG, "control", crossing_rate(rows, CAP * JUMP, gain, 0.5 * LOG)
    )
    # upper tail, v > 0: only v_hi − A matters, and A = v_hi = 1 lets v be anything
    bold = 10.0
    worst = play(lambda row, *_: (bold, 1.0 - JUMP, 1.0 - jumps[row], 1.0), rng, logs, rows).worst
    rate = crossing_rate(rows, -bold * JUMP, math.log1p(bold))
    yield Finding("jumps, one-sided range 0, v = 10", worst > LOG, rate=rate)
    # the same v with the sides of the range mixed up: v < 0 needs B − v_lo = 1, and a jump costs everything
    wrong = np.where(jumps.cumsum(axis=0) == 0, bold * JUMP * np.arange(1, rows + 1)[:, None], 0.0).max(axis=0)
    rows_needed = math.floor(LOG / (bold * JUMP)) + 1
    rate = float((1.0 - JUMP) ** rows_needed)
    yield Finding("no jump, range of the wrong side, v = −10", wrong > LOG, "control", rate)


def dropped_blocks(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """Blocks of 303 rows; those that do not fit are dropped after they were seen. All blocks together hold."""
    for blocks in (2, 10):
        jumps = rng.binomial(PLANNED, JUMP, size=(blocks, logs))
        terms = PLANNED * CAP * JUMP + jumps * math.log1p(-CAP)
        whole = blocks * PLANNED
        yield Finding(f"{blocks} blocks, all kept", terms.sum(axis=0) > LOG, rate=jump_rate(whole, CAP))
        # a block without a jump alone is above log(1/δ); a block with a jump is below 0
        rate = 1.0 - (1.0 - (1.0 - JUMP) ** PLANNED) ** blocks
        kept = np.maximum(terms, 0.0).sum(axis=0)
        yield Finding(f"{blocks} blocks, dropped after looking", kept > LOG, "control", rate)


# --- adaptive weights, behavior and centers ------------------------------------------------------------


def bold_bets(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """Fair coin, Ŷ = q: the bound is a fair game, and v is chosen from the past so as to win it exactly."""

    def step(_row, past, rng):
        need = 2.0 * np.expm1(np.maximum(LOG + 1e-9 - past.now, 0.0))  # 1 + v/2 = 20 / wealth
        weight = np.where(past.worst > LOG, 0.0, np.minimum(need, CAP / 0.5))
        return weight, 0.5, rng.integers(2, size=logs).astype(float), 0.5

    worst = play(step, rng, logs, 200).worst
    yield Finding("bold bets, at the worst time", worst > LOG)
    yield Finding("bold bets, half of the log term", worst > 0.5 * LOG, "control")


def adaptive_behavior(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """Three kinds of pair (coin, rare jump, nearly certain); which one comes, its weight and its sign follow from the past."""
    means = np.array([0.5, 1.0 - JUMP, 0.02])

    def step(row, past, rng):
        kind = np.where(past.now > 0.5 * LOG, 1, np.where(past.now < -2.0, 2, (row // 25) % 3))
        mean = means[kind]
        low, high = np.where(kind == 1, 0.9, 0.0), np.where(kind == 2, 0.1, 1.0)  # clip of the center
        center = np.clip(np.where(kind == 1, 1.0, mean), low, high)
        sign = np.where(kind == 1, -1.0, np.where(past.now > past.worst - 0.2, 1.0, -1.0))
        weight = sign * CAP * np.clip(0.2 + 0.3 * (LOG - past.now), 0.1, 1.0) / np.where(sign > 0, 1.0 - low, high)
        return weight, mean, (rng.random(logs) < mean).astype(float), center

    worst = play(step, rng, logs, 400).worst
    yield Finding("adaptive behavior and weights, at the worst time", worst > LOG)
    yield Finding("adaptive behavior, half of the log term", worst > 0.5 * LOG, "control")


def wrong_centers(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """Values 0 (rare), else uniform on [0.7, 1]; the center is predictable and otherwise anything."""
    mean = (1.0 - JUMP) * 0.85
    centers: dict[str, Callable[[FloatArray], FloatArray | float]] = {
        "off by 0.05": lambda last: mean + 0.05 * np.sign(0.85 - last),
        "mirrored": lambda _: 1.0 - mean,
        "at random": lambda _: rng.random(logs),
        "the last value": lambda last: last,
        "the best value": lambda _: 1.0,
    }
    for name, center in centers.items():
        for tail, weight in (("upper", 0.5), ("lower", -0.5)):
            last, excess = np.full(logs, 0.5), Excess.start(logs)
            for _ in range(1500):
                guess = center(last)
                last = np.where(rng.random(logs) < JUMP, 0.0, rng.uniform(0.7, 1.0, logs))
                excess.add(weight, mean, last, guess)
            yield Finding(f"center {name}, {tail} tail", excess.worst > LOG)


def narrow_clip(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """The center is clipped to [0.9, 0.97], where no value lies; weights up to half of 0.99/0.1 and 0.99/0.97."""
    mean = 1.0 - 2.0 * JUMP
    for name, weight in (("upper", 0.5 * CAP / (1.0 - 0.9)), ("lower", -0.5 * CAP / 0.97)):

        def step(_row, _past, rng, weight=weight):
            guess = np.clip(mean + 0.02 * rng.normal(size=logs), 0.9, 0.97)
            return weight, mean, (rng.random(logs) < mean).astype(float), guess

        worst = play(step, rng, logs, 1000).worst
        yield Finding(f"clip [0.9, 0.97], {name} tail", worst > LOG)
        yield Finding(f"clip [0.9, 0.97], {name} tail, half of the log term", worst > 0.5 * LOG, "control")


# --- what must be fixed beforehand and was not ---------------------------------------------------------


def chosen_after_looking(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """Fair coin, Ŷ = q. One v or one clip fixed beforehand holds; the best of several, picked at the end, does not."""
    rows = 2000
    values = rng.integers(2, size=(rows, logs)).astype(float)
    weights = [sign * CAP / 0.5 * 0.5**k for k in range(6) for sign in (1.0, -1.0)]
    runs = [play(lambda row, *_, v=v: (v, 0.5, values[row], 0.5), rng, logs, rows).worst for v in weights]
    yield Finding("v fixed beforehand", runs[4] > LOG)
    yield Finding("best of 12 v after looking", np.max(runs, axis=0) > LOG, "control")
    rows, weight = 100, 0.5
    # the row's clip [A, B] = {0} or {1}, whichever fits the value
    fitted = play(lambda row, *_: (weight, 0.5, values[row], values[row]), rng, logs, rows).worst
    fixed = play(lambda row, *_: (weight, 0.5, values[row], row % 2), rng, logs, rows).worst
    yield Finding("clip at 0 or 1 in turns", fixed > LOG)
    yield Finding("clip at 0 or 1 after looking", fitted > LOG, "control")


def sampled_actions(rng: np.random.Generator, logs: int) -> Iterator[Finding]:
    """All randomness is the next action that we draw: Y = 0 or 1 by a'. κ may be the mean over π, never the draw."""
    rows, weight = 400, 0.5
    draws = rng.integers(2, size=(rows, logs)).astype(float)
    mean = play(lambda row, *_: (weight, 0.5, draws[row], 0.5), rng, logs, rows).worst
    cheat = play(lambda row, *_: (weight, 0.5, draws[row], draws[row]), rng, logs, rows).worst
    mixed = play(lambda row, *_: (weight, 0.5, draws[row], 0.25 + 0.5 * draws[row]), rng, logs, rows).worst
    yield Finding("κ is the mean over the policy", mean > LOG)
    yield Finding("κ is the draw", cheat > LOG, "control")
    yield Finding("κ is half the draw, half the mean", mixed > LOG, "control")


TAILS: dict[str, Callable[[np.random.Generator, int], Iterator[Finding]]] = {
    "rare jumps": rare_jumps,
    "rare jumps, worst time": rare_jumps_at_the_worst_time,
    "dropped blocks": dropped_blocks,
    "bold bets": bold_bets,
    "adaptive behavior": adaptive_behavior,
    "wrong centers": wrong_centers,
    "narrow clip": narrow_clip,
    "chosen after looking": chosen_after_looking,
    "sampled next actions": sampled_actions,
}
