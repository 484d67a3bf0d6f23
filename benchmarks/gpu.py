"""Certified u^T K u of a Gaussian kernel on a GPU: fused kernels against tiles of torch on the same GPU.

python benchmarks/gpu.py                      2 * 10^6 points in 4 dimensions, an interval from 10^6 rows
python benchmarks/gpu.py --points 50000 --rows 5000 --device cpu     what can be done without a GPU

Needs NumPy, SciPy and PyTorch alone. A pair is one kernel value; n (n + 1) / 2 of them make a symmetric sum. The limit is
what the chip's units allow: 22 float64 instructions a pair on 64 lanes of every multiprocessor, at the clock that is measured
during the run. Errors are shares of (sum |u|)^2: certified, and true
against a sum in extended precision.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from machine import describe

import bondic
from bondic.core.bounded import upper_sum
from bondic.core.kernels.normal_form import Layout, Term, normal_form
from bondic.core.sums.forms import Share, enclose
from bondic.engines import cuda, cuda_tiles, power
from bondic.engines.cuda import Cuda
from bondic.engines.spool import NumpyPairs, sum_blocks
from bondic.engines.standard import Constants, Features
from bondic.engines.sums import EngineSums
from bondic.engines.threads import Serial

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

FloatArray = npt.NDArray[np.float64]
AXES = 4


def problem(count: int, width: int) -> tuple[Term, FloatArray, FloatArray]:
    rng = np.random.default_rng(count)
    (term,) = normal_form(bondic.Gaussian(1.2), Layout(AXES, False, 0, 1))
    return term, rng.normal(size=(count, AXES)), rng.normal(size=(count, width))


def clock() -> float:
    """MHz of the multiprocessors now."""
    found = subprocess.run(
        ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return float(found.stdout.split()[0]) if found.returncode == 0 and found.stdout.split() else float("nan")


def limit(megahertz: float) -> float:
    return torch.cuda.get_device_properties(0).multi_processor_count * 64 / 22 * megahertz * 1e6


def timed(engine: Cuda, term: Term, points: FloatArray, columns: FloatArray) -> tuple[float, float, Share]:
    """Seconds of the faster of two runs, transfers included, and the clock in the middle of it."""
    found, best, speeds = None, np.inf, [0.0]

    def look(done: float) -> None:
        if 0.3 < done < 0.7 and len(speeds) == 1 and engine.device == "cuda":
            speeds.append(clock())

    engine.own(term, points[:5000], columns[:5000], Serial())  # compile
    for progress in (look, None):
        start = time.perf_counter()
        found = engine.own(term, points, columns, Serial(), progress)
        best = min(best, time.perf_counter() - start)
    assert found is not None
    return best, max(speeds), found


def exact(points: FloatArray, columns: FloatArray, bandwidth: float) -> npt.NDArray[np.longdouble]:
    z, u = points.astype(np.longdouble) / np.longdouble(bandwidth), columns.astype(np.longdouble)
    total = np.zeros(u.shape[1], dtype=np.longdouble)
    for top in range(0, len(z), 500):
        square = sum((z[top : top + 500, None, a] - z[None, :, a]) ** 2 for a in range(z.shape[1]))
        total += np.sum(u[top : top + 500] * (np.exp(-0.5 * square) @ u), axis=0)
    return total


def errors(device: str) -> None:
    print("\n| columns | points | certified error | true error |\n|---|---|---|---|")
    for width in (1, 2, 8):
        term, points, columns = problem(6000, width)
        engine = Cuda(device)
        masses = [upper_sum(np.abs(columns[:, c])) ** 2 for c in range(width)]
        truth = exact(points, columns, 1.2)
        for how, share in (
            ("all at once", engine.own(term, points, columns, Serial())),
            ("in four blocks", blocks(engine, term, points, columns, 1501)),
        ):
            found = enclose(share, masses)
            true = max(float(abs(f.mid - t)) / m for f, t, m in zip(found, truth, masses, strict=True))
            radius = max(f.rad / m for f, m in zip(found, masses, strict=True))
            if true > radius:
                raise SystemExit(f"{width} columns: error {true:.2e} beyond the certified {radius:.2e}")
            print(f"| {width} | {how} | {radius:.1e} | {true:.1e} |")


def blocks(engine: Cuda, term: Term, points: FloatArray, columns: FloatArray, size: int) -> Share:
    """The sum over pairs of blocks, as workers of a cluster do it."""
    engine.block = size

    def block(index: int) -> tuple[FloatArray, FloatArray]:
        part = slice(index * size, (index + 1) * size)
        return points[part], columns[part]

    return sum_blocks(engine, term, len(points), block, Serial())


def speeds(device: str, count: int) -> None:
    print(f"\n{count} points, {AXES} dimensions, one column; transfers to and from the device included\n")
    print("| | seconds | pairs/s | limit | share of it | against tiles of torch |\n|---|---|---|---|---|---|")
    term, points, columns = problem(count, 1)
    seconds, megahertz, _ = timed(Cuda(device), term, points, columns)
    rate = count * (count + 1) / 2 / seconds
    few = min(count, 200_000)
    recipe_rate = few * (few + 1) / 2 / unfused(device, few)
    bound = limit(megahertz) if device == "cuda" else float("nan")
    print(
        f"| at once | {seconds:.2f} | {rate:.3g} | {bound:.3g} ({megahertz:.0f} MHz) | {rate / bound:.2f} | "
        f"{rate / recipe_rate:.1f} x |"
    )
    for _ in range(2):  # the first one compiles
        start = time.perf_counter()
        blocks(Cuda(device), term, points, columns, Cuda.block)
    print(f"| blocks of {Cuda.block} | {time.perf_counter() - start:.2f} | | | | |")


def kernels(count: int) -> None:
    """The fused kernels alone: points and weights are on the device, and CUDA events take the time."""
    from bondic.engines import cuda_fused

    print(f"\n{count} points, one column; kernels alone, without transfers\n")
    print("| dimensions | seconds | pairs/s | share of the limit |\n|---|---|---|---|")
    for axes in (AXES, 2 * AXES):
        engine, rng = Cuda(), np.random.default_rng(axes)
        (points,) = engine._near((rng.normal(size=(count, axes)),), np.full(axes, 1.2))
        weights = engine._put(rng.normal(size=(count, 1)))
        cut, best = 4 * cuda._norm(points) ** 2 > power.LARGEST, np.inf
        for _ in range(3):  # the first one compiles
            begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begun.record()
            cuda_fused.symmetric(points, weights, cut=cut, report=lambda done: None)  # noqa: ARG005
            ended.record()
            torch.cuda.synchronize()
            best = min(best, begun.elapsed_time(ended) / 1e3)
        rate = count * (count + 1) / 2 / best
        share = f"{rate / limit(clock()):.2f}" if axes == AXES else ""
        print(f"| {axes} | {best:.3f} | {rate:.3g} | {share} |")


def unfused(device: str, count: int) -> float:
    """Seconds of the same sum by tiles."""
    from bondic.engines.recipes import HALF_LOG2E, NEAR, Recipe

    _, points, columns = problem(count, 1)
    rows = torch.as_tensor(points * (HALF_LOG2E / 1.2)).to(device)
    recipe, weights = Recipe(np.array([NEAR]), np.array([AXES]), np.ones(AXES)), torch.as_tensor(columns).to(device)
    best = np.inf
    for _ in range(2):
        start = time.perf_counter()
        cuda_tiles.symmetric(rows, recipe, weights, cuda_tiles.SIDE, lambda done: None)  # noqa: ARG005
        best = min(best, time.perf_counter() - start)
    return best


def columns_table(device: str, count: int) -> None:
    print(f"\n{count} points, float64: many columns\n\n| columns | seconds | pairs x columns / s |\n|---|---|---|")
    for width in (1, 2, 8, 32):
        term, points, columns = problem(count, width)
        seconds, _, _ = timed(Cuda(device), term, points, columns)
        print(f"| {width} | {seconds:.2f} | {count * (count + 1) / 2 * width / seconds:.3g} |")


def interval(device: str, rows: int) -> None:
    """A certified interval of the dual, every kernel sum on the device, and its verification there."""
    from builders import synthetic

    mdp, log, policy, start = synthetic(rows)
    stated = bondic.make_problem(log, policy, start, gamma=mdp.gamma, reward_range=mdp.reward_range)
    print(f"\nDual interval from {len(log)} rows\n\n| engine | seconds | interval | verified in |\n|---|---|---|---|")
    sums = EngineSums((Constants(), Features(), Cuda(device), NumpyPairs()))
    before = time.perf_counter()
    result = bondic.estimate_interval(stated, method=bondic.Dual(radius="paper", engine=sums))
    middle = time.perf_counter()
    bondic.verify(result.certificate, log, sums=sums)
    print(
        f"| cuda | {middle - before:.1f} | [{result.low:.6f}, {result.high:.6f}] | {time.perf_counter() - middle:.1f} s |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=2_000_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    name = torch.cuda.get_device_name() if given.device == "cuda" else "no GPU"
    print(", ".join(f"{key} {value}" for key, value in {"gpu": name, "torch": torch.__version__, **describe()}.items()))
    errors(given.device)
    speeds(given.device, given.points)
    if given.device == "cuda":
        for count in (given.points // 2, given.points):
            kernels(count)
    columns_table(given.device, min(given.points, 200_000))
    interval(given.device, given.rows)


if __name__ == "__main__":
    main()
