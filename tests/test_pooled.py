"""Left-overs of many rows, paid for together: sums over stretches, prices of rows, and ends of a stated and of a chosen ball."""

import numpy as np
import pytest

from bondic.core.sequential.pooled import NOT_POOLED, pool, pooled_squares, total
from bondic.engines.sums import STANDARD
from sequential_cases import Truth, World, make_plan, make_proof


def rough(kind, seed=0, n=60):
    """Few landmarks and a small bandwidth: much is left over."""
    world = World(kind, np.random.default_rng(seed), n=n, gamma=0.6, radius=3.0, bandwidth=0.6)
    rows = world.rows(0.05 * np.random.default_rng(seed).normal(size=n))
    plan = make_plan(world, rows, count=6, blocks=2, bold=20.0)
    return world, rows, plan


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_one_e_for_all_rows(kind):
    """Both inequalities at functions of Q: those of single rows, and of many together."""
    world, rows, plan = rough(kind)
    proof = make_proof(rows, world.ball(rows.layout), plan)
    evidence = proof.evidence(rows, STANDARD)
    data, parts = evidence.data, []
    truth = Truth(world, evidence, proof.plan, "both")
    here, after = world.e(data.points, data.slots), (truth.y - data.outcome) / data.gamma
    for (_, part), own in zip(plan.pieces(data.log_rows), truth.applied, strict=True):
        piece = data.stretch(part)
        found = pool(evidence.found, piece, own, rows.layout, len(data))
        parts.append(found)
        left = after[part] - piece.next.coordinates @ truth.coordinates
        step = here[part] - data.gamma * after[part] - piece.step.coordinates @ truth.coordinates
        assert np.linalg.norm(own.instruments.T @ step) <= world.radius * found.operator * (1 + 1e-9)
        sizes = np.linalg.norm(own.instruments, axis=1)
        assert np.sum((sizes * data.gamma * left) ** 2) <= world.radius**2 * found.squares * (1 + 1e-9)
        for end, v in own.weights.items():
            assert np.sum((v * data.gamma * left) ** 2) <= world.radius**2 * found.tails[end] * (1 + 1e-9)
        assert found.operator < np.sum(sizes * piece.step.perp)
        assert found.squares < np.sum((sizes * data.gamma * piece.next.perp) ** 2)
    both = total(parts, ("lower", "upper"))
    assert both.operator >= sum(part.operator for part in parts)
    assert total([*parts, NOT_POOLED], ("lower",)).operator == np.inf


def test_prices_of_rows():
    """sum_i min(single_i, w_i (p_i + y_i)^2) at the worst y that the sum of squares allows, found by trial."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 30))
        weights, along = rng.random(n), rng.exponential(size=n)
        single, together = rng.exponential(size=n) * 3, float(rng.exponential())
        bound = pooled_squares(weights, single, along, together)
        assert bound <= single.sum() * (1 + 1e-9)
        for _ in range(30):
            y = rng.exponential(size=n) ** 3
            y *= np.sqrt(together / np.sum(weights * y**2))
            assert np.minimum(single, weights * (along + y) ** 2).sum() <= bound
    assert pooled_squares(weights, single, along, np.inf) == pytest.approx(single.sum())
    assert pooled_squares(np.ones(2), np.full(2, 9.0), np.zeros(2), 1.0) == pytest.approx(1.0)
