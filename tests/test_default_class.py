"""Names or numbers, the radius rule of the paper, and that a class is always stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bondic as b
from bondic.core.balls import Box, constant_value
from bondic.core.claims import Status
from bondic.core.errors import InvalidInput
from bondic.core.kernels.leaves import Constant, Dirac
from bondic.core.kernels.normal_form import Layout
from bondic.decisions.curves import radius_curve
from bondic.methods.setting import make_setting
from bondic.robustness import robustness
from bondic.tuning.defaults import Advanced
from bondic.tuning.states import ObservedStates, state_kind
from builders import tabular, world_problem

QUICK = Advanced(pairs=16)


# --------------------------------------------------------------------------------------------- names or numbers


def kind(observations, categorical=None, *, slots=2, action_dim=0):
    states = np.asarray(observations, dtype=float)
    layout = Layout(states.shape[1], False, action_dim, slots if action_dim == 0 else 1)
    return state_kind(ObservedStates(states, states[:0], states[:0]), layout, categorical)


def test_whole_numbers_in_one_column_are_names():
    found = kind(np.arange(200)[:, None] % 60)
    assert found.table
    assert "60 different values" in found.text
    assert "--categorical none" in found.question


def test_states_of_several_columns_are_a_table_only_if_they_repeat():
    grid = np.array([[x, y] for x in range(4) for y in range(4)] * 10)
    assert kind(grid).table
    assert kind(0.1 * grid).table
    found = kind(np.column_stack([np.arange(160) % 17, np.arange(160)]))
    assert not found.table
    assert "columns 0, 1 hold whole numbers" in found.text
    assert "--categorical" in found.question


def codes_of(name, rng):
    """300 ids in the columns of a log."""
    whole = np.column_stack([np.arange(300) // 20, np.arange(300) % 20])
    return {
        "two whole numbers": whole.astype(float),
        "a number": rng.random((300, 1)),
        "eight": rng.normal(size=(300, 8)),
    }[name]


def decisions(states, arms, rewards):
    rows = np.arange(len(arms))
    return b.Transitions(states, arms, rewards, states, rows >= 0, episode_ids=rows, timesteps=0 * rows)


def one_step_ids(code, seed):
    """300 ids, 17 rows each, one decision, every arm with a mean of its own; the value of arm 0 from five of them."""
    rng = np.random.default_rng(seed)
    who, arm, mean = rng.integers(0, 300, 5100), rng.integers(0, 2, 5100), rng.random((300, 2))
    rewards = np.clip(mean[who, arm] + rng.normal(0, 0.05, 5100), 0, 1)
    codes, starts = codes_of(code, rng), rng.choice(300, 5, replace=False)
    log = decisions(codes[who], arm, rewards)
    policy, initial = b.CallablePolicy(lambda s: np.eye(2)[np.zeros(len(s), int)]), b.InitialStates.exact(codes[starts])
    return b.make_problem(log, policy, initial, gamma=0.0, reward_range=(0, 1)), float(mean[starts, 0].mean())


@pytest.mark.parametrize("code", ["two whole numbers", "a number", "eight"])
def test_ids_are_names_however_they_are_coded(code):
    """A pilot of 255 rows shows most of 300 ids once or not at all; those that come again tell what all of them are."""
    problem, truth = one_step_ids(code, 0)
    found = b.estimate_interval(problem)
    assert found.is_assumption_free
    assert "they are names" in found.choices["states"]
    assert found.low <= truth <= found.high


def steps(following, origins):
    following, origins = (np.asarray(x, dtype=float) for x in (following, origins))
    return ObservedStates(origins, following, origins)


def test_steps_that_meet_show_names_and_starts_do_not():
    rng = np.random.default_rng(0)
    fresh = rng.normal(size=(200, 2))
    assert not steps(fresh, np.zeros((200, 2))).has_repeats  # every episode starts at one point
    met, met_from = fresh.copy(), rng.normal(size=(200, 2))
    met[150] = met[20]
    assert steps(met, met_from).has_repeats  # from two states to the same one
    met_from[150] = met_from[20]
    assert not steps(met, met_from).has_repeats  # the same step twice: noise of few values, from a state of a list
    stays = fresh.copy()
    stays[7] = 0.5
    assert steps(stays, np.where(np.arange(200)[:, None] == 7, 0.5, met_from)).has_repeats
    chain = np.arange(120)[:, None] % 40.0
    assert steps(0.1 * (chain + 1), 0.1 * chain).has_repeats  # always from the same state, but most of all steps
    ids = rng.normal(size=(5000, 3))
    assert steps(ids[rng.integers(0, 5000, 300)], ids[rng.integers(0, 5000, 300)]).has_repeats


# --------------------------------------------------------------------------------------------------- the radius


def test_the_radius_holds_every_value_of_the_range_and_ten_times_the_fit():
    _, problem = world_problem()
    setting, _, notes = make_setting(b.Dual(radius="paper", advanced=QUICK), problem, 0.1)
    limits = setting.range()
    half = limits.width / 2
    middle = constant_value(setting.ball.center)
    assert middle == pytest.approx((limits.low + limits.high) / 2)
    assert setting.ball.radius >= half
    assert "every constant value" in notes["Q"]


def test_numbers_without_a_statement_are_refused_with_the_way_out():
    """No method chooses a class; a table needs none."""
    _, problem = world_problem()
    for method in (b.Dual(advanced=QUICK), b.Sequential(advanced=QUICK)):
        with pytest.raises(
            InvalidInput, match=r"states are numbers: .* radius= \(--with radius\) or ball=, or radius='paper'"
        ):
            b.estimate_interval(problem, method=method)
        with pytest.raises(InvalidInput, match="'papers'; a number is needed, or 'paper'"):
            b.estimate_interval(problem, method=replace(method, radius="papers"))


# -------------------------------------------------------------------------------------------- what is called what


def test_every_class_is_stated_and_the_rule_of_the_paper_by_its_name():
    _, problem = world_problem()
    ball = b.Ball(b.Gaussian(1.0) * Dirac() + Constant(1.0), 30.0)
    words = {
        "radius": "radius as you state it",
        "paper": "stated by you: the radius rule of the paper",
        "ball": "fixed beforehand",
    }
    given = {"radius": {"radius": 30.0}, "paper": {"radius": "paper"}, "ball": {"ball": ball}}
    for name, options in given.items():
        for method in (b.Dual(advanced=QUICK, **options), b.Sequential(advanced=QUICK, **options)):
            result = b.estimate_interval(problem, method=method)
            (values,) = (item for item in result.assumptions if item.name == "values")
            assert values.state == "stated"
            assert words[name] in values.text
            assert repr(result.proof.ball.kernel) in values.text  # the kernel is said plainly
            assert result.guarantee == "finite-sample"
            assert b.verify(result.certificate, problem.log).guarantee == "finite-sample"
    _, log, policy, initial = tabular(3000)
    table = b.evaluate_policy(log, policy, gamma=0.5, reward_range=(-1.0, 1.0), initial=initial)
    assert {item.name: item.state for item in table.assumptions}["values"] == "checked"


def test_robustness_is_what_the_ends_do_at_larger_radii():
    _, problem = world_problem(rows=20_000, gamma=0.3)
    method = b.Dual(radius="paper", advanced=QUICK)
    result = b.estimate_interval(problem, method=method)
    assert result.status is Status.INTERVAL
    found = result.robustness
    assert 1.0 <= found.same_up_to <= found.informative_up_to
    radii = found.radius * found.same_up_to, found.breakdown_radius * 0.999
    same, informative = radius_curve(result, radii).values()
    assert same.length <= 1.1 * result.length + 1e-9
    assert informative.length < result.value_range.width
    setting, _, _ = make_setting(method, problem, 0.1)
    assert robustness(setting, result.low, result.high, ()) is None
    assert robustness(replace(setting, ball=Box(1.0)), 0.0, 1.0, (result.lower,)) is None
