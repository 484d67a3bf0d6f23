"""The library's noise bounds and one from outside keep the same laws."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.core.classes.instruments import Instruments
from bondic.core.errors import InvalidInput
from bondic.core.functions import FeatureFunction, FeatureMap
from bondic.core.kernels.constant import Constant
from bondic.core.kernels.dirac import ActionEmbedding
from bondic.core.kernels.features import RandomFeatures
from bondic.core.noise.bound import NoiseBound
from bondic.core.noise.finite_class import FiniteClass
from bondic.core.noise.fixed_lambda import FixedLambda
from bondic.core.noise.pinelis import Pinelis
from bondic.core.noise.plug_in import PlugIn
from bondic.core.noise.self_normalized import SelfNormalized
from bondic.core.registry import register
from bondic.core.rounding import certified_dot
from bondic.methods.setting import make_setting
from conformance_noise import LAYOUT, ROWS, WAVES, NoiseCase, facts_about, points, weights_of


class TestHalf(NoiseCase):
    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Pinelis()


class TestRange(NoiseCase):
    control = 0.25

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Pinelis("range")


class TestPaper(NoiseCase):
    control = 0.12

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Pinelis("paper")


class TestPlugIn(NoiseCase):
    """With the constant that Hoeffding's lemma would give."""

    def make(self, kernel, rows, probability):
        del rows, probability
        return PlugIn(0.25 * kernel.sup_diag)


class TestFixedLambda(NoiseCase):
    def make(self, kernel, rows, probability):
        return FixedLambda.planned(rows, probability=probability, sup_diag=kernel.sup_diag, mean_square_width=1.0)


class TestFiniteClass(NoiseCase):
    def make(self, kernel, rows, probability):
        return FiniteClass.planned(kernel, LAYOUT, rows, probability=probability, mean_square_width=1.0)

    def for_problem(self, kernel):
        del kernel
        return "finite"


class TestSelfNormalized(NoiseCase):
    def make(self, kernel, rows, probability):
        del kernel, probability
        return SelfNormalized(rows / 4)


# --- one from outside -----------------------------------------------------------------------------------


@register("noise", "test-chebyshev")
@dataclass(frozen=True)
class Chebyshev(NoiseBound):
    """Var(sum_i phi_j(x_i) Z_i) <= C_j / 4 for each of p features: sum_j |w_j| sqrt( p C_j / (4 delta) ) / n."""

    guarantee = "finite-sample"

    def _size(self, weights, facts):
        """sum_j |w_j| sqrt(C_j); without coordinates |omega| sqrt( sum_j C_j )."""
        roots = np.sqrt(facts.feature_charges) * (1 + 1e-15)
        if isinstance(weights.omega, FeatureFunction):
            return certified_dot(np.abs(weights.omega.coordinates), roots)
        return certified_dot(roots, roots).sqrt() * weights.norm

    def bound(self, weights, facts, probability):
        return (
            self._size(weights, facts) * math.sqrt(facts.feature_charges.size / (4 * probability)) / float(facts.count)
        )

    def level(self, weights, facts, size):
        ratio = self._size(weights, facts).upper / (2 * facts.count * size) if size > 0 else math.inf
        return min(1.0, facts.feature_charges.size * ratio * ratio)

    def epsilon(self, facts, probability):
        roots = np.sqrt(facts.feature_charges)
        total = certified_dot(roots, roots).sqrt()
        return total * math.sqrt(facts.feature_charges.size / (4 * probability)) / float(facts.count)

    def describe(self):
        return "Chebyshev's inequality for every feature of W; n was fixed beforehand"


class TestChebyshev(NoiseCase):
    control = 0.3

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Chebyshev()


# --- the union bound ------------------------------------------------------------------------------------


def test_finite_class_is_its_formula():
    """(1/n) sum_j |w_j| ( log(2 p / delta) + lambda_j^2 C_j / 8 ) / lambda_j in 50 digits."""
    w, rates = np.array([0.5, -1.0, 0.0, 0.3, 2.0]), np.array([0.02, 0.5, 1.0, 3.0, 40.0])
    phi = [weights_of(WAVES, row)[1] for row in np.eye(5)]
    ours = FiniteClass(rates).bound(weights_of(WAVES, w)[0], facts_about(WAVES), 0.05)
    exact = mpf(0)
    for weight, rate, values in zip(w.tolist(), rates.tolist(), phi, strict=True):
        charge = sum((mpf(float(v)) ** 2 for v in values), mpf(0))
        exact += abs(mpf(weight)) * (mp.log(10 / mpf(0.05)) + mpf(rate) ** 2 * charge / 8) / mpf(rate) / ROWS
    assert exact <= mpf(ours.upper)
    assert abs(mpf(ours.mid) - exact) <= 1e-12 * exact


def test_feature_charges_see_widths_slots_and_batches():
    rng = np.random.default_rng(0)
    log = bondic.Transitions(
        rng.normal(size=(50, 2)), rng.integers(0, 3, 50), rng.uniform(size=50), rng.normal(size=(50, 2)),
        np.zeros(50, dtype=bool), timesteps=np.tile(np.arange(5), 10),
    )  # fmt: skip
    start = bondic.InitialStates.exact(np.zeros((1, 2)))
    problem = bondic.make_problem(
        log, bondic.UniformPolicy(3), start, gamma=1.0, reward_range=(0, 1), horizon=4, accept=None
    )
    similar = ActionEmbedding([[1.0, 0.5], [0.0, 2.0], [-0.3, 0.1]])
    kernel = 0.5 * RandomFeatures.gaussian(3, 2, 1.0, seed=1) * similar + Constant(2.0)
    setting = make_setting(bondic.Dual(instruments=Instruments(kernel), ball=bondic.Ball(kernel, 1.0)), problem, 0.1)[0]
    kept = log.timesteps < 4
    widths = 4.0 - log.timesteps[kept]
    slow = np.zeros(FeatureMap(kernel, problem.layout).dimension)
    for j, row in enumerate(np.eye(slow.size)):
        values, _ = FeatureFunction(kernel, problem.layout, row).values(problem.whole().logged)
        slow[j] = np.sum((widths * values[np.arange(kept.sum()), log.actions[kept]]) ** 2)
    ours = setting.facts().feature_charges
    assert np.all(ours >= slow)
    np.testing.assert_allclose(ours, slow, rtol=1e-12, atol=1e-290)


def test_planned_rates_are_best_for_features_of_equal_size():
    planned = FiniteClass.planned(WAVES, LAYOUT, 20, probability=0.05, mean_square_width=9.0)
    one, waves = (math.sqrt(8 * math.log(200) / (20 * 9.0 * square)) for square in (0.5, 0.25))
    assert planned.rates == pytest.approx([one, *[waves] * 4], rel=1e-14)


def test_a_sparse_omega_pays_less_than_in_the_whole_space():
    weights, _ = weights_of(WAVES, np.eye(5)[3])
    finite = FiniteClass.planned(WAVES, LAYOUT, ROWS, probability=0.1, mean_square_width=1.0)
    sizes = [gauge.bound(weights, facts_about(WAVES), 0.1).upper for gauge in (finite, Pinelis())]
    assert sizes[0] < 0.8 * sizes[1]


def test_bad_finite_classes_are_refused():
    for bad in ([], [0.0], [math.inf], [[1.0]], [-1.0]):
        with pytest.raises(InvalidInput, match="one positive lambda"):
            FiniteClass(np.array(bad))
    with pytest.raises(InvalidInput, match="5 features, the finite class has lambda for 2"):
        FiniteClass([1.0, 2.0]).bound(weights_of(WAVES, np.ones(5))[0], facts_about(WAVES), 0.1)
    with pytest.raises(InvalidInput, match="at least 1"):
        FiniteClass.planned(WAVES, LAYOUT, 0, probability=0.1, mean_square_width=1.0)
    with pytest.raises(InvalidInput, match="no finite list of features"):
        facts_about(bondic.Gaussian(1.0)).feature_charges  # noqa: B018
    assert points().shape == (ROWS, 1)
