"""A slow twin of the library's formulas: plain loops, 50 digits, raw arrays in, `mpf` out.

The tests compare the library with this file, so nothing here may import it and nothing here is clever: a
reader should be able to hold the formula beside the loop. Equation numbers are those of the theory pages.
Made for at most some 30 rows.

Words used throughout
    point     Point(state, action, time); `action` is an index (discrete) or a list (continuous);
              `time` is None without a horizon
    logged    list of the points x_i
    nexts     one list per row of (weight, point): the mean over the target policy at s'_i;
              empty when there is no next point
    initial   list of (weight, point): the mean over d_0 and the target policy; the weights sum to one
    measure   list of (weight, point): a signed measure, such as mu_omega of (4)
    kernel    a function of two points (or, for the base kernels, of two vectors)
"""

from collections import namedtuple

import numpy as np
from mpmath import mp, mpf
from scipy import sparse

mp.dps = 50

LISTS = (list, tuple, np.ndarray)
Point = namedtuple("Point", "state action time")


def number(x):
    """A float, exactly; an mpf, untouched."""
    return x if isinstance(x, mpf) else mpf(float(x))


def vector(x):
    """A list of mpf from a list, an array or a single number."""
    return [number(v) for v in x] if isinstance(x, LISTS) else [number(x)]


# ----------------------------------------------------------------------------------------- kernels on vectors


def _scales(bandwidths, dimension):
    h = vector(bandwidths)
    return h * dimension if len(h) == 1 else h


def _scaled_differences(x, y, bandwidths):
    x, y = vector(x), vector(y)
    h = _scales(bandwidths, len(x))
    assert len(x) == len(y) == len(h)
    return [(x[j] - y[j]) / h[j] for j in range(len(x))]


def gaussian(x, y, bandwidths):
    """exp(-1/2 sum ((x_j - y_j) / h_j)^2)"""
    total = mpf(0)
    for z in _scaled_differences(x, y, bandwidths):
        total += z * z
    return mp.exp(-total / 2)


def laplace(x, y, bandwidths):
    """exp(-sum |x_j - y_j| / h_j)"""
    total = mpf(0)
    for z in _scaled_differences(x, y, bandwidths):
        total += abs(z)
    return mp.exp(-total)


def matern(x, y, bandwidths, nu):
    """nu = 1/2, 3/2, 5/2 at the Euclidean length r of the scaled difference."""
    total = mpf(0)
    for z in _scaled_differences(x, y, bandwidths):
        total += z * z
    r = mp.sqrt(total)
    if nu == 0.5:
        return mp.exp(-r)
    if nu == 1.5:
        return (1 + mp.sqrt(3) * r) * mp.exp(-mp.sqrt(3) * r)
    if nu == 2.5:
        return (1 + mp.sqrt(5) * r + 5 * r * r / 3) * mp.exp(-mp.sqrt(5) * r)
    raise ValueError(nu)


def constant(x, y, value=1):  # noqa: ARG001
    return number(value)


def dirac(x, y):
    return mpf(1) if vector(x) == vector(y) else mpf(0)


def random_feature(x, y, frequencies):
    """(1/m) sum_j cos(w_j . (x - y)): cosine and sine pairs, so k(x, x) = 1."""
    x, y = vector(x), vector(y)
    total = mpf(0)
    for w in frequencies:
        w = vector(w)
        angle = mpf(0)
        for j in range(len(x)):
            angle += w[j] * (x[j] - y[j])
        total += mp.cos(angle)
    return total / len(frequencies)


def random_features(x, frequencies):
    """phi(x) = (cos(w_1 x), ..., cos(w_m x), sin(w_1 x), ..., sin(w_m x)) / sqrt(m).

    phi(x) . phi(y) is `random_feature`."""
    x = vector(x)
    angles = [sum((number(w[j]) * x[j] for j in range(len(x))), mpf(0)) for w in frequencies]
    root = mp.sqrt(len(angles))
    return [mp.cos(a) / root for a in angles] + [mp.sin(a) / root for a in angles]


# ------------------------------------------------------------------------------------------ kernels on points


def on_joined(base):
    """base(vector of state and action, the same) as a kernel on points."""
    return lambda p, q: base(vector(p.state) + vector(p.action), vector(q.state) + vector(q.action))


def on_product(state_kernel, action_kernel):
    return lambda p, q: state_kernel(p.state, q.state) * action_kernel(p.action, q.action)


def with_time(kernel, time_kernel):
    return lambda p, q: kernel(p, q) * time_kernel(p.time, q.time)


def masked(kernel, horizon):
    """Section 12: zero as soon as one of the times is horizon or later."""
    return lambda p, q: mpf(0) if p.time >= horizon or q.time >= horizon else kernel(p, q)


def plus(first, second):
    return lambda p, q: first(p, q) + second(p, q)


# ------------------------------------------------------------------------------------------------- the points


def at(state, action, time=None):
    """A point; vectors become lists of mpf once and for all, an index stays an index."""
    return Point(
        vector(state) if isinstance(state, LISTS) else state,
        vector(action) if isinstance(action, LISTS) else action,
        time,
    )


def logged_points(states, actions, times=None):
    return [at(states[i], actions[i], None if times is None else int(times[i])) for i in range(len(states))]


def has_next(terminal, times=None, horizon=None):
    """False after termination, and in the last step before the horizon (t + 1 >= H)."""
    answer = []
    for i in range(len(terminal)):
        ends = bool(terminal[i])
        if horizon is not None and int(times[i]) + 1 >= horizon:
            ends = True
        answer.append(not ends)
    return answer


def slots(probabilities):
    """(weight, action) of a discrete policy at one state."""
    return [(number(p), a) for a, p in enumerate(probabilities)]


def draws(actions):
    """(weight, action) of m drawn actions at one state: 1/m each."""
    return [(mpf(1) / len(actions), action) for action in actions]


def next_points(next_states, answers, terminal, times=None, horizon=None):
    """answers[i]: `slots` or `draws` at s'_i."""
    nexts = []
    for i, going_on in enumerate(has_next(terminal, times, horizon)):
        time = None if times is None else int(times[i]) + 1
        nexts.append([(weight, at(next_states[i], a, time)) for weight, a in answers[i]] if going_on else [])
    return nexts


def initial_points(initial_states, answers, weights=None, time=None):
    """answers[j]: `slots` or `draws` at initial state j; equal weights unless given."""
    points = []
    for j, state in enumerate(initial_states):
        own = mpf(1) / len(initial_states) if weights is None else number(weights[j])
        points += [(own * weight, at(state, a, time)) for weight, a in answers[j]]
    return points


# ------------------------------------------------------------------------------ weight functions and measures


def gram(kernel, points):
    """Matrix k(p_i, p_j) as a list of lists."""
    matrix = [[None] * len(points) for _ in points]
    for i in range(len(points)):
        for j in range(i + 1):
            matrix[i][j] = matrix[j][i] = kernel(points[i], points[j])
    return matrix


def omega_values(kernel, alpha, centers, points):
    """omega(p) = sum_j alpha_j k(p, c_j) at every p."""
    values = []
    for p in points:
        total = mpf(0)
        for j in range(len(centers)):
            total += number(alpha[j]) * kernel(p, centers[j])
        values.append(total)
    return values


def omega_norm(kernel, alpha, centers):
    """sqrt(alpha' K alpha)"""
    total = mpf(0)
    for i in range(len(centers)):
        for j in range(len(centers)):
            total += number(alpha[i]) * number(alpha[j]) * kernel(centers[i], centers[j])
    return mp.sqrt(total)


def signed_measure(omega, logged, nexts, initial, gamma):
    """mu_omega of (4): initial points, +gamma omega_i / n on next points, -omega_i / n on logged ones."""
    n = len(logged)
    gamma = number(gamma)
    measure = [(number(p), point) for p, point in initial]
    for i in range(n):
        for weight, point in nexts[i]:
            measure.append((gamma * number(omega[i]) / n * weight, point))
        measure.append((-number(omega[i]) / n, logged[i]))
    return measure


def norm_squared(kernel, measure):
    """c' K c: every point with itself once, every pair of points twice."""
    total = mpf(0)
    for i in range(len(measure)):
        for j in range(i + 1):
            (c, p), (d, q) = measure[i], measure[j]
            total += (1 if i == j else 2) * c * d * kernel(p, q)
    return total


def integral(f, measure):
    total = mpf(0)
    for weight, point in measure:
        total += weight * f(point)
    return total


def mu_norm_squared(kernel, omega, logged, nexts, initial, gamma):
    """|mu_omega|^2 of (7)."""
    return norm_squared(kernel, signed_measure(omega, logged, nexts, initial, gamma))


# ------------------------------------------------------------------------------------ residuals and estimates


def expansion(kernel, theta, points):
    """q(p) = sum_j theta_j k(p, p_j)"""
    return lambda p: omega_values(kernel, theta, points, [p])[0]


def zero(point):  # noqa: ARG001
    return mpf(0)


def residuals(q, logged, nexts, rewards, gamma):
    """(2): q(x_i) - gamma q(x'_i) - r_i; q(x'_i) is the mean over next actions, 0 without a next point."""
    values = []
    for i in range(len(logged)):
        following = integral(q, nexts[i])
        values.append(q(logged[i]) - number(gamma) * following - number(rewards[i]))
    return values


def kernel_bellman_loss(kernel, residual_values, logged):
    """(8): sqrt((1/n^2) sum_ij R_i k(x_i, x_j) R_j)"""
    n = len(logged)
    total = mpf(0)
    for i in range(n):
        for j in range(n):
            total += number(residual_values[i]) * kernel(logged[i], logged[j]) * number(residual_values[j])
    return mp.sqrt(total) / n


def doubly_robust(initial_value, omega, residual_values):
    """First line of (5): E_0[q] - (1/n) sum omega_i R_i; initial_value is E_0[q]."""
    n = len(omega)
    total = mpf(0)
    for i in range(n):
        total += number(omega[i]) * number(residual_values[i])
    return number(initial_value) - total / n


def identity_terms(q_hat, q_star, omega, logged, nexts, initial, rewards, gamma):
    """The three lines of (5): estimate, bias, noise. Their sum is E_0[q*]."""
    estimate = doubly_robust(integral(q_hat, initial), omega, residuals(q_hat, logged, nexts, rewards, gamma))
    bias = integral(lambda p: q_star(p) - q_hat(p), signed_measure(omega, logged, nexts, initial, gamma))
    noise = -doubly_robust(0, omega, residuals(q_star, logged, nexts, rewards, gamma))
    return estimate, bias, noise


# ------------------------------------------------------------------------------------------- ranges and noise


def geometric_sum(gamma, count):
    """s_k = 1 + gamma + ... + gamma^(k-1), term by term."""
    total, power = mpf(0), mpf(1)
    for _ in range(count):
        total += power
        power *= number(gamma)
    return total


def value_range(reward_low, reward_high, gamma, may_terminate=False, horizon=None, time=0):
    """(6). Infinite horizon (gamma < 1) or horizon H at `time`; (0, 0) at H and later."""
    low, high, gamma = number(reward_low), number(reward_high), number(gamma)
    if horizon is None:
        if gamma >= 1:
            raise ValueError("gamma = 1 needs a horizon")
        length = 1 / (1 - gamma)
    elif time >= horizon:
        return mpf(0), mpf(0)
    else:
        length = geometric_sum(gamma, horizon - time)
    if may_terminate:  # the number of rewards is anything from one to all of them
        return min(low, low * length), max(high, high * length)
    return low * length, high * length


def range_width(*args, **kwargs):
    low, high = value_range(*args, **kwargs)
    return high - low


def noise_constant(constant, reward_low, reward_high, gamma, k_max=1, may_terminate=False, horizon=None):
    """c of (9). With a horizon B is the width at time 0, the largest, the paper's 1/(1 - gamma) is s_H."""
    if constant == "paper":
        largest = max(abs(number(reward_low)), abs(number(reward_high)))
        length = 1 / (1 - number(gamma)) if horizon is None else geometric_sum(gamma, horizon)
        return 4 * number(k_max) * (largest * length) ** 2
    width = range_width(reward_low, reward_high, gamma, may_terminate, horizon, 0)
    if constant == "range":
        return number(k_max) * width**2
    if constant == "half":
        return number(k_max) * width**2 / 4
    raise ValueError(constant)


def epsilon(c, n, delta):
    """(9): sqrt(2 c log(2/delta) / n). n must have been fixed beforehand."""
    return mp.sqrt(2 * number(c) * mp.log(2 / number(delta)) / n)


def p_value(c, n, smallest_loss):
    """The smallest delta with epsilon(c, n, delta) <= the smallest loss over Q; at most 1."""
    return min(mpf(1), 2 * mp.exp(-n * number(smallest_loss) ** 2 / (2 * number(c))))


def eps_fixed_lambda(lam, delta, widths, diagonal):
    """Section 4: n eps = (log(2/delta) + lam^2 sum B_i^2 k(x_i, x_i) / 8) / lam.

    lam is fixed beforehand; n, the widths B_i and the x_i may be random."""
    n = len(widths)
    total = mpf(0)
    for i in range(n):
        total += number(widths[i]) ** 2 * number(diagonal[i])
    return (mp.log(2 / number(delta)) + number(lam) ** 2 * total / 8) / number(lam) / n


def best_lambda(delta, n, width, k_max=1):
    """sqrt(8 log(2/delta) / (n K_max B^2)), with which `eps_fixed_lambda` is (9) with constant "half"."""
    return mp.sqrt(8 * mp.log(2 / number(delta)) / (n * number(k_max) * number(width) ** 2))


def initial_term_sample(low, high, delta, count):
    """Section 1, d_0 seen through `count` independent states: (v_hi - v_lo) sqrt(log(2/delta) / (2 n_0))."""
    return (number(high) - number(low)) * mp.sqrt(mp.log(2 / number(delta)) / (2 * count))


def initial_term_exact(low, high, delta, weights, draws, deterministic=False):
    """Section 1, d_0 known, m action draws a state: (v_hi - v_lo) sqrt(log(2/delta) sum p_j^2 / (2m)).

    Nothing is drawn, and nothing is paid, under a deterministic policy."""
    if deterministic:
        return mpf(0)
    squares = mpf(0)
    for p in weights:
        squares += number(p) ** 2
    return (number(high) - number(low)) * mp.sqrt(mp.log(2 / number(delta)) * squares / (2 * draws))


def misspecification_allowance(beta, omega, gamma, going_on):
    """Section 3: beta (1 + (1/n) sum |omega_i| (1 + gamma [row i has a next point])), each side of (10)."""
    n = len(omega)
    total = mpf(0)
    for i in range(n):
        total += abs(number(omega[i])) * (1 + (number(gamma) if going_on[i] else 0))
    return number(beta) * (1 + total / n)


def dual_bounds(estimate, radius, mu_norm, noise, extra=0):
    """(10): (F-, F+) = estimate -+ (r_Q |mu_omega| + noise + extra); noise is eps |omega|."""
    half = number(radius) * number(mu_norm) + number(noise) + number(extra)
    return number(estimate) - half, number(estimate) + half


def rejection_margin(kernel_q, omega, residual_values, logged, nexts, gamma, radius, noise, beta=0):
    """|(1/n) sum omega_i R_i| - r_Q |(1/n) sum omega_i (gamma k(x'_i) - k(x_i))| - noise.

    R_i belong to the center of Q; noise is eps |omega|. Above zero, for any omega whatever: "q* in Q" is
    rejected. With beta the class is Q widened by beta everywhere."""
    moment = abs(doubly_robust(0, omega, residual_values))
    balance = mp.sqrt(norm_squared(kernel_q, signed_measure(omega, logged, nexts, [], gamma)))
    widening = misspecification_allowance(beta, omega, gamma, [len(row) > 0 for row in nexts]) - number(beta)
    return moment - number(radius) * balance - number(noise) - widening


# --------------------------------------------------------------------- optima of small problems, conic solver


def _factor(matrix):
    """F with F F' = matrix up to rounding (eigendecomposition, tiny negative eigenvalues set to zero)."""
    values, vectors = np.linalg.eigh(np.array([[float(v) for v in row] for row in matrix]))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def problem_matrices(kernel_w, kernel_q, logged, nexts, initial, rewards, gamma, q_hat=zero):
    """(g, psi_0, A) of (11) as float arrays, for the whole of W.

    omega(x_i) = (Phi w)_i and |omega| = |w|, where Phi Phi' is the Gram matrix of the rows."""
    n = len(logged)
    phi = _factor(gram(kernel_w, logged))
    points, place = [], {}

    def index(point):
        key = repr((vector(point.state), vector(point.action), point.time))
        if key not in place:
            place[key] = len(points)
            points.append(point)
        return place[key]

    spread = [(index(x), [(weight, index(p)) for weight, p in row]) for x, row in zip(logged, nexts, strict=True)]
    start = [(weight, index(p)) for weight, p in initial]
    psi = _factor(gram(kernel_q, points))
    psi_0 = np.zeros(psi.shape[1])
    for weight, j in start:
        psi_0 += float(weight) * psi[j]
    a = np.zeros((psi.shape[1], phi.shape[1]))
    for i, (own, following) in enumerate(spread):
        difference = -psi[own]
        for weight, j in following:
            difference = difference + float(gamma) * float(weight) * psi[j]
        a += np.outer(difference, phi[i]) / n
    g = np.zeros(phi.shape[1])
    for i, r in enumerate(residuals(q_hat, logged, nexts, rewards, gamma)):
        g -= phi[i] * float(r) / n
    return g, psi_0, a


def _conic(cost, cones, offsets):
    """min cost'z with every `offset + cone @ z` in a second-order cone: first entry >= length of the rest."""
    import clarabel  # a machine with a GPU may lack it, and needs the rest of this file

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((len(cost), len(cost))),
        np.asarray(cost, dtype=float),
        sparse.csc_matrix(-np.vstack(cones)),
        np.concatenate(offsets),
        [clarabel.SecondOrderConeT(len(offset)) for offset in offsets],
        settings,
    ).solve()
    return str(solution.status), np.array(solution.x)


def _gauge(matrix, slot, columns):
    """Rows of a cone: first the variable `slot`, then matrix @ w on the leading variables."""
    block = np.zeros((len(matrix) + 1, columns))
    block[1:, : matrix.shape[1]] = matrix
    if slot is not None:
        block[0, slot] = 1.0
    return block


def smallest_radius(g, a, eps):
    """r_min = min{ |e| : |g + A'e| <= eps }, measured from the center of Q; inf when no e is feasible."""
    g, a = np.asarray(g, float), np.asarray(a, float)
    d = a.shape[0]
    if np.linalg.norm(g) <= eps:
        return 0.0
    cones = [_gauge(np.eye(d), d, d + 1), _gauge(a.T, None, d + 1)]
    status, z = _conic(np.eye(d + 1)[d], cones, [np.zeros(d + 1), np.concatenate([[eps], g])])
    return np.inf if "Infeasible" in status else float(np.linalg.norm(z[:d]))


def smallest_loss(g, a, radius):
    """(min, w): the smallest L_W over Q = max_{|w| <= 1} (-g'w - r |A w|), and the best witness w."""
    g, a = np.asarray(g, float), np.asarray(a, float)
    d = len(g)
    cones = [_gauge(a, d, d + 1), _gauge(np.eye(d), None, d + 1)]
    _, z = _conic(np.concatenate([g, [radius]]), cones, [np.zeros(len(a) + 1), np.concatenate([[1.0], np.zeros(d)])])
    w = z[:d] / max(1.0, np.linalg.norm(z[:d]))
    return max(0.0, float(-g @ w - radius * np.linalg.norm(a @ w))), w


# -------------------------------------------------------------------------------------- exact finite problems


def _going_on(terminal, s, a):
    return mpf(1) if terminal is None else 1 - number(terminal[s][a])


def _pairs(rewards):
    return [(s, a) for s in range(len(rewards)) for a in range(len(rewards[s]))]


def tabular_q_horizon(transitions, rewards, policy, gamma, horizon, terminal=None):
    """q[t][s][a] for t = 0 .. horizon by going backwards; q[horizon] is zero."""
    table = [[[mpf(0)] * len(row) for row in rewards] for _ in range(horizon + 1)]
    for t in range(horizon - 1, -1, -1):
        for s, a in _pairs(rewards):
            total = mpf(0)
            for u in range(len(rewards)):
                for b in range(len(rewards[u])):
                    total += number(transitions[s][a][u]) * number(policy[u][b]) * table[t + 1][u][b]
            table[t][s][a] = number(rewards[s][a]) + number(gamma) * _going_on(terminal, s, a) * total
    return table


def tabular_value(q, initial, policy):
    """J* of (3): sum_s d_0(s) sum_a pi(a|s) q(s, a)"""
    total = mpf(0)
    for s, a in _pairs(q):
        total += number(initial[s]) * number(policy[s][a]) * q[s][a]
    return total
