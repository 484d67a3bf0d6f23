"""Logs, policies, starts, problems and settings for tests: one maker each, with keywords for what a test cares about."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future

import numpy as np

import bondic
from bondic.core.balls import Instruments
from bondic.core.dual.bound import Setting
from bondic.core.dual.noise import Pinelis
from bondic.core.dual.weighing import weights_at_rows as all_weights
from bondic.core.functions import ExpansionFunction, KernelFunction, TermExpansion
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.sums.reference import REFERENCE
from bondic.engines.sums import STANDARD
from bondic.policies.protocol import CallableSampler
from bondic.rows.rows import Rows
from bondic.search.basis import make_basis
from bondic.search.model import build_model
from bondic_lab.worlds.synthetic import SyntheticMDP
from bondic_lab.worlds.tabular import TabularMDP

COLUMNS = ("observations", "actions", "rewards", "next_observations", "terminations", "truncations", "episode_ids",
           "timesteps", "behavior_action_probs")  # fmt: skip


# --------------------------------------------------------------------------------------------------------- logs


def part(
    log: object, keep: object = slice(None), *, drop: tuple[str, ...] = (), **changed: object
) -> bondic.Transitions:
    """Some rows of a log or rollout, without the columns in `drop`, and with others in place of some."""
    found = {name: getattr(log, name) for name in COLUMNS if name not in drop}
    columns = {name: column[keep] for name, column in found.items() if column is not None}
    return bondic.Transitions(**{**columns, **changed})


def as_log(rollout: object) -> bondic.Transitions:
    return part(rollout)


def columns(n=10, *, seed=0, dimension=2, n_actions=2, action_dim=0, ending=0.0, **changes):
    """Columns of rows without any law behind them; continuous actions with `action_dim`, others with `changes`."""
    rng = np.random.default_rng(seed)
    return {
        "observations": rng.normal(size=(n, dimension)),
        "actions": rng.normal(size=(n, action_dim)) if action_dim else rng.integers(0, n_actions, size=n),
        "rewards": rng.uniform(-1, 1, size=n),
        "next_observations": rng.normal(size=(n, dimension)),
        "terminations": rng.random(n) < ending,
    } | changes


def twice(data):
    """The same rows pasted again below themselves."""
    return {name: np.concatenate([column, column]) for name, column in data.items()}


def noise_log(rng, n, *, dimension=2, n_actions=3, continuous=False, ending=0.1):
    """Rows without any law behind them: solvers and identities must not care."""
    actions = rng.standard_normal((n, 1)) if continuous else rng.integers(n_actions, size=n)
    return bondic.Transitions(
        rng.standard_normal((n, dimension)),
        actions,
        rng.uniform(-1.0, 1.0, n),
        rng.standard_normal((n, dimension)),
        rng.random(n) < ending,
    )


def softmax_policy(n_actions=3):
    """pi(a | s) proportional to exp(a s_1)."""
    return bondic.SoftmaxPolicy(lambda s: s[:, :1] * np.arange(n_actions))


def wobbling_sampler(spread=0.5):
    """a = s_1 / 2 + noise: a continuous policy; without noise its means over actions are exact."""
    return CallableSampler(
        lambda s, rng: 0.5 * s[:, :1] + spread * rng.standard_normal((len(s), 1)), deterministic=spread == 0
    )


def noise_problem(rng, n, *, continuous=False, starts=3, away=0.0, spread=0.5, gamma=0.9, **statements):
    """A question on rows without a law; 2-d states, 3 actions or 1-d actions with 2 draws per next state.

    The initial states lie `away` from the others; `spread` is that of the continuous policy."""
    log = noise_log(rng, n, continuous=continuous)
    initial = bondic.InitialStates.exact(away + rng.standard_normal((starts, 2)), rng.dirichlet(np.ones(starts)))
    policy = wobbling_sampler(spread) if continuous else softmax_policy()
    draws = {"draws": 2, "initial_draws": 2} if continuous else {}
    more = {**draws, "accept": None, **statements}  # rows without a law are not inspected
    return bondic.make_problem(log, policy, initial, gamma=gamma, reward_range=(-1, 1), **more)


# ------------------------------------------------------------------------------------- worlds with known values


def synthetic(rows: int = 400, seed: int = 0, gamma: float = 0.8, **more: object):
    """(MDP, log, policy, initial states) of the continuous-state problem with known q*."""
    mdp = SyntheticMDP.default(gamma, seed=1, **more)
    log = as_log(mdp.rollout(max(1, rows // 20), min(rows, 20), np.random.default_rng(seed)))
    return (
        mdp,
        log,
        bondic.CallablePolicy(mdp.target_probs),
        bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
    )


def tabular(rows: int = 400, seed: int = 0, gamma: float = 0.8, **more: object):
    """(MDP, log, policy, initial states) of a random tabular problem."""
    mdp = TabularMDP.random(np.random.default_rng(11), gamma=gamma, **more)
    log = as_log(mdp.rollout(max(1, rows // 20), min(rows, 20), np.random.default_rng(seed)))
    states = np.arange(mdp.initial_probs.size, dtype=float)[:, None]
    return mdp, log, bondic.TablePolicy(mdp.target), bondic.InitialStates.exact(states, mdp.initial_probs)


def continuous(rows: int = 200, seed: int = 0):
    """(log, policy, initial states) with one-dimensional continuous actions."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(rows, 2))
    actions = rng.normal(size=(rows, 1))
    following = 0.7 * states + 0.2 * actions + 0.1 * rng.normal(size=(rows, 2))
    rewards = np.tanh(states[:, 0] - 0.3 * actions[:, 0] ** 2)
    log = bondic.Transitions(states, actions, rewards, following, rng.random(rows) < 0.05)
    policy = bondic.GaussianPolicy(lambda s: 0.4 * s[:, :1], 0.2)
    return log, policy, bondic.InitialStates.exact(rng.normal(size=(6, 2)))


def world_problem(make=synthetic, rows=400, *, seed=0, gamma=0.8, **statements):
    """(MDP, problem) of `synthetic` or `tabular`; the problem knows its log, its policy and its initial states."""
    mdp, log, policy, initial = make(rows, seed=seed, gamma=gamma)
    terms = {"gamma": gamma, "reward_range": mdp.reward_range, **statements}
    return mdp, bondic.make_problem(log, policy, initial, **terms)


def synthetic_problem(mdp: SyntheticMDP, rollout, **statements):
    """J*, q* and the space of q* are known: k~ = Gaussian x Dirac + offset."""
    initial = bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs)
    policy = bondic.CallablePolicy(mdp.target_probs)
    return bondic.make_problem(
        as_log(rollout), policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range, **statements
    )


def synthetic_kernel(mdp: SyntheticMDP):
    return bondic.Gaussian(mdp.bandwidth) * Dirac() + Constant(mdp.offset)


def synthetic_truth(mdp: SyntheticMDP, layout):
    """q* as a function of that space, with its exact norm."""
    slots = np.zeros((len(mdp.weights), layout.slots))
    slots[np.arange(len(mdp.weights)), mdp.center_actions] = mdp.weights
    constant = TermExpansion(np.zeros((1, layout.dimension)), np.array([[mdp.constant / mdp.offset]]))
    return ExpansionFunction(synthetic_kernel(mdp), layout, (TermExpansion(mdp.centers, slots), constant))


def tabular_problem(mdp: TabularMDP, log, **statements):
    states = np.arange(len(mdp.initial_probs), dtype=float)[:, None]
    initial = bondic.InitialStates.exact(states, mdp.initial_probs)
    options = {"gamma": mdp.gamma, "reward_range": mdp.reward_range, **statements}
    return bondic.make_problem(log, bondic.TablePolicy(mdp.target), initial, **options)


def table_kernel():
    """All tables, |q|^2 = sum of squares."""
    return Dirac(on="state") * Dirac(on="action")


def table_function(table, layout, kernel=None):
    """A table (states, actions), or (times, states, actions), as a function with |q|^2 = sum of squares."""
    table = np.asarray(table, dtype=float)
    states = np.arange(table.shape[-2], dtype=float)
    points = states[:, None]
    if table.ndim == 3:
        points = np.array([(s, t) for t in range(table.shape[0]) for s in states])
    return KernelFunction(kernel or table_kernel(), layout, points, table.reshape(-1, table.shape[-1]))


def exact_log(mdp: TabularMDP, copies):
    """Every pair (s, a) `copies[s, a]` times, s' in its exact proportions: empirical means are expectations.

    P must consist of multiples of 1 / (number of copies); rewards must not depend on s'; nothing terminates."""
    rows = []
    for s, a in np.ndindex(*copies.shape):
        counts = mdp.transitions[s, a] * copies[s, a]
        assert np.allclose(counts, np.rint(counts), rtol=0, atol=1e-9)
        rows += [(s, a, mdp.expected_rewards[s, a], t) for t in range(len(counts)) for _ in range(round(counts[t]))]
    s, a, r, t = map(np.array, zip(*rows, strict=True))
    return bondic.Transitions(s[:, None], a, r, t[:, None], np.zeros(len(rows), dtype=bool))


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


LAKE_TABLE = np.tile([0.2, 0.8], (6, 1))
LAKE_POLICY = bondic.TablePolicy(LAKE_TABLE)
LAKE_START = bondic.InitialStates.exact([[2.0]])
LAKE_GAMMA = 0.95


def lake(episodes: int = 150, seed: int = 0, limit: int = 40, slip: float = 0.2) -> dict[str, np.ndarray]:
    """Columns of a frozen lake on a line: place 5 pays 1 and ends, place 0 ends, a step goes the other way with `slip`."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode in range(episodes):
        place = 2
        for time in range(limit):
            action = int(rng.random() < 0.6)
            following = place + (1 if action == (rng.random() >= slip) else -1)
            over = following in (0, 5)
            cut = time == limit - 1 and not over
            rows.append((place, action, following == 5, following, over, cut, episode, time, (0.4, 0.6)[action]))
            if over:
                break
            place = following
    place, action, reward, following, over, cut, episode, time, prob = map(np.array, zip(*rows, strict=True))
    return {
        "observations": place[:, None].astype(float),
        "actions": action,
        "rewards": reward.astype(float),
        "next_observations": following[:, None].astype(float),
        "terminations": over,
        "truncations": cut,
        "episode_ids": episode,
        "timesteps": time,
        "behavior_action_probs": prob,
    }


def lake_problem(data: dict[str, np.ndarray] | None = None, **statements: object) -> Rows:
    """Walk to the right with probability 0.8; gamma = 0.95 and rewards in [0, 1] unless stated otherwise."""
    log = bondic.Transitions(**(lake() if data is None else data))
    terms = {"gamma": LAKE_GAMMA, "reward_range": (0, 1)} | statements
    return bondic.make_problem(log, LAKE_POLICY, LAKE_START, **terms)


# ----------------------------------------------------------------------------------------------- settings, bounds


def setting_of(problem, ball, weight_kernel, noise=None, *, probability=0.1, start=None, sides=2):
    """What a bound depends on besides omega; `start` is the probability paid for sampled initial states."""
    noise = Pinelis() if noise is None else noise
    return Setting(problem, ball, Instruments(weight_kernel), noise, probability, start, sides, STANDARD)


def everything(problem):
    """Initial, logged and next points: a basis on them hides nothing from a search."""
    return np.concatenate([problem.initial.points, problem.whole().logged, problem.whole().next.points])


def search_model(setting, candidates=None, *, rank=500):
    """The search model of a setting, with landmarks everywhere unless at `candidates`."""
    problem = setting.problem
    points = everything(problem) if candidates is None else candidates
    values = make_basis(setting.ball.kernel, problem.layout, points, rank=rank)
    weights = make_basis(setting.instruments.kernel, problem.layout, problem.whole().logged, rank=rank)
    return build_model(problem, weights, values, setting.ball.center)


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


class Here(Executor):
    """Tasks at once, in this process; whatever goes in and comes out is pickled, as on the way to another one."""

    def submit(self, task, /, *given):
        future = Future()
        try:
            task, given = pickle.loads(pickle.dumps((task, given)))
            future.set_result(pickle.loads(pickle.dumps(task(*given))))
        except Exception as problem:
            future.set_exception(pickle.loads(pickle.dumps(problem)))
        return future


def weights_at_rows(rows, omega):
    """ω at the rows as floats, and a bound of their error."""
    (found,) = all_weights(rows, [omega], REFERENCE)
    return found
