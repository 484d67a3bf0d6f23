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
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bondic.cli.commands import STATED
from bondic.cli.executors import choose_policy
from bondic.cli.outputs import EXIT_CODES, print_notes, print_validity_notes
from bondic.cli.reading import read_rows, stated_columns, stated_gamma, stated_initial
from bondic.cli.say import say
from bondic.cli.settings import ABOUT_PROPENSITIES, TUNED, drawing_options, own_options, refuse_unknown_options
from bondic.cli.terminal import PlainConsole, Terminal
from bondic.core.claims import Status
from bondic.core.codec import decode
from bondic.core.errors import InvalidInput, VerificationError
from bondic.core.printed import interval_text
from bondic.data.io.loaded import Coding, LoadedLog
from bondic.data.transitions import Transitions
from bondic.documents import damaged, read_json
from bondic.errors import ValidityNote, ValidityWarning, shown
from bondic.methods.monitor import SequentialMonitor
from bondic.methods.monitor_checks import REPEATED
from bondic.methods.monitor_files import STATE, certificate_path, is_monitor, read_document
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.report.progress import progress_bar
from bondic.rows.inputs import COLUMNS, GivenLog, take_policy
from bondic.rows.written import WrittenProbabilities
from bondic.tuning.defaults import Choices
from bondic.tuning.states import PILOT

_NOT_STATED = ("folder", "log", "as_json", "quiet")


def command(folder: Path, **options: Any) -> int:
    """Read, update, write, print; the exit code tells the status of all updates together."""
    refuse_unknown_options(["sequential", "auto"], options["with"])
    accepted, options = _accepted(folder, options)
    stated = {name: value for name, value in options.items() if name not in _NOT_STATED}
    stated = json.loads(json.dumps(stated, default=str))
    with _alone(folder), progress_bar(PlainConsole(stderr=True, quiet=options["quiet"])) as progress:
        _refuse_other_statements(folder, stated)
        before = _reading(folder)
        rows, loaded = read_rows(options["log"], options, like=before)
        assert isinstance(rows, Transitions)
        assert loaded is not None
        _refuse_other_columns(loaded, before)
        monitor = _open(folder, rows, loaded, options)
        fresh = monitor.unseen(rows)
        if fresh is not None:
            written = WrittenProbabilities.of(loaded).last(len(fresh)) if options["policy"] == COLUMNS else None
            result = monitor.update(fresh, progress, accept=accepted, probabilities=written)
            monitor.reading = asdict(loaded.coding)
            monitor.save(folder, texts={STATED: json.dumps(stated, indent=1)})
            print_validity_notes([ValidityNote(text) for text in result.warnings])
    _print(folder, monitor, 0 if fresh is None else len(fresh), options)
    return EXIT_CODES[monitor.status]


def _accepted(folder: Path, options: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """What is accepted of this update alone, and the options without it."""
    accepted = tuple(options["accept"])
    if REPEATED not in accepted:
        return (), options
    rest = tuple(kind for kind in accepted if kind != REPEATED)
    rest = rest or tuple(_held(folder).get("accept", ()))  # what was accepted for all updates need not be repeated
    return (REPEATED,), {**options, "accept": rest}


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


def _held(folder: Path) -> dict[str, Any]:
    """What was stated when the folder was begun; {} where it was not."""
    path = folder / STATED
    return read_json(path) if path.is_file() else {}


def _refuse_other_statements(folder: Path, stated: dict[str, Any]) -> None:
    """The problem is fixed before the first row: another discount or range would be another monitor."""
    held = _held(folder)
    names = sorted(name for name in {*held, *stated} if held.get(name) != stated.get(name))
    words = shown([f"--{name.replace('_', '-')}" for name in names])
    if held and names:
        raise InvalidInput(
            f"{folder} was begun with other values of these options: {words}. They are fixed before the first row, and are "
            f"recorded in {folder / STATED}: leave them out, or begin another folder."
        )


def _reading(folder: Path) -> Coding | None:
    """How the files before were read."""
    found = read_document(folder).get("reading") if is_monitor(folder) else None
    if found is None:
        return None
    try:
        coding: Coding = decode(Coding, found, {}, "reading")
        return coding
    except VerificationError as problem:
        raise damaged(folder / STATE, problem) from problem


def _refuse_other_columns(loaded: LoadedLog, before: Coding | None) -> None:
    """Every file has to mean the same by a dimension of an observation."""
    if before is not None and loaded.names != before.names:
        raise InvalidInput(
            f"The observations of these rows are {shown(loaded.names)}, those of the rows before {shown(before.names)}. All rows "
            "of a log have the same columns, of one kind: numbers, or text."
        )


def _open(folder: Path, rows: Transitions, loaded: LoadedLog, options: Mapping[str, Any]) -> SequentialMonitor:
    """The monitor of the folder, or a new one."""
    spec = options["policy"]
    source = GivenLog(rows, loaded, order_stated=bool(options["actions"]))
    policy = COLUMNS if spec == COLUMNS else choose_policy(spec, source, 0, options)
    if is_monitor(folder):
        return SequentialMonitor.load(folder, policy)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists and holds no monitor. Choose a folder that does not exist yet.")
    notes: tuple[str, ...] = ()
    if policy != COLUMNS:
        policy, notes = take_policy(policy, source, None)
    if not options["quiet"] and not options["as_json"]:
        print_notes(Terminal(), notes)
    columns = stated_columns(options, loaded, rows.observation_dim)
    own, drawn = own_options("sequential", options["with"]), drawing_options(options["with"])
    tuned = {key: own.pop(key) for key in TUNED if key in own}
    choices = Choices(categorical=columns, seed=drawn.get("seed", 0), **tuned)
    method = Sequential(radius=options["radius"], side=options["side"], pilot=own.get("pilot", PILOT), choices=choices)
    stated = {key: value for key, value in own_options("auto", options["with"]).items() if key in ABOUT_PROPENSITIES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # every answer carries them
        return SequentialMonitor(
            policy,
            stated_initial(options["initial"], rows, loaded),
            gamma=stated_gamma(options, loaded),
            may_terminate=not options["never_terminates"],
            method=method,
            propensities=Propensities(**stated) if stated else None,
            **{name: options[name] for name in _ASKED},
            **drawn,
        )


_ASKED = ("reward_range", "value_range", "horizon", "accept", "alpha", "planned_rows", "population")


def _print(folder: Path, monitor: SequentialMonitor, fresh: int, options: Mapping[str, Any]) -> None:
    last, number = monitor.updates[-1], len(monitor.updates)
    if options["as_json"]:
        planned = {"planned_rows": monitor.method.planned_rows, "method": monitor.used_method}
        say(json.dumps({"update": number, "new_rows": fresh, **last.as_row(), **planned}))
        return
    level = f"{100 * (1 - monitor.alpha):g}%"
    if monitor.status is Status.REJECTED:
        say(f"{monitor.status} (update {number}, {last.rows} rows)")
    else:
        running = interval_text(monitor.interval.low, monitor.interval.high)
        over = " over the rows so far" if monitor.moving else ""
        say(f"At {level} confidence, at all updates at once, the value of the policy{over} lies in {running}.")
    if options["quiet"]:
        return
    own = interval_text(last.low, last.high) if last.status != Status.REJECTED.name else "no interval"
    say(f"update {number}: {fresh} new rows, {last.rows} in all; this update alone: {own} ({last.status.lower()})")
    say(
        f"method: {monitor.used_method}, planned for {monitor.method.planned_rows} rows: the intervals hold if the log stops "
        "earlier or goes on"
    )
    for name in ("waiting", "waiting rows", "propensities"):
        if monitor.result is not None and name in monitor.result.choices:
            say(f"{name}: {monitor.result.choices[name]}")
    if last.certificate:
        say(f"certificate: {certificate_path(folder, number)}")
