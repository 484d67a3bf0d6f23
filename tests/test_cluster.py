"""Dask and Ray for real, on a small log: the same bits, workers that die, schedulers that are lost, Ctrl-C.

A policy that knows a hundred actions makes blocks short (4096 rows), so that 24 000 rows are six tasks a pass.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
from bondic.engines.products import Pairs
from bondic.errors import ExecutorError, InvalidInput
from bondic.executors.checkpoints import Checkpoints
from bondic.executors.named import named_executor
from bondic.executors.threads import Serial
from bondic.kernels.normal_form import Layout, normal_form
from bondic.policies.travel import PolicyFile
from bondic.sums.forms import Sums
from bondic.sums.spool import sum_blocks

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("default")]

ROWS, LENGTH, ACTIONS, BLOCKS = 24_000, 50, 100, 6
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
KERNEL = b.Gaussian(1.5, on="state") + b.Constant(1.0)


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
    monkeypatch.setattr("bondic.sums.forms.MOST_HELD", 0)
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
        instruments=b.Instruments(KERNEL), ball=b.Ball(KERNEL, 5.0), rank=40,
        engine=Sums(Sums.named("series").engines, executor),
    )  # fmt: skip
    found = b.estimate_interval(question(place), method=method, progress=progress)
    return found.low, found.high, [(claim.end, claim.parts) for claim in found.claims]


def executor(place, name, kept=None):
    return named_executor(name, policy=PolicyFile(f"{place}/rules.py:target"), checkpoints=kept)


def once(action, share=0.3):
    """Progress that does something in the middle of the certified pass."""
    left = [action]

    def progress(stage, done):
        if stage == "certify" and done >= share and left:
            left.pop()()

    return progress


# ------------------------------------------------------------------------------------------------- Dask


def test_dask_gives_the_same_bits_and_a_killed_worker_leaves_no_trace(far):
    alone = answer(far)
    assert -2.5 < alone[0] < alone[1] < 2.5
    with executor(far, "dask://2") as dask:
        assert answer(far, dask) == alone
        pids = list(dask.client().run(os.getpid).values())
        assert answer(far, dask, once(lambda: os.kill(pids[0], signal.SIGKILL))) == alone
        assert pids[0] not in dask.client().run(os.getpid, on_error="ignore").values()


def test_points_come_back_where_a_sum_wants_them(place):
    """A short log is held: the workers send measures."""
    with executor(place, "dask://1") as dask:
        assert answer(place, dask) == answer(place)


@pytest.mark.parametrize("name", ["dask://2", "ray://2"])
def test_pairs_of_blocks_are_divided_among_workers(name, place):
    """Nine blocks of points: 45 tasks, added in their order whoever has done them; every point travels once with the job."""
    rng = np.random.default_rng(5)
    points, columns = rng.normal(size=(40_000, 4)), rng.normal(size=(40_000, 2))
    (term,) = normal_form(b.Gaussian(1.0), Layout(4, False, 0, 1))
    engine = Pairs()
    engine.block = 4500

    def total(where):
        block = lambda i: (points[4500 * i : 4500 * (i + 1)], columns[4500 * i : 4500 * (i + 1)])  # noqa: E731
        return sum_blocks(engine, term, len(points), block, where)

    alone = total(Serial())
    assert alone.totals.shape == (45, 2)
    with executor(place, name) as workers:
        found = total(workers)
    assert np.array_equal(found.totals, alone.totals)
    assert np.array_equal(found.absolute, alone.absolute)
    assert found.relative == alone.relative


def test_what_is_wrong_with_the_data_comes_back_in_words(far):
    rules = far / "rules.py"
    before = rules.read_text()
    with executor(far, "dask://1") as dask:
        rules.write_text(before + "\n# another file\n")
        dask.policy = PolicyFile(f"{far}/gone.py:target")
        try:
            with pytest.raises(InvalidInput, match="gone"):
                answer(far, dask)
        finally:
            rules.write_text(before)


def test_nobody_at_the_address(far, monkeypatch):
    monkeypatch.setattr("bondic.executors.dask._PATIENCE", 1.0)
    with (
        executor(far, f"dask://127.0.0.1:{free_port()}") as dask,
        pytest.raises(ExecutorError, match="No Dask scheduler answers at tcp://127"),
    ):
        answer(far, dask)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def process(*command, cwd):
    with open(cwd / "processes.txt", "a") as log:
        started = subprocess.Popen([sys.executable, "-m", *command], cwd=cwd, stdout=log, stderr=log)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait()


@contextlib.contextmanager
def scheduler(port, tmp_path):
    """A scheduler and a worker of somebody else."""
    address = f"tcp://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"]
    worker = [address, "--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--death-timeout", "20"]
    with (
        process("distributed.cli.dask_scheduler", *where, cwd=tmp_path) as first,
        process("distributed.cli.dask_worker", *worker, cwd=tmp_path),
    ):
        yield first


def test_a_lost_scheduler_costs_nothing_that_was_kept(far, tmp_path, monkeypatch):
    monkeypatch.setattr("bondic.executors.dask._PATIENCE", 20.0)
    alone, port, kept = answer(far), free_port(), tmp_path / "kept"
    with scheduler(port, tmp_path) as first, executor(far, f"dask://127.0.0.1:{port}", kept) as dask:
        dask.client()
        monkeypatch.setattr("bondic.executors.dask._PATIENCE", 2.0)
        with pytest.raises(ExecutorError, match="scheduler was lost"):
            answer(far, dask, once(first.kill, 0.1))
    done = {path: path.stat().st_mtime_ns for path in kept.glob("*/*.part")}
    assert 0 < len(done) < BLOCKS
    monkeypatch.setattr("bondic.executors.dask._PATIENCE", 20.0)
    with scheduler(port, tmp_path), executor(far, f"dask://127.0.0.1:{port}", kept) as dask:
        assert answer(far, dask) == alone
    assert {path: path.stat().st_mtime_ns for path in done} == done


# ------------------------------------------------------------------------------------------------- Ray


def test_ray_gives_the_same_bits(far, tmp_path):
    with executor(far, "ray://2", tmp_path / "kept") as ray:
        assert answer(far, ray) == answer(far)
        assert len(list((tmp_path / "kept").glob("*/*.part"))) >= BLOCKS
        (tmp_path / "kept").rename(tmp_path / "away")
        ray._checkpoints = Checkpoints(tmp_path / "kept")
        ray.policy = PolicyFile(f"{far}/gone.py:target")
        with pytest.raises(InvalidInput, match="gone"):
            answer(far, ray)


# ------------------------------------------------------------------------------------------------- the tool


def tool(out, *more):
    question = ["--policy", "rules.py:two", "--gamma", "0.6", "--reward-range", "-1", "1", "--initial", "starts.csv"]
    quick = ["--method", "dual", "--weight-bandwidth", "1", "--radius", "5", "--out", str(out), "--memory", "2GB"]
    return [sys.executable, "-m", "bondic", "evaluate", "log", *question, *quick, *more]


def test_the_tool_takes_the_name_of_an_executor(place, tmp_path):
    found = []
    for name in ("serial", "dask://2"):
        done = subprocess.run(
            tool(tmp_path / name[:4], "--executor", name), cwd=place, capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, 4), done.stderr
        assert "Traceback" not in done.stderr
        data = json.loads((tmp_path / name[:4] / "result.json").read_text())
        found.append((data["low"], data["high"]))
    assert found[0] == found[1]


def test_ctrl_c_ends_the_tool_and_its_workers(place, tmp_path):
    kept = tmp_path / "kept"
    command = tool(tmp_path / "out", "--executor", "dask://2", "--checkpoints", str(kept))
    running = subprocess.Popen(
        command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while not list(kept.glob("*/*.part")) and time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130, err
    assert b"Traceback" not in err
    assert b"leaked" not in err
    assert list(kept.glob("*/*.part"))
    deadline = time.monotonic() + 30
    while alive(running.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not alive(running.pid)


def alive(group):
    """Processes of this group that have not ended."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
