"""The formulas (13)-(18) against 50-digit values: equal where the library computes that number, and never on the wrong side.

Landmarks are all points of the problem. "exact": coordinates are made in 40 digits, so that only the formulas are under test.
"basis": they are made by the library, whose bounds pay for a basis of 40 points that nearly depend on each other.
"""

import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mpmath import mp

import bondic
from bondic.core.betting import bet_cost, clipped_deviation, tail_term, vector_term
from bondic.core.bounded import Between, Enclosure, upper_sum
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.sequential.basis import LandmarkBasis
from bondic.core.sequential.bound import Evidence, Tail
from bondic.core.sequential.ellipsoids import enclose, supremum, whole_ball
from bondic.core.sequential.embedded import Start, embed, embed_start
from bondic.core.sequential.landmarks import Coordinates, Embedding
from bondic.core.sequential.localize import Localizer
from bondic.core.sequential.plan import Predictable
from bondic.core.terms import Terms, ValueRange
from bondic.engines.sums import STANDARD
from bondic.policies.answers import StoredAnswers
from bondic.rows.make import make_rows
from sequential_cases import watching

FOLDER = Path(__file__).parent / "reference"
SHARES = SimpleNamespace(shares=(0.3, 0.9), with_earlier=(0.6, 0.35), slab_shares=(0.2, 0.5))


class Reference:
    """One file: rows, a basis that holds every point, and the columns as they are given."""

    def __init__(self, name, how):
        data = json.loads((FOLDER / f"{name}.json").read_text())
        self.expected = data["expected"]
        self.given = d = {
            key: np.array(value) if isinstance(value, list) else value for key, value in data["inputs"].items()
        }
        log = bondic.Transitions(d["states"], d["actions"], d["rewards"], d["next_states"], d["terminations"])
        answers = StoredAnswers(d["next_probs"][~d["terminations"]], d["start_probs"], discrete=True, exact=True)
        start = bondic.InitialStates.exact(d["start_states"], d["start_weights"])
        self.rows = make_rows(log, answers, start, Terms(d["gamma"], (-9.0, 9.0)))
        self.kernel = bondic.Gaussian(d["h"]) * Dirac() + Constant(1.0)
        self.ball = bondic.Ball(self.kernel, d["r_Q"])
        self.found = Coordinates(self.ball, self.basis, self.rows.layout)
        n = len(self.rows)
        whole = Between(np.full(n, d["v_lo"]), np.full(n, d["v_hi"]))
        self.data = replace(embed(self.rows, self.found), limits=whole)
        self.start = embed_start(self.rows, self.found)
        self.near = 4 * self.found._skew
        if how == "exact":
            self._exact_coordinates()

    def _exact_coordinates(self):
        """c = L^-1 k at every point, without anything left over."""
        d, nothing = self.given, np.zeros(len(self.rows))
        here = self.factor[[self.keys.index((*s, a)) for s, a in zip(d["states"].tolist(), d["actions"], strict=True)]]
        following = np.array([self._mean(*row) for row in zip(d["next_states"], d["next_probs"], strict=True)])
        following[d["terminations"]] = 0.0
        start = sum(
            w * self._mean(s, p)
            for s, p, w in zip(d["start_states"], d["start_probs"], d["start_weights"], strict=True)
        )
        step = here - d["gamma"] * following
        self.data = replace(
            self.data, here=here, next=Embedding(following, nothing, nothing), step=Embedding(step, nothing, nothing)
        )
        self.start = Start(start, 0.0, Enclosure(0.0))
        self.found = SimpleNamespace(radius=d["r_Q"])
        self.near = 1e-9

    def _mean(self, state, probabilities):
        rows = [self.keys.index((*state.tolist(), a)) if (*state.tolist(), a) in self.keys else 0 for a in (0, 1)]
        return probabilities @ self.factor[rows]

    @cached_property
    def basis(self):
        """The landmarks of the models first, then every other point; an inverse factor in 40 digits, rounded."""
        d = self.given
        both = [(s, a) for s in (*d["next_states"][~d["terminations"]], *d["start_states"]) for a in (0, 1)]
        pairs = [*zip(d["landmarks"], d["landmark_actions"], strict=True), *zip(d["states"], d["actions"], strict=True)]
        keys = list(dict.fromkeys((*map(float, s), int(a)) for s, a in [*pairs, *both]))
        self.keys = keys
        points, slots = np.array([key[:-1] for key in keys]), np.array([key[-1] for key in keys])
        with mp.workdps(40):
            gram = mp.matrix(len(keys))
            for i, one in enumerate(keys):
                for j, other in enumerate(keys):
                    square = sum((mp.mpf(a) - mp.mpf(b)) ** 2 for a, b in zip(one[:-1], other[:-1], strict=True))
                    gram[i, j] = (one[-1] == other[-1]) * mp.exp(-square / (2 * mp.mpf(d["h"]) ** 2)) + 1
            factor = mp.cholesky(gram)
            self.factor = np.array(factor.tolist(), dtype=float)
            inverse = np.array((factor**-1).tolist(), dtype=float)
        return LandmarkBasis(points, slots, np.tril(inverse))

    @cached_property
    def columns(self):
        d, few = self.given, len(self.given["landmarks"])
        kappa = d["kappa"] @ self.factor[:few, :few]
        rates = {end: float(d["lambda_tails"].sum() / len(self.rows)) for end in ("lower", "upper")}
        weights = {"lower": d["v_lower"], "upper": d["v_upper"]}
        instruments = d["phi"] * d["lambda_vector"][:, None]
        return Predictable(
            d["r_hat"], kappa, instruments, Between(d["A"], d["B"]), weights, rates, np.ones(len(self.rows), dtype=bool)
        )

    @cached_property
    def localizer(self):
        """Before the first round: all of Q is left."""
        localizer = Localizer.begin(SHARES, self.start, self.found.radius, self.given["delta_vector"])
        localizer.add(self.data, self.columns, 0)
        return localizer

    @cached_property
    def cylinder(self):
        """(17), unscaled: its size is Λ eps."""
        fresh = Localizer.begin(SHARES, self.start, self.found.radius, self.given["delta_vector"])
        with watching() as seen:
            fresh.add(self.data, self.columns, 1)
        return seen.cylinders[0]

    @cached_property
    def question(self):
        d, none = self.given, Enclosure(0.0)
        shares = {"vector": d["delta_vector"], "lower": d["delta_tails"] / 2, "upper": d["delta_tails"] / 2}
        limits = ValueRange(d["v_lo"], d["v_hi"])
        return Evidence(self.rows, self.data, self.start, self.found, limits, shares, lambda *_: none, STANDARD)

    def tail(self, end):
        return Tail.of(self.question, [self.columns], end)

    @property
    def total(self):
        """Λ of the vector event."""
        return float(self.given["lambda_vector"].sum())


@pytest.fixture(
    scope="module", params=["sequential-1 exact", "sequential-2 exact", "sequential-1 basis", "sequential-2 basis"]
)
def case(request):
    return Reference(*request.param.split())


def above(found, exact, near, scale=None):
    """An upper bound: at most `near` too large, never too small."""
    found, exact = np.asarray(found), np.asarray(exact)
    size = np.maximum(np.abs(exact), 1e-3) if scale is None else scale
    assert np.all(found - exact >= -4e-16 * size), (found - exact).min()
    assert np.all(found - exact <= near * size), (found - exact).max()


def close(found, exact, near):
    assert np.allclose(found, exact, rtol=near, atol=near)


def test_norms_of_deviations_of_the_embedding(case):
    """|D_i| in coordinates, what is left over included."""
    discounted, lost = case.localizer.deviations, case.localizer.deviations.perp
    gamma = case.given["gamma"]
    sizes = np.sqrt((discounted.coordinates**2).sum(axis=1))
    close(sizes / gamma, case.expected["norm_D"], case.near)
    assert np.all(sizes + lost >= gamma * np.array(case.expected["norm_D"]) * (1 - 1e-9))


def test_row_bounds(case):
    """(14)."""
    above(case.localizer.deviation_bound(), case.expected["U"], case.near)


def test_vector_event(case):
    """(16) with a worst e for every row; one worst e for all rows is never more."""
    expected = case.expected
    bets = case.localizer.sizes * case.localizer.deviation_bound()
    price = vector_term(case.given["delta_vector"]).upper + upper_sum(bet_cost(-bets))
    above(price, expected["Lambda_eps"], case.near)
    assert case.localizer.vector_bound([case.localizer.best])[0] <= price * (1 + 1e-12)
    # the same number from the exact U, without a basis
    exact = np.linalg.norm(case.columns.instruments, axis=1) * np.array(expected["U"])
    close(vector_term(case.given["delta_vector"]).mid + bet_cost(-exact).sum(), expected["Lambda_eps"], 1e-12)
    close(expected["Lambda_eps"] / case.total, expected["eps"], 1e-12)


def test_cylinder(case):
    """h and G of (17)."""
    close(case.cylinder.offset / case.total, case.expected["h"], 1e-12)
    close(case.cylinder.matrix @ case.cylinder.matrix.T / case.total**2, case.expected["G_gram"], case.near)


@pytest.mark.parametrize("end", ["upper", "lower"])
def test_bounds_of_clipped_deviations(case, end):
    expected, tail, view = case.expected[end], case.tail(end), whole_ball(case.found.radius, len(case.basis))
    with watching() as seen:
        rows, _, _ = tail._rows(case.data, case.localizer, view)
    above(seen.deltas[0].high, expected["delta_hi"], case.near, scale=1.0)
    above(-seen.deltas[0].low, -np.array(expected["delta_lo"]), case.near, scale=1.0)
    above(tail.log + upper_sum(rows), expected["log_plus_sum_g"], case.near)
    # the same number from the exact deviations, without a basis
    y = (-tail.weights * np.array(expected["delta_lo"]), -tail.weights * np.array(expected["delta_hi"]))
    exact = tail_term(case.given["delta_tails"] / 2).mid + np.maximum(bet_cost(y[0]), bet_cost(y[1])).sum()
    close(exact, expected["log_plus_sum_g"], 1e-12)


@pytest.mark.parametrize("end", ["upper", "lower"])
def test_ends_over_the_ball(case, end):
    """Bias and noise apart give the stated end; the claim is at least as good, and its bias is r |μ|."""
    expected, tail, sign = case.expected[end], case.tail(end), 1.0 if end == "upper" else -1.0
    view = whole_ball(case.found.radius, len(case.basis))
    bias, _ = supremum(view, sign * tail.imbalance, tail.slack, None)
    above(bias, case.given["r_Q"] * expected["mu_norm"], case.near)
    rows, _, _ = tail._rows(case.data, case.localizer, view)
    apart = (sign * tail.base.mid + bias + upper_sum(rows) + tail.log) / tail.rate
    above(apart, sign * expected["end_ball"], case.near)
    assert sign * tail.claim(case.question, case.localizer, [view], view).bound <= apart * (1 + 1e-9)


@pytest.mark.parametrize("end", ["upper", "lower"])
@pytest.mark.parametrize("small", [False, True])
def test_ellipsoids(case, end, small):
    """(18) for every tau: ⟨ē, ±μ⟩, half-width and rho^2, at the computed and at a small epsilon."""
    sign = 1.0 if end == "upper" else -1.0
    linear = sign * case.tail(end).imbalance
    size = case.given["eps_small"] * case.total if small else case.expected["Lambda_eps"]
    for one in case.expected[end]["ellipsoids_small_eps" if small else "ellipsoids"]:
        if one["tau"] == 0.0:
            ellipsoid = whole_ball(case.found.radius, len(case.basis))
        else:
            ellipsoid = enclose(case.found.radius, [case.cylinder.with_size(size)], [one["tau"]])
        bound, center = supremum(ellipsoid, linear, 0.0, None)
        above(ellipsoid.rho_square, one["rho2"], case.near)
        close(center, one["center"], case.near)
        assert one["half"] * (1 - 1e-9) <= bound - center <= one["half"] * (1 + case.near)


def test_clipped_deviation_is_rounded_outward_only():
    """Exact inputs: the bounds of a clip that is not active are those of Y - ŷ."""
    one = np.array([0.5])
    found = clipped_deviation(
        Between(-one, one), Between(-one, one), Between(-0.25 * one, 0.25 * one), Between(-one, one)
    )
    above(found.high, 0.125, 1e-13)
    above(-found.low, 0.125, 1e-13)
