"""Ends over the whole ball against the slow twin: outside of the truth at every e, inside of bias and noise taken apart."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp, mpf

import naive_sequential
from bondic.core.sequential import bound as sequential
from bondic.engines.sums import STANDARD
from sequential_cases import CONSTANT, Truth, World, make_plan, make_proof, watching


def kernel_of(world):
    h = mpf(world.bandwidth)

    def kernel(x, a, y, b):
        square = mp.fsum((mpf(p) - mpf(q)) ** 2 for p, q in zip(x, y, strict=True))
        return (a == b) * mp.exp(-square / (2 * h**2)) + mpf(CONSTANT)

    return kernel


def measure(cloud, keep, factors=None):
    """The points of a cloud with their weights."""
    rows = np.flatnonzero(keep)
    factor = np.ones(len(cloud.points)) if factors is None else factors
    return [
        (mpf(cloud.weights[j, a]) * mpf(factor[j]), cloud.points[j].tolist(), a)
        for j in rows
        for a in range(cloud.weights.shape[1])
    ]


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
@pytest.mark.parametrize("end", ["lower", "upper"])
def test_ends_over_the_ball(kind, end):
    world = World(kind, np.random.default_rng(2), n=8, gamma=0.6, radius=1.5, bandwidth=2.5)
    rows = world.rows(0.1 * np.random.default_rng(0).normal(size=8))
    plan = make_plan(world, rows, count=8, blocks=1, bold=3.0)
    proof = make_proof(rows, world.ball(rows.layout), replace(plan, rounds=(0, 1)))
    evidence = proof.evidence(rows, STANDARD)
    with watching() as seen:
        whole = {one.end: one for one in sequential.evaluate(evidence, proof.plan, ("lower", "upper")).claims}[end]
    ((tail, claim),) = ((tail, found) for tail, found in seen.claims if tail.end == end)
    own, batch, basis = Truth(world, evidence, proof.plan, "both").applied[0], rows.whole(), proof.plan.basis
    few = basis.matrix[: proof.plan.visible].T  # weights of landmarks in the first functions
    with mp.workdps(naive_sequential.DIGITS):
        twin = naive_sequential.Twin(kernel_of(world), world.radius, world.gamma, int(claim.sign))
        lines = []
        for i in range(len(batch)):
            weights = mp.matrix(few.tolist()) * mp.matrix(own.embedding[i].tolist())
            kappa = [
                (weights[j], z, a) for j, (z, a) in enumerate(zip(basis.points.tolist(), basis.slots, strict=True))
            ]
            data = evidence.data
            lines.append(
                SimpleNamespace(
                    here=[(mpf(1), batch.logged[i].tolist(), batch.slots[i])], next=measure(batch.next, batch.next.rows == i),
                    kappa=kappa, v=own.weights[end][i], reward=batch.rewards[i], predicted=own.predicted[i],
                    clip=(own.clip.low[i], own.clip.high[i]), limits=(data.limits.low[i], data.limits.high[i]),
                )
            )  # fmt: skip
        cloud = rows.initial
        start = measure(cloud, np.ones(len(cloud.points), dtype=bool), rows.initial_states.weights[cloud.rows])
        rate = own.rates[end] * len(batch)
        log = mp.log(1 / mpf(evidence.probabilities[end]))
        bound = mpf(claim.sign * claim.bound)
        # what μ has outside of the landmarks is paid for by the triangle inequality; the rest is rounding
        assert bound <= twin.apart(rate, start, lines, log) + tail.slack / tail.rate + mpf(1e-6)
        alone = twin.radius * twin.norm(start)
        assert claim.sign * whole.bound <= min(bound, alone + evidence.start.left) * (1 + mpf(1e-9))
        for direction in (twin.measure(rate, start, lines), lines[0].here, lines[3].here, start):
            length = twin.norm(direction)
            for sign in (-1, 0, 1):
                e = twin.plus((sign * twin.radius / length, direction))
                assert bound >= twin.value_at(rate, start, lines, log, e)
