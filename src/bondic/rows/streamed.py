"""A question about a log that is read in batches; every pass reads it anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.data.blocks import RowRange
from bondic.data.initial import InitialStates
from bondic.data.spread import offsets
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput
from bondic.kernels.normal_form import Layout
from bondic.policies.answers import PolicyAnswers, Questions, ask_initial, ask_next
from bondic.rows.frame import make_frame, questions, refuse_nothing, refuse_unknown_action
from bondic.rows.question import Cloud, Question
from bondic.rows.returns import ReturnCheck
from bondic.rows.rows import Problem, assemble, initial_cloud, logged_pairs
from bondic.terms import Terms

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

SEED_SALT = 0x626F6E64
"""Keeps the action draws apart from whatever simulated the log with the same small seed."""

_PROBE_BATCHES = 16


@dataclass(frozen=True, eq=False, repr=False)
class StreamedProblem(Question):
    """The same question with rows that are read, and a policy that is asked, batch by batch.

    The draws of a continuous policy for the batch that begins at row i come from child i of the seed (salt, seed): they
    do not depend on anything in the log, and reading again gives the same ones.
    """

    terms: Terms
    layout: Layout
    initial: Cloud
    initial_states: InitialStates
    answers: PolicyAnswers  # at the initial states; those at next states are asked for when a batch is read
    rows: RowRange
    log_hash: str
    seed: int
    log: LogStream
    policy: Any
    draws: int
    count: int  # rows that count
    time_counts: dict[int, int] | None  # how many of them at each time before the horizon
    doubts: tuple[str, ...] = ()
    stated: tuple[str, ...] = ()

    @staticmethod
    def make(
        log: LogStream,
        policy: Any,
        initial: InitialStates,
        terms: Terms,
        *,
        seed: int,
        draws: int,
        initial_draws: int | None,
    ) -> StreamedProblem:
        if terms.time_varying and not log.has_timesteps:
            raise InvalidInput(
                "A finite horizon or a time-varying problem needs `timesteps` in the log: value depends on time."
            )
        dimension = log.observation_dim
        times = np.zeros(len(initial), dtype=np.int64) if terms.time_varying else None
        nobody = np.zeros((0, dimension))
        asked = Questions(nobody, None, np.zeros(0, np.int64), len(log), initial.observations, times, log.action_dim)
        rng = np.random.default_rng([SEED_SALT, seed])
        at_start, exact = ask_initial(policy, asked, draws=draws, initial_draws=initial_draws, rng=rng)
        discrete = log.action_dim == 0
        nothing = np.zeros((0, at_start.shape[1] if discrete else (1 if exact else draws), *at_start.shape[2:]))
        answers = PolicyAnswers(nothing, at_start, discrete, exact)
        layout = Layout(dimension, terms.time_varying, log.action_dim, answers.slots)
        if log.plan is not None:
            plan = log.plan.with_policy(
                slots=answers.slots, draws=int(nothing.shape[1]) if not discrete else 1, dimension=layout.dimension
            )
            log = log.rebatched(min(log.batch_rows, plan.batch_rows))
        starts = initial_cloud(initial, answers, timed=layout.has_time)
        rows = RowRange(0, len(log))
        whole = StreamedProblem(
            terms, layout, starts, initial, answers, rows, log.content_hash, seed, log, policy, draws, len(log), None
        )
        whole._check_rows()
        return whole._restricted(rows)

    def _check_rows(self) -> None:
        """Rewards, returns, terminations and actions of all rows against what was stated, before any long work."""
        check = None if self.terms.value_range is None else ReturnCheck(self.terms)
        for rows, part in self.log.batches():
            frame = make_frame(part, self.initial_states, self.terms, rows.start)
            if check is not None:
                check.feed(part, frame, rows.start)
            refuse_unknown_action(part, frame, self.answers.slots, rows.start)

    def _restricted(self, rows: RowRange) -> StreamedProblem:
        """The same question on these rows, with their number."""
        if self.terms.horizon is None:
            return replace(self, rows=rows, count=len(rows))
        counts: Counter[int] = Counter()  # by time: a horizon may be far longer than any episode
        for times in self.log.timesteps(rows):
            seen, repeats = np.unique(times[times < self.terms.horizon], return_counts=True)
            counts.update(dict(zip(seen.tolist(), repeats.tolist(), strict=True)))
        refuse_nothing(counts.total(), self.terms)
        return replace(self, rows=rows, count=counts.total(), time_counts=dict(counts))

    def __len__(self) -> int:
        return self.count

    def parts(self) -> Iterator[Problem]:
        for rows, part in self.log.batches(self.rows):
            problem = self._part(rows, part)
            if problem is not None:
                yield problem

    def _part(self, rows: RowRange, part: Transitions) -> Problem | None:
        frame = make_frame(part, self.initial_states, self.terms, rows.start)
        if not frame.kept.any():
            return None
        asked = questions(part, self.initial_states, frame, rows.start, len(self.log))
        # a spawn key, not a third number: a seed (salt, seed, 0) is the seed (salt, seed) of the initial states
        rng = np.random.default_rng(np.random.SeedSequence([SEED_SALT, self.seed], spawn_key=(rows.start,)))
        following = ask_next(self.policy, asked, self.answers.slots, draws=self.draws, rng=rng)
        answers = replace(self.answers, next=following)
        given: dict[str, Any] = {"first_row": rows.start, "starts": self.initial}
        return assemble(part, self.initial_states, answers, self.terms, seed=self.seed, **given)

    def logged_rows(self) -> Iterator[tuple[FloatArray, IntArray, IntArray | None]]:
        """Logged points, slots and times of the rows that count, in order; the policy is not asked."""
        for rows, part in self.log.batches(self.rows):
            frame = make_frame(part, self.initial_states, self.terms, rows.start)
            yield (*logged_pairs(part, frame), frame.times)

    def select(self, start: int, stop: int | None = None) -> StreamedProblem:
        rows = self.checked_range(start, stop)
        if not len(rows):
            raise InvalidInput(f"No usable row is left in {rows} of the log.")
        return self._restricted(rows)

    def load(self, start: int, stop: int) -> Problem | None:
        rows = self.checked_range(start, stop)
        return self._part(rows, self.log.read(rows)) if len(rows) else None

    def some_points(self, most_rows: int) -> FloatArray:
        """Rows of up to 16 short stretches, one at an uneven place of every sixteenth of the rows.

        So few rows that they all fit are read once each, in the order of the same log in memory.
        """
        length = max(1, most_rows // _PROBE_BATCHES)
        width = len(self.rows) / _PROBE_BATCHES
        if width <= length:
            places = np.arange(0.0, len(self.rows), length)
        else:
            places = width * np.arange(_PROBE_BATCHES) + (width - length) * offsets(_PROBE_BATCHES)
        logged, following = [], []
        for start in np.unique(self.rows.start + places.astype(np.int64)).tolist():
            rows = RowRange(start, min(start + length, self.rows.stop))
            problem = self._part(rows, self.log.read(rows))
            if problem is not None:
                logged.append(problem.logged)
                following.append(problem.next.points)
        return np.concatenate([self.initial.points, *logged, *following])


def in_memory(question: Question) -> Problem:
    """The question, for methods that need all rows at once."""
    if not isinstance(question, Problem):
        raise InvalidInput(
            "This method needs all rows in memory, and the log is streamed. Use Dual with its own search, or load the log: "
            "Transitions(...) in place of stream_log(...)."
        )
    return question
