"""Proposals of the sequential interval, and W of the dual one: made from earlier rows alone, and good enough."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bondic
import bondic as b
import builders
from bondic.core.balls import Instruments, Provenance
from bondic.core.claims import ErrorBudget, ends_of
from bondic.core.dual.noise import FixedLambda
from bondic.core.errors import InvalidInput
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.sequential.proof import SequentialProof
from bondic.core.starts import sampled_start
from bondic.engines.sums import STANDARD
from bondic.errors import TunedOnCertifiedRows
from bondic.methods.sequential import Sequential
from bondic.methods.setting import tuning_problem
from bondic.policies.protocol import CallableSampler
from bondic.rows.estimand import estimand_of
from bondic.search.sequential.blocks import CUTS, block_ends
from bondic.search.sequential.plan import Shape, costs_of, make_plan, predicted_length
from bondic.tuning.defaults import Advanced, Choices
from bondic_lab.worlds.synthetic import SyntheticMDP
from builders import part, tabular, wobbling_sampler

PILOT = 0.1


def budget_of(problem, alpha=0.1, side="both"):
    ends = ends_of(side)
    shares = {"vector": 0.2} | dict.fromkeys(ends, 0.8 / len(ends))
    if sampled_start(problem, len(ends_of(side))) is not None:
        shares = {**{name: 0.8 * share for name, share in shares.items()}, "initial": 0.2}
    return ErrorBudget.split(alpha, shares)


def plan_of(problem, ball, *, pilot=PILOT, side="both", visible=30, landmarks=40):
    rows = tuning_problem(problem, int(pilot * len(problem.rows)))
    shape = Shape(len(problem.rows), visible=visible, landmarks=landmarks)
    return make_plan(problem, rows, ball, budget_of(problem, side=side), ends_of(side), shape)


def interval(problem, ball, *, pilot=0.05, alpha=0.1):
    """Ends of the evaluated plan, and the plan."""
    start = int(pilot * len(problem.rows))
    budget = budget_of(problem, alpha)
    plan = make_plan(
        problem, tuning_problem(problem, start), ball, budget, ("lower", "upper"), Shape(len(problem.rows))
    )
    certified = problem.select(problem.rows.start + start)
    proof = SequentialProof(estimand_of(certified), budget, "both", ball, plan)
    found = proof.evaluate(certified, STANDARD)
    assert not found.empty
    low, high = (next(claim.bound for claim in found.claims if claim.end == end) for end in ("lower", "upper"))
    return low, high, plan


# ------------------------------------------------------------------------------------------------ problems


def numbers_log(n, seed, *, continuous=False, length=20, ending=0.5):
    """States of two dimensions that move; episodes of `length` rows, some of which terminate."""
    rng = np.random.default_rng(seed)
    s = rng.normal(size=(n, 2))
    a = rng.normal(size=(n, 1)) if continuous else rng.integers(2, size=n)
    push = a if continuous else a[:, None] - 0.5
    following = 0.7 * s + 0.3 * push + 0.1 * rng.normal(size=(n, 2))
    times = np.arange(n) % length
    last, ended = times == length - 1, rng.random(n) < ending
    return bondic.Transitions(
        s, a, np.tanh(s[:, 0]), following, last & ended, last & ~ended, np.arange(n) // length, times
    )


def numbers_problem(log, *, continuous=False, starts="exact", **statements):
    policy = wobbling_sampler() if continuous else bondic.SoftmaxPolicy(lambda s: s[:, :1] * np.arange(2))
    given = np.random.default_rng(9).normal(size=(60, 2))
    initial = {
        "exact": lambda: bondic.InitialStates.exact(given[:4]),
        "sample": lambda: bondic.InitialStates.sample(given),
        "log": lambda: bondic.InitialStates.from_log(log),
        "open": lambda: bondic.InitialStates.sample(given, count_fixed=False),
    }[starts]()
    more = {"draws": 2, "initial_draws": 3} if continuous else {}
    terms = {"gamma": 0.8, "reward_range": (-1.0, 1.0), "accept": None, **more, **statements}
    return bondic.make_problem(log, policy, initial, **terms)


def changed_after(log, row, seed=7):
    """Other states, actions, rewards, next states and ends from `row` on."""
    other, rng = numbers_log(len(log), seed, continuous=not log.discrete_actions), np.random.default_rng(seed)
    later = np.arange(len(log)) >= row
    mixed = {
        name: np.where(
            later if getattr(log, name).ndim == 1 else later[:, None], getattr(other, name), getattr(log, name)
        )
        for name in ("observations", "actions", "rewards", "next_observations")
    }
    last = log.terminations | log.truncations
    ends = np.where(later, last & (rng.random(len(log)) < 0.5), log.terminations)
    return part(log, **mixed, terminations=ends, truncations=last & ~ends)


KERNEL = bondic.Gaussian(1.0, on="state") * Dirac() + Constant(1.0)
SETTINGS = {
    "exact starts": (False, {}),
    "starts from the log": (False, {"starts": "log"}),
    "a sample of starts": (False, {"starts": "sample"}),
    "a sample of open size": (False, {"starts": "open"}),
    "horizon": (False, {"horizon": 15}),
    "continuous actions": (True, {}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_proposal_sees_its_own_rows(name):
    continuous, options = SETTINGS[name]
    log = numbers_log(600, 1, continuous=continuous)
    kernel = bondic.Gaussian(1.0, on="point") if continuous else KERNEL
    ball = bondic.Ball(kernel, 5.0)
    plan = plan_of(numbers_problem(log, continuous=continuous, **options), ball)
    begins = [60, *(block.stop for block in plan.blocks)]
    for row in (begins[0], begins[3] + 17):
        other = plan_of(numbers_problem(changed_after(log, row), continuous=continuous, **options), ball)
        assert np.array_equal(plan.basis.points[: plan.visible], other.basis.points[: other.visible])
        seen = (slice(plan.visible), slice(plan.visible))
        assert np.array_equal(plan.basis.matrix[seen], other.basis.matrix[seen])
        for begin, mine, theirs in zip(begins[:-1], plan.blocks, other.blocks, strict=True):
            assert mine.stop == theirs.stop
            _compare(mine, theirs, begin, row)


def _compare(mine, theirs, begin, row):
    """Bit for bit the same where nothing but rows before `row` may enter; and not the same later, or the test sees nothing."""
    same = np.array_equal(mine.model.coefficients, theirs.model.coefficients)
    assert same == (begin <= row)
    if begin > row:
        return
    for name in ("whitening", "predicted_error", "rate", "typical", "margin"):
        assert np.array_equal(getattr(mine, name), getattr(theirs, name)), name
    for end, weighting in mine.weightings.items():
        other = theirs.weightings[end]
        assert weighting.rate == other.rate
        assert np.array_equal(weighting.starts, other.starts)
        early = weighting.starts <= row
        assert np.array_equal(weighting.directions[early], other.directions[early])
        assert early.all() or not np.array_equal(weighting.directions[-1], other.directions[-1])


# --------------------------------------------------------------------------------------------------- parts


def test_blocks_follow_the_planned_rows_not_the_log():
    planned = block_ends(50, 0, 1000, 1000)
    assert planned == [70, 100, 150, 200, 300, 400, 600, 800, 1000]
    assert block_ends(50, 0, 1000, 450) == [70, 100, 150, 200, 300, 400, 600]
    assert block_ends(50, 0, 1000, 1300)[-3:] == [1000, 1200, 1400]
    long = block_ends(5000, 0, 1_000_000, 1_000_000)
    assert all(later <= 2.5 * earlier for earlier, later in zip([5000, *long], long, strict=False))
    assert {int(cut * 1_000_000) for cut in CUTS} <= set(long)


# -------------------------------------------------------------------------------------------------- lengths


class SmoothWorld:
    """The synthetic problem of section 9: s' = .8 s + .5 a + .2 noise, q* a sum of 20 Gaussians of norm 1, no reward noise."""

    gamma, bandwidth = 0.95, 1.5

    def __init__(self):
        rng = np.random.default_rng(0)
        self.centers = rng.normal(size=(20, 2)) * (1, 0.8)
        weights = rng.normal(size=20)
        apart = np.sum((self.centers[:, None] - self.centers) ** 2, axis=2)
        self.weights = weights / np.sqrt(weights @ np.exp(-apart / (2 * self.bandwidth**2)) @ weights)

    def mean(self, state, spread):
        """E q*(s, a) for s ~ N(state, spread) and a from the target policy."""
        slope, noise = -0.6, 0.05
        cover = np.array([[spread, slope * spread], [slope * spread, slope**2 * spread + noise]])
        cover += self.bandwidth**2 * np.eye(2)
        away = np.stack([state, slope * state], -1)[:, None] - self.centers
        inside = np.einsum("nki,ij,nkj->nk", away, np.linalg.inv(cover), away)
        return np.exp(-0.5 * inside) @ self.weights / np.sqrt(np.linalg.det(cover / self.bandwidth**2))

    def problem(self, n, seed):
        rng = np.random.default_rng([seed, 77])
        state, rows = 0.5 * rng.normal(size=n // 50), []
        for _ in range(50):
            action = -0.6 * state + np.sqrt(0.5) * rng.normal(size=state.size)
            later = 0.8 * state + 0.5 * action + 0.2 * rng.normal(size=state.size)
            rows.append((state, action, later))
            state = later
        s, a, following = (np.array(column).T.ravel() for column in zip(*rows, strict=True))
        away = np.sum((np.column_stack([s, a])[:, None] - self.centers) ** 2, axis=2)
        q = np.exp(-away / (2 * self.bandwidth**2)) @ self.weights
        rewards = q - self.gamma * self.mean(0.8 * s + 0.5 * a, 0.04)
        log = bondic.Transitions(
            s[:, None], a[:, None], rewards, following[:, None], np.zeros(n, bool), np.arange(n) % 50 == 49
        )
        policy = CallableSampler(lambda x, rng: -0.6 * x + np.sqrt(0.05) * rng.standard_normal((len(x), 1)))
        nodes, shares = np.polynomial.hermite_e.hermegauss(12)
        starts = bondic.InitialStates.exact(0.5 * nodes[:, None], shares / shares.sum())
        return bondic.make_problem(
            log,
            policy,
            starts,
            gamma=self.gamma,
            reward_range=(-0.9, 0.4),
            value_range=(-14.0, 4.8),
            initial_draws=4000,
        )


def test_a_short_interval_where_the_dual_says_nothing():
    world = SmoothWorld()
    problem, ball = world.problem(5000, 1), bondic.Ball(bondic.Gaussian(1.5, on="point"), 10.0)
    low, high, plan = interval(problem, ball)
    assert low <= world.mean(np.zeros(1), 0.25)[0] <= high
    assert high - low <= 1.2
    assert plan.start is not None
    pilot = tuning_problem(problem, 250)
    costs = costs_of(budget_of(problem), ("lower", "upper"))
    lengths = [predicted_length(pilot, ball.with_radius(radius), 5000, costs) for radius in (3.0, 10.0, 100.0)]
    assert 0.4 * (high - low) <= lengths[1] <= 2.5 * (high - low)
    assert lengths == sorted(lengths)


def test_a_class_that_saw_later_rows_is_refused():
    """The dual bound may choose Q with all rows; here weights are made with Q."""
    problem = numbers_problem(numbers_log(400, 14, ending=0.0))
    looked = bondic.Ball(KERNEL, 5.0, provenance=Provenance("tuned", (0, 400), problem.log_hash))
    with pytest.raises(TunedOnCertifiedRows, match="choose it on earlier rows"):
        Sequential(ball=looked, pilot=100).run(problem, 0.1, None)
    early = replace(looked, provenance=Provenance("tuned", (0, 100), problem.log_hash))
    assert Sequential(ball=early, pilot=100).run(problem, 0.1, None).rows == (100, 400)


# --- W is chosen on earlier rows, Q is stated, and the result says so.

MDP = SyntheticMDP.default(gamma=0.6, termination=0.1)
QUICK = Advanced(pairs=8)
"""Few features: the tests look at who saw what, not at tightness."""


def rollout(seed, rows=300):
    """Exactly `rows` rows, episodes of at most 10 steps."""
    found = MDP.rollout(rows // 2, 10, np.random.default_rng(seed))
    return {name: getattr(found, name)[:rows].copy() for name in builders.COLUMNS[:-1]}


def problem_of(columns, *, starts_from_log=False, **statements):
    # not inspected: most logs here are shuffled on purpose
    options = {"gamma": MDP.gamma, "reward_range": MDP.reward_range, "accept": None, **statements}
    log = b.Transitions(**columns)
    initial = b.InitialStates.exact(MDP.initial_states, MDP.initial_probs)
    initial = b.InitialStates.from_log(log) if starts_from_log else initial
    return b.make_problem(log, b.CallablePolicy(MDP.target_probs), initial, **options)


def with_other_rows(columns, start, stop, seed=99):
    """The same log with other observations, actions, rewards and next states in rows start..stop-1."""
    rng = np.random.default_rng(seed)
    out = {name: values.copy() for name, values in columns.items()}
    size = stop - start
    out["observations"][start:stop] = rng.uniform(-30, 30, (size, 1))
    out["next_observations"][start:stop] = rng.uniform(-30, 30, (size, 1))
    out["rewards"][start:stop] = rng.uniform(*MDP.reward_range, size)
    out["actions"][start:stop] = rng.integers(MDP.n_actions, size=size)
    return out


def chosen(result):
    """W and Q, with their kernels' numbers, as the certificate has them."""
    body, arrays = result.certificate.body["proof"], result.certificate.arrays

    def resolve(spec):
        if isinstance(spec, dict):
            if set(spec) == {"array"}:
                return np.asarray(arrays[spec["array"]]).tolist()
            return {key: resolve(value) for key, value in spec.items() if key != "log_hash"}
        return [resolve(item) for item in spec] if isinstance(spec, list) else spec

    return {"W": resolve(body["instruments"]), "Q": resolve(body["ball"])}


# ------------------------------------------------------------------------------------------- only earlier rows


@pytest.mark.parametrize("statements", [{}, {"horizon": 6, "gamma": 1.0}, {"starts_from_log": True}])
def test_certified_rows_tune_nothing(statements):
    """Any change of the certified rows leaves W, its scales and its features as they were."""
    columns = rollout(0)
    method = b.Dual(radius="paper", advanced=QUICK, pilot=100)
    one = b.estimate_interval(problem_of(columns, **statements), method=method)
    other = b.estimate_interval(problem_of(with_other_rows(columns, 100, 300), **statements), method=method)
    assert one.hashes["log"] != other.hashes["log"]
    assert one.estimate != other.estimate
    assert one.rows == (100, 300)
    assert chosen(one)["W"] == chosen(other)["W"]
    for note in ("W", "W picked"):
        assert one.choices[note] == other.choices[note]
    # Q is an assumption and may look at every row
    assert chosen(one)["Q"] != chosen(other)["Q"]
    # the comparison can fail: one pilot row does change W and Q
    third = b.estimate_interval(problem_of(with_other_rows(columns, 99, 100), **statements), method=method)
    for name in ("W", "Q"):
        assert chosen(one)[name] != chosen(third)[name]


def test_without_a_pilot_w_does_not_know_whether_states_are_whole_numbers():
    """One certified state more or less: names or numbers for Q, the same W, unless the user said which columns hold names."""
    rng = np.random.default_rng(3)
    states, actions, rewards = rng.integers(0, 9, (200, 1)).astype(float), rng.normal(size=(200, 1)), rng.random(200)
    policy, initial = b.GaussianPolicy(lambda s: 0.0 * s, 0.2), b.InitialStates.exact([[0.0]])
    found = {}
    for first in (1.0, 0.5):
        changed = np.vstack([[[first]], states[1:]])
        log = b.Transitions(changed, actions, rewards, states, np.zeros(200, dtype=bool))
        problem = b.make_problem(log, policy, initial, gamma=0.5, reward_range=(0, 1))
        for categorical in (None, (0,)):
            method = b.Dual(radius="paper", pilot=0, choices=Choices(categorical=categorical), advanced=QUICK)
            found[first, categorical] = chosen(b.estimate_interval(problem, method=method))
    assert found[1.0, None]["W"] == found[0.5, None]["W"]
    assert found[1.0, None]["Q"]["kernel"] != found[0.5, None]["Q"]["kernel"]
    assert found[1.0, (0,)]["W"] == found[0.5, (0,)]["W"] != found[1.0, None]["W"]


def test_pilot_rows_are_not_certified():
    """The mirror image: with W and Q given, changing pilot rows of an explicit selection changes no number."""
    columns = rollout(2)
    method = b.Dual(instruments=Instruments(b.Gaussian(0.7) * Dirac()), ball=b.Ball(b.Gaussian(1.0) * Dirac(), 5.0))
    one = b.estimate_interval(problem_of(columns).select(100), method=method)
    other = b.estimate_interval(problem_of(with_other_rows(columns, 0, 100)).select(100), method=method)
    assert one.terms() == other.terms()
    assert one.rows == other.rows == (100, 300)


# ------------------------------------------------------------------------------------------------- provenance


@pytest.mark.parametrize("rows", [(0, 300), (0, 1), (299, 300), (120, 130), (299, 400)])
def test_instruments_tuned_on_certified_rows_are_refused(rows):
    problem = problem_of(rollout(4))
    tuned = Instruments(b.Gaussian(0.7) * Dirac(), Provenance("bandwidth by eye", rows, problem.log_hash))
    why = rf"W was tuned on rows \({rows[0]}, {rows[1]}\).*certify rows \(0, 300\).*tune on earlier rows.*select"
    with pytest.raises(TunedOnCertifiedRows, match=why):
        b.estimate_interval(problem, method=b.Dual(instruments=tuned, radius=3.0))
    unknown = Instruments(tuned.kernel, Provenance("bandwidth by eye", rows))
    with pytest.raises(TunedOnCertifiedRows):
        b.estimate_interval(problem, method=b.Dual(instruments=unknown, radius=3.0))


# ---------------------------------------------------------------------------------------------------- pilot rows


@pytest.mark.parametrize(
    ("pilot", "certified"),
    [(0.2, 60), (0.5, 150), (0.0, 0), (0, 0), (0.05, 0), (19, 0), (20, 20), (100, 100), (299, 299)],
)
def test_pilot_as_share_or_number(pilot, certified):
    """A float is a share, an int a number of rows; fewer than 20 rows are no pilot, and every row is certified."""
    result = b.estimate_interval(problem_of(rollout(6)), method=b.Dual(pilot=pilot, advanced=QUICK, radius=5.0))
    assert result.rows == (certified, 300)
    assert f"rows {certified} to 299 are certified" in result.choices["pilot"]
    assert (result.proof.instruments.provenance.rows is None) == (certified == 0)


def test_a_pilot_of_a_log_that_may_stop_any_time():
    """Its end is fixed beforehand: a share of the planned rows, or a number; never a share of what came."""
    method = b.Dual(advanced=QUICK, radius=5.0, planned_rows=200, pilot=0.5)
    for rows in (300, 150):
        assert b.estimate_interval(problem_of(rollout(6, rows)), method=method).rows == (100, rows)
    with pytest.raises(InvalidInput, match="within its pilot of 100 rows"):
        b.estimate_interval(problem_of(rollout(6, 90)), method=method)
    with pytest.raises(InvalidInput, match="pilot= as a whole number"):
        b.estimate_interval(problem_of(rollout(6)), method=b.Dual(radius=5.0, advanced=QUICK, gauge=FixedLambda(0.1)))
    own = b.Dual(radius=5.0, advanced=QUICK, gauge=FixedLambda(0.1), pilot=50)
    assert b.estimate_interval(problem_of(rollout(6)), method=own).rows == (50, 300)


# --------------------------------------------------------------------------------------------------------- radius


def test_w_does_not_know_how_long_a_stopped_log_became():
    """Under a fixed lambda n may be a stopping time: W must be the same for every n."""
    mdp, log, policy, initial = tabular(2000, gamma=0.9)
    picked = set()
    for rows in (1100, 1500, 2000):
        problem = b.make_problem(
            part(log, slice(rows)), policy, initial, gamma=mdp.gamma, reward_range=mdp.reward_range
        )
        result = b.estimate_interval(problem, method=b.Dual(gauge=FixedLambda(0.05), pilot=1000, radius=5.0))
        picked.add(result.choices["W picked"] + repr(result.proof.instruments.kernel))
    assert len(picked) == 1
