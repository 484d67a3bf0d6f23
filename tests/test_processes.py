"""Other processes for real, on a small log: the same bits, workers that die, nobody at an address, Ctrl-C.

A policy that knows a hundred actions makes blocks short (4096 rows), so that 9000 rows are three tasks a pass.
"""

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
from bondic.cli.executors import named_executor
from bondic.core.balls import Instruments
from bondic.core.errors import InvalidInput
from bondic.core.kernels.features import RandomFeatures
from bondic.core.kernels.leaves import Constant
from bondic.engines.standard import named_engines
from bondic.engines.sums import EngineSums
from bondic.errors import ExecutorError, MissingExtra, NoInterval
from bondic.tuning.defaults import Advanced
from test_tool import run

ROWS, LENGTH, ACTIONS, BLOCKS = 9_000, 50, 100, 3
RULES = f"""
import numpy as np

def target(states):
    shares = np.zeros((len(states), {ACTIONS}))
    shares[:, 0] = 1 / (1 + np.exp(-states[:, 0]))
    shares[:, 1] = 1 - shares[:, 0]
    return shares

def two(states):
    return target(states)[:, :2]
"""
KERNEL = RandomFeatures.gaussian(20, 1, 1.5, seed=0, on="state") + Constant(1.0)


@pytest.mark.parametrize("error", [NoInterval(), MissingExtra("torch", "torch", "A network"), InvalidInput("row 3")])
def test_errors_come_back_from_other_processes(error):
    """One that could not be unpickled there would leave a pool waiting for ever."""
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), vars(copy)) == (str(error), vars(error))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "rules.py").write_text(RULES)
    (folder / "log").mkdir()
    rng = np.random.default_rng(5)
    state, steps = rng.normal(size=ROWS + 1), np.arange(ROWS)
    table = pa.table(
        {
            "obs_0": state[:-1],
            "action": rng.integers(2, size=ROWS),
            "reward": np.tanh(state[:-1]) * rng.random(ROWS),
            "next_obs_0": state[1:],
            "terminated": np.zeros(ROWS, bool),
            "truncated": steps % LENGTH == LENGTH - 1,
            "episode_id": steps // LENGTH,
            "timestep": steps % LENGTH,
        }
    )
    for part in range(3):
        size = ROWS // 3
        pq.write_table(table.slice(part * size, size), folder / "log" / f"part-{part}.parquet", row_group_size=2048)
    (folder / "starts.csv").write_text("obs_0,weight\n0.5,0.5\n-0.5,0.5\n")
    return folder


@pytest.fixture
def far(place, monkeypatch):
    """The place, where no log is short enough to be held: sums are added up by the workers."""
    monkeypatch.setattr("bondic.engines.sums.MAX_HELD", 0)
    return place


def question(place):
    log = b.stream_log(place / "log")
    start = b.InitialStates.exact([[0.5], [-0.5]])
    policy = b.load_policy(f"{place}/rules.py:target")
    asked = b.make_problem(log, policy, start, gamma=0.6, reward_range=(-1.0, 1.0), accept=None)
    assert -(-ROWS // asked.block_rows) == BLOCKS
    return asked


def answer(place, executor=None, progress=None):
    method = b.Dual(
        instruments=Instruments(KERNEL), ball=b.Ball(KERNEL, 5.0), advanced=Advanced(rank=40),
        engine=EngineSums(named_engines("auto"), executor),
    )  # fmt: skip
    found = b.estimate_interval(question(place), method=method, progress=progress)
    return found.low, found.high, [(claim.end, claim.parts) for claim in found.claims]


@pytest.fixture(scope="module")
def clicks(place):
    """Decisions of one step, and episodes of three, with propensities: both in files of several blocks."""
    rng = np.random.default_rng(8)
    action = rng.integers(2, size=ROWS)
    table = pa.table(
        {
            "obs_0": rng.normal(size=ROWS),
            "action": action,
            "reward": (rng.random(ROWS) < 0.2 + 0.3 * action).astype(float),
            "behavior_action_probs": np.full(ROWS, 0.5),
        }
    )
    pq.write_table(table, place / "clicks.parquet", row_group_size=2000)
    steps = np.arange(ROWS)
    more = {
        "next_obs_0": rng.normal(size=ROWS),
        "terminated": steps % 3 == 2,
        "episode_id": steps // 3,
        "timestep": steps % 3,
    }
    pq.write_table(pa.table({**{name: table[name] for name in table.column_names}, **more}), place / "episodes.parquet")
    return place


def default_answer(place, name, executor=None, **how):
    """The default method on a log of files; a policy of a hundred actions makes its blocks short."""
    single = name == "clicks"
    log = b.stream_log(place / f"{name}.parquet", one_step=single, executor=executor, **how)
    policy = b.load_policy(f"{place}/rules.py:target")
    asked = b.make_problem(log, policy, gamma=0.0 if single else 0.5, reward_range=(0.0, 1.0), accept=None)
    assert -(-ROWS // asked.block_rows) == BLOCKS
    method = None if single else b.Propensities()
    found = b.estimate_interval(asked, method=method)
    checked = b.verify(found.certificate, log, policy)
    assert (checked.low, checked.high) == (found.low, found.high)
    assert found.method == "propensities"
    assert found.low < found.high
    return found.low, found.high, found.estimate, found.effective_sample_size


def once(action, share=0.3):
    """Progress that does something in the middle of the certified pass."""
    left = [action]

    def progress(stage, done):
        if stage == "certify" and done >= share and left:
            left.pop()()

    return progress


@pytest.fixture(scope="module")
def processes():
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        yield pool


def test_processes_give_the_same_bits(far, processes):
    alone = answer(far)
    assert -2.5 < alone[0] < alone[1] < 2.5
    assert answer(far, processes) == alone


@pytest.mark.parametrize("name", ["clicks", "episodes"])
def test_the_default_gives_the_same_bits_with_any_workers(clicks, processes, name):
    alone = default_answer(clicks, name)
    assert default_answer(clicks, name, batch_rows=777) == alone
    for workers in (1, 4):
        with ThreadPoolExecutor(workers) as pool:
            assert default_answer(clicks, name, pool) == alone
    assert default_answer(clicks, name, processes) == alone


class Twice(ThreadPoolExecutor):
    """An executor that loses every other result and does the work again, as schedulers do when a worker is lost."""

    def submit(self, task, /, *arguments):
        def again():
            task(*arguments)
            return task(*arguments)

        return super().submit(again)


def test_a_task_that_is_done_again_leaves_no_trace(clicks):
    with Twice(2) as pool:
        assert default_answer(clicks, "clicks", pool) == default_answer(clicks, "clicks")


def test_a_worker_that_dies_ends_the_work_in_words(far):
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        pids = [pool.submit(os.getpid).result()]
        with pytest.raises(ExecutorError, match="lost its workers"):
            answer(far, pool, once(lambda: os.kill(pids[0], signal.SIGKILL), share=0.0))


# ------------------------------------------------------------------------------------------------- Dask


@pytest.mark.cluster
@pytest.mark.filterwarnings("default")
def test_dask_gives_the_same_bits_and_a_killed_worker_leaves_no_trace(far):
    from distributed import Client

    alone = answer(far)
    with Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as client:
        assert answer(far, client.get_executor(pure=False)) == alone
        pids = list(client.run(os.getpid).values())
        assert answer(far, client.get_executor(pure=False), once(lambda: os.kill(pids[0], signal.SIGKILL))) == alone
        assert pids[0] not in client.run(os.getpid, on_error="ignore").values()


@pytest.mark.cluster
@pytest.mark.filterwarnings("default")
def test_the_default_on_dask_survives_a_killed_worker(clicks):
    from distributed import Client

    with Client(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as client:
        pids = list(client.run(os.getpid).values())
        killing = [lambda: os.kill(pids[0], signal.SIGKILL)]

        class Killing(type(client.get_executor(pure=False))):
            def submit(self, task, *arguments, **how):
                future = super().submit(task, *arguments, **how)
                if killing:
                    killing.pop()()
                return future

        alone = default_answer(clicks, "clicks")
        assert default_answer(clicks, "clicks", Killing(client, pure=False)) == alone
        assert not killing


@pytest.mark.cluster
@pytest.mark.filterwarnings("default")
def test_nobody_at_the_address(monkeypatch):
    monkeypatch.setattr("bondic.cli.executors._PATIENCE", 1.0)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (
        pytest.raises(ExecutorError, match="No Dask scheduler answers at tcp://127"),
        named_executor(f"dask://127.0.0.1:{port}"),
    ):
        pass


# ------------------------------------------------------------------------------------------------- the tool


def tool(out, *more):
    question = ["--policy", "rules.py:two", "--gamma", "0.6", "--reward-range", "-1", "1", "--initial", "starts.csv"]
    quick = ["--method", "dual", "--with", "weight_bandwidth=1", "--with", "radius=5", "--with", "memory=2GB"]
    return ["evaluate", "log", *question, *quick, "--out", str(out), *more]


def test_the_tool_takes_the_name_of_an_executor(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(place)
    found = []
    for name in ("serial", "processes://2"):
        code, _, err = run(capsys, *tool(tmp_path / name[:4], "--with", f"executor={name}"))
        assert code in (0, 4), err
        data = json.loads((tmp_path / name[:4] / "result.json").read_text())
        found.append((data["low"], data["high"]))
    assert found[0] == found[1]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("number", "send"), [(signal.SIGINT, os.killpg), (signal.SIGTERM, os.kill)])
def test_an_interrupt_ends_the_tool_and_its_workers(place, tmp_path, number, send):
    """A terminal tells all of them; whoever sends SIGTERM tells the program alone."""
    command = [sys.executable, "-m", "bondic", *tool(tmp_path / "out", "--with", "executor=processes://2")]
    running = subprocess.Popen(
        command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while members(running.pid) < 3 and time.monotonic() < deadline:  # itself and two workers
        time.sleep(0.05)
    time.sleep(0.1)  # somewhere in the work
    send(running.pid, number)
    _, err = running.communicate(timeout=30)
    assert running.returncode in (128 + number, 0, 4), err
    assert b"Traceback" not in err
    deadline = time.monotonic() + 30
    while alive(running.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not alive(running.pid)


@pytest.mark.usefixtures("interruptible")
def test_workers_ignore_what_the_tool_was_started_to_ignore():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fixture gives it back
    with named_executor("processes://1") as pool:
        assert pool.submit(signal.getsignal, signal.SIGINT).result() == signal.SIG_IGN


def members(group):
    """How many processes of this group there are."""
    found = 0
    for name in os.listdir("/proc"):
        try:
            found += name.isdigit() and os.getpgid(int(name)) == group
        except ProcessLookupError:  # it ended meanwhile
            continue
    return found


def alive(group):
    """Processes of this group that have not ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
