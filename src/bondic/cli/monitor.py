"""`bondic monitor FOLDER --log FILE`: take in new rows of a growing log, and say what all updates together have shown.

The first call makes the folder and writes down what was stated; later calls need the rows alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bondic.claims import Status
from bondic.cli.categorical import stated_columns
from bondic.cli.config import to_toml
from bondic.cli.inputs import parse_pilot
from bondic.cli.outputs import EXIT_CODES, say_doubts
from bondic.cli.policy import choose_policy, require_action_order
from bondic.cli.reading import read_initial, read_rows, stated_gamma
from bondic.data.initial import InitialStates
from bondic.data.io.loaded import LoadedLog
from bondic.data.transitions import Transitions
from bondic.errors import Doubt, InvalidInput, ValidityWarning, one_line, shown
from bondic.methods.monitor import SequentialMonitor
from bondic.methods.monitor_files import certificate_path, is_monitor
from bondic.methods.sequential import Sequential
from bondic.rendering import interval_text
from bondic.report.progress import progress_bar
from bondic.tuning.defaults import Choices
from bondic.tuning.pilot import PILOT

CONFIGURATION, COLUMNS = "configuration.toml", "columns.json"
_NOT_STATED = ("folder", "log", "config", "as_json", "quiet")


def command(folder: Path, **options: Any) -> int:
    """Read, update, write, print; the exit code tells the status of all updates together."""
    stated = to_toml({name: value for name, value in options.items() if name not in _NOT_STATED})
    with _alone(folder), progress_bar(Console(stderr=True, quiet=options["quiet"])) as progress:
        _refuse_other_statements(folder, stated)
        rows, loaded = read_rows(options["log"], options)
        assert isinstance(rows, Transitions)
        assert loaded is not None
        columns = json.dumps(loaded.names) + "\n"
        _refuse_other_columns(folder, loaded, columns)
        monitor = _open(folder, rows, loaded, options)
        fresh = monitor.unseen(rows)
        if fresh is not None:
            result = monitor.update(fresh, progress)
            monitor.save(folder, texts={CONFIGURATION: stated, COLUMNS: columns})
            say_doubts([Doubt(text) for text in result.warnings])
    _print(folder, monitor, 0 if fresh is None else len(fresh), options)
    return EXIT_CODES[monitor.status]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two updates at once would each miss the rows of the other."""
    if not folder.is_dir():
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as problem:
        raise InvalidInput(f"Another update of {folder} is running. Wait for it, and try again.") from problem
    finally:
        os.close(handle)


def _refuse_other_statements(folder: Path, stated: str) -> None:
    """What is asked is fixed before the first row: another discount or range would be another monitor."""
    path = folder / CONFIGURATION
    if not path.is_file():
        return
    held, given = (set(text.splitlines()) for text in (path.read_text(encoding="utf-8"), stated))
    if held != given:
        names = sorted({line.partition(" = ")[0] for line in held ^ given})
        raise InvalidInput(
            f"{folder} was begun with other values of these options: {shown([f'--{name}' for name in names])}. They are "
            f"fixed before the first row, and are recorded in {path}: leave them out, or begin another folder."
        )


def _refuse_other_columns(folder: Path, loaded: LoadedLog, columns: str) -> None:
    """Every file has to mean the same by a dimension of an observation."""
    coded = [name for name, coding in loaded.encodings.items() if coding.kind != "actions"]
    if coded:
        raise InvalidInput(
            f"Column {one_line(coded[0])} is text. Text is coded by the values that a file happens to hold, and a later file may "
            "hold others: write numbers or 0/1 columns of your own before monitoring."
        )
    path = folder / COLUMNS
    if path.is_file() and path.read_text(encoding="utf-8") != columns:
        raise InvalidInput(
            f"The observations of these rows are {shown(loaded.names)}, those of the rows before "
            f"{shown(json.loads(path.read_text(encoding='utf-8')))}. All rows of a log have the same columns."
        )


def _open(folder: Path, rows: Transitions, loaded: LoadedLog, options: Mapping[str, Any]) -> SequentialMonitor:
    """The monitor of the folder, or a new one."""
    spec = options["policy"]
    if spec in ("columns", "logged"):
        raise InvalidInput(
            f"--policy {spec}: probabilities in the log belong to its rows, and a monitor asks the policy as rows come. Pass the "
            "policy itself: module:object, or a file."
        )
    require_action_order(loaded, None, options)  # a later part may hold other actions
    policy = choose_policy(spec, loaded, 0, options)
    if is_monitor(folder):
        return SequentialMonitor.load(folder, policy)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and holds no monitor. Choose a folder that does not exist yet.")
    columns = stated_columns(options, loaded, rows.observation_dim)
    choices = Choices(categorical=columns, seed=options["seed"], value_bandwidth=options["value_bandwidth"])
    pilot = parse_pilot(options["pilot"])
    method = Sequential(
        radius=options["radius"], side=options["side"], pilot=PILOT if pilot is None else pilot, choices=choices
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # every answer carries them
        return SequentialMonitor(
            policy,
            _initial(rows, loaded, options),
            gamma=stated_gamma(options),
            may_terminate=not options["never_terminates"],
            method=method,
            **{name: options[name] for name in _ASKED},
        )


_ASKED = ("reward_range", "value_range", "horizon", "draws", "seed", "accept", "alpha", "planned_rows")


def _initial(rows: Transitions, loaded: LoadedLog, options: Mapping[str, Any]) -> InitialStates | None:
    """Those of the file, or None: the episode starts of the log, as they come."""
    if options["initial_count"] is not None:
        raise InvalidInput(
            "--initial-count is for a log that is complete. Leave it out: episode starts count as they come."
        )
    if options["initial"] is None:
        return None
    states, weights = read_initial(options["initial"], rows, loaded)
    if options["initial_kind"] == "exact":
        return InitialStates.exact(states, weights)
    if weights is not None:
        raise InvalidInput(
            f"{options['initial']} has weights; independent draws have none. Drop them, or --initial-kind exact."
        )
    return InitialStates.sample(states)


def _print(folder: Path, monitor: SequentialMonitor, fresh: int, options: Mapping[str, Any]) -> None:
    last, number = monitor.updates[-1], len(monitor.updates)
    if options["as_json"]:
        click.echo(json.dumps({"update": number, "new_rows": fresh, **last.told()}))
        return
    level = f"{100 * (1 - monitor.alpha):g}%"
    if monitor.status is Status.REJECTED:
        click.echo(f"{monitor.status} (update {number}, {last.rows} rows)")
    else:
        running = interval_text(monitor.interval.low, monitor.interval.high)
        click.echo(f"At {level} confidence, at all updates at once, the value of the policy lies in {running}.")
    if options["quiet"]:
        return
    own = interval_text(last.low, last.high) if last.status != Status.REJECTED.name else "no interval"
    click.echo(
        f"update {number}: {fresh} new rows, {last.rows} in all; this update alone: {own} ({last.status.lower()})"
    )
    for name in ("waiting", "waiting rows"):
        if monitor.result is not None and name in monitor.result.choices:
            click.echo(f"{name}: {monitor.result.choices[name]}")
    if last.certificate:
        click.echo(f"certificate: {certificate_path(folder, number)}")
