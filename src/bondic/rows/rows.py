"""Rows: log x policy x initial states x statements. Everything above sees only this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from bondic.core.columns import Batch, Cloud, Columns, RowRange, join
from bondic.core.errors import InvalidInput
from bondic.core.kernels.normal_form import Layout
from bondic.core.propensities.decisions import Decisions
from bondic.core.propensities.ratios import Target
from bondic.core.propensities.sampling import SamplingCheck
from bondic.core.terms import Terms, in_full
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.episodes import episode_starts
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import Encoding
from bondic.data.log import Log
from bondic.data.memory import MemoryPlan
from bondic.data.spread import offsets
from bondic.data.transitions import Transitions
from bondic.policies.adapters.frame import named_columns
from bondic.policies.answers import NextStates, StartAnswers, query_next
from bondic.policies.logged_target import LoggedTarget
from bondic.rows.batch import Draws, Frame, logged_pairs, make_batch, make_frame
from bondic.rows.coded import CodedColumns
from bondic.rows.decisions import read_decisions, read_sampling, single_rows
from bondic.rows.episodes import own_starts
from bondic.rows.serialization import SentRows

T = TypeVar("T")
if TYPE_CHECKING:
    from bondic.engines.remote import Remote

LONGEST_BLOCK = 65_536
_SHORTEST_BLOCK = 256
_BLOCK_BYTES = 150_000_000
_STRETCHES = 16
_MAX_NUMBERS = 50_000_000
"""More than this many numbers of a log that is read in batches are not brought into memory: 400 MB."""


def memory_plan(layout: Layout, draws: int, budget: int = 0) -> MemoryPlan:
    """What a row costs on its way: two states, the action, six more columns, and what the policy adds."""
    numbers = 2 * layout.observation_dim + max(layout.action_dim, 1) + 6
    return MemoryPlan.of(budget, numbers).with_policy(slots=layout.slots, draws=draws, dimension=layout.dimension)


def block_length(layout: Layout, draws: int) -> int:
    """Rows of one block, a power of two: the longest whose working set stays below 150 MB. The layout alone decides."""
    most = min(_BLOCK_BYTES // memory_plan(layout, draws).per_row, LONGEST_BLOCK)
    return min(max(1 << int(most).bit_length() >> 1, _SHORTEST_BLOCK), LONGEST_BLOCK)


_SAMPLED: WeakKeyDictionary[Log, dict[tuple[int, float], SamplingCheck | None]] = WeakKeyDictionary()
_DECISIONS: WeakKeyDictionary[Rows, tuple[tuple[bool, bool, bool], Decisions]] = WeakKeyDictionary()
"""What was read last from a log in batches, while its question lives: a comparison with today's policy reads the same."""


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """A policy-evaluation question over a stretch of a log, whose rows come in blocks.

    Borders of blocks are multiples of the block length, counted in rows of the log; the policy is queried for a whole block, and
    draws are keyed by row. So nothing depends on how the log is read, which rows are selected, or whether they are kept in
    memory. Rows of a log in memory are kept, and the policy is queried once; others are read and queried again
    in every pass.
    """

    log: Log  # in memory or read from files
    policy: Any  # the one whose value is estimated
    terms: Terms  # what was stated: discount, ranges, horizon
    layout: Layout  # how the columns of a point are arranged
    initial: Cloud  # points of the initial states, with the probabilities of their actions
    initial_states: InitialStates  # as given
    answers: StartAnswers  # the policy at the initial states
    rows: RowRange  # the stretch of the log, rows beyond the horizon included
    seed: int  # draws the actions of a policy without probabilities
    count: int  # rows that count: those within the horizon
    time_counts: dict[int, int] | None = None  # how many of them at each time before the horizon
    following: IntArray | None = None  # how many next states stand before each block of the log
    validity_notes: tuple[str, ...] = ()  # warnings on log and policy, for the top of the answer
    stated: tuple[str, ...] = ()  # what the user states by accepting what would be refused or warned about
    names: tuple[str, ...] = ()  # of the observation columns, where they are known
    encodings: Mapping[str, Encoding] = field(default_factory=dict)  # how text became numbers, where that is known
    notes: tuple[str, ...] = ()  # how the log was read, where it was read from something else
    reading: Mapping[str, Any] = field(
        default_factory=dict
    )  # what was stated on reading it, as arguments of `read_log`
    source: Any = None  # the log as it was given, with all that is known of it: what another policy is read with
    kept: tuple[Batch, ...] | None = None  # blocks that hold at least these rows
    coded: CodedColumns | None = None  # they as numbers of states, where these are few

    def __len__(self) -> int:
        return self.count

    @property
    def gamma(self) -> float:
        return self.terms.gamma

    @property
    def log_hash(self) -> str:
        return self.log.content_hash

    @property
    def dropped(self) -> int:
        """Rows of the stretch that lie at or beyond the horizon."""
        return len(self.rows) - len(self)

    @property
    def exact_answers(self) -> bool:
        return self.answers.exact

    @property
    def policy_in_log(self) -> bool:
        return isinstance(self.policy, LoggedTarget)

    @property
    def actions(self) -> int | None:
        """How many actions the policy answers for; None where they are numbers, or it has no answers."""
        return self.layout.slots if self.layout.discrete and not self.policy_in_log else None

    def action_name(self, slot: int) -> str:
        """What an action is called: by the log, or by its number."""
        coding = self.encodings.get("actions")
        named = (
            coding is not None
            and slot < len(coding.values)
            and coding.values != tuple(map(str, range(len(coding.values))))
        )
        return coding.values[slot] if coding is not None and named else f"action {slot}"

    def state_name(self, state: FloatArray) -> str:
        """A state in the words of the log: its values, with the names of the columns where there are several."""
        if len(self.names) != state.size:
            return ", ".join(in_full(value) for value in state.tolist())
        columns = {name: values[0] for name, values in named_columns(state[None], self.names, self.encodings).items()}
        words = [
            (name, value if isinstance(value, str) else in_full(float(value)))
            for name, value in columns.items()
            if value is not None
        ]
        return words[0][1] if len(words) == 1 else ", ".join(f"{name} {value}" for name, value in words)

    @property
    def states_recorded(self) -> bool:
        return "observations" not in self.log.unrecorded

    @cached_property
    def own_starts(self) -> bool:
        return own_starts(self)

    def single_rows(self, *, drawn: bool = True) -> bool:
        return single_rows(self, drawn=drawn)

    def sampling(self, factor: float) -> SamplingCheck | None:
        known = _SAMPLED.setdefault(self.log, {})  # of the log alone: every question has the same
        asked = self.rows.stop, factor
        if asked not in known:
            known[asked] = read_sampling(self, factor)
        return known[asked]

    def decisions(
        self, target: Target | None, *, every_action: bool, drawn: bool = True, states: bool = True
    ) -> Decisions:
        asked, known = (every_action, drawn or self.log.single_rows, states), _DECISIONS.get(self)
        if known is not None and known[0] == asked and target is None:
            return known[1]
        found = read_decisions(self, target, every_action=every_action, drawn=drawn, states=states)
        if target is None and not (self.log.held or self.policy_in_log):
            _DECISIONS.clear()
            _DECISIONS[self] = asked, found
        return found

    @property
    def next_draws(self) -> int:
        """Draws per next state; 0 when means over actions are exact."""
        return 0 if self.answers.exact else self.answers.draws

    @property
    def initial_draws(self) -> int:
        return 0 if self.answers.exact else int(self.answers.initial.shape[1])

    @cached_property
    def block_rows(self) -> int:
        return block_length(self.layout, self.answers.draws)

    # -- the rows

    def batches(self) -> Iterator[Batch]:
        """The rows that count, in order, block by block."""
        for batch in self._blocks(self.rows):
            part = batch.cut(self.rows)
            if len(part):
                yield part

    @property
    def executor(self) -> Remote | None:
        """What works on blocks of the log, where that is not this process."""
        if self.log.executor is None:
            return None
        from bondic.engines.remote import Remote  # verification in memory needs no engine

        return Remote(self.log.executor)

    def over_parts(self, task: Callable[[Rows, RowRange, Transitions], T]) -> Iterator[T]:
        """task(question, rows, part) for the log's own rows, in order: all at once in memory, else block by block.

        The policy is part of the problem: another process may query it.
        """
        if self.log.held:
            return (task(self, where, part) for where, part in self.log.batches(self.rows))
        if self.executor is not None:
            return self.executor.over_blocks(task, self.sent(raw=True))
        return (task(self, where, part) for where, part in self.log.batches(self._outward(self.rows), self.block_rows))

    def over_batches(self, task: Callable[[Batch], T]) -> Iterator[T]:
        """task(batch) for every batch, in order; it may be another process that makes it."""
        if self.kept is None and self.coded is None and self.executor is not None:
            return self.executor.over_blocks(task, self.sent(raw=False))
        return (task(batch) for batch in self.batches())

    def sent(self, *, raw: bool) -> SentRows:
        """The question for other processes."""
        return SentRows.of(self, raw=raw)

    def without_starts(self) -> Rows:
        """The same rows with one initial state and no answer there: what blocks are made from."""
        nothing = np.zeros((0, self.layout.dimension)), np.zeros((0, self.layout.slots)), np.zeros(0, np.int64)
        return replace(
            self, initial=Cloud(*nothing), initial_states=InitialStates.exact(np.zeros((1, self.layout.observation_dim))),
            answers=self.answers.without_starts(self.layout.action_dim), notes=(), validity_notes=(), source=None,
        )  # fmt: skip

    def policies(self) -> tuple[Rows, ...]:
        """The question about every policy by itself."""
        return (self,)

    @cached_property
    def _whole(self) -> Batch:
        numbers = len(self) * (self.layout.dimension + self.layout.slots) * (1 + self.answers.draws)
        if self.kept is None and numbers > _MAX_NUMBERS:
            raise InvalidInput(
                f"This method needs all rows in memory, and {len(self)} rows of this log are about {numbers:.2g} numbers. Use "
                "Dual with its own search, fewer rows (problem.select), or load the log: Transitions(...) in place of "
                "stream_log(...)."
            )
        return join(tuple(self.batches()))

    def whole(self) -> Batch:
        """All rows at once, for methods that cannot do with less."""
        return self._whole

    def logged_rows(self) -> Iterator[tuple[FloatArray, IntArray, IntArray | None]]:
        """Logged points, slots and times of the rows that count, block by block; the policy is not queried."""
        if self.kept is not None:
            yield from ((batch.logged, batch.slots, batch.times) for batch in self.batches())
            return
        for where, part in self.log.batches(self._outward(self.rows), self.block_rows):
            frame = make_frame(part, self.terms)
            points, slots = logged_pairs(part, frame)
            inside = RowRange(max(where.start, self.rows.start), min(where.stop, self.rows.stop))
            ends = np.searchsorted(np.flatnonzero(frame.kept) + where.start, [inside.start, inside.stop])
            here = slice(*map(int, ends))
            if points[here].shape[0]:
                yield points[here], slots[here], None if frame.times is None else frame.times[here]

    def _outward(self, rows: RowRange) -> RowRange:
        """All blocks that a stretch touches."""
        size = self.block_rows
        return RowRange(rows.start // size * size, min(-(-rows.stop // size) * size, len(self.log)))

    def _blocks(self, rows: RowRange) -> Iterator[Batch]:
        """The blocks that a stretch touches, as a whole."""
        if self.kept is not None:
            start = {"initial": self.initial, "initial_states": self.initial_states}
            yield from (replace(b, **start) for b in self.kept if b.rows.overlaps(rows))  # type: ignore[arg-type]
            return
        if self.coded is not None:
            yield from self.coded.blocks(rows, self.block_rows, self._empty)
            return
        assert self.following is not None
        for where, part in self.log.batches(self._outward(rows), self.block_rows):
            before = int(self.following[where.start // self.block_rows])
            yield self.block(where, part, make_frame(part, self.terms), before)

    def block(self, where: RowRange, part: Transitions, frame: Frame, before: int) -> Batch:
        """One block of the log with the policy's answers; `before` next states stand before it."""
        if isinstance(self.policy, LoggedTarget):
            return make_batch(self._empty, part, frame, None, where.start)
        later = None if frame.times is None else frame.times[frame.continues] + 1
        states = NextStates(part.next_observations[frame.next_rows], later, frame.next_rows + where.start, before)
        answers = query_next(self.policy, states, self.answers, Draws(self.seed).at_group)
        return make_batch(self._empty, part, frame, answers, where.start)

    @cached_property
    def _empty(self) -> Batch:
        """No rows: what all batches share."""
        nothing, none = np.zeros((0, self.layout.dimension)), np.zeros(0, np.int64)
        cloud = Cloud(nothing, np.zeros((0, self.layout.slots)), none)
        shared = (self.terms, self.layout, self.initial, self.initial_states)
        return Batch(*shared, nothing, none, np.zeros(0), np.zeros(0, bool), cloud, None, none, RowRange(0, 0))

    def stored_answers(self) -> FloatArray | None:
        """The policy at all next states of the log, pilot rows included; None unless the log is in memory."""
        if not self.log.held or self.kept is None or isinstance(self.policy, LoggedTarget):
            return None
        found = [batch.next_answers for batch in self.kept if batch.next.rows.size]
        shape = (self.layout.slots,) if self.layout.discrete else (self.answers.draws, self.layout.action_dim)
        return np.concatenate([np.zeros((0, *shape)), *found])

    # -- parts of them

    def select(self, start: int, stop: int | None = None) -> Rows:
        """The same question with rows start..stop-1 of the log only."""
        part = RowRange(start, self.rows.stop if stop is None else stop)
        if part.start < self.rows.start or part.stop > self.rows.stop:
            raise InvalidInput(f"{part} cannot be selected from a problem that covers {self.rows}.")
        selected = self.restricted(part)
        if not len(selected):
            raise InvalidInput(f"No usable row is left in {part} of the log.")
        return selected

    def __getitem__(self, rows: slice) -> Rows:
        """problem[a:b]: rows a..b-1 of the log."""
        if not isinstance(rows, slice) or rows.step is not None:
            raise InvalidInput(
                "A problem is cut by problem[start:stop], in rows of the log: their order is that of time."
            )
        return self.select(self.rows.start if rows.start is None else rows.start, rows.stop)

    def restricted(self, rows: RowRange) -> Rows:
        """The same question on these rows, with their number."""
        if self.terms.horizon is None:
            return replace(self, rows=rows, count=len(rows))
        counts: Counter[int] = Counter()  # by time: a horizon may be far longer than any episode
        for _, part in self.log.batches(rows):
            times = np.asarray(part.timesteps)
            seen, repeats = np.unique(times[times < self.terms.horizon], return_counts=True)
            counts.update(dict(zip(seen.tolist(), repeats.tolist(), strict=True)))
        return replace(self, rows=rows, count=counts.total(), time_counts=dict(sorted(counts.items())))

    def later_starts(self, skipped: int) -> Rows:
        """The same question without the first starts of a sample."""
        cloud = self.initial
        kept = cloud.rows >= skipped
        rest = Cloud(cloud.points[kept], cloud.weights[kept], cloud.rows[kept] - skipped, cloud.draws)
        return replace(self, initial=rest, initial_states=self.initial_states.later(skipped))

    def pick_starts(self, states: IntArray) -> Rows:
        """The same question from some of the starts."""
        picked = replace(self, initial_states=self.initial_states.pick(states))
        if self.policy_in_log:  # it has no answers
            return picked
        answers = replace(self.answers, initial=self.answers.initial[states])
        return replace(picked, initial=self.initial.pick(states), answers=answers)

    def starting_from(self, row: int) -> Rows:
        """The same question from the starts of the log at this row or after it; it may be asked after the rows were seen."""
        begun = sum(int((rows.start + starts < row).sum()) for rows, _, starts in episode_starts(self.log))
        return replace(self, initial_states=self.initial_states.since(begun))

    def load(self, start: int, stop: int) -> Rows | None:
        """Rows start..stop-1 of the log, kept in memory; None when none of them counts."""
        stretch = RowRange(start, min(stop, self.rows.stop))
        part = self.restricted(stretch) if len(stretch) else None
        if part is None or not len(part):
            return None
        return part if part.kept is not None else replace(part, kept=tuple(b.cut(stretch) for b in part.batches()))

    def first_block(self) -> Rows:
        """The rows of the first block, kept in memory."""
        first = next(self.batches()).rows
        found = self.load(first.start, first.stop)
        assert found is not None
        return found

    def some_points(self, most_rows: int) -> FloatArray:
        """Logged and next points of rows spread over the stretch, initial points first: candidates for landmarks.

        All rows if they are no more than `most_rows`; else those of 16 short stretches, one at an uneven place of every
        sixteenth of the rows.
        """
        logged, following = [], []
        for batch in self._some_batches(self._stretches(most_rows)):
            logged.append(batch.logged)
            following.append(batch.next.points)
        return np.concatenate([self.initial.points, *logged, *following])

    def spread_blocks(self, most_rows: int) -> Iterator[Batch]:
        """All rows block by block if they are about `most_rows`; else those of blocks that are spread over the stretch."""
        size = self.block_rows
        first, last = self.rows.start // size, -(-self.rows.stop // size)
        count = min(max(1, most_rows // size), last - first)
        for k in range(count):
            number = first + (last - first) * k // count
            stretch = RowRange(max(number * size, self.rows.start), min((number + 1) * size, self.rows.stop))
            yield from replace(self, rows=stretch).batches()

    def _stretches(self, most_rows: int) -> list[RowRange]:
        if len(self.rows) <= most_rows:
            return [self.rows]
        length, width = max(1, most_rows // _STRETCHES), len(self.rows) / _STRETCHES
        places = width * np.arange(_STRETCHES) + (width - length) * offsets(_STRETCHES)
        starts = np.unique(self.rows.start + np.maximum(places, 0.0).astype(np.int64)).tolist()
        return [RowRange(start, min(start + length, self.rows.stop)) for start in starts]

    def _some_batches(self, stretches: Sequence[RowRange]) -> Iterator[Batch]:
        """The rows of these stretches, in order; every block is read once."""
        done = 0
        for stretch in stretches:
            if stretch.stop <= done:
                continue
            for block in self._blocks(RowRange(max(stretch.start, done), stretch.stop)):
                done = block.rows.stop
                for rows in stretches:
                    if rows.overlaps(block.rows) and len(part := block.cut(rows)):
                        yield part

    def __repr__(self) -> str:
        actions = f"{self.layout.slots} actions" if self.layout.discrete else f"{self.layout.action_dim}-d actions"
        horizon = "" if self.terms.horizon is None else f", horizon={self.terms.horizon}"
        stated = "" if self.terms.value_range is None else f", value_range={self.terms.value_range}"
        return (
            f"{type(self).__name__}(n={len(self)}, observation_dim={self.layout.observation_dim}, {actions}, "
            f"gamma={self.gamma:g}, reward_range={self.terms.reward_range}, initial={self.initial_states.kind} x "
            f"{len(self.initial_states)}{horizon}{stated})"
        )


def rows_of(columns: Columns) -> Rows:
    """The rows behind columns: those of the library are always made of some."""
    assert isinstance(columns, Rows)
    return columns
