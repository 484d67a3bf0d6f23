"""A decision on a log that grows: what the first look has fixed, and what all looks together have shown (Theorem 59 d, e).

Ends that hold at every number of rows at once may be looked at whenever one likes. The file of looks keeps it one decision: the
same statements, policies and plan, on a log that begins with the rows that were there before. The mean over the starts of this
log changes with its rows: every look speaks of its own. For stated starts, where the value stands still, the file keeps the best
end of all looks. It holds no row of the log.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bondic._version import __version__
from bondic.core.cells.proof import CellsProof
from bondic.core.claims import Status
from bondic.core.codec import decode
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput, VerificationError, one_line
from bondic.core.kernels.base import fingerprint
from bondic.core.propensities.proof import PropensityProof
from bondic.core.sequential.proof import SequentialProof
from bondic.data.content_hash import ContentHash
from bondic.data.log import Log
from bondic.data.transitions import Transitions
from bondic.documents import damaged, read_json
from bondic.errors import TooFewRows
from bondic.methods.candidates import Method
from bondic.methods.default import Default
from bondic.methods.propensity_pilot import logged
from bondic.methods.setting import NOTHING
from bondic.policies.learned import FittedPolicy, PolicyMixture
from bondic.policies.protocol import RowProbabilities
from bondic.result import Result
from bondic.rows import Rows
from bondic.rows.batch import make_frame
from bondic.rows.decisions import query_target, single_rows
from bondic.rows.growing import complete_rows
from bondic.rows.make import make_rows
from bondic.saving import write_atomically

FORMAT = "bondic looks 1"
_SAME_ANSWERS = 1e-8
"""Relative: what other machines change in the answers of a policy, on average over rows."""
_OTHERWISE = "Begin another file: it is another decision, with an alpha of its own."
End = Literal["lower", "upper"]


@dataclass(frozen=True)
class Shown:
    """One end at one look."""

    bound: float | None  # None where nothing is proved
    plan: str | None  # which process it is an end of; None: no row was used
    robust: bool = False  # whether doubly robust values are bet on: once begun, they stay
    rejected: bool = False
    moving: bool = False  # what is bounded is a mean over the certified rows, which changes with them


@dataclass(frozen=True)
class Look:
    """What was there, and what it showed."""

    rows: int  # of the log
    log: str  # their hash
    answers: tuple[float | None, ...]  # of every policy at these rows, in one number each
    ends: dict[str, Shown] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)  # what may not change any more, by name
    decision: str = ""
    time: str = ""


@dataclass(frozen=True)
class Looks:
    """All looks of one decision, the present one last."""

    path: Path
    stated: Mapping[str, Any]
    looks: tuple[Look, ...]

    @staticmethod
    def at(path: str | os.PathLike[str], parts: Sequence[Rows], method: Method, alpha: float, **more: Any) -> Looks:
        """The looks of this file with one more at these rows; refused where it would be another decision."""
        if any(isinstance(one.policy, PolicyMixture) for one in parts):
            raise InvalidInput(
                "A policy that is learned again before every block is another one when the log is longer. Learn it once, on a "
                "number of rows: LearnedPolicy(fit, rows=2000) (--with learn_rows=2000)."
            )
        place, stated = Path(path), _statements(parts, method, alpha, more)
        before = _read(place, stated) if place.exists() else ()
        if not place.parent.is_dir():
            raise InvalidInput(f"{place.parent} is no folder: the file of looks cannot be written there.")
        if before:
            _refuse_other_rows(place, before[-1], parts)
            if before[-1].rows == parts[0].rows.stop:  # the same look again
                return Looks(place, stated, before)
        now = Look(parts[0].rows.stop, _hash(parts[0].log, parts[0].rows.stop), _answers(parts, parts[0].rows.stop))
        return Looks(place, stated, (*before, now))

    def showing(self, name: str, result: Result, end: End, rows: Rows) -> Looks:
        """The same with an end of this look; refused where it is not one of the process that was looked at before."""
        *before, now = self.looks
        shown = _shown(result, end, rows)
        for one in self.looks:
            then = one.ends.get(name)
            if then is None or then.plan is None or shown.plan is None:
                continue
            if then.plan != shown.plan or then.robust > shown.robust:
                raise InvalidInput(
                    f"At {one.rows} rows the plan was {then.plan}; of these rows it would be {shown.plan}. Another plan is "
                    f"another chance to be wrong. {_OTHERWISE}"
                )
        return replace(self, looks=(*before, replace(now, ends={**now.ends, name: shown})))

    def fixing(self, name: str, value: str) -> Looks:
        """The same with something that later looks may not change."""
        *before, now = self.looks
        for one in self.looks:
            if one.fixed.get(name, value) != value:
                raise InvalidInput(
                    f"At {one.rows} rows the {name} was {one.fixed[name]!r}, now it is {value!r}. {_OTHERWISE}"
                )
        return replace(self, looks=(*before, replace(now, fixed={**now.fixed, name: value})))

    def best(self, name: str, end: End) -> float | None:
        """The best end of all looks; of this one where what is bounded changes with the rows. None: nothing is proved."""
        now = self.looks[-1].ends.get(name)
        shown = [one.ends[name] for one in self.looks if name in one.ends]
        if now is not None:  # a look without a row used proves nothing, whatever earlier ones did
            shown = [now] if now.moving or now.plan is None else shown
        proved = [one.bound for one in shown if one.bound is not None and (one is now or not one.moving)]
        return (max(proved) if end == "lower" else min(proved)) if proved else None

    @property
    def rejected(self) -> bool:
        """Whether the log contradicts the assumptions: at any look, or by ends that cross. Where all ends hold it never does."""
        low, high = self.best("lower", "lower"), self.best("upper", "upper")
        crossed = low is not None and high is not None and low > high
        return crossed or any(shown.rejected for one in self.looks for shown in one.ends.values())

    def write(self, decision: str) -> Looks:
        """Written as a whole or not at all."""
        *before, now = self.looks
        made = replace(now, decision=decision, time=datetime.now(UTC).isoformat(timespec="seconds"))
        found = replace(self, looks=(*before, made))
        data = {"format": FORMAT, "stated": found.stated, "looks": [asdict(one) for one in found.looks]}
        try:
            write_atomically(self.path, (json.dumps(data, indent=1) + "\n").encode())
        except OSError as problem:
            raise InvalidInput(f"{self.path} could not be written ({problem.strerror or problem}).") from problem
        return found

    def __str__(self) -> str:
        looks, rows = len(self.looks), self.looks[-1].rows
        return f"look {looks}, {rows} rows; the level is that of all looks together"


def _statements(parts: Sequence[Rows], method: Method, alpha: float, more: Mapping[str, Any]) -> dict[str, Any]:
    """What is fixed at the first look, as JSON gives it back."""
    first = parts[0]
    starts, answers = first.initial_states, first.answers
    found = {
        "bondic": __version__,
        "alpha": alpha,
        "method": re.sub(r" at 0x[0-9a-f]+", "", repr(method)),
        "terms": asdict(first.terms),
        "starts": starts.kind if starts.from_rows else fingerprint(starts.observations, starts.weights),
        "draws": [first.seed, answers.draws],
        "first row": first.rows.start,
        "policies": [type(one.policy).__name__ if one.policy_in_log else "answers" for one in parts],
        **more,
    }
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def _read(path: Path, stated: Mapping[str, Any]) -> tuple[Look, ...]:
    """The looks so far, if they are of this decision."""
    try:
        data = read_json(path)
    except OSError as problem:
        raise InvalidInput(f"{path} cannot be read ({problem.strerror or problem}).") from problem
    held = data.get("stated")
    if data.get("format") != FORMAT or not isinstance(held, dict):
        raise InvalidInput(
            f"{path} is no file of the format {FORMAT!r}. Name another file: it is made at the first look."
        )
    for name in {**held, **stated}:
        if held.get(name) != stated.get(name):
            raise InvalidInput(
                f"{path} was begun with another value of `{one_line(name)}`: {one_line(held.get(name), 300)}; now it is "
                f"{one_line(stated.get(name), 300)}. What is decided is fixed at the first look. {_OTHERWISE}"
            )
    try:
        looks: tuple[Look, ...] = decode(tuple[Look, ...], data.get("looks"), {}, "looks")
    except VerificationError as problem:
        raise damaged(path, problem) from problem
    counts = [one.rows for one in looks]
    if not looks or min(counts) < 0 or counts != sorted(counts):
        raise damaged(path, f"looks at {one_line(counts)} rows, one after the other")
    if any(len(one.answers) != len(stated["policies"]) for one in looks):
        raise damaged(path, f"it holds answers of other than {len(stated['policies'])} policies")
    return looks


def _shown(result: Result, end: End, rows: Rows) -> Shown:
    """InvalidInput unless the end holds at every number of rows at once."""
    used = NOTHING not in result.choices
    if used and (result.proof is None or not result.proof.any_length):
        raise InvalidInput(
            f"An end of the method {result.method} holds at the number of rows that was fixed beforehand, and this log is "
            "evaluated repeatedly as it grows. State how many rows are planned: Default(planned_rows=N) (--with "
            "planned_rows=N), or Table, Groups, Sequential, Propensities with planned_rows."
        )
    if used and _without_start(result):
        raise TooFewRows("No episode has begun after the pilot yet.")
    proved = result.status is Status.INTERVAL and result.guarantee == "finite-sample"
    bound = (result.low if end == "lower" else result.high) if proved else None
    bets = [one for one in _proofs(result) if isinstance(one, PropensityProof)]
    plan = f"{result.method} ({'; '.join(_plan(one, rows) for one in _proofs(result))})" if used else None
    robust = any(one.control is not None for one in bets)
    log_starts = used and any(one.estimand.start.kind == "log" for one in _proofs(result))
    moving = log_starts or any(one.value == "contexts" for one in bets)
    return Shown(bound, plan, robust, result.status is Status.REJECTED, moving)


def _plan(proof: Any, rows: Rows) -> str:
    """What distinguishes the process of a proof from others on the same rows."""
    text = f"from row {proof.estimand.rows[0]} on, for {getattr(proof, 'planned', None)}"
    if not isinstance(proof, PropensityProof):
        return text
    units = "decisions" if proof.single(rows.select(*proof.estimand.rows)) else "episodes"
    return f"{text} {units}, {proof.value}{', all actions' if proof.every_action else ''}"


def _proofs(result: Result) -> tuple[Any, ...]:
    """Of every policy, where each has one of its own."""
    found: tuple[Any, ...] = getattr(result.proof, "parts", (result.proof,))
    return found


def _without_start(result: Result) -> bool:
    """Whether starts of the log are a sample of which none is certified yet: their bets are made once one is."""
    return any(
        one.estimand.start.kind == "sample"
        and one.estimand.start.from_log
        and (one.events if isinstance(one, CellsProof) else one.plan).start is None
        for one in _proofs(result)
        if isinstance(one, CellsProof | SequentialProof)
    )


def _refuse_other_rows(path: Path, last: Look, parts: Sequence[Rows]) -> None:
    """The log has to begin with the rows of the last look, and policies have to answer there as they did."""
    first = parts[0]
    if first.rows.stop < last.rows:
        raise InvalidInput(
            f"The log has {first.rows.stop} rows, and {path} has looked at {last.rows}. Rows that were looked at stay: pass the "
            f"whole log as it is now. {_OTHERWISE}"
        )
    if _hash(first.log, last.rows) != last.log:
        raise InvalidInput(
            f"The first {last.rows} rows are not those of the last look in {path}: rows were changed, left out or put in "
            "between. A log grows at its end; where columns are text, --text states their values, so that codes stay. "
            f"{_OTHERWISE}"
        )
    for number, (mine, then) in enumerate(zip(_answers(parts, last.rows), last.answers, strict=True), 1):
        if (mine is None) != (then is None) or (mine is not None and then is not None and not _near(mine, then)):
            raise InvalidInput(
                f"Policy {number} answers differently at the first {last.rows} rows than at the last look in {path}: it is "
                f"another one. {_OTHERWISE}"
            )


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _SAME_ANSWERS * (abs(one) + abs(other))


def _hash(log: Log, rows: int) -> str:
    """Of the first rows."""
    digest = ContentHash()
    for _, part in log.batches(RowRange(0, rows)):
        digest.add(part.columns())
    return digest.hexdigest()


def _answers(parts: Sequence[Rows], rows: int) -> tuple[float | None, ...]:
    """Those of every policy at the first rows, weighted at random and added; None where the log holds them."""
    return tuple(None if one.policy_in_log else _answers_of(one, RowRange(0, rows)) for one in parts)


def _answers_of(problem: Rows, first: RowRange) -> float:
    found = [np.zeros(0)]
    if (stored := problem.stored_answers()) is not None:
        following = make_frame(problem.log.read(first), problem.terms).next_rows.size
        found.append(stored[:following].ravel())
    known = problem.layout.discrete or hasattr(problem.policy, "action_density")
    if known and not isinstance(problem.policy, RowProbabilities):
        target = query_target(problem.restricted(first), every_action=False)
        found += [] if target is None else [target.probs.ravel()]
    if not problem.initial_states.from_rows:
        found.append(problem.answers.initial.ravel())
    numbers = np.concatenate(found)
    return float(np.random.default_rng(0).uniform(size=numbers.size) @ numbers)


def refuse_undecided(method: Method, problem: Rows) -> None:
    """TooFewRows where a longer log may have another method: rows of two methods would be two chances to be wrong."""
    if isinstance(method, Default) and (why := method.undecided(problem)):
        raise TooFewRows(f"The method is not decided: {why}.")


def complete_episodes(problem: Rows, *, today: bool) -> Rows:
    """The question on rows of complete episodes, where episodes are weighed: a bet is paid once, when the episode is over.

    Rows of other methods count one by one, and stay.
    """
    log = problem.log
    if not (log.has_episode_ids and (logged(problem) or today)) or single_rows(problem):
        return problem
    if not isinstance(log, Transitions):
        raise InvalidInput("Looks at episodes need the log in memory: leave memory= out, or load it (read_log).")
    stop = int(complete_rows(log).max(initial=0))
    if stop == len(log) or problem.rows.stop <= stop:
        return problem
    if stop <= problem.rows.start:
        raise TooFewRows("No episode is complete yet.")
    if isinstance(problem.policy, RowProbabilities):
        raise InvalidInput(
            f"The episode of row {stop} has neither ended nor been cut, and the policy's probabilities stand beside the rows. "
            f"Pass the rows before row {stop}; the others count when their episodes are complete."
        )
    kept = {name: column[:stop] for name, column in log.columns().items() if column is not None}
    shorter = Transitions(**kept, discrete_observations=log.discrete_observations, unrecorded=log.unrecorded)
    states, answers = problem.initial_states, problem.answers
    states = states.of_log(shorter) if states.from_rows else states
    drawn = None if answers.discrete else int(answers.initial.shape[1])
    policy = problem.policy
    if isinstance(policy, FittedPolicy):  # on the first rows, which are those of the shorter log
        policy = replace(policy, fitted_log=shorter.content_hash)
    made = make_rows(
        shorter, policy, states, problem.terms, draws=answers.draws, initial_draws=drawn, seed=problem.seed
    )
    waiting = f"{len(log) - stop} of {len(log)} rows wait: the episode of row {stop} has neither ended nor been cut"
    fields = {name: getattr(problem, name) for name in ("validity_notes", "stated", "names", "reading")}
    return replace(made.select(problem.rows.start), **fields, notes=(*problem.notes, waiting))
