"""Tables from files: rows as numbers of states, in this process and on executors, with the bits of the log in memory."""

from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
from bondic.core.columns import RowRange
from bondic.methods.on_tables import states_of
from bondic.rows.coded import coded

RULES = """
import numpy as np

def new_policy(states):
    return np.column_stack([0.3 + 0.1 * states[:, 0], 0.7 - 0.1 * states[:, 0]])
"""


def chain_log(folder, rows=4000, states=5):
    rng = np.random.default_rng(2)
    episodes, following = rows // 10, rng.integers(states, size=(states, 2, 3))
    state, out = np.zeros(episodes, np.int64), []
    for step in range(10):
        action = rng.integers(2, size=episodes)
        after = following[state, action, rng.integers(3, size=episodes)]
        out.append((state, action, rng.random(episodes) < 0.2 + 0.1 * state, after, np.full(episodes, step)))
        state = after
    state, action, reward, after, step = (np.stack(one, axis=1).ravel() for one in zip(*out, strict=True))
    columns = {
        "obs_0": state, "action": action, "reward": reward.astype(float), "next_obs_0": after, "terminated": step == 9,
        "episode_id": np.repeat(np.arange(episodes), 10), "timestep": step,
    }  # fmt: skip
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), 3)):
        pq.write_table(pa.table({name: column[part] for name, column in columns.items()}), folder / f"{number}.parquet")
    (folder.parent / "rules.py").write_text(RULES)
    return b.load_policy(f"{folder.parent}/rules.py:new_policy")


def table_problem(log, policy, block=256):
    problem = b.make_problem(log, policy, b.InitialStates.exact([[0.0]]), gamma=0.8, reward_range=(0, 1), accept=None)
    problem.__dict__["block_rows"] = block
    return problem


class Dying(Executor):
    """Two threads; every task fails once as if its worker had died, and is tried again, as a scheduler does."""

    def __init__(self):
        self.pool, self.died = ThreadPoolExecutor(2), 0

    def submit(self, task, /, *arguments, **how):
        def tried():
            task(*arguments, **how)  # what it sent is lost
            self.died += 1
            return task(*arguments, **how)

        return self.pool.submit(tried)


def test_a_table_has_the_same_bits_in_memory_from_files_and_on_any_executor(tmp_path, monkeypatch):
    monkeypatch.setattr("bondic.rows.rows.block_length", lambda *_: 256)
    policy = chain_log(tmp_path / "log")
    held = b.read_log(tmp_path / "log").transitions
    inside = b.estimate_interval(table_problem(held, policy), method=b.Table())
    assert inside.high - inside.low < 2.5
    dying = Dying()
    for executor in (None, ThreadPoolExecutor(1), ThreadPoolExecutor(2), dying):
        log = b.stream_log(tmp_path / "log", batch_rows=500, executor=executor)
        found = b.estimate_interval(table_problem(log, policy), method=b.Table())
        assert (found.low, found.high, found.estimate) == (inside.low, inside.high, inside.estimate)
        for part in ("claims", "conclusion", "assumptions"):
            assert found.certificate.body[part] == inside.certificate.body[part]
    assert dying.died >= 8
    again = b.verify(found.certificate, log, policy)
    assert (again.low, again.high) == (found.low, found.high)


def test_both_zeros_are_one_state(tmp_path, monkeypatch):
    monkeypatch.setattr("bondic.rows.rows.block_length", lambda *_: 256)
    policy = chain_log(tmp_path / "log")
    for number in range(3):
        path = tmp_path / "log" / f"{number}.parquet"
        table = pq.read_table(path)
        for name in ("obs_0", "next_obs_0"):
            column = table[name].to_numpy().astype(float)
            column[(column == 0) & (np.arange(column.size) % 2 == 0)] = -0.0
            table = table.set_column(table.schema.get_field_index(name), name, pa.array(column))
        pq.write_table(table, path)
    inside = b.estimate_interval(table_problem(b.read_log(tmp_path / "log").transitions, policy), method=b.Table())
    problem = table_problem(b.stream_log(tmp_path / "log", batch_rows=500), policy)
    assert coded(problem, 100).coded is not None
    found = b.estimate_interval(problem, method=b.Table())
    assert (found.low, found.high) == (inside.low, inside.high)


def test_batches_of_numbers_are_those_of_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr("bondic.rows.rows.block_length", lambda *_: 256)
    policy = chain_log(tmp_path / "log")
    problem = table_problem(b.stream_log(tmp_path / "log", batch_rows=500), policy)
    numbers = coded(problem, 100)
    assert numbers.coded is not None
    for rows in (RowRange(0, 4000), RowRange(100, 900), RowRange(256, 257)):
        pairs = zip(numbers.restricted(rows).batches(), problem.restricted(rows).batches(), strict=True)
        for mine, other in pairs:
            for name in ("logged", "slots", "rewards", "continues", "log_rows"):
                assert np.array_equal(getattr(mine, name), getattr(other, name))
            for name in ("points", "weights", "rows"):
                assert np.array_equal(getattr(mine.next, name), getattr(other.next, name))
            assert mine.rows == other.rows
    assert np.array_equal(numbers.coded.states, states_of(problem, 100)[: len(numbers.coded.states)])
    assert coded(problem, 3) is problem  # too many states
    assert coded(numbers, 100) is numbers


def test_a_policy_with_two_answers_at_a_state_is_refused(tmp_path):
    chain_log(tmp_path / "log")
    calls = []

    def moody(states):
        calls.append(len(states))
        first = np.full(len(states), 0.5 + 0.01 * (len(calls) % 2))
        return np.column_stack([first, 1.0 - first])

    with pytest.raises(b.InvalidInput, match="queried again in another order"):
        table_problem(b.stream_log(tmp_path / "log", batch_rows=500), moody)
