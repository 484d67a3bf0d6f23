"""The pair engine against blocked NumPy, PyTorch, KeOps, a hand-written AVX2 kernel and the processor's limit.

    python benchmarks/pairs.py [--quick] [--points 4096]

u^T K u for every weight column, Gaussian kernel, float64, one core; nanoseconds per unordered pair and core. Every figure
is the least processor time of several runs: other work on the machine can only add. What is not installed is left out and
said so. `limit` is (d + 8 + columns) fused multiply-adds per pair at the rate measured here, on the widest registers.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # before numpy

import numpy as np
from machine import describe

from bondic.core.kernels.base import Leaf
from bondic.core.kernels.features import Linear
from bondic.core.kernels.leaves import Dirac, Gaussian, Laplace, Matern, TimeMask
from bondic.core.kernels.normal_form import Term
from bondic.core.sums import reference
from bondic.core.sums.measure import Measure
from bondic.engines import pairs
from bondic.engines.sums import EngineSums

HERE = Path(__file__).parent
SLOW = ("blocked NumPy", "KeOps")  # measured on half as many points
Sums = Callable[[np.ndarray, np.ndarray], np.ndarray]  # points (n, d), columns (n, p) -> (p,)


def by_engine(z: np.ndarray, u: np.ndarray) -> np.ndarray:
    return pairs.block_sums(z, np.ones(z.shape[1]), u).sum(axis=0)


def by_numpy(z: np.ndarray, u: np.ndarray) -> np.ndarray:
    term = Term(1.0, ((Gaussian(1.0), tuple(range(z.shape[1]))),), np.ones((1, 1)))
    return reference.block_sums(term, z, u).sum(axis=0)


def with_torch() -> Sums | str:
    """Blocks of 1024 from the diagonal on, |x|^2 + |y|^2 - 2 x.y by a product of matrices."""
    try:
        import torch
    except ImportError as problem:
        return f"PyTorch: not here ({problem})"
    torch.set_num_threads(1)

    def sums(z: np.ndarray, u: np.ndarray) -> np.ndarray:
        points, columns, total = torch.from_numpy(z), torch.from_numpy(u), torch.zeros(u.shape[1], dtype=torch.float64)
        halves = -0.5 * (points * points).sum(dim=1)
        for top in range(0, len(z), 1024):
            for left in range(top, len(z), 1024):
                rows, others = slice(top, top + 1024), slice(left, left + 1024)
                values = torch.addmm(halves[None, others], points[rows], points[others].T).add_(halves[rows, None])
                part = (columns[rows] * (values.exp_() @ columns[others])).sum(dim=0)
                total += part if left == top else 2 * part
        return total.numpy()

    return sums


def with_keops() -> Sums | str:
    """All ordered pairs, differences in registers; KeOps compiles one routine per formula at its first call."""
    try:
        from pykeops.numpy import LazyTensor
    except Exception as problem:
        return f"KeOps: not here ({problem})"

    def sums(z: np.ndarray, u: np.ndarray) -> np.ndarray:
        values = (-0.5 * ((LazyTensor(z[:, None, :]) - LazyTensor(z[None, :, :])) ** 2).sum(-1)).exp()
        return (u * (values @ u)).sum(axis=0)

    try:
        sums(np.zeros((4, 2)), np.ones((4, 1)))
    except Exception as problem:
        return f"KeOps: installed but it does not run ({type(problem).__name__}: {problem})"
    return sums


def with_yardstick(folder: Path) -> tuple[Sums, float, float] | str:
    """(sums, FMA rate on 4 doubles, on 8) from yardstick.c."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return "yardstick: no C compiler here"
    target = folder / "yardstick.so"
    command = [compiler, "-O3", "-mavx2", "-mfma", "-shared", "-fPIC", str(HERE / "yardstick.c"), "-o", str(target)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"yardstick: {compiler} failed: {made.stderr.strip().splitlines()[:1]}"
    library = ctypes.CDLL(str(target))
    library.rate_of_4.restype = library.rate_of_8.restype = ctypes.c_double
    pointer = np.ctypeslib.ndpointer(np.float64)
    library.symmetric.argtypes = [pointer] * 3 + [ctypes.c_long] * 3 + [pointer] * 2

    def sums(z: np.ndarray, u: np.ndarray) -> np.ndarray:
        (count, d), p = z.shape, u.shape[1]
        assert count % 16 == 0
        rows = np.ascontiguousarray((z - z.mean(axis=0)) * pairs.HALF_LOG2E)
        axes, columns, room = rows.T.copy(), u.T.copy(), pairs._aligned((d + p) * pairs.TILE + 4 * p)
        out = np.zeros(p)
        library.symmetric(rows, axes, columns, count, d, p, room, out)
        return out

    rates = [max(measure() for _ in range(5)) for measure in (library.rate_of_4, library.rate_of_8)]
    return sums, rates[0], rates[1]


def least(work: dict[str, Callable[[], object]], repetitions: dict[str, int]) -> dict[str, float]:
    """Least processor seconds of single-threaded pieces of work, in turn: a busy minute hits all of them."""
    best = dict.fromkeys(work, np.inf)
    for turn in range(max(repetitions.values())):
        for name, piece in work.items():
            if turn < repetitions[name]:
                start = time.process_time()
                piece()
                best[name] = min(best[name], time.process_time() - start)
    return best


def gaussian_table(contenders: dict[str, Sums], rate: float, count: int, repetitions: int, quick: bool) -> None:
    names = list(contenders)
    print("| d | columns | " + " | ".join(names) + " | limit | others / pair engine |")
    print("|---|---|" + "---|" * (len(names) + 2))
    rng = np.random.default_rng(0)
    for d, p in [(d, p) for d in ((4, 20) if quick else (2, 4, 8, 20)) for p in ((2,) if quick else (1, 2, 8))]:
        z, u = rng.normal(size=(count, d)) / np.sqrt(d), rng.normal(size=(count, p))
        answers = {name: sums(z, u) for name, sums in contenders.items()}  # warm: compilation is timed elsewhere
        sizes = {name: count // 2 if name in SLOW else count for name in names}
        work = {name: partial(sums, z[: sizes[name]], u[: sizes[name]]) for name, sums in contenders.items()}
        seconds = least(work, {name: 3 if name in SLOW else repetitions for name in names})
        cost = {name: 2e9 * seconds[name] / sizes[name] ** 2 for name in names}
        apart = max(np.abs(answer / answers[names[0]] - 1).max() for answer in answers.values())
        assert apart < 1e-8, f"the contenders disagree by {apart}"
        figures = " | ".join(f"{cost[name]:.2f}" for name in names)
        ratios = ", ".join(f"{cost[name] / cost[names[0]]:.2f}" for name in names[1:])
        limit = f"{1e9 * (d + 8 + p) / rate:.2f}" if rate else "–"
        print(f"| {d} | {p} | {figures} | {limit} | {ratios} |", flush=True)


def product_table(count: int, repetitions: int) -> None:
    """Four state dimensions, a column with 20 times, two weight columns; `squares` on both engines."""
    rng = np.random.default_rng(1)
    z = np.column_stack([rng.normal(size=(count, 4)), rng.integers(0, 20, count)])
    groups, state = rng.normal(size=(2, count, 1)), (0, 1, 2, 3)
    cases: dict[str, list[tuple[Leaf, tuple[int, ...]]]] = {
        "Gaussian": [(Gaussian(1.0), state)],
        "Gaussian, small bandwidth": [(Gaussian(0.02), state)],
        "Laplace": [(Laplace(2.0), state)],
        "Matérn 1/2": [(Matern(2.0, nu=0.5), state)],
        "Matérn 3/2": [(Matern(2.0, nu=1.5), state)],
        "Matérn 5/2": [(Matern(2.0), state)],
        "Gaussian x Dirac(time)": [(Gaussian(1.0), state), (Dirac("time"), (4,))],
        "Gaussian x mask": [(Gaussian(1.0), state), (TimeMask(10), (4,))],
        "Gaussian x linear": [(Gaussian(1.0), state), (Linear(supremum=1e9), state)],
        "Matérn 5/2 x Laplace(time)": [(Matern(2.0), state), (Laplace(5.0), (4,))],
    }
    print("| kernel, d = 4, 2 columns | pair engine | blocked NumPy | ratio |\n|---|---|---|---|")
    for name, factors in cases.items():
        terms = (Term(1.0, tuple(factors), np.ones((1, 1))),)
        sizes, work = {"pairs": count, "reference": count // 2}, {}
        for engine, size in sizes.items():
            sums = EngineSums.named(engine)
            sums.squares(terms, Measure(z[:64], groups[:, :64]))
            work[engine] = partial(sums.squares, terms, Measure(z[:size], groups[:, :size]))
        seconds = least(work, {"pairs": repetitions, "reference": 3})
        cost = {engine: 2e9 * seconds[engine] / size**2 for engine, size in sizes.items()}
        print(
            f"| {name} | {cost['pairs']:.2f} | {cost['reference']:.1f} | {cost['reference'] / cost['pairs']:.1f} |",
            flush=True,
        )


_FIRST = """
import time, numpy as np
start = time.perf_counter()
from bondic.engines import pairs
seconds = [time.perf_counter() - start]
for scale in (500.0, 1.0):
    start = time.perf_counter()
    pairs.block_sums(np.arange(400.0)[:, None], np.array([scale]), np.ones((400, 2)))
    seconds.append(time.perf_counter() - start)
print(*seconds)
"""


def latency(folder: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for label in ("nothing cached", "from the cache"):
        run = subprocess.run(
            [sys.executable, "-c", _FIRST], env=environment, capture_output=True, text=True, check=True
        )
        importing, near, product = map(float, run.stdout.split())
        print(f"first call, {label}: import {importing:.2f} s, Gaussian {near:.2f} s, products {product:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two dimensions, one number of columns, fewer runs")
    parser.add_argument("--points", type=int, default=4096, help="a multiple of 16")
    args = parser.parse_args()
    count, repetitions = (4096, 5) if args.quick else (args.points, 25)
    print(json.dumps(describe()))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core for every contender
    contenders: dict[str, Sums] = {"pair engine": by_engine, "blocked NumPy": by_numpy}
    for name, found in (("PyTorch", with_torch()), ("KeOps", with_keops())):
        if isinstance(found, str):
            print(found)
        else:
            contenders[name] = found
    with tempfile.TemporaryDirectory() as folder:
        built, rate = with_yardstick(Path(folder)), 0.0
        if isinstance(built, str):
            print(built)
        else:
            contenders["C, AVX2"], narrow, wide = built
            rate = max(narrow, wide)
            print(f"fused multiply-adds per second and core: {narrow:.3g} on 4 doubles, {wide:.3g} on 8")
        latency(Path(folder))
        gaussian_table(contenders, rate, count, repetitions, args.quick)
        product_table(count, repetitions)


if __name__ == "__main__":
    main()
