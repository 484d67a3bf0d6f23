"""On every log on which the events hold, everything that the bound on features claims is true: no exception is allowed.

The events hold *just so*: δ is where the true sums meet the bounds with equality. Features, θ, forecasts, instruments, weights,
floors, references and shapes are arbitrary; the allowance is the least that is true.
"""

import mpmath as mp
import numpy as np
import pytest
from feature_cases import good_reference, random_case, shapes_of
from naive_features import NaiveBound, exact, matrix

from bondic.core.betting import bet_cost
from bondic.core.errors import NumericalError
from bondic_lab.features.sets import FeatureEllipsoid, FeatureSet
from bondic_lab.features.sums import FeatureRows, Range, tally_features

MIN_LOG = 1e-3


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
    bound, world, beta = log.bound(reference, shapes, MIN_LOG), log.world, log.allowance * (1 + 1e-12)
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
            price = bet_cost(-log.weights[:, end] * log.deviations(end)).sum()
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
        bound = log.bound(reference, shapes, MIN_LOG, part)
        missed += misses(bound, log.allowance * times * (1 + 1e-12), log.world) > 1e-9 * log.world.high
    return missed


def test_less_than_the_logarithm_or_the_allowance_is_wrong():
    """Controls: the same checks see events at a tenth of their logarithms, and a third of the allowance."""
    seeds = range(2000, 2160)
    assert share_of_misses(seeds) == 0
    assert share_of_misses(seeds, part=0.1) >= 1
    assert share_of_misses(seeds, times=0.3, kind="dense") >= 1


# --- The bound on features against the same formulas in 50 digits: never below them, and above by rounding only.

COLUMNS = ("outcome", "next_scale", "value", "scale", "expected")
TABLES = ("following", "features", "forecast", "instruments", "weights", "floors")


def twin(log, bound, part):
    tally, shape = bound.tally, bound.tally.shapes[0]
    rows = []
    for i in range(part.outcome.size):
        row = {name: mp.mpf(float(getattr(part, name)[i])) for name in COLUMNS}
        row |= {name: exact(getattr(part, name)[i]) for name in TABLES} | {"low": mp.mpf(0)}
        rows.append(row)
    log_term = mp.log(2 * len(bound.event.rates) / mp.mpf(bound.event.probability))
    return NaiveBound(
        rows, mp.mpf(tally.gamma), exact(tally.reference), mp.mpf(log.world.high), exact(bound.event.rates), log_term,
        matrix(shape.matrix), mp.mpf(shape.ridge), mp.mpf(shape.guess), bound.bounded,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(16))
def test_bounds_are_those_of_50_digits(seed):
    rng, log = random_case(seed, rows=25)
    ridge = 1e3 * float(np.linalg.norm(log.equations()[0])) ** 2 if log.bounded else 0.0
    reference = good_reference(log, ridge) + rng.normal(size=log.theta.size) * log.world.high
    bound = log.bound(reference, shapes_of(log, [ridge], guess=20.0), logs=(4.0, 2.0, 3.0))
    naive, beta = twin(log, bound, log.part()), float(rng.choice([0.0, 0.1, 1.0]))
    found = bound.locate(beta)
    if not found.sets:
        assert np.linalg.cond(log.equations()[0]) > 1e5  # nothing is known where the equations are nearly singular
        return
    k = naive.locate(mp.mpf(beta))
    assert float(k) * (1 - 1e-12) <= found.sets[0].size <= float(k) * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(24))
def test_every_formula_is_that_of_50_digits(seed):
    """Over ellipsoids of any size, also smaller ones than the fixed point finds: radii, and ends with and without weights."""
    rng, log = random_case(seed, rows=40)
    ridge = 3.0 if log.bounded else 0.0
    reference, guess = good_reference(log, ridge), float(rng.choice([0.0, 0.1, 2.0]))
    bound = log.bound(reference, shapes_of(log, [ridge], guess=guess), logs=(4.0, 2.0, 3.0))
    naive, beta = twin(log, bound, log.part()), float(rng.choice([0.0, 0.02, 0.5])) * log.world.high
    one = FeatureEllipsoid(0, bound.tally.shapes[0].matrix, float(rng.choice([0.05, 0.5, 5.0])))
    found, k, b = FeatureSet(bound.tally, beta, (one,)), mp.mpf(one.size), mp.mpf(beta)
    above = 1e-6 if np.linalg.cond(log.equations()[0]) < 1e6 else np.inf  # rounding is measured by the size of A
    for rate in bound.event.rates:
        near(bound.ground._radius(found, one, rate), naive.radius(b, k, mp.mpf(rate)), above)
    starts = (mp.mpf(bound.starts.center.mid), exact(bound.starts.features), mp.mpf(bound.starts.scale))
    for e, (sign, tail) in enumerate(bound.tails.items()):
        cost = mp.log(1 / mp.mpf(tail.probability))
        weighed, plain = naive.end(e, sign, mp.mpf(tail.rate), cost, starts, b, k)
        base, allowed = bound._base(found)
        ours = bound._weighed(found, one, tail, sign, base, allowed)
        near(sign * ours.value.mid + ours.value.rad + ours.spread, weighed, above)
        near(sign * base.mid + one.support(bound.starts.features) + allowed, plain, above)


def near(ours, exactly, above):
    """Not below the 50 digits, and hardly above."""
    size = 1 + abs(float(exactly))
    assert float(exactly) - 1e-11 * size <= ours <= float(exactly) + above * size


def test_bets_stay_within_the_range():
    _, log = random_case(1, rows=50)
    reference, part = good_reference(log), log.part()
    limits = Range(0.0, log.world.high)
    for changed in ({"weights": part.weights * 1.1}, {"instruments": part.instruments * 50.0}):
        columns = {name: getattr(part, name) for name in (*COLUMNS, *TABLES)} | changed
        if "weights" in changed:
            columns["weights"] = np.full_like(part.weights, 1.1 / log.world.high)
            columns["floors"] = np.zeros_like(part.floors)
        with pytest.raises(NumericalError, match="too large"):
            tally_features([FeatureRows(**columns, size=1.0)], 0.5, reference, limits, log.rates[0], [])
