"""Small problems in two forms: as the library sees them, and as the slow twin of `naive` does.

Both forms are made from the same raw arrays, so that the assembly of a problem is under test as well.
Probabilities and initial weights are normalized here in 50 digits: that is what the library says they mean.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from mpmath import mpf

import bondic
import naive
from bondic.core.bounded import Enclosure
from bondic.core.dual.noise import NoiseBound, NoiseFacts
from bondic.core.functions import KernelFunction
from bondic.core.kernels.leaves import Constant, Dirac, TimeMask
from bondic.core.kernels.normal_form import Layout
from bondic.core.terms import Terms
from bondic.policies.answers import StoredAnswers
from bondic.policies.protocol import RowProbabilities
from bondic.rows.make import make_rows
from bondic.rows.rows import Rows


def normalized(row):
    exact = [naive.number(p) for p in row]
    return [p / sum(exact) for p in exact]


@dataclass
class Case:
    """A problem and its twin: points, next points, initial points, rewards and what is stated about them."""

    problem: Rows
    log: bondic.Transitions
    logged: list
    nexts: list
    initial: list
    rewards: list
    gamma: float
    reward_range: tuple
    going_on: list
    may_terminate: bool = True
    horizon: int | None = None
    times: list | None = None
    extra: dict = field(default_factory=dict)

    @property
    def discrete(self):
        return self.problem.layout.discrete

    def points(self):
        """Every point of the twin: logged, next, initial."""
        return self.logged + [p for row in self.nexts for _, p in row] + [p for _, p in self.initial]


def make_case(
    kind="discrete", *, seed=0, n=8, starts=3, gamma=0.9, horizon=None, may_terminate=True, initial="exact",
    scale=1.0, offset=0.0, reward_range=(-1.0, 2.0), slots=3, draws=2, count_fixed=True,
):  # fmt: skip
    """Random rows; with a horizon some rows lie beyond it, and some rows are terminal if that may happen."""
    rng = np.random.default_rng(seed)
    dimension = 2
    states = offset + scale * rng.normal(size=(n, dimension))
    following = offset + scale * rng.normal(size=(n, dimension))
    following[0] = states[1]  # a trajectory: s' is the next s, so that points merge
    begin = offset + scale * rng.normal(size=(starts, dimension))
    begin[0] = states[0]
    rewards = rng.uniform(*reward_range, size=n)
    terminal = np.zeros(n, dtype=bool)
    if may_terminate:
        terminal[[2, n - 1]] = True
    times = None if horizon is None else np.arange(n) % (horizon + 1)
    weights = rng.uniform(0.1, 1.0, starts)
    weights /= weights.sum()
    kept = np.ones(n, dtype=bool) if horizon is None else times < horizon
    raw_weights = None if initial == "sample" else weights
    if initial == "sample":
        begins = bondic.InitialStates.sample(begin, count_fixed=count_fixed)
    else:
        begins = bondic.InitialStates.exact(begin, weights)
    exact_weights = None if raw_weights is None else normalized(raw_weights)
    terms = {"gamma": gamma, "reward_range": reward_range, "horizon": horizon, "may_terminate": may_terminate}
    start_time = None if horizon is None else 0
    kept_times = None if horizon is None else times[kept]
    going_on = naive.has_next(terminal[kept], kept_times, horizon)
    if kind == "discrete":
        actions = rng.integers(0, slots, n)
        next_probs, initial_probs = rng.dirichlet(np.ones(slots), n), rng.dirichlet(np.ones(slots), starts)
        log = bondic.Transitions(states, actions, rewards, following, terminal, timesteps=times)
        policy = RowProbabilities(next_probs, initial_probs)
        problem = bondic.make_problem(log, policy, begins, **terms, accept=None)  # rows of no world: not inspected
        said = [[naive.slots(normalized(p)) for p in probs] for probs in (next_probs[kept], initial_probs)]
        logged = naive.logged_points(states[kept], [int(a) for a in actions[kept]], kept_times)
    else:
        actions = rng.normal(size=(n, 1))
        next_actions, initial_actions = rng.normal(size=(n, draws, 1)), rng.normal(size=(starts, draws, 1))
        log = bondic.Transitions(states, actions, rewards, following, terminal, timesteps=times)
        answers = StoredAnswers(next_actions[kept][np.array(going_on)], initial_actions, False, False)
        statement = Terms(gamma, reward_range, may_terminate, horizon, horizon is not None)
        problem = make_rows(log, answers, begins, statement)
        said = [[naive.draws(drawn) for drawn in each] for each in (next_actions[kept], initial_actions)]
        logged = naive.logged_points(states[kept], actions[kept], kept_times)
    nexts = naive.next_points(following[kept], said[0], terminal[kept], kept_times, horizon)
    first = naive.initial_points(begin, said[1], exact_weights, start_time)
    assert abs(sum(w for w, _ in first) - 1) < mpf(10) ** -45
    return Case(
        problem, log, logged, nexts, first, [float(r) for r in rewards[kept]], gamma, reward_range, going_on,
        may_terminate, horizon, None if kept_times is None else [int(t) for t in kept_times],
    )  # fmt: skip


def kernels(case, bandwidth, constant=0.0, *, time_bandwidth=2.0):
    """(library kernel, twin): Gaussian on the state, Dirac on discrete actions, time if there is any, an offset."""
    h = bandwidth
    if case.discrete:
        ours = bondic.Gaussian(h) * Dirac()
        twin = naive.on_product(lambda x, y: naive.gaussian(x, y, h), naive.dirac)
    else:
        ours = bondic.Gaussian(h) * bondic.Gaussian(2 * h, on="action")
        twin = naive.on_product(lambda x, y: naive.gaussian(x, y, h), lambda a, b: naive.gaussian(a, b, 2 * h))
    if case.horizon is not None:
        ours = ours * bondic.Gaussian(time_bandwidth, on="time") * TimeMask(case.horizon)
        twin = naive.masked(naive.with_time(twin, lambda t, u: naive.gaussian(t, u, time_bandwidth)), case.horizon)
    if constant:
        ours = ours + Constant(constant)
        twin = naive.plus(twin, lambda p, q: naive.number(constant))  # noqa: ARG005
    return ours, twin


def kernel_function(case, kernel, coefficients):
    """omega = sum_i alpha_i k(., x_i) on the logged points."""
    problem = case.problem
    weights = np.zeros((len(problem), problem.layout.slots))
    weights[np.arange(len(problem)), problem.whole().slots] = coefficients
    return KernelFunction(kernel, problem.layout, problem.whole().logged, weights)


def inside(enclosure, exact):
    """Whether the exact number lies in the enclosure, in both of its forms."""
    near = abs(naive.number(enclosure.mid) - exact) <= naive.number(enclosure.rad)
    return near and naive.number(enclosure.lower) <= exact <= naive.number(enclosure.upper)


def plain_facts(n, width=1.0, *, dropped=0, **more):
    """What is known about n rows with W = constants and value range [0, width]; `more` replaces single facts."""
    layout, terms = Layout(1, False, 0, 1), Terms(0.0, (0.0, width), False)
    rows = [(np.zeros((n, 1)), np.zeros(n, dtype=np.int64), None)]
    facts = NoiseFacts(Constant(1.0), layout, terms, lambda: rows, n, n + dropped)
    return replace(facts, **more)


@dataclass(frozen=True)
class Given(NoiseBound):
    """eps as it is given."""

    eps: Enclosure
    guarantee = "none"

    def epsilon(self, facts, probability):
        del facts, probability
        return self.eps

    def p_value(self, facts, epsilon):
        del facts, epsilon
        return 1.0

    def describe(self):
        return "eps as given"
