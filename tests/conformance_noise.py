"""What every noise bound has to do. A subclass says how one is made and inherits the tests:

    class TestMine(NoiseCase):
        def make(self, kernel, rows, probability): return Mine(...)

`kernel` is that of W on points of one dimension, `rows` their planned number. The truth of every event is a coin flip of
+-B/2 = +-1/2 per row, the most that a value range of width 1 allows.
"""

import itertools
import math
from typing import get_args

import numpy as np
import pytest
from scipy.stats import binom

import bondic
from bondic.core.balls import Instruments
from bondic.core.bounded import Enclosure
from bondic.core.claims import Guarantee
from bondic.core.codec import Encoder, decode
from bondic.core.dual.noise import NoiseBound, NoiseFacts, Weights
from bondic.core.functions import FeatureFunction, FeatureMap, KernelFunction
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.kernels.normal_form import Layout
from bondic.core.registry import registered
from bondic.core.terms import Terms
from bondic.report.page import report_page
from builders import synthetic

LAYOUT, TERMS = Layout(1, False, 0, 1), Terms(0.0, (0.0, 1.0), False)
ONE, WAVES = Constant(1.0), Constant(0.5) + RandomFeatures.gaussian(2, 1, 1.0, seed=3)
ROWS, RUNS = 40, 400
PROBABILITIES = (0.5, 0.2, 0.05, 1e-3, 1e-6)


def points(n=ROWS):
    return np.random.default_rng(5).standard_normal((n, 1))


def facts_about(kernel, n=ROWS):
    rows = [(points(n), np.zeros(n, dtype=np.int64), None)]
    return NoiseFacts(kernel, LAYOUT, TERMS, lambda: rows, n, n)


def weights_of(kernel, coordinates):
    """omega = phi . w as a noise bound sees it, and its values at the points."""
    omega = FeatureFunction(kernel, LAYOUT, coordinates)
    values = omega.values(points())[0][:, 0]
    return Weights(omega, omega.norm(), float(values @ values) * (1 + 1e-12)), values


class NoiseCase:
    """Laws of a noise bound."""

    control = 0.5
    """A share of the bound that is too small for coin flips: no bound is so loose that nothing would be noticed."""
    delta = 0.2

    def make(self, kernel, rows, probability) -> NoiseBound:
        raise NotImplementedError

    def bound(self, kernel=WAVES) -> NoiseBound:
        return self.make(kernel, ROWS, self.delta)

    @pytest.fixture(params=["some", "one", "centers"])
    @staticmethod
    def weights(request):
        """Weight functions with some features, with one, and one that is written with kernel centers."""
        if request.param == "centers":
            omega = KernelFunction(WAVES, LAYOUT, [[0.3], [-1.0]], [[1.5], [-0.4]])
            values = omega.values(points())[0][:, 0]
            return Weights(omega, omega.norm(), float(values @ values) * (1 + 1e-12))
        some = np.array([0.5, -1.0, 0.0, 0.3, 2.0]) if request.param == "some" else np.eye(5)[3]
        return weights_of(WAVES, some)[0]

    def test_it_grows_as_the_probability_falls(self, weights):
        gauge, facts = self.bound(), facts_about(WAVES)
        found = [gauge.bound(weights, facts, p) for p in PROBABILITIES]
        levels = [gauge.epsilon(facts, p) for p in PROBABILITIES]
        for sizes in (found, levels):
            assert all(0 < a.upper < b.lower for a, b in itertools.pairwise(sizes))
            assert math.isfinite(sizes[-1].upper)
        assert all(size.rad <= 1e-12 * size.mid for size in found)
        for size, level in zip(found, levels, strict=True):
            assert size.lower <= level.upper * weights.norm.upper * (1 + 1e-12)

    def test_the_level_inverts_the_bound(self, weights):
        gauge, facts = self.bound(), facts_about(WAVES)
        for p in PROBABILITIES:
            size = gauge.bound(weights, facts, p)
            assert gauge.level(weights, facts, size.mid) == pytest.approx(p, rel=1e-6)
            assert gauge.level(weights, facts, size.lower) >= p
        assert gauge.level(weights, facts, 0.0) == gauge.level(weights, facts, -1.0) == 1.0
        assert 0 < gauge.level(weights, facts, 1e10) < 1e-6

    def test_it_scales_with_omega(self):
        gauge, facts, w = self.bound(), facts_about(WAVES), np.array([0.5, -1.0, 0.0, 0.3, 2.0])
        one, eight = (gauge.bound(weights_of(WAVES, factor * w)[0], facts, 0.1) for factor in (1.0, -8.0))
        assert eight.mid == pytest.approx(8 * one.mid, rel=1e-13)
        nothing = gauge.bound(Weights(None, Enclosure(0.0), 0.0), facts, 0.1)
        assert nothing.upper < 1e-300

    def test_it_holds_where_its_event_is_a_coin(self):
        """W = constants: the chance of |mean Z| > bound is binomial, so it is known; the control fails at some level."""
        gauge, facts, (weights, _) = self.bound(ONE), facts_about(ONE), weights_of(ONE, np.ones(1))
        heads, failed = np.arange(ROWS + 1), []
        mean, chance = np.abs(heads - ROWS / 2) / ROWS, binom.pmf(heads, ROWS, 0.5)
        for p in PROBABILITIES:
            size = gauge.bound(weights, facts, p).upper
            assert chance[mean > size].sum() <= p
            failed.append(chance[mean > self.control * size].sum() > p)
        assert any(failed)

    def test_it_holds_for_weights_that_were_picked_by_the_noise(self, rng):
        """400 logs, omega the direction of the noise itself, every single feature, and a mixture; one event for all.

        False alarm: more misses than the 99.9 % quantile of a true rate of delta. With a bound for omega fixed beforehand,
        a fifth of this one, they are far more."""
        gauge, facts = self.bound(), facts_about(WAVES)
        size = FeatureMap(WAVES, LAYOUT).dimension
        phi = np.column_stack([weights_of(WAVES, row)[1] for row in np.eye(size)])  # (n, p)
        misses = np.zeros(2, dtype=int)
        for _ in range(RUNS):
            total = phi.T @ (rng.integers(0, 2, ROWS) - 0.5)
            picked = (total, *np.eye(size), np.sign(total), np.where(np.abs(total) == np.abs(total).max(), total, 0.0))
            shares = [
                abs(w @ total) / ROWS / gauge.bound(self._as_weights(w, phi), facts, self.delta).upper
                for w in picked
                if np.any(w)
            ]
            misses += max(shares) > np.array([1.0, 0.4 * self.control])
        allowed = binom.ppf(0.999, RUNS, self.delta)
        assert misses[0] <= allowed < misses[1]

    @staticmethod
    def _as_weights(w, phi):
        squares = float(np.sum((phi @ w) ** 2)) * (1 + 1e-12)
        return Weights(FeatureFunction(WAVES, LAYOUT, w), Enclosure(float(np.linalg.norm(w))), squares)

    def test_it_says_what_it_is(self):
        gauge = self.bound()
        assert gauge.describe().isprintable()
        assert gauge.guarantee in get_args(Guarantee)
        assert (gauge.guarantee == "none") == ("no finite-sample guarantee" in gauge.describe())
        assert gauge.any_time == ("stopping time" in gauge.describe())

    def test_it_is_data_under_a_name(self, weights):
        gauge, encoder, facts = self.bound(), Encoder(), facts_about(WAVES)
        data = encoder.encode(gauge, "noise")
        assert registered(type(gauge)) == ("noise", data["noise"])
        again = decode(NoiseBound, data, encoder.arrays, "noise")
        assert again.bound(weights, facts, 0.1) == gauge.bound(weights, facts, 0.1)

    def test_from_estimate_to_page(self, tmp_path):
        """Searched with, certified, written, read, verified, shown."""
        mdp, log, policy, initial = synthetic(300, gamma=0.5)
        problem = bondic.make_problem(log, policy, initial, gamma=0.5, reward_range=mdp.reward_range)
        kernel = 0.3 * Constant(1.0) + RandomFeatures.gaussian(4, 1, 1.0, seed=3) * Dirac()
        ball = bondic.Ball(bondic.Gaussian(1.0) * Dirac() + Constant(1.0), 5.0)
        method = bondic.Dual(instruments=Instruments(kernel), ball=ball, gauge=self.for_problem(kernel))
        result = bondic.estimate_interval(problem, method=method)
        assert any(claim.uses_log and claim["noise"].lower > 0 for claim in result.claims)
        text, _ = bondic.save_certificate(result.certificate, tmp_path / "certificate")
        found = bondic.verify(bondic.load_certificate(text), log, policy)
        assert (found.low, found.high) == (result.low, result.high)
        words = result.proof.noise.describe()
        assert words in next(a.text for a in found.assumptions if a.name == "noise")
        assert words.replace("'", "&#x27;") in report_page(result, problem, title="noise")

    def for_problem(self, kernel):
        """What is passed to `Dual`."""
        return self.make(kernel, 300, 0.1)
