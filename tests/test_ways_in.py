"""Logs and policies in every form in which people have them: the same question, the same interval."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import bondic
from bondic.core.errors import InvalidInput
from bondic.data.initial import InitialStates
from bondic.data.io.read import read_log
from bondic.data.transitions import Transitions
from bondic.errors import PolicyError
from bondic.policies.protocol import CallableSampler
from bondic.verification import verify
from test_mistakes import ACTION, COLUMNS, LOG, NAMED, RNG, STATE, TABLE

START = InitialStates.exact([[0.0]])
ASKED = {"gamma": 0.5, "reward_range": (0, 1), "initial": START, "method": bondic.Table()}
TAKES = np.array([1, 0, 1])
PROBS = np.eye(2)[TAKES]


def ask(log=LOG, policy=None, **changes):
    return bondic.evaluate_policy(log, _probabilities if policy is None else policy, **ASKED | changes)


def _probabilities(states):
    return PROBS[states[:, 0].astype(int)]


@pytest.fixture(scope="module")
def plain():
    return ask()


# --- logs ---------------------------------------------------------------------------------------------------------------


def asked_about(log=LOG, policy=None, **changes):
    """The question alone: its rows and its answers decide the interval."""
    terms = {"gamma": 0.5, "reward_range": (0, 1), "initial": START} | changes
    return bondic.make_problem(log, _probabilities if policy is None else policy, **terms)


def test_how_a_table_is_read_can_be_said_and_travels_with_the_result(plain):
    names = {"state": "wear", "reward": "payoff", "next_state": "wear_after"}
    table = TABLE.drop(columns=["terminated", "truncated"]).assign(done=TABLE["truncated"]).rename(columns=names)
    columns = {"observations": "wear", "rewards": "payoff", "next_observations": "wear_after"}
    assert asked_about(TABLE.rename(columns=names), columns=columns).log_hash == plain.hashes["log"]
    with pytest.warns(bondic.ValidityWarning, match="Column done"):
        found = ask(table, columns=columns, accept=["time-limit"])
    assert "`rewards`: column payoff." in found.to_dict()["notes"]
    assert found.question.names == ("wear",)
    assert any("Column done" in text for text in found.to_dict()["warnings"])


def test_one_step_logs_need_no_discount():
    table = pd.DataFrame({"obs": STATE, "action": ACTION, "reward": COLUMNS["rewards"]})
    stated = {"gamma": None, "initial": None, "one_step": True}
    assert ask(table, **stated).value_range.high == pytest.approx(1.0)
    assert ask(read_log(table, one_step=True), gamma=None, initial=None).low == ask(table, **stated).low
    with pytest.raises(InvalidInput, match="`gamma` is None"):
        ask(TABLE, gamma=None)


# --- policies -----------------------------------------------------------------------------------------------------------


class Predicts:
    """The style of scikit-learn."""

    def predict(self, states):
        return TAKES[np.asarray(states)[:, 0].astype(int)]


class Remembers:
    """Actions, and a state of its own."""

    def predict(self, states, state=None):
        return Predicts().predict(states), state


FORMS = {
    "probabilities": _probabilities,
    "whole numbers": lambda s: TAKES[s[:, 0].astype(int)],
    "a column of whole numbers": lambda s: TAKES[s[:, 0].astype(int)][:, None],
    "floats that are whole": lambda s: TAKES[s[:, 0].astype(int)].astype(float),
    "flags": lambda s: s[:, 0] != 1,
    "a list": lambda s: [int(x != 1) for x in s[:, 0]],
    "one-hot": lambda s: PROBS[s[:, 0].astype(int)].astype(int),
    "a dict": {0: 1, 1: 0, 2: 1},
    "a dict of probabilities": {0: [0, 1], 1: [1, 0], 2: [0.0, 1.0]},
    "a column by state": pd.Series([1, 0, 1], index=[0, 1, 2]),
    "predict": Predicts(),
    "predict with a state": Remembers(),
    "a classifier": DecisionTreeClassifier().fit([[0], [1], [2]], TAKES),
    "a table": bondic.TablePolicy(PROBS),
    "stated": bondic.DeterministicPolicy(lambda s: TAKES[s[:, 0].astype(int)], n_actions=2),
}


@pytest.mark.parametrize("policy", FORMS.values(), ids=FORMS)
def test_a_policy_in_any_form_gives_the_same_answers(policy):
    found, expected = asked_about(policy=policy), asked_about()
    np.testing.assert_array_equal(found.stored_answers(), expected.stored_answers())
    np.testing.assert_array_equal(found.answers.initial, expected.answers.initial)


def test_a_policy_in_columns_of_the_log(plain):
    probs = PROBS[STATE]
    table = TABLE.assign(logged_action_probs_0=probs[:, 0], logged_action_probs_1=probs[:, 1])
    following = PROBS[COLUMNS["next_observations"][:, 0].astype(int)]
    table = table.assign(next_action_probs_0=following[:, 0], next_action_probs_1=following[:, 1])
    found = ask(table, "columns", initial=None)
    assert found.low == ask(policy=_probabilities, initial=None).low
    assert verify(found.certificate, read_log(table), "columns").low == pytest.approx(found.low)
    with pytest.raises(InvalidInput, match="no columns with the policy's probabilities"):
        ask(TABLE, "columns", initial=None)
    with pytest.raises(InvalidInput, match="one that read_log has read"):
        ask(LOG, "columns")
    with pytest.raises(InvalidInput, match="episode starts of the log as initial states"):
        ask(table, "columns", initial=START)  # the probabilities in the log are those at other states
    assert plain.low >= 0


def test_a_number_is_that_action_everywhere():
    for action, table in ((1, [[0, 1]] * 3), (np.int64(0), [[1, 0]] * 3)):
        one, other = (asked_about(policy=policy).stored_answers() for policy in (action, bondic.TablePolicy(table)))
        np.testing.assert_array_equal(one, other)


def test_actions_by_their_names_need_no_order():
    names = np.array(["stop", "run"])
    by_name = asked_about(NAMED, lambda s: names[TAKES[s[:, 0].astype(int)]]).stored_answers()
    stated = asked_about(NAMED, _probabilities, actions=["stop", "run"])
    np.testing.assert_array_equal(by_name[:, ::-1], stated.stored_answers())  # sorted: run, stop
    assert stated.log_hash == LOG.content_hash == asked_about(read_log(NAMED, actions=names)).log_hash


def test_a_policy_for_continuous_actions_may_be_a_function_or_a_number():
    log = Transitions(**COLUMNS | {"actions": RNG.random(300)})
    sampler = CallableSampler(lambda s, _: 0.25 + 0 * s, deterministic=True)
    few = {"method": bondic.Dual(radius="paper")}
    wanted = ask(log, sampler, **few)
    for policy in (lambda s: np.full(len(s), 0.25), lambda s: 0.25 + 0 * s, 0.25):
        found = ask(log, policy, **few)
        assert (found.low, found.high) == (wanted.low, wanted.high)


def test_an_answer_that_changes_its_meaning_is_noticed():
    """Whole at the start, fractions later: the probability of action 1, not an action."""
    with pytest.raises(PolicyError, match="probability of action 1"):
        ask(policy=lambda s: np.where(s[:, 0] == 2, 0.5, 1.0))
