"""Ctrl-C, SIGTERM and progress of the tool, with real processes: it ends soon and leaves nothing behind."""

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from bondic.report.progress import progress_bar

pytestmark = pytest.mark.usefixtures("interruptible")

SOON = 15.0
"""Seconds, for a busy machine: half a second where it has nothing else to do. The decomposition alone takes minutes."""

POLICY = """
import sys

import numpy as np

class Uniform:
    asked = False

    def action_probs(self, observations):
        if not self.asked:
            self.asked = True
            print("asked", file=sys.stderr, flush=True)
        return np.full((len(observations), 34), 1 / 34)

class Compiled:
    def action_probs(self, observations):
        matrix = np.random.default_rng(0).normal(size=(6000, 6000))
        print("asked", file=sys.stderr, flush=True)
        np.linalg.svd(matrix)  # minutes, deaf to interrupts

uniform, compiled = Uniform(), Compiled()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clicks")
    rng, rows = np.random.default_rng(0), 4000
    table = {f"{name}obs_{k}": rng.normal(size=rows) for k in range(5) for name in ("", "next_")}
    table |= {
        "action": rng.integers(0, 34, size=rows),
        "reward": rng.integers(0, 2, size=rows).astype(float),
        "terminated": np.ones(rows, bool),
        "truncated": np.zeros(rows, bool),
        "episode_id": np.arange(rows),
        "timestep": np.zeros(rows, int),
    }
    pq.write_table(pa.table(table), folder / "log.parquet")
    (folder / "rules.py").write_text(POLICY)
    return folder


@contextmanager
def begun(place, *words):
    """A process that has said "asked": it is at work. It does not outlive the test."""
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        try:
            assert process.stderr.readline() == "asked\n"
            yield process
        finally:
            process.kill()


def evaluating(place, policy):
    question = f"--policy rules.py:{policy} --gamma 0 --reward-range 0 1 --with radius=9 --out out/res".split()
    return begun(place, "-m", "bondic", "evaluate", "log.parquet", *question, "--quiet")


WRITING = """
import sys
from pathlib import Path

import numpy as np
from bondic.cli.interrupt import obeying_interrupts
from bondic.folders import result_folder

with obeying_interrupts(), result_folder(Path("out/res"), overwrite=False) as folder:
    (folder / "half").write_text("written")
    matrix = np.random.default_rng(0).normal(size=(6000, 6000))
    print("asked", file=sys.stderr, flush=True)
    np.linalg.svd(matrix)
"""


def interrupt(place, process, number=signal.SIGINT):
    sent = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - sent < SOON
    assert process.returncode == 128 + number
    assert "interrupted; nothing was left half-written" in err
    assert "Traceback" not in err
    out = place / "out"
    assert not out.exists() or not list(out.iterdir())


BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


@BOTH
def test_compiled_code_does_not_keep_an_interrupt_waiting(place, number):
    with evaluating(place, "compiled") as process:
        time.sleep(0.3)
        interrupt(place, process, number)


@BOTH
def test_a_folder_that_is_half_written_goes_with_the_program(place, number):
    with begun(place, "-c", WRITING) as process:
        assert list((place / "out").iterdir())
        time.sleep(0.3)
        interrupt(place, process, number)


@pytest.mark.parametrize(("after", "number"), [(0.0, signal.SIGINT), (2.0, signal.SIGINT), (0.5, signal.SIGTERM)])
def test_every_stage_is_left_soon(place, after, number):
    """4000 rows with 34 actions take longer than that."""
    with evaluating(place, "uniform") as process:
        time.sleep(after)
        interrupt(place, process, number)


def test_what_was_ignored_from_the_start_stays_ignored(place):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the fixture gives it back
    with evaluating(place, "uniform") as process:
        process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        assert process.poll() is None
        interrupt(place, process, signal.SIGTERM)


def test_without_a_terminal_a_line_says_what_is_going_on():
    text = io.StringIO()
    with progress_bar(Console(file=text, force_terminal=False), every=0.02) as report:
        report("search", 0.25)
        time.sleep(0.2)
        report("certify", 0.0)
        time.sleep(0.2)
    lines = text.getvalue().splitlines()
    assert "search 25%, 0 s so far" in lines
    assert lines[-1] == "certify, 0 s so far"
    time.sleep(0.1)
    assert text.getvalue().splitlines() == lines  # nothing after the end


def test_short_or_quiet_work_says_nothing():
    text = io.StringIO()
    with progress_bar(Console(file=text, force_terminal=False)) as report:
        report("search", 0.5)
    assert text.getvalue() == ""
    with progress_bar(Console(file=text, quiet=True)) as silent:
        assert silent is None
