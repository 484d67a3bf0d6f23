"""From options to a question and a method, with everything that was noticed on the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from bondic.cli.categorical import stated_columns
from bondic.cli.own_options import TUNED, drawing_options, own_options, refuse_unknown_options
from bondic.cli.policy import choose_policy, require_action_order
from bondic.cli.reading import one_step, read_rows, stated_gamma, stated_initial
from bondic.core.errors import Doubt, InvalidInput, ValidityWarning, kind_of, one_line, shown
from bondic.core.sums.forms import Sums
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.log import Log
from bondic.data.stream import LogStream
from bondic.data.transitions import Transitions
from bondic.engines.sums import STANDARD
from bondic.estimate import Method
from bondic.extensions import added_methods
from bondic.methods.default import Default
from bondic.methods.dual import Dual
from bondic.methods.groups import Groups
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.methods.table import Table
from bondic.policies.adapters.imported import import_object
from bondic.rows import Rows
from bondic.rows.checks import undiscounted
from bondic.rows.inputs import action_names
from bondic.rows.problem import make_problem
from bondic.tuning.defaults import Choices


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
        initial = stated_initial(options["initial"], rows, loaded) or InitialStates.from_log(rows)
    if loaded is None:
        notes: list[str] = [f"read in batches of {rows.batch_rows} rows"] if isinstance(rows, LogStream) else []
    else:
        notes = list(loaded.notes)
    notes += [str(item.message) for item in caught]
    if loaded is not None:
        notes += [*_doubt_action_order(loaded, options), *_doubt_horizon(loaded.transitions, options["horizon"])]
    tolerated = [f"{item.text} {item.cure}" for item in rows.inspection.findings() if item.severity == "note"]
    return Inputs(rows, initial, loaded, (*dict.fromkeys(notes), *tolerated))


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
            **drawing_options(options["with"]),
        )
    names = () if inputs.loaded is None else inputs.loaded.names
    discounts = undiscounted(options["gamma"]) if one_step(options, inputs.loaded) else ()
    reading = question.reading if inputs.loaded is None else inputs.loaded.reading
    return replace(question, names=names, notes=(*inputs.notes, *question.notes, *discounts), reading=reading)


_ASKED = ("reward_range", "horizon", "value_range", "accept")
"""Options that make_problem takes under the same name."""


def make_method(name: str, options: Mapping[str, Any], inputs: Inputs) -> Method:
    """A method of bondic's own with the options given, or a baseline by its short name."""
    own, side = own_options(name, options["with"]), options["side"]
    if name == "propensities":
        return _propensities(options, own)
    if name in ("table", "groups"):
        return _on_cells(name, options, inputs, own)
    if name not in ("auto", "sequential", "dual"):
        return _baseline(name, side, own)
    columns = stated_columns(options, inputs.loaded, inputs.log.observation_dim)
    tuned = {key: own.pop(key) for key in TUNED if key in own}
    seed = {key: value for key, value in drawing_options(options["with"]).items() if key == "seed"}
    given: dict[str, Any] = {
        "choices": Choices(categorical=columns, **tuned, **seed),
        "side": side,
        "radius": options["radius"],
        "planned_rows": options["planned_rows"],
    }
    if name == "auto":
        stated = {
            key: own.pop(key) for key in list(own) if key in {field.name for field in fields(Propensities)} - {"pilot"}
        }
        given |= {"no_rows": options.get("no_rows", False), "propensities": Propensities(**stated) if stated else None}
        return Default(**given, **own, **_stated_groups(options, inputs))
    return Dual(**given, **own) if name == "dual" else Sequential(**given, **own)


_GROUPS = ("allowance", "model", "groups")
"""Options on groups of states."""


def refuse_unused_options(methods: Collection[str], options: Mapping[str, Any]) -> None:
    """Options that none of the methods would look at."""
    used: tuple[str, ...] = () if {"auto", "groups", "all"} & set(methods) else _GROUPS
    used += ("radius",) if set(methods) <= {"table", "groups"} else ()  # cells have no class of functions
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


def _on_cells(name: str, options: Mapping[str, Any], inputs: Inputs, own: dict[str, Any]) -> Method:
    """A table, or groups."""
    given: dict[str, Any] = {"side": options["side"], "planned_rows": options["planned_rows"], **own}
    if name == "table":
        return Table(**given)
    if options.get("no_rows", False):
        raise InvalidInput(
            "--no-rows: groups and a model are held row by row in the certificate of the method groups. Leave one of them out."
        )
    return Groups(**_stated_groups(options, inputs), **given)


def with_sums(method: Method, sums: Sums) -> Method:
    """The method with these sums; methods that have none of their own work in this process."""
    if sums is STANDARD:
        return method
    if isinstance(method, Default | Sequential | Dual):
        return replace(method, engine=sums)
    raise InvalidInput("--engine and --executor are for the methods dual, sequential and auto.")


def _propensities(options: Mapping[str, Any], own: dict[str, Any]) -> Method:
    if options["planned_rows"] is not None:
        raise InvalidInput(
            "--planned-rows counts rows; for the method propensities write --with planned=N, N decisions or episodes."
        )
    return Propensities(side=options["side"], **own)


def _baseline(name: str, side: str, own: dict[str, Any]) -> Method:
    method: Any = added_methods()[name].make(**own)
    if side == "both":
        return method  # type: ignore[no-any-return]
    if "side" not in {field.name for field in fields(method)}:
        raise InvalidInput(f"The method {name} gives an interval only; --side {side} is not available for it.")
    return replace(method, side=side)  # type: ignore[no-any-return]
