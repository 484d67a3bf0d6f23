"""From options to a question: the log, the policy and the initial states."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from bondic.baselines.registry import make_baseline
from bondic.cli.categorical import stated_columns
from bondic.cli.options import parse_columns, parse_missing, parse_pilot
from bondic.cli.own_options import own_options, refuse_unknown_options
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.io.read import read_log
from bondic.data.io.states import read_states
from bondic.data.log import Log
from bondic.data.open import stream_log
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.errors import InvalidInput, ValidityWarning, shown
from bondic.estimate import Method
from bondic.methods.dual import Dual
from bondic.policies.adapters.load import load_policy
from bondic.policies.protocol import RowProbabilities
from bondic.rows import Rows, make_problem
from bondic.tuning.defaults import Choices

COLUMNS_POLICY = "columns"
"""The policy whose probabilities stand in the log."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """What was read, and how it was understood."""

    log: Log
    initial: InitialStates
    loaded: LoadedLog | None  # None for a streamed log
    notes: tuple[str, ...]


def read_inputs(log: str, options: dict[str, Any], progress: Callable[[float], None] | None = None) -> Inputs:
    """Read the log (in batches when a memory budget is given) and the initial states; warnings become notes."""
    refuse_unknown_options([options["method"]] if "method" in options else options["methods"], options["with"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inputs = _read_inputs(log, options, progress)
    said = dict.fromkeys(str(item.message) for item in caught)
    tolerated = (f"{item.text} {item.cure}" for item in inputs.log.inspection.findings() if item.severity == "note")
    return replace(inputs, notes=(*inputs.notes, *(text for text in said if text not in inputs.notes), *tolerated))


def _read_inputs(log: str, options: dict[str, Any], progress: Callable[[float], None] | None) -> Inputs:
    if options.get("memory"):
        stream = open_stream(log, options, progress)
        return Inputs(stream, _initial(stream, None, options), None, (f"read in batches of {stream.batch_rows} rows",))
    loaded = load_log(log, options)
    _doubt_action_order(loaded, options)
    _doubt_horizon(loaded.transitions, options["horizon"])
    return Inputs(loaded.transitions, _initial(loaded.transitions, loaded, options), loaded, loaded.notes)


def open_stream(log: str, options: dict[str, Any], progress: Callable[[float], None] | None = None) -> LogStream:
    """The log in batches, within the memory of the options."""
    if options["missing"] or options["text"]:
        raise InvalidInput("--missing and --text need the log in memory: leave out --memory.")
    columns, actions = parse_columns(options["columns"]), options["actions"]
    return stream_log(Path(log), memory=options["memory"], columns=columns, actions=actions, progress=progress)


def load_log(log: str, options: dict[str, Any]) -> LoadedLog:
    """The log in memory, read as the options say."""
    return read_log(
        log,
        columns=parse_columns(options["columns"]),
        missing=parse_missing(options["missing"]),
        categorical=options["text"],
        actions=options["actions"],
        trust_pickle=options["trust_pickle"],
    )


def _initial(log: Log, loaded: LoadedLog | None, options: dict[str, Any]) -> InitialStates:
    path, count = options["initial"], options["initial_count"]
    if path is not None and count is not None:
        raise InvalidInput("--initial and --initial-count exclude each other: a file of states, or starts of the log.")
    if path is None:
        return InitialStates.from_log(log, count=count)
    states, weights = read_initial(path, log, loaded)
    if options["initial_kind"] == "sample":
        if weights is not None:
            raise InvalidInput(f"{path} has weights; independent draws have none. Drop them, or --initial-kind exact.")
        return InitialStates.sample(states)
    return InitialStates.exact(states, weights)


def read_initial(path: Path, log: Log, loaded: LoadedLog | None) -> tuple[Any, Any]:
    """(states, weights or None) of a file, with the dimensions of the log."""
    return read_states(path, () if loaded is None else loaded.names, observation_dim(log))


def observation_dim(log: Log) -> int:
    return log.observation_dim


def make_question(inputs: Inputs, policy: str, options: dict[str, Any]) -> Rows:
    """The question for one policy."""
    _require_action_order(inputs.loaded, policy, options)
    low, high = options["reward_range"]
    chosen = choose_policy(policy, inputs.loaded, len(inputs.initial), options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # the question carries them to the top of the answer
        question: Rows = make_problem(
            inputs.log,
            chosen,
            inputs.initial,
            gamma=options["gamma"],
            reward_range=(low, high),
            horizon=options["horizon"],
            may_terminate=not options["never_terminates"],
            value_range=options["value_range"],
            draws=options["draws"],
            seed=options["seed"],
            accept=options["accept"],
        )
    return question


def _doubt_action_order(loaded: LoadedLog, options: dict[str, Any]) -> None:
    """Probabilities in columns 0, 1, ... beside actions that are text: the order is an assumption until it is stated."""
    coding = loaded.encodings.get("actions")
    if coding is None or options["actions"] or loaded.next_action_probs is None:
        return
    warnings.warn(
        f"Actions are text; the columns with the policy's probabilities are taken in the order {shown(coding.values)}. If "
        "that is not their order, the interval is that of another policy. State it: --actions.",
        ValidityWarning,
        stacklevel=2,
    )


def _doubt_horizon(log: Transitions, horizon: int | None) -> None:
    """Steps that no episode of the log ever reached, although it went on."""
    if horizon is None or log.timesteps is None:
        return
    last = int(log.timesteps.max())
    goes_on = (log.timesteps == last) & ~log.terminations
    if last + 1 < horizon and goes_on.any():
        warnings.warn(
            f"The log ends at timestep {last}, --horizon is {horizon}: nothing was seen of later steps. What the interval "
            "says of them rests on the assumption that q* lies in Q.",
            ValidityWarning,
            stacklevel=2,
        )


def _require_action_order(loaded: LoadedLog | None, policy: str, options: dict[str, Any]) -> None:
    """Column j of the policy's answers belongs to action j: which text that is cannot be guessed."""
    coding = None if loaded is None else loaded.encodings.get("actions")
    if coding is None or options["actions"] or policy == COLUMNS_POLICY:
        return
    raise InvalidInput(
        f"The log's actions are text ({shown(coding.values)}), and nothing says which of them the policy's first probability "
        "belongs to. Another order is another policy. Name them in the order of the policy's probabilities, --actions "
        "FIRST,SECOND,...; actions that the log never took count as well."
    )


def choose_policy(spec: str, loaded: LoadedLog | None, starts: int, options: dict[str, Any]) -> Any:
    """The policy that `spec` names; one in columns of the log has its probabilities at the first `starts` episode starts."""
    if spec != COLUMNS_POLICY:
        coding = None if loaded is None else loaded.encodings.get("actions")
        names = None if coding is None else coding.values
        return load_policy(spec, trust_pickle=options["trust_pickle"], actions=names, output=options["policy_output"])
    if loaded is None:
        raise InvalidInput("--policy columns needs the log in memory: leave out --memory.")
    if loaded.next_action_probs is None:
        raise InvalidInput(
            "--policy columns: the log has no columns with the policy's probabilities at next states. Usual names: "
            "next_action_probs_0, next_action_probs_1, ... (or a list column); name them with --columns "
            "next_action_probs=..."
        )
    if loaded.initial_action_probs is None or options["initial"] is not None:
        raise InvalidInput(
            "--policy columns needs the policy's probabilities at the initial states, too: columns initial_action_probs_0, ... "
            "on the first row of every episode, and episode starts of the log as initial states (no --initial)."
        )
    start_probs = np.asarray(loaded.initial_action_probs)[:starts]
    return RowProbabilities(loaded.next_action_probs, start_probs, loaded.logged_action_probs)


def _baseline(name: str, side: str, own: dict[str, Any]) -> Method:
    method: Any = make_baseline(name, **own)
    if side == "both":
        return method  # type: ignore[no-any-return]
    if "side" not in {field.name for field in fields(method)}:
        raise InvalidInput(f"The method {name} gives an interval only; --side {side} is not available for it.")
    return replace(method, side=side)  # type: ignore[no-any-return]


def make_method(name: str, options: dict[str, Any], inputs: Inputs) -> Method:
    """`dual` with the options given, or a baseline by its short name."""
    if name != "dual":
        return _baseline(name, options["side"], own_options(name, options["with"]))
    return Dual(
        gauge=options["gauge"],
        side=options["side"],
        radius=options["radius"],
        misspecification=options["misspecification"],
        pilot=parse_pilot(options["pilot"]),
        planned_rows=options["planned_rows"],
        choices=Choices(
            seed=options["seed"],
            weight_bandwidth=options["weight_bandwidth"],
            value_bandwidth=options["value_bandwidth"],
            categorical=stated_columns(options, inputs.loaded, observation_dim(inputs.log)),
        ),
    )
