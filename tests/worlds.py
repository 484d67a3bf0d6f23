"""Small problems shared by the tests of the solvers and of the theory's relations."""

import numpy as np

import bondic as b
from bondic.functions.functions import ExpansionFunction, TermExpansion
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminations")
KEYS = ("truncations", "episode_ids", "timesteps")


def log_of(rollout, *, keys=True):
    """A rollout as a log, with or without its episode keys."""
    return b.Transitions(*(getattr(rollout, name) for name in COLUMNS + (KEYS if keys else ())))


# ---------------------------------------------------------------------------------------------- random tables


def noise_log(rng, n, *, dimension=2, n_actions=3, continuous=False, ending=0.1):
    """Rows without any law behind them: solvers and identities must not care."""
    actions = rng.standard_normal((n, 1)) if continuous else rng.integers(n_actions, size=n)
    return b.Transitions(
        rng.standard_normal((n, dimension)),
        actions,
        rng.uniform(-1.0, 1.0, n),
        rng.standard_normal((n, dimension)),
        rng.random(n) < ending,
    )


def softmax_policy(n_actions=3):
    """pi(a | s) proportional to exp(a s_1)."""
    return b.SoftmaxPolicy(lambda s: s[:, :1] * np.arange(n_actions))


def wobbling_sampler(spread=0.5):
    """a = s_1 / 2 + noise: a continuous policy; without noise its means over actions are exact."""
    return b.CallableSampler(
        lambda s, rng: 0.5 * s[:, :1] + spread * rng.standard_normal((len(s), 1)), deterministic=spread == 0
    )


def noise_problem(rng, n, *, continuous=False, starts=3, away=0.0, spread=0.5, gamma=0.9, **statements):
    """A question on rows without a law; 2-d states, 3 actions or 1-d actions with 2 draws per next state.

    The initial states lie `away` from the others; `spread` is that of the continuous policy."""
    log = noise_log(rng, n, continuous=continuous)
    initial = b.InitialStates.exact(away + rng.standard_normal((starts, 2)), rng.dirichlet(np.ones(starts)))
    policy = wobbling_sampler(spread) if continuous else softmax_policy()
    draws = {"draws": 2, "initial_draws": 2} if continuous else {}
    more = {**draws, "accept": None, **statements}  # rows without a law are not inspected
    return b.make_problem(log, policy, initial, gamma=gamma, reward_range=(-1, 1), **more)


# ---------------------------------------------------------------------------------------------- known answers


def synthetic_problem(mdp: SyntheticMDP, rollout, **statements):
    """J*, q* and the space of q* are known: k~ = Gaussian x Dirac + offset."""
    initial = b.InitialStates.exact(mdp.initial_states, mdp.initial_probs)
    policy = b.CallablePolicy(mdp.target_probs)
    return b.make_problem(
        log_of(rollout), policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range, **statements
    )


def synthetic_kernel(mdp: SyntheticMDP):
    return b.Gaussian(mdp.bandwidth) * b.Dirac() + b.Constant(mdp.offset)


def synthetic_truth(mdp: SyntheticMDP, layout):
    """q* as a function of that space, with its exact norm."""
    slots = np.zeros((len(mdp.weights), layout.slots))
    slots[np.arange(len(mdp.weights)), mdp.center_actions] = mdp.weights
    constant = TermExpansion(np.zeros((1, layout.dimension)), np.array([[mdp.constant / mdp.offset]]))
    return ExpansionFunction(synthetic_kernel(mdp), layout, (TermExpansion(mdp.centers, slots), constant))


def tabular_problem(mdp: TabularMDP, log, **statements):
    states = np.arange(len(mdp.initial_probs), dtype=float)[:, None]
    initial = b.InitialStates.exact(states, mdp.initial_probs)
    options = {"gamma": mdp.gamma, "reward_range": mdp.reward_range, **statements}
    return b.make_problem(log, b.TablePolicy(mdp.target), initial, **options)


def table_kernel():
    """All tables, |q|^2 = sum of squares."""
    return b.Dirac(on="state") * b.Dirac(on="action")


def table_function(table, layout, kernel=None):
    """A table (states, actions), or (times, states, actions), as a function with |q|^2 = sum of squares."""
    table = np.asarray(table, dtype=float)
    states = np.arange(table.shape[-2], dtype=float)
    points = states[:, None]
    if table.ndim == 3:
        points = np.array([(s, t) for t in range(table.shape[0]) for s in states])
    return b.KernelFunction(kernel or table_kernel(), layout, points, table.reshape(-1, table.shape[-1]))


def exact_log(mdp: TabularMDP, copies):
    """Every pair (s, a) `copies[s, a]` times, s' in its exact proportions: empirical means are expectations.

    P must consist of multiples of 1 / (number of copies); rewards must not depend on s'; nothing terminates."""
    rows = []
    for s, a in np.ndindex(*copies.shape):
        counts = mdp.transitions[s, a] * copies[s, a]
        assert np.allclose(counts, np.rint(counts), rtol=0, atol=1e-9)
        rows += [(s, a, mdp.expected_rewards[s, a], t) for t in range(len(counts)) for _ in range(round(counts[t]))]
    s, a, r, t = map(np.array, zip(*rows, strict=True))
    return b.Transitions(s[:, None], a, r, t[:, None], np.zeros(len(rows), dtype=bool))


# ----------------------------------------------------------------------------------------- dense kernel algebra


def pairs_of(cloud_points, cloud_weights):
    """Slot weights as a list of weighted pairs: points (N, D), weights (N, slots) -> points, slots, weights."""
    count, slots = cloud_weights.shape
    return np.repeat(cloud_points, slots, axis=0), np.tile(np.arange(slots), count), cloud_weights.ravel()


def measure_of(problem, omega, *, start=True):
    """mu_omega of (4) written out: points, slots, weights."""
    n, slots = len(problem), problem.layout.slots
    logged = np.zeros((n, slots))
    logged[np.arange(n), problem.whole().slots] = -omega / n
    after = problem.whole().next.weights * (problem.gamma * omega / n)[problem.whole().next.rows, None]
    clouds = [(problem.whole().logged, logged), (problem.whole().next.points, after)]
    if start:
        share = problem.initial_states.weights[problem.initial.rows, None]
        clouds.append((problem.initial.points, problem.initial.weights * share))
    lists = [pairs_of(points, weights) for points, weights in clouds]
    return tuple(np.concatenate(part) for part in zip(*lists, strict=True))


def gaussian_matrix(x, y, bandwidth):
    """exp(-|x_i - y_j|^2 / (2 h^2)), h one number or one per dimension."""
    return np.exp(-0.5 * np.sum(((x[:, None, :] - y[None, :, :]) / bandwidth) ** 2, axis=2))


def exact_world():
    """Transition probabilities are multiples of 1/8, so that a log can be its own expectation."""
    rng = np.random.default_rng(5)
    transitions = rng.multinomial(8, np.ones(3) / 3, size=(3, 2)) / 8
    behavior = np.full((3, 2), 0.5)
    return TabularMDP(
        transitions, rng.uniform(-1, 1, (3, 2)), np.array([0.2, 0.3, 0.5]), rng.dirichlet(np.ones(2), 3), behavior, 0.7,
        (-1.0, 1.0),
    )  # fmt: skip


def exact_problem():
    mdp = exact_world()
    return mdp, tabular_problem(mdp, exact_log(mdp, np.array([[16, 8], [8, 24], [8, 16]])))
