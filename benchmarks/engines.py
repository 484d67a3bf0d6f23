"""Certified u^T K u of a Gaussian kernel: the series against all pairs.

python benchmarks/engines.py --quick          n = 10^4, about a minute
python benchmarks/engines.py                  n = 10^4 ... 10^6; all pairs are measured up to 2 * 10^5

Points are normal in d dimensions, the bandwidth a share of their median distance; two weight columns, one random and one
smooth. Columns of the table: seconds, and seconds of all pairs over seconds ("x"); the certified radius and the true
error over (sum |u|)^2, the larger of both columns. The true error is the distance to a sum in extended precision where
n <= 10^4 ("ld"), else to the pair engine ("pairs"), whose own radius is about 3e-14. A "~" marks what was not measured
but extrapolated with n^2 from the largest measured n. The engine `auto` would take is marked by a star.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from machine import describe

from bondic.core.bounded import Enclosure, certified_sum
from bondic.core.kernels.leaves import Gaussian
from bondic.core.kernels.normal_form import Term
from bondic.core.sums.forms import enclose
from bondic.engines import pairs
from bondic.engines.engine import Survey
from bondic.engines.series import Series
from bondic.engines.sums import EngineSums
from bondic.engines.threads import Threads

FloatArray = npt.NDArray[np.float64]
T = TypeVar("T")
MAX_PAIRS = 200_000
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
CLOCK = "wall"


def problem(count: int, dimension: int, share: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(points, scales, columns)."""
    rng = np.random.default_rng(count + dimension)
    points = rng.normal(size=(count, dimension))
    some = points[:1000]
    median = float(np.median(np.linalg.norm(some[:, None] - some[None], axis=-1)[np.triu_indices(len(some), 1)]))
    columns = np.column_stack([rng.normal(size=count), np.cos(points.sum(axis=1)) / count])
    return points, np.full(dimension, share * median), columns


def in_extended_precision(points: FloatArray, scales: FloatArray, columns: FloatArray) -> FloatArray:
    """Every pair in long doubles, rows of points at a time."""
    z, u = (points / scales.astype(np.longdouble)), columns.astype(np.longdouble)
    total = np.zeros(columns.shape[1], dtype=np.longdouble)
    for top in range(0, len(z), 500):
        square = sum((z[top : top + 500, None, axis] - z[None, :, axis]) ** 2 for axis in range(z.shape[1]))
        total += np.sum(u[top : top + 500] * (np.exp(-0.5 * square) @ u), axis=0)
    return total


def timed(call: Callable[[], T], count: int) -> tuple[float, T]:
    """The shortest of three runs where they are short."""
    best = np.inf
    clock = CLOCKS[CLOCK]
    for _ in range(3 if count <= 30_000 else 1):
        start = clock()
        result = call()
        best = min(best, clock() - start)
    return best, result


def all_pairs(points: FloatArray, scales: FloatArray, columns: FloatArray) -> list[float]:
    totals = pairs.block_sums(points, scales, columns)
    return [certified_sum(np.ascontiguousarray(totals[:, p])).mid for p in range(columns.shape[1])]


def by_series(
    points: FloatArray, scales: FloatArray, columns: FloatArray, *, always: bool = False
) -> list[Enclosure] | None:
    term, survey = known(points, scales, columns)
    engine = Series(always)
    if engine.cost(term, survey) is None:
        return None
    partial = engine.begin(term, survey)
    while partial.wants_more:
        partial.add(points, columns)
        partial.end_pass()
    return enclose(partial.values(), 2, list((np.abs(columns).sum(axis=0) ** 2).tolist()))


def known(points: FloatArray, scales: FloatArray, columns: FloatArray) -> tuple[Term, Survey]:
    term = Term(1.0, ((Gaussian(scales), tuple(range(scales.size))),), np.ones((1, 1)))
    return term, Survey(len(points), points, columns, 2, columns.shape[1], Threads())


def row(count: int, dimension: int, share: float, pair_seconds: dict[int, float]) -> str:
    """One line of the table; `pair_seconds` collects what all pairs took in this dimension."""
    data = problem(count, dimension, share)
    size = np.abs(data[2]).sum(axis=0) ** 2
    reference, source, pair_text = None, "-", ""
    if count <= MAX_PAIRS:
        seconds, reference = timed(lambda: all_pairs(*data), count)
        pair_seconds[count], pair_text, source = seconds, f"{seconds:9.2f} ", "pairs"
    else:
        largest = max(pair_seconds)
        seconds = pair_seconds[largest] * (count / largest) ** 2
        pair_text = f"{seconds:9.0f}~"
    if count <= 10_000:
        reference, source = in_extended_precision(*data), "ld"
    winner = chosen(*data)
    parts = [f"{count:8} {dimension:2} {share:7.4f} {pair_text}"]
    mine, found = timed(lambda: by_series(*data), count)
    if found is None:
        parts.append(f"{'not cheaper than pairs':>42}")
    else:
        radius = max(value.rad / s for value, s in zip(found, size, strict=True))
        true = (
            "-" if reference is None
            else f"{max(abs(float(v.mid - r)) / s for v, r, s in zip(found, reference, size, strict=True)):.0e}"
        )  # fmt: skip
        ratio = f"{seconds / mine:7.1f}x" + ("~" if count > MAX_PAIRS else " ")
        parts.append(f"{mine:9.2f}{'*' if winner == 'series' else ' '} {ratio} {radius:8.0e} {true:>6} {source:>5}")
    return " |".join(parts)


def chosen(points: FloatArray, scales: FloatArray, columns: FloatArray) -> str:
    """What `Sums` would take, by estimates alone."""
    return EngineSums()._choose(*known(points, scales, columns)).name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, nargs="*")
    parser.add_argument("--shares", type=float, nargs="*", default=[1.0, 0.25, 0.0625])
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="cpu: all threads, for a busy machine")
    parser.add_argument("--dimensions", type=int, nargs="*", default=[1, 2, 4])
    args = parser.parse_args()
    global CLOCK
    CLOCK = args.clock
    rows = args.rows or ([10_000] if args.quick else [10_000, 30_000, 100_000, 200_000, 1_000_000])
    print(" ".join(f"{key}={value}" for key, value in describe().items()), f"clock={CLOCK}")
    small = problem(300, 2, 1.0)
    for warm in (all_pairs, partial(by_series, always=True)):
        warm(*small)
    heading = f"{'seconds':>9}  {'ratio':>8}  {'radius':>8} {'error':>6} {'from':>5}"
    print(f"{'n':>8} {'d':>2} {'h/med':>7} {'pairs s':>9}  |{heading + '   series':>42}")
    for dimension in args.dimensions:
        for share in args.shares:
            pair_seconds: dict[int, float] = {}
            for count in rows:
                if count > MAX_PAIRS and not pair_seconds:
                    parser.error(f"--rows needs a number of at most {MAX_PAIRS}: ratios are to measured pairs")
                print(row(count, dimension, share, pair_seconds), flush=True)


if __name__ == "__main__":
    main()
