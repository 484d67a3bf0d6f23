"""The log, the initial distribution and ordered blocks: what is kept, what is refused, what the hash sees."""

import re
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bondic import InitialStates, InvalidInput, Transitions, inspect_log, stream_log
from builders import COLUMNS


def columns(n=6, *, keys=True, seed=0, **changes):
    """Every column of a continuous log with discrete actions: two episodes, the first terminated, the second cut."""
    rng = np.random.default_rng(seed)
    first = n - n // 2
    out = {
        "observations": rng.normal(size=(n, 2)),
        "actions": rng.integers(0, 3, size=n),
        "rewards": rng.uniform(-1, 1, size=n),
        "next_observations": rng.normal(size=(n, 2)),
        "terminations": np.arange(n) == first - 1,
        "truncations": (np.arange(n) == n - 1) & (n > first),
    }
    if keys:
        out["episode_ids"] = (np.arange(n) >= first).astype(int)
        out["timesteps"] = np.where(np.arange(n) < first, np.arange(n), np.arange(n) - first)
        out["behavior_action_probs"] = rng.uniform(0.1, 1, size=n)
    return out | changes


def expect_refused(*needles, kind=InvalidInput, **changes):
    """Building the log fails, and the message contains every needle."""
    with pytest.raises(kind) as caught:
        Transitions(**columns(**changes))
    for needle in needles:
        assert needle in str(caught.value), str(caught.value)


def pasted(log_columns):
    return {name: np.concatenate([column, column]) for name, column in log_columns.items()}


# What is kept


def test_a_log_is_frozen_and_its_arrays_are_read_only():
    log = Transitions(**columns())
    with pytest.raises(FrozenInstanceError):
        log.rewards = np.zeros(6)
    for name in COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(log, name)[0] = 0


def test_the_callers_arrays_are_neither_changed_nor_shared():
    given_columns = columns(next_observations=np.full((6, 2), np.nan), terminations=np.ones(6, dtype=bool), keys=False)
    before = {name: column.copy() for name, column in given_columns.items()}
    log = Transitions(**given_columns)
    kept, digest = log.rewards.copy(), log.content_hash
    for name, column in given_columns.items():
        np.testing.assert_array_equal(column, before[name])
        assert column.flags.writeable
        assert not np.shares_memory(column, getattr(log, name))
        column[...] = 1
    np.testing.assert_array_equal(log.rewards, kept)
    assert replace(log).content_hash == digest


def test_columns_of_shape_n_by_1_and_flat_observations_are_read_as_meant():
    flat = columns(observations=np.arange(6) + 0.5, next_observations=np.arange(6) + 1.5)
    log = Transitions(**flat)
    assert log.observations.shape == (6, 1)
    names = ("actions", "rewards", "terminations", "truncations", "episode_ids", "timesteps", "behavior_action_probs")
    tall = Transitions(**flat | {name: flat[name][:, None] for name in names})
    assert tall.content_hash == log.content_hash


@pytest.mark.parametrize(
    ("actions", "discrete"),
    [
        (np.zeros(6, dtype=np.uint8), True),
        (np.zeros(6, dtype=bool), True),
        (np.zeros(6), False),
        (np.zeros((6, 2)), False),
        (np.zeros((6, 2), dtype=int), False),
    ],
    ids=["uint8", "bool", "float", "two float columns", "two integer columns"],
)
def test_whole_number_actions_are_discrete_and_floats_continuous(actions, discrete):
    log = Transitions(**columns(actions=actions))
    assert log.discrete_actions is discrete
    assert log.actions.ndim == (1 if discrete else 2)


def test_next_observations_of_terminated_rows_may_be_missing_and_only_those():
    following = columns()["next_observations"].copy()
    following[2] = [np.nan, 3.0]
    log = Transitions(**columns(next_observations=following))
    np.testing.assert_array_equal(log.next_observations[2], [0.0, 0.0])
    np.testing.assert_array_equal(log.next_observations[[0, 1, 3, 4, 5]], following[[0, 1, 3, 4, 5]])
    following[4, 1] = np.inf
    expect_refused("`next_observations`", "row 4", "inf", "repair", next_observations=following)


# What is refused: values


def changed(name, row, value, kind=float):
    column = columns()[name].astype(kind)
    column[row] = value
    return {name: column}


RAGGED, TALL = [[1.0], [1.0, 2.0], 3, 4, 5, 6], np.zeros((6, 2, 2))
REFUSED = {
    **{f"{n} not finite": ([f"`{n}` is not finite at row 4", "Never drop a row"], changed(n, 4, v))
       for n, v in (("observations", np.nan), ("rewards", np.inf), ("next_observations", -np.inf),
                    ("behavior_action_probs", np.nan))},
    "continuous action not finite": (["`actions` is not finite at row 3"], {"actions": np.array([[0.0]] * 3 + [[np.nan]] * 3)}),
    **{f"{n} of another length": ([f"`{n}` has 5 rows, the observations have 6"], {n: columns()[n][:5]}) for n in COLUMNS[1:]},
    "ragged": (["`rewards` cannot be read as an array"], {"rewards": RAGGED}),
    "too many axes": (["`actions` has shape (6, 2, 2)"], {"actions": TALL}),
    "no rows": (["The log is empty"], {n: columns()[n][:0] for n in COLUMNS}),
    **{f"{n} of {v[0]!r}": ([f"`{n}` has dtype", "numbers are needed", where], {n: v})
       for n, v, where in (("observations", ["a"] * 6, "'a' at row 0"), ("actions", [0, None] * 3, "None at row 1"),
                           ("rewards", [1j] * 6, "complex"))},
    "one reward for all": (["`rewards` has shape ()", "one number per row"], {"rewards": 1.0}),
    "flags that are texts": (["true/false", "not 'no' at row 0"], {"terminations": ["no"] * 6}),
    "another dimension": (["`next_observations` has shape (6, 3)", "(6, 2)"], {"next_observations": np.zeros((6, 3))}),
    "no dimension": (["`observations` has shape (6, 0)"], {"observations": np.zeros((6, 0))}),
    **{f"{n} {v}": ([f"`{n}` must be true/false", f"row 1: {v}"], changed(n, 1, v))
       for n, v in (("terminations", 2.0), ("truncations", 0.5), ("terminations", np.nan), ("truncations", -1.0))},
    **{f"{n} {v}": ([f"`{n}` is {v} at row 3", "whole numbers are needed"], changed(n, 3, v))
       for n, v in (("timesteps", 0.5), ("episode_ids", np.nan), ("timesteps", np.inf))},
    "text timesteps": (["`timesteps` has dtype"], {"timesteps": ["a"] * 6}),
    "negative timestep": (["`timesteps` is negative at row 3"], {"timesteps": [0, 1, 2, -1, 0, 1]}),
    "negative action": (["`actions` is -1 at row 4"], {"actions": [0, 1, 2, 0, -1, 0]}),
    **{f"propensity {v}": ([f"`behavior_action_probs` is {v} at row 2"], changed("behavior_action_probs", 2, v))
       for v in (0.0, -0.1, 1.5)},
    "integers beyond floats": (["`observations` holds integers beyond 2**53"], {"observations": np.full((6, 2), 2**53 + 1)}),
    **{f"huge {n} of {v.dtype}": ([f"`{n}` is {v[0]} at row 0", "Number them anew"], {n: v})
       for n, v in (("episode_ids", np.full(6, 1e20)), ("episode_ids", np.full(6, 2**63 + 5, dtype=np.uint64)),
                    ("timesteps", np.full(6, 1e300)), ("actions", np.full(6, 2**63, dtype=np.uint64)))},
    **{f"masked {n}": ([f"`{n}` has masked entries"], {n: np.ma.array(columns()[n], mask=columns()[n] == columns()[n][3])})
       for n in ("observations", "terminations", "episode_ids")},
    **{f"missing id {v}": (["`episode_ids` is missing at row 3"], {"episode_ids": np.array(["a"] * 3 + [v, v, v], dtype=object)})
       for v in (None, float("nan"))},
    **{f"overflowing {n}": ([f"`{n}` is", "at row 2", "Rescale"], changed(n, 2, -1e121))
       for n in ("observations", "rewards", "next_observations")},
    "repeated key of ids whose differences overflow": (
        ["Rows 0 and 4 carry the same (episode, timestep) key. "],
        {
            "episode_ids": [0, 2**62, -(2**63), -(2**62), 0, 5],
            "timesteps": [0, 0, 0, 0, 0, 0],
            "terminations": np.zeros(6, dtype=bool),
        },
    ),
    "repeated key": (["Rows 3 and 4 carry the same (episode, timestep) key. "], {"timesteps": [0, 1, 2, 0, 0, 1]}),
    "repeated key later": (["Rows 3 and 5 carry the same"], {"timesteps": [0, 1, 2, 0, 1, 0]}),
    "out of order": (["Row 4 (timestep 1) comes after row 3 (timestep 2)", "sort the rows"], {"timesteps": [0, 1, 2, 2, 1, 3]}),
    "after an end": (["Row 2 follows row 1", "row 1 is terminated"], {"terminations": np.arange(6) == 1, "timesteps": None}),
}  # fmt: skip


@pytest.mark.parametrize(("needles", "changes"), REFUSED.values(), ids=REFUSED)
def test_columns_that_cannot_be_used_are_refused_with_their_row(needles, changes):
    expect_refused(*needles, **changes)


def test_what_is_close_to_a_refusal_and_legal():
    assert Transitions(**columns(behavior_action_probs=np.ones(6))).behavior_action_probs[0] == 1.0
    density = Transitions(**columns(actions=np.zeros((6, 1)), behavior_action_probs=np.full(6, 7.5)))
    assert density.behavior_action_probs[0] == 7.5
    assert len(Transitions(**columns(observations=np.arange(12).reshape(6, 2) + 2**53 - 11))) == 6
    unmasked = {name: np.ma.array(column, mask=False) for name, column in columns().items()}
    assert Transitions(**unmasked).content_hash == Transitions(**columns()).content_hash
    cut, ended = np.arange(6) == 1, np.arange(6) == 1
    assert len(Transitions(**columns(truncations=cut))) == 6  # rows after a truncation are kept
    assert (
        len(Transitions(**columns(terminations=ended, keys=False))) == 6
    )  # without keys nothing says that rows follow


# Copies


def test_a_log_pasted_twice_is_refused_by_its_keys():
    """Its episodes terminate: "give the new episode its own id" would be the wrong way out."""
    with pytest.raises(InvalidInput, match=r"Rows 0 and 6 carry the same .*5 more pairs.*keep each event once"):
        Transitions(**pasted(columns()))


FEW = {"actions": np.zeros(6, dtype=int), "rewards": np.zeros(6)}
HALVES = np.array([0.5, 1.5, 2.5, 3.5, 4.5, 4.5])
HUGE = {name: columns(40)[name] * 1e20 for name in ("observations", "next_observations")}
EQUAL = {
    "beyond 2**53 every float is whole": (pasted(columns(40, keys=False, **HUGE)), "40 rows equal|40 rows is repeated"),
    "one honest repeat": (columns(keys=False, observations=HALVES, next_observations=HALVES, **FEW), None),
    "said to be discrete": (pasted(columns(8, keys=False)) | {"discrete_observations": True}, None),
}  # fmt: skip


def validity_notes(log):
    """What the inspection says about copies."""
    return " ".join(str(item) for item in inspect_log(log) if item.kind == "copies")


@pytest.mark.parametrize(("log_columns", "words"), EQUAL.values(), ids=EQUAL)
def test_equal_rows_are_doubted_where_chance_does_not_give_them(log_columns, words):
    assert (
        re.search(words, validity_notes(Transitions(**log_columns)))
        if words
        else not validity_notes(Transitions(**log_columns))
    )


# Properties of keys


@st.composite
def interleaved(draw):
    """Episodes of 1-5 steps, their rows interleaved in any way that respects time: (episode, timestep) per row."""
    left = {episode: draw(st.integers(1, 5)) for episode in range(draw(st.integers(1, 4)))}
    length, keys = dict(left), []
    while left:
        episode = draw(st.sampled_from(sorted(left)))
        keys.append((episode, length[episode] - left[episode]))
        left[episode] -= 1
        if not left[episode]:
            del left[episode]
    return np.array(keys)


def keyed(keys, **changes):
    plain = columns(n=len(keys), keys=False, terminations=np.zeros(len(keys)), truncations=np.zeros(len(keys)))
    return plain | {"episode_ids": keys[:, 0], "timesteps": keys[:, 1]} | changes


@settings(max_examples=40)
@given(interleaved(), st.data())
def test_any_repeated_key_is_refused(keys, data):
    copied = data.draw(st.integers(0, len(keys) - 1))
    target = data.draw(st.integers(0, len(keys)))
    with pytest.raises(InvalidInput, match="keep each event once"):
        Transitions(**keyed(np.insert(keys, target, keys[copied], axis=0)))


@settings(max_examples=40)
@given(interleaved(), st.data())
def test_any_swap_of_two_rows_of_one_episode_is_refused(keys, data):
    long = [episode for episode in np.unique(keys[:, 0]) if (keys[:, 0] == episode).sum() > 1]
    assume(long)
    rows = np.flatnonzero(keys[:, 0] == data.draw(st.sampled_from(long)))
    first, second = sorted(data.draw(st.permutations(list(rows)))[:2])
    swapped = keys.copy()
    swapped[[first, second]] = keys[[second, first]]
    with pytest.raises(InvalidInput, match="sort the rows by episode and timestep"):
        Transitions(**keyed(swapped))


@settings(max_examples=40)
@given(interleaved(), st.data())
def test_a_termination_is_accepted_exactly_at_the_last_row_of_its_episode(keys, data):
    row = data.draw(st.integers(0, len(keys) - 1))
    ended = np.arange(len(keys)) == row
    later = np.flatnonzero((keys[:, 0] == keys[row, 0]) & (np.arange(len(keys)) > row))
    if later.size == 0:
        assert Transitions(**keyed(keys, terminations=ended)).terminations[row]
    else:
        with pytest.raises(InvalidInput, match=f"Row {later[0]} follows row {row} in the same episode"):
            Transitions(**keyed(keys, terminations=ended))


@settings(max_examples=20)
@given(st.lists(st.integers(0, 59), min_size=20, max_size=40, unique=True))
def test_the_warning_counts_copies_and_names_the_first(picks):
    """Rows 0..59 are distinct, and rows `picks` come again; some with a zero of the other sign."""
    plain = {name: np.concatenate([column, column[picks]]) for name, column in columns(60, keys=False).items()}
    zero = plain["rewards"] < -0.5
    plain["rewards"][zero] = np.where(np.arange(60 + len(picks)) < 60, 0.0, -0.0)[zero]
    log = Transitions(**plain)
    words = validity_notes(log)
    assert words.startswith(f"{len(picks)} rows equal an earlier row in every value (first: row 60, as row {picks[0]})")
    assert validity_notes(stream_log(plain, batch_rows=33)) == words


# The hash


def test_the_hash_is_the_one_that_certificates_were_made_with():
    """Certificates name logs by this hash: if this fails, old certificates no longer match their logs."""
    steps = np.arange(6)
    log = Transitions(
        steps[:, None] / 8, steps % 2, steps / 4, steps[:, None] / 8 + 1, steps == 5, episode_ids=steps // 3, timesteps=steps % 3
    )  # fmt: skip
    assert log.content_hash == "b3e3d5a6c01ea44d08d943d5d1442e65b647acea11008b9c51853e276f204262"
    drawn = replace(log, actions=steps[:, None] / 2, behavior_action_probs=np.full(6, 0.5))
    assert drawn.content_hash == "c8004753aee8b65bc7969d728ae9713159ae6c5ba5d9773ffae1ae7e10f939be"


def wholes(column):
    return column if column.dtype == bool else np.rint(8 * column)


LAYOUTS = {
    "lists": lambda column: column.tolist(),
    "Fortran order": np.asfortranarray,
    "backwards view": lambda column: np.ascontiguousarray(column[::-1])[::-1],
    "big-endian": lambda column: column.astype(column.dtype.newbyteorder(">")),
    "float32": lambda column: column.astype(np.float32 if column.dtype == float else column.dtype),
    "int8": lambda column: column.astype(np.int8),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_the_hash_does_not_depend_on_layout_or_type(layout):
    base = {name: wholes(column) for name, column in columns(actions=np.arange(6) % 3).items()}
    base |= {"actions": base["actions"].astype(int), "behavior_action_probs": np.ones(6)}
    log = Transitions(**{name: layout(column) for name, column in base.items()})
    assert log.content_hash == Transitions(**base).content_hash
    np.testing.assert_array_equal(log.observations, base["observations"])
    assert log.observations.flags.c_contiguous


# Initial states


@settings(max_examples=40)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.floats(-9e-7, 9e-7))
def test_weights_are_uniform_unless_given_and_normalized_where_off_by_rounding(raw, error):
    weights = np.array(raw) / np.sum(raw) * (1 + error)
    start = InitialStates.exact(np.arange(len(raw)), weights)
    assert abs(start.weights.sum() - 1) <= 1e-15 * len(raw)
    np.testing.assert_allclose(start.weights, np.array(raw) / np.sum(raw), rtol=1e-14)
    np.testing.assert_array_equal(InitialStates.exact(np.arange(len(raw))).weights, np.full(len(raw), 1 / len(raw)))


UNUSABLE = [
    (([[0.0], [1.0]], [0.5, 0.5 + 2e-6], "exact"), "sum to 1.00000"),
    (([[0.0], [1.0]], [1.5, -0.5], "exact"), "weight of initial state 1 is -0.5"),
    (([[0.0], [1.0]], [1.0], "exact"), "`initial weights` has 1 rows"),
    (([[0.0], [1.0]], [0.5, np.nan], "exact"), "`initial weights` is not finite at row 1"),
    (([[0.0], [np.inf]], [0.5, 0.5], "exact"), "`initial observations` is not finite at row 1"),
    ((np.zeros((0, 3)), [], "exact"), "no initial states"),
    ((np.zeros((2, 2, 2)), [0.5, 0.5], "exact"), "shape (2, 2, 2)"),
    (([[0.0]], [1.0], "guess"), "'guess'"),
    (([[0.0], [1.0]], [0.9, 0.1], "exact", False), "count_fixed=False"),
    (([[0.0], [1.0]], [0.6, 0.4], "sample", False), "equal weights"),
]


@pytest.mark.parametrize(("arguments", "needle"), UNUSABLE)
def test_unusable_initial_states_are_refused(arguments, needle):
    with pytest.raises(InvalidInput) as caught:
        InitialStates(*arguments)
    assert needle in str(caught.value)


@settings(max_examples=40)
@given(interleaved())
def test_the_starts_of_a_log_are_its_rows_at_time_0_in_row_order(keys):
    log = Transitions(**keyed(keys))
    start = InitialStates.from_log(log)
    np.testing.assert_array_equal(start.observations, log.observations[keys[:, 1] == 0])
    assert (start.kind, start.count_fixed) == ("log", False)
    drawn = InitialStates.from_log(log, population="iid")
    assert (drawn.kind, drawn.count_fixed) == ("sample", False)


def test_without_ids_a_row_after_an_end_starts_an_episode():
    log = Transitions(**columns(keys=False))
    np.testing.assert_array_equal(InitialStates.from_log(log).observations, log.observations[[0, 3]])
    cut = Transitions(**columns(keys=False, terminations=np.zeros(6), truncations=[0, 1, 0, 0, 1, 1]))
    np.testing.assert_array_equal(InitialStates.from_log(cut).observations, cut.observations[[0, 2, 5]])


def test_an_episode_recorded_from_its_middle_has_no_start():
    log = Transitions(**columns(timesteps=[0, 1, 2, 4, 5, 6]))
    with pytest.raises(InvalidInput, match="episode of row 3 starts at timestep 4, not 0"):
        InitialStates.from_log(log)
