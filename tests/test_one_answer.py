"""One log, one answer: in memory or read in batches of any size, the same bits of the interval, of eps and of the certificate.

Blocks are made short here, so that small logs have several of them.
"""

from dataclasses import replace

import numpy as np
import pytest

import bondic as b
from bondic.core.balls import Instruments
from bondic.core.columns import RowRange
from bondic.core.dual.bound import Setting
from bondic.core.dual.noise import FixedLambda, Pinelis
from bondic.core.errors import InvalidInput
from bondic.core.kernels.features import Linear
from bondic.core.kernels.leaves import Constant
from bondic.core.kernels.normal_form import Layout
from bondic.engines.sums import STANDARD, EngineSums
from bondic.engines.threads import Threads
from bondic.rows.batch import Draws, make_frame
from bondic.rows.returns import ReturnCheck
from bondic.rows.rows import LONGEST_BLOCK, block_length
from bondic.tuning.defaults import Advanced
from bondic_lab.noise.self_normalized import SelfNormalized

BLOCK, ROWS, LENGTH = 128, 700, 25
BATCHES = (50, 128, 333, 5000)
QUICK = {"advanced": Advanced(rank=40, pairs=12)}
EASY = {"gamma": 0.6, "reward_range": (-1.0, 1.0), "accept": None}


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", BLOCK)


def columns(*, continuous=False, table=False, rows=ROWS, seed=3):
    rng = np.random.default_rng(seed)
    states = rng.integers(4, size=(rows, 1)).astype(float) if table else rng.normal(size=(rows, 2))
    actions = rng.normal(size=(rows, 1)) if continuous else rng.integers(2, size=rows)
    following = np.roll(states, -1, axis=0)
    steps = np.arange(rows)
    return {
        "observations": states,
        "actions": actions,
        "rewards": np.tanh(states[:, 0] - 0.3 * actions.reshape(rows, -1)[:, 0] ** 2),
        "next_observations": following,
        "terminations": (steps % LENGTH == LENGTH - 1) & (steps % 50 == 49),
        "truncations": (steps % LENGTH == LENGTH - 1) & (steps % 50 != 49),
        "episode_ids": steps // LENGTH,
        "timesteps": steps % LENGTH,
    }


def logs(data):
    """The same log in memory and streamed, with four batch sizes."""
    return [b.Transitions(**data), *(b.stream_log(data, batch_rows=size) for size in BATCHES)]


GAUSS = b.GaussianPolicy(lambda s: 0.3 * s[:, :1], 0.6)
SOFT = b.SoftmaxPolicy(lambda s: np.stack([s[:, 0], -s[:, 0]], axis=1))
KERNELS = {
    "gaussian": b.Gaussian(1.5) + Constant(1.0),
    "linear": Linear(60.0, on="observation") + Constant(1.0),
    "matern": b.Matern(1.5, nu=1.5) + Constant(0.5),
}
CASES = [
    (name, continuous, horizon)
    for name in (*KERNELS, "table")
    for continuous in (False, True)
    for horizon in (None, 12)
    if not (name == "table" and continuous)
]
GAUGES = ("half", FixedLambda(0.05), "paper", "self-normalized")


def questions(name, continuous, horizon):
    data = columns(continuous=continuous, table=name == "table")
    policy = GAUSS if continuous else SOFT
    start = b.InitialStates.exact(data["observations"][:5])
    return [b.make_problem(log, policy, start, **EASY, horizon=horizon) for log in logs(data)]


def method(name, gauge):
    if name == "table":
        return b.Dual(pilot=100, gauge=gauge, **QUICK)
    kernel = KERNELS[name]
    return b.Dual(instruments=Instruments(kernel), ball=b.Ball(kernel, 20.0), gauge=gauge, **QUICK)


@pytest.mark.parametrize(("place", "case"), list(enumerate(CASES)), ids=[f"{n}-{c}-{h}" for n, c, h in CASES])
def test_an_interval_has_the_same_bits_however_the_log_is_read(place, case):
    name, continuous, _ = case
    gauge = GAUGES[place % len(GAUGES)]
    results = [b.estimate_interval(p, method=method(name, gauge)) for p in questions(*case)]
    first = results[0]
    assert results[0].rows[1] == ROWS
    for other in results[1:]:
        assert (other.low, other.high, other.estimate) == (first.low, first.high, first.estimate)
        for part in ("claims", "conclusion", "assumptions"):
            assert other.certificate.body[part] == first.certificate.body[part]
    policy = GAUSS if continuous else SOFT
    data = logs(columns(continuous=continuous, table=name == "table"))
    checked = [b.verify(found.certificate, log, policy) for found in (first, results[2]) for log in (data[0], data[3])]
    assert len({(found.low, found.high) for found in checked}) == 1
    assert b.verify(first.certificate, data[1]).low == checked[0].low


@pytest.mark.parametrize("name", ["gaussian", "linear", "matern"])
def test_the_number_of_threads_leaves_no_trace(name):
    asked = questions(name, True, None)[0]
    workers = [EngineSums(executor=Threads(count)) for count in (1, 2, 3)]
    found = [b.estimate_interval(asked, method=replace(method(name, "half"), engine=sums)) for sums in workers]
    assert len({(result.low, result.high, *(claim.bound for claim in result.claims)) for result in found}) == 1


@pytest.mark.parametrize("name", ["gaussian", "matern"])
def test_a_log_too_long_to_be_held_gives_one_answer_too(name, monkeypatch):
    monkeypatch.setattr("bondic.engines.sums.MAX_HELD", 0)
    found = [b.estimate_interval(p, method=method(name, "half")) for p in questions(name, True, None)[:3]]
    assert len({(result.low, result.high, result.claims[0].bound) for result in found}) == 1


@pytest.mark.parametrize("gauge", [Pinelis("half"), FixedLambda(0.05), Pinelis("paper"), SelfNormalized(9.0)], ids=repr)
@pytest.mark.parametrize("horizon", [None, 12])
@pytest.mark.parametrize("name", KERNELS)
def test_eps_has_the_same_bits_on_every_stretch(name, horizon, gauge):
    kernel = KERNELS[name]
    found = []
    for problem in questions(name, True, horizon):
        for stretch in (problem, problem.select(37), problem[200:391]):
            setting = Setting(stretch, b.Ball(kernel, 2.0), Instruments(kernel), gauge, 0.1, None, 2, STANDARD)
            eps = setting.epsilon()
            found.append((len(stretch), eps.mid, eps.rad, setting.facts.total_width))
    assert found == found[:3] * (1 + len(BATCHES))


def assert_same(one, other):
    for name in ("logged", "slots", "rewards", "continues", "log_rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("points", "weights", "rows"):
        np.testing.assert_array_equal(getattr(one.next, name), getattr(other.next, name))
    assert one.rows == other.rows
    assert (one.times is None) == (other.times is None)


@pytest.mark.parametrize("horizon", [None, 12])
@pytest.mark.parametrize("continuous", [False, True])
def test_rows_are_the_same_in_every_batch_stretch_and_sample(continuous, horizon):
    held, *read = questions("gaussian", continuous, horizon)
    for other in read:
        for a, z in ((0, ROWS), (0, BLOCK), (37, 391), (BLOCK, BLOCK + 1), (600, ROWS)):
            one, two = held[a:z], other[a:z]
            assert len(one) == len(two) == len(one.whole())
            assert one.time_counts == two.time_counts
            for mine, theirs in zip(one.batches(), two.batches(), strict=True):
                assert_same(mine, theirs)
            assert_same(one.whole(), two.whole())
            assert_same(one.load(a, z).whole(), two.load(a, z).whole())
            for mine, theirs in zip(one.logged_rows(), two.logged_rows(), strict=True):
                np.testing.assert_array_equal(mine[0], theirs[0])
        for most in (10, 64, 699, 700):
            np.testing.assert_array_equal(held.some_points(most), other.some_points(most))
    borders = [batch.rows.start for batch in held[37:391].batches()]
    assert borders == [37, 128, 256, 384]


def test_a_selected_row_keeps_its_draws():
    """The policy is asked for the whole block, also where a part of it is selected."""
    whole, *read = questions("gaussian", True, None)
    part = whole.select(150, 210).whole()
    inside = (whole.whole().next.rows >= 150) & (whole.whole().next.rows < 210)
    np.testing.assert_array_equal(part.next.points, whole.whole().next.points[inside])
    np.testing.assert_array_equal(read[0].select(150, 210).whole().next.points, part.next.points)


@pytest.mark.parametrize("policy", [GAUSS, b.MixturePolicy(0.4, GAUSS, b.GaussianPolicy(lambda s: -s[:, :1], 0.5))])
def test_a_log_that_grows_keeps_the_draws_of_its_rows(policy, monkeypatch):
    """A bound for every n is about one set of draws: rows must not be drawn anew when more of them arrive."""
    data = columns(continuous=True)
    start = b.InitialStates.exact(data["observations"][:5])

    def draws(rows, block=BLOCK):
        monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", block)
        log = b.Transitions(**{name: None if column is None else column[:rows] for name, column in data.items()})
        found = b.make_problem(log, policy, start, **EASY).whole().next
        return found.points[found.rows < 50]

    kept = draws(50)
    assert np.unique(kept, axis=0).shape == kept.shape
    for rows in (51, 130, 300, ROWS):
        np.testing.assert_array_equal(draws(rows), kept)
    np.testing.assert_array_equal(draws(ROWS, 4096), kept)


def test_draws_have_a_key_per_group_and_one_for_the_start():
    draws = Draws(7)
    streams = [draws.at_start(), *(draws.at_group(k) for k in range(4)), Draws(8).at_start(), Draws(8).at_group(0)]
    numbers = np.array([rng.standard_normal(100) for rng in streams])
    assert np.unique(numbers).size == numbers.size
    np.testing.assert_array_equal(numbers[2], Draws(7).at_group(1).standard_normal(100))


def test_the_policy_is_asked_once_for_a_log_in_memory():
    class Counting:
        queried = 0

        def action_probs(self, observations):
            self.queried += len(observations)
            return SOFT.action_probs(observations)

    data = columns()
    start = b.InitialStates.exact(data["observations"][:5])
    policy = Counting()
    problem = b.make_problem(b.Transitions(**data), policy, start, **EASY)
    wanted = 5 + int((~data["terminations"]).sum())
    for _ in range(3):
        assert sum(len(batch) for batch in problem.select(100).batches()) == ROWS - 100
    problem.some_points(100)
    assert policy.queried == wanted + 5 + 64  # some of them again, in another order


@pytest.mark.parametrize("continuous", [False, True])
def test_a_sample_of_points_is_asked_for_block_by_block(continuous):
    """No block is asked for twice."""
    _, read, *_ = questions("gaussian", continuous, None)
    blocks = []
    ask = type(read).block

    def counting(self, where, *rest):
        blocks.append(where.start)
        return ask(self, where, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(read), "block", counting)
        read.some_points(160)
    assert sorted(set(blocks)) == sorted(blocks)


def test_the_length_of_a_block_follows_from_the_layout(monkeypatch):
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", LONGEST_BLOCK)
    lengths = [block_length(Layout(2, False, 0, 2), 1), block_length(Layout(17, False, 6, 1), 5)]
    lengths += [block_length(Layout(2, False, 0, slots), 1) for slots in (64, 5000)]
    assert lengths == [65_536, 8192, 4096, 256]


@pytest.mark.parametrize("size", [1, 7, 64, ROWS])
def test_returns_of_alternating_episodes_are_checked_in_any_cut(size):
    """Ten rewards of 0.1 in an episode whose returns are stated to be at most 0.85, three episodes taking turns."""
    n = 60
    data = {
        "observations": np.arange(n, dtype=float)[:, None],
        "actions": np.zeros(n, dtype=int),
        "rewards": np.full(n, 0.1),
        "next_observations": np.arange(n, dtype=float)[:, None] + 3.0,
        "terminations": np.arange(n) % 30 >= 27,
        "episode_ids": np.arange(n) % 3 + 3 * (np.arange(n) // 30),
        "timesteps": np.arange(n) % 30 // 3,
    }
    statement = {"gamma": 0.99, "reward_range": (0.0, 1.0), "accept": None}
    policy, start = b.UniformPolicy(1), b.InitialStates.exact([[0.0]])
    terms = replace(b.make_problem(b.Transitions(**data), policy, start, **statement).terms, value_range=(0.0, 0.85))
    problem = b.make_problem(b.Transitions(**data), policy, start, **statement)
    with pytest.raises(InvalidInput, match="outside the stated `value_range`"):
        feed(terms, problem.log, size)
    feed(replace(terms, value_range=(0.0, 1.0)), problem.log, size)


def feed(terms, log, size):
    check = ReturnCheck(terms)
    for where, part in log.batches(RowRange(0, len(log)), size):
        check.feed(part, make_frame(part, terms), where.start)


def test_a_stretch_is_cut_by_rows_in_order():
    problem = questions("gaussian", False, None)[1]
    assert problem[:100].rows == RowRange(0, 100)
    assert problem[600:].rows == RowRange(600, ROWS)
    for wrong in (slice(0, 10, 2), 3):
        with pytest.raises(InvalidInput, match="order is that of time"):
            problem[wrong]
