"""From options to a question and a method, with everything that was noticed on the way."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from bondic.cli.executors import choose_policy, work_elsewhere
from bondic.cli.reading import most_bytes_held, read_rows, stated_columns, stated_gamma, stated_initial
from bondic.cli.settings import ABOUT_PROPENSITIES, TUNED, drawing_options, own_options, refuse_unknown_options
from bondic.core.errors import InvalidInput, one_line
from bondic.core.sums.forms import Sums
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.log import Log
from bondic.data.transitions import Transitions
from bondic.decisions.difference import is_today, other_rows
from bondic.engines.sums import STANDARD
from bondic.errors import ValidityNote, ValidityWarning, kind_of, shown
from bondic.estimate import named_method
from bondic.methods.propensities import Propensities
from bondic.modules import import_object
from bondic.rows import Rows
from bondic.rows.inputs import GivenLog, action_names, take_initial
from bondic.rows.problem import make_problem
from bondic.tuning.defaults import Choices


@dataclass(frozen=True, eq=False)
class Inputs:
    """What was read, and how it was understood."""

    log: Log
    initial: InitialStates
    loaded: LoadedLog | None  # None for a streamed log
    notes: tuple[str, ...]

    def given(self, options: Mapping[str, Any]) -> GivenLog:
        """The log, and whether the order of its actions was stated."""
        return GivenLog(self.log, self.loaded, order_stated=bool(options["actions"]))


def read_inputs(log: str, options: Mapping[str, Any], progress: Callable[[float], None] | None = None) -> Inputs:
    """Read the log (in batches when a memory budget is given) and the initial states; warnings become notes."""
    methods = [options["method"]] if "method" in options else list(options["methods"])
    refuse_unknown_options(methods, options["with"])
    refuse_unused_options(methods, options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows, loaded = read_rows(log, options, progress, most=most_bytes_held(options))
        initial = take_initial(stated_initial(options["initial"], rows, loaded), rows, options["population"])
    batches = [] if isinstance(rows, Transitions) else [f"read in batches of {rows.batch_rows} rows"]
    notes = [*(batches if loaded is None else loaded.notes), *(str(item.message) for item in caught)]
    if loaded is not None:
        notes += [*_note_action_order(loaded, options), *_note_horizon(loaded.transitions, options["horizon"])]
    tolerated = [f"{item.text} {item.cure}" for item in rows.inspection.findings() if item.severity == "note"]
    return Inputs(rows, initial, loaded, (*dict.fromkeys(notes), *tolerated))


def _note_action_order(loaded: LoadedLog, options: Mapping[str, Any]) -> Iterator[ValidityNote]:
    """Probabilities in columns 0, 1, ... beside actions that are text: the order is an assumption until it is stated."""
    names = action_names(loaded)
    if names is not None and not options["actions"] and loaded.next_action_probs is not None:
        yield ValidityNote(
            f"Actions are text; the columns with the policy's probabilities are taken in the order {shown(names)}. If "
            "that is not their order, the interval is that of another policy. State it: --actions."
        )


def _note_horizon(log: Transitions, horizon: int | None) -> Iterator[ValidityNote]:
    """Steps that no episode of the log ever reached, although it went on."""
    if horizon is None or log.timesteps is None:
        return
    last = int(log.timesteps.max())
    if last + 1 < horizon and ((log.timesteps == last) & ~log.terminations).any():
        yield ValidityNote(
            f"The log ends at timestep {last}, --horizon is {horizon}: the log has no later steps. For them the interval rests "
            "on the assumption that q* lies in Q."
        )


def make_question(inputs: Inputs, policy: str, options: Mapping[str, Any]) -> Rows:
    """The question for one policy."""
    starts = len(inputs.initial) if inputs.initial.from_rows else None
    chosen = choose_policy(policy, inputs.given(options), starts, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # the question carries them to the top of the answer
        question: Rows = make_problem(
            inputs.given(options),
            chosen,
            inputs.initial,
            gamma=options["gamma"] if inputs.given(options).one_step else stated_gamma(options),
            may_terminate=not options["never_terminates"],
            **{name: options[name] for name in _ASKED},
            **drawing_options(options["with"]),
        )
    return replace(question, notes=tuple(dict.fromkeys((*inputs.notes, *question.notes))))


def other_question(
    question: Rows, inputs: Inputs, policy: str, options: Mapping[str, Any], *, learns: bool = False
) -> Rows:
    """The same question about another policy; one that is compared with is there already, unless `learns`."""
    if is_today(policy):
        return other_rows(question, policy)
    starts = len(inputs.initial) if inputs.initial.from_rows else None
    given = options if learns else {**options, "learn_rows": None, "learn_blocks": 1}
    return other_rows(question, choose_policy(policy, inputs.given(options), starts, given))


_ASKED = ("reward_range", "horizon", "value_range", "accept")
"""Options that make_problem takes under the same name."""


_STATED = ("side", "planned_rows", "radius", "allowance", "groups", "model")
"""Options that methods have as fields of the same name."""
_FOR_SOME = ("radius", "allowance", "groups", "model")
"""Of these, what a method without such a field may leave aside, where another one in the comparison has it."""


def refuse_unused_options(methods: Collection[str], options: Mapping[str, Any]) -> None:
    """Options that none of the methods would look at."""
    listed = [name for name in methods if name != "all"]
    known = {key for name in listed for key in _known(name)}
    for key in _FOR_SOME:
        if options[key] is not None and key not in known and len(listed) == len(methods):
            raise InvalidInput(
                f"{_spelled(key)} is no option of the method {' or '.join(methods)}: leave one of them out."
            )
    if options.get("no_rows", False) and "groups" in listed:
        raise InvalidInput(
            "--with no_rows: groups and a model stand row by row in the certificate of the method groups. Leave one of them out."
        )


def make_method(name: str, options: Mapping[str, Any], inputs: Inputs, sums: Sums | None = None) -> Any:
    """The method of this name with the options given; a statement that it cannot use is refused."""
    own, method, known = own_options(name, options["with"]), cast(Any, named_method(name)), _known(name)
    stated = {key: options[key] for key in _STATED if options[key] not in (None, "both")}
    if sums is not None and sums is not STANDARD:
        work_elsewhere(inputs.log, sums)
        if "engine" in known or options["engine"] is not None:
            stated["engine"] = sums
    for key in stated.keys() - known - {*_FOR_SOME}:
        raise InvalidInput(f"The method {name} cannot use {_spelled(key)}. Leave one of them out.")
    stated |= {key: _function(key, stated[key], inputs) for key in ("groups", "model") if key in stated}
    if "choices" in known:
        tuned = {key: own.pop(key) for key in TUNED if key in own}
        tuned |= {key: value for key, value in drawing_options(options["with"]).items() if key == "seed"}
        columns = stated_columns(options, inputs.loaded, inputs.log.observation_dim)
        stated["choices"] = Choices(categorical=columns, **tuned)
    if "no_rows" in known:
        stated["no_rows"] = options.get("no_rows", False)
    if "propensities" in known and (listed := ABOUT_PROPENSITIES & own.keys()):
        stated["propensities"] = Propensities(**{key: own.pop(key) for key in listed})
    return replace(method, **{key: value for key, value in {**stated, **own}.items() if key in known})


def _known(name: str) -> set[str]:
    """What may be stated about the method of this name; a model that is not one of groups is another thing."""
    known = {field.name for field in fields(cast(Any, named_method(name)))}
    return known if "groups" in known else known - {"model"}


def _spelled(key: str) -> str:
    return "--allowance" if key == "allowance" else f"--with {key}"


def _function(key: str, spec: str, inputs: Inputs) -> Any:
    """The function that is named; groups may be a column."""
    names = () if inputs.loaded is None else inputs.loaded.names
    if key == "groups" and (spec in names or ":" not in spec):
        return spec
    found = import_object(spec)
    if not callable(found):
        raise InvalidInput(f"--with {key}={one_line(spec)} is {kind_of(found)}; a function is needed.")
    return found
