"""`bondic check LOG`: what was understood, what is wrong and where, and what the columns look like."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table
from rich.text import Text

from bondic.cli.reading import read_rows, stated_columns
from bondic.cli.terminal import Terminal
from bondic.core.errors import InvalidInput, one_line, printable
from bondic.core.kernels.normal_form import Layout
from bondic.data.hygiene.inspection import inspect_log
from bondic.data.io.loaded import Encoding, LoadedLog
from bondic.data.transitions import Transitions
from bondic.rendering import three
from bondic.tuning.states import ObservedStates, kind_of_pilot

_BLOCKS = " ▁▂▃▄▅▆▇█"
_BINS = 20
_FOUND = {"refuse": ("refused", "bold red"), "warn": ("warning", "yellow"), "note": ("note", "")}
_REFUSED = 2
_PROPENSITIES = {
    "behavior_action_probs": "behavior probability",
    "behavior_log_probs": "behavior log-prob",
    "target_action_probs": "target probability",
    "target_log_probs": "target log-prob",
}
_ROOM = 72
"""Columns of a terminal that shows pictures beside the numbers."""


def command(log: str, **options: Any) -> int:
    """Read, say how it was understood, draw; an InvalidInput names the row when something is wrong."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, loaded = read_rows(log, options)
    assert loaded is not None  # a log in batches is not checked
    states = _states(loaded, options)
    console = Terminal()
    transitions = loaded.transitions
    console.print(_headline(transitions), highlight=False, markup=False)
    for note in loaded.notes:
        console.print(f"  {printable(note)}", highlight=False, markup=False, soft_wrap=True)
    console.print(states, soft_wrap=True)
    for warning in dict.fromkeys(str(item.message) for item in caught):
        console.print(Text(f"warning: {printable(warning)}", style="yellow"), soft_wrap=True)
    found = inspect_log(transitions)
    for item in found:
        word, style = _FOUND[item.severity]
        console.print(Text(f"{word}: {printable(item)}", style=style), soft_wrap=True)
    console.print(_columns(loaded, pictures=console.width >= _ROOM))
    console.print(_decisions(transitions, loaded.encodings.get("actions")))
    return _REFUSED if any(item.severity == "refuse" for item in found) else 0


def _headline(log: Transitions) -> str:
    kind = "discrete" if log.discrete_actions else f"{log.actions.shape[1]}-dimensional continuous"
    ends = int(log.terminations.sum())
    cut = 0 if log.truncations is None else int(log.truncations.sum())
    episodes = "no episode ids" if log.episode_ids is None else f"{np.unique(log.episode_ids).size} episodes"
    return (
        f"{len(log)} transitions, {episodes}, {ends} terminated, {cut} truncated; {log.observations.shape[1]}-dimensional "
        f"observations, {kind} actions; content hash {log.content_hash[:16]}"
    )


def _states(loaded: LoadedLog, options: dict[str, Any]) -> Text:
    """Names or numbers: what `evaluate` takes the states for by default."""
    log = loaded.transitions
    stated = stated_columns(options, loaded, log.observations.shape[1])
    actions, slots = (0, int(log.actions.max()) + 1) if log.discrete_actions else (log.actions.shape[1], 1)
    layout = Layout(log.observations.shape[1], False, actions, slots)

    def first(rows: int) -> ObservedStates:
        on = ~log.terminations[:rows]
        return ObservedStates(log.observations[:rows], log.next_observations[:rows][on], log.observations[:rows][on])

    try:
        kind, _ = kind_of_pilot(first, len(log), layout, stated)
    except InvalidInput as question:
        return Text(f"  states: {question}", style="yellow")
    return Text(f"  states: {kind.description}", style="bold")


def _columns(loaded: LoadedLog, *, pictures: bool) -> Table:
    table = Table(title="Columns", title_justify="left", show_edge=False)
    table.add_column("column", overflow="fold")  # on a narrow terminal names give way, numbers and pictures do not
    for name in ("smallest", "mean", "largest"):
        table.add_column(name, justify="right", no_wrap=True)
    if pictures:
        table.add_column("spread", no_wrap=True)
    for name, values in _numbers(loaded):
        numbers = (f"{values.min():.4g}", three(values.mean()), f"{values.max():.4g}")
        table.add_row(Text(one_line(name)), *numbers, *([histogram(values)] if pictures else []))
    return table


def _numbers(loaded: LoadedLog) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    log = loaded.transitions
    for index in range(log.observations.shape[1]):
        name = loaded.names[index] if index < len(loaded.names) else f"observation {index}"
        yield name, log.observations[:, index]
    yield "reward", log.rewards
    if not log.discrete_actions:
        for index in range(log.actions.shape[1]):
            yield f"action {index}", log.actions[:, index]
    for column, name in _PROPENSITIES.items():
        if (values := getattr(log, column)) is not None:
            yield name, values


def histogram(values: npt.NDArray[np.float64]) -> str:
    """Counts in equal bins as one line of blocks."""
    counts, _ = np.histogram(values[np.isfinite(values)], bins=_BINS)
    top = max(int(counts.max()), 1)
    return "".join(_BLOCKS[0 if count == 0 else 1 + int(count * (len(_BLOCKS) - 2) / top)] for count in counts)


def _decisions(log: Transitions, coding: Encoding | None) -> Table:
    table = Table(title="Decisions and episodes", title_justify="left", show_edge=False)
    table.add_column("what")
    table.add_column("rows", justify="right")
    table.add_column("share", justify="right")
    if log.discrete_actions:
        counts = np.bincount(log.actions)
        for action, count in enumerate(counts[:20]):
            name = (
                ""
                if coding is None or coding.values[action] == str(action)
                else f" = {one_line(coding.values[action])}"
            )
            table.add_row(Text(f"action {action}{name}"), str(count), f"{count / len(log):.1%}")
        if counts.size > 20:
            table.add_row(f"{counts.size - 20} more actions", str(int(counts[20:].sum())), "")
    if log.episode_ids is not None:
        lengths = np.unique(log.episode_ids, return_counts=True)[1]
        table.add_row("rows per episode", f"{lengths.min()} to {lengths.max()}", f"median {int(np.median(lengths))}")
    return table
