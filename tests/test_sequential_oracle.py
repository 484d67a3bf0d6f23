"""The sequential interval where q* is known: its theorem log by log, and one interval whose probability of missing is computed.

No chance in the first part. With q* known, the smallest log terms that make the events of a log true are computed; with these
every set, every bound of a deviation and every end must hold. Evaluations that are wrong on purpose must be contradicted.
"""

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: only `experiments` is wanted from there

from experiments.coverage_checks import ALPHA
from experiments.sequential_coverage import with_models
from experiments.sequential_known import (
    ENDING,
    EPISODIC,
    TABULAR,
    certify,
    continuous_actions,
    continuous_states,
    table,
    with_jumps,
)
from experiments.sequential_oracle import contradictions, facts
from experiments.sequential_sharp import (
    PILOT,
    ROWS,
    design,
    ending_probability,
    lower_end,
    survival,
    survival_value,
)

from bondic.core.bounded import Between
from bondic.core.sequential import bound as sequential
from bondic.core.sequential import ellipsoids, localize

SURVIVAL = [((), 0.0138), ((10,), 0.0138), ((100,), 0.1), ((40, 300), 0.1)]
"""Steps that ended, and the true probability of it: logs that are likely, and logs that make the events as false as can be."""


@cache
def sharp_logs():
    """Logs on which little is lost between the events and the ends."""
    out = []
    for ends, p in SURVIVAL:
        known = survival(ends, p)
        proof, rows = certify(known, 0.5, pilot=PILOT)
        out.append((known, proof, facts(known, proof, rows)))
    return out


PROBLEMS = {
    "episodes that end, adaptive": lambda rng: table(rng, ENDING, 1000, behavior="adaptive"),
    "rare jumps": lambda rng: table(rng, with_jumps(TABULAR, 1000), 1000),
    "horizon": lambda rng: table(rng, EPISODIC, 1000, horizon=2),
    "sampled starts": lambda rng: table(rng, ENDING, 1000, starts=300),
    "continuous states": lambda rng: continuous_states(rng, 600),
    "continuous actions": lambda rng: continuous_actions(rng, 400),
}


@pytest.mark.filterwarnings("ignore:The log does not stand still")
@pytest.mark.parametrize("name", PROBLEMS)
def test_bounds_follow_from_the_events(name):
    """With the library's plan, and with models of which a tenth is another state's: the proof is as good, if longer."""
    known = PROBLEMS[name](np.random.default_rng(31))
    proof, rows = certify(known, 0.5)
    wrong = with_models(proof, lambda y, k: (0.8 * y, 0.9 * k + 0.1 * np.roll(k, 1, axis=1)))
    for one in (proof, wrong):
        assert contradictions(known, one, facts(known, one, rows)) == []


def test_bounds_follow_from_the_events_on_sharp_logs():
    for known, proof, found in sharp_logs():
        assert contradictions(known, proof, found) == []


def scaled(function, factor):
    return lambda *arguments: function(*arguments) * factor


def smaller_supremum(*arguments):
    value, center = ellipsoids.supremum(*arguments)
    return center + 0.8 * (value - center), center


def narrower(ellipsoid, given):
    middles = [
        (0.5 * (found.low + found.high), 0.35 * (found.high - found.low)) for found in PRODUCTS(ellipsoid, given)
    ]
    return tuple(Between(middle - half, middle + half) for middle, half in middles)


def narrower_slab(localizer, low, high):
    found = SLAB(localizer, low, high)
    return found.with_size(0.8 * found.size)


PRODUCTS, SLAB = ellipsoids.Ellipsoid.both_products, localize.Localizer.slab
PRICES = ("bet_cost", "curvature")
ERRORS = {
    "price of a tail": [(sequential, name, scaled(getattr(sequential, name), 0.8)) for name in PRICES],
    "price of the vector event": [(localize, name, scaled(getattr(localize, name), 0.8)) for name in PRICES],
    "log term of a tail": [(sequential, "tail_term", scaled(sequential.tail_term, 0.9))],
    "log term of the vector event": [(localize, "vector_term", scaled(localize.vector_term, 0.9))],
    "radius of an ellipsoid": [(ellipsoids, "_rho_square", scaled(ellipsoids._rho_square, 0.8))],
    "worst case of a tail": [(sequential, "supremum", smaller_supremum)],
    "bounds of deviations": [(ellipsoids.Ellipsoid, "both_products", narrower)],
    "interval that is fed back": [(localize.Localizer, "slab", narrower_slab)],
}


@pytest.mark.parametrize("error", ERRORS)
def test_a_wrong_evaluation_is_contradicted(error, monkeypatch):
    """Ten to thirty per cent too little anywhere, and q* lies where the evaluation says that it cannot."""
    logs = sharp_logs()  # of the library as it is
    for owner, name, wrong in ERRORS[error]:
        monkeypatch.setattr(owner, name, wrong)
    assert any(contradictions(known, proof, found) for known, proof, found in logs)


# --- one interval from end to end -----------------------------------------------------------------------


def test_value_of_survival():
    for p in (0.0, 0.01, 0.3):
        first, second = np.linalg.solve([[1.0, -0.5 * (1.0 - p)], [-0.5, 1.0]], [1.0, 1.0])
        assert survival_value(p) == pytest.approx(first, rel=1e-12)
        assert ending_probability(first) == pytest.approx(p, abs=1e-12)
        assert second <= 2.0
    assert survival((2,)).problem.log.terminations.sum() == 1


def test_the_interval_misses_with_a_computed_probability():
    """Within a factor of two of α, and never above it; logs with an end are covered."""
    p, truth = design()
    assert 0.5 * ALPHA < (1.0 - p) ** (ROWS // 2) < ALPHA
    for ends in ((0,), (10,), (100,), (398,), (4, 220), (30, 60, 90)):
        assert lower_end(ends) <= truth


def test_half_of_the_log_term_misses_too_often():
    p, _ = design(0.5)
    assert (1.0 - p) ** (ROWS // 2) > 2.0 * ALPHA
