"""Parts of a log that are worked on elsewhere: what is sent, what comes back. Here the other process is this one.

With real processes: test_processes.py. Blocks are made short, so that small logs have several of them.
"""

import os
import sys
from concurrent.futures import Executor, Future
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
from bondic.cli import executors as named
from bondic.core.errors import InvalidInput
from bondic.engines import remote, spool
from bondic.engines.spool import Direct
from bondic.engines.standard import named_engines
from bondic.engines.sums import EngineSums
from bondic.engines.threads import Serial, Threads
from bondic.errors import ExecutorError, MissingExtra, PolicyError
from bondic.modules import load_files, loaded_files
from builders import Here
from test_one_answer import EASY, KERNELS, columns, method

BLOCK = 128
RULES = """
import numpy as np

def soft(states):
    logits = np.stack([states[:, 0], -states[:, 0]], axis=1)
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)

def other(states):
    return soft(-states)

class Drawn:
    def sample_action(self, states, rng):
        return 0.3 * states[:, :1] + 0.6 * rng.standard_normal((len(states), 1))

drawn = Drawn()
"""


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch):
    monkeypatch.setattr("bondic.rows.rows.LONGEST_BLOCK", BLOCK)


@pytest.fixture(autouse=True)
def nothing_known():
    """Every test stands for processes of its own."""
    remote._received.cache_clear()
    spool._received.cache_clear()


def write_log(folder, data, parts=3):
    """The log in so many Parquet parts."""
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(data["rewards"])), parts)):
        table = {}
        for name, column in data.items():
            flat = column[rows] if column.ndim == 1 else list(column[rows])
            table[name] = pa.array(flat)
        pq.write_table(pa.table(table), folder / f"part-{number}.parquet")
    return folder


@pytest.fixture
def place(tmp_path):
    (tmp_path / "rules.py").write_text(RULES)
    write_log(tmp_path / "log", columns())
    return tmp_path


def ask(place, *, policy="soft", log="log", **statements):
    data = columns()
    start = b.InitialStates.exact(data["observations"][:5])
    rows = b.stream_log(place / log, batch_rows=200)
    return b.make_problem(rows, b.load_policy(f"{place}/rules.py:{policy}"), start, **EASY, **statements)


def answer(question, name="gaussian", executor=None, engines=None):
    return b.estimate_interval(question, method=replace(method(name, "half"), engine=EngineSums(engines, executor)))


def bits(result):
    return result.low, result.high, [(claim.end, claim.parts) for claim in result.claims]


# ------------------------------------------------------------------------------------------------- the same bits


@pytest.mark.parametrize(
    ("name", "horizon", "most"),
    [*((name, (None, 12)[k % 2], (2**24, 0)[k // 2 % 2]) for k, name in enumerate(KERNELS)), ("table", None, 0)],
)
def test_work_that_was_sent_has_the_same_bits(name, horizon, most, tmp_path, monkeypatch):
    monkeypatch.setattr("bondic.engines.sums.MAX_HELD", most)
    data = columns(table=name == "table")
    (tmp_path / "rules.py").write_text(RULES)
    write_log(tmp_path / "log", data)
    start = b.InitialStates.exact(data["observations"][:5])
    policy = b.load_policy(f"{tmp_path}/rules.py:soft")
    logs = [b.Transitions(**data), b.stream_log(tmp_path / "log"), b.stream_log(tmp_path / "log", batch_rows=77)]
    asked = [b.make_problem(log, policy, start, **EASY, horizon=horizon) for log in logs]
    found = [
        answer(asked[0], name),
        answer(asked[1], name),
        *(answer(one, name, Here()) for one in asked[1:]),
    ]
    assert all(bits(other) == bits(found[0]) for other in found)
    again = b.verify(found[2].certificate, logs[1], policy, sums=EngineSums(executor=Here()))
    assert (again.low, again.high) == (found[0].low, found[0].high)


def test_draws_of_a_continuous_policy_are_those_of_their_rows(tmp_path):
    data = columns(continuous=True)
    (tmp_path / "rules.py").write_text(RULES)
    write_log(tmp_path / "log", data)
    question = ask(tmp_path, policy="drawn")
    assert bits(answer(question)) == bits(answer(question, executor=Here()))


def test_arrays_cannot_be_sent(place):
    data = columns()
    question = b.make_problem(
        b.stream_log(data, batch_rows=200),
        b.load_policy(f"{place}/rules.py:soft"),
        b.InitialStates.exact(data["observations"][:5]),
        **EASY,
    )
    with pytest.raises(InvalidInput, match="files that all of them see"):
        answer(question, executor=Here())


# ------------------------------------------------------------------------------------------------- files


def touched(path):
    os.utime(path, (path.stat().st_mtime + 5,) * 2)


def added(path):
    (path.parent / "part-7.parquet").write_bytes(path.read_bytes())


def damaged(path):
    whole, status = path.read_bytes(), path.stat()
    path.write_bytes(whole[: len(whole) // 4] + bytes(len(whole) // 4) + whole[len(whole) // 2 :])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (touched, r"part-1\.parquet"),
        (added, r"part-7\.parquet is not the file"),
        (damaged, r"part-1\.parquet (cannot be read|was changed)"),
    ],
)
def test_a_part_that_is_not_the_one_that_was_read_is_named(spoil, words, place):
    question = ask(place)
    spoil(place / "log" / "part-1.parquet")
    with pytest.raises(InvalidInput, match=words):
        answer(question, executor=Here())


# ------------------------------------------------------------------------------------------------- policies


def test_a_policy_that_answers_otherwise_there_is_refused(place, monkeypatch):
    question, real = ask(place), remote.open_job

    def other(job):
        sent, *others = real(job)
        return (replace(sent, rows=replace(sent.rows, policy=b.load_policy(f"{place}/rules.py:other"))), *others)

    monkeypatch.setattr(remote, "open_job", other)
    with pytest.raises(PolicyError, match="answers differently here than in the process"):
        answer(question, executor=Here())


def test_a_policy_file_that_is_another_one_there_is_refused(place, monkeypatch):
    question = ask(place)
    for name in [name for name in sys.modules if name.startswith("_bondic_policy_rules")]:
        monkeypatch.delitem(sys.modules, name)
    (place / "rules.py").write_text(RULES + "# changed\n")
    with pytest.raises(PolicyError, match=r"rules\.py is not the file"):
        load_files(loaded_files())
    del question


def test_a_process_that_has_loaded_an_older_file_says_so(place):
    ask(place)
    sent = loaded_files()
    (place / "rules.py").write_text(RULES + "# changed\n")
    ask(place)
    with pytest.raises(PolicyError, match="start the workers again"):
        load_files(sent)


def test_policies_that_cannot_be_pickled_are_refused_with_the_way_out(place):
    start = b.InitialStates.exact(columns()["observations"][:5])
    question = b.make_problem(b.stream_log(place / "log"), b.UniformPolicy(2), start, **EASY)
    assert bits(answer(question)) == bits(answer(question, executor=Here()))
    closure = b.SoftmaxPolicy(lambda s: np.stack([s[:, 0], -s[:, 0]], axis=1))
    question = b.make_problem(b.stream_log(place / "log"), closure, start, **EASY)
    with pytest.raises(ExecutorError, match=r"file\.py:function"):
        answer(question, executor=Here())


# ------------------------------------------------------------------------------------------------- jobs and names


def test_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(remote, "__version__", "0.0.0")
    job = remote.pack_job(1)
    monkeypatch.undo()
    with pytest.raises(ExecutorError, match="install one version"):
        remote.open_job(job)


class Now(Executor):
    """Does at once what it is given, and keeps a list of it."""

    def __init__(self):
        self.begun = []

    def submit(self, task, /, *given):
        self.begun.append(given[-1])
        future = Future()
        try:
            future.set_result(task(*given))
        except Exception as problem:
            future.set_exception(problem)
        return future


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (remote.BrokenExecutor("ended abruptly"), "lost its workers"),
        (MissingExtra("a", "torch", "This"), r"bondic\[torch\]"),
    ],
)
def test_lost_workers_and_missing_libraries_are_errors_of_ours(problem, words):
    def task(*_):
        raise problem

    with pytest.raises(ExecutorError, match=words):
        list(remote.Remote(Now()).parts(task, b"", range(3)))


def test_results_come_in_order_and_few_are_on_their_way(monkeypatch):
    monkeypatch.setattr(remote, "AHEAD", 4)
    found = remote.Remote(executor := Now()).parts(lambda _, place: place**2, b"", range(20))
    assert next(found) == 0
    assert len(executor.begun) == 5
    assert list(found) == [k**2 for k in range(1, 20)]


def test_executors_have_names():
    with named.named_executor("serial") as one, named.named_executor("threads://3") as other:
        assert (one, other) == (Serial(), Threads(3))
    with named.named_executor("threads") as threads:
        assert threads.count is None


@pytest.mark.parametrize("text", ["", "cloud", "threads://x", "processes://0", "processes", "dask://x", "serial://2"])
def test_names_that_nobody_has_are_refused(text):
    with pytest.raises(InvalidInput, match="There are serial"), named.named_executor(text):
        pass


def test_dask_is_asked_for_by_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"bondic\[dask\]"), named.named_executor("dask://localhost:1"):
        pass


# ------------------------------------------------------------------------------------- pairs of blocks of points


@pytest.mark.parametrize(("engine", "most"), [("pairs", 0), ("reference", 2**24)])
def test_pairs_of_blocks_can_be_summed_elsewhere(engine, most, place, monkeypatch):
    """Many blocks: one pair of them is one task, and the bits are those of one process; the exact sum lies inside."""
    whole = answer(ask(place), engines=named_engines(engine), executor=Serial())
    monkeypatch.setattr("bondic.engines.sums.MAX_HELD", most)
    monkeypatch.setattr(Direct, "block", 64)
    done = []

    class Counting(Here):
        def submit(self, task, /, *given):
            done.append(given[-1])
            return super().submit(task, *given)

    question, engines = ask(place), named_engines(engine)
    here = answer(question, engines=engines, executor=Serial())
    assert not done
    assert bits(here) == bits(answer(question, engines=engines, executor=Counting()))
    assert len(done) > 20
    assert here.low == pytest.approx(whole.low, abs=1e-9)
    assert here.high == pytest.approx(whole.high, abs=1e-9)
