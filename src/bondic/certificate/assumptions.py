"""The assumptions behind an interval, in words, with what was checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from bondic.bounds.dual import Setting

State = Literal["stated", "checked", "rejected"]


@dataclass(frozen=True)
class Assumption:
    """`stated`: taken from the user; `checked`: the data were examined for it; `rejected`: the data contradict it."""

    name: str
    text: str
    state: State


def list_assumptions(setting: Setting, *, rejected: bool) -> tuple[Assumption, ...]:
    """Everything the guarantee rests on."""
    problem, terms, ball = setting.problem, setting.problem.terms, setting.ball
    low, high = terms.reward_range
    joint: State = "rejected" if rejected else "stated"
    center = "0" if ball.center is None or ball.center.is_zero else f"the given center {ball.center!r}"
    allowance = f", up to {ball.misspecification:g} everywhere" if ball.misspecification else ""
    items = [
        Assumption(
            "data",
            "Given everything before a row and its (s, a), reward and next state were drawn from the environment; rows are "
            "in the order of time, none was copied, and none was dropped because of its reward or next state.",
            joint,
        ),
        Assumption(
            "rewards",
            f"Every possible reward lies in [{low:g}, {high:g}] (the {len(problem)} certified rewards do).",
            joint,
        ),
        Assumption(
            "values",
            f"q* lies in Q: within distance {ball.radius:.6g} of {center} in the "
            f"space of {ball.kernel!r}{allowance}. Data can reject this, not prove it. Q: {ball.provenance}.",
            joint,
        ),
        Assumption(
            "instruments", f"W was chosen without the certified rows: {setting.instruments.provenance}.", "stated"
        ),
        Assumption("noise", f"{setting.gauge.describe()}.", "stated"),
        Assumption("policy", _policy_text(setting), "stated"),
        Assumption("start", _start_text(setting), "stated"),
        Assumption("process", _process_text(setting), "stated"),
    ]
    return tuple(items)


def _policy_text(setting: Setting) -> str:
    problem = setting.problem
    if problem.answers.exact:
        return "Means over the policy's next actions are exact sums."
    return f"{problem.next_draws} actions per next state were drawn from seed {problem.seed}, chosen without the log."


def _start_text(setting: Setting) -> str:
    states, draws = setting.problem.initial_states, setting.problem.initial_draws
    if states.kind == "sample":
        size = "fixed beforehand" if states.count_fixed else "not fixed beforehand, which is paid for"
        return f"The {len(states)} initial states are independent draws of the initial distribution; their number was {size}."
    text = f"The initial distribution is exactly the given list of {len(states)} weighted states."
    return text if draws == 0 else f"{text} {draws} actions were drawn at each, which is paid for."


def _process_text(setting: Setting) -> str:
    terms = setting.problem.terms
    end = "may terminate (value 0 afterwards)" if terms.may_terminate else "never terminates"
    if terms.horizon is None:
        return f"The value is the discounted sum with gamma = {terms.gamma:g} (not normalised); the process {end}."
    dropped = f"; {setting.problem.dropped} rows beyond it were dropped" if setting.problem.dropped else ""
    return f"The value is the sum of {terms.horizon} rewards with gamma = {terms.gamma:g}; the process {end}{dropped}."
