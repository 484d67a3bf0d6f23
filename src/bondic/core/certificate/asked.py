"""What was asked, as data: the log by its hash, statements, initial states, and the policy by its answers.

`rebuild` makes the rows of it again. Answers that were not stored are asked for again; initial states that were withheld are
given, or read off the log.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bondic.core.bounded import U
from bondic.core.certificate.limits import MOST_DRAWS, refuse
from bondic.core.errors import VerificationError
from bondic.core.terms import Terms, make_terms
from bondic.data.initial import InitialStates
from bondic.data.log import Log
from bondic.policies.answers import StoredAnswers
from bondic.policies.logged_target import LoggedTarget
from bondic.policies.protocol import check_probabilities
from bondic.rows import Rows, make_rows

FloatArray = npt.NDArray[np.float64]

_POLICY_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class StoredStart:
    """The initial states and their kind; a sample may be withheld."""

    observations: FloatArray | None
    weights: FloatArray
    kind: Literal["exact", "sample"]
    count_fixed: bool
    from_log: bool  # read off the log: verification finds them there again


@dataclass(frozen=True, eq=False)
class Answers:
    """The policy at all next states of the log and at the initial states, where they are stored."""

    next: FloatArray | None
    initial: FloatArray | None
    discrete: bool
    exact: bool


@dataclass(frozen=True, eq=False)
class Asked:
    """A question on certain rows of a log."""

    log_hash: str
    terms: Terms
    rows: tuple[int, int]
    seed: int
    draws: int
    initial_draws: int | None
    start: StoredStart
    answers: Answers

    def __post_init__(self) -> None:
        refuse(make_terms(**asdict(self.terms)) != self.terms, f"No problem can be asked with {self.terms}.")
        refuse(self.seed < 0, f"The seed {self.seed} is negative.")
        most = 1 if self.initial_draws is None else self.initial_draws
        fine = 1 <= self.draws <= MOST_DRAWS and 1 <= most <= 100 * MOST_DRAWS
        refuse(not fine, f"{self.draws} and {self.initial_draws} draws at a state: at most {MOST_DRAWS} are made.")

    @staticmethod
    def of(rows: Rows) -> Asked:
        """Those of a log that is read in batches have no stored answers at next states: the policy is asked again."""
        states, answers = rows.initial_states, rows.answers
        return Asked(
            rows.log_hash,
            rows.terms,
            (rows.rows.start, rows.rows.stop),
            rows.seed,
            answers.draws,
            None if answers.discrete else int(answers.initial.shape[1]),
            StoredStart(states.observations, states.weights, states.kind, states.count_fixed, states.from_rows),
            Answers(rows.stored_answers(), answers.initial, answers.discrete, answers.exact),
        )

    def without_rows(self) -> Asked:
        """The same question without anything that is a single row."""
        answers = replace(self.answers, next=None)
        if self.known_by_log:
            return replace(self, start=replace(self.start, observations=None)) if self.start.kind == "sample" else self
        if self.start.kind == "exact":  # the list states the question, and is nobody's row
            return replace(self, answers=answers)
        return replace(self, start=replace(self.start, observations=None), answers=replace(answers, initial=None))

    @property
    def known_by_log(self) -> bool:
        """The policy is known by the log's own columns: it has no answers, and none is needed."""
        return self.answers.initial is not None and self.answers.initial.shape[0] == 0

    @property
    def actions(self) -> int | None:
        """How many actions the policy answers for; None where they are numbers, or no answer is held."""
        held = [one for one in (self.answers.initial, self.answers.next) if one is not None and one.size]
        return int(held[0].shape[1]) if held and self.answers.discrete else None

    def rebuild(self, log: Log, policy: Any, initial: InitialStates | None) -> Rows:
        """The rows that the question is about."""
        asking: dict[str, Any] = {"seed": self.seed, "draws": self.draws, "initial_draws": self.initial_draws}
        if self.known_by_log:
            policy = LoggedTarget()
        elif self.answers.next is not None:
            policy = self._stored()
        elif policy is None:
            raise VerificationError(
                "This certificate does not hold the policy's answers at the next states of the log (it was streamed, or rows "
                "were withheld). Pass the policy: verify(certificate, log, policy) (--policy SPEC)."
            )
        return make_rows(log, policy, self._states(log, initial), self.terms, **asking).select(*self.rows)

    def _states(self, log: Log, given: InitialStates | None) -> InitialStates:
        start, observations = self.start, self.start.observations
        refuse(observations is None and start.kind == "exact", "An exact list of initial states is not withheld.")
        if given is not None:
            observations = self._given(given)
        elif observations is None:
            observations = self._read_off(log)
        return InitialStates(observations, start.weights, start.kind, start.count_fixed)

    def _given(self, given: InitialStates) -> FloatArray:
        """Those given: of the kind and with the weights of the certificate's, withheld or not."""
        start = self.start
        if not (
            given.kind == start.kind
            and given.count_fixed >= start.count_fixed
            and (start.observations is None or np.array_equal(given.observations, start.observations))
            and given.weights.shape == start.weights.shape
            and np.allclose(given.weights, start.weights, rtol=1e-12, atol=0.0)
        ):
            raise VerificationError(
                f"The certificate was made for other initial states than the {len(given)} given, or for another kind or number "
                "of them (`initial` is needed only where it does not hold its own)."
            )
        return given.observations

    def _read_off(self, log: Log) -> FloatArray:
        """The sample of initial states that the certificate leaves out, where it came from the log."""
        count = int(self.start.weights.shape[0])
        if not self.start.from_log:
            raise VerificationError(
                f"The {count} initial states, a sample that does not stand in the log, were withheld from this certificate. Pass "
                "them: verify(..., initial=InitialStates.sample(states)) (--initial FILE)."
            )
        return InitialStates.from_log(log, count=count).observations

    def _stored(self) -> StoredAnswers:
        """The stored answers in place of the policy, as strict as what was once made of them."""
        following, initial, exact = self.answers.next, self.answers.initial, self.answers.exact
        refuse(following is None or initial is None, "The certificate holds a part of the policy's answers only.")
        assert following is not None
        assert initial is not None
        if self.answers.discrete:
            slots = int(initial.shape[1])
            for name, values in (("next", following), ("initial", initial)):
                normal = check_probabilities(values, values.shape[0], f"{name} state", slots)
                wrong = np.any(np.abs(values - normal) > 8 * (slots + 2) * U)
                refuse(bool(wrong), f"The stored probabilities at the {name} states do not sum to 1.")
        else:
            several = not following.shape[1] == initial.shape[1] == 1
            refuse(exact and several, "Means over several drawn actions are not exact, whatever the certificate says.")
        return StoredAnswers(following, initial, self.answers.discrete, exact)

    def check_policy(self, rows: Rows, log: Log, policy: Any) -> str:
        """The policy against the stored answers, at every row of the log."""
        following, initial = self.answers.next, self.answers.initial
        if following is None:
            if initial is not None:
                _compare("initial", rows.answers.initial, initial)
            return "policy was asked again at every row"
        asking = {"seed": self.seed, "draws": self.draws, "initial_draws": self.initial_draws}
        fresh = make_rows(log, policy, rows.initial_states, self.terms, **asking)  # type: ignore[arg-type]
        wrong = fresh.answers.exact != self.answers.exact
        refuse(wrong, "The certificate is wrong about whether the policy is deterministic.")
        before = 0
        for batch in fresh.batches():
            mine = batch.next_answers
            _compare("next", mine, following[before : before + mine.shape[0]])
            before += mine.shape[0]
        _compare("initial", fresh.answers.initial, rows.answers.initial)
        return "policy gives the stored answers"


def _compare(name: str, mine: FloatArray, stored: FloatArray) -> None:
    near = mine.shape == stored.shape and np.all(np.abs(mine - stored) <= _POLICY_TOLERANCE * (1 + np.abs(stored)))
    refuse(not near, f"The policy answers differently at the {name} states: it is not the certified policy.")
