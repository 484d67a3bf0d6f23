"""The assumptions behind an interval, in words, with what was checked."""

from __future__ import annotations

from collections.abc import Sequence

from bondic.core.balls import Provenance, ValueClass
from bondic.core.claims import Assumption, State
from bondic.core.columns import Columns
from bondic.core.terms import Terms, in_full, range_at_all_times

VALUE_RANGE = "value range"


def list_assumptions(
    problem: Columns, ball: ValueClass, own: tuple[Assumption, ...], *, rejected: bool
) -> tuple[Assumption, ...]:
    """Everything the guarantee rests on; `own` are those of the kind of proof."""
    terms = problem.terms
    joint: State = "rejected" if rejected else "stated"
    items = [
        Assumption(
            "data",
            "Given everything before a row and its state and action, reward and next state came from the environment: nothing "
            "that the log lacks influenced both actions and outcomes. Rows are in the order of time, none was copied, and none "
            "was dropped because of its reward or next state.",
            joint,
        ),
        _world(terms, joint),
        reward_assumption(problem, joint),
        *range_assumption(terms, joint),
        _values(problem, ball, rejected),
        *own,
        Assumption("policy", _policy_text(problem), "checked" if problem.exact_answers else "stated"),
        *([] if _of_this_log(problem) else [start_assumption(problem, paid=True)]),
        process_assumption(problem, _mean_over(problem) if _of_this_log(problem) else ""),
    ]
    return tuple(items)


def _world(terms: Terms, state: State) -> Assumption:
    """Rows that are far apart in time speak about one function q*."""
    when = "when" if terms.horizon is None else "when, except on the step of the episode"
    text = f"The environment was the same while the log was made: what follows a state and an action does not depend on {when}."
    return Assumption("world", text, state)


def reward_assumption(problem: Columns, state: State) -> Assumption:
    """The reward range, which every certified row was compared with."""
    low, high = map(in_full, problem.terms.reward_range)
    text = f"Every possible reward lies in [{low}, {high}] (the {len(problem)} certified rewards do)."
    return Assumption("rewards", text, state)


def fixed_before(name: str, text: str, provenance: Provenance, problem: Columns) -> Assumption:
    """A choice without the certified rows: checked where it comes from rows of this very log before them, else stated.

    That is what the maker of a result can say. Verification calls it stated, unless a replay has made the choice again.
    """
    earlier = provenance.rows is not None and provenance.rows[1] <= problem.rows.start
    state: State = "checked" if earlier and provenance.log_hash == problem.log_hash else "stated"
    return Assumption(name, f"{text}: {provenance}.", state)


def learning_assumption(name: str, learned: Sequence[tuple[int, Provenance]], *, mixture: bool) -> Assumption:
    """On which rows a policy was learned, as it says; those that are certified were compared with them, not what it did."""
    if not mixture:
        text = "; ".join(dict.fromkeys(str(seen) for _, seen in learned))
        return Assumption(name, f"The policy has seen no certified row: {text}.", "stated")
    blocks = ", ".join(str(row) for row, _ in learned)
    text = (
        f"The policy is a mixture of {len(learned)}, one for each block of rows, which begin at {blocks}; each has seen rows "
        "before its block alone. The value is the mean over the certified decisions (episodes) of what the policy of their "
        "block is worth: that of drawing one of the policies, each with its share of them as the probability, and keeping it."
    )
    return Assumption(name, text, "stated")


def length_assumption(count: int, planned: int | None = None) -> Assumption:
    """What the number of rows may depend on: pilot, blocks, rates and (9) are made for it, or for the number that was planned."""
    text = (
        f"The number of rows, {count}, was fixed beforehand: the log did not end, and is not evaluated now, because of what it "
        "showed. Where that may be so, planned_rows states how many rows were planned."
    )
    if planned is not None:
        text = (
            f"{planned} rows were planned before the log was seen. It may have stopped at any time, earlier or later, because of "
            "what it showed, and may be evaluated again as it grows."
        )
    return Assumption("length", text, "stated")


def _values(problem: Columns, ball: ValueClass, rejected: bool) -> Assumption:
    """What is assumed about q*: nothing for a Q that holds the value range, else membership."""
    if assumes_nothing(problem, ball):
        text = "Nothing is assumed about q*: Q holds every function with values in the value range."
        return Assumption("values", text, "rejected" if rejected else "checked")
    text = f"q* lies in Q: {ball.describe()} Q: {ball.provenance}."
    return Assumption("values", text, "rejected" if rejected else "stated")


def assumes_nothing(problem: Columns, ball: ValueClass) -> bool:
    """Whether Q holds every function with values in the value range."""
    return ball.assumes_nothing(range_at_all_times(problem.terms))


def range_assumption(terms: Terms, state: State = "stated") -> tuple[Assumption, ...]:
    """The value range, where one was stated."""
    if terms.value_range is None:
        return ()
    low, high = map(in_full, terms.value_range)
    text = (
        f"Every discounted return from any state-action pair lies in [{low}, {high}], at any time and whichever policy "
        "follows, as was stated (consecutive rows of the log do not contradict it)."
    )
    return (Assumption(VALUE_RANGE, text, state),)


def _policy_text(problem: Columns) -> str:
    if problem.exact_answers:
        return "Averages over the policy's next actions are exact sums, not samples."
    return f"{problem.next_draws} actions per next state were drawn from seed {problem.seed}, chosen without the log."


def start_assumption(problem: Columns, *, paid: bool = False) -> Assumption:
    """What the initial states of a problem are; `paid` where a number of them that was not fixed has its price."""
    states, draws = problem.initial_states, problem.initial_draws
    given = "state" if len(states) == 1 else f"list of {len(states)} weighted states"
    text = f"The initial distribution is exactly the given {given}."
    if states.kind == "log":
        text = _mean_over(problem)
    if states.kind == "sample":
        size = (
            "fixed beforehand"
            if states.count_fixed
            else f"not fixed beforehand{', which makes the interval a little longer' if paid else ''}"
        )
        text = f"The {len(states)} initial states are independent draws of the initial distribution; their number was {size}."
    if draws:
        text += f" {draws} actions were drawn at each from seed {problem.seed}, chosen without the log."
    return Assumption("start", text, "stated")


def _of_this_log(problem: Columns) -> bool:
    """Whether nothing has to be assumed about starts: the value is the mean over those of the log, without draws."""
    return problem.initial_states.kind == "log" and not problem.initial_draws


def _mean_over(problem: Columns) -> str:
    count, used = len(problem.initial_states), int((problem.initial_states.weights > 0).sum())
    which = f"the {used} starts" if used == count else f"the last {used} of {count} starts"
    return f"The value is the mean over {which} of this log, wherever they come from."


def process_assumption(problem: Columns, over: str = "") -> Assumption:
    """What is added up, and over which starts the mean is taken."""
    return Assumption("process", f"{_process_text(problem)} {over}".strip(), "stated")


def _process_text(problem: Columns) -> str:
    terms = problem.terms
    end = "may terminate (value 0 afterwards)" if terms.may_terminate else "never terminates"
    if terms.horizon is None:
        return (
            f"The value is the discounted sum with gamma = {in_full(terms.gamma)} (not normalized); the process {end}."
        )
    dropped = f"; {problem.dropped} rows beyond it were dropped" if problem.dropped else ""
    return f"The value is the sum of {terms.horizon} rewards with gamma = {in_full(terms.gamma)}; the process {end}{dropped}."
