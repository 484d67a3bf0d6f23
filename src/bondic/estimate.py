"""estimate_interval(problem, alpha=..., method=...) -> Result: the problem is positional, the method a keyword."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from bondic.core.cells.allowance import Allowance
from bondic.core.claims import check_alpha, unusual_alpha
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput, one_line
from bondic.data.initial import InitialStates
from bondic.errors import ValidityWarning, did_you_mean, kind_of
from bondic.extensions import added_methods
from bondic.methods.base import Progress
from bondic.methods.candidates import CANDIDATES, Method
from bondic.methods.default import Default
from bondic.methods.value_range import WholeRange, degenerate_range
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.estimand import estimand_of
from bondic.rows.inputs import refuse_unknown_arguments
from bondic.rows.problem import make_problem
from bondic.rows.subgroups import labels_of

OWN: dict[str, type[Method]] = {"auto": Default, **CANDIDATES}
"""bondic's own methods by name; those of other packages are found by `bondic.extensions`."""


def named_method(name: str) -> Method:
    """The method of this name with its defaults: bondic's own, or one of another package, such as a baseline of the lab."""
    if name in OWN:
        return OWN[name]()
    if name in (others := added_methods()):
        return others[name].make()  # type: ignore[no-any-return]
    known = (*OWN, *others)
    raise InvalidInput(
        f"There is no method {one_line(repr(name))}.{did_you_mean(name, known)} There are {', '.join(known)}."
    )


def as_method(value: Any) -> Method:
    """A method, one by its name, or the default."""
    if value is None or isinstance(value, str):
        return named_method(value or "auto")
    if isinstance(value, type):
        raise InvalidInput(f"`method` is the class {value.__name__}. Make one: method={value.__name__}().")
    if not callable(getattr(value, "run", None)):
        raise InvalidInput(
            f"`method` is {kind_of(value)}. It is a method such as Table() or Dual(), or the name of one: 'sequential'."
        )
    return value  # type: ignore[no-any-return]


def estimate_interval(
    problem: Rows, *, alpha: float = 0.1, method: Method | str | None = None, progress: Progress | None = None
) -> Result:
    """An interval that contains J* with probability at least 1 - alpha, for finite data, under the printed assumptions.

    Parameters
    ----------
    problem : Rows
        What `make_problem` returns.
    alpha : float, default 0.1
        Probability that the interval misses the value.
    method : Method or str, default None
        A method, or the name of one with its defaults ("dual", "tis"). None: `Default()` chooses one before it uses a certified
        row; `result.choices["method"]` has the reason.
    progress : callable, default None
        Called as progress(stage, share) during long work.
    """
    check_alpha(alpha)
    if not isinstance(problem, Rows):
        raise InvalidInput(
            f"estimate_interval takes a problem, not {kind_of(problem)}: make_problem(log, policy, ...), or "
            "evaluate_policy(log, policy, ...), which does both."
        )
    if progress is not None and not callable(progress):
        raise InvalidInput("`progress` is a function that is called as progress(stage, share), or None.")
    chosen = as_method(method)
    if not problem.policy_in_log and (why := degenerate_range(problem)):
        chosen = WholeRange(why, getattr(chosen, "side", "both"))
    result = chosen.run(problem, float(alpha), progress).with_question(problem)
    if result.proof is None:  # those with a certificate were compared there
        estimand_of(problem.restricted(RowRange(*result.rows))).check_learned()
    validity_note = unusual_alpha(alpha)
    if validity_note is None:
        return result
    warnings.warn(validity_note, ValidityWarning, stacklevel=2)
    return replace(result, warnings=(validity_note, *result.warnings))


def evaluate_policy(
    log: Any,
    policy: Any = None,
    *,
    gamma: float | None = None,
    reward_range: tuple[float, float] | None = None,
    alpha: float = 0.1,
    initial: InitialStates | None = None,
    method: Method | str | None = None,
    categorical: bool | Sequence[int] | None = None,
    allowance: Allowance | float | tuple[float, float] | None = None,
    model: Callable[[Any, Any], Any] | None = None,
    groups: Callable[[Any], Any] | str | None = None,
    against: Any = None,
    by: Callable[[Any], Any] | str | int | None = None,
    progress: Progress | None = None,
    **statements: Any,
) -> Result:
    """An interval for the value of a policy: `make_problem` and `estimate_interval` in one call.

    Parameters
    ----------
    log : Transitions, LoadedLog, LogStream, path, table or mapping
        The log, as in `make_problem`.
    policy : object
        The new policy, as in `make_problem`.
    gamma : float
        Discount in [0, 1); 1 with a horizon.
    reward_range : (float, float)
        Range of every possible reward: prior knowledge, never read off the log.
    initial : InitialStates, default None
        Initial states, as you state them; None: the value is the mean over the starts of this log.
    statements
        Further arguments of `make_problem`.
    alpha : float, default 0.1
        Probability that the interval misses the value.
    method : Method or str, default None
        As in `estimate_interval`.
    categorical : bool or sequence of int, default None
        Which observation columns hold names: True for all, False for none, or their numbers. None: decided from the log, as
        `result.choices["states"]` reports.
    allowance : float or (float, float), default None
        Where states are numbers: by how much values may differ inside a group of states, in units of the value (one number, or
        averages and single values).
    model, groups : callable or str, default None
        Your own model and groups of states in place of fitted ones (see `Groups`).
    against : object, default None
        Another policy, in any form that `policy` takes, or "today", the one that made the log: the interval is that of the
        difference of both values, and `result.parts` holds the two values. None: `result.today` holds the difference to today's
        policy where the log has propensities or is a table, which takes about as long again.
    by : str, int or callable, default None
        A column of the observations, or a function of states that returns a label for each: `result.subgroups` holds an
        interval for every subgroup of starts, all of which hold at once.
    progress : callable, default None
        As in `estimate_interval`.

    Examples
    --------
    >>> from bondic import evaluate_policy, load_demo
    >>> demo = load_demo()
    >>> result = evaluate_policy(
    ...     demo.log, demo.policy, initial=demo.initial, gamma=demo.gamma, reward_range=demo.reward_range
    ... )
    >>> result.low < 4.466233 < result.high
    True
    """
    check_alpha(alpha)
    _refuse_options(statements)
    refuse_unknown_arguments(statements, _ARGUMENTS)
    stated = {"allowance": allowance, "model": model, "groups": groups}
    chosen = with_statements(as_method(method), {name: value for name, value in stated.items() if value is not None})
    chosen = chosen if categorical is None else _with_categorical(chosen, categorical)
    problem = make_problem(log, policy, initial, gamma=gamma, reward_range=reward_range, **statements)
    if by is not None:  # a slip here need not wait for a long evaluation
        labels_of(problem, by)
    decide = import_module("bondic.decisions.difference")  # decisions stand above this module
    if against is None:
        found: Result = estimate_interval(problem, alpha=alpha, method=chosen, progress=progress)
        found = decide.with_today(found, problem, chosen, progress)
    else:
        found = decide.difference_interval(problem, against, alpha=alpha, method=chosen, progress=progress)
        found = decide.with_values(found, problem, against, chosen).with_question(problem)
    if by is None:
        return found
    return import_module("bondic.decisions.subgroups").with_subgroups(found, by, against)  # type: ignore[no-any-return]


def with_statements(method: Method, stated: Mapping[str, Any]) -> Method:
    """The method with these statements as its fields; those that it has no use for are refused."""
    known = _fields(method)
    for name in stated.keys() - known:
        having = [kind.__name__ for kind in OWN.values() if name in _fields(kind)]
        raise InvalidInput(
            f"{type(method).__name__} cannot use {name}=. Leave it out, or name a method that can: {', '.join(having)}."
        )
    return replace(method, **stated) if stated else method  # type: ignore[type-var]


def _fields(method: Any) -> set[str]:
    return {field.name for field in fields(method)} if is_dataclass(method) else set()


def _refuse_options(options: Mapping[str, Any]) -> None:
    """Options of a method are its own: it is named with them."""
    for name in options.keys() - {*_ARGUMENTS}:
        having = [kind.__name__ for kind in list(OWN.values())[1:] if name in _fields(kind)]
        if having:
            others = f" (or {', '.join(having[1:])})" if having[1:] else ""
            raise InvalidInput(
                f"`{one_line(name)}` is an option of a method: pass the method with it, method={having[0]}({name}=...){others}."
            )


_OWN = ("allowance", "model", "groups", "alpha", "method", "categorical", "against", "by", "progress")
_ARGUMENTS = (*_OWN, *list(signature(make_problem).parameters)[2:])


def _with_categorical(chosen: Any, categorical: bool | Sequence[int]) -> Method:
    """The method with this statement on the states; a statement that it has already is not overruled."""
    listed = [] if isinstance(categorical, bool) else np.atleast_1d(np.asarray(categorical)).tolist()
    if not all(isinstance(column, int) and not isinstance(column, bool) for column in listed):
        raise InvalidInput(
            f"`categorical` is {one_line(repr(categorical))}. It is True (all observation columns hold names), False (none "
            "does), or the numbers of those that do, from 0: categorical=[0, 2]."
        )
    if "choices" not in _fields(chosen):
        raise InvalidInput(f"{type(chosen).__name__} takes states as they are: leave categorical= out.")
    stated = chosen.choices.categorical
    columns = categorical if isinstance(categorical, bool) else tuple(listed)
    if stated is not None and stated != columns:
        raise InvalidInput(
            f"categorical={categorical!r} is passed, and the method's choices say categorical={stated!r}. Keep one of them."
        )
    return replace(chosen, choices=replace(chosen.choices, categorical=columns))  # type: ignore[no-any-return]
