"""What a policy has to offer, and how it is queried: validated, at the border, once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import PORTION
from bondic.data._arrays import FloatArray
from bondic.errors import PolicyError, counted_names

PROBABILITY_TOLERANCE = 1e-6
"""Row sums may be off by this much (float32 policies are); the policy is then *defined* as the normalized row."""
FLOAT32_TOLERANCE = 1e-4
"""Sums of probabilities that a model computed in single precision are off by less; anything beyond is no rounding error."""
_LOGITS = "logits become probabilities by SoftmaxPolicy(function)."


@runtime_checkable
class DiscretePolicy(Protocol):
    """pi(a | s) as an array: then every mean over next actions is exact."""

    def action_probs(self, observations: FloatArray) -> FloatArray:
        """(n, d) -> (n, number of actions), rows sum to 1."""
        ...


@runtime_checkable
class ContinuousPolicy(Protocol):
    """a ~ pi(. | s) through a sampler.

    A policy with an attribute `deterministic = True` always returns the same action for the same observation;
    one draw is then exact.
    """

    def sample_action(self, observations: FloatArray, rng: np.random.Generator) -> FloatArray:
        """(n, d) -> (n, k), one draw per row."""
        ...


@dataclass(frozen=True, eq=False)
class RowProbabilities:
    """Probabilities written down per row, so that no policy code is needed.

    `next_probs[i]` is pi(. | s'_i) (rows of terminal transitions are ignored), `initial_probs[j]` is pi(. | s_0j).
    `logged_probs[i]` is pi(. | s_i): only importance sampling needs it.
    """

    next_probs: Any  # (n, number of actions)
    initial_probs: Any  # (n_0, number of actions)
    logged_probs: Any = None  # (n, number of actions)


@dataclass(frozen=True)
class CallablePolicy:
    """A plain function `f(observations) -> probabilities` as a discrete policy.

    Parameters
    ----------
    function : callable
        (n, d) array of observations -> (n, number of actions) array of probabilities.
    time_dependent : bool, default False
        Whether it is called as f(observations, time), with the timesteps.
    """

    function: Callable[..., Any]
    time_dependent: bool = False

    def action_probs(self, observations: FloatArray, *time: Any) -> FloatArray:
        return np.asarray(self.function(observations, *time))


@dataclass(frozen=True)
class CallableSampler:
    """A plain function `f(observations, rng) -> actions` as a continuous policy.

    Parameters
    ----------
    function : callable
        (n, d) array of observations and a random generator -> (n, k) array of actions.
    deterministic : bool, default False
        Whether it ignores the generator: one draw per state is then exact.
    time_dependent : bool, default False
        Whether it is called as f(observations, rng, time), with the timesteps.
    """

    function: Callable[..., Any]
    deterministic: bool = False
    time_dependent: bool = False

    def sample_action(self, observations: FloatArray, rng: np.random.Generator, *time: Any) -> FloatArray:
        return np.asarray(self.function(observations, rng, *time))


def is_time_dependent(policy: object) -> bool:
    return bool(getattr(policy, "time_dependent", False))


def is_deterministic(policy: object) -> bool:
    return bool(getattr(policy, "deterministic", False))


_LOOKED_UP = (
    " A list of actions by state is looked up by np.array(actions)[states[:, 0].astype(int)]; for one state at a time: "
    "np.array([f(int(s[0])) for s in states])."
)


def query_policy(call: Callable[..., Any], observations: FloatArray, what: str, *more: Any) -> Any:
    """Call foreign code; whatever it raises becomes an error that says where."""
    try:
        return call(observations.copy(), *more)
    except PolicyError:
        raise
    except (Exception, SystemExit) as problem:  # a script that calls exit() must not end the evaluation with its code
        looked_up = isinstance(problem, IndexError | KeyError | TypeError)
        given = " ".join(getattr(problem, "__notes__", ())) or (  # an adapter knows better what the function got
            f"It is given all states at once, an array of floats of shape {observations.shape}."
            f"{_LOOKED_UP if looked_up else ''}"
        )
        raise PolicyError(
            f"The policy raised {type(problem).__name__} at the {what}: {str(problem).rstrip('.')}. ({given})"
        ) from problem


def _ask(call: Callable[..., Any], observations: FloatArray, what: str, *more: Any) -> npt.NDArray[Any]:
    answer = query_policy(call, observations, what, *more)
    try:
        array = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise PolicyError(f"The policy returned something that is not an array of numbers at the {what}.") from problem
    return array


def _place(what: str, position: int, log_rows: Any, first: int = 0) -> str:
    """Where the policy failed, in the user's terms: a place in the list of states, or "next state of row 17" of the log."""
    return (
        f"{what} number {first + position} (counted from 0)"
        if log_rows is None
        else f"{what} of row {log_rows[position]}"
    )


def discrete_probabilities(
    policy: DiscretePolicy,
    observations: FloatArray,
    timesteps: Any,
    what: str,
    slots: int | None = None,
    log_rows: Any = None,
    first: int = 0,
    taken: npt.NDArray[Any] | None = None,
) -> FloatArray:
    """pi(. | s) at every observation, checked, or that of the actions taken alone; `first` states were queried before."""
    more = (timesteps,) if is_time_dependent(policy) else ()
    answer = _ask(policy.action_probs, observations, what, *more)
    try:
        return check_probabilities(answer, observations.shape[0], what, slots, log_rows, first, taken)
    except PolicyError as problem:
        raise PolicyError(f"{problem}{_was_given(observations.shape[1], getattr(policy, 'names', ()))}") from problem


def _was_given(width: int, names: Sequence[str]) -> str:
    """Which columns the policy was queried with: columns that it was not made for explain many strange answers."""
    if not names:
        return f" (It was given states of {width} {'column' if width == 1 else 'columns'}.)"
    return (
        f" (It was given {counted_names(names)}. If it needs others, or another order: columns={{'observations': [...]}}, "
        "--columns observations=NAME,...)"
    )


def one_hot(chosen: npt.NDArray[Any], count: int) -> FloatArray:
    """Probability 1 of one action per row, (n, count)."""
    out = np.zeros((chosen.size, count))
    out[np.arange(chosen.size), chosen] = 1.0
    return out


def check_probabilities(
    values: Any,
    rows: int,
    what: str,
    slots: int | None = None,
    log_rows: Any = None,
    first: int = 0,
    taken: npt.NDArray[Any] | None = None,
) -> FloatArray:
    """Shape, sign and sums; returns the normalized rows, (n, slots), or their entries for the actions taken, (n,)."""
    try:
        probs = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise PolicyError(f"The action probabilities at the {what} are not an array of numbers.") from problem
    if probs.ndim != 2 or probs.shape[0] != rows or probs.shape[1] == 0 or (slots and probs.shape[1] != slots):
        needed = f"({rows}, {slots or 'number of actions'})"
        raise PolicyError(
            f"Action probabilities at the {what} have shape {probs.shape}; {needed} is needed. A policy gets all states at once."
        )
    sums, fine, step = np.empty(rows), True, max(PORTION // probs.shape[1], 1)
    for top in range(0, rows, step):
        some = probs[top : top + step]
        sums[top : top + step] = some.sum(axis=1)
        fine = fine and bool(some.min() >= 0.0)  # what is not a number is refused as well
    if not (fine and np.isfinite(sums).all()):
        wrong = np.flatnonzero(~np.isfinite(probs).all(axis=1) | (probs < 0).any(axis=1))
        if wrong.size:
            row = int(wrong[0])
            where = _place(what, row, log_rows, first)
            raise PolicyError(
                f"Action probabilities at {where} are {probs[row]}: each must be finite and >= 0; {_LOGITS}"
            )
    bad = np.abs(sums - 1.0) > PROBABILITY_TOLERANCE
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise PolicyError(
            f"Action probabilities at {_place(what, row, log_rows, first)} sum to {sums[row]:.9g}, not 1. Normalize the "
            f"policy's output; {_LOGITS}"
        )
    return np.asarray(probs / sums[:, None] if taken is None else probs[np.arange(rows), taken] / sums)


def float32_normalized(values: Any) -> FloatArray:
    """Rows that are off by single-precision rounding, normalized; all others unchanged, to be refused with their row."""
    array = np.array(values, dtype=np.float64)
    if array.ndim != 2:
        return array
    near = np.abs(array.sum(axis=1) - 1.0) <= FLOAT32_TOLERANCE
    rounded = near & (array >= -FLOAT32_TOLERANCE).all(axis=1)
    positive = np.maximum(array[rounded], 0.0)
    array[rounded] = positive / positive.sum(axis=1, keepdims=True)
    return array


def sampled_actions(
    policy: ContinuousPolicy,
    observations: FloatArray,
    timesteps: Any,
    what: str,
    *,
    draws: int,
    dimension: int,
    rng: np.random.Generator,
    log_rows: Any = None,
) -> FloatArray:
    """`draws` independent actions per observation: (n, draws, k)."""
    more = (timesteps,) if is_time_dependent(policy) else ()
    out = np.empty((observations.shape[0], draws, dimension))
    for draw in range(draws):
        actions = _ask(policy.sample_action, observations, what, rng, *more)
        if actions.ndim == 1 and dimension == 1:
            actions = actions[:, None]
        if actions.shape != (observations.shape[0], dimension):
            raise PolicyError(
                f"Sampled actions at the {what} have shape {actions.shape}; ({observations.shape[0]}, {dimension}) is "
                "needed: one action per row, of the dimension that the log has. If actions are discrete, the log needs whole "
                "numbers."
            )
        if not np.all(np.isfinite(actions)):
            row = int(np.flatnonzero(~np.isfinite(actions).all(axis=1))[0])
            raise PolicyError(
                f"The policy returned a non-finite action at {_place(what, row, log_rows)}: {actions[row]}."
            )
        out[:, draw] = actions
    return out
