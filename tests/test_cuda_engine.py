"""The GPU engine by torch on a processor (on a GPU with BONDIC_TEST_DEVICE=cuda), and its errors where there is no GPU."""

import os

import numpy as np
import pytest
from mpmath import mp, mpf

import bondic
from bondic.core.bounded import upper_sum
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums.forms import enclose
from bondic.core.sums.reference import REFERENCE
from bondic.engines import power
from bondic.engines.cuda import SINGLE_EXP, U32, Cuda, check_single
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
        return Cuda(device=DEVICE)


def test_power_of_two_is_as_good_as_proved():
    import torch

    from bondic.engines.cuda_tiles import power_of_two

    t = np.concatenate([-np.linspace(0, power.LARGEST, 401), -np.logspace(-12, 2, 200)])
    found = power_of_two(torch.as_tensor(t)).numpy()
    for value, exponent in zip(found, t, strict=True):
        exact = mp.power(2, mpf(float(exponent)))
        assert abs(mpf(float(value)) - exact) <= power.EXP_ULP * mpf(2) ** -53 * exact
    assert power_of_two(torch.zeros(1, dtype=torch.float64)).item() == 1.0


@pytest.mark.parametrize("far", [1.0, 30.0])
@pytest.mark.parametrize("dimension", [1, 4, 9])
def test_single_precision_is_enclosed_and_charged_what_it_costs(dimension, far):
    """The exact sum lies inside; the radius is of the size of float32, not of float64 and not of nothing."""
    rng = np.random.default_rng(dimension)
    points, columns = rng.normal(size=(700, dimension)) * far, rng.normal(size=(700, 2)) * [1.0, 1e-30]
    (term,) = normal_form(bondic.Gaussian(1.5 * far**0.5), Layout(dimension, False, 0, 1))
    masses = [upper_sum(np.abs(columns[:, c])) ** 2 for c in range(2)]
    single = enclose(Cuda("float32", DEVICE).own(term, points, columns, Serial()), masses)
    exact = enclose(NumpyPairs().own(term, points, columns, Serial()), masses)
    for one, other, mass in zip(single, exact, masses, strict=True):
        assert abs(one.mid - other.mid) <= one.rad + other.rad
        assert 5 * U32 * mass <= one.rad <= 1e-4 * far * mass


def test_error_of_a_single_value():
    """Against 40 digits, at points where coordinates, squares and the exponential all round."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(60, 3)) * 4 + 100
    scales = np.array([0.7, 1.3, 2.0])
    engine = Cuda("float32", DEVICE)
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


def test_a_wrong_exponential_is_refused(monkeypatch):
    import torch

    from bondic.engines import cuda_tiles

    check_single("cpu")

    monkeypatch.setattr(cuda_tiles, "power_of_two", lambda t: torch.exp2(t) * (1 + 2 * SINGLE_EXP))
    check_single.cache_clear()
    with pytest.raises(InvalidInput, match="float32 is off by"):
        check_single("cpu")
    check_single.cache_clear()


@pytest.mark.parametrize("name", ["cuda", "cuda32"])
def test_without_a_gpu(name, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidInput, match="needs an NVIDIA GPU"):
        EngineSums.named(name)


def test_a_whole_interval_and_its_certificate():
    """The same log by the compiled engines and by this one: the same ends, and a certificate that both can check."""
    (mdp, log, policy, start), sums = (
        synthetic(300),
        EngineSums((Constants(), Features(), Cuda(device=DEVICE), NumpyPairs())),
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
