"""The log, the initial distribution and ordered blocks: what is kept, what is refused, what the hash sees."""

import hashlib
import inspect
import warnings
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bondic import Blocks, InitialStates, InvalidInput, RowRange, Transitions, ValidityWarning

COLUMNS = (
    "observations",
    "actions",
    "rewards",
    "next_observations",
    "terminations",
    "truncations",
    "episode_ids",
    "timesteps",
    "behavior_action_probs",
)


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


def test_every_value_and_the_order_of_rows_are_kept():
    given_columns = columns()
    log = Transitions(**given_columns)
    assert len(log) == 6
    for name, column in given_columns.items():
        np.testing.assert_array_equal(getattr(log, name), column)
    assert log.discrete_actions
    assert [log.observations.dtype, log.actions.dtype, log.terminations.dtype] == [np.float64, np.int64, np.bool_]


def test_missing_optional_columns_stay_missing_and_truncations_default_to_none_cut():
    log = Transitions(**{name: columns()[name] for name in COLUMNS[:5]})
    assert log.episode_ids is None
    assert log.timesteps is None
    assert log.behavior_action_probs is None
    np.testing.assert_array_equal(log.truncations, np.zeros(6, dtype=bool))


def test_a_log_is_frozen_and_its_arrays_are_read_only():
    log = Transitions(**columns())
    with pytest.raises(FrozenInstanceError):
        log.rewards = np.zeros(6)
    for name in COLUMNS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(log, name)[0] = 0


def test_logs_starts_and_blocks_are_frozen_and_arrays_make_them_compare_by_identity():
    for thing, name in ((RowRange(0, 1), "stop"), (Blocks((2,)), "ends"), (InitialStates.exact([0.0]), "weights")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, name, 3)
    log = Transitions(**columns())
    assert len({log, replace(log), InitialStates.exact([0.0]), InitialStates.exact([0.0])}) == 4
    assert sorted([RowRange(3, 4), RowRange(0, 5), RowRange(0, 2)])[0] == RowRange(0, 2)


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


def test_string_episode_ids_are_coded_by_first_appearance():
    log = Transitions(**columns(episode_ids=["zebra"] * 3 + ["ant"] * 3))
    np.testing.assert_array_equal(log.episode_ids, [0, 0, 0, 1, 1, 1])


def test_repr_tells_size_kind_and_hash():
    log = Transitions(**columns())
    assert repr(log) == (
        f"Transitions(n=6, observation_dim=2, actions=discrete, terminations=1, hash={log.content_hash[:12]})"
    )
    assert "actions=2-d" in repr(Transitions(**columns(actions=np.zeros((6, 2)))))


def test_nothing_in_the_data_package_reorders_rows():
    for kind in (Transitions, InitialStates, Blocks, RowRange):
        public = [name for name, _ in inspect.getmembers(kind) if not name.startswith("_")]
        assert not [name for name in public if "shuffle" in name or "permut" in name or "sort" in name]


# What is refused: values


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["observations", "rewards", "next_observations", "behavior_action_probs"])
def test_non_finite_numbers_are_refused_with_their_row(name, bad):
    column = columns()[name].copy()
    column[4] = bad
    expect_refused(f"`{name}` is not finite at row 4", "repair the value", "Never drop a row", **{name: column})


def test_non_finite_continuous_actions_are_refused_with_their_row():
    actions = np.zeros((6, 2))
    actions[3, 1] = np.nan
    expect_refused("`actions` is not finite at row 3", actions=actions)


@pytest.mark.parametrize("name", COLUMNS[1:])
def test_columns_of_another_length_are_refused_with_both_lengths(name):
    expect_refused(f"`{name}` has 5 rows, the observations have 6", "one entry per row", **{name: columns()[name][:5]})


@pytest.mark.parametrize("name", COLUMNS)
def test_ragged_columns_are_refused_by_name(name):
    expect_refused(f"`{name}` cannot be read as an array", "equal length", **{name: [[1.0], [1.0, 2.0], 3, 4, 5, 6]})


@pytest.mark.parametrize("name", COLUMNS)
def test_arrays_with_too_many_axes_are_refused_with_their_shape(name):
    expect_refused(f"`{name}` has shape (6, 2, 2)", "needed", **{name: np.zeros((6, 2, 2))})


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "next_observations", "behavior_action_probs"])
@pytest.mark.parametrize("column", [["a"] * 6, [None] * 6, [1j] * 6], ids=["text", "None", "complex"])
def test_columns_that_are_not_numbers_are_refused_by_name(name, column):
    expect_refused(f"`{name}` has dtype", "numbers are needed", **{name: column})


def test_next_observations_of_another_dimension_are_refused_with_both_shapes():
    expect_refused("`next_observations` has shape (6, 3)", "`observations` (6, 2)", next_observations=np.zeros((6, 3)))


def test_observations_without_columns_are_refused():
    expect_refused("`observations` has shape (6, 0)", observations=np.zeros((6, 0)))


@pytest.mark.parametrize("observations", [np.zeros((0, 2)), []], ids=["no rows", "empty list"])
def test_an_empty_log_is_refused(observations):
    with pytest.raises(InvalidInput, match=r"The log is empty\. An interval needs at least one transition"):
        Transitions(observations, [], [], observations, [])


@pytest.mark.parametrize("name", ["terminations", "truncations"])
@pytest.mark.parametrize("bad", [2.0, 0.5, np.nan, -1.0])
def test_flags_that_are_neither_true_nor_false_are_refused_with_their_row(name, bad):
    column = columns()[name].astype(float)
    column[1] = bad
    expect_refused(f"`{name}` must be true/false", f"row 1: {bad}", **{name: column})


@pytest.mark.parametrize("name", ["timesteps", "episode_ids"])
@pytest.mark.parametrize("bad", [0.5, np.nan, np.inf])
def test_keys_that_are_not_whole_numbers_are_refused_with_their_row(name, bad):
    column = columns()[name].astype(float)
    column[3] = bad
    expect_refused(f"`{name}` is {bad} at row 3", "whole numbers are needed", **{name: column})


def test_text_timesteps_are_refused():
    expect_refused("`timesteps` has dtype", "whole numbers", timesteps=["a"] * 6)


def test_negative_timesteps_are_refused():
    expect_refused("`timesteps` is negative at row 3", "starts at 0", timesteps=[0, 1, 2, -1, 0, 1])


def test_negative_actions_are_refused():
    expect_refused("`actions` is -1 at row 4", "0, 1, 2", actions=[0, 1, 2, 0, -1, 0])


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.5])
def test_behavior_probabilities_outside_their_range_are_refused(bad):
    probs = np.full(6, 0.5)
    probs[2] = bad
    expect_refused(f"`behavior_action_probs` is {bad} at row 2", "positive", "at most 1", behavior_action_probs=probs)


def test_a_behavior_probability_may_be_1_and_a_density_more():
    assert Transitions(**columns(behavior_action_probs=np.ones(6))).behavior_action_probs[0] == 1.0
    log = Transitions(**columns(actions=np.zeros((6, 1)), behavior_action_probs=np.full(6, 7.5)))
    assert log.behavior_action_probs[0] == 7.5


def test_integers_that_floats_cannot_hold_are_refused():
    expect_refused("`observations` holds integers beyond 2**53", "Rescale", observations=np.full((6, 2), 2**53 + 1))
    assert len(Transitions(**columns(observations=np.arange(12).reshape(6, 2) + 2**53 - 11))) == 6


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("episode_ids", np.array([1e20, 1e20, 1e20, 2e20, 2e20, 2e20])),
        ("episode_ids", np.full(6, 2**63 + 5, dtype=np.uint64)),
        ("timesteps", np.full(6, 1e300)),
        ("actions", np.full(6, 2**63, dtype=np.uint64)),
    ],
)
def test_whole_numbers_beyond_64_bits_are_refused_and_never_wrapped(name, column):
    expect_refused(f"`{name}` is {column[0]} at row 0", "Number them anew", **{name: column})


@pytest.mark.parametrize("name", COLUMNS)
def test_masked_entries_are_refused(name):
    """The array below a mask holds anything at all."""
    hidden = np.zeros(columns()[name].shape, dtype=bool)
    hidden[3] = True
    expect_refused(f"`{name}` has masked entries", **{name: np.ma.array(columns()[name], mask=hidden)})
    shown = columns() | {name: np.ma.array(columns()[name], mask=False)}
    assert Transitions(**shown).content_hash == Transitions(**columns()).content_hash


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_missing_episode_ids_are_refused(missing):
    ids = np.array(["a", "a", "a", missing, missing, "b"], dtype=object)
    expect_refused("`episode_ids` is missing at row 3", episode_ids=ids)


@pytest.mark.parametrize("name", ["observations", "rewards", "next_observations"])
def test_numbers_whose_squares_overflow_are_refused(name):
    column = columns()[name].copy()
    column[2] = -1e121
    expect_refused(f"`{name}` is", "at row 2", "Rescale", **{name: column})


# What is refused: keys, order, copies


@pytest.mark.parametrize(("times", "rows"), [([0, 0, 1], "3 and 4"), ([0, 1, 0], "3 and 5")])
def test_repeated_keys_are_refused_with_both_rows(times, rows):
    reason = f"Rows {rows} carry the same (episode, timestep) key. "
    expect_refused(reason, "not new data", "keep each event once", timesteps=[0, 1, 2, *times])


@pytest.mark.parametrize("terminated", [True, False])
def test_a_log_pasted_twice_is_refused_by_its_keys(terminated):
    """Also when its episodes terminate: "give the new episode its own id" would be the wrong way out."""
    log_columns = columns(terminations=columns()["terminations"] & terminated)
    with pytest.raises(InvalidInput, match="Rows 0 and 6 carry the same") as caught:
        Transitions(**pasted(log_columns))
    assert "and 5 more pairs: is the log pasted twice?" in str(caught.value)
    assert "keep each event once" in str(caught.value)


def test_rows_out_of_time_order_within_an_episode_are_refused_with_both_rows_and_times():
    expect_refused(
        "Row 4 (timestep 1) comes after row 3 (timestep 2)",
        "order of time",
        "sort the rows by episode and timestep",
        timesteps=[0, 1, 2, 2, 1, 3],
    )


def test_rows_after_a_termination_are_refused_with_both_rows():
    ended = np.zeros(6, dtype=bool)
    ended[1] = True
    expect_refused(
        "Row 2 follows row 1", "row 1 is terminated", "drop rows whose action was not carried out", terminations=ended
    )
    expect_refused("Row 2 follows row 1", terminations=ended, timesteps=None)
    assert len(Transitions(**columns(terminations=ended, keys=False))) == 6


def test_rows_after_a_truncation_are_kept():
    cut = np.zeros(6, dtype=bool)
    cut[1] = True
    assert len(Transitions(**columns(truncations=cut))) == 6


def test_a_pasted_continuous_log_without_keys_warns_counts_and_keeps_every_row():
    with pytest.warns(ValidityWarning, match="6 rows equal an earlier row in every value") as caught:
        log = Transitions(**pasted(columns(keys=False)))
    assert len(log) == 12
    text = str(caught[0].message)
    assert "first: row 6, a copy of row 0" in text
    assert "pass episode_ids and timesteps, or remove them" in text
    assert "They are kept" in text
    assert caught[0].filename == __file__


def test_the_way_out_of_equal_one_step_rows_is_one_that_they_have():
    states = np.array([[0.5], [1.5], [0.5]])
    with pytest.warns(ValidityWarning, match="pass episode_ids, or remove them"):
        Transitions.one_step(states, [0, 1, 0], [1.0, 0.0, 1.0])
    assert len(Transitions.one_step(states, [0, 1, 0], [1.0, 0.0, 1.0], episode_ids=[0, 1, 2])) == 3


def test_zero_and_minus_zero_are_the_same_value_to_the_warning():
    signs = np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    zeros = {"rewards": 0.0 * signs, "actions": np.zeros(6, dtype=int)}
    states = np.array([0.5, 1.5, 2.5, 3.5, 4.5, 4.5])
    with pytest.warns(ValidityWarning, match=r"1 rows equal .* row 5, a copy of row 4"):
        Transitions(**columns(keys=False, observations=states, next_observations=states, **zeros))


def test_episode_ids_alone_do_not_tell_copies_so_the_warning_stays():
    with pytest.warns(ValidityWarning, match="6 rows equal"):
        Transitions(**pasted(columns(keys=False, terminations=np.zeros(6), episode_ids=np.repeat([0, 1], 3))))


def test_equal_rows_of_discrete_observations_are_silent():
    whole = {"observations": np.tile([[0.0], [1.0]], (3, 1)), "next_observations": np.zeros((6, 1))}
    same = {"actions": np.zeros(6, dtype=int), "rewards": np.zeros(6)}
    log = Transitions(**pasted(columns(keys=False, **whole, **same)))
    assert len(log) == 12
    assert log.discrete_observations


def test_the_user_may_say_whether_observations_are_discrete():
    halves = {"observations": np.full((6, 1), 0.5), "next_observations": np.full((6, 1), 0.5)}
    same = {"actions": np.zeros(6, dtype=int), "rewards": np.zeros(6)}
    assert len(Transitions(**columns(keys=False, **halves, **same), discrete_observations=True)) == 6
    whole = {"observations": np.ones((6, 1)), "next_observations": np.ones((6, 1))}
    with pytest.warns(ValidityWarning, match="5 rows equal"):
        Transitions(**columns(keys=False, **whole, **same), discrete_observations=False)


def test_huge_floats_are_not_taken_for_discrete_observations():
    """Beyond 2**53 every float is a whole number."""
    huge = {name: columns()[name] * 1e20 for name in ("observations", "next_observations")}
    with pytest.warns(ValidityWarning, match="6 rows equal"):
        Transitions(**pasted(columns(keys=False, **huge)))


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "next_observations"])
def test_rows_that_differ_in_one_value_are_not_copies(name):
    one = columns(n=1, keys=False)
    two = {key: np.concatenate([column, column]) for key, column in one.items()} | {"terminations": [False, False]}
    two[name] = two[name].copy()
    two[name][1] += 1
    assert len(Transitions(**two)) == 2


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
@given(interleaved())
def test_any_interleaving_that_respects_time_is_accepted(keys):
    log = Transitions(**keyed(keys))
    np.testing.assert_array_equal(np.stack([log.episode_ids, log.timesteps], axis=1), keys)


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


@settings(max_examples=40)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_the_warning_counts_copies_and_names_the_first(picks):
    """Rows 0..5 are distinct; taking rows `picks` makes len(picks) - distinct copies."""
    plain = {name: column[picks] for name, column in columns(keys=False).items()}
    copies = [row for row, pick in enumerate(picks) if pick in picks[:row]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = Transitions(**plain)
    assert len(log) == len(picks)
    if not copies:
        assert not caught
        return
    origin = picks.index(picks[copies[0]])
    assert f"{len(copies)} rows equal an earlier row" in str(caught[0].message)
    assert f"first: row {copies[0]}, a copy of row {origin})" in str(caught[0].message)


# The hash


def slow_hash(log):
    """SHA-256 over every column's name, little-endian type, row shape and the SHA-256 of its bytes, row by row."""
    digest = hashlib.sha256(f"bondic transitions 2|{len(log)}".encode())
    types = {"actions": "<i8", "episode_ids": "<i8", "timesteps": "<i8", "terminations": "|b1", "truncations": "|b1"}
    for name in COLUMNS:
        column, inner = getattr(log, name), hashlib.sha256()
        form = "none"
        if column is not None:
            kind = types.get(name, "<f8") if column.ndim == 1 else "<f8"
            form = f"{kind}:{column.shape[1:]}"
            for value in column.ravel().tolist():
                inner.update(np.array(value).astype(kind).tobytes())
        digest.update(f"|{name}:{form}:{inner.hexdigest()}".encode())
    return digest.hexdigest()


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("actions", [np.arange(6) % 3, np.linspace(0, 1, 12).reshape(6, 2)])
def test_the_hash_is_the_one_that_certificates_were_made_with(keys, actions):
    """Certificates name logs by this hash: if this fails, old certificates no longer match their logs."""
    log = Transitions(**columns(keys=keys, actions=actions))
    assert log.content_hash == slow_hash(log)


def changed_once():
    """The same log with one thing changed, under the name of the change."""
    base = columns()
    for row in range(6):
        for name in ("observations", "actions", "rewards", "next_observations"):
            column = base[name].copy()
            column[row] += 1
            yield f"{name} {row}", base | {name: column}
        yield f"truncations {row}", base | {"truncations": base["truncations"] ^ (np.arange(6) == row)}
        probs = base["behavior_action_probs"] * np.where(np.arange(6) == row, 0.5, 1.0)
        yield f"behavior_action_probs {row}", base | {"behavior_action_probs": probs}
    for row in (2, 5):
        yield f"terminations {row}", base | {"terminations": base["terminations"] ^ (np.arange(6) == row)}
        yield f"timesteps {row}", base | {"timesteps": base["timesteps"] + (np.arange(6) == row)}
    yield "second episode id", base | {"episode_ids": 5 * base["episode_ids"]}
    for name in ("episode_ids", "timesteps", "behavior_action_probs"):
        yield f"no {name}", base | {name: None}
    yield "one row less", {name: column[:5] for name, column in base.items()}
    yield "actions as floats", base | {"actions": base["actions"].astype(float)}
    yield "episodes swapped", {name: np.roll(column, 3, axis=0) for name, column in base.items()}
    yield "one unit in the last place", base | {"rewards": np.nextafter(base["rewards"], 2.0)}


def test_any_change_of_content_changes_the_hash():
    hashes = {"unchanged": Transitions(**columns()).content_hash}
    hashes |= {name: Transitions(**changed).content_hash for name, changed in changed_once()}
    assert len(hashes) == 49
    assert len(set(hashes.values())) == len(hashes)


def strided(array):
    wide = np.repeat(array, 2, axis=0)
    return wide[::2]


LAYOUTS = {
    "lists": lambda column: column.tolist(),
    "Fortran order": np.asfortranarray,
    "every second row of another array": strided,
    "backwards view": lambda column: np.ascontiguousarray(column[::-1])[::-1],
    "big-endian": lambda column: column.astype(column.dtype.newbyteorder(">")),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("actions", [np.arange(6) % 3, np.linspace(0, 1, 12).reshape(6, 2)], ids=["discrete", "2-d"])
def test_the_hash_does_not_depend_on_memory_layout(layout, actions):
    base = columns(actions=actions)
    log = Transitions(**{name: layout(column) for name, column in base.items()})
    assert log.content_hash == Transitions(**base).content_hash
    np.testing.assert_array_equal(log.observations, base["observations"])
    assert log.observations.flags.c_contiguous


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.longdouble, np.int8, np.uint16, np.int64])
def test_the_hash_does_not_depend_on_the_type_that_held_the_values(kind):
    whole = columns(
        observations=np.arange(12).reshape(6, 2), next_observations=np.arange(1, 13).reshape(6, 2), rewards=np.arange(6)
    )
    names = ("observations", "next_observations", "rewards", "timesteps", "episode_ids", "terminations", "truncations")
    log = Transitions(**whole | {name: whole[name].astype(kind) for name in names})
    assert log.content_hash == Transitions(**whole).content_hash


@settings(max_examples=30)
@given(st.permutations(range(6)))
def test_the_hash_sees_the_order_of_rows(order):
    plain = columns(keys=False)
    shuffled = Transitions(**{name: column[list(order)] for name, column in plain.items()})
    assert (shuffled.content_hash == Transitions(**plain).content_hash) == (list(order) == list(range(6)))


# Initial states


def test_an_exact_list_is_uniform_unless_weights_are_given():
    start = InitialStates.exact([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
    assert (start.kind, start.count_fixed, len(start)) == ("exact", True, 4)
    np.testing.assert_array_equal(start.weights, [0.25] * 4)
    np.testing.assert_array_equal(InitialStates.exact([[0.0], [1.0]], [0.25, 0.75]).weights, [0.25, 0.75])


def test_a_sample_is_uniform_and_says_whether_its_size_was_fixed():
    start = InitialStates.sample(np.arange(10).reshape(5, 2))
    assert (start.kind, start.count_fixed, start.observations.shape) == ("sample", True, (5, 2))
    np.testing.assert_allclose(start.weights, 0.2, rtol=1e-15)
    assert not InitialStates.sample(np.arange(5), count_fixed=False).count_fixed


@settings(max_examples=40)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20), st.floats(-9e-7, 9e-7))
def test_weights_off_by_rounding_are_normalized(raw, error):
    weights = np.array(raw) / np.sum(raw) * (1 + error)
    start = InitialStates.exact(np.arange(len(raw)), weights)
    assert abs(start.weights.sum() - 1) <= 1e-15 * len(raw)
    np.testing.assert_allclose(start.weights, np.array(raw) / np.sum(raw), rtol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (([[0.0], [1.0]], [0.5, 0.6]), ["sum to 1.1, not 1", "Divide by their sum"]),
        (([[0.0], [1.0]], [0.5, 0.5 + 2e-6]), ["sum to 1.00000", "not 1"]),
        (([[0.0], [1.0]], [1.5, -0.5]), ["weight of initial state 1 is -0.5", ">= 0"]),
        (([[0.0], [1.0]], [1.0]), ["`initial weights` has 1 rows"]),
        (([[0.0], [1.0]], [0.5, np.nan]), ["`initial weights` is not finite at row 1"]),
        (([[0.0], [np.inf]],), ["`initial observations` is not finite at row 1"]),
        (([],), ["no initial states", "place to start"]),
        ((np.zeros((0, 3)),), ["no initial states"]),
        ((np.zeros((2, 2, 2)),), ["`initial observations` has shape (2, 2, 2)"]),
    ],
)
def test_unusable_initial_states_are_refused(arguments, needles):
    with pytest.raises(InvalidInput) as caught:
        InitialStates.exact(*arguments)
    for needle in needles:
        assert needle in str(caught.value)


def test_an_unknown_kind_of_initial_states_is_refused():
    with pytest.raises(InvalidInput, match="'guess'; it is 'exact' or 'sample'"):
        InitialStates([[0.0]], [1.0], "guess")


def test_a_size_that_was_not_fixed_is_for_samples():
    """Its error bound counts states and knows no weights."""
    with pytest.raises(InvalidInput, match="count_fixed=False is for a sample"):
        InitialStates([[0.0], [1.0]], [0.9, 0.1], "exact", False)


@pytest.mark.parametrize("count_fixed", [True, False])
def test_a_sample_with_unequal_weights_is_refused(count_fixed):
    with pytest.raises(InvalidInput, match=r"equal weights\. Use InitialStates\.exact for a weighted list"):
        InitialStates([[0.0], [1.0]], [0.6, 0.4], "sample", count_fixed)


def test_an_empty_sample_is_refused():
    with pytest.raises(InvalidInput, match="no initial states"):
        InitialStates.sample([])


def test_initial_states_are_read_only_copies():
    states, weights = np.array([[0.0], [1.0]]), np.array([0.5, 0.5])
    start = InitialStates.exact(states, weights)
    states[0], weights[0] = 9.0, 9.0
    np.testing.assert_array_equal(start.observations, [[0.0], [1.0]])
    np.testing.assert_array_equal(start.weights, [0.5, 0.5])
    for field in fields(start)[:2]:
        with pytest.raises(ValueError, match="read-only"):
            getattr(start, field.name)[0] = 1.0


@settings(max_examples=40)
@given(interleaved())
def test_the_starts_of_a_log_are_its_rows_at_time_0_in_row_order(keys):
    log = Transitions(**keyed(keys))
    start = InitialStates.from_log(log)
    np.testing.assert_array_equal(start.observations, log.observations[keys[:, 1] == 0])
    assert (start.kind, start.count_fixed) == ("sample", False)


def test_without_ids_a_row_after_an_end_starts_an_episode():
    log = Transitions(**columns(keys=False))
    np.testing.assert_array_equal(InitialStates.from_log(log).observations, log.observations[[0, 3]])
    cut = Transitions(**columns(keys=False, terminations=np.zeros(6), truncations=[0, 1, 0, 0, 1, 1]))
    np.testing.assert_array_equal(InitialStates.from_log(cut).observations, cut.observations[[0, 2, 5]])


def test_without_times_the_first_row_of_each_id_is_a_start():
    log = Transitions(**columns(timesteps=None))
    np.testing.assert_array_equal(InitialStates.from_log(log).observations, log.observations[[0, 3]])


def test_starts_cannot_be_read_off_a_log_without_ids_or_ends():
    log = Transitions(**columns(keys=False, terminations=np.zeros(6), truncations=np.zeros(6)))
    with pytest.raises(InvalidInput, match="neither episode ids nor episode ends") as caught:
        InitialStates.from_log(log)
    assert "InitialStates.exact(states) or InitialStates.sample(states)" in str(caught.value)


@pytest.mark.parametrize("ids", [[0, 0, 0, 1, 1, 1], None])
def test_an_episode_recorded_from_its_middle_has_no_start(ids):
    log = Transitions(**columns(timesteps=[0, 1, 2, 4, 5, 6], episode_ids=ids))
    with pytest.raises(InvalidInput, match="episode of row 3 starts at timestep 4, not 0") as caught:
        InitialStates.from_log(log)
    assert "Pass the initial states yourself" in str(caught.value)


# Blocks and ranges of rows


@settings(max_examples=60)
@given(st.integers(1, 200), st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_blocks_cover_the_rows_before_their_last_end_once_and_in_order(n, parts):
    blocks = Blocks.fractions(n, *parts)
    covered = [row for block in blocks for row in range(block.start, block.stop)]
    assert covered == list(range(blocks.ends[-1]))
    assert blocks.ends[-1] == min(n, max(1, round(max(parts) * n)))
    assert len(blocks) == len(list(blocks))
    assert all(blocks[index] == block for index, block in enumerate(blocks))
    assert all(len(block) > 0 for block in blocks)


@pytest.mark.parametrize("ends", [(), (0,), (3, 3), (5, 2), (-1, 4)])
def test_block_ends_that_do_not_increase_from_0_are_refused(ends):
    with pytest.raises(InvalidInput, match="must increase and start above 0"):
        Blocks(ends)


@pytest.mark.parametrize("part", [np.nan, -0.1, 1.1])
def test_fractions_outside_0_to_1_are_refused(part):
    with pytest.raises(InvalidInput, match=r"Fractions lie in \[0, 1\]"):
        Blocks.fractions(10, part, 1.0)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3)])
def test_impossible_ranges_are_refused(start, stop):
    with pytest.raises(InvalidInput, match=f"Rows {start} to {stop} are not a range of rows"):
        RowRange(start, stop)


ranges = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(lambda ends: RowRange(min(ends), max(ends)))


@given(ranges, ranges)
def test_ranges_overlap_when_they_share_a_row(one, other):
    shared = set(range(one.start, one.stop)) & set(range(other.start, other.stop))
    assert one.overlaps(other) == other.overlaps(one) == bool(shared)
    assert len(one) == len(range(one.start, one.stop))


def test_ranges_print_their_first_and_last_row():
    assert str(RowRange(3, 7)) == "rows 3..6"
    assert str(RowRange(3, 3)) == "no rows"
