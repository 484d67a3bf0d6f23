"""The noise bound (9) and one of a user keep the same laws."""

import math
from dataclasses import dataclass

from bondic.core.bounded import Enclosure
from bondic.core.dual.noise import NoiseBound, Pinelis
from bondic.core.registry import register
from conformance_noise import NoiseCase


class TestHalf(NoiseCase):
    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Pinelis()


class TestPaper(NoiseCase):
    control = 0.12

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Pinelis("paper")


@register("noise", "test-chebyshev")
@dataclass(frozen=True)
class Chebyshev(NoiseBound):
    """E |S_n|^2 <= n K_max B^2 / 4, so |S_n| / n exceeds eps with chance at most K_max B^2 / (4 n eps^2)."""

    guarantee = "finite-sample"

    def epsilon(self, facts, probability):
        scale = Enclosure(facts.sup_diag, 1e-14 * facts.sup_diag).sqrt() * facts.largest_width * 0.5
        return scale * math.sqrt(1 / (facts.count * probability))

    def p_value(self, facts, epsilon):
        scale = facts.sup_diag * facts.largest_width**2 * (1 + 1e-9)
        return min(1.0, scale / (4 * facts.count * epsilon**2)) if epsilon > 0 else 1.0

    def describe(self):
        return "Chebyshev's inequality in the space of W; n was fixed beforehand"


class TestChebyshev(NoiseCase):
    control = 0.2

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return Chebyshev()
