"""Damaged and forged certificate files: each is loaded and verified under a memory limit and an alarm, and counted.

    python experiments/damaged_certificates.py [--count 1000] [--seed 0] [--jobs 1] [--minutes M]

Prints how many were refused in words, how many were accepted with the claims they had before the damage (it touched
nothing that is claimed), and what must not happen: accepted with other claims, other exceptions, out of memory, too slow,
a process that died. Exit status 1 if any of that did. File k is made from the seed (seed, k) alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bondic_lab.noise.plug_in import PlugIn

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from experiments.certificate_damage import DAMAGES

import bondic
from bondic.core.balls import Instruments
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.functions import KernelFunction
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.verify import Verification
from bondic.tuning.defaults import Advanced
from bondic_lab.worlds.synthetic import SyntheticMDP

SECONDS = 10
"""Of processor time; a machine that is busy elsewhere is no fault of a file. Waiting ends after WAIT seconds."""
WAIT = 120
ROOM = 640 * 2**20
"""Bytes a check may take beyond what Python and the libraries hold: one gigabyte in all."""
CHUNK = 100
BAD = ("changed claims", "exception", "out of memory", "too slow", "process died")


class TooSlow(BaseException):
    """Raised by the alarm; nothing in the library catches it."""


@dataclass(frozen=True)
class Good:
    """A certificate that verifies, with what verification needs and says."""

    certificate: bondic.Certificate
    log: bondic.Transitions
    policy: Any
    checked: Verification


@dataclass
class Tally:
    """Counts, the worst figures, and the first few things that must not happen."""

    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    peak: int = 0  # bytes
    bad: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.counts.update(other.counts)
        self.slowest, self.peak = max(self.slowest, other.slowest), max(self.peak, other.peak)
        self.bad = (self.bad + other.bad)[:20]

    @property
    def sound(self) -> bool:
        return not any(self.counts[name] for name in BAD)


def good_certificates() -> list[Good]:
    """Small ones of every make: features, centers, a center of Q, drawn actions, a horizon, withheld rows."""
    mdp = SyntheticMDP.default(0.3, seed=1)
    rollout = mdp.rollout(6, 20, np.random.default_rng(0))
    log = bondic.Transitions(**{name: getattr(rollout, name) for name in rollout.__dataclass_fields__})
    policy, initial = (
        bondic.CallablePolicy(mdp.target_probs),
        bondic.InitialStates.exact(mdp.initial_states, mdp.initial_probs),
    )
    terms: dict[str, Any] = {"gamma": 0.3, "reward_range": mdp.reward_range}
    question = bondic.make_problem(log, policy, initial, **terms)
    timed = bondic.make_problem(log, policy, **terms, horizon=8)
    value = bondic.Gaussian(0.5) * Dirac() + Constant(1.0)
    center = KernelFunction(Constant(1.0), question.layout, question.whole().logged[:1], np.array([[0.2, 0.0]]))
    fixed = Instruments(bondic.Gaussian(1.0) * Dirac() + Constant(0.5))
    features = Advanced(pairs=8)
    made = [
        (question, log, policy, bondic.Dual(radius="paper", gauge=PlugIn(0.01), advanced=features)),
        (question, log, policy, bondic.Dual(instruments=fixed, ball=bondic.Ball(value, 9.0, center), gauge=PlugIn(0.01))),
        (timed, log, policy, bondic.Dual(radius="paper", gauge="half", advanced=features)),
        (*_continuous(), bondic.Dual(radius="paper", side="lower", gauge=PlugIn(0.02))),
    ]  # fmt: skip
    found = []
    for problem, rows, asked, method in made:
        result = bondic.estimate_interval(problem, method=method)
        certificate = result.certificate
        assert certificate is not None
        found.append(Good(certificate, rows, None, bondic.verify(certificate, rows)))
        if not found[1:]:
            private = result.without_rows(problem).certificate
            assert private is not None
            found.append(Good(private, rows, asked, bondic.verify(private, rows, asked)))
    return found


def _continuous() -> tuple[Any, bondic.Transitions, Any]:
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(80, 2)), rng.normal(size=(80, 1))
    following = 0.7 * states + 0.2 * actions + 0.1 * rng.normal(size=(80, 2))
    log = bondic.Transitions(states, actions, np.tanh(states[:, 0]), following, rng.random(80) < 0.05)
    policy = bondic.GaussianPolicy(lambda s: 0.4 * s[:, :1], 0.2)
    initial = bondic.InitialStates.exact(rng.normal(size=(6, 2)))
    question = bondic.make_problem(log, policy, initial, gamma=0.3, reward_range=(-1.0, 1.0), draws=2, initial_draws=8)
    return question, log, policy


def claims(checked: Verification) -> tuple[Any, ...]:
    texts = tuple((item.name, item.text, item.state) for item in checked.assumptions)
    return round(checked.alpha, 12), checked.side, checked.status, checked.guarantee, checked.rows, texts


def judge(good: Good, path: Path) -> tuple[str, str]:
    """One word for what happened, and the details where it must not."""
    try:
        checked = bondic.verify(bondic.load_certificate(path), good.log, good.policy)
    except VerificationError as problem:
        memory = isinstance(problem.__cause__, MemoryError)
        return ("out of memory", str(problem)) if memory else ("refused", _unprintable(str(problem)))
    except InvalidInput as problem:
        return "refused", _unprintable(str(problem))
    except TooSlow:
        return "too slow", traceback.format_exc()[-1500:]
    except Exception:  # whatever it is, it is counted
        return "exception", traceback.format_exc()[-1500:]
    near = np.allclose([checked.low, checked.high], [good.checked.low, good.checked.high], rtol=1e-8, atol=1e-8)
    if near and claims(checked) == claims(good.checked):
        return "accepted, same claims", ""
    return "changed claims", f"{checked} instead of {good.checked}"


def _unprintable(message: str) -> str:
    if not message.isprintable() or len(message) > 5000:
        raise AssertionError(f"a message that a terminal would obey: {message!r}")
    return ""


def run_chunk(seed: int, first: int, last: int) -> Tally:
    """Files first..last-1."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for trial in range(first, last):
            rng = np.random.default_rng([seed, trial])
            good = _GOOD[int(rng.integers(0, len(_GOOD)))]
            damage = DAMAGES[int(rng.integers(0, len(DAMAGES)))]
            try:
                path = damage(folder, good.certificate, rng)
            except (MemoryError, RecursionError, OverflowError, SystemError, ValueError, TypeError):
                tally.counts["could not be written"] += 1  # our own writer gave up on what it was asked to write
                continue
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew: what writing took does not count
            begun = time.process_time()
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(WAIT)
            try:
                word, details = judge(good, path)
            except TooSlow:
                word, details = "too slow", ""
            finally:
                signal.alarm(0)
                signal.setitimer(signal.ITIMER_PROF, 0)
            tally.slowest = max(tally.slowest, time.process_time() - begun)
            tally.peak = max(tally.peak, _peak())
            tally.counts[word] += 1
            if word in BAD:
                tally.bad.append(f"file {trial} ({damage.__name__}): {word}\n{details}")
    return tally


def _peak() -> int:
    """Most bytes of memory held since the peak was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


_GOOD: list[Good] = []


def start_process(room: int = ROOM) -> None:
    """Certificates are made, compiled code is loaded; then the walls go up."""
    _GOOD.extend(good_certificates())
    signal.signal(signal.SIGALRM, _ring)
    signal.signal(signal.SIGPROF, _ring)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))


def _ring(*_: Any) -> None:
    raise TooSlow


def run(count: int, seed: int, jobs: int, seconds: float = float("inf")) -> Tally:
    """Files 0..count-1, or as many of the first ones as are done in time."""
    total, begun = Tally(), time.monotonic()
    context = multiprocessing.get_context("spawn")
    pieces = [(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK)]
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=start_process) as pool:
        waiting = [pool.submit(run_chunk, seed, *piece) for piece in pieces]
        for piece, future in zip(pieces, waiting, strict=True):
            if time.monotonic() - begun > seconds:
                for later in waiting:
                    later.cancel()
            if future.cancelled():
                continue
            try:
                total.add(future.result())
            except BrokenProcessPool:
                total.add(
                    Tally(Counter({"process died": 1}), bad=[f"a process died in files {piece[0]}..{piece[1] - 1}"])
                )
    return total


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Damaged certificates, loaded and verified.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no further file after this time")
    options = parser.parse_args(arguments)
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    begun = time.perf_counter()
    tally = run(options.count, options.seed, options.jobs, 60 * options.minutes)
    print(f"{tally.counts.total()} damaged certificates, seed {options.seed}")
    for word in ("refused", "accepted, same claims", "could not be written", *BAD):
        print(f"{word:24} {tally.counts[word]:8}")
    print(
        f"slowest {tally.slowest:.2f} s of processor time, peak memory {tally.peak / 2**20:.0f} MB, "
        f"{time.perf_counter() - begun:.0f} s in all"
    )
    for details in tally.bad:
        print(details, file=sys.stderr)
    return 0 if tally.sound else 1


if __name__ == "__main__":
    sys.exit(main())
