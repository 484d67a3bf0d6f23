"""What a caller may hand over as log and as policy, turned into what rows are made of: once, at the border."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput, one_line
from bondic.data.initial import InitialStates, Population, check_population
from bondic.data.io.loaded import Encoding, LoadedLog
from bondic.data.log import Log, is_log
from bondic.data.names import held_by
from bondic.errors import did_you_mean, kind_of, shown
from bondic.policies.adapters.fitted import ClassifierPolicy, words_on
from bondic.policies.adapters.load import load_policy
from bondic.policies.adapters.rule import Rule
from bondic.policies.answers import StoredAnswers
from bondic.policies.learned import LearnedPolicy
from bondic.policies.logged_target import LoggedBehavior, LoggedTarget
from bondic.policies.protocol import RowProbabilities
from bondic.rows.learn import learn
from bondic.rows.make import refuse_unrecorded

COLUMNS, LOGGED, TODAY = "columns", "logged", "today"
"""Policies that stand in the log: their probabilities of all actions, or of the logged ones alone; and the one that made it."""
_READY = (RowProbabilities, StoredAnswers, LoggedTarget, LearnedPolicy)


@dataclass(frozen=True, eq=False)
class GivenLog:
    """A log, and how it was understood where it was read from something else."""

    log: Log
    loaded: LoadedLog | None = None
    order_stated: bool = (
        True  # the order of actions that are text was stated, or is that of a log which the caller has read
    )

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.loaded is None else self.loaded.notes

    @property
    def names(self) -> tuple[str, ...]:
        return self.log.observation_names if self.loaded is None else self.loaded.names

    @property
    def encodings(self) -> Mapping[str, Encoding]:
        return {} if self.loaded is None else self.loaded.encodings

    @property
    def actions(self) -> tuple[str, ...] | None:
        """Names of actions that were text, in the order of their numbers; None if they were numbers."""
        return action_names(self.loaded) or self.log.reading.get("actions")

    @property
    def reading(self) -> Mapping[str, Any]:
        return self.log.reading if self.loaded is None else self.loaded.reading

    @property
    def one_step(self) -> bool:
        return bool(self.log.reading.get("one_step")) if self.loaded is None else self.loaded.one_step


def action_names(loaded: LoadedLog | None) -> tuple[str, ...] | None:
    """Names of actions that were text; None if they were numbers."""
    coding = None if loaded is None else loaded.encodings.get("actions")
    return None if coding is None else coding.values


def take_log(log: Any, **reading: Any) -> GivenLog:
    """A log as it is, one that `read_log` has read, or anything that it reads; `reading` are its options."""
    options = {name: value for name, value in reading.items() if value is not None and value is not False}
    if is_log(log) or isinstance(log, LoadedLog | GivenLog):
        if options:
            raise InvalidInput(
                f"{next(iter(options))}= says how a file or table is read; the log is {kind_of(log)} already. Leave it "
                "out."
            )
        if isinstance(log, GivenLog):
            return log
        return GivenLog(log.transitions, log) if isinstance(log, LoadedLog) else GivenLog(log)
    if log is None or hasattr(log, "action_probs") or hasattr(log, "sample_action") or callable(log):
        raise InvalidInput(
            f"The first argument is the log, the second the policy; the first is {kind_of(log)}. A log is Transitions, what "
            "read_log returns, a path, or a table."
        )
    from bondic.data.io.read import read_log  # it loads pyarrow, which a log in memory does not need

    source = log if isinstance(log, str | Path) or not isinstance(log, PathLike) else Path(log)
    loaded = read_log(source, **options)
    return GivenLog(loaded.transitions, loaded, order_stated="actions" in options)


def take_initial(value: Any, log: Log, population: Population | None = None) -> InitialStates:
    """As stated, or the log's starts: of this log, or draws of a population."""
    check_population(population)
    if value is None:
        return InitialStates.from_log(log, population=population)
    if isinstance(value, InitialStates):
        refuse_both(value, population)
        _refuse_other_log(value, log)
        return value
    raise InvalidInput(
        f"`initial` is {kind_of(value)}, and does not say what its states are. If the process starts in exactly these: "
        "InitialStates.exact(states). If they are independent draws of where it starts: InitialStates.sample(states). Left out, "
        "the value is the mean over the starts of the log."
    )


def refuse_both(states: InitialStates, population: Population | None) -> None:
    """Starts that contradict the statement on a population."""
    if population and states.kind != "sample":
        raise InvalidInput(
            f"population={population!r} says that starts are draws of a population, and `initial` says which starts the value is "
            "over. These are two questions: leave one of them out."
        )


def _refuse_other_log(states: InitialStates, log: Log) -> None:
    if states.kind == "log" and not states.same(InitialStates.from_log(log)):
        raise InvalidInput(
            "`initial` holds the starts of another log. If the process starts in exactly these: InitialStates.exact(states). If "
            "they are independent draws of where it starts: InitialStates.sample(states)."
        )


def refuse_no_policy(value: Any) -> None:
    """Before a long log is read."""
    if value is None:
        raise InvalidInput(
            "No policy was given: evaluate_policy(log, policy, ...). A policy is a function of all states that returns "
            "probabilities or actions, an object with action_probs or predict, an action, or a file; 'columns' "
            "if its probabilities stand in the log."
        )
    if is_log(value) or isinstance(value, LoadedLog):
        raise InvalidInput(f"The second argument is the policy, and it is {kind_of(value)}: the log comes first.")


def take_policy(
    value: Any, source: GivenLog, starts: int | None, actions: int | None = None
) -> tuple[Any, tuple[str, ...]]:
    """The policy in a form that can be queried, and how it was read, where it could have been read in another way.

    `starts` is the number of initial states where they are the log's first episode starts, else None: a policy in columns of
    the log has its probabilities there, and nowhere else. `actions` is how many there are, where that is known from elsewhere.
    """
    if isinstance(value, LearnedPolicy):
        refuse_unrecorded(source.log)
        return learn(value, source.log, lambda made: _learned(made, source, actions))
    policy = chosen_policy(value, source, starts)
    if not isinstance(policy, LoggedTarget):
        refuse_unrecorded(source.log)
    if isinstance(policy, Rule) and not source.log.action_dim:
        return _with_actions(policy, source, actions)
    if not source.order_stated:
        refuse_unstated_order(source.loaded, policy)
    return policy, _notes_on(policy)


def _learned(made: Any, source: GivenLog, actions: int | None) -> tuple[Any, tuple[str, ...]]:
    """What a learner returns: it has seen actions as numbers, and perhaps not all of them."""
    if actions is None and not source.log.action_dim:
        names = action_names(source.loaded)
        actions = int(source.log.inspection.action_counts.size) if names is None else len(names)
    policy = _with_names(load_policy(made, actions=actions), source.names, source.encodings)
    return take_policy(policy, GivenLog(source.log), None, actions)


def _notes_on(policy: Any) -> tuple[str, ...]:
    """Whether a classifier draws, and which columns a fitted model was queried with."""
    drawn = (_DRAWN,) if isinstance(policy, ClassifierPolicy) else ()
    called = getattr(policy.function, "__name__", "") if isinstance(policy, Rule) else ""
    if called == "predict" and hasattr(policy.model, "predict_proba"):
        drawn = (_BEST,)
    found = (
        words_on(policy.model, policy.names, policy.encodings) if isinstance(policy, ClassifierPolicy | Rule) else None
    )
    return drawn if found is None else (*drawn, found)


_DRAWN = (
    "The policy draws its action from predict_proba of the classifier. For the action that the classifier finds most likely pass "
    "the classifier itself."
)
_BEST = (
    "The policy takes the action that `predict` of the classifier says. To draw it from the classifier's probabilities pass its "
    "method predict_proba (--with policy_output=probabilities)."
)


def chosen_policy(value: Any, source: GivenLog | None, starts: int | None, **reading: Any) -> Any:
    """A policy of the log's columns, or what `load_policy` makes of it; `starts` as in `take_policy`."""
    names = None if source is None else source.actions
    if isinstance(value, str) and value in (LOGGED, TODAY, COLUMNS):
        if value in (names or ()):
            raise InvalidInput(
                f"{value!r} is an action of the log, and a word for a policy that the log knows. Rename the action in the log."
            )
        if value == COLUMNS:
            return _in_columns(None if source is None else source.loaded, starts)
        return LoggedTarget() if value == LOGGED else LoggedBehavior()
    if isinstance(value, _READY):
        return value
    policy = load_policy(value, actions=names, **reading)
    return policy if source is None else _with_names(policy, source.names, source.encodings)


def _with_names(policy: Any, names: tuple[str, ...], encodings: Mapping[str, Encoding]) -> Any:
    """A model that was fitted on a table, and a function that takes a frame, get columns by their names."""
    if not (names and isinstance(policy, ClassifierPolicy | Rule)):
        return policy
    named = replace(policy, names=names)
    return replace(named, encodings=encodings) if encodings else named


def _in_columns(loaded: LoadedLog | None, starts: int | None) -> RowProbabilities:
    if loaded is None:
        raise InvalidInput(
            "The policy is 'columns' (--policy columns): the log has to be one that read_log has read as a whole (no "
            "--with memory), so that its probabilities are known."
        )
    if loaded.next_action_probs is None and loaded.transitions.terminations.all():
        raise InvalidInput(
            "The policy is 'columns' (--policy columns): the columns with its probabilities of all actions are not named. "
            "Name them, one per action: columns={'logged_action_probs': ['p_0', 'p_1', ...]} (--columns "
            "'logged_action_probs=p_*')."
        )
    if loaded.next_action_probs is None:
        raise InvalidInput(
            "The policy is 'columns' (--policy columns): the log has no columns with the policy's probabilities at next states. "
            "Usual names: next_action_probs_0, next_action_probs_1, ... (or a list column); name them with "
            "columns={'next_action_probs': ...} (--columns next_action_probs=...)."
        )
    if starts is None or loaded.initial_action_probs is None or len(loaded.initial_action_probs) < starts:
        raise InvalidInput(
            "The policy is 'columns' (--policy columns): its probabilities at the initial states are needed, too: columns "
            "initial_action_probs_0, ... on the first row of every episode, and episode starts of the log as initial states (no "
            "initial=, no --initial)."
        )
    start_probs = np.asarray(loaded.initial_action_probs)[:starts]
    return RowProbabilities(loaded.next_action_probs, start_probs, loaded.logged_action_probs)


def refuse_unstated_order(loaded: LoadedLog | None, policy: Any) -> None:
    """Column j of the policy's answers belongs to action j: which text that is cannot be guessed.

    The classes of a classifier name its columns, and a policy that stands in the log has none of its own.
    """
    names = action_names(loaded)
    named = (
        isinstance(policy, ClassifierPolicy) and np.asarray(getattr(policy.model, "classes_", ())).dtype.kind in "UO"
    )
    if names is None or named or isinstance(policy, _READY) or (loaded is not None and _answers_names(policy, loaded)):
        return
    raise InvalidInput(
        f"The log's actions are text ({shown(names)}), and the order of the policy's answers is unknown. Another order is "
        "another policy. Return the names themselves, one per state; or list the actions in the order of the policy's "
        "probabilities, actions=[...] (--actions FIRST,SECOND,...): actions that the log never took count as well."
    )


def _answers_names(policy: Any, loaded: LoadedLog) -> bool:
    """Whether a function returns actions by their names: then no order has to be stated."""
    known = isinstance(policy, Rule) and "observations" not in loaded.transitions.unrecorded
    return known and policy.kind_of_answer(loaded.transitions.observations[:1]) == "names"


def _with_actions(rule: Rule, source: GivenLog, actions: int | None) -> tuple[Rule, tuple[str, ...]]:
    """A rule that answers with actions has to know how many there are: the log shows it, and a note says so."""
    answers = rule.kind_of_answer(source.log.read(RowRange(0, 1)).observations)
    if answers != "names" and not source.order_stated:
        refuse_unstated_order(source.loaded, rule)
    if answers == "probabilities":
        return rule, _notes_on(rule)
    if actions is not None and rule.actions is None:
        return rule.with_actions(actions), _notes_on(rule)
    known = rule.actions if rule.actions is not None else int(source.log.inspection.action_counts.size)
    which = f"{known} actions, 0 to {known - 1}" if isinstance(known, int) else f"{len(known)} actions, {shown(known)}"
    words = (
        f"The policy returns actions and does not say which there are: those of the log are taken for all, {which}. That they "
        "were known before the log was made is assumed; DeterministicPolicy(function, n_actions=K) states it."
    )
    return rule.with_actions(known), (*_notes_on(rule), words)


def refuse_unknown_arguments(arguments: Mapping[str, Any], known: Iterable[str]) -> None:
    """An unknown keyword, with the one that was probably meant."""
    names = list(known)
    for name in arguments:
        if name not in names:
            raise InvalidInput(
                f"There is no argument `{one_line(name)}`.{_meant(name, names)} There are {', '.join(names)}."
            )


def _meant(name: str, names: Iterable[str]) -> str:
    """What was probably meant: a column of the log, or another argument."""
    part = held_by(name)
    if part is None:
        return did_you_mean(name, names)
    return f" `{part}` belong to the log: name their column, columns={{'{part}': ...}}, or pass them to Transitions({part}=...)."
