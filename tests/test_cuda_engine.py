"""The GPU engine by torch on a processor (on a GPU with BONDIC_TEST_DEVICE=cuda), and its errors where there is no GPU."""

import os

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums.reference import REFERENCE
from bondic.engines import power
from bondic.engines.cuda import Cuda
from bondic.engines.spool import NumpyPairs
from bondic.engines.standard import Constants, Features
from bondic.engines.sums import EngineSums
from bondic.engines.threads import Serial
from builders import synthetic
from conformance import EngineCase

pytestmark = pytest.mark.torch
DEVICE = os.environ.get("BONDIC_TEST_DEVICE", "cpu")


class TestDouble(EngineCase):
    @property
    def engine(self):
        return Cuda(DEVICE)


def test_power_of_two_is_as_good_as_proved():
    import torch

    from bondic.engines.cuda_tiles import power_of_two

    t = np.concatenate([-np.linspace(0, power.LARGEST, 401), -np.logspace(-12, 2, 200)])
    found = power_of_two(torch.as_tensor(t)).numpy()
    for value, exponent in zip(found, t, strict=True):
        exact = mp.power(2, mpf(float(exponent)))
        assert abs(mpf(float(value)) - exact) <= power.EXP_ULP * mpf(2) ** -53 * exact
    assert power_of_two(torch.zeros(1, dtype=torch.float64)).item() == 1.0


def test_error_of_a_single_value():
    """Against 40 digits, at points where coordinates, squares and the exponential all round."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(60, 3)) * 4 + 100
    scales = np.array([0.7, 1.3, 2.0])
    engine = Cuda(DEVICE)
    (term,) = normal_form(bondic.Gaussian(scales.tolist()), Layout(3, False, 0, 1))
    found = engine.cross(term, points, points, np.eye(60), Serial())
    worst = 0.0
    with mp.workdps(40):
        for i in range(60):
            for j in range(60):
                square = mp.fsum(
                    ((mpf(a) - mpf(b)) / mpf(h)) ** 2 for a, b, h in zip(points[i], points[j], scales, strict=True)
                )
                worst = max(worst, float(abs(mpf(found.values[i, j]) - mp.exp(-square / 2))))
    assert worst <= found.error
    assert worst >= found.error / 60  # the bound is one of this engine, not of a worse one


def test_without_a_gpu(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidInput, match="needs an NVIDIA GPU"):
        EngineSums.named("cuda")


def test_a_whole_interval_and_its_certificate():
    """The same log by the compiled engines and by this one: the same ends, and a certificate that both can check."""
    (mdp, log, policy, start), sums = (
        synthetic(300),
        EngineSums((Constants(), Features(), Cuda(DEVICE), NumpyPairs())),
    )
    problem = bondic.make_problem(log, policy, start, gamma=0.2, reward_range=mdp.reward_range)
    plain, device = (
        bondic.estimate_interval(problem, method=bondic.Dual(engine=engine, radius=1.0)) for engine in ("pairs", sums)
    )
    assert plain.status is bondic.Status.INTERVAL
    assert (device.low, device.high) == pytest.approx((plain.low, plain.high), rel=1e-9)
    for check in (sums, REFERENCE):
        found = bondic.verify(device.certificate, log, sums=check)
        assert (found.low, found.high) == pytest.approx((device.low, device.high), rel=1e-9)
