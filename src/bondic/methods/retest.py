"""A rich test of Q by whoever verifies: a certificate need not hold the witness that speaks against it.

The first half of the certified rows picks instruments (single pairs, neighborhoods, single columns), the second half is tested
with them and with the W of the certificate. Its level is its own: nothing of the certificate's alpha is spent.
"""

from __future__ import annotations

from dataclasses import replace

from bondic.bounds.dual import Setting
from bondic.bounds.rejection import combine_witnesses, join_tests, run_tests
from bondic.claims import Rejection
from bondic.search.refute import propose_refutations
from bondic.search.search import kernel_search
from bondic.tuning.defaults import Choices
from bondic.tuning.refutation import class_tests

LEVEL = 0.01
"""Chance that a test rejects a correct certificate; half of it for W, half for the instruments picked here."""
_FEWEST = 40
_RANK = 200
_MOST = 20_000
"""Rows that pick instruments or that a witness is looked for on; it is evaluated on all rows of the second half."""


def rich_test(setting: Setting) -> Rejection | None:
    """Whether the second half of the rows contradicts Q (jointly with the ranges and the data assumption).

    None when there is nothing to test: too few rows, or a number of rows that may be a stopping time, a Q that is no ball, or a
    noise bound without a guarantee.
    """
    rows = setting.problem.rows
    # the rows are halved by their number, which may be a stopping time under a bound that allows it
    stopped = setting.gauge.any_time and setting.problem.terms.horizon is None
    fixed = setting.gauge.proved and not stopped
    if not (setting.ball.doubtful and fixed and len(setting.problem) >= _FEWEST):
        return None
    cut = rows.start + len(rows) // 2
    if setting.problem.load(cut, min(rows.stop, cut + _MOST)) is None:  # every row beyond the horizon
        return None
    pilot = setting.problem.load(max(rows.start, cut - _MOST), cut)
    tests = class_tests(pilot, Choices(), (), LEVEL / 2)
    half = replace(setting, problem=setting.problem.select(cut), noise_probability=LEVEL / 2, tests=tests)
    some = replace(half, problem=half.problem.select(cut, min(rows.stop, cut + _MOST)))
    witnesses = kernel_search(some, _RANK).witnesses(radius=half.ball.radius, epsilon=half.epsilon().upper)
    return join_tests(half, combine_witnesses(half, witnesses), run_tests(half, propose_refutations(half)))
