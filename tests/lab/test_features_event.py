"""On every log on which the events hold, everything that the bound on features claims is true: no exception is allowed.

The events hold *just so*: δ is where the true sums meet the bounds with equality. Features, θ, forecasts, instruments, weights,
floors, references and shapes are arbitrary; the allowance is the least that is true.
"""

import numpy as np
import pytest
from feature_cases import good_reference, random_case, shapes_of

from bondic.core.betting import loss

LEAST_LOG = 1e-3


def prepared(seed, kind=None):
    rng, log = random_case(seed, kind=kind)
    ridges = [0.0] if not log.bounded else [0.0, float(np.exp(rng.uniform(-3, 6)))]
    reference = good_reference(log, ridges[-1])
    if rng.random() < 0.3:
        reference = reference + rng.normal(size=reference.size) * 0.2 * log.world.high
    shapes = shapes_of(log, ridges, guess=float(rng.choice([0.0, 1.0, 30.0])))
    return log, reference, shapes


def misses(bound, allowance, world):
    """By how much the value is outside of an end; 0 where it is inside of both, and of all candidates for them."""
    found, worst = bound.locate(allowance), 0.0
    for sign, end in bound.ends(found).items():
        if end is not None:
            worst = max(worst, sign * world.value - sign * end.value.mid - end.value.rad - end.spread)
    return worst


def check(seed):
    log, reference, shapes = prepared(seed)
    bound, world, beta = log.bound(reference, shapes, LEAST_LOG), log.world, log.allowance * (1 + 1e-12)
    found, f, checks = bound.locate(beta), log.theta - reference, 0
    tiny = 1e-9 * world.high
    noise = np.linalg.norm(log.rows.noise @ log.instruments)
    for one in found.sets:
        inside = np.linalg.norm(np.linalg.solve(one.matrix, f))
        assert inside <= one.size * (1 + 1e-6) + tiny
        for rate in bound.event.rates:
            assert noise <= bound.ground._radius(found, one, rate) * (1 + 1e-9) + tiny
        for end, weighing in enumerate(bound.tally.ends):
            lost = log.weights[:, end] * log.deviations(end)
            assert float(np.max(lost, initial=0.0)) <= float(found.lost(one, weighing).max()) + tiny
        for direction in (bound.starts.features, reference):
            assert abs(float(f @ direction)) <= one.support(direction) + tiny
        for end, (sign, tail) in enumerate(bound.tails.items()):
            terms = bound._weighed(found, one, tail, sign, *bound._base(found))
            assert sign * world.value <= sign * terms.value.mid + terms.value.rad + terms.spread + tiny
            price = loss(-log.weights[:, end] * log.deviations(end)).sum()
            assert price <= (terms.noise + terms.bias) * tail.rate + tiny + max(0.0, -_bent(bound, tail, sign, f))
            checks += 1
    assert misses(bound, beta, world) <= tiny
    shorter = sum(
        end is not None and end.spread < world.high and end.uses_weights for end in bound.ends(found).values()
    )
    return checks, len(found.sets), shorter


def _bent(bound, tail, sign, f):
    """<f, μ>: noise and bias have one worst case, in which it may be negative."""
    balance = sign * tail.rate * bound.starts.features - bound.tally.sums.end_step[tail.column]
    return min(float(f @ balance), 0.0)


@pytest.mark.parametrize("part", range(8))
def test_everything_that_is_claimed_is_true(part):
    checks, sets, shorter = np.sum([check(seed) for seed in range(60 * part, 60 * part + 60)], axis=0)
    assert sets >= 30
    assert checks >= 60
    assert shorter >= 2, "ends that say nothing cannot be wrong"


def share_of_misses(seeds, part=1.0, times=1.0, kind=None):
    missed = 0
    for seed in seeds:
        log, reference, shapes = prepared(seed, kind)
        # one end has the equality: the other is without noise
        bound = log.bound(reference, shapes, LEAST_LOG, part)
        missed += misses(bound, log.allowance * times * (1 + 1e-12), log.world) > 1e-9 * log.world.high
    return missed


def test_less_than_the_logarithm_or_the_allowance_is_wrong():
    """Controls: the same checks see events at a tenth of their logarithms, and a third of the allowance."""
    seeds = range(2000, 2160)
    assert share_of_misses(seeds) == 0
    assert share_of_misses(seeds, part=0.1) >= 1
    assert share_of_misses(seeds, times=0.3, kind="dense") >= 1
