"""Policies from files, import paths and other libraries: the same answers as the library gives, or a clear refusal."""

from __future__ import annotations

import importlib
import pickle
import sys
import textwrap

import numpy as np
import pytest

from bondic.core.errors import InvalidInput
from bondic.errors import PolicyError
from bondic.policies import protocol
from bondic.policies.adapters.load import load_policy

STATES = np.random.default_rng(5).normal(size=(7, 3))


def asked(policy, states=STATES):
    """As the library asks: every answer is checked."""
    return protocol.discrete_probabilities(policy, states, None, "next state")


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def refused(spec, *needles, **options):
    with pytest.raises(InvalidInput) as caught:
        load_policy(spec, **options)
    message = str(caught.value)
    assert len(message.splitlines()) <= 12
    assert len(message) < 1000
    for needle in needles:
        assert needle in message, message


def fails(policy, match, states=STATES):
    """Loaded, but of no use when asked."""
    with pytest.raises(PolicyError, match=match):
        asked(policy, states)


# module:object

CODE = """
import numpy as np
from dataclasses import dataclass

@dataclass
class Greedy:
    best: int = 1
    def action_probs(self, observations):
        return np.eye(2)[np.full(len(observations), self.best)]

class NeedsArgument:
    def __init__(self, weights):
        self.weights = weights

class Holder:
    inner = Greedy(0)

def build():
    return Greedy(0)

def build_badly():
    raise RuntimeError("no weights\\nhere")

def probabilities(observations):
    return np.full((len(observations), 2), 0.5)

def draw(observations, rng):
    return rng.normal(size=(len(observations), 1))

def three(a, b, c):
    return a

instance = Greedy()
words = True
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A module in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_policies_for_tests.py").write_text(textwrap.dedent(CODE))
    yield "my_policies_for_tests"
    sys.modules.pop("my_policies_for_tests", None)


@pytest.mark.parametrize(
    ("name", "first"),
    [("instance", 0.0), ("Greedy", 0.0), ("build", 1.0), ("Holder.inner", 1.0), ("probabilities", 0.5)],
)
def test_objects_classes_factories_and_functions_are_policies(code, name, first):
    path = list(sys.path)
    for spec in (f"{code}:{name}", f"{code}.py:{name}"):
        assert asked(load_policy(spec))[0, 0] == first
    assert sys.path == path


def test_a_function_of_two_arguments_draws_actions(code, rng):
    policy = load_policy(f"{code}:draw")
    assert policy.sample_action(STATES, rng).shape == (7, 1)


REFUSED = {
    "{code}:nothing": ("has no `nothing`", "Greedy"),
    "{code}:words": ("is a bool", "which is no policy"),
    "{code}:three": ("neither as f(observations)",),
    "{code}:NeedsArgument": ("failed to build", "TypeError"),
    "{code}:build_badly": ("no weights here",),
    "no_such_module_at_all:x": ("cannot be imported",),
    "absent.py:x": ("no file absent.py",),
    "{code}.py": ("Say which object",),
    "{code}:not a name": ("module:object",),
    "policy": ("no file policy",),
}


@pytest.mark.parametrize(("spec", "needles"), REFUSED.items(), ids=REFUSED)
def test_what_is_no_policy_is_refused(code, spec, needles):
    refused(spec.format(code=code), *needles)


def test_a_module_that_fails_to_import_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stops_here.py").write_text("raise SystemExit(3)")
    (tmp_path / "syntax.py").write_text("def f(:")
    refused("stops_here:x", "SystemExit")
    refused("syntax.py:x", "SyntaxError")


# NPZ


def saved(where, **arrays):
    np.savez(where / "policy.npz", **arrays)
    return where / "policy.npz"


def test_a_table(tmp_path):
    table = np.array([[0.25, 0.75], [1.0, 0.0]])
    policy = load_policy(saved(tmp_path, probs=table))
    np.testing.assert_array_equal(asked(policy, np.array([[1.0], [0.0]])), table[::-1])


SPOILED = {
    "a table": ({"w0": np.eye(3), "probs": np.eye(2)}, "`probs` (states, actions) alone"),
    "summing to 1": ({"probs": np.ones((2, 2))}, "summing to 1"),
    "a network": ({"w0": np.eye(3)}, "file.py:function"),
    "NaN": ({"probs": np.full((3, 5), np.nan)}, "summing to 1"),
    "text": ({"probs": np.array([["a"]])}, "numbers"),
    "objects": ({"w0": np.array([{}], dtype=object)}, "never read"),
}


@pytest.mark.parametrize(("arrays", "words"), SPOILED.values(), ids=SPOILED)
def test_spoiled_policy_files_are_refused(tmp_path, arrays, words):
    refused(saved(tmp_path, **arrays), words)


def test_files_that_are_no_policy_are_refused(tmp_path):
    np.save(tmp_path / "one.npy", np.eye(2))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    refused(tmp_path / "one.npz", "one array")
    (tmp_path / "empty.npz").write_bytes(b"")
    refused(tmp_path / "empty.npz", "empty")
    (tmp_path / "policy.txt").write_text("x")
    refused(tmp_path / "policy.txt", "ending is not known")


# Classifiers


class Classifier:
    """What a fitted classifier offers, with classes in an order of its own."""

    classes_ = np.array([2, 0])

    def predict_proba(self, observations):
        return np.tile([0.25, 0.75], (len(observations), 1))


class Named(Classifier):
    classes_ = np.array(["stop", "go"])


def test_classes_are_put_into_the_order_of_the_log():
    np.testing.assert_array_equal(asked(load_policy(Classifier()))[0], [0.75, 0.0, 0.25])
    np.testing.assert_array_equal(asked(load_policy(Classifier(), actions=4))[0], [0.75, 0.0, 0.25, 0.0])
    named = load_policy(Named(), actions=["go", "wait", "stop"])
    np.testing.assert_array_equal(asked(named)[0], [0.75, 0.0, 0.25])
    fails(load_policy(Named()), r"actions=\[\.\.\.\]")
    fails(load_policy(Named(), actions=["go", "wait"]), "not among those of the log, go, wait. Name all")
    fails(load_policy(Classifier(), actions=2), "below 2")
    unfitted = type("Unfitted", (Classifier,), {"classes_": None})()
    fails(load_policy(unfitted), "not fitted")


def test_scikit_learn_classifiers(tmp_path, rng):
    linear = importlib.import_module("sklearn.linear_model")
    labels = rng.integers(0, 3, size=60) * 2  # actions 0, 2, 4 of 5
    model = linear.LogisticRegression().fit(rng.normal(size=(60, 3)), labels)
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(model))
    importlib.import_module("joblib").dump(model, tmp_path / "model.joblib")
    for path in (tmp_path / "model.pkl", tmp_path / "model.joblib"):
        refused(path, "trust_pickle=True")
        best = asked(
            load_policy(path, trust_pickle=True, actions=5)
        )  # its prediction; votes are drawn where that is said
        np.testing.assert_array_equal(best.argmax(axis=1), model.predict(STATES))
        assert set(best.ravel()) == {0.0, 1.0}
        probs = asked(load_policy(path, trust_pickle=True, actions=5, output="probabilities"))
        np.testing.assert_allclose(probs[:, ::2], model.predict_proba(STATES), rtol=1e-12)
        np.testing.assert_array_equal(probs[:, 1::2], 0.0)
        np.testing.assert_array_equal(probs, asked(load_policy(model.predict_proba, actions=5)))
        path.write_bytes(b"garbage")
        refused(path, "cannot be unpickled", trust_pickle=True)


# What models return


def test_what_draws_is_not_taken_for_a_rule():
    """stable-baselines3: `predict` draws unless told otherwise, and its answer is then no function of the state."""

    class Model:
        def predict(self, observations, state=None, deterministic=False):
            return np.full(len(observations), deterministic), state

    refused(Model(), "draws its actions", "deterministic=True")
