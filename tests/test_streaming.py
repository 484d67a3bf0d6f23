"""Logs larger than memory: the same checks, the same hash, the same interval as in memory."""

import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic
import bondic_lab
from bondic.core.classes.ball import Ball
from bondic.core.classes.instruments import Instruments
from bondic.core.dual.bound import Setting, dual_bound
from bondic.core.dual.weighing import Candidate, weigh
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.functions import KernelFunction
from bondic.core.kernels.constant import Constant
from bondic.core.kernels.dirac import Dirac
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.linear import Linear
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.noise.fixed_lambda import FixedLambda
from bondic.core.noise.pinelis import Pinelis
from bondic.core.sums import forms as sums_forms
from bondic.core.sums import spool
from bondic.core.sums.forms import Sums
from bondic.core.sums.measure import Measure, Stream
from bondic.data.blocks import RowRange
from bondic.data.memory import SMALLEST_BATCH, MemoryPlan, parse_memory
from bondic.data.stream import ArrayStream
from bondic.engines import series_sum
from bondic.policies.protocol import CallableSampler
from bondic.rows import Rows
from bondic.tuning.defaults import Choices
from bondic_lab.bounds.primal import primal_point
from bondic_lab.worlds.synthetic import SyntheticMDP
from forms import quadratic_forms

MDP = SyntheticMDP.default(0.9, seed=1, dimension=2)
POLICY = bondic.CallablePolicy(MDP.target_probs)
START = bondic.InitialStates.exact(MDP.initial_states, MDP.initial_probs)
QUESTION = {"gamma": MDP.gamma, "reward_range": MDP.reward_range}


def columns(episodes=40, length=25, seed=7):
    data = MDP.rollout(episodes, length, np.random.default_rng(seed))
    return {name: np.array(getattr(data, name)) for name in data.__dataclass_fields__}


def table(data, *, lists=True):
    out = {}
    for name, column in data.items():
        if column.ndim == 1:
            out[name] = pa.array(column)
        elif lists:
            out[name] = pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), column.shape[1])
        else:
            out |= {f"{name}_{k}": pa.array(column[:, k]) for k in range(column.shape[1])}
    return pa.table(out)


@pytest.fixture(scope="module")
def data():
    return columns()


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Three parts whose natural order is not the alphabetic one."""
    where = tmp_path_factory.mktemp("log")
    whole = table(data)
    pq.write_table(whole.slice(0, 333), where / "part-2.parquet", row_group_size=100)
    pq.write_table(whole.slice(333, 1), where / "part-9.parquet")
    pq.write_table(whole.slice(334), where / "part-10.parquet", row_group_size=250)
    return where


# Reading


def test_every_way_of_reading_gives_the_hash_of_the_log_in_memory(data, folder, tmp_path):
    expected = bondic.Transitions(**data).content_hash
    assert bondic.stream_log(folder, batch_rows=77).content_hash == expected
    assert bondic.stream_log(data, batch_rows=1000).content_hash == expected
    assert bondic.stream_log(str(folder), memory="3GB").content_hash == expected
    pq.write_table(table(data, lists=False), tmp_path / "wide.parquet")
    assert bondic.stream_log(tmp_path / "wide.parquet", batch_rows=13).content_hash == expected
    mapped = {}
    for name, column in data.items():
        np.save(tmp_path / f"{name}.npy", column)
        mapped[name] = np.load(tmp_path / f"{name}.npy", mmap_mode="r")
    assert bondic.stream_log(mapped, memory="1GB").content_hash == expected


def test_hidden_parts_are_left_out(tmp_path):
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "part-0.parquet").write_bytes(b"junk")
    (tmp_path / ".hidden.parquet").write_bytes(b"junk")
    with pytest.raises(InvalidInput, match=r"holds no \*.parquet"):
        bondic.stream_log(tmp_path)
    with pytest.raises(InvalidInput, match="no file or folder"):
        bondic.stream_log(tmp_path / "nowhere")


@pytest.mark.filterwarnings("ignore::bondic.core.errors.ValidityWarning")  # few initial states: equal first rows
def test_initial_states_from_a_stream_are_those_of_the_log(data, folder):
    held = bondic.InitialStates.from_log(bondic.Transitions(**data))
    for rows in (10, 26, 1000):
        read = bondic.InitialStates.from_log(bondic.stream_log(folder, batch_rows=rows))
        assert np.array_equal(read.observations, held.observations)
        assert read.count_fixed == held.count_fixed
    bare = {name: column for name, column in data.items() if name not in ("episode_ids", "timesteps")}
    held = bondic.InitialStates.from_log(bondic.Transitions(**bare))
    read = bondic.InitialStates.from_log(bondic.stream_log(bare, batch_rows=40))
    assert np.array_equal(read.observations, held.observations)


# Bad input


def changed(data, name, row, value):
    column = data[name].copy()
    column[row] = value
    return data | {name: column}


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        ("rewards", 777, np.nan, r"`rewards` is not finite at row 777"),
        ("observations", 640, np.inf, r"`observations` is not finite at row 640"),
        ("timesteps", 555, -1, r"`timesteps` is negative at row 555"),
        ("actions", 901, -2, r"-2 at row 901"),
        ("behavior_action_probs", 333, 0.0, r"0.0 at row 333"),
        ("terminations", 512, True, r"Row 513 follows row 512 .* terminated"),
        ("timesteps", 512, 7, r"Rows 507 and 512 carry the same|Row 51[23]"),
    ],
)
def test_a_bad_row_is_named_by_its_number_in_the_whole_log(data, name, row, value, message):
    with pytest.raises(InvalidInput, match=message):
        ArrayStream(changed(data, name, row, value), batch_rows=64)


def test_keys_are_checked_across_batches(data):
    """Episodes of 25 rows, batches of 10: the second half of an episode lies in another batch."""
    with pytest.raises(InvalidInput, match=r"Row 510 follows row 509 in the same episode, but row 509 is terminated"):
        ArrayStream(changed(data, "terminations", 509, True), batch_rows=10)
    swapped = data["timesteps"].copy()
    swapped[[509, 510]] = swapped[[510, 509]]
    with pytest.raises(InvalidInput, match=r"Row 510 .*comes after row 509"):
        ArrayStream(data | {"timesteps": swapped}, batch_rows=10)
    twice = {name: np.concatenate([column, column]) for name, column in data.items()}
    with pytest.raises(InvalidInput, match=r"Rows 24 and 1024 carry the same .*pasted twice"):
        ArrayStream(twice, batch_rows=100)
    renamed = twice | {"episode_ids": np.concatenate([data["episode_ids"], data["episode_ids"] + 1000])}
    assert len(ArrayStream(renamed, batch_rows=100)) == 2000


def test_a_damaged_part_is_named(folder, data, tmp_path):
    for part in folder.iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
    good = (tmp_path / "part-9.parquet").read_bytes()
    (tmp_path / "part-9.parquet").write_bytes(good[: len(good) // 2])
    with pytest.raises(InvalidInput, match=r"part-9\.parquet cannot be read as Parquet"):
        bondic.stream_log(tmp_path, batch_rows=100)
    # the footer is whole, a page is not: told by its checksum, where the writer made one
    (tmp_path / "part-9.parquet").write_bytes(good)
    rest = {name: column[334:] for name, column in data.items()}
    pq.write_table(table(rest), tmp_path / "part-10.parquet", write_page_checksum=True)
    assert len(bondic.stream_log(tmp_path, batch_rows=100)) == 1000
    hurt = bytearray((tmp_path / "part-10.parquet").read_bytes())
    hurt[500] ^= 0xFF
    (tmp_path / "part-10.parquet").write_bytes(bytes(hurt))
    with pytest.raises(InvalidInput, match=r"part-10\.parquet cannot be read"):
        bondic.stream_log(tmp_path, batch_rows=100)


def test_ragged_lists_name_the_row_in_the_whole_log(data, tmp_path):
    ragged = data["observations"].tolist()
    ragged[400] = [1.0]
    pq.write_table(table(data).set_column(0, "observations", pa.array(ragged)), tmp_path / "ragged.parquet")
    with pytest.raises(InvalidInput, match=r"list of 2 numbers at row 401, 1 before"):
        bondic.stream_log(tmp_path / "ragged.parquet", batch_rows=100)


def test_a_missing_next_observation_is_fine_where_nothing_follows(data, tmp_path):
    ends = np.zeros(1000, dtype=bool)
    ends[24::25] = True
    following = data["next_observations"].tolist()
    for row in np.flatnonzero(ends):
        following[row] = None
    changed_table = table(data | {"terminations": ends, "truncations": ~ends & False})
    place = changed_table.column_names.index("next_observations")
    pq.write_table(changed_table.set_column(place, "next_observations", pa.array(following)), tmp_path / "log.parquet")
    part = bondic.stream_log(tmp_path / "log.parquet", batch_rows=100).read(RowRange(0, 100))
    assert np.all(part.next_observations[24] == 0.0)
    following[30] = None
    pq.write_table(changed_table.set_column(place, "next_observations", pa.array(following)), tmp_path / "bad.parquet")
    with pytest.raises(InvalidInput, match="of the next observation is missing at row 30"):
        bondic.stream_log(tmp_path / "bad.parquet", batch_rows=100)


def test_a_file_that_changes_while_in_use_is_noticed(data, tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(table(data), path)
    stream = bondic.stream_log(path, batch_rows=100)
    pq.write_table(table(changed(data, "rewards", 5, 0.0)), path)
    with pytest.raises(InvalidInput, match="was changed while the log was in use"):
        stream.read(RowRange(0, 10))


def test_the_memory_budget():
    assert parse_memory("2GB") == 2_000_000_000
    assert parse_memory("1.5 gib") == int(1.5 * 2**30)
    assert parse_memory(5e8) == 500_000_000
    for bad in ("much", "-1GB", "2 TBs", 0, -3):
        with pytest.raises(InvalidInput):
            parse_memory(bad)
    plan = MemoryPlan.of(2_000_000_000, 14)
    assert plan.fixed + plan.batch_rows * plan.per_row <= plan.budget
    small = MemoryPlan.of(100_000_000, 14)
    with pytest.raises(InvalidInput, match="too small") as caught:
        _ = small.batch_rows
    needed = int(str(caught.value).split("memory=")[1].split(" ")[0])
    assert MemoryPlan.of(needed, 14).batch_rows >= SMALLEST_BATCH


# The question


def test_a_streamed_question_has_the_rows_of_the_one_in_memory(data):
    held = bondic.make_problem(bondic.Transitions(**data), POLICY, START, **QUESTION)
    read = bondic.make_problem(bondic.stream_log(data, batch_rows=130), POLICY, START, **QUESTION)
    assert len(read) == len(held)
    assert np.array_equal(np.concatenate([p.logged for p in read.batches()]), held.whole().logged)
    assert np.array_equal(np.concatenate([p.next.weights for p in read.batches()]), held.whole().next.weights)
    assert np.array_equal(np.concatenate([p.log_rows for p in read.batches()]), held.whole().log_rows)
    part = read.select(100, 420)
    assert part.rows == RowRange(100, 420)
    assert np.array_equal(np.concatenate([p.rewards for p in part.batches()]), held.whole().rewards[100:420])
    assert np.array_equal(read.load(5, 9).whole().logged, held.whole().logged[5:9])
    with pytest.raises(InvalidInput, match="cannot be selected"):
        part.select(0, 200)


NOISE_KERNELS = {
    "linear": Linear(200.0, on="observation"),
    "linear with actions": Linear(200.0, on="observation") * Dirac() + Constant(0.3),
    "gaussian": 0.7 * bondic.Gaussian(1.0) * Dirac(),
    "features": RandomFeatures.gaussian(7, 2, 1.0, seed=0),
}


@pytest.mark.parametrize("name", NOISE_KERNELS)
@pytest.mark.parametrize("more", [{}, {"horizon": 13}, {"horizon": 13, "value_range": (-9.0, 8.0)}])
def test_noise_of_a_fixed_rate_has_the_same_bits_from_memory_and_from_batches(name, more):
    """sum_i B_i^2 k(x_i, x_i) over more than two blocks of 4096 rows; the rows, not K_max, decide it."""
    big = columns(500, 25)
    statements, kernel = QUESTION | more, NOISE_KERNELS[name]
    ball, w = Ball(bondic.Gaussian(1.0, on="observation") * Dirac(), 2.0), Instruments(kernel)

    def radius(log, gauge):
        problem = bondic.make_problem(log, POLICY, START, **statements).select(37)
        setting = Setting(problem, ball, w, gauge, 0.1, None, 2)
        found = setting.epsilon()
        return found.mid, found.rad

    held = bondic.Transitions(**big)
    for gauge in (FixedLambda(0.02), Pinelis("half")):
        expected = radius(held, gauge)
        for batch in (90, 4096, 5000):
            assert radius(bondic.stream_log(big, batch_rows=batch), gauge) == expected


def test_the_diagonal_is_read_only_if_the_gauge_asks_for_it(data, monkeypatch):
    question = bondic.make_problem(bondic.stream_log(data, batch_rows=90), POLICY, START, **QUESTION)
    kernel = Linear(200.0, on="observation")
    setting = Setting(question, Ball(kernel, 2.0), Instruments(kernel), Pinelis("half"), 0.1, None, 2)
    reads = []
    whole = Rows.logged_rows
    monkeypatch.setattr(Rows, "logged_rows", lambda self: (reads.append(1), whole(self))[1])
    assert setting.epsilon().mid > 0
    assert not reads
    fixed = replace(setting, gauge=FixedLambda(0.05))
    assert fixed.epsilon().mid == fixed.epsilon().mid > 0
    assert len(reads) == 1


def test_a_finite_horizon_counts_rows_by_time(data):
    statements = QUESTION | {"horizon": 7}
    held = bondic.make_problem(bondic.Transitions(**data), POLICY, START, **statements)
    read = bondic.make_problem(bondic.stream_log(data, batch_rows=90), POLICY, START, **statements)
    assert len(read) == len(held) == 40 * 7
    assert read.dropped == held.dropped
    assert read.time_counts == dict.fromkeys(range(7), 40)
    assert np.array_equal(np.concatenate([p.times for p in read.batches()]), held.whole().times)
    kernel = bondic.Gaussian(1.0, on="state") * Dirac()
    ball, w = Ball(kernel, 2.0), Instruments(kernel)
    for gauge in (FixedLambda(0.05), Pinelis("half")):
        one, other = (Setting(p, ball, w, gauge, 0.1, None, 2) for p in (held, read))
        assert one.epsilon().mid == pytest.approx(other.epsilon().mid, rel=1e-12)
        assert one.facts().total_width == pytest.approx(other.facts().total_width, rel=1e-12)
        assert one.facts().fixed_count == other.facts().fixed_count
    late = {name: column[data["timesteps"] >= 20] for name, column in data.items()}
    with pytest.raises(InvalidInput, match="at or beyond the horizon"):
        bondic.make_problem(bondic.stream_log(late, batch_rows=90), POLICY, START, **QUESTION, horizon=3)


@pytest.mark.parametrize("batch", [60, 1000])
def test_statements_are_checked_against_all_rows_at_once(data, batch):
    stream = bondic.stream_log(data, batch_rows=batch)
    row = int(np.argmax(data["rewards"] > 0.2))
    with pytest.raises(InvalidInput, match=f"at row {row}"):
        bondic.make_problem(stream, POLICY, START, gamma=0.9, reward_range=(-2.0, 0.2))
    ended = bondic.stream_log(changed(data, "terminations", 999, True), batch_rows=batch)
    with pytest.raises(InvalidInput, match="row 999 is terminated"):
        bondic.make_problem(ended, POLICY, START, **QUESTION, may_terminate=False)
    strange = bondic.stream_log(changed(data, "actions", 700, 5), batch_rows=batch)
    with pytest.raises(InvalidInput, match="Row 700 has action 5"):
        bondic.make_problem(strange, POLICY, START, **QUESTION)


def test_draws_of_a_continuous_policy_repeat_and_are_fresh_per_row(rng):
    n = 300
    log = {
        "observations": rng.normal(size=(n, 2)),
        "actions": rng.normal(size=(n, 1)),
        "rewards": rng.uniform(size=n),
        "next_observations": np.zeros((n, 2)),  # equal states: equal draws would show
        "terminations": np.zeros(n, dtype=bool),
        "episode_ids": np.arange(n),
        "timesteps": np.zeros(n, dtype=int),
    }
    policy = CallableSampler(lambda s, rng: rng.normal(size=(len(s), 1)))
    start = bondic.InitialStates.exact(np.zeros((1, 2)))
    read = bondic.make_problem(bondic.stream_log(log, batch_rows=70), policy, start, gamma=0.5, reward_range=(0, 1))
    draws = [np.concatenate([p.next.points[:, 2] for p in read.batches()]) for _ in range(2)]
    assert np.array_equal(*draws)
    assert np.unique(draws[0]).size == 5 * n
    assert read.next_draws == 5


# Sums


LAYOUT = Layout(2, False, 0, 2)
KERNELS = {
    "gaussian": bondic.Gaussian(0.9) * Dirac() + Constant(0.5),
    "narrow": bondic.Gaussian(0.02) * Dirac(),
    "matern": 2.0 * bondic.Matern(0.7, nu=1.5),
    "features": RandomFeatures.gaussian(8, 2, 1.0, seed=0) * Dirac() + Constant(1.0),
    "linear": Linear(),
}


def stream_of(points, groups, batch, error=1e-15, sample=None):
    def batches():
        for top in range(0, points.shape[0], batch):
            yield Measure(points[top : top + batch], groups[:, top : top + batch], error)

    some = points[:200] if sample is None else sample
    return Stream(batches, lambda: some, points.shape[0], groups.shape[0], 2, 2)


def streamed_squares(terms, source, engine="auto"):
    """As if there were more points than are held."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums_forms, "MOST_HELD", 0)
        return Sums.named(engine).squares(terms, source)


def far_off(points):
    points[3] = [50.0, 0.0]
    points[500:502] = [1e8, 1e8]
    return points


SHAPES = {
    "cloud": lambda rng, n: rng.normal(size=(n, 2)),
    "all equal": lambda rng, n: np.tile(rng.normal(size=(1, 2)), (n, 1)),
    "far outliers": lambda rng, n: far_off(rng.normal(size=(n, 2))),
    "offset": lambda rng, n: rng.normal(size=(n, 2)) + 1e8,
    "line": lambda rng, n: rng.normal(size=(n, 1)) * np.array([[1.0, 2.0]]),
    "drift": lambda rng, n: rng.normal(size=(n, 2)) + np.linspace(0, 6, n)[:, None],
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", KERNELS)
def test_sums_over_batches_agree_with_the_slow_engine(name, shape):
    rng = np.random.default_rng(5)
    points, groups = SHAPES[shape](rng, 1500), rng.normal(size=(2, 1500, 2)) / 1500
    terms = normal_form(KERNELS[name], LAYOUT)
    ours = streamed_squares(terms, stream_of(points, groups, 400))
    slow = quadratic_forms(terms, points, groups, error=1e-15, engine="reference")
    size = max(abs(value.mid) for value in slow)
    for one, other in zip(ours, slow, strict=True):
        assert abs(one.mid - other.mid) <= one.rad + other.rad
        assert one.rad <= 10 * other.rad + 2e-4 * size  # wide only where nobody notices


def test_the_series_is_used_and_serves_weights_that_cancel(monkeypatch):
    """A measure that is nearly balanced: the first aim is too coarse, the second pass is not."""
    rng = np.random.default_rng(2)
    points = np.repeat(rng.normal(size=(800, 2)), 2, axis=0) + rng.normal(size=(1600, 2)) * 1e-4
    groups = np.tile(np.array([1.0, -1.0]), 800)[None, :, None] * np.ones((1, 1600, 2)) / 1600
    monkeypatch.setattr(spool.Spooled, "__init__", None)  # no way out
    terms = normal_form(bondic.Gaussian(1.0), LAYOUT)
    (ours,) = streamed_squares(terms, stream_of(points, groups, 300))
    (slow,) = quadratic_forms(terms, points, groups, error=1e-15, engine="reference")
    assert abs(ours.mid - slow.mid) <= ours.rad + slow.rad
    assert slow.mid < 1e-6


def test_far_points_that_matter_are_summed_directly(monkeypatch):
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal(size=(1000, 2)), rng.normal(size=(400, 2)) + 9.0])
    groups = rng.uniform(size=(1, 1400, 2)) / 1400
    crossings = []
    original = series_sum.SeriesSum._add_crossed
    monkeypatch.setattr(
        series_sum.SeriesSum,
        "_add_crossed",
        lambda self, *near: (crossings.append(1), original(self, *near))[1],
    )
    terms = normal_form(bondic.Gaussian(3.0), LAYOUT)
    (ours,) = streamed_squares(terms, stream_of(points, groups, 300, sample=points[:1000]))
    (slow,) = quadratic_forms(terms, points, groups, error=1e-15, engine="reference")
    assert abs(ours.mid - slow.mid) <= ours.rad + slow.rad
    assert ours.rad <= 2e-4 * slow.mid
    assert crossings


def test_too_many_far_points_lead_to_a_better_plan(monkeypatch):
    monkeypatch.setattr(series_sum, "_MOST_FAR", 50)
    rng = np.random.default_rng(3)
    points = np.concatenate([rng.normal(size=(1000, 2)), rng.normal(size=(400, 2)) + 9.0])
    groups = rng.uniform(size=(1, 1400, 2)) / 1400
    terms = normal_form(bondic.Gaussian(3.0), LAYOUT)
    (ours,) = streamed_squares(terms, stream_of(points, groups, 300, sample=points[:1000]))
    (slow,) = quadratic_forms(terms, points, groups, error=1e-15, engine="reference")
    assert abs(ours.mid - slow.mid) <= ours.rad + slow.rad
    assert ours.rad <= 2e-4 * slow.mid


def test_blocks_of_the_temporary_file(monkeypatch):
    """Five blocks: diagonal ones once, the others twice."""
    monkeypatch.setattr(spool.Direct, "block", 301)
    rng = np.random.default_rng(8)
    points, groups = rng.normal(size=(1300, 2)), rng.normal(size=(2, 1300, 2)) / 1300
    for kernel in (bondic.Gaussian(0.02) * Dirac(), bondic.Laplace(1.0)):
        terms = normal_form(kernel, LAYOUT)
        ours = streamed_squares(terms, stream_of(points, groups, 256), engine="pairs")
        slow = quadratic_forms(terms, points, groups, error=1e-15, engine="reference")
        for one, other in zip(ours, slow, strict=True):
            assert abs(one.mid - other.mid) <= one.rad + other.rad
            assert one.rad <= 1e-10


def test_non_finite_points_are_refused():
    points = np.zeros((10, 2))
    points[7, 1] = np.nan
    with pytest.raises(InvalidInput, match="not finite"):
        streamed_squares(normal_form(KERNELS["gaussian"], LAYOUT), stream_of(points, np.ones((1, 10, 2)), 4))


# Intervals


@pytest.fixture(scope="module")
def pair():
    data = columns(episodes=60, length=50)
    held = bondic.make_problem(bondic.Transitions(**data), POLICY, START, **QUESTION)
    read = bondic.make_problem(bondic.stream_log(data, batch_rows=700), POLICY, START, **QUESTION)
    return held, read


METHOD = bondic.Dual(radius="paper", choices=Choices(pairs=24), rank=150)


@pytest.fixture(scope="module")
def results(pair):
    return [bondic.estimate_interval(problem, method=METHOD) for problem in pair]


def test_a_streamed_log_gives_the_same_interval(results):
    held, read = results
    assert read.low == pytest.approx(held.low, abs=1e-6)
    assert read.high == pytest.approx(held.high, abs=1e-6)
    assert read.status == held.status
    assert read.effective_sample_size == pytest.approx(held.effective_sample_size, rel=1e-6)
    assert [a.name for a in read.assumptions] == [a.name for a in held.assumptions]
    for mine, theirs in ((read.lower, held.lower), (read.upper, held.upper)):
        assert mine["|mu|"].mid == pytest.approx(theirs["|mu|"].mid, rel=1e-4)
        assert mine.value.mid == pytest.approx(theirs.value.mid, rel=1e-6, abs=1e-9)


def test_a_stream_shows_the_points_that_memory_shows(pair):
    """Scales and landmarks come from them: every row once and in the same order, or rows spread over the log."""
    held, read = (problem.select(600) for problem in pair)
    np.testing.assert_array_equal(read.some_points(20_000), held.some_points(20_000))
    some = read.some_points(320)[len(read.initial.points) :]
    assert len(some) == 2 * 320
    sixteenth = len(held) // 16
    assert (held.whole().logged[:sixteenth] == some[0]).all(axis=1).any()
    assert (held.whole().logged[-sixteenth:] == some[319]).all(axis=1).any()


def test_weighing_by_parts_equals_weighing_at_once(pair, results):
    """The same omega: every sum agrees within the errors that both state."""
    held, read = (problem.select(600) for problem in pair)
    kernel = bondic.Gaussian(1.0) * Dirac() + Constant(1.0)
    omega = KernelFunction(kernel, held.layout, held.whole().logged[:20], np.linspace(-1, 1, 40).reshape(20, 2))
    center = KernelFunction(kernel, held.layout, held.whole().logged[5:9], np.ones((4, 2)))
    for ball in (Ball(kernel, 3.0), Ball(kernel, 3.0, center, 0.1)):
        candidates = [Candidate(omega), Candidate(omega, start=False), Candidate(None)]
        for one, other in zip(weigh(held, ball, candidates), weigh(read, ball, candidates), strict=True):
            for mine, theirs in (
                (one.correction, other.correction),
                (one.mass, other.mass),
                (one.support.size, other.support.size),
                (one.support.bias, other.support.bias),
            ):
                assert abs(mine.mid - theirs.mid) <= mine.rad + theirs.rad
            assert one.eta == pytest.approx(other.eta, rel=0.5)
            assert one.squares == pytest.approx(other.squares, rel=1e-12)
        settings_ = [Setting(p, ball, Instruments(kernel), Pinelis(), 0.1, None, 2) for p in (held, read)]
        for one, other in zip(*(dual_bound(s, omega) for s in settings_), strict=True):
            assert abs(one.bound - other.bound) <= 2 * (one.rounding + other.rounding)
    del results


def test_the_certificate_of_a_stream_needs_the_policy_and_nothing_else(pair, results, tmp_path):
    certificate = results[1].certificate
    stream, log = pair[1].log, bondic.Transitions(**columns(episodes=60, length=50))
    for source in (stream, log, bondic.stream_log(log.columns(), batch_rows=401)):
        found = bondic.verify(certificate, source, POLICY)
        assert found.low == pytest.approx(results[1].low, abs=1e-9)
    bondic.save_certificate(certificate, tmp_path / "c")
    assert (tmp_path / "c.npz").stat().st_size < 300_000  # no answers of the policy row by row
    assert bondic.verify(bondic.load_certificate(tmp_path / "c"), stream, POLICY).status == results[1].status.name
    with pytest.raises(VerificationError, match="Pass the policy"):
        bondic.verify(certificate, log)
    with pytest.raises(VerificationError):
        bondic.verify(certificate, log, bondic.UniformPolicy(2))
    other = columns(episodes=60, length=50, seed=8)
    with pytest.raises(VerificationError, match="not the one that was certified"):
        bondic.verify(certificate, bondic.stream_log(other, batch_rows=700), POLICY)


def test_a_policy_that_differs_only_at_next_states_is_caught(pair, results):
    starts = {tuple(row) for row in MDP.initial_states.round(9).tolist()}

    def other(states):
        probs = MDP.target_probs(states)
        known = np.array([tuple(row) in starts for row in states.round(9).tolist()])
        return np.where(known[:, None], probs, 0.9 * probs + 0.05)

    with pytest.raises(VerificationError, match="when recomputed"):
        bondic.verify(results[1].certificate, pair[1].log, bondic.CallablePolicy(other))


def test_a_certificate_from_memory_is_verified_on_a_stream(pair, results):
    assert bondic.verify(results[0].certificate, pair[1].log).low == pytest.approx(results[0].low, abs=1e-7)
    assert bondic.verify(results[0].certificate, pair[1].log, POLICY).checks


def test_one_call_from_a_folder(folder):
    found = bondic.evaluate_policy(bondic.stream_log(folder, batch_rows=200), POLICY, method=METHOD, **QUESTION)
    held = bondic.evaluate_policy(bondic.Transitions(**columns()), POLICY, method=METHOD, **QUESTION)
    assert found.low == pytest.approx(held.low, abs=1e-5)
    assert found.high == pytest.approx(held.high, abs=1e-5)


def test_other_gauges_and_the_sensitivity_curve_work_on_streams(pair):
    for gauge in ("plug-in", "paper"):
        one, other = (bondic.estimate_interval(p, method=replace(METHOD, gauge=gauge)) for p in pair)
        assert one.low == pytest.approx(other.low, abs=1e-3)
    one, other = (bondic_lab.radius_sensitivity(p, method=METHOD, radii=[1.0, 5.0]) for p in pair)
    assert one.interval(2.0) == pytest.approx(other.interval(2.0), abs=1e-3)


def test_methods_that_need_all_rows_get_them_or_say_so(pair, monkeypatch):
    kernel = bondic.Gaussian(1.0) * Dirac()
    settings_ = [Setting(p, Ball(kernel, 1.0), Instruments(kernel), Pinelis(), 0.1, None, 2) for p in pair]
    held, read = (primal_point(setting, None) for setting in settings_)
    assert held == read
    monkeypatch.setattr("bondic.rows.rows._MOST_NUMBERS", 1000)
    with pytest.raises(InvalidInput, match="all rows in memory"):
        primal_point(replace(settings_[1], problem=pair[1].select(1)), None)


def test_an_interrupted_estimate_leaves_nothing_behind(pair, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def interrupt(stage, share):
        if stage == "certify" and share > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bondic.estimate_interval(pair[1], method=replace(METHOD, engine="pairs"), progress=interrupt)
    assert not list(tmp_path.iterdir())


SCRIPT = """
import resource, sys
import numpy as np, bondic
from bondic.rows import rows as blocks
from bondic.core.sums import forms
from bondic.tuning.defaults import Choices
from bondic_lab.worlds.synthetic import SyntheticMDP
blocks.LONGEST_BLOCK, forms.MOST_HELD = 4096, 2**16  # a log of many blocks, and few of them held
mdp = SyntheticMDP.default(0.9, seed=1, dimension=2)
path, rows = sys.argv[1], int(sys.argv[2])
n = int(np.load(path + "/rewards.npy", mmap_mode="r").size)
names = ("observations", "actions", "rewards", "next_observations", "terminations", "episode_ids", "timesteps")
log = {name: np.load(f"{path}/{name}.npy", mmap_mode="r")[:rows] for name in names}
stream = bondic.stream_log(log, batch_rows=4000)
problem = bondic.make_problem(
    stream, bondic.CallablePolicy(mdp.target_probs), bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
    gamma=mdp.gamma, reward_range=mdp.reward_range)
bondic.estimate_interval(problem, method=bondic.Dual(radius='paper', choices=Choices(pairs=16), rank=60))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_log(tmp_path):
    """Peak memory at 12 000 and at 240 000 rows, both more than sums hold here: the difference stays far below 40 MB."""
    data = columns(episodes=2400, length=100)
    for name, column in data.items():
        np.save(tmp_path / f"{name}.npy", column)
    peaks = []
    for rows in (12_000, 240_000):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout.split()[-1]) / 1024)
    mapped = sum(column.nbytes for column in data.values()) / 2**20  # pages of mapped files count as resident
    assert peaks[1] - peaks[0] <= mapped + 12


def test_nothing_is_said_about_a_clean_log(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "batch_rows=300" in repr(bondic.stream_log(Path(folder), batch_rows=300))


def test_the_budget_counts_actions_and_draws():
    """Weights exist for every action at every point, and every draw is a point: batches shrink accordingly."""
    rows, rng = 5000, np.random.default_rng(0)
    columns = {
        "observations": rng.normal(size=(rows, 2)),
        "actions": rng.integers(2, size=rows),
        "rewards": rng.random(rows),
        "next_observations": rng.normal(size=(rows, 2)),
        "terminations": np.zeros(rows, bool),
    }
    initial = bondic.InitialStates.exact(np.zeros((1, 2)))
    terms = {"gamma": 0.5, "reward_range": (0.0, 1.0), "accept": ["unseen-actions"]}

    def held(source, policy, memory="0.8GB", **more):
        log = bondic.stream_log(source, memory=memory)
        return bondic.make_problem(log, policy, initial, **terms, **more).block_rows

    few, many = held(columns, bondic.UniformPolicy(2)), held(columns, bondic.UniformPolicy(64))
    assert 4 * many < few
    with pytest.raises(InvalidInput, match="too small"):
        held(columns, bondic.UniformPolicy(5000))
    moving = {**columns, "actions": rng.normal(size=(rows, 1))}
    policy = bondic.GaussianPolicy(lambda s: s[:, :1], 0.5)
    assert 3 * held(moving, policy, draws=50) < held(moving, policy, draws=1)
    # a number of rows to be read at a time has no say in it
    assert (
        bondic.make_problem(
            bondic.stream_log(columns, batch_rows=4000), bondic.UniformPolicy(64), initial, **terms
        ).block_rows
        == many
    )
    with pytest.raises(InvalidInput, match="positive number"):
        bondic.stream_log(columns, memory=float("inf"))
