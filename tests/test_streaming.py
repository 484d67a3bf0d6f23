"""Logs larger than memory: the same checks, the same hash, the same interval as in memory."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic
import builders
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.kernels.features import Linear, RandomFeatures
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.kernels.normal_form import Layout, normal_form
from bondic.core.sums.measure import Measure, Stream
from bondic.data.memory import MIN_BATCH, MemoryPlan, parse_memory
from bondic.data.stream import ArrayStream
from bondic.engines import sums as sums_forms
from bondic.engines.sums import EngineSums
from bondic.report.health import examine
from bondic.tuning.defaults import Advanced
from bondic_lab.worlds.synthetic import SyntheticMDP
from builders import twice
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


@pytest.mark.filterwarnings("ignore::bondic.errors.ValidityWarning")  # few initial states: equal first rows
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


def swapped(data):
    times = data["timesteps"].copy()
    times[[509, 510]] = times[[510, 509]]
    return data | {"timesteps": times}


BAD = {
    "not finite": (lambda d: changed(d, "rewards", 777, np.nan), "`rewards` is not finite at row 777"),
    "negative time": (lambda d: changed(d, "timesteps", 555, -1), "`timesteps` is negative at row 555"),
    "no probability": (lambda d: changed(d, "behavior_action_probs", 333, 0.0), "0.0 at row 333"),
    # episodes of 25 rows, batches of 10: the second half of an episode lies in another batch
    "after an end": (lambda d: changed(d, "terminations", 509, True), "Row 510 follows row 509 .*row 509 is terminated"),
    "backwards": (swapped, "Row 510 .*comes after row 509"),
    "pasted twice": (twice, "Row 1000 .*comes after row 24 .*keep each event once"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD)
def test_a_bad_row_is_named_by_its_number_in_the_whole_log(data, spoil, message):
    with pytest.raises(InvalidInput, match=message):
        ArrayStream(spoil(data), batch_rows=10)


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
    assert MemoryPlan.of(needed, 14).batch_rows >= MIN_BATCH


# The question


def test_statements_are_checked_against_all_rows_at_once(data):
    batch = 60
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


# Sums


LAYOUT = Layout(2, False, 0, 2)
KERNELS = {
    "gaussian": bondic.Gaussian(0.9) * Dirac() + Constant(0.5),
    "narrow": bondic.Gaussian(0.02) * Dirac(),
    "matern": 2.0 * bondic.Matern(0.7, nu=1.5),
    "features": RandomFeatures.gaussian(8, 2, 1.0, seed=0) * Dirac() + Constant(1.0),
    "linear": Linear(),
    "wide": bondic.Gaussian(3.0),
}


def stream_of(points, groups, batch, error=1e-15, sample=None):
    def batches():
        for top in range(0, points.shape[0], batch):
            yield Measure(points[top : top + batch], groups[:, top : top + batch], error)

    some = points[:200] if sample is None else sample
    return Stream(lambda task: map(task, batches()), lambda: some, points.shape[0], groups.shape[0], 2, 2)


def streamed_squares(terms, source, engine="auto"):
    """As if there were more points than are held."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums_forms, "MAX_HELD", 0)
        return EngineSums.named(engine).squares(terms, source)


def far_off(points):
    points[3] = [50.0, 0.0]
    points[500:502] = [1e8, 1e8]
    return points


SHAPES = {
    "far outliers": lambda rng, n: far_off(rng.normal(size=(n, 2))),
    "offset": lambda rng, n: rng.normal(size=(n, 2)) + 1e8,
    "drift": lambda rng, n: rng.normal(size=(n, 2)) + np.linspace(0, 6, n)[:, None],
}


@pytest.mark.parametrize(("name", "shape"), list(zip(KERNELS, [*SHAPES, *SHAPES], strict=True)))
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


# Intervals


@pytest.fixture(scope="module")
def pair():
    data = columns(episodes=60, length=50)
    held = bondic.make_problem(bondic.Transitions(**data), POLICY, START, **QUESTION)
    read = bondic.make_problem(bondic.stream_log(data, batch_rows=700), POLICY, START, **QUESTION)
    return held, read


METHOD = bondic.Dual(radius="paper", advanced=Advanced(pairs=24, rank=150))


@pytest.fixture(scope="module")
def results(pair):
    return [bondic.estimate_interval(problem, method=METHOD) for problem in pair]


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
from bondic.engines import sums as forms
from bondic.tuning.defaults import Advanced
from bondic_lab.worlds.synthetic import SyntheticMDP
blocks.LONGEST_BLOCK, forms.MAX_HELD = 1024, 2**12  # a log of many blocks, and few of them held
mdp = SyntheticMDP.default(0.9, seed=1, dimension=2)
names = ("observations", "actions", "rewards", "next_observations", "terminations", "episode_ids", "timesteps")
start = bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs)
for rows in (4_000, 40_000):
    log = {name: np.load(f"{sys.argv[1]}/{name}.npy", mmap_mode="r")[:rows] for name in names}
    stream = bondic.stream_log(log, batch_rows=1000)
    policy, terms = bondic.CallablePolicy(mdp.target_probs), {"gamma": mdp.gamma, "reward_range": mdp.reward_range}
    problem = bondic.make_problem(stream, policy, start, **terms)
    bondic.estimate_interval(problem, method=bondic.Dual(radius='paper', advanced=Advanced(pairs=16, rank=60)))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_log(tmp_path):
    """Peak memory after 4 000 and after 40 000 rows, both more than sums hold here; 60 coordinates
    of each are 19 MB."""
    data = columns(episodes=400, length=100)
    for name, column in data.items():
        np.save(tmp_path / f"{name}.npy", column)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path)], capture_output=True, text=True, check=True)
    small, large = (int(word) / 1024 for word in done.stdout.split())
    mapped = sum(column.nbytes for column in data.values()) / 2**20  # pages of mapped files count as resident
    assert large - small <= mapped + 12


def test_the_budget_counts_actions_and_draws():
    """Weights exist for every action at every point, and every draw is a point: batches shrink accordingly."""
    initial, plain = bondic.InitialStates.exact(np.zeros((1, 2))), builders.columns(5000)
    terms = {"gamma": 0.5, "reward_range": (-1.0, 1.0), "accept": ["unseen-actions"]}

    def block(source, policy, **more):
        log = bondic.stream_log(source, memory="0.8GB")
        return bondic.make_problem(log, policy, initial, **terms, **more).block_rows

    assert 4 * block(plain, bondic.UniformPolicy(64)) < block(plain, bondic.UniformPolicy(2))
    with pytest.raises(InvalidInput, match="too small"):
        block(plain, bondic.UniformPolicy(5000))
    moving, policy = builders.columns(5000, action_dim=1), bondic.GaussianPolicy(lambda s: s[:, :1], 0.5)
    assert 3 * block(moving, policy, draws=50) < block(moving, policy, draws=1)
    with pytest.raises(InvalidInput, match="positive number"):
        bondic.stream_log(plain, memory=float("inf"))


# --- single decisions, and rows that are read once -------------------------------------------------------------------


def clicks(rows=3000, seed=2, **more):
    rng = np.random.default_rng(seed)
    action = rng.integers(2, size=rows)
    return {
        "obs_0": rng.normal(size=rows),
        "action": action,
        "reward": (rng.random(rows) < 0.3 + 0.2 * action).astype(float),
        "behavior_action_probs": np.where(action, 0.4, 0.6),
        **more,
    }


def uniform(states):
    return np.full((len(states), 2), 0.5)


def test_starts_of_single_decisions_are_not_read_where_nobody_needs_them(tmp_path, monkeypatch):
    pq.write_table(pa.table(clicks()), tmp_path / "log.parquet")
    held = bondic.read_log(tmp_path / "log.parquet", one_step=True).transitions
    log = bondic.stream_log(tmp_path / "log.parquet", one_step=True, batch_rows=700)
    assert log.content_hash == held.content_hash
    assert log.single_rows
    assert held.single_rows
    assert log.reward_span == held.reward_span == (0.0, 1.0)
    read, real = [], bondic.data.initial.read_starts
    monkeypatch.setattr("bondic.data.initial.read_starts", lambda log, count: read.append(count) or real(log, count))
    problem = bondic.make_problem(log, uniform, reward_range=(0, 1), accept=None)
    result = bondic.estimate_interval(problem)
    assert max(read) == 64  # some of them, to see how many actions the policy knows
    start = result.certificate.estimand.start
    assert (start.observations, start.weights.size, start.from_log) == (None, 3000, True)
    inside = bondic.estimate_interval(bondic.make_problem(held, uniform, gamma=0.0, reward_range=(0, 1), accept=None))
    assert (result.low, result.high) == (inside.low, inside.high)
    for other in (log, held):  # the certificate is verified with either
        assert bondic.verify(result.certificate, other, uniform).low == result.low
    assert np.array_equal(problem.initial_states.observations, held.observations)
    assert problem.initial.weights.shape == (3000, 2)  # whoever needs them has them


@pytest.mark.parametrize("full", [False, True])
def test_columns_of_a_long_log_lie_in_a_temporary_file(full, tmp_path, monkeypatch):
    """In memory where the disk has no place for it."""

    def no_place(*_):
        raise OSError("no space left on device")

    if full:
        monkeypatch.setattr("os.posix_fallocate", no_place)
    pq.write_table(pa.table(clicks()), tmp_path / "log.parquet")
    log = bondic.stream_log(tmp_path / "log.parquet", one_step=True, batch_rows=700)

    def columns():
        problem = bondic.make_problem(log, uniform, reward_range=(0, 1), accept=None)
        problem.__dict__["block_rows"] = 256  # several blocks
        found = problem.decisions(None, every_action=False, states=False)
        assert problem.decisions(None, every_action=False, states=False) is found  # read once
        return found

    inside = columns()
    monkeypatch.setattr("bondic.core.bounded._MOST_NUMBERS", 10)
    outside = columns()
    assert isinstance(outside.ratios.values.base, np.memmap) is not full
    assert not isinstance(inside.ratios.values.base, np.memmap)
    (one,), (other,) = (read.free_estimators(1.0) for read in (inside, outside))
    assert np.array_equal(one.values, other.values)
    found, expected = (read.from_end("upper").rewards for read in (outside, inside))
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("fault", ["none", "block", "other rewards", "rows"])  # other rewards: users come back
def test_copies_of_single_decisions_are_found_in_parts_as_in_memory(fault, tmp_path):
    data = clicks(reward=np.random.default_rng(5).random(3000))
    if fault in ("block", "other rewards"):
        for name in ("obs_0", "action", "behavior_action_probs", *(["reward"] if fault == "block" else [])):
            data[name][2000:2500] = data[name][500:1000]
    elif fault == "rows":
        for name in data:
            data[name][[100, 900, 2900]] = data[name][[7, 8, 9]]
    pq.write_table(pa.table(data), tmp_path / "log.parquet")
    held = bondic.inspect_log(bondic.read_log(tmp_path / "log.parquet", one_step=True).transitions)
    log = bondic.stream_log(tmp_path / "log.parquet", one_step=True, batch_rows=700)
    assert bondic.inspect_log(log) == held
    found = [item for item in held if item.kind == "copies"]
    rows = {"none": [], "block": [2000], "other rewards": [], "rows": [100]}[fault]
    assert [item.row for item in found] == rows
    assert [item.severity for item in found] == ["warn"] * len(rows)


def test_rows_that_go_on_after_all_are_inspected_as_such(tmp_path):
    """The first parts look like single decisions; a later one has an episode of many steps."""
    rows = 2000
    ends = np.arange(rows) < 1500
    ends[-1] = True
    states = np.random.default_rng(1).normal(size=rows + 1)
    data = clicks(rows, next_obs_0=states[1:], terminated=ends) | {"obs_0": states[:-1]}
    pq.write_table(pa.table(data), tmp_path / "log.parquet")
    log = bondic.stream_log(tmp_path / "log.parquet", batch_rows=400)
    held = bondic.read_log(tmp_path / "log.parquet").transitions
    assert not log.single_rows
    assert np.array_equal(log.inspection.episode_lengths, held.inspection.episode_lengths)
    assert bondic.inspect_log(log) == bondic.inspect_log(held)


def test_rows_that_fit_are_read_from_their_files_once(tmp_path, monkeypatch):
    pq.write_table(table(columns(), lists=False), tmp_path / "log.parquet")
    held = bondic.read_log(tmp_path / "log.parquet").transitions
    kept = bondic.stream_log(tmp_path / "log.parquet")
    monkeypatch.setattr(type(kept), "_raw", lambda *_: pytest.fail("the files are read again"))
    for rows in (RowRange(0, 1000), RowRange(3, 4), RowRange(371, 999)):
        for _, part in kept.batches(rows, 250):
            assert len(part) <= 250
        whole = kept.read(rows)
        for name, column in held.cut(rows).columns().items():
            mine = getattr(whole, name)
            assert (mine is None) == (column is None)
            assert column is None or (np.array_equal(mine, column) and mine.dtype == column.dtype)


def test_a_policy_is_asked_at_distinct_states():
    asked = []

    def policy(states):
        asked.append(len(states))
        share = 1 / (1 + states[:, 0])
        return np.column_stack([share, 1 - share])

    rng = np.random.default_rng(3)
    states = rng.integers(5, size=4001).astype(float)
    log = bondic.Transitions(
        states[:-1, None], rng.integers(2, size=4000), rng.random(4000), states[1:, None], np.zeros(4000, bool)
    )
    problem = bondic.make_problem(log, policy, bondic.InitialStates.exact([[0.0]]), gamma=0.5, reward_range=(0, 1))
    assert max(asked) == 5
    following = problem.whole().next
    assert np.array_equal(following.weights[:, 0], 1 / (1 + states[1:]))


class Broken(np.ndarray):
    """A column whose later rows cannot be read."""

    def __getitem__(self, rows):
        if isinstance(rows, slice) and rows.start and rows.start >= 10:
            raise OSError("disk error")
        return super().__getitem__(rows)


def test_what_is_wrong_with_earlier_rows_is_said_before_what_cannot_be_read():
    """Rows are looked at while the next ones are read."""
    data = columns(episodes=4, length=5)
    data["rewards"] = np.asarray(data["rewards"]).view(Broken)
    with pytest.raises(OSError, match="disk error"):
        ArrayStream(dict(data), batch_rows=10)
    data["timesteps"][4] = data["timesteps"][3]
    with pytest.raises(InvalidInput, match="Rows 3 and 4 carry the same"):
        ArrayStream(data, batch_rows=10)


def test_the_report_counts_truncations_of_decisions_that_are_read_in_batches(tmp_path):
    cut = np.arange(3000) % 7 == 0
    data = clicks(terminated=np.ones(3000, bool), truncated=cut)
    pq.write_table(pa.table(data | {"next_obs_0": data["obs_0"]}), tmp_path / "log.parquet")
    log = bondic.stream_log(tmp_path / "log.parquet", batch_rows=700)
    for one in (log, log.read()):
        health = examine(bondic.make_problem(one, uniform, gamma=0.0, reward_range=(0, 1), accept=None))
        assert (health.episodes, health.terminations, health.truncations) == (3000, 3000, cut.sum())
