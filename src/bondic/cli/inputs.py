"""From options to a question and a method, with everything that was noticed on the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from bondic.baselines.registry import make_baseline
from bondic.cli.categorical import stated_columns
from bondic.cli.own_options import own_options, refuse_unknown_options
from bondic.cli.policy import choose_policy, require_action_order
from bondic.cli.reading import one_step, read_initial, read_rows, stated_gamma
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.log import Log
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.errors import Doubt, InvalidInput, ValidityWarning, kind_of, one_line, shown
from bondic.estimate import Method
from bondic.methods.default import Default
from bondic.methods.dual import Dual
from bondic.methods.groups import Groups
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.methods.table import Table
from bondic.policies.adapters.imported import import_object
from bondic.rows import Rows
from bondic.rows.doubts import undiscounted
from bondic.rows.inputs import action_names
from bondic.rows.problem import make_problem
from bondic.sums.forms import Sums
from bondic.tuning.defaults import Choices
from bondic.tuning.pilot import PILOT_SHARE


@dataclass(frozen=True, eq=False)
class Inputs:
    """What was read, and how it was understood."""

    log: Log
    initial: InitialStates
    loaded: LoadedLog | None  # None for a streamed log
    notes: tuple[str, ...]


def read_inputs(log: str, options: Mapping[str, Any], progress: Callable[[float], None] | None = None) -> Inputs:
    """Read the log (in batches when a memory budget is given) and the initial states; warnings become notes."""
    methods = [options["method"]] if "method" in options else list(options["methods"])
    refuse_unknown_options(methods, options["with"])
    refuse_unused_options(methods, options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows, loaded = read_rows(log, options, progress)
        initial = _initial(rows, loaded, options)
    if loaded is None:
        notes: list[str] = [f"read in batches of {rows.batch_rows} rows"] if isinstance(rows, LogStream) else []
    else:
        notes = list(loaded.notes)
    notes += [str(item.message) for item in caught]
    if loaded is not None:
        notes += [*_doubt_action_order(loaded, options), *_doubt_horizon(loaded.transitions, options["horizon"])]
    tolerated = [f"{item.text} {item.cure}" for item in rows.inspection.findings() if item.severity == "note"]
    return Inputs(rows, initial, loaded, (*dict.fromkeys(notes), *tolerated))


def _initial(log: Log, loaded: LoadedLog | None, options: Mapping[str, Any]) -> InitialStates:
    path, count = options["initial"], options["initial_count"]
    if path is not None and count is not None:
        raise InvalidInput("--initial and --initial-count exclude each other: a file of states, or starts of the log.")
    if path is None:
        return InitialStates.from_log(log, count=count)
    states, weights = read_initial(path, log, loaded)
    if options["initial_kind"] == "exact":
        return InitialStates.exact(states, weights)
    if weights is not None:
        raise InvalidInput(f"{path} has weights; independent draws have none. Drop them, or --initial-kind exact.")
    return InitialStates.sample(states)


def _doubt_action_order(loaded: LoadedLog, options: Mapping[str, Any]) -> Iterator[Doubt]:
    """Probabilities in columns 0, 1, ... beside actions that are text: the order is an assumption until it is stated."""
    names = action_names(loaded)
    if names is not None and not options["actions"] and loaded.next_action_probs is not None:
        yield Doubt(
            f"Actions are text; the columns with the policy's probabilities are taken in the order {shown(names)}. If "
            "that is not their order, the interval is that of another policy. State it: --actions."
        )


def _doubt_horizon(log: Transitions, horizon: int | None) -> Iterator[Doubt]:
    """Steps that no episode of the log ever reached, although it went on."""
    if horizon is None or log.timesteps is None:
        return
    last = int(log.timesteps.max())
    if last + 1 < horizon and ((log.timesteps == last) & ~log.terminations).any():
        yield Doubt(
            f"The log ends at timestep {last}, --horizon is {horizon}: nothing was seen of later steps. What the interval "
            "says of them rests on the assumption that q* lies in Q."
        )


def make_question(inputs: Inputs, policy: str, options: Mapping[str, Any]) -> Rows:
    """The question for one policy."""
    starts = len(inputs.initial) if inputs.initial.from_rows else None
    chosen = choose_policy(policy, inputs.loaded, starts, options)
    require_action_order(inputs.loaded, chosen, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # the question carries them to the top of the answer
        question: Rows = make_problem(
            inputs.log,
            chosen,
            inputs.initial,
            gamma=stated_gamma(options, inputs.loaded),
            may_terminate=not options["never_terminates"],
            **{name: options[name] for name in _ASKED},
        )
    names = () if inputs.loaded is None else inputs.loaded.names
    discounts = undiscounted(options["gamma"]) if one_step(options, inputs.loaded) else ()
    return replace(question, names=names, notes=(*inputs.notes, *question.notes, *discounts))


_ASKED = ("reward_range", "horizon", "value_range", "draws", "seed", "accept")
"""Options that make_problem takes under the same name."""
_TUNED = ("seed", "weight_bandwidth", "value_bandwidth")
_COMMON = ("side", "radius", "planned_rows")
_ONLY_DUAL = ("gauge", "misspecification", "weight_bandwidth")


def make_method(name: str, options: Mapping[str, Any], inputs: Inputs) -> Method:
    """A method of bondic's own with the options given, or a baseline by its short name."""
    if name == "propensities":
        return _propensities(options)
    if name in ("table", "groups"):
        return _on_cells(name, options, inputs)
    if name not in ("auto", "sequential", "dual"):
        return _baseline(name, options["side"], own_options(name, options["with"]))
    columns = stated_columns(options, inputs.loaded, inputs.log.observation_dim)
    choices = Choices(categorical=columns, **{name: options[name] for name in _TUNED})
    given: dict[str, Any] = {"choices": choices, **{name: options[name] for name in _COMMON}}
    pilot, allowance = parse_pilot(options["pilot"]), options["misspecification"]
    if name == "auto":
        withheld = options.get("no_rows", False)
        own = own_options("auto", options["with"])
        stated = Propensities(**own) if own else None
        return Default(
            pilot=pilot,
            gauge=options["gauge"],
            misspecification=allowance,
            no_rows=withheld,
            propensities=stated,
            **_stated_groups(options, inputs),
            **given,
        )
    if name == "dual":
        gauge, share = options["gauge"] or "half", PILOT_SHARE if pilot is None else pilot
        return Dual(pilot=share, gauge=gauge, misspecification=allowance, **given)
    for only in _ONLY_DUAL:
        if options[only]:
            raise InvalidInput(
                f"--{only.replace('_', '-')} is an option of the dual method, which the sequential one does not have: leave it "
                "out, or take --method dual."
            )
    return Sequential(pilot=pilot, **given)


_GROUPS = ("allowance", "model", "groups")
"""Options on groups of states."""
_CLASSES = ("radius", *_ONLY_DUAL)
"""Options on classes of functions, which methods on cells do not have."""


def refuse_unused_options(methods: Collection[str], options: Mapping[str, Any]) -> None:
    """Options that none of the methods would look at."""
    used: tuple[str, ...] = () if {"auto", "groups", "all"} & set(methods) else _GROUPS
    used += _CLASSES if set(methods) <= {"table", "groups"} else ()
    for name in used:
        if options[name]:
            raise InvalidInput(
                f"--{name.replace('_', '-')} is no option of the method {' or '.join(methods)}: leave one of them out."
            )


def _stated_groups(options: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """What was stated on groups; functions are imported."""
    groups, model = options["groups"], options["model"]
    names = () if inputs.loaded is None else inputs.loaded.names
    if groups is not None and groups not in names and ":" in groups:
        groups = _function("--groups", groups)
    model = None if model is None else _function("--model", model)
    return {"allowance": options["allowance"], "groups": groups, "model": model}


def _function(option: str, spec: str) -> Any:
    found = import_object(spec)
    if not callable(found):
        raise InvalidInput(f"{option} {one_line(spec)} is {kind_of(found)}; a function is needed.")
    return found


def _on_cells(name: str, options: Mapping[str, Any], inputs: Inputs) -> Method:
    """A table, or groups."""
    given: dict[str, Any] = {"side": options["side"], "planned_rows": options["planned_rows"]}
    pilot = parse_pilot(options["pilot"])
    given |= {} if pilot is None else {"pilot": pilot}
    if name == "table":
        return Table(**given)
    if options.get("no_rows", False):
        raise InvalidInput(
            "--no-rows: groups and a model are held row by row in the certificate of the method groups. Leave one of them out."
        )
    return Groups(**_stated_groups(options, inputs), **given)


def with_sums(method: Method, sums: Sums) -> Method:
    """The method with these sums; methods that have none of their own work in this process."""
    if sums.executor is None and sums.engines is None:
        return method
    if isinstance(method, Default | Sequential | Dual):
        return replace(method, engine=sums)
    raise InvalidInput("--engine, --executor and --checkpoints are for the methods dual, sequential and auto.")


def _propensities(options: Mapping[str, Any]) -> Method:
    """Its own options are given by --with, as those of a baseline."""
    if options["planned_rows"] is not None:
        raise InvalidInput(
            "--planned-rows counts rows; for the method propensities write --with planned=N, N decisions or episodes."
        )
    pilot = parse_pilot(options["pilot"])
    given: dict[str, Any] = {} if pilot is None else {"pilot": pilot}
    given |= own_options("propensities", options["with"])
    return Propensities(side=options["side"], **given)


def parse_pilot(text: str | None) -> float | int | None:
    """ "0.2" is a share, "500" a number of rows; None: left to the method."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError as problem:
        raise InvalidInput(f"--pilot {text}: a share such as 0.2 or a whole number of rows is needed.") from problem
    return int(value) if value >= 1 and value.is_integer() else value


def _baseline(name: str, side: str, own: dict[str, Any]) -> Method:
    method: Any = make_baseline(name, **own)
    if side == "both":
        return method  # type: ignore[no-any-return]
    if "side" not in {field.name for field in fields(method)}:
        raise InvalidInput(f"The method {name} gives an interval only; --side {side} is not available for it.")
    return replace(method, side=side)  # type: ignore[no-any-return]
