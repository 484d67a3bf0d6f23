"""Reading logs: the same log in every format is the same log; what cannot be used is refused with its row."""

from __future__ import annotations

import importlib
import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bondic.core.errors import InvalidInput, one_line
from bondic.data.io.read import read_log
from bondic.data.transitions import Transitions
from bondic.errors import ValidityWarning, shown

EPISODES, STEPS = 6, 5
N = EPISODES * STEPS


def whole_log(*, scores=True, seed=3):
    """Six episodes of five steps, each terminated: nothing is lost when next observations are not stored."""
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(N, 2))
    last = np.arange(N) % STEPS == STEPS - 1
    following = np.roll(observations, -1, axis=0)
    following[last] = 0.0
    out = {
        "observations": observations,
        "actions": rng.integers(0, 3, size=N),
        "rewards": rng.normal(size=N),
        "next_observations": following,
        "terminations": last,
        "truncations": np.zeros(N, dtype=bool),
        "episode_ids": np.arange(N) // STEPS,
        "timesteps": np.arange(N) % STEPS,
    }
    return out | ({"behavior_action_probs": rng.uniform(0.2, 1.0, size=N)} if scores else {})


def arrow(data, *, lists=True):
    out = {}
    for name, column in data.items():
        if column.ndim == 1:
            out[name] = pa.array(column)
        elif lists:
            out[name] = pa.array(column.tolist())
        else:
            out |= {f"{name}_{k}": pa.array(column[:, k]) for k in range(column.shape[1])}
    return pa.table(out)


def csv_text(data, separator=","):
    wide = arrow(data, lists=False)
    lines = [separator.join(wide.column_names)]
    lines += [separator.join(repr(value) for value in row.values()) for row in wide.to_pylist()]
    return "\n".join(lines) + "\n"


def refused(words, source, **options):
    with pytest.raises(InvalidInput, match=words):
        read_log(source, **options)


def write_parquet_file(data, where):
    pq.write_table(arrow(data), where / "log.parquet")
    return where / "log.parquet"


def write_csv(data, where, separator=","):
    (where / "log.csv").write_text(csv_text(data, separator))
    return where / "log.csv"


def write_csv_lists(data, where):
    lists = {k: [str(row) for row in v.tolist()] if v.ndim == 2 else v.tolist() for k, v in data.items()}
    rows = ["|".join(lists)] + ["|".join(map(str, row)) for row in zip(*lists.values(), strict=True)]
    (where / "log.tsv").write_text("\n".join(rows).replace("|", "\t"))
    return where / "log.tsv"


def write_npz(data, where):
    np.savez_compressed(where / "log.npz", **data)
    return where / "log.npz"


def write_records(data, where):
    shapes = [(name, column.dtype, column.shape[1:]) for name, column in data.items()]
    records = np.zeros(N, dtype=shapes)
    for name, column in data.items():
        records[name] = column
    np.save(where / "log.npy", records)
    return where / "log.npy"


def write_pickle(data, where):
    (where / "log.pkl").write_bytes(pickle.dumps(data))
    return where / "log.pkl"


def to_pandas(data, _):
    pandas = importlib.import_module("pandas")
    return pandas.DataFrame({name: list(column) if column.ndim > 1 else column for name, column in data.items()})


TABULAR = {
    "parquet": write_parquet_file,
    "csv": write_csv,
    "csv semicolons": lambda data, where: write_csv(data, where, ";"),
    "csv lists": write_csv_lists,
    "npz": write_npz,
    "npy records": write_records,
    "pickle": write_pickle,
    "dict": lambda data, _: data,
    "lists": lambda data, _: {name: column.tolist() for name, column in data.items()},
    "pyarrow": lambda data, _: arrow(data),
    "to_arrow": lambda data, _: SimpleNamespace(to_arrow=lambda: arrow(data, lists=False)),
    "record batch": lambda data, _: arrow(data).to_batches()[0],
    "pandas": to_pandas,
    "polars": lambda data, _: importlib.import_module("polars").DataFrame({k: v.tolist() for k, v in data.items()}),
}


@pytest.mark.parametrize("form", TABULAR)
def test_the_same_log_in_every_format_has_the_same_hash(form, tmp_path):
    data = whole_log()
    loaded = read_log(TABULAR[form](data, tmp_path), trust_pickle=form == "pickle")
    expected = Transitions(**data)
    assert loaded.transitions.content_hash == expected.content_hash
    for name, column in expected.columns().items():
        np.testing.assert_array_equal(getattr(loaded.transitions, name), column, err_msg=name)
    assert loaded.transitions.discrete_actions
    assert len(loaded.names) == 2


# Formats that keep episodes, or no next observations


def d4rl(data):
    """The arrays of a file of D4RL, as h5py gives them."""
    ends = {"terminals": data["terminations"], "timeouts": data["truncations"]}
    return {name: data[name] for name in ("observations", "actions", "rewards")} | ends


def episodes(data):
    """What a Minari dataset looks like: T + 1 observations in an episode, and T of everything else."""
    for episode in range(EPISODES):
        rows = slice(episode * STEPS, (episode + 1) * STEPS)
        states = np.vstack([data["observations"][rows], data["next_observations"][rows][-1:]])
        names = ("actions", "rewards", "terminations", "truncations")
        yield SimpleNamespace(id=episode, observations=states, **{name: data[name][rows] for name in names})


def minari_dataset(data):
    return SimpleNamespace(iterate_episodes=lambda: episodes(data), total_episodes=EPISODES)


@pytest.mark.parametrize("form", [d4rl, minari_dataset])
def test_formats_by_episode_give_the_same_log(form):
    data = whole_log(scores=False)
    assert read_log(form(data)).transitions.content_hash == Transitions(**data).content_hash


def test_episodes_that_do_not_fit_are_refused():
    bad = [SimpleNamespace(**(vars(one) | {"actions": one.actions[:-1]})) for one in episodes(whole_log())]
    refused("entries for", SimpleNamespace(iterate_episodes=lambda: bad, total_episodes=EPISODES))


def test_truncated_episodes_lose_the_row_whose_next_observation_was_not_kept():
    data = whole_log(scores=False)
    ends = data["terminations"] & (data["episode_ids"] % 2 == 0)
    data["terminations"], data["truncations"] = data["terminations"] & ~ends, ends
    loaded = read_log(d4rl(data))
    kept = {name: column[~ends] for name, column in data.items()}
    assert loaded.transitions.content_hash == Transitions(**kept).content_hash
    assert any("depends on time only" in note for note in loaded.notes)


def test_truncated_rows_stay_where_the_last_observation_is_kept_and_rows_may_interleave():
    data = whole_log(scores=False)
    data["truncations"], data["terminations"] = data["terminations"], data["truncations"]
    data["next_observations"] = data["next_observations"] + data["truncations"][:, None] * 0.5
    loaded = read_log(minari_dataset(data))
    assert loaded.transitions.content_hash == Transitions(**data).content_hash
    order = np.argsort(data["timesteps"], kind="stable")
    mixed = {name: column[order] for name, column in whole_log(scores=False).items()}
    bare = {name: column for name, column in mixed.items() if name != "next_observations"}
    assert read_log(bare).transitions.content_hash == Transitions(**mixed).content_hash


@pytest.mark.train
@pytest.mark.parametrize("storage", ["hdf5", "arrow"])
def test_minari_itself_writes_what_is_read(storage, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    data = whole_log(scores=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari = importlib.import_module("minari")
        spaces = importlib.import_module("gymnasium").spaces
        buffers = []
        for episode in range(EPISODES):
            rows = slice(episode * STEPS, (episode + 1) * STEPS)
            states = np.vstack([data["observations"][rows], data["next_observations"][rows][-1:]])
            names = ("actions", "rewards", "terminations", "truncations")
            buffers.append(
                minari.data_collector.EpisodeBuffer(observations=states, **{k: data[k][rows] for k in names})
            )
        dataset = minari.create_dataset_from_buffers(
            "demo/test-v0", buffers, observation_space=spaces.Box(-np.inf, np.inf, (2,), np.float64),
            action_space=spaces.Discrete(3), data_format=storage,
        )  # fmt: skip
        given_object = read_log(dataset)
        by_name = read_log("minari:demo/test-v0")
    assert given_object.transitions.content_hash == Transitions(**data).content_hash
    assert by_name.transitions.content_hash == given_object.transitions.content_hash
    refused("no local dataset nobody/nothing-v0", "minari:nobody/nothing-v0")


def test_nested_observations_are_flattened_in_the_order_of_their_keys():
    data = whole_log()
    for part in ("observations", "next_observations"):
        data[part] = {"x": data[part][:, 0], "y": (data[part][:, 1:], data[part])}
    loaded = read_log(data)
    assert loaded.names == ("observations.x", "observations.y.0", "observations.y.1_0", "observations.y.1_1")
    np.testing.assert_array_equal(loaded.transitions.observations[:, [0, 1]], whole_log()["observations"])


# Next observations from following rows


def without_next(**changes):
    data = whole_log(scores=False) | changes
    del data["next_observations"]
    return data


def test_nothing_is_built_across_unknown_cuts():
    data = without_next()
    for name in ("episode_ids", "truncations", "timesteps"):
        del data[name]
    refused("episodes were cut off", data)
    loaded = read_log(data, columns={"truncations": None})
    assert loaded.transitions.content_hash == Transitions(**whole_log(scores=False)).content_hash


def test_an_end_that_nobody_marked_is_a_doubt():
    data = without_next(terminations=np.zeros(N, dtype=bool))
    with pytest.warns(ValidityWarning, match="recording stopped for reasons known before"):
        loaded = read_log(data)
    assert len(loaded.transitions) == N - EPISODES


# Categories and gaps


def clinic(**changes):
    """Two named dimensions, one of them text, with text actions."""
    base = {
        "episode": [0, 0, 0, 1, 1],
        "ward": ["icu", "er", "er", "icu", "ward"],
        "bmi": [20.0, 21.0, 22.0, 30.0, 31.0],
        "drug": ["none", "b", "a", "a", "none"],
        "reward": [0.0, 1.0, 0.5, 0.0, 1.0],
        "terminated": [False, False, True, False, True],
    }
    return base | changes


OBS = {"observations": ["ward", "bmi"], "actions": "drug"}


def test_text_becomes_columns_in_sorted_order_and_is_noted():
    loaded = read_log(clinic(), columns=OBS)
    log = loaded.transitions
    assert loaded.names == ("ward=er", "ward=icu", "ward=ward", "bmi")
    np.testing.assert_array_equal(log.observations[0], [0, 1, 0, 20])
    np.testing.assert_array_equal(log.next_observations[0], [1, 0, 0, 21])
    np.testing.assert_array_equal(log.next_observations[2], np.zeros(4))
    np.testing.assert_array_equal(log.actions, [2, 1, 0, 0, 2])
    assert loaded.encodings["ward"].values == ("er", "icu", "ward")
    assert loaded.encodings["actions"].values == ("a", "b", "none")
    assert any("0 = a, 1 = b, 2 = none" in note for note in loaded.notes)


def test_the_order_of_text_actions_can_be_stated():
    loaded = read_log(clinic(), columns=OBS, actions=["none", "c", "b", "a"])
    np.testing.assert_array_equal(loaded.transitions.actions, [0, 2, 3, 3, 0])
    assert loaded.encodings["actions"].values == ("none", "c", "b", "a")
    refused("'b' at row 1 is not among", clinic(), columns=OBS, actions=["none", "a"])
    for bad in ("none", [1, 2], [], ["a", "a"]):
        refused("actions=", clinic(), columns=OBS, actions=bad)


def test_codes_and_dictionary_columns():
    loaded = read_log(clinic(), columns=OBS, categorical="codes")
    np.testing.assert_array_equal(loaded.transitions.observations[:, 0], [1, 0, 0, 1, 2])
    table = pa.table(clinic()).set_column(1, "ward", pa.array(clinic()["ward"]).dictionary_encode())
    assert (
        read_log(table, columns=OBS).transitions.content_hash
        == read_log(clinic(), columns=OBS).transitions.content_hash
    )
    numbers = pa.table(clinic(ward=[3, 1, 1, 3, 2])).to_pydict()
    coded = pa.table(numbers).set_column(1, "ward", pa.array([3, 1, 1, 3, 2]).dictionary_encode())
    assert read_log(coded, columns=OBS).names[:3] == ("ward=1", "ward=2", "ward=3")
    assert read_log(numbers, columns=OBS).names == ("ward", "bmi")
    assert read_log(numbers, columns=OBS, categorical={"ward": "one-hot"}).names[:3] == ("ward=1", "ward=2", "ward=3")


def test_gaps_are_refused_unless_a_treatment_is_stated():
    gap = clinic(bmi=[20.0, None, 22.0, float("nan"), 31.0], ward=["icu", None, "er", "icu", "ward"])
    refused(r"ward is missing at row 1 .*missing='indicator'", gap, columns=OBS)
    loaded = read_log(gap, columns=OBS, missing="indicator")
    assert loaded.names == ("ward=er", "ward=icu", "ward=ward", "ward=(missing)", "bmi", "bmi_missing")
    np.testing.assert_array_equal(loaded.transitions.observations[1], [0, 0, 0, 1, 0, 1])
    np.testing.assert_array_equal(loaded.transitions.next_observations[0], [0, 0, 0, 1, 0, 1])
    stated = read_log(gap, columns=OBS, missing={"bmi": 25.0})
    np.testing.assert_array_equal(stated.transitions.observations[[1, 3], 4], [25.0, 25.0])
    refused("no dimension of the observations", gap, columns=OBS, missing={"weight": 1.0})
    for part in ("reward", "terminated", "drug", "episode"):
        refused("missing at row 2", clinic(**{part: [*clinic()[part][:2], None, *clinic()[part][3:]]}), columns=OBS)


def test_masked_arrays_have_gaps():
    data = whole_log()
    data["observations"] = np.ma.masked_array(data["observations"], mask=np.arange(2 * N).reshape(N, 2) == 9)
    refused("observations_1 is missing at row 4", data)
    assert read_log(data, missing="indicator").names == ("observations_0", "observations_1", "observations_1_missing")


def test_next_observations_may_be_missing_after_a_termination():
    data, expected = whole_log(), Transitions(**whole_log()).content_hash
    data["next_observations"][data["terminations"]] = np.nan
    rows = [
        None if end else row.tolist() for row, end in zip(data["next_observations"], data["terminations"], strict=True)
    ]
    for following in (data["next_observations"], rows):
        assert read_log(data | {"next_observations": following}).transitions.content_hash == expected


def test_a_word_among_numbers_is_not_a_category():
    refused("'abc' at row 1", clinic(bmi=["20", "abc", "22", "30", "31"]), columns=OBS)
    many = {name: list(column) * 60 for name, column in clinic().items()}
    many |= {"ward": [f"w{k}x" for k in range(300)], "episode": list(range(300)), "terminated": [True] * 300}
    refused("categories", many, columns=OBS)


def test_markup_and_control_characters_stay_plain_text():
    evil = "<script>alert(1)</script>"
    data = clinic(ward=[evil, "er", "er", evil, "\x1b[31mred\n"])
    data[evil] = data.pop("bmi")
    loaded = read_log(data, columns={"observations": ["ward", evil], "actions": "drug"})
    assert loaded.encodings["ward"].values[0].startswith("\x1b")
    assert evil in loaded.names
    assert all("\x1b" not in note and "\n" not in note for note in loaded.notes)
    assert one_line("\x1b[31mred\nline") == "[31mred line"
    assert shown(range(20)).endswith("and 8 more")


# The target policy's probabilities


def probabilities(rng, n=N):
    return rng.dirichlet(np.ones(3), size=n)


@pytest.mark.parametrize("wide", [True, False])
def test_probabilities_in_the_log(rng, wide):
    data = whole_log()
    following, first = probabilities(rng), probabilities(rng)
    starts, alive = data["timesteps"] == 0, ~data["terminations"]
    given = {"next_action_probs": following, "initial_action_probs": np.where(starts[:, None], first, np.nan)}
    if wide:
        given = {f"{name}_{k}": probs[:, k] for name, probs in given.items() for k in range(3)}
    loaded = read_log(data | given)
    np.testing.assert_array_equal(loaded.next_action_probs[alive], following[alive])
    np.testing.assert_array_equal(loaded.initial_action_probs, first[starts])
    assert loaded.transitions.content_hash == Transitions(**data).content_hash
    by_episode = read_log(data | {"initial_action_probs": first[starts]})
    np.testing.assert_array_equal(by_episode.initial_action_probs, first[starts])


def test_probabilities_at_logged_states_give_the_others(rng):
    logged = probabilities(rng)
    loaded = read_log(without_next(pi=logged), columns={"logged_action_probs": "pi"})
    log = loaded.transitions
    alive = np.flatnonzero(~log.terminations)
    np.testing.assert_array_equal(loaded.next_action_probs[alive], logged[alive + 1])
    np.testing.assert_array_equal(loaded.initial_action_probs, logged[::STEPS])


def test_probabilities_that_cannot_be_used(rng):
    data, probs, first = whole_log(), probabilities(rng), probabilities(rng, EPISODES - 1)
    spoiled = np.where(np.arange(N)[:, None] == 3, np.nan, probs)
    refused("`next_action_probs` is missing or not finite at row 3", data | {"next_action_probs": spoiled})
    refused("has 2 actions, but action 2 was logged", data | {"next_action_probs": probs[:, :2]})
    refused("continuous actions", data | {"actions": data["actions"] + 0.5, "next_action_probs": probs})
    refused(r"has 5 rows. One per episode \(6\)", data | {"initial_action_probs": first})


# Names, notes, types


def test_notes_say_what_was_understood_and_doubt_a_column_called_done():
    data = {name: column for name, column in whole_log().items() if name not in ("terminations", "truncations")}
    with pytest.warns(ValidityWarning, match="merely cut off"):
        loaded = read_log({**data, "done": data["timesteps"] == 4})
    assert any("`terminations`: column done." in note for note in loaded.notes)
    data["actions"] = data["actions"].astype(float)
    loaded = read_log({**data, "terminated": data["timesteps"] == 4})
    assert loaded.transitions.discrete_actions
    assert any("whole numbers stored as floats" in note for note in loaded.notes)
    for quantity in (0.5, -1.0, 300.0):
        data["actions"][-1] = quantity
        assert not read_log({**data, "terminated": data["timesteps"] == 4}).transitions.discrete_actions


def test_columns_that_nobody_uses_cannot_be_wrong():
    data = whole_log() | {"when": np.array(["2020-01-01"] * N, dtype="datetime64[D]"), "odd": [{}] * N}
    frame = to_pandas(whole_log(), None)
    frame["odd"] = [{1: 2}, "a"] * (N // 2)  # Arrow cannot take it
    for source in (data, frame):
        assert read_log(source).transitions.content_hash == Transitions(**whole_log()).content_hash
    refused("Dates and times", data, columns={"rewards": "when"})


def test_pickles_are_refused_unless_trusted(tmp_path):
    where = write_pickle(whole_log(), tmp_path)
    refused("trust_pickle=True", where)
    np.savez(tmp_path / "objects.npz", observations=np.array([{"a": 1}], dtype=object))
    refused("never read", tmp_path / "objects.npz", trust_pickle=True)


def test_what_is_said_about_columns_is_checked():
    data = whole_log()
    for columns, words in (
        ("rewards", "it is a str"),
        ({"reward": "rewards"}, "`reward` is not a part"),
        ({"rewards": 3}, "a column name or a list"),
        ({"rewards": "nothing"}, "is stated to be in column nothing"),
        ({"rewards": []}, r"\(none\)"),
        ({"rewards": None}, "only"),
    ):
        refused(words, data, columns=columns)
    for treatment in ({"missing": "drop"}, {"missing": {"observations_0": "a"}}, {"categorical": "hash"}):
        refused(next(iter(treatment)), data, **treatment)


def test_rows_are_counted_without_those_that_were_left_out():
    data = without_next(terminations=np.zeros(N, dtype=bool), truncations=np.arange(N) % STEPS == STEPS - 1)
    data["rewards"][7] = np.inf
    refused(r"row 6 .*counted without the 6 that", data)


DATA = whole_log()
ACTIONS = DATA["actions"].astype(str)
REFUSED = {
    "a key that is no text": (DATA | {3: DATA["rewards"]}, {}, "a key that is not a text: 3"),
    "two columns of rewards": (DATA, {"columns": {"rewards": ["timesteps", "rewards"]}}, "one value per row, not the columns"),
    "two columns of texts": (DATA | {"b": ACTIONS, "c": ACTIONS}, {"columns": {"actions": ["b", "c"]}}, "need one column"),
    "probabilities as text": (DATA | {"next_action_probs": ACTIONS}, {}, "30 rows of probabilities are needed"),
    "probabilities of other lengths": (
        DATA | {"p": DATA["rewards"][:6], "q": DATA["rewards"]}, {"columns": {"initial_action_probs": ["p", "q"]}}, "different",
    ),
    "both kinds of probabilities": (DATA | {"logprob": DATA["rewards"]}, {}, "are the same probabilities twice"),
    "a gap inside a list": (DATA | {"observations": [[0.5, None]] * N}, {}, "observations_1 is missing at row 0"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "options", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(source, options, words):
    refused(words, source, **options)
