"""Every engine against the conformance suite; one that a user might write; what `Sums` does with them."""

import html
import subprocess
import sys

import numpy as np
import pytest

import bondic
from bondic.core.balls import Instruments
from bondic.core.bounded import U
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums.forms import Crossed, Share
from bondic.core.sums.measure import Measure, Stream
from bondic.engines import sums as forms
from bondic.engines.engine import Collected, Engine
from bondic.engines.products import Pairs
from bondic.engines.spool import NumpyPairs
from bondic.engines.standard import Constants, Features
from bondic.engines.sums import EngineSums
from bondic.engines.threads import in_order
from bondic.report.page import report_page
from bondic.saving import save_certificate
from builders import synthetic
from conformance import EngineCase

LAYOUT = Layout(2, False, 0, 2)


class TestReference(EngineCase):
    engine = NumpyPairs()


class TestPairs(EngineCase):
    engine = Pairs()


class TestConstants(EngineCase):
    engine = Constants()


class TestFeatures(EngineCase):
    engine = Features()


class Toy(Engine):
    """All pairs at once, in one product of matrices: for a few thousand points."""

    name = "toy"

    def cost(self, term, survey):  # noqa: ARG002
        return float(survey.count) ** 2

    def begin(self, term, survey):
        def finish(points, columns):
            size, error = term.bounds(points, points)
            totals = columns * (term.block(points, points) @ columns)  # a row each; Sums adds rows exactly
            return Share(totals, error + (len(points) + 4) * U * size)

        return Collected(survey, finish)

    def cross(self, term, x, y, columns, executor):  # noqa: ARG002
        return Crossed(term.block(x, y) @ columns, 0.0, len(y))


class TestToy(EngineCase):
    engine = Toy()


def test_an_engine_of_ones_own_serves_the_whole_way(tmp_path):
    """From the estimate to the certificate, its verification and the page."""
    (mdp, log, policy, start), toy = synthetic(300), EngineSums(engines=(Toy(),))
    problem = bondic.make_problem(log, policy, start, gamma=mdp.gamma, reward_range=mdp.reward_range)
    result = bondic.estimate_interval(problem, method=bondic.Dual(engine=toy, gauge="plug-in", radius=5.0))
    assert result.status is bondic.Status.INTERVAL
    text, _ = bondic.save_certificate(result.certificate, tmp_path / "toy")
    found = bondic.verify(bondic.load_certificate(text), log, sums=toy)
    assert (found.low, found.high) == pytest.approx((result.low, result.high), rel=1e-9)
    plain = bondic.verify(result.certificate, log)
    assert plain.low == pytest.approx(found.low, rel=1e-9)
    assert result.sentence() in html.unescape(report_page(result, problem, title="toy"))


KERNELS = {
    "gaussian": bondic.Gaussian(0.9) * Dirac() + Constant(0.5),
    "matern": bondic.Matern(0.7) * Dirac(),
    "features": RandomFeatures.gaussian(8, 2, 1.0, seed=0),
}


@pytest.mark.parametrize("most", [2**24, 0], ids=["held", "streamed"])
@pytest.mark.parametrize("name", KERNELS)
def test_how_a_measure_is_stored_leaves_no_trace(name, most, rng, monkeypatch):
    """Batches of arrays that exist, or made when asked for: the same bits; one batch or five: the same number."""
    monkeypatch.setattr(forms, "MAX_HELD", most)
    points, groups = rng.normal(size=(5000, 2)), rng.normal(size=(2, 5000, 2))
    points[4000:] = points[:1000]
    terms, cuts = normal_form(KERNELS[name], LAYOUT), np.array_split(np.arange(5000), 5)
    batches = [Measure(points[cut], groups[:, cut], 1e-15) for cut in cuts]
    kept = Stream(lambda task: map(task, batches), lambda: points[::7], 5000, 2, 2, 2)
    made = Stream(
        lambda task: (task(Measure(points[cut].copy(), groups[:, cut].copy(), 1e-15)) for cut in cuts),
        lambda: points[::7].copy(), 5000, 2, 2, 2,
    )  # fmt: skip
    found = EngineSums().squares(terms, kept)
    assert found == EngineSums().squares(terms, made)
    whole = EngineSums().squares(terms, Measure(points, groups, 1e-15))
    if most:
        assert found == whole
    for one, other in zip(found, whole, strict=True):
        assert abs(one.mid - other.mid) <= one.rad + other.rad
        assert one.rad <= 1e-4 * one.mid


_REFERENCE_ALONE = """
import sys
import numpy as np, bondic
from bondic.loading import load_certificate
from bondic.core.sums.reference import REFERENCE
from bondic.rows.estimand import verify_certificate as verify
data = dict(np.load(sys.argv[1]))
verification = verify(load_certificate(sys.argv[2]), bondic.Transitions(**data), sums=REFERENCE)
print(verification.low, verification.high, *(name for name in ("numba", "bondic.engines") if name in sys.modules))
"""


def test_a_certificate_is_verified_without_compiled_code(tmp_path):
    """A log, its certificate, and a process in which nothing but the reference sums: no engine is even imported."""
    rng = np.random.default_rng(0)
    data = {
        "observations": rng.normal(size=(80, 2)), "actions": rng.integers(2, size=80), "rewards": rng.random(80),
        "next_observations": rng.normal(size=(80, 2)), "terminations": rng.random(80) < 0.1,
    }  # fmt: skip
    start, terms = bondic.InitialStates.exact(np.zeros((1, 2))), {"gamma": 0.5, "reward_range": (0.0, 1.0)}
    problem = bondic.make_problem(bondic.Transitions(**data), bondic.UniformPolicy(2), start, **terms)
    kernel = bondic.Gaussian(1.0) * Dirac()
    method = bondic.Dual(ball=bondic.Ball(kernel, 1.0), instruments=Instruments(kernel), pilot=0)
    result = bondic.estimate_interval(problem, method=method)
    save_certificate(result.certificate, tmp_path / "certificate.json")
    np.savez(tmp_path / "log.npz", **data)
    command = [sys.executable, "-c", _REFERENCE_ALONE, str(tmp_path / "log.npz"), str(tmp_path / "certificate.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    low, high, *loaded = done.stdout.split()
    assert not loaded
    assert float(low) == pytest.approx(result.low, abs=1e-9)
    assert float(high) == pytest.approx(result.high, abs=1e-9)


def test_tasks_of_a_stream_treat_overflow_as_the_caller_does():
    def task(k):
        return float(np.array([1e300])[0] * np.float64(10.0) ** (10 * k))

    with np.errstate(over="ignore"):
        assert list(in_order(task, range(4), 2)) == [1e300, np.inf, np.inf, np.inf]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        list(in_order(task, range(4), 2))
