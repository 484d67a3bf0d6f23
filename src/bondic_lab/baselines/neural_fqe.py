"""Fitted Q evaluation with small networks, an ensemble of them for the bootstrap (Kostrikov and Nachum 2020).

net_{k+1} = argmin_net sum_i c_i ( r_i + gamma sum_a pi(a|s'_i) q_k(s'_i, a) - net(s_i, a_i) )^2,   q_k = net_k clipped,

with c_i the number of times row i's episode is in the bootstrap sample. Every member of the ensemble has its own c, its
own parameters and its own target network; member 0 has c = 1 and gives the estimate. "argmin" stands for some steps of
Adam from the previous network. The interval is J_0 -+ t_{1-p, B-1} times the standard deviation of J_1 .. J_B.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput, NumericalError
from bondic.core.terms import range_at_all_times
from bondic.errors import MissingExtra
from bondic.rows import Rows
from bondic_lab.baselines import outcome as out
from bondic_lab.baselines.features import is_table
from bondic_lab.baselines.intervals import resample_counts, student_around
from bondic_lab.baselines.starts import starts_are_episodes
from bondic_lab.baselines.units import IntArray, OverUnits, Sample, Unit, bootstrap_units

FloatArray = npt.NDArray[np.float64]

_LEFT = 1e-4  # of the first error after all target updates, if every regression were exact
_UPDATES = (40, 500)  # fewest and most target updates that are chosen unasked
_TAIL = 0.5  # share of the target updates over which the value is averaged: evens out the sampling of batches


def _torch() -> Any:
    try:
        import torch
    except ImportError as problem:
        raise MissingExtra("torch", "torch", "Neural fitted Q evaluation") from problem
    return torch


@dataclass(frozen=True)
class NeuralFittedQ(
    OverUnits,
    name="dm-neural",
    words="neural fitted Q evaluation, bootstrap",
    guarantee="none",
    needs=("episode_ids",),
    extra="torch",
):
    """`dm-neural`: FQE with multilayer perceptrons and a bootstrap over episodes. No guarantee.

    The theory of the bootstrap speaks of regressions that are solved exactly in a class closed under the Bellman operator.
    Networks after a number of gradient steps are neither, and how far they are off is not known: the label is "none".
    `replicates` networks are trained side by side, `steps` gradient steps for each of `updates` target updates (default:
    until gamma^updates is 1e-4). Results depend on `seed` only, and in the last digits on the machine's libraries.
    """

    hidden: tuple[int, ...] = (32, 32)
    replicates: int = 20
    updates: int | None = None
    steps: int = 20
    batch: int = 256
    learning_rate: float = 5e-3
    seed: int = 0
    unit: Unit = field(default="episodes", kw_only=True)

    def __post_init__(self) -> None:
        _torch()
        object.__setattr__(self, "hidden", tuple(int(width) for width in self.hidden))
        updates = _UPDATES[0] if self.updates is None else self.updates
        for name, value, least in (
            ("replicates", self.replicates, 2),
            ("updates", updates, 1),
            ("steps", self.steps, 1),
            ("batch", self.batch, 1),
        ):
            if value < least:
                raise InvalidInput(f"{name}={value}; neural fitted Q evaluation needs at least {least}.")
        if not self.hidden or any(width < 1 for width in self.hidden):
            raise InvalidInput(
                f"hidden={self.hidden}; it lists the widths of the layers, at least one, all of them >= 1."
            )
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InvalidInput(f"learning_rate={self.learning_rate}; a positive finite number is needed.")

    def unit_ends(self, sample: Sample) -> out.Outcome:
        problem, units = sample.problem, sample.units
        count, rng = bootstrap_units(units), np.random.default_rng(self.seed)
        counts = np.vstack([np.ones((1, count)), resample_counts(rng, count, self.replicates)])
        starts = start_weights(problem, counts, rng)
        updates = default_updates(problem.gamma) if self.updates is None else self.updates
        values = _Ensemble(self, problem, counts[:, units], starts, rng).values(updates, sample.watch)
        estimate, spread = float(values[0]), float(values[1:].std(ddof=1))
        closed = out.stated(
            "values", "The networks were trained to convergence, and can be fitted to the values of the policy."
        )
        return out.Outcome(
            *student_around(estimate, spread, self.replicates, sample.budget),
            estimate,
            (out.stated_if(False, closed),),
            choices={
                "networks": f"{self.replicates + 1} with hidden layers of {', '.join(map(str, self.hidden))} units",
                "training": f"{updates} target updates of {self.steps} steps, batches of {self.batch} rows",
                "interval": f"Student t, standard error {spread:.6g}",
            },
            seeds={"networks and bootstrap": self.seed},
        )


def default_updates(gamma: float) -> int:
    """Target updates until gamma^k is 1e-4 (1 % before the value is read off), within limits."""
    fewest, most = _UPDATES
    if gamma <= 0:
        return fewest
    return most if gamma >= 1 else min(most, max(fewest, math.ceil(math.log(_LEFT) / math.log(gamma))))


def start_weights(problem: Rows, counts: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Weights of the points of d_{pi,0}, (1 + B, N): exact, or resampled with their episodes, alone, or draw by draw.

    Row 0 is the sample as it is.
    """
    states, cloud = problem.initial_states, problem.initial
    members, size = counts.shape[0], len(states)
    weights = np.tile(states.weights, (members, 1))
    if states.kind != "exact":
        own = counts.shape[1] == size and starts_are_episodes(problem)
        weights[1:] = (counts[1:] if own else resample_counts(rng, size, members - 1)) / size
    shares = np.full((members, cloud.rows.size), 1.0)
    if states.kind == "exact" and not problem.answers.exact:
        draws = cloud.rows.size // size
        again = rng.multinomial(draws, np.full(draws, 1.0 / draws), size=(members - 1, size))
        shares[1:] = again.reshape(members - 1, -1)  # the points of a state stand together
    return np.asarray(weights[:, cloud.rows] * shares)


class _Inputs:
    """Points as the networks see them: one unit per state when few states repeat, else standardized coordinates."""

    def __init__(self, problem: Rows) -> None:
        rows = problem.whole()
        everything = np.concatenate([problem.initial.points, rows.logged, rows.next.points])
        self.table = None
        if problem.layout.discrete and is_table(everything, len(problem)):
            self.table = np.unique(everything, axis=0)
        spread = rows.logged.std(axis=0)
        self.center, self.spread = rows.logged.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def __call__(self, points: FloatArray) -> npt.NDArray[np.float32]:
        if self.table is None:
            return np.asarray((points - self.center) / self.spread, dtype=np.float32)
        return np.asarray((points[:, None, :] == self.table[None]).all(axis=2), dtype=np.float32)


class _Ensemble:
    """1 + B networks trained side by side; inputs are points, outputs one value per slot of actions, in units of `unit`."""

    def __init__(
        self, options: NeuralFittedQ, problem: Rows, counts: FloatArray, starts: FloatArray, rng: np.random.Generator
    ) -> None:
        torch = self.torch = _torch()
        self.options, self.problem, self.rng = options, problem, rng
        inputs = _Inputs(problem)
        rows = problem.whole()
        rewards = rows.rewards
        # values lie between one reward and the sum of all; their middle (geometric) is the unit of the outputs
        steps = 1.0 / (1.0 - problem.gamma * float(rows.continues.mean()) + 1e-3)
        self.unit = float(np.sqrt(np.mean(rewards**2) * steps)) or 1.0
        limits = range_at_all_times(problem.terms)  # hull with 0: nothing is earned after the end
        self.limits = min(limits.low, 0.0) / self.unit, max(limits.high, 0.0) / self.unit
        self.logged, self.after = (torch.from_numpy(inputs(p)) for p in (rows.logged, rows.next.points))
        self.first = torch.from_numpy(inputs(problem.initial.points))
        self.rewards = torch.from_numpy((rewards / self.unit).astype(np.float32))
        self.slots = torch.tensor(rows.slots)
        self.counts = torch.from_numpy(counts.astype(np.float32))
        self.starts = starts
        self.next_rows, self.next_weights = _following(problem)
        middle = float(np.mean(rewards)) * steps / self.unit
        self.parameters = self._draw(counts.shape[0], self.logged.shape[1], middle)

    def _draw(self, members: int, dimension: int, middle: float) -> list[Any]:
        """Layers with random weights, but a last layer of 0 and the mean value as its shift: -r gives -q exactly."""
        arrays = []
        widths = [dimension, *self.options.hidden]
        for above, below in pairwise(widths):
            arrays += [
                self.rng.standard_normal((members, above, below)) * math.sqrt(2 / above),
                self.rng.standard_normal((members, 1, below)),
            ]
        slots = self.problem.layout.slots
        arrays += [np.zeros((members, widths[-1], slots)), np.full((members, 1, slots), middle)]
        return [self.torch.from_numpy(array.astype(np.float32)).requires_grad_() for array in arrays]

    def q(self, parameters: list[Any], points: Any) -> Any:
        """(members, points, slots)."""
        values = points.expand(self.counts.shape[0], -1, -1)
        for matrix, shift in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            values = self.torch.nn.functional.silu(self.torch.baddbmm(shift, values, matrix))
        return self.torch.baddbmm(parameters[-1], values, parameters[-2])

    def targets(self, frozen: list[Any], rows: IntArray) -> Any:
        """r + gamma sum_a pi(a|s') q(s', a) with the frozen networks, (members, rows)."""
        if not len(self.after):  # a one-step log: nothing follows any row
            return self.rewards[self.torch.from_numpy(rows)].expand(self.counts.shape[0], -1)
        places, weights = self.next_rows[rows], self.next_weights[rows]  # (b, m), (b, m, slots)
        points = self.after[self.torch.from_numpy(places.ravel())]
        q = self.q(frozen, points).clamp(*self.limits)
        members = q.shape[0]
        means = (q.reshape(members, *weights.shape) * self.torch.from_numpy(weights)).sum(dim=(2, 3))
        return self.rewards[self.torch.from_numpy(rows)] + self.problem.gamma * means

    def values(self, updates: int, watch: out.Stopwatch) -> FloatArray:
        """J of every member, (1 + B,), averaged over the last target updates."""
        torch, options = self.torch, self.options
        optimizer = torch.optim.Adam(self.parameters, lr=options.learning_rate)
        total = updates * options.steps
        batches, averaged = self._batches(), max(1, round(_TAIL * updates))
        found = np.zeros(self.counts.shape[0])
        for update in range(updates):
            frozen = [parameter.detach().clone() for parameter in self.parameters]
            for step in range(options.steps):
                done = (update * options.steps + step) / total
                for group in optimizer.param_groups:
                    group["lr"] = options.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
                self._step(optimizer, frozen, next(batches))
            if update >= updates - averaged:
                found += self._start_values() / averaged
            watch((update + 1) / updates)
        if not np.all(np.isfinite(found)):
            raise NumericalError("Training of the networks diverged: pass a smaller learning_rate=.")
        return found

    def _batches(self) -> Iterator[IntArray]:
        """Rows in random order, all of them before any comes again: the value wanders less than with single draws."""
        n, size = len(self.problem), self.options.batch
        while True:
            order = self.rng.permutation(n)
            yield from (order[start : start + size] for start in range(0, max(n - size, 0) + 1, size))

    def _step(self, optimizer: Any, frozen: list[Any], rows: IntArray) -> None:
        torch = self.torch
        index = torch.from_numpy(rows)
        with torch.no_grad():
            requested = self.targets(frozen, rows)
        q = self.q(self.parameters, self.logged[index])
        slots = self.slots[index].expand(q.shape[0], -1)[:, :, None]
        error = q.gather(2, slots)[:, :, 0] - requested
        loss = (self.counts[:, index] * error**2).mean(dim=1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def _start_values(self) -> FloatArray:
        with self.torch.no_grad():
            q = self.q(self.parameters, self.first).numpy().astype(np.float64)
        means = np.einsum("bns,ns->bn", q, self.problem.initial.weights)
        return np.asarray(self.unit * np.sum(self.starts * means, axis=1))


def _following(problem: Rows) -> tuple[IntArray, npt.NDArray[np.float32]]:
    """Places of the next points of every row (n, m) and their slot weights (n, m, slots), 0 where nothing follows."""
    cloud, n = problem.whole().next, len(problem)
    most = int(np.bincount(cloud.rows, minlength=n).max()) if cloud.rows.size else 1
    places = np.zeros((n, most), dtype=np.int64)
    weights = np.zeros((n, most, problem.layout.slots), dtype=np.float32)
    order = np.argsort(cloud.rows, kind="stable")
    rows = cloud.rows[order]
    nth = np.arange(rows.size) - np.searchsorted(rows, rows)
    places[rows, nth] = order
    weights[rows, nth] = cloud.weights[order]
    return places, weights
