"""Rows that are withheld: none is on the page or in the certificate, which the policy verifies."""

from __future__ import annotations

import re

import numpy as np
import pytest

import bondic
from bondic.core.balls import Instruments
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.functions import KernelFunction
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.report.page import report_page
from bondic.tuning.defaults import Choices
from bondic_lab.noise.plug_in import PlugIn
from test_report import FEW, ask, world

assert world  # the fixture: log, policy, problem and result of a small question


def numbers_in(text):
    return {float(word) for word in re.findall(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?", text)}


def test_no_single_row_is_on_a_page_without_rows(world):
    log, _, problem, result = world
    columns = (log.observations, log.rewards, log.next_observations)
    raw = {number for column in columns for v in column.ravel() for number in (float(v), float(f"{v:.6g}"))}
    page = report_page(result.without_rows(problem), problem, title="t", no_rows=True)
    shown = re.sub(r"<(style|script).*?</\1>|<[^>]*(?:width|x|y|cx)=[^>]*>", " ", page, flags=re.DOTALL)
    stated = {0.0} | {float(f"{v:.6g}") for v in problem.terms.reward_range}
    stated |= {v for end in result.terms().values() for v in numbers_in(" ".join(f"{x:.6g}" for x in end.values()))}
    assert not numbers_in(shown) & (raw - stated)
    assert "Bars of fewer than 5 rows are not shown" in page


@pytest.mark.parametrize("visits", [4, 5])
def test_a_state_counts_once_however_often_a_visit_names_it(visits):
    """State 9 is the next state of one row and the logged state of the row after it: `visits` rows share it, not twice."""
    path = np.array(([0.0, 1.0, 2.0] * 40 + [9.0]) * visits + [0.0])
    n = path.size - 1
    log = bondic.Transitions(
        path[:-1, None], np.zeros(n, dtype=int), np.linspace(0.0, 1.0, n), path[1:, None], np.zeros(n, dtype=bool)
    )
    start = bondic.InitialStates.exact(np.zeros((1, 1)))
    problem = bondic.make_problem(log, bondic.UniformPolicy(1), start, gamma=0.2, reward_range=(0.0, 1.0))
    instruments = Instruments(Dirac(on="state") + 0.2 * Constant(1.0))
    result = bondic.estimate_interval(
        problem, method=bondic.Dual(radius="paper", instruments=instruments, advanced=FEW)
    )
    assert any(9.0 in array for array in result.certificate.arrays.values() if array.ndim == 2)
    if visits < 5:
        with pytest.raises(InvalidInput, match="1 of them are states of fewer than 5 rows"):
            result.without_rows(problem)
    else:
        assert result.without_rows(problem).certificate is not None


@pytest.mark.parametrize("case", ["exact starts", "continuous", "streamed", "table"])
def test_a_certificate_without_rows_is_verified_with_the_policy(case, tmp_path):
    options = {"gauge": PlugIn(0.02)}
    if case == "continuous":
        log, policy, problem, result = ask("continuous", rows=200, **options)
    elif case == "table":
        log, policy, problem, result = ask("tabular", rows=2000, choices=Choices())
    else:
        log, policy, problem, result = ask(**options)
    if case == "streamed":
        stream = bondic.stream_log(log.columns(), batch_rows=150)
        terms = {"gamma": 0.5, "reward_range": problem.terms.reward_range}
        problem = bondic.make_problem(stream, policy, bondic.InitialStates.from_log(log), **terms)
        result = bondic.estimate_interval(problem, method=bondic.Dual(radius="paper", advanced=FEW, **options))
    bare = result.without_rows(problem)
    assert bare.hashes["certificate"] != result.hashes["certificate"]
    bondic.save_certificate(bare.certificate, tmp_path / "c")
    certificate = bondic.load_certificate(tmp_path / "c")
    checked = bondic.verify(certificate, log, policy)
    assert (checked.low, checked.high) == pytest.approx((result.low, result.high), rel=1e-9)
    with pytest.raises(VerificationError, match="Pass the policy"):
        bondic.verify(certificate, log)
    raw = {row.tobytes() for row in log.observations} if case != "table" else set()
    for name, array in certificate.arrays.items():
        # an exact list of initial states is part of the question
        if (
            array.ndim == 2
            and array.shape[1] == log.observations.shape[1]
            and name != "estimand.policies.0.start.observations"
        ):
            assert not {row.tobytes() for row in array} & raw
    assert not any(name.startswith("estimand.policies.0.answers.next") for name in certificate.arrays)
    if case == "streamed":
        assert not any(
            name.startswith(("estimand.policies.0.answers", "asked.policies.0.start.observations"))
            for name in certificate.arrays
        )
        given_states = bondic.InitialStates.from_log(log)
        assert bondic.verify(certificate, log, policy, initial=given_states).low == checked.low
        wrong = bondic.InitialStates.sample(given_states.observations + 0.5)
        with pytest.raises(VerificationError):
            bondic.verify(certificate, log, policy, initial=wrong)


def test_landmarks_that_are_rows_are_refused():
    instruments = Instruments(0.2 * Constant(1.0) + 0.8 * bondic.Gaussian(0.5) * Dirac())
    _, _, problem, result = ask(rows=200, instruments=instruments, gauge=PlugIn(0.02))
    with pytest.raises(InvalidInput, match=r"landmark points, and \d+ of them are states of fewer than 5 rows"):
        result.without_rows(problem)


def test_pilot_rows_are_rows_too():
    """A center of Q that was fitted on the pilot would show pilot rows, which no certified row shares."""
    log, _, problem, _ = ask(rows=600)
    values, counts = np.unique(log.observations[:, 0], return_counts=True)
    alone = [x for x in log.observations[:100] if counts[values == x[0]] == 1][:3]
    kernel = bondic.Gaussian(0.5, on="state") * Dirac(on="action")
    center = KernelFunction(kernel, problem.layout, np.array(alone), np.full((3, problem.layout.slots), 0.01))
    options = {"ball": bondic.Ball(kernel, 5.0, center=center), "pilot": 0.2, "advanced": FEW}
    result = bondic.estimate_interval(problem, method=bondic.Dual(gauge=PlugIn(0.02), **options))
    assert result.rows[0] > 100
    with pytest.raises(InvalidInput, match="3 of them are states of fewer than 5 rows"):
        result.without_rows(problem)
