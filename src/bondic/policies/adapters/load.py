"""load_policy: a policy from a file, an import path, or a model of another library."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.npz import load_arrays
from bondic.errors import PolicyError, did_you_mean, kind_of, shown
from bondic.folders import near
from bondic.modules import import_object, load_pickle
from bondic.policies.adapters import fitted, rule
from bondic.policies.protocol import CallableSampler
from bondic.policies.standard import TablePolicy

_PICKLES = (".pkl", ".pickle", ".joblib")


def load_policy(
    spec: Any,
    *,
    trust_pickle: bool = False,
    actions: int | Sequence[Any] | None = None,
    output: str | None = None,
) -> Any:
    """An object with action_probs(observations) (discrete) or sample_action(observations, rng) (continuous).

    Parameters
    ----------
    spec : object
        `module:object` or `file.py:object` (a policy, a function, or a class or function that builds one), a file (.npz,
        and with `trust_pickle` .pkl, .joblib), or the model itself: an object with `predict`, a function of all states that
        returns probabilities (n, actions) or one action per state (n,), a dict {state: action}, or an action, by its number or
        its name, which is taken everywhere.
    trust_pickle : bool, default False
        Whether pickled files are loaded: they can run code.
    actions : int or sequence, default None
        Number of actions; or their names in the order of the log, for a policy that answers with names.
    output : {"probabilities"}, default None
        Of a classifier: "probabilities" draws its action from `predict_proba`, in place of the one that `predict` says.

    Examples
    --------
    >>> import numpy as np
    >>> from bondic import load_policy
    >>> load_policy({0: 1, 1: 0}, actions=2).action_probs(np.array([[0.0], [1.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if output not in (None, "probabilities"):
        raise InvalidInput(f"output={output!r} is not known: None, or 'probabilities' of a classifier.")
    if not isinstance(spec, str | Path):
        return adapt(spec, actions, type(spec).__name__, output)
    path, names = Path(spec), () if actions is None or isinstance(actions, int) else tuple(map(str, actions))
    if isinstance(spec, str) and (action := _action(spec, names)) is not None:
        return _named(rule.constant(action), actions)
    if _is_file(path):
        return _from_file(path, actions, output, trust_pickle)
    if isinstance(spec, str) and ":" in spec:
        return adapt(_call_factory(import_object(spec), spec), actions, spec, output)
    raise InvalidInput(
        f"There is no file {one_line(spec, 200)}, and it is not of the form module:object.{near(path)} A policy is "
        f"module:object, file.py:object, a file .npz, .pkl, .joblib, or an action of the log"
        f"{f': {shown(names)}.{did_you_mean(str(spec), names)}' if names else '.'}"
    )


def _action(spec: str, names: Sequence[str]) -> str | float | None:
    """The action that the text names, or its number; None where it is neither."""
    if names:
        return spec if spec in names else None
    try:
        number = float(spec)
    except ValueError:
        return None
    return (int(number) if number.is_integer() else number) if np.isfinite(number) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def adapt(candidate: Any, actions: int | Sequence[Any] | None, spec: str, output: str | None) -> Any:
    """Wrap what another library made; what already is a policy is returned as it is."""
    if not isinstance(candidate, type):
        if callable(getattr(candidate, "action_probs", None)) or callable(getattr(candidate, "sample_action", None)):
            return candidate
        if (classifier := fitted.classifier_of(candidate, output)) is not None:
            return fitted.ClassifierPolicy(classifier, actions)
        if (made := _rule(candidate, spec)) is not None:
            return _named(made, actions)
    raise _refusal(candidate, spec)


def _rule(candidate: Any, spec: str) -> Any:
    """Functions, models that predict, tables of states and single actions; None for everything else."""
    if callable(getattr(candidate, "predict", None)):
        return rule.predicting(candidate)
    if callable(candidate):
        return _wrap_function(candidate, spec)
    if hasattr(candidate, "index") and hasattr(candidate, "to_dict") and not hasattr(candidate, "columns"):
        candidate = candidate.to_dict()  # a column of a table, by state
    if isinstance(candidate, Mapping):
        return rule.looked_up(candidate)
    return rule.constant(candidate) if isinstance(candidate, Real) and not isinstance(candidate, bool) else None


def _named(made: Any, actions: int | Sequence[Any] | None) -> Any:
    """A rule that knows how many actions there are, or what they are called."""
    if actions is None or not isinstance(made, rule.Rule):
        return made
    return made.with_actions(int(actions) if isinstance(actions, int) else tuple(map(str, actions)))


def _refusal(candidate: Any, spec: str) -> InvalidInput:
    known = "an object with action_probs(observations), sample_action(observations, rng) or predict"
    if isinstance(candidate, type):
        return InvalidInput(f"{candidate.__name__} is a class. Pass an object of it: {candidate.__name__}(...).")
    if isinstance(candidate, np.ndarray | list | tuple):
        return InvalidInput(
            f"A policy cannot be {kind_of(candidate)} by itself: what are its entries? One action for every state 0, 1, "
            "...: dict(enumerate(actions)). A row of probabilities for every state 0, 1, ...: TablePolicy(table). Probabilities "
            "for every row of the log: RowProbabilities(next_probs, initial_probs)."
        )
    return InvalidInput(
        f"{one_line(spec, 200)} is {kind_of(candidate)}, which is no policy. A policy is {known}, a function of all "
        "states, a dict {state: action}, or an action, by its number or name."
    )


def _from_file(path: Path, actions: int | Sequence[Any] | None, output: str | None, trust_pickle: bool) -> Any:
    ending = path.suffix.lower()
    if path.stat().st_size == 0:
        raise InvalidInput(f"{one_line(path.name)} is empty.")
    if ending == ".npz":
        return _table(path)
    if ending in _PICKLES:
        if not trust_pickle:
            raise InvalidInput(
                f"{one_line(path.name)} runs code when it is loaded (it holds pickled objects). Write a table of it as "
                "NPZ, or pass trust_pickle=True (--with trust_pickle=yes) if you made the file yourself."
            )
        return adapt(load_pickle(path), actions, path.name, output)
    if ending == ".py":
        raise InvalidInput(f"Say which object of {one_line(path.name)} is the policy: {one_line(path.name)}:object.")
    raise InvalidInput(
        f"{one_line(path.name)}: the ending is not known. A policy file is .npz, .pkl or .joblib; what "
        "torch, stable-baselines3 and ONNX save is loaded by a function of yours, file.py:object (the page on policies has it)."
    )


def _table(path: Path) -> TablePolicy:
    """`probs` (states, actions); the state is the whole number in the first observation column. Nothing is executed."""
    arrays, label = load_arrays(path), one_line(path.name)
    if not isinstance(arrays, dict) or set(arrays) != {"probs"}:
        held = shown(sorted(arrays)) if isinstance(arrays, dict) else "one array without a name"
        raise InvalidInput(
            f"{label} holds {held}. A policy file holds `probs` (states, actions) alone; a network is a function of yours, "
            "file.py:function (the page on policies has one)."
        )
    if arrays["probs"].dtype.kind not in "biuf":
        raise InvalidInput(f"{label}: `probs` must hold numbers, not dtype {arrays['probs'].dtype}.")
    return TablePolicy(arrays["probs"])


def _call_factory(candidate: Any, spec: str) -> Any:
    """A class or a function that needs no arguments builds the policy."""
    if not callable(candidate) or not _is_factory(candidate):
        return candidate
    try:
        return candidate()
    except (Exception, SystemExit) as problem:
        raise PolicyError(
            f"{one_line(spec, 200)} failed to build a policy ({type(problem).__name__}: {one_line(problem, 300)})."
        ) from problem


def _is_factory(candidate: Any) -> bool:
    if inspect.isclass(candidate):
        return True
    return (inspect.isfunction(candidate) or inspect.isbuiltin(candidate)) and _needed(candidate) == 0


def _needed(function: Any) -> int | None:
    """How many positional arguments the function insists on; None if that is unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(entry.kind in plain and entry.default is entry.empty for entry in parameters)


def _wrap_function(function: Any, spec: str) -> Any:
    """f(observations) returns probabilities or actions, f(observations, rng) draws actions."""
    needed = _needed(function)
    if needed in (1, None):
        return rule.Rule(function, model=getattr(function, "__self__", None))
    if needed == 2:
        return CallableSampler(function)
    raise InvalidInput(
        f"{one_line(spec, 200)} is callable, but neither as f(observations), which returns probabilities or actions, nor as "
        "f(observations, rng), which draws actions."
    )
