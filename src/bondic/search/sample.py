"""The matrices of (11) from some of the rows of a long log, as many as it takes: what is found with them is only proposed.

Rows are taken in layers: first about 50 000, spread evenly and without a rhythm, then twice as many, and so on. With F the
objective on all rows so far, w what was found before the last layer and w' what is found with it, the gain F(w) - F(w') tells
what further layers would bring: were F quadratic, a loss that falls like 1 / rows would be the last gain. Three times as much is
reckoned with. Layers end where that is less than a hundredth of the interval, and at 400 000 rows. The certified bound is
evaluated on every row, whatever ω was found from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bondic.core.columns import Batch
from bondic.core.functions import Function
from bondic.data.spread import offsets
from bondic.rows import Rows
from bondic.search import spectral
from bondic.search.basis import Basis
from bondic.search.model import ModelSums, SearchModel, build_model

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

FEWEST = 50_000
"""Rows of the first layer; logs with fewer than twice as many are searched as a whole."""
MOST = 400_000
ENOUGH = 0.01
"""A predicted loss below this share of the interval's length ends the search for more rows."""
_UNSEEN = 3.0
"""Loss for every unit of the last gain: two to four, as measured, since coordinates do not see all of |μ|."""
_READ = 2**20
"""Rows that are read for it, at most."""
_MOST_NUMBERS = 24_000_000
"""Numbers of points and weights that are held for it."""


@dataclass(frozen=True, eq=False)
class Sampled:
    """The matrices, how many rows they are made of, and by which share their interval may be longer than need be."""

    model: SearchModel
    batches: Callable[[], Iterator[Batch]]  # the rows
    rows: int
    loss: float = 0.0

    def words(self, of: int) -> str:
        """For the note on a search; empty where all rows were looked at."""
        if self.rows == of:
            return ""
        return f"looked at {self.rows} of {of} rows (predicted loss {100 * self.loss:.2g} % of the length)"


def sampled_model(
    question: Rows,
    weights: Basis,
    values: Basis,
    center: Function | None,
    *,
    radius: float,
    kappa: float,
    progress: Callable[[float], None] | None = None,
) -> Sampled:
    """(11) from as many rows as it takes."""
    count = len(question)
    layers = None if count < 2 * FEWEST else _Layers(question)
    if layers is not None and layers.last:
        sums, before, loss = ModelSums(question, weights, values, center), None, np.inf
        for layer in range(layers.last + 1):
            sums.add(layers.rows(layer), None if progress is None else lambda rows: progress(min(1.0, rows / MOST)))
            model = sums.model()
            found = _proposals(model, radius, kappa)
            loss = np.inf if before is None or found is None else _UNSEEN * _gain(model, before, found, radius, kappa)
            if loss <= ENOUGH:
                break
            before = found
        if found is not None:  # else the rows of the sample contradict Q: ask all of them
            return Sampled(model, lambda: layers.up_to(layer), sums.rows, float(loss))
    return Sampled(build_model(question, weights, values, center, progress=progress), question.batches, count)


class _Layers:
    """Rows of blocks that are spread over the log, held, in layers that double them."""

    def __init__(self, question: Rows) -> None:
        layout, draws = question.layout, question.answers.draws
        numbers = 2 * layout.dimension + (layout.dimension + layout.slots) * draws
        most = min(MOST, max(FEWEST, _MOST_NUMBERS // numbers))
        read = min(len(question), _READ)
        depth = int(np.log2(read / FEWEST))  # layers after the first, if all rows that are read were held
        self.last = min(depth, int(np.log2(max(1.0, most / read * 2**depth))))
        self._parts: list[tuple[Batch, IntArray]] = []
        for batch in question.spread_blocks(_READ) if self.last else ():
            layer = _layer_of(len(batch), depth)
            held = np.flatnonzero(layer <= self.last)
            self._parts.append((batch.pick(held), layer[held]))

    def rows(self, number: int) -> Iterator[Batch]:
        """The rows of one layer."""
        return (batch.pick(np.flatnonzero(layer == number)) for batch, layer in self._parts)

    def up_to(self, number: int) -> Iterator[Batch]:
        return (batch.pick(np.flatnonzero(layer <= number)) for batch, layer in self._parts)


def _layer_of(rows: int, depth: int) -> IntArray:
    """0 for one row of every 2^depth, at uneven places; k for those that halve the distances of the layers before k."""
    stretch = 2**depth
    number, place = np.divmod(np.arange(rows), stretch)
    shift = np.floor(stretch * offsets(int(number.max(initial=0)) + 1)).astype(np.int64)
    place = (place - shift[number]) % stretch
    zeros = np.log2(np.bitwise_and(place, -place), where=place > 0, out=np.full(rows, float(depth)))
    return np.asarray(depth - zeros, dtype=np.int64)


def _proposals(model: SearchModel, radius: float, kappa: float) -> list[FloatArray] | None:
    """The best w for both ends; None where the rows seem to contradict Q, which noise of a sample can do."""
    spectrum = spectral.Spectrum.of(model)
    found = [spectral.propose(spectrum, sign=sign, radius=radius, kappa=kappa) for sign in (1.0, -1.0)]
    return None if any(each.status.startswith("unbounded") for each in found) else [each.weights for each in found]


def _gain(model: SearchModel, before: list[FloatArray], found: list[FloatArray], radius: float, kappa: float) -> float:
    """How much longer the interval of the former w is on the rows of this model, relatively."""

    def length(both: list[FloatArray]) -> float:
        return sum(
            sign * float(model.gradient @ w)
            + radius * float(np.linalg.norm(model.start + model.balance @ w))
            + kappa * float(np.linalg.norm(w))
            for sign, w in zip((1.0, -1.0), both, strict=True)
        )

    shortest = length(found)
    return max(0.0, length(before) - shortest) / max(shortest, 1e-300)
