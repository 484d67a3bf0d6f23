"""The bound of Feng et al. (2020) keeps the laws of every noise bound."""

import bondic_lab
from conformance_noise import NoiseCase


class TestVStatistic(NoiseCase):
    control = 0.2

    def make(self, kernel, rows, probability):
        del kernel, rows, probability
        return bondic_lab.VStatistic("range")
