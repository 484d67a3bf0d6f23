"""Parquet by one decoder: streamed logs take the options of read_log where they can, and say what they cannot do."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bondic as b
from bondic.errors import InvalidInput

ROWS = 90


def table(**more):
    rng = np.random.default_rng(2)
    steps = np.arange(ROWS)
    states = rng.normal(size=(ROWS, 2))
    columns = {
        "x": states[:, 0],
        "y": states[:, 1],
        "choice": rng.integers(3, size=ROWS),
        "reward": rng.random(ROWS),
        "x2": np.roll(states[:, 0], -1),
        "y2": np.roll(states[:, 1], -1),
        "terminated": steps % 30 == 29,
        "episode": [f"patient {k // 30}" for k in steps],
        "t": steps % 30,
    }
    return pa.table({name: column for name, column in (columns | more).items() if column is not None})


NAMED = {"observations": ["x", "y"], "next_observations": ["x2", "y2"], "actions": "choice"}


def written(tmp_path, whole, cuts=(0, 17, 60, ROWS)):
    for k, (first, last) in enumerate(pairwise(cuts)):
        pq.write_table(whole.slice(first, last - first), tmp_path / f"part-{k}.parquet", row_group_size=11)
    return tmp_path


@pytest.mark.parametrize("batch", [1, 13, 1000])
@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({"terminated": None}, {"columns": {"terminations": None}}),
        ({}, {"columns": {"truncations": None}}),
        (
            {"choice": np.array(["none", "low", "high"])[np.arange(ROWS) % 3]},
            {"actions": ["none", "low", "high", "huge"]},
        ),
        ({"choice": [str(k % 3) for k in range(ROWS)]}, {}),
        ({"x": np.arange(ROWS, dtype=np.float32)}, {}),
        ({"reward": pa.array(np.linspace(0, 1, ROWS)).cast(pa.float32())}, {}),
    ],
)
def test_a_streamed_table_is_the_loaded_one(tmp_path, changes, options, batch):
    folder = written(tmp_path, table(**changes))
    options = {**options, "columns": {**NAMED, **options.get("columns", {})}}
    assert b.stream_log(folder, batch_rows=batch, **options).content_hash == (
        b.read_log(folder, **options).transitions.content_hash
    )


def test_folders_name_columns_for_both(tmp_path):
    whole = table(episode=None)
    for k in range(3):
        place = tmp_path / f"episode={k}"
        place.mkdir()
        pq.write_table(whole.slice(30 * k, 30), place / "data.parquet")
    loaded = b.read_log(tmp_path, columns=NAMED).transitions
    assert np.unique(loaded.episode_ids).size == 3
    assert b.stream_log(tmp_path, columns=NAMED, batch_rows=20).content_hash == loaded.content_hash


def test_parts_of_other_types_are_brought_to_one(tmp_path):
    whole = table(reward=np.arange(ROWS) % 2)
    pq.write_table(whole.slice(0, 40), tmp_path / "part-0.parquet")
    place = whole.column_names.index("reward")
    other = whole.set_column(place, "reward", whole.column("reward").cast(pa.float64()))
    pq.write_table(other.slice(40), tmp_path / "part-1.parquet")
    loaded = b.read_log(tmp_path, columns=NAMED).transitions
    for size in (1, 50, 1000):
        assert b.stream_log(tmp_path, columns=NAMED, batch_rows=size).content_hash == loaded.content_hash


@pytest.mark.parametrize(
    ("changes", "columns", "words"),
    [
        ({"x": ["a", "b"] * 45, "x2": ["b", "a"] * 45}, {}, "x holds categories.*read_log"),
        ({"choice": ["go", "stay"] * 45}, {}, r"actions are text.*actions=\['none'"),
        ({"x": [None if k == 71 else 0.5 for k in range(ROWS)]}, {}, "x is missing at row 71.*read_log and missing="),
        ({"reward": [None if k == 62 else 0.5 for k in range(ROWS)]}, {}, "missing at row 62"),
        ({"x2": None, "y2": None}, {"next_observations": None}, "columns={part: None} can be said of"),
    ],
)
def test_what_a_stream_cannot_do_is_said(tmp_path, changes, columns, words):
    folder = written(tmp_path, table(**changes))
    with pytest.raises(InvalidInput, match=words):
        b.stream_log(folder, columns={**NAMED, **columns}, batch_rows=25)


@pytest.mark.parametrize("option", [{"columns": {"rewards": "r"}}, {"actions": ["go", "stay"]}])
def test_options_of_tables_are_refused_for_arrays(option):
    with pytest.raises(InvalidInput, match="Arrays go by the names of the parts"):
        b.stream_log(b.load_demo().log.columns(), **option)


def test_next_observations_are_not_built_while_streaming(tmp_path):
    folder = written(tmp_path, table(x2=None, y2=None))
    given = {"observations": ["x", "y"], "actions": "choice"}
    with pytest.raises(InvalidInput, match=r"no column for `next_observations`.*read_log"):
        b.stream_log(folder, columns=given, batch_rows=25)
