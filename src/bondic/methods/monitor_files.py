"""A monitor as data and on disk: a line for every update, and a folder whose monitor.json is written last.

    monitor.json                 what was stated, and a line for every update
    statements.npz               the initial states and Q, where they were given
    updates/000001.npz           the rows of an update, with the policy's answers
    certificates/000001.json     what an update shows, with 000001.npz; the plan of the last one is used again
    history.csv                  the lines of monitor.json as a table

A killed update leaves the state before it.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic.core.assumptions import range_assumption
from bondic.core.certificate import DAMAGED, Certificate, compute_digest
from bondic.core.claims import Assumption, Conclusion, ErrorBudget, Guarantee, Side, Status
from bondic.core.codec import Decoder, Encoder, decode
from bondic.core.errors import InvalidInput, VerificationError, one_line, refuse
from bondic.core.terms import in_full, make_terms, range_of
from bondic.core.verify import KNOWN, UserFunctions
from bondic.data.initial import InitialStates
from bondic.data.io.npz import load_arrays
from bondic.documents import damaged, read_json
from bondic.folders import working_folder
from bondic.loading import load_certificate
from bondic.methods.base import options_of, read_options
from bondic.methods.propensities import Propensities
from bondic.methods.sequential import Sequential
from bondic.policies.answers import StartAnswers
from bondic.result import Result, versions
from bondic.rows.growing import INITIAL, GrowingRows, Statements
from bondic.saving import save_certificate, write_atomically


@dataclass(frozen=True)
class UpdateRecord:
    """One update: its interval, and what all intervals up to it have in common."""

    rows: int  # of the log by then
    used: int  # those that were evaluated
    low: float
    high: float
    status: str
    running_low: float
    running_high: float
    running_status: str
    guarantee: Guarantee  # of what they have in common
    certificate: str  # digest; empty where nothing could be certified yet
    time: str  # UTC
    repeated: bool = False  # rows of it, or of an update before, were stated to be new events though they came before

    def as_row(self) -> dict[str, Any]:
        """All of it by name; a rejection has no ends, though the record keeps the value range in their place."""
        out = asdict(self)
        for begin, status in (("", self.status), ("running_", self.running_status)):
            if status == Status.REJECTED.name:
                out |= {f"{begin}low": None, f"{begin}high": None}
        return out


def next_record(before: Conclusion, result: Result, grown: GrowingRows) -> UpdateRecord:
    """The line of an update, with what all intervals up to it have in common.

    On the event that makes one of them right all are. So nothing in common is a contradiction, and a rejection stays one. The
    mean over the starts so far moves with them: each interval is then about another number, and the last one stands.
    """
    limits = result.value_range
    if grown.statements.moving:
        before = Conclusion(limits.low, limits.high, Status.TRIVIAL)
    low, high = max(before.low, result.low), min(before.high, result.high)
    status = Status.INTERVAL if low > limits.low or high < limits.high else Status.TRIVIAL
    if Status.REJECTED in (before.status, result.status) or low > high:
        low, high, status = limits.low, limits.high, Status.REJECTED
    return UpdateRecord(
        rows=len(grown.log),
        used=grown.used,
        low=result.low,
        high=result.high,
        status=result.status.name,
        running_low=low,
        running_high=high,
        running_status=status.name,
        guarantee="finite-sample",
        certificate=result.hashes.get("certificate", ""),
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        repeated=grown.repeated,
    )


def held_back(grown: GrowingRows) -> dict[str, str]:
    """A note on rows that wait for others."""
    waiting, total = len(grown.log) - grown.used, len(grown.log)
    why = "actions are drawn for groups of rows, and the last is not complete"
    if grown.whole_episodes:
        why = f"the episode of row {grown.used} has neither ended nor been cut, and those after it wait for it"
    text = f"{waiting} of {total}: {why}"
    return {"waiting rows": text} if waiting else {}


def waiting_result(grown: GrowingRows, alpha: float, side: Side, why: str) -> Result:
    """The value range: no row has been used yet."""
    terms = grown.statements.terms
    limits, (low, high) = range_of(terms), map(in_full, terms.reward_range)
    rewards = Assumption("rewards", f"Every possible reward lies in [{low}, {high}].", "stated")
    return Result(
        low=limits.low,
        high=limits.high,
        estimate=math.nan,
        alpha=alpha,
        side=side,
        method="sequential",
        guarantee="finite-sample",
        status=Status.TRIVIAL,
        value_range=limits,
        claims=(),
        rejection=None,
        gap=(math.nan, math.nan),
        rows=(0, grown.used),
        budget=ErrorBudget(alpha, {}),
        assumptions=(rewards, *range_assumption(terms)),
        choices={"waiting": f"{why}: the interval is the value range", **held_back(grown)},
        seeds={"policy draws": grown.statements.seed},
        versions=versions(),
        hashes={"log": grown.log.content_hash},
        effective_sample_size=0.0,
        seconds={},
    )


Arrays = dict[str, npt.NDArray[Any]]

FORMAT = "bondic monitor 3"
STATE, HISTORY = "monitor.json", "history.csv"
_STATEMENTS = "statements.npz"


@dataclass(frozen=True, eq=False)
class Saved:
    """Everything that a monitor is made of, as plain data."""

    statements: dict[str, Any]  # JSON
    arrays: Arrays  # that belong to them
    log_hash: str  # of all rows
    updates: tuple[UpdateRecord, ...]
    part: Callable[[int], Arrays]  # rows and answers of an update, by its number from 0 on
    certificate: Certificate | None  # of the last update
    reading: dict[str, Any] | None = None  # JSON: how files were read, for those that follow

    @property
    def document(self) -> dict[str, Any]:
        lines = [asdict(update) for update in self.updates]
        reading = {} if self.reading is None else {"reading": self.reading}
        return {"format": FORMAT, "statements": self.statements, **reading, "log": self.log_hash, "updates": lines}


def certificate_path(folder: Path, update: int) -> Path:
    """Where the certificate of an update stands, by its number from 1 on."""
    return folder / "certificates" / f"{update:06d}.json"


def write_folder(folder: str | os.PathLike[str], saved: Saved, texts: Mapping[str, str]) -> None:
    """Write what the folder does not have yet; a new folder comes into being as a whole. `texts` are further files."""
    target = Path(folder)
    if target.is_dir() and any(target.iterdir()):
        _write_into(target, saved, _known(target, saved), texts)
        return
    with working_folder(target) as (working, place):
        try:
            working.chmod(0o755)
            _write_into(working, saved, 0, texts)
            working.replace(place)
        except OSError as problem:
            raise InvalidInput(f"{target} could not be written ({problem.strerror or problem}).") from problem


def _known(folder: Path, saved: Saved) -> int:
    """How many updates the folder has already: the first ones of this very monitor, or it is refused."""
    held, mine = read_document(folder), saved.document
    lines = read_updates(folder, held)
    if held.get("statements") != mine["statements"] or lines != saved.updates[: len(lines)]:
        raise InvalidInput(
            f"{folder} holds another monitor, or was updated after this one was loaded. Save to another folder, or load that "
            "monitor and update it."
        )
    return len(lines)


def _write_into(place: Path, saved: Saved, known: int, texts: Mapping[str, str]) -> None:
    """What is new, then monitor.json: until that is there the update has not happened, and its files go if it fails."""
    for name in ("updates", "certificates"):
        (place / name).mkdir(exist_ok=True)
    if known == 0:
        write_atomically(place / _STATEMENTS, _packed(saved.arrays))
    count, made = len(saved.updates), []
    try:
        for number in range(known + 1, count + 1):
            made.append(_update_path(place, number))
            write_atomically(made[-1], _packed(saved.part(number - 1)))
        if saved.certificate is not None and count > known:
            text = certificate_path(place, count)
            made += [text, text.with_suffix(".npz")]
            save_certificate(saved.certificate, text, overwrite=True)
        for name, content in texts.items():
            write_atomically(place / name, content.encode())
        write_atomically(place / STATE, (json.dumps(saved.document, indent=1) + "\n").encode())
    except BaseException:
        if not is_monitor(place) or len(read_updates(place, read_document(place))) < count:
            for path in made:
                path.unlink(missing_ok=True)
        raise
    write_atomically(place / HISTORY, history_text(saved.updates).encode())


def _update_path(folder: Path, update: int) -> Path:
    return folder / "updates" / f"{update:06d}.npz"


def _packed(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def history_text(updates: tuple[UpdateRecord, ...]) -> str:
    """A line per update; ends of a rejection are empty."""
    buffer = io.StringIO()
    table = csv.DictWriter(buffer, [field.name for field in fields(UpdateRecord)], lineterminator="\n")
    table.writeheader()
    table.writerows(update.as_row() for update in updates)
    return buffer.getvalue()


def is_monitor(folder: Path) -> bool:
    return (folder / STATE).is_file()


def read_document(folder: Path) -> dict[str, Any]:
    """monitor.json, as far as its format."""
    path = folder / STATE
    try:
        found = read_json(path)
    except OSError as problem:
        raise InvalidInput(
            f"{folder} holds no monitor ({problem.strerror or problem}: {STATE}). Choose a folder that a monitor was saved to, "
            "or one that does not exist yet."
        ) from problem
    if found.get("format") != FORMAT:
        raise InvalidInput(f"{path} is not a monitor of the format {FORMAT!r}. Choose another folder.")
    return found


def read_updates(folder: Path, document: Mapping[str, Any]) -> tuple[UpdateRecord, ...]:
    """The lines of monitor.json."""
    lines = document.get("updates")
    if isinstance(lines, list):  # older ones do not say
        lines = [{"repeated": False, **line} if isinstance(line, dict) else line for line in lines]
    try:
        found: tuple[UpdateRecord, ...] = decode(tuple[UpdateRecord, ...], lines, {}, "updates")
    except VerificationError as problem:
        raise damaged(folder / STATE, problem) from problem
    known = Status.__members__
    if any(not 0 <= one.used <= one.rows or {one.status, one.running_status} - set(known) for one in found):
        raise damaged(folder / STATE, f"updates use at most the rows there are, and end as {', '.join(known)}")
    return found


def read_folder(folder: str | os.PathLike[str]) -> Saved:
    """What was saved last."""
    place = Path(folder)
    document = read_document(place)
    updates = read_updates(place, document)
    statements, log_hash = document.get("statements"), document.get("log")
    if not updates or not isinstance(statements, dict) or not isinstance(log_hash, str):
        raise damaged(place / STATE, "statements, log or updates are missing")
    certificate = None
    if updates[-1].certificate:
        certificate = load_certificate(certificate_path(place, len(updates)), most_bytes=2**40)
        if compute_digest(certificate.body, certificate.arrays) != updates[-1].certificate:
            raise InvalidInput(f"{certificate_path(place, len(updates))} is not the certificate of the last update.")

    def part(number: int) -> Arrays:
        return dict(load_arrays(_update_path(place, number + 1)))

    arrays = load_arrays(place / _STATEMENTS)
    return Saved(statements, arrays, log_hash, updates, part, certificate, document.get("reading"))


_STATES, _WEIGHTS = "initial_states", "initial_weights"
_DAMAGED = (*DAMAGED, VerificationError)


def write_statements(
    stated: Statements, method: Sequential, alpha: float, rows: GrowingRows, bets: Propensities | None
) -> tuple[dict[str, Any], Arrays]:
    """JSON values, and the arrays that belong to them; fixed with the first rows."""
    if not isinstance(method.engine, str):
        raise InvalidInput(
            "An engine of your own cannot be saved: name one (engine='auto'), or keep the monitor in memory."
        )
    encoder = Encoder()
    options = encoder.encode(options_of(method), "method")
    arrays = dict(encoder.arrays)
    initial, start = stated.initial, rows.start
    if initial is not None:
        arrays |= {_STATES: initial.observations, _WEIGHTS: initial.weights, INITIAL: start.initial}
    statements = {
        "terms": asdict(stated.terms),
        "draws": stated.draws,
        "initial_draws": stated.initial_draws,
        "seed": int(stated.seed),
        "accept": stated.accept,
        "population": stated.population,
        "initial": None if initial is None else {"kind": initial.kind, "count_fixed": initial.count_fixed},
        "discrete_observations": rows.log.discrete_observations,
        "policy": {"discrete": start.discrete, "exact": start.exact, "draws": start.draws},
        "alpha": alpha,
        "method": options,
        "engine": method.engine,
    }
    if rows.log.unrecorded:
        statements["unrecorded"] = rows.log.unrecorded
    if bets is not None:
        if not (bets.model is None or isinstance(bets.model, str)):
            raise InvalidInput(
                "A regressor cannot be saved: Propensities(model='linear'), or keep the monitor in memory."
            )
        statements["propensities"] = options_of(bets)
    return _plain(statements), arrays


def _plain(value: Any) -> Any:
    """As JSON gives it back, so that what is written can be compared with what is read."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def read_statements(saved: Saved, policy: Any) -> tuple[Statements, GrowingRows]:
    """The statements, and all rows with the policy's answers."""
    try:
        data, arrays = saved.statements, saved.arrays
        terms, kind = make_terms(**data["terms"]), data["initial"]
        initial = None if kind is None else InitialStates(arrays[_STATES], arrays[_WEIGHTS], **kind)
        drawing = {name: data[name] for name in ("draws", "initial_draws", "seed")}
        statements = Statements(policy, initial, terms, data["population"], **drawing, accept=tuple(data["accept"]))
        portions = [saved.part(number) for number in range(len(saved.updates))]
        start = StartAnswers(
            arrays.get(INITIAL, np.zeros(0)), **decode(dict[str, bool | int], data["policy"], {}, "policy")
        )
        codes = data["discrete_observations"]
        rows = GrowingRows.restored(
            statements, portions, saved.updates[-1].used, start, codes, data.get("unrecorded", ())
        )
        rows = replace(rows, repeated=saved.updates[-1].repeated)
    except _DAMAGED as problem:
        raise InvalidInput(f"The saved monitor is damaged ({one_line(problem, 200)}).") from problem
    if rows.log.content_hash != saved.log_hash:
        raise InvalidInput("The saved rows are not those of the updates (content hashes differ): a file was changed.")
    return statements, rows


def read_method(
    saved: Saved, rows: GrowingRows, functions: UserFunctions | None
) -> tuple[Sequential, Propensities | None, float]:
    """The method with its options, what was stated about propensities, and alpha."""
    assert KNOWN  # what the library itself writes can be read
    data, decoder = saved.statements, Decoder(saved.arrays, {"layout": rows.layout, "functions": functions or {}})
    try:
        method = Sequential(engine=data["engine"], **read_options(Sequential, data["method"], decoder, "method"))
        refuse(method.planned_rows is None, "`planned_rows` is missing.")
        bets = Propensities(**data["propensities"]) if "propensities" in data else None
        return method, bets, float(data["alpha"])
    except _DAMAGED as problem:
        raise InvalidInput(f"The saved monitor is damaged ({one_line(problem, 200)}).") from problem
