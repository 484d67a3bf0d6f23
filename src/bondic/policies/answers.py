"""What the policy says at the next and initial states: all that an interval needs to know about it.

Discrete actions: probabilities, (states, slots). Continuous actions: draws, (states, m, k).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import InvalidInput
from bondic.data._arrays import FloatArray, IntArray
from bondic.data.unread import Unread
from bondic.errors import PolicyError
from bondic.policies import protocol
from bondic.policies.logged_target import LoggedTarget, refuse_logged_target

Generators = Callable[[int], np.random.Generator]
"""A generator for every group of rows."""

PIECE = 65_536
"""Initial states at which a policy is queried at once."""
MAX_ANSWERS = 500_000_000
"""Probabilities of initial states that are held: 4 GB. There are several copies of some of them."""
GROUP = 256
"""Rows of the log at which a policy is queried at once where its actions are drawn."""


@dataclass(frozen=True, eq=False)
class StartAnswers:
    """pi at the initial states, and how it is queried at next states."""

    initial: FloatArray
    discrete: bool
    exact: bool  # means over actions are exact: discrete, or deterministic
    draws: int  # actions drawn at each next state; 1 for discrete actions

    @property
    def slots(self) -> int:
        return int(self.initial.shape[1]) if self.discrete else 1

    @property
    def start_draws(self) -> int | None:
        """Actions drawn at each initial state; None where they have probabilities."""
        return None if self.discrete else int(self.initial.shape[1])

    def without_starts(self, action_dim: int) -> StartAnswers:
        """For other processes: how the policy is queried, and the form of its answers."""
        shape = (0, self.slots) if self.discrete else (0, self.start_draws or 1, action_dim)
        return StartAnswers(np.zeros(shape), self.discrete, self.exact, self.draws)


class LaterAnswers(Unread, StartAnswers):
    """Probabilities at starts of a log that is read in batches: most methods have no use for them."""

    @property
    def slots(self) -> int:
        return super().slots if self.made else int(vars(self)["actions"])


@dataclass(frozen=True, eq=False)
class NextStates:
    """Next states of a stretch of the log, in order; times are None unless value depends on time."""

    observations: FloatArray  # (continuing rows, d)
    times: IntArray | None
    rows: IntArray  # their rows in the log
    before: int  # how many next states of the log stand before these


@dataclass(frozen=True, eq=False)
class StoredAnswers:
    """A policy of which only its answers are known, those at all next states of a log among them: a certificate's."""

    next: FloatArray
    initial: FloatArray
    discrete: bool
    exact: bool

    def at_start(self, states: int, action_dim: int) -> StartAnswers:
        """What was answered at the initial states, after a look at the shapes."""
        tail = self.initial.shape[1:] if self.discrete else (action_dim,)
        fits = self.discrete == (action_dim == 0) and self.initial.ndim == self.next.ndim == (2 if self.discrete else 3)
        if not (fits and self.next.shape[-1] == self.initial.shape[-1] == tail[-1]):
            raise InvalidInput(
                f"The policy's answers have shapes {self.next.shape} and {self.initial.shape}: they are not those of this log."
            )
        _refuse_other_count(self.initial.shape[0], states)
        return StartAnswers(self.initial, self.discrete, self.exact, 1 if self.discrete else int(self.next.shape[1]))

    def at_next(self, states: NextStates) -> FloatArray:
        return self.next[states.before : states.before + states.rows.size]

    def check_count(self, states: int) -> None:
        """All of the answers have to be about this log."""
        _refuse_other_count(self.next.shape[0], states)


def same_answers(mine: FloatArray, stored: FloatArray) -> bool:
    """Answers of one policy may differ by 1e-9, relatively: networks add up in another order when the batch is larger."""
    return mine.shape == stored.shape and bool(np.all(np.abs(mine - stored) <= 1e-9 * (1 + np.abs(stored))))


def _refuse_other_count(answers: int, states: int) -> None:
    if answers != states:
        raise InvalidInput(f"The policy's answers cover {answers} states; there are {states}.")


def query_start(
    policy: Any,
    states: FloatArray,
    times: IntArray | None,
    *,
    action_dim: int,  # 0 for discrete actions
    log_rows: int,
    draws: int,
    initial_draws: int | None,
    rng: np.random.Generator,
) -> StartAnswers:
    """The policy at the initial states, and whether means over its actions are exact."""
    if isinstance(policy, StoredAnswers):
        return policy.at_start(states.shape[0], action_dim)
    if isinstance(policy, LoggedTarget):  # it has no answers
        return StartAnswers(np.zeros((0, 1) if action_dim == 0 else (0, 1, action_dim)), action_dim == 0, True, 1)
    if protocol.is_time_dependent(policy) and times is None:
        raise InvalidInput(
            "The policy depends on time, but the problem does not: pass horizon= or time_varying=True (the log needs "
            "`timesteps`)."
        )
    for count in (draws, 1 if initial_draws is None else initial_draws):
        if not (isinstance(count, Real) and 1 <= count < math.inf and count == int(count)):
            raise InvalidInput(
                f"At least one action (a whole number) must be drawn per state: {draws=}, {initial_draws=}."
            )
    if action_dim:
        return _start_draws(policy, states, times, action_dim, draws, initial_draws, rng)
    if isinstance(policy, protocol.RowProbabilities):
        _check_given(policy, log_rows)
        probs = protocol.check_probabilities(policy.initial_probs, states.shape[0], "initial state")
        return StartAnswers(probs, True, True, 1)
    if not hasattr(policy, "action_probs"):
        raise InvalidInput(
            f"The log has discrete actions (whole numbers); the policy, a {type(policy).__name__}, must offer "
            "action_probs(observations), or be RowProbabilities. Pass a function f(observations) that returns probabilities or "
            "actions, or pass actions as floats if they are continuous."
        )
    return StartAnswers(_start_probabilities(policy, states, times), True, True, 1)


def query_start_later(policy: Any, some: FloatArray, states: Callable[[], FloatArray]) -> StartAnswers:
    """The same of a policy with probabilities that is queried at some states now, and at all of them where that is needed."""
    queried = query_start(
        policy, some, None, action_dim=0, log_rows=0, draws=1, initial_draws=None, rng=np.random.default_rng(0)
    )
    return LaterAnswers.made_by(
        lambda: {"initial": _start_probabilities(policy, states(), None)},
        actions=queried.slots,
        discrete=True,
        exact=True,
        draws=1,
    )


def _start_probabilities(policy: Any, states: FloatArray, times: IntArray | None) -> FloatArray:
    """pi(. | s_0) at all initial states, (n_0, slots), queried in pieces: a policy may need far more memory than its answer."""
    out: FloatArray | None = None
    for first in range(0, max(states.shape[0], 1), PIECE):
        here = slice(first, first + PIECE)
        slots = None if out is None else out.shape[1]
        later = None if times is None else times[here]
        found = protocol.discrete_probabilities(policy, states[here], later, "initial state", slots, first=first)
        if out is None:
            _refuse_large_table(states.shape[0], found.shape[1])
            out = np.empty((states.shape[0], found.shape[1]))
        out[here] = found
    assert out is not None
    return out


def _refuse_large_table(states: int, slots: int) -> None:
    if states * slots > MAX_ANSWERS:
        raise InvalidInput(
            f"{states} initial states with {slots} actions are a table of {8 * states * slots / 1e9:.3g} GB, more than is "
            f"held at once ({8 * MAX_ANSWERS / 1e9:.3g} GB). Pass fewer initial states, drawn at random and fixed beforehand: "
            f"InitialStates.sample(states[:{MAX_ANSWERS // slots}]), or --initial FILE."
        )


def query_next(policy: Any, states: NextStates, start: StartAnswers, generator: Generators) -> FloatArray:
    """The policy at next states: probabilities of all actions, or draws."""
    if isinstance(policy, StoredAnswers):
        return policy.at_next(states)
    refuse_logged_target(policy, "the policy's probabilities of all actions at next and initial states")
    count, slots = states.rows.size, start.slots
    if not start.discrete:
        dimension = int(start.initial.shape[2])
        if not start.exact or count == 0:
            return _drawn(policy, states, start, generator)
        shape: dict[str, Any] = {"draws": 1, "dimension": dimension, "rng": generator(0), "log_rows": states.rows}
        return protocol.sampled_actions(policy, states.observations, states.times, "next state", **shape)
    if isinstance(policy, protocol.RowProbabilities):
        given = np.asarray(policy.next_probs, dtype=np.float64)[states.rows]
        return protocol.check_probabilities(given, count, "next state", slots, states.rows)
    if count == 0:
        return np.zeros((0, slots))
    some = _few_states(states.observations) if states.times is None else None
    if some is None:
        return protocol.discrete_probabilities(
            policy, states.observations, states.times, "next state", slots, states.rows
        )
    first, code = some
    found = protocol.discrete_probabilities(
        policy, states.observations[first], None, "next state", slots, states.rows[first]
    )
    return found[code]


def _few_states(states: FloatArray) -> tuple[IntArray, IntArray] | None:
    """States that are few whole numbers: a row of each, and (n,) which of them every row is; None where they are others."""
    low, high = states.min(axis=0), states.max(axis=0)
    if not float(np.prod(high - low + 1.0)) <= states.shape[0] / 4:
        return None
    codes = np.zeros(states.shape[0], dtype=np.int64)
    for column, least, most in zip(states.T, low, high, strict=True):
        own = (column - least).astype(np.int64)
        if not np.array_equal(own + least, column):
            return None
        codes = codes * int(most - least + 1) + own
    rows = np.full(int(codes.max()) + 1, -1)
    rows[codes[::-1]] = np.arange(codes.size)[::-1]  # the last assignment stays: the first row
    there = rows >= 0
    return rows[there], (np.cumsum(there) - 1)[codes]


def _drawn(policy: Any, states: NextStates, start: StartAnswers, generator: Generators) -> FloatArray:
    """Draws at the next states of rows, (count, draws, k), in groups of GROUP consecutive rows of the log.

    A group is always queried as a whole: a row has its place in it, and another state of the group fills places without a row.
    The generator is then used alike whichever rows there are, so that a row has the same draws in every log that begins alike.
    """
    out = np.empty((states.rows.size, start.draws, int(start.initial.shape[2])))
    groups, firsts = np.unique(states.rows // GROUP, return_index=True)
    stops = np.append(firsts, states.rows.size)[1:]
    for group, first, stop in zip(groups, firsts, stops, strict=True):
        place, queried = states.rows[first:stop] % GROUP, np.full(GROUP, first)
        queried[place] = np.arange(first, stop)
        drawn = protocol.sampled_actions(
            policy,
            states.observations[queried],
            None if states.times is None else states.times[queried],
            "next state",
            draws=start.draws,
            dimension=out.shape[2],
            rng=generator(int(group)),
            log_rows=states.rows[queried],
        )
        out[first:stop] = drawn[place]
    return out


def _check_given(policy: protocol.RowProbabilities, log_rows: int) -> None:
    try:
        given = np.asarray(policy.next_probs, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise PolicyError("`next_probs` is not an array of numbers: one row of probabilities per row.") from problem
    if given.ndim != 2 or given.shape[0] != log_rows:
        raise InvalidInput(f"`next_probs` has shape {given.shape}; one row per row of the log ({log_rows}) is needed.")


def _start_draws(
    policy: Any,
    states: FloatArray,
    times: IntArray | None,
    action_dim: int,
    draws: int,
    initial_draws: int | None,
    rng: np.random.Generator,
) -> StartAnswers:
    if not hasattr(policy, "sample_action"):
        raise InvalidInput(
            f"The log has continuous actions (floats); the policy, a {type(policy).__name__}, must offer "
            "sample_action(observations, rng). Pass a function f(observations) or f(observations, rng) that returns actions, "
            "or pass actions as integers if they are discrete."
        )
    exact = protocol.is_deterministic(policy)
    # initial draws are cheap and their error is paid for directly: about 4096 in all by default
    m0 = 1 if exact else (initial_draws or max(draws, -(-4096 // states.shape[0])))
    shape: dict[str, Any] = {"draws": m0, "dimension": action_dim, "rng": rng}
    actions = protocol.sampled_actions(policy, states, times, "initial state", **shape)
    return StartAnswers(actions, False, exact, 1 if exact else int(draws))


def logged_action_probs(
    policy: Any,
    observations: FloatArray,
    actions: npt.NDArray[Any],
    timesteps: IntArray | None,
    *,
    slots: int,
    log_rows: IntArray,
) -> FloatArray:
    """pi(a_i | s_i): a probability for discrete actions (n,), a density for continuous ones (n, k)."""
    refuse_logged_target(policy, "the policy's probabilities, from the policy itself")
    if actions.ndim == 1:
        return logged_state_probs(policy, observations, timesteps, slots=slots, log_rows=log_rows, taken=actions)
    if not hasattr(policy, "action_density"):
        raise InvalidInput(
            "Weights of trajectories need the policy's density of the logged actions: give the policy a method "
            "action_density(observations, actions), or use a method that needs no weights, such as Dual()."
        )
    more = (timesteps,) if protocol.is_time_dependent(policy) else ()
    try:
        density = np.asarray(policy.action_density(observations.copy(), actions.copy(), *more), dtype=np.float64)
    except PolicyError:
        raise
    except (Exception, SystemExit) as problem:
        raise PolicyError(f"action_density raised {type(problem).__name__}: {problem}") from problem
    if density.shape != (actions.shape[0],) or not np.all(np.isfinite(density)) or np.any(density < 0):
        raise PolicyError("action_density must return one finite number >= 0 per row.")
    return density


def answers_queries(policy: Any) -> bool:
    """Whether a policy of discrete actions says what it would do at logged states."""
    if isinstance(policy, protocol.RowProbabilities):
        return policy.logged_probs is not None
    return hasattr(policy, "action_probs")


def logged_state_probs(
    policy: Any,
    observations: FloatArray,
    timesteps: IntArray | None,
    *,
    slots: int,
    log_rows: IntArray,
    taken: npt.NDArray[Any] | None = None,
) -> FloatArray:
    """pi(. | s_i) at every logged state, (n, slots); or that of the actions taken there, (n,)."""
    refuse_logged_target(policy, "the policy's probabilities of all actions at the logged states")
    if isinstance(policy, protocol.RowProbabilities):
        if policy.logged_probs is None:
            raise InvalidInput(
                "The policy is stored row by row without `logged_probs`, its probabilities at the logged states, which "
                "weights of trajectories need: RowProbabilities(next_probs, initial_probs, logged_probs)."
            )
        given = np.asarray(policy.logged_probs, dtype=np.float64)
        if given.ndim != 2 or given.shape[0] <= int(log_rows.max(initial=-1)):
            raise InvalidInput(f"`logged_probs` has shape {given.shape}; one row per row of the log is needed.")
        given = given[log_rows]
        return protocol.check_probabilities(given, log_rows.size, "logged state", slots, log_rows, taken=taken)
    return protocol.discrete_probabilities(
        policy, observations, timesteps, "logged state", slots, log_rows, taken=taken
    )
