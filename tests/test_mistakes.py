"""Slips that people make, one by one: each is an `InvalidInput` that says what is wrong, where, and the way out.

Never an error of Python or NumPy, which speaks of what happened inside and not of what to do.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import bondic
import bondic_lab
from bondic.core.errors import InvalidInput
from bondic.data.initial import InitialStates
from bondic.data.transitions import Transitions
from bondic.estimate import evaluate_policy as evaluate
from bondic.methods.sequential import Sequential
from bondic.policies.standard import UniformPolicy

N = 300
RNG = np.random.default_rng(0)
EPISODE, TIME = np.arange(N) // 10, np.arange(N) % 10
STATE, ACTION = RNG.integers(0, 3, N), RNG.integers(0, 2, N)
NEXT = np.where(TIME < 9, np.append(STATE[1:], 0), RNG.integers(0, 3, N))
COLUMNS = {
    "observations": STATE.astype(float)[:, None],
    "actions": ACTION,
    "rewards": RNG.random(N),
    "next_observations": NEXT.astype(float)[:, None],
    "terminations": np.zeros(N, bool),
    "truncations": TIME == 9,
    "episode_ids": EPISODE,
    "timesteps": TIME,
}
LOG = Transitions(**COLUMNS)
TABLE = pd.DataFrame(
    {
        "state": STATE,
        "action": ACTION,
        "reward": COLUMNS["rewards"],
        "next_state": NEXT,
        "terminated": False,
        "truncated": TIME == 9,
        "episode_id": EPISODE,
        "timestep": TIME,
    }
)
NAMED = TABLE.assign(action=np.where(ACTION == 1, "run", "stop"))
SEVENTH = np.arange(N) == 7


def half(states):
    return np.tile([0.5, 0.5], (len(states), 1))


def ask(log=LOG, policy=half, **changes):
    return evaluate(log, policy, **{"gamma": 0.5, "reward_range": (0, 1), "method": bondic.Table()} | changes)


def columns(**changes):
    return Transitions(**COLUMNS | changes)


def rule(answer):
    """A policy that returns what `answer` makes of the number of states."""
    return lambda states: answer(len(states))


STATEMENTS = {
    "gamma of 1": ({"gamma": 1}, "`gamma` is 1", "horizon=H"),
    "gamma in percent": ({"gamma": 99}, "`gamma` is 99", "[0, 1)"),
    "no reward range": ({"reward_range": None}, "`reward_range` is a pair", "such as reward_range=(0, 1)"),
    "a reward range turned around": ({"reward_range": (1, 0)}, "[1.0, 0.0]", "lowest first"),
    "a reward range without end": ({"reward_range": (0, np.inf)}, "finite"),
    "the range of the first rewards": ({"reward_range": (0, 0.1)}, "`rewards` leave", "row", "pass a wider range"),
    "alpha of 0": ({"alpha": 0}, "`alpha` is 0", "strictly between 0 and 1"),
    "alpha unknown": ({"alpha": np.nan}, "`alpha` is nan", "strictly between 0 and 1"),
    "a gamma just above 1": ({"gamma": 1.0001}, "`gamma` is 1.0001", "[0, 1)"),
    "a gamma that is not real": ({"gamma": 1j}, "`gamma` is 1j"),
    "a reward range of three": ({"reward_range": (0, 1, 2)}, "`reward_range` is", "lowest"),
    "a horizon of steps and a half": ({"horizon": 2.5}, "`horizon` is 2.5", "whole number of steps >= 1"),
    "no horizon": ({"horizon": 0}, "`horizon` is 0", "whole number of steps >= 1"),
    "no seed": ({"seed": None}, "`seed` is None"),
    "alpha in percent": ({"alpha": 5}, "`alpha` is 5", "between 0 and 1", "it is 0.05"),
    "starts as an array": ({"initial": np.zeros((1, 1))}, "`initial` is a ndarray", "InitialStates.exact(states)"),
    "starts of two columns": ({"initial": InitialStates.exact([[0, 1]])}, "2 dimensions, the log 1"),
    "a method that is a class": ({"method": bondic.Dual}, "the class Dual", "method=Dual()"),
    "a method that nobody knows": ({"method": "sequental"}, "no method 'sequental'", "Did you mean `sequential`?"),
    "a number for a method": ({"method": 3}, "`method` is an int", "Table()"),
    "a word that is no argument": ({"rewardrange": (0, 1)}, "no argument `rewardrange`", "`reward_range`?"),
    "a horizon as a text": ({"horizon": "5"}, "`horizon` is '5'", "whole number"),
    "no draws": ({"draws": 0}, "draws=0", "At least one action"),
    "a kind that no finding has": ({"accept": ["reset"]}, "accept='reset'", "resets"),
    "names of columns for their numbers": (
        {"method": None, "categorical": "state"}, "`categorical` is 'state'", "categorical=[0, 2]",
    ),
    "a column that is not there": ({"method": None, "categorical": [4]}, "column 4", "0..0"),
    "ranges that exclude each other": ({"value_range": (5, 6)}, "no value in common"),
    "progress that is no function": ({"progress": True}, "progress(stage, share)"),
    "a side that does not exist": ({"method": Sequential(radius=5.0, side="down")}, "side='down'", "'lower'"),
    "a pilot of two rows and a half": ({"method": Sequential(radius=5.0, pilot=2.5)}, "pilot=2.5", "share"),
    "a radius in words": ({"method": bondic.Dual(radius="big")}, "`radius` of Q is 'big'", "a number"),
    "how to read what is read": ({"columns": {"rewards": "r"}}, "columns=", "a Transitions already", "Leave it out"),
}  # fmt: skip
POLICIES = {
    "no policy": (None, "No policy was given", "evaluate_policy(log, policy, ...)"),
    "a class": (UniformPolicy, "UniformPolicy is a class", "UniformPolicy(...)"),
    "an array": (np.full((3, 2), 0.5), "cannot be a ndarray", "RowProbabilities"),
    "a table": (TABLE, "is a DataFrame, which is no policy"),
    "True": (True, "is a bool, which is no policy"),
    "the log": (LOG, "it is a Transitions", "the log comes first"),
    "logits": (rule(lambda n: np.tile([-1.0, 2.0], (n, 1))), "initial state number 0", "SoftmaxPolicy(function)"),
    "scores": (rule(lambda n: np.ones((n, 2))), "sum to 2, not 1", "Normalize", "SoftmaxPolicy(function)"),
    "the probability of action 1": (rule(lambda n: np.full(n, 0.3)), "0.3", "np.column_stack([1 - p, p])"),
    "an answer for one state": (rule(lambda _: [0.5, 0.5]), "shape (2,)", "for 30 states", "lambda states:"),
    "a condition on one state": (lambda s: 1 if s > 1 else 0, "truth value", "all states at once", "(1, 1)|(30, 1)"),
    "nothing": (rule(lambda _: None), "returned None", "all states at once"),
    "names of numbered actions": (rule(lambda n: ["run"] * n), "returned names, such as 'run'", "Return numbers"),
    "an action that no row has": (rule(lambda n: np.full(n, 7)), "action 7", "0 to 1", "n_actions=K"),
    "a number that is no action": (7, "action 7", "0 to 1", "n_actions=K"),
    "a table without a state": ({0: 1, 1: 1}, "no state 2.0", "every state of the log"),
    "a table with names for states": ({"a": 1}, "the state 'a'", "numbers as in the log"),
    "a regression": (DecisionTreeRegressor().fit(STATE[:, None], COLUMNS["rewards"]), "`predict`", "no action"),
}
SOURCES = {
    "None": (lambda: None, "The first argument is the log", "it is None|the first is None"),
    "a list": (lambda: [1, 2, 3], "The log is a list", "a mapping of arrays by name"),
    "an array": (lambda: np.zeros((3, 3)), "without column names", "mapping"),
    "a policy": (lambda: UniformPolicy(2), "the first is a UniformPolicy", "A log is Transitions"),
    "a function": (lambda: half, "the first is a function"),
    "a file that is not there": (lambda: "absent.csv", "no file or folder absent.csv"),
    "a table without rewards": (lambda: TABLE.drop(columns="reward"), "No column for `rewards`", "Usual names"),
    "a misspelled column": (
        lambda: TABLE.rename(columns={"reward": "rewrd"}), "No column for `rewards`", "rewards=rewrd",
    ),
    "a table with a gap": (
        lambda: TABLE.assign(reward=np.where(SEVENTH, np.nan, 0.5)), "`rewards`", "row 7", "fill in what happened",
    ),
    "names of actions without an order": (lambda: NAMED, "(run, stop)", "actions=[...]"),
}  # fmt: skip
OTHERS = {
    "a column that is not there": (
        lambda: ask(TABLE, columns={"rewards": "rewards_"}), "column rewards_", "Did you mean `reward`?",
    ),
    "an action with a slip in its name": (
        lambda: ask(NAMED, rule(lambda n: ["runn"] * n)), "'runn'", "run, stop", "Did you mean `run`?",
    ),
    "probabilities for continuous actions": (
        lambda: ask(columns(actions=ACTION + 0.5)), "(30, 2); (30, 1) is needed", "whole numbers",
    ),
    "a discrete policy for continuous actions": (
        lambda: ask(columns(actions=ACTION + 0.5), UniformPolicy(2)), "continuous", "as integers",
    ),
    "more starts than there are": (lambda: InitialStates.from_log(LOG, count=99), "30 episode starts", "Leave it out"),
    "a log for a problem": (lambda: bondic.estimate_interval(LOG), "takes a problem", "evaluate_policy"),
    "a baseline that nobody knows": (lambda: bondic_lab.make_baseline("tiss"), "no baseline 'tiss'", "`tis`?"),
    "an option that it does not have": (lambda: bondic_lab.make_baseline("tis", step=3), "`step`", "`steps`?"),
    "a certificate that is not there": (lambda: bondic.verify("absent", LOG), "no file absent.json"),
    "a log for a certificate": (lambda: bondic.verify(LOG, "x"), "needs a certificate, not Transitions"),
    "a number for a path": (lambda: bondic.load_certificate(3), "from a path, not from a int"),
    "nothing to save": (lambda: bondic.save_certificate(None, "x"), "not NoneType", "leaves none"),
    "a log to compare": (lambda: bondic.compare(LOG), "a list of results", "Transitions"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("log.csv", index=False)


def check(slip, needles):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bondic.ValidityWarning)
        with pytest.raises(InvalidInput) as caught:
            slip()
    said = str(caught.value)
    for needle in needles:
        assert any(word in said for word in needle.split("|")), said
    assert len(said) < 700, said


@pytest.mark.parametrize(("changes", "needles"), [(c, w) for c, *w in STATEMENTS.values()], ids=STATEMENTS)
def test_slips_in_statements(changes, needles):
    check(lambda: ask(**changes), needles)


@pytest.mark.parametrize(("policy", "needles"), [(p, w) for p, *w in POLICIES.values()], ids=POLICIES)
def test_slips_in_the_policy(policy, needles):
    check(lambda: ask(policy=policy), needles)


@pytest.mark.parametrize(("make", "needles"), [(m, w) for m, *w in SOURCES.values()], ids=SOURCES)
def test_slips_in_where_the_log_comes_from(make, needles):
    check(lambda: ask(make()), needles)


@pytest.mark.parametrize(("slip", "needles"), [(s, w) for s, *w in OTHERS.values()], ids=OTHERS)
def test_other_slips(slip, needles):
    check(slip, needles)


def test_the_question_behind_the_slips_is_sound():
    """Without it every test above could pass for another reason."""
    assert ask().low == ask(TABLE).low == ask("log.csv").low
    assert ask(accept="resets").low == ask().low


def test_statements_are_looked_at_before_a_long_log_is_read():
    check(lambda: ask("absent.csv", gamma=2), ["`gamma` is 2"])
    check(lambda: ask("absent.csv", reward_range=(1, 0)), ["lowest first"])
    check(lambda: ask("absent.csv", None), ["No policy was given"])
    check(lambda: ask("absent.csv", method="dul"), ["Did you mean `dual`?"])


def test_a_name_that_bondic_does_not_have_is_near_one_that_it_has():
    with pytest.raises(AttributeError, match="Did you mean `evaluate_policy`"):
        _ = bondic.evaluate_polcy
