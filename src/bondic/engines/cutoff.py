"""Cut-off engine: points and boxes whose kernel values and weights cannot matter are left out, at a computed price.

    | u^T K u - sum over kept (i, b) of u_i sum_{j in b} k_ij u_j |  <=  sum over dropped (i, b) of k_ib |u_i| |u_b|_1,

k_ib = exp(-gap(i, b)^2 / 2) the largest possible kernel value between point i and box b (section 11, Lemma 22). Pairs
are dropped in the order of their price per pair of points, until the tolerance is spent. For small bandwidths the work
is points times neighbors. What is dropped decides only cost and radius; the price is computed while dropping.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bondic.engines import boxes, pairs
from bondic.engines.compiled import compiled, helper
from bondic.engines.lanes import LANES, NARROW
from bondic.engines.recipes import value_error
from bondic.kernels.normal_form import Term, joined_gaussian
from bondic.rounding import TINY, U, upper_sum
from bondic.sums import engine
from bondic.sums.engine import Collected, Partial, Progress, Share, enclose
from bondic.sums.executor import Executor

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

LEAF = 128
"""Points per leaf: smaller ones are cut more sharply, larger ones fill the vector units (benchmarks/engines.py)."""
_FIRST, _LAST = 1e-10, 1e-13
"""First and smallest tolerance, relative to (sum |u|)^2 of a column."""
SMALLEST = 4000
"""Below, all pairs take milliseconds and have the smaller radius."""
WORTH = 0.7
"""All pairs have the smaller radius: a cut-off has to save at least this much."""
_SORTING, _SHORT_TILES = 20_000.0, 2.4  # relative costs, measured by benchmarks/engines.py
_SURVEYED = 512  # points that stand for all when the threshold is set
_HOPEFUL = 0.5  # share of the cost that a first look predicts, below which sorting the points is worth while
_BINS, _STEP = 512, 0.125  # of the logarithm of the price


class Forest(NamedTuple):
    """Points and weights in tree order, with what every node weighs; read by compiled code."""

    tree: boxes.Tree
    points: FloatArray  # (d, N)
    inverse: FloatArray  # (d,)
    columns: FloatArray  # (p, N)
    rows: FloatArray  # points row by row, flat
    chunks: FloatArray  # points and columns in the chunks of the pair engine, flat
    chunk_columns: FloatArray
    recipe: tuple[IntArray, IntArray, FloatArray]
    masses: FloatArray  # (nodes, p), sums of |u|
    density: FloatArray  # (nodes,), largest share of a column per point among the leaves of a node
    whole: FloatArray  # (p,), sums of |u| over all points, rounded up


@dataclass(frozen=True, eq=False)
class Prices:
    """Pairs of points, and the price of dropping them, by the logarithm of the price per pair."""

    floor: float
    pairs: FloatArray  # (bins,), with i < j
    prices: FloatArray  # (bins,), relative to (sum |u|)^2
    unseen: float  # pairs that a sample of points may have missed

    def threshold(self, tolerance: float) -> tuple[float, float]:
        """(price per pair below which a pair is dropped, number of pairs that are kept)."""
        edges = self.floor * np.exp(_STEP * np.arange(1, _BINS + 1))
        dropped = int(np.searchsorted(np.cumsum(self.prices) + self.unseen * edges, 0.8 * tolerance, side="right"))
        return self.floor * math.exp(_STEP * dropped), float(self.pairs[dropped:].sum())


def prepare(points: FloatArray, scales: FloatArray, columns: FloatArray) -> Forest:
    """Sort the points into leaves and weigh the nodes."""
    count = points.shape[0]
    tree = boxes.build(points, scales, LEAF)
    columns = columns[tree.order]
    starts = np.arange(0, count, tree.size)
    leaf_masses = np.add.reduceat(np.abs(columns), starts, axis=0)
    totals = np.array([upper_sum(np.abs(column)) for column in columns.T])
    shares = np.max(leaf_masses / np.maximum(totals, 1e-300), axis=1) / np.diff(np.append(starts, count))
    masses, density = np.empty((tree.first.size, columns.shape[1])), np.empty(tree.first.size)
    masses[tree.leaves], density[tree.leaves] = leaf_masses, shares
    _weigh_inner_nodes(tree, masses, density)
    moved = points[tree.order]
    by_axis, by_column = np.ascontiguousarray(moved.T), np.ascontiguousarray(columns.T)
    operands = pairs.gaussian_operands(moved, scales, columns, tree.size)
    parts = (operands.recipe.kinds, operands.recipe.ends, operands.recipe.scales)
    weighed = (masses, density, totals)
    return Forest(tree, by_axis, 1.0 / scales, by_column, operands.x, operands.y, operands.columns, parts, *weighed)


def look(forest: Forest) -> Prices:
    """Prices of all (point, leaf), estimated from points at regular places of the order."""
    count = forest.points.shape[1]
    floor = 0.1 * _LAST / count**2  # dropping everything below costs a tenth of the smallest tolerance
    rows = np.unique(np.linspace(0, count - 1, min(count, _SURVEYED)).astype(np.int64))
    roots = np.maximum(forest.whole, 1e-300)
    shares = np.max(np.abs(forest.columns[:, rows]) / roots[:, None], axis=0)
    found, prices = np.zeros(_BINS), np.zeros(_BINS)
    _bin(forest, rows, shares, floor, found, prices)
    share = count / rows.size
    unseen = 0.0 if rows.size == count else 3.0 / rows.size * count**2  # rule of three: 95 % sure not to be more
    return Prices(floor, 0.5 * share * found, share * prices, unseen)


def plan(
    points: FloatArray, scales: FloatArray, columns: FloatArray, limit: float
) -> tuple[Forest, Prices, float] | None:
    """What `shares` needs and its cost (unit: pairs.pair_cost), or None where it is not below `limit`."""
    count, width = columns.shape
    # a pair in a short tile costs a little more than in a long one; sorting costs as much as thousands of pairs a point
    fixed, each = _SORTING * count, _SHORT_TILES * (pairs.PAIR + width)
    if count < SMALLEST or fixed + 0.5 * LEAF * count * each >= limit:
        return None
    if fixed + _HOPEFUL * _kept_share(points, scales, columns) * 0.5 * count**2 * each >= limit:
        return None
    forest = prepare(points, scales, columns)
    found = look(forest)
    _, kept = found.threshold(_FIRST)
    return (forest, found, fixed + kept * each) if fixed + kept * each < limit else None


def _kept_share(points: FloatArray, scales: FloatArray, columns: FloatArray) -> float:
    """The share of pairs that would be kept if every point were a box of its own, from some of them."""
    rows = np.unique(np.linspace(0, len(points) - 1, _SURVEYED).astype(np.int64))
    scaled, masses = points[rows] / scales, np.abs(columns[rows])
    shares = np.max(masses / np.maximum(masses.sum(axis=0), 1e-300), axis=1)
    with np.errstate(over="ignore"):
        squares = np.sum((scaled[:, None] - scaled) ** 2, axis=2)
    prices = np.sort((np.exp(-0.5 * squares) * shares[:, None] * shares).ravel())
    return 1.0 - int(np.searchsorted(np.cumsum(prices), _FIRST)) / prices.size


@dataclass(frozen=True)
class Cutoff(engine.Engine):
    """Gaussian terms whose points are all held; `always`: also where it does not pay."""

    always: bool = False
    name: str = "cutoff"

    def cost(self, term: Term, survey: engine.Survey) -> float | None:
        gaussian = joined_gaussian(term.factors)
        if gaussian is None or survey.columns is None:
            return None
        if self.always:
            return 0.0
        axes, scales = gaussian
        limit = min(survey.least, WORTH * pairs.pair_cost(survey.count, survey.width))
        found = plan(survey.points[:, axes], scales, survey.columns, limit)
        survey.notes["cutoff"] = found
        return None if found is None else found[2]

    def begin(self, term: Term, survey: engine.Survey) -> Partial:
        gaussian = joined_gaussian(term.factors)
        assert gaussian is not None
        axes, scales = gaussian

        def finish(points: FloatArray, columns: FloatArray) -> list[Share]:
            known = survey.notes.get("cutoff") if points is survey.points else None
            forest = prepare(points[:, axes], scales, columns) if known is None else known[0]
            found = look(forest) if known is None else known[1]
            share = shares(forest, found, survey.groups, survey.executor, survey.progress)
            return [share.scaled(term.coefficient)]

        return Collected(survey, finish)


def shares(
    forest: Forest, found: Prices, groups: int, executor: Executor = pairs.ALL_CORES, progress: Progress | None = None
) -> Share:
    """A second round with a smaller tolerance where the first radius is not small beside the result."""
    sizes = np.maximum((forest.whole**2).reshape(groups, -1).sum(axis=1), 1e-290)
    tolerance = _FIRST
    while True:
        share = as_share(forest, *_run(forest, found, tolerance, executor, progress))
        sums = enclose([share], groups)
        aims = [max(1e-4 * abs(value.mid), 2 * _LAST * size) for value, size in zip(sums, sizes, strict=True)]
        if tolerance <= _LAST or all(value.rad <= aim for value, aim in zip(sums, aims, strict=True)):
            return share
        needed = min(1e-5 * abs(value.mid) / size for value, size in zip(sums, sizes, strict=True))
        # the second round is the last one, unless the first result was itself lost in its radius
        tolerance, progress = max(_LAST, min(needed, 0.01 * tolerance)), None


def as_share(forest: Forest, totals: FloatArray, prices: FloatArray) -> Share:
    """Lemma 23: kept pairs with the errors of Lemma 18, dropped ones with their price."""
    count = forest.points.shape[1]
    # totals of tiles are added with their rounding errors kept: what is lost is of second order
    relative = value_error(forest.inverse.size) + (2 * forest.tree.size + 16) * U + (count * U) ** 2
    # a price is a product of two masses (sums of at most N terms) and a bound, and meets at most 3 N additions
    raised = 1.0 + 8 * (count + 64) * U
    paid = np.array([upper_sum(np.ascontiguousarray(column)) * raised for column in prices.T])
    return Share(totals.reshape(-1, paid.size), relative, (forest.whole, forest.whole), paid + count * TINY)


def _run(
    forest: Forest,
    found: Prices,
    tolerance: float,
    executor: Executor = pairs.ALL_CORES,
    progress: Progress | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Totals of kept pairs per leaf, value and correction (leaves, 2, p), and prices of the dropped ones (leaves, p)."""
    leaves, width = forest.tree.leaves.size, forest.columns.shape[0]
    totals, prices = np.zeros((leaves, 2, width)), np.zeros((leaves, width))
    keep, _ = found.threshold(tolerance)
    floor = 0.1 * tolerance / forest.points.shape[1] ** 2
    step = max(1, leaves // (32 * executor.workers))
    tops, done = range(0, leaves, step), 0

    def some(top: int) -> None:
        _rows(forest, top, min(top + step, leaves), floor, keep, totals, prices)

    def report(top: int) -> None:
        del top
        nonlocal done
        done += 1
        if progress is not None:
            progress(done / len(tops))

    executor.run(some, tops, report)
    return totals, prices


@helper(inline="always")
def _bound(exponent):  # type: ignore[no-untyped-def]
    """exp, never below exp(-708): the C library's, good to an ulp."""
    return math.exp(max(exponent, -708.0))


@compiled
def _weigh_inner_nodes(tree, masses, density):  # type: ignore[no-untyped-def]
    """Masses and densities of inner nodes from their children, which come after them."""
    for node in range(tree.first.size - 1, -1, -1):
        if tree.last[node] - tree.first[node] > 1:
            left, right = node + 1, tree.skip[node + 1]
            masses[node] = masses[left] + masses[right]
            density[node] = max(density[left], density[right])


@compiled
def _bin(forest, rows, shares, floor, found, prices):  # type: ignore[no-untyped-def]
    """Add the pairs (point in rows, leaf) to bins of the price of an average point; prices for the point itself."""
    tree, square = forest.tree, np.empty(1)
    for i, own in zip(rows, shares):  # noqa: B905 (compiled)
        mine, node = forest.density[tree.leaves[i // tree.size]], 0
        while node < tree.skip.size:
            boxes.point_gaps(forest.points, i, 1, tree, node, forest.inverse, square)
            bound = _bound(-0.5 * square[0])
            price = bound * (mine * forest.density[node])
            if price >= floor and tree.last[node] - tree.first[node] > 1:
                node += 1
                continue
            if price >= floor:
                number = min(tree.size, forest.points.shape[1] - tree.first[node] * tree.size)
                place = min(_BINS - 1, int(math.log(price / floor) / _STEP))
                found[place] += number
                prices[place] += number * bound * (own * forest.density[node])
            node = tree.skip[node]


@compiled
def _rows(forest, top, bottom, floor, keep, totals, prices):  # type: ignore[no-untyped-def]
    """Leaves top..bottom-1 against all leaves from themselves on; whole nodes below `floor` are dropped at once."""
    tree, density, masses = forest.tree, forest.density, forest.masses
    width = forest.columns.shape[0]
    work, out = np.empty(tree.size), np.empty((1, width, tree.size))
    sums = np.zeros(pairs.GROUP * width * NARROW)
    for a in range(top, bottom):
        me, node = tree.leaves[a], 0
        while node < tree.skip.size:
            if tree.last[node] <= a:  # counted from the other side
                node = tree.skip[node]
                continue
            bound = _bound(-0.5 * boxes.square_gap(tree, me, node, forest.inverse))
            share = density[me] * density[node]
            far = bound * share < floor and tree.first[node] > a
            if not far and tree.last[node] - tree.first[node] > 1:
                node += 1
                continue
            times = 2.0 if tree.first[node] > a else 1.0
            if far:
                for p in range(width):
                    prices[a, p] += times * bound * (masses[me, p] * masses[node, p])
            else:
                _sum_leaf_pair(forest, a, node, times, keep / max(share, 1e-300), work, sums, out, totals[a], prices[a])
            node = tree.skip[node]


@compiled
def _sum_leaf_pair(forest, a, node, times, limit, bounds, sums, out, totals, prices):  # type: ignore[no-untyped-def]
    """Points of leaf a against the leaf at `node`: runs of points with kernel bounds from `limit` on are summed."""
    tree, points, columns = forest.tree, forest.points, forest.columns
    count, top, left = points.shape[1], a * tree.size, tree.first[node] * tree.size
    height, width = min(tree.size, count - top), min(tree.size, count - left)
    first = tree.first[node] * ((tree.size + LANES - 1) // LANES)
    last = first + (width + LANES - 1) // LANES
    boxes.point_gaps(points, top, height, tree, node, forest.inverse, bounds)
    for i in range(height):
        bounds[i] = _bound(-0.5 * bounds[i])
    i = 0
    while i < height:
        run = i
        while run < height and bounds[run] >= limit:
            run += 1
        if run > i:
            data = forest.rows, forest.chunks, forest.chunk_columns, forest.recipe
            pairs.product_sums(*data, top + i, top + run, first, last, sums, out)
            for p in range(columns.shape[0]):
                total = 0.0
                for k in range(run - i):
                    total += columns[p, top + i + k] * out[0, p, k]
                _add(totals, p, times * total)
        else:
            run += 1
            for p in range(columns.shape[0]):
                prices[p] += times * bounds[i] * (abs(columns[p, top + i]) * forest.masses[node, p])
        i = run


@compiled
def _add(pair, p, term):  # type: ignore[no-untyped-def]
    """pair[0, p] + pair[1, p] += term; the rounding error of the first goes to the second (two-sum)."""
    value = pair[0, p]
    total = value + term
    back = total - value
    pair[1, p] += (value - (total - back)) + (term - back)
    pair[0, p] = total
