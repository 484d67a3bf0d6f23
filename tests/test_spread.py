"""Some rows of many: evenly spread, and every phase of every short period gets its share."""

import numpy as np
import pytest

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
