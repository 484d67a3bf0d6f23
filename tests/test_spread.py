"""Some rows of many: evenly spread, and every phase of every short period gets its share."""

import numpy as np
import pytest

import bondic
from bondic.data.spread import spread_rows


@pytest.mark.parametrize("period", [2, 3, 5, 12])
@pytest.mark.parametrize("rows", [9000, 12_288, 150_001])
def test_no_phase_of_a_period_is_left_out(rows, period):
    chosen = spread_rows(rows, 4096)
    shares = np.bincount(chosen % period, minlength=period) / chosen.size
    np.testing.assert_allclose(shares, 1 / period, rtol=0.1)


@pytest.mark.parametrize(("rows", "most"), [(1, 1), (5, 10), (4096, 4096), (4097, 4096), (10_000, 3)])
def test_rows_are_in_order_different_and_not_too_many(rows, most):
    chosen = spread_rows(rows, most)
    assert np.all(np.diff(chosen) > 0)
    assert chosen.size == -(-rows // -(-rows // most)) <= most
    assert chosen[0] >= 0
    assert chosen[-1] < rows
    if rows <= most:
        np.testing.assert_array_equal(chosen, np.arange(rows))


def periodic(period, rows=12_288):
    """States 0, 1, ..., period - 1 in turn."""
    states = (np.arange(rows + 1) % period).astype(float)[:, None]
    log = bondic.Transitions(
        states[:-1], np.zeros(rows, dtype=int), states[:-1, 0] / period, states[1:], np.zeros(rows)
    )
    return log, bondic.InitialStates.exact([[0.0]]), {"gamma": 0.5, "reward_range": (0.0, 1.0)}


@pytest.mark.parametrize("period", [768, 1536])
def test_stretches_of_a_streamed_log_have_no_rhythm(period):
    """12288 rows in 16 stretches of one row: at even places they would all begin at one phase of these periods."""
    log, start, terms = periodic(period)
    stream = bondic.stream_log(log.columns(), batch_rows=1000)
    problem = bondic.make_problem(stream, bondic.UniformPolicy(1), start, **terms, accept=None)
    first = problem.some_points(16)[1:17, 0]  # initial points first, then logged, then next ones
    assert np.unique(np.floor(first / period * 4)).size == 4
