"""Every inequality behind the sequential interval (theory, sections 9 and 10), searched for a counterexample.

Written from the formulas, with nothing of the library in them: these tests say that the *mathematics* holds, and that the
search would have found an error (each has a neighbor that is false and is found to be). Random points crowd the corners.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

TOLERANCE = 1e-9
CASES = 20_000


def g(y):
    return y - np.log1p(y)


def ratio(y):
    """g(y)/y², ½ at 0."""
    y = np.asarray(y, dtype=float)
    safe = np.where(np.abs(y) < 1e-5, 1.0, y)
    return np.where(np.abs(y) < 1e-5, 0.5 - y / 3.0, g(safe) / safe**2)


def corners(rng, low, high, size):
    """Numbers in [low, high], a third of them at its ends."""
    return np.clip(rng.uniform(low - 0.25 * (high - low), high + 0.25 * (high - low), size), low, high)


# --- g and the lemma ----------------------------------------------------------------------------------


def test_g_has_the_properties_that_the_proofs_use():
    y = np.concatenate([-1.0 + np.logspace(-12, -3, 50), np.linspace(-0.999, 20.0, 4001), np.logspace(1.5, 6, 50)])
    np.testing.assert_allclose(np.exp(y - g(y)), 1.0 + y, rtol=1e-9)  # e^{y − g(y)} = 1 + y
    assert np.all(g(y) >= 0.0)
    assert np.all(np.diff(ratio(np.sort(y))) <= 1e-7)  # g(y)/y² decreases,
    assert ratio(0.0) == 0.5  # and is ½ at 0
    z = np.linspace(0.0, 0.9999, 2001)
    assert np.all(g(z) <= g(-z) + 1e-15)  # a loss costs more than a gain of the same size
    middle = 0.5 * (y[:-1] + y[1:])
    assert np.all(g(middle) <= 0.5 * (g(y[:-1]) + g(y[1:])) + 1e-12)  # convex


def test_g_is_the_function_of_the_sub_exponential_bound():
    """g(−λc)/c² = ψ_c(λ) = (−log(1 − cλ) − cλ)/c²."""
    for rate, scale in itertools.product((0.01, 0.3, 0.9), (0.1, 0.7, 1.05)):
        psi = (-math.log(1.0 - scale * rate) - scale * rate) / scale**2
        assert g(-rate * scale) / scale**2 == pytest.approx(psi, rel=1e-12)


outcomes = st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.01, 1.0)), min_size=1, max_size=5)


@given(outcomes, st.floats(0.0, 1.0), st.floats(-0.999, 0.999), st.booleans())
def test_lemma_mean_of_a_factor(values, center, bet, one_sided):
    """E exp( vZ − g(−vΔ) ) = e^{vẐ}(1 − vẐ) ≤ 1 for every law on [0, 1] and every center; v up to its one-sided range."""
    value, mass = (np.array(column) for column in zip(*values, strict=True))
    mass = mass / mass.sum()
    mean = mass @ value
    side = (1.0 - center if bet > 0 else center) if one_sided else 1.0
    weight = bet / max(side, 0.05)
    factor = mass @ np.exp(weight * (mean - value) - g(-weight * (value - center)))
    move = weight * (mean - center)
    assert factor == pytest.approx(math.exp(move) * (1.0 - move), rel=1e-9, abs=1e-12)
    assert factor <= 1.0 + 1e-12


def test_lemma_needs_the_deviation_that_was_seen():
    """With g at half of the deviation (a range believed half) the mean of a factor exceeds 1."""
    rare, bet = 0.01, 0.98
    value, mass = np.array([0.0, 1.0]), np.array([rare, 1.0 - rare])
    honest = mass @ np.exp(-bet * (1.0 - rare - value) - g(bet * (value - 1.0)))
    believed = mass @ np.exp(-2.0 * bet * (1.0 - rare - value) - g(bet * (value - 1.0)))
    assert honest <= 1.0 < believed


# --- the vector event ---------------------------------------------------------------------------------


def cosh_gap(h, xi, price):
    """log of cosh‖h + ξ‖ e^{−price} over cosh‖h‖ + ⟨∇cosh‖h‖, ξ⟩, all divided by cosh‖h‖; must be ≤ 0."""
    size = np.linalg.norm(h, axis=1)
    unit = h / np.maximum(size, 1e-300)[:, None]
    after = np.linalg.norm(h + xi, axis=1)
    left = np.logaddexp(after, -after) - np.logaddexp(size, -size) - price
    return left - np.log1p(np.tanh(size) * np.einsum("ij,ij->i", unit, xi))


def steps(rng, dimension):
    """f of any size from 1e-3 to 30, ξ shorter than 1, often along f or against it."""
    h = rng.normal(size=(CASES, dimension))
    h *= (10.0 ** rng.uniform(-3.0, 1.5, CASES) / np.linalg.norm(h, axis=1))[:, None]
    xi = rng.normal(size=(CASES, dimension)) * rng.choice([0.0, 0.1, 1.0], size=(CASES, 1))
    xi += h / np.linalg.norm(h, axis=1, keepdims=True) * rng.choice([-1.0, 0.0, 1.0], size=(CASES, 1))
    z = 1.0 - 10.0 ** rng.uniform(-4.0, 0.0, CASES)
    return h, xi * (z / np.maximum(np.linalg.norm(xi, axis=1), 1e-300))[:, None]


@pytest.mark.parametrize("dimension", [1, 2, 3, 10, 50])
def test_cosh_inequality(dimension, rng):
    """cosh‖h + ξ‖ e^{−g(−‖ξ‖)} ≤ cosh‖h‖ + ⟨∇cosh‖h‖, ξ⟩ for ‖ξ‖ < 1; not with g(+‖ξ‖), the price of a gain."""
    h, xi = steps(rng, dimension)
    z = np.linalg.norm(xi, axis=1)
    assert cosh_gap(h, xi, g(-z)).max() <= TOLERANCE
    assert cosh_gap(h, xi, g(z)).max() > 0.1
    assert cosh_gap(h, xi, 0.5 * z**2).max() > 0.1  # nor with the sub-Gaussian price


@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_mean_of_a_vector_factor(dimension, rng):
    """E cosh‖f + λφZ‖ e^{−g(−λ‖φ‖|Δ|)} ≤ cosh‖f‖ for laws on three points of [0, 1] and any center."""
    f, phi = steps(rng, dimension)
    value = corners(rng, 0.0, 1.0, (3, CASES))
    mass = rng.dirichlet([0.3, 0.3, 0.3], CASES).T
    mean, center = (mass * value).sum(axis=0), corners(rng, 0.0, 1.0, CASES)
    start = np.linalg.norm(f, axis=1)
    total = np.full(CASES, -np.inf)
    for y, p in zip(value, np.maximum(mass, 1e-300), strict=True):
        after = np.linalg.norm(f + phi * (mean - y)[:, None], axis=1)
        price = g(-np.linalg.norm(phi, axis=1) * np.abs(y - center))
        total = np.logaddexp(total, np.log(p) + np.logaddexp(after, -after) - price)
    assert (total - np.logaddexp(start, -start)).max() <= TOLERANCE


# --- deviations from a clipped center, (14) ------------------------------------------------------------


def clipped(y_lo, y_hi, outcome_lo, outcome_hi, d_lo, d_hi, low, high):
    """The bounds stated below (14)."""
    upper = np.where(y_hi <= high, d_hi, np.maximum(d_hi, np.minimum(outcome_hi - high, d_hi + y_hi - high)))
    upper = np.minimum(upper, outcome_hi - np.clip(y_lo, low, high))
    lower = np.where(y_lo >= low, d_lo, np.minimum(d_lo, np.maximum(outcome_lo - low, d_lo + y_lo - low)))
    return np.maximum(lower, outcome_lo - np.clip(y_hi, low, high)), upper


def enclosed(rng):
    """Predictions ŷ and outcomes Y with intervals around ŷ, Y and Y − ŷ, and clips that may miss both."""
    y, outcome = rng.uniform(-1.5, 1.5, 10 * CASES), rng.uniform(-1.0, 1.0, 10 * CASES)

    def around(x):
        loose = rng.exponential(0.4, (2, x.size)) * rng.integers(2, size=(2, x.size))
        return x - loose[0], x + loose[1]

    low, high = np.sort(rng.uniform(-1.0, 1.0, (2, y.size)), axis=0)
    low, high = np.where(rng.random(y.size) < 0.2, -1.0, low), np.where(rng.random(y.size) < 0.2, 1.0, high)
    return y, outcome, (*around(y), *around(outcome), *around(outcome - y), low, high)


def test_bounds_of_the_deviation(rng):
    y, outcome, known = enclosed(rng)
    lower, upper = clipped(*known)
    deviation = outcome - np.clip(y, *known[-2:])
    assert np.all(lower <= deviation + 1e-12)
    assert np.all(deviation <= upper + 1e-12)
    assert np.mean(upper - deviation < 1e-12) > 0.1  # and they are reached


def test_the_shortcut_is_false(rng):
    """ "Δ ≤ a + w also if Y^hi ≤ B" fails where a + w < 0, and only there."""
    y, outcome, known = enclosed(rng)
    _, y_hi, _, outcome_hi, _, d_hi, low, high = known
    shortcut = np.where((y_hi <= high) | (outcome_hi <= high), d_hi, np.inf)
    wrong = outcome - np.clip(y, low, high) > shortcut + 1e-12
    assert wrong.any()
    assert np.all(d_hi[wrong] < 0.0)


def test_clip_to_the_whole_range_only_shrinks_the_deviation(rng):
    """|Y − clip(ŷ)| ≤ min(B, |Y − ŷ|) for Y in the range: what (14) and the joint form use."""
    y, outcome = rng.uniform(-4.0, 4.0, CASES), corners(rng, -1.0, 1.0, CASES)
    deviation = outcome - np.clip(y, -1.0, 1.0)
    assert np.all(np.abs(deviation) <= np.minimum(2.0, np.abs(outcome - y)))
    assert np.all(deviation * (outcome - y) >= 0.0)


# --- the joint worst case -----------------------------------------------------------------------------


def test_weight_of_the_joint_form(rng):
    """g(−vΔ) ≤ w Δ² on [Δ^lo, Δ^hi], w = v² g(y)/y² at the most negative y = −vΔ there, v²/2 if none is negative."""
    low, high = np.sort(corners(rng, -1.0, 1.0, (2, CASES)), axis=0)
    v = corners(rng, -0.99, 0.99, CASES)
    worst = np.minimum(np.minimum(-v * low, -v * high), 0.0)
    weight = v**2 * ratio(worst)
    least = np.full(CASES, np.inf)
    for share in np.linspace(0.0, 1.0, 41):
        delta = low + share * (high - low)
        least = np.minimum(least, weight * delta**2 - g(-v * delta))
    assert least.min() >= -1e-12
    assert np.min(0.5 * v**2 * low**2 - g(-v * low)) < -0.1  # ½v² alone is not enough


def trust_region_bound(matrix, vector, nu):
    return nu + vector @ np.linalg.solve(nu * np.eye(len(vector)) - matrix, vector)


def test_trust_region_bound(rng):
    """zᵀMz + 2bᵀz ≤ ν + bᵀ(ν − M)⁻¹b for ‖z‖ ≤ 1, M ⪰ 0 and every ν > λ_max(M); the best ν reaches the maximum."""
    for dimension in (1, 2, 5):
        for _ in range(40):
            root = rng.normal(size=(dimension, dimension))
            matrix, vector = root @ root.T, rng.normal(size=dimension) * rng.choice([0.01, 1.0, 10.0])
            z = rng.normal(size=(4000, dimension))
            z /= np.linalg.norm(z, axis=1, keepdims=True)
            z *= rng.random((4000, 1)) ** rng.choice([0.0, 0.3], size=(4000, 1))
            reached = (np.einsum("ij,jk,ik->i", z, matrix, z) + 2.0 * z @ vector).max()
            top = np.linalg.eigvalsh(matrix)[-1]
            bounds = [trust_region_bound(matrix, vector, top + step) for step in np.logspace(-6, 3, 200)]
            assert min(bounds) >= reached - TOLERANCE
            if dimension <= 2:
                assert min(bounds) <= reached + 0.02 * abs(reached)


def test_trust_region_bound_needs_a_multiplier_of_at_least_zero():
    """M ≺ 0 has ν > λ_max(M) that are negative: with z = 0 the value is 0 and the "bound" is −1."""
    assert trust_region_bound(-2.0 * np.eye(2), np.zeros(2), -1.0) < 0.0


# --- what is left of q*, (17) and (18) -----------------------------------------------------------------


def random_cylinder(rng, *, inside):
    """G, h, ε, r with points e in the ball; `inside` of them in the cylinder as well."""
    m, p = rng.integers(1, 6, 2)
    radius, matrix = rng.uniform(0.5, 3.0), rng.normal(size=(p, m)) * rng.choice([0.1, 1.0, 10.0])
    middle = rng.normal(size=m)
    middle *= radius * rng.random() / np.linalg.norm(middle)
    noise = rng.normal(size=p)
    eps = 10.0 ** rng.uniform(-2.0, 1.0)
    h = -matrix @ middle + noise * eps * rng.random() / np.linalg.norm(noise)
    spread = rng.normal(size=(2000, m)) * 10.0 ** rng.uniform(-3.0, 0.5, (2000, 1))
    e = np.concatenate([middle + spread, middle[None]])
    e *= np.minimum(1.0, radius / np.maximum(np.linalg.norm(e, axis=1), 1e-300))[:, None]
    if inside:
        e = e[np.linalg.norm(h + e @ matrix.T, axis=1) <= eps]
    return matrix, h, eps, radius, e


def ellipsoid(matrix, h, eps, radius, tau):
    precision = (1.0 - tau) / radius**2 * np.eye(matrix.shape[1]) + tau / eps**2 * matrix.T @ matrix
    center = -tau / eps**2 * np.linalg.solve(precision, matrix.T @ h)
    return precision, center, 1.0 - tau * (h @ h) / eps**2 + center @ precision @ center


def test_ellipsoids_contain_what_is_left(rng):
    """(18) ⊃ {‖h + Ĝe‖ ≤ ε, ‖e‖ ≤ r} for every τ in [0, 1); a square radius 10 % smaller does not."""
    outside = 0
    for _ in range(150):
        *data, e = random_cylinder(rng, inside=True)
        for tau in (0.0, 0.2, 0.5, 0.9, 0.98):
            precision, center, square = ellipsoid(*data, tau)
            assert square > -TOLERANCE  # not empty: there is a point
            distance = np.einsum("ij,jk,ik->i", e - center, precision, e - center)
            assert distance.max() <= square + TOLERANCE * max(1.0, np.abs(precision).max() * data[3] ** 2)
            outside += distance.max() > 0.9 * square
    assert outside > 50


def test_a_negative_square_radius_means_that_nothing_is_left(rng):
    """ρ² < 0 only if the cylinder misses the ball."""
    seen = 0
    for _ in range(300):
        matrix, h, eps, radius, _ = random_cylinder(rng, inside=False)
        h = h + rng.normal(size=h.size) * 3.0 * radius * np.linalg.norm(matrix, 2) * rng.random()
        if min(ellipsoid(matrix, h, eps, radius, tau)[2] for tau in (0.2, 0.5, 0.9, 0.98)) >= 0.0:
            continue
        seen += 1
        least, most = 1e-12, 1e12  # e = −(ĜᵀĜ + ridge)⁻¹Ĝᵀh, as near to the cylinder as the ball allows
        for _ in range(100):
            ridge = math.sqrt(least * most)
            e = -np.linalg.solve(matrix.T @ matrix + ridge * np.eye(matrix.shape[1]), matrix.T @ h)
            least, most = (least, ridge) if np.linalg.norm(e) <= radius else (ridge, most)
        assert np.linalg.norm(h + matrix @ e) > eps
    assert seen > 30


def test_dual_form_of_what_is_left(rng):
    """⟨e, μ⟩ ≤ r‖μ − Ĝᵀu‖ + ε‖u‖ − ⟨h, u⟩ for every u."""
    for _ in range(200):
        matrix, h, eps, radius, e = random_cylinder(rng, inside=True)
        direction, u = rng.normal(size=e.shape[1]), rng.normal(size=(50, h.size)) * 10.0 ** rng.uniform(-2, 1, (50, 1))
        bounds = radius * np.linalg.norm(direction - u @ matrix, axis=1) + eps * np.linalg.norm(u, axis=1) - u @ h
        assert (e @ direction).max() <= bounds.min() + TOLERANCE


def test_certified_quadratic_form(rng):
    """μᵀP⁻¹μ ≤ zᵀPz + 2zᵀr + ‖r‖²/λ_min(P), r = μ − Pz, for any z; equality at z = P⁻¹μ."""
    for _ in range(500):
        root = rng.normal(size=(4, 4))
        precision = root @ root.T + 1e-3 * np.eye(4)
        vector = rng.normal(size=4)
        exact, least = vector @ np.linalg.solve(precision, vector), np.linalg.eigvalsh(precision)[0]
        for noise in (0.0, 1e-3, 1.0):
            z = np.linalg.solve(precision, vector) + noise * rng.normal(size=4)
            rest = vector - precision @ z
            bound = z @ precision @ z + 2.0 * z @ rest + rest @ rest / least
            assert exact <= bound * (1.0 + 1e-9)
            if noise == 0.0:
                assert bound == pytest.approx(exact, rel=1e-6)


# --- identity (13) and the unseen-event limit (20) ------------------------------------------------------


def small_chain(rng, pairs=3, gamma=0.8):
    """M(x, x') for one policy, mean rewards, q*, start, discounted visits: everything a table of `pairs` pairs needs."""
    moves, rewards = rng.dirichlet(np.ones(pairs), pairs), rng.uniform(size=pairs)
    start = rng.dirichlet(np.ones(pairs))
    inverse = np.linalg.inv(np.eye(pairs) - gamma * moves)
    return moves, rewards, inverse @ rewards, start, inverse.T @ start


def test_identity_on_any_rows(rng):
    """ΛJ* = Σ(λ_i E₀q̂ − v_i R̂q̂_i) + ⟨e, μ⟩ + Σ v_i Z_i, exactly, for any weights, rates and center."""
    gamma = 0.8
    moves, rewards, q, start, _ = small_chain(rng)
    at = rng.integers(3, size=40)
    following = np.array([rng.choice(3, p=moves[x]) for x in at])
    logged = rewards[at] + rng.normal(size=40)
    v, rates, center = rng.normal(size=40), rng.uniform(size=40), rng.normal(size=3)
    residual = center[at] - gamma * center[following] - logged
    noise = q[at] - gamma * q[following] - logged
    eye = np.eye(3)
    mu = rates.sum() * start - v @ (eye[at] - gamma * eye[following])
    right = rates.sum() * start @ center - v @ residual + (q - center) @ mu + v @ noise
    assert rates.sum() * start @ q == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("lowest", [0.0, -2.0])
def test_change_of_value_by_an_unseen_event(lowest, rng):
    """J_p − J* = p Σ_{x∈A} occ_p(x) (y_† − q*(x)), occ_p the visits in the changed environment."""
    gamma, p, changed = 0.8, 0.07, np.array([True, False, True])
    moves, rewards, q, start, visits = small_chain(rng)
    keep = np.where(changed, 1.0 - p, 1.0)
    inverse = np.linalg.inv(np.eye(3) - gamma * keep[:, None] * moves)
    q_p = inverse @ (keep * rewards + np.where(changed, p * lowest, 0.0))
    visits_p = inverse.T @ start
    exact = p * np.sum((visits_p * (lowest - q))[changed])
    assert start @ (q_p - q) == pytest.approx(exact, rel=1e-12)
    first_order = p * np.sum((visits * (lowest - q))[changed])
    assert first_order == pytest.approx(exact, rel=5 * p)  # (1 + O(p))


def test_unseen_event_limit_by_enumerating_all_logs():
    """A lower end valid at α in the changed environment exceeds J_p in the first one with probability ≤ β + P(N_A > m).

    Two pairs, coins for rewards, six rows, behavior that goes on to the other pair after a 1. The most that any valid
    lower end can do is to exceed J_p on the logs that are likeliest in the first environment, until α is used up.
    """
    alpha, rows, coin = 0.2, 6, np.array([0.5, 0.3])
    for m, beta in itertools.product((2, 3, 6), (0.3, 0.5, 0.9)):
        p = 1.0 - (alpha / beta) ** (1.0 / m)
        logs = []
        for rewards in itertools.product((0, 1, None), repeat=rows):  # None: the unseen event, only at pair 0
            pair, first, changed, visits = 0, 1.0, 1.0, 0
            for reward in rewards:
                jump = p if pair == 0 else 0.0
                chance = 0.0 if reward is None else (coin[pair] if reward else 1.0 - coin[pair])
                first *= chance
                changed *= jump if reward is None else (1.0 - jump) * chance
                visits += pair == 0
                pair = 1 - pair if reward else pair
            logs.append((first, changed, visits))
        first, changed, visits = np.array(logs).T
        assert first.sum() == pytest.approx(1.0)
        assert changed.sum() == pytest.approx(1.0)
        seen = first > 0.0
        np.testing.assert_allclose(changed[seen], first[seen] * (1.0 - p) ** visits[seen], rtol=1e-12)
        order = np.argsort(-np.divide(first, changed, out=np.zeros_like(first), where=changed > 0.0))
        spent = np.cumsum(changed[order]) <= alpha
        exceeded = first[order][spent].sum()
        assert exceeded <= beta + first[visits > m].sum() + 1e-12
    assert exceeded > alpha  # more than α: the limit is about the other environment
