"""Files by one scanner: the same rows whole and in batches, in every format; what a stream cannot do is said."""

import gzip
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.csv import write_csv

import bondic as b
from bondic.core.columns import RowRange
from bondic.core.errors import InvalidInput
from bondic.data.io import formats

ROWS = 90
NAMED = {"observations": ["x", "y"], "next_observations": ["x2", "y2"], "actions": "choice"}


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


def csv_bytes(whole):
    lines = [",".join(whole.column_names), *(",".join(map(str, row.values())) for row in whole.to_pylist())]
    return ("\n".join(lines) + "\n").encode()


WRITERS = {
    "parquet": lambda whole, path: pq.write_table(whole, path, row_group_size=11),
    "feather": feather.write_feather,
    "csv": lambda whole, path: path.write_bytes(csv_bytes(whole)),
    "csv.gz": lambda whole, path: path.write_bytes(gzip.compress(csv_bytes(whole))),
}


def written(folder, whole, ending="parquet", cuts=(0, 17, 60, ROWS)):
    """Parts whose natural order is not the alphabetic one."""
    for k, (first, last) in zip((2, 9, 10), pairwise(cuts), strict=False):
        WRITERS[ending](whole.slice(first, last - first), folder / f"part-{k}.{ending}")
    return folder


@pytest.mark.parametrize(
    ("ending", "place"), [*((ending, "") for ending in WRITERS), ("csv", "part-2.{}"), ("feather", "part-*.{}")]
)
def test_files_folders_and_patterns_are_the_table_in_the_order_of_time(tmp_path, ending, place, monkeypatch):
    monkeypatch.setattr(formats, "_BLOCK", 2048)  # several blocks of a CSV file
    whole = table()
    cuts = (0, ROWS) if place.startswith("part-2") else (0, 17, 60, ROWS)
    where = written(tmp_path, whole, ending, cuts) / place.format(ending)
    (tmp_path / f"_temporary.{ending}").write_bytes(b"junk")  # left out, like all names that begin so
    expected = b.read_log(whole, columns=NAMED).transitions.content_hash
    assert b.read_log(where, columns=NAMED).transitions.content_hash == expected
    assert b.stream_log(where, columns=NAMED, batch_rows=13).content_hash == expected


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(WRITERS)), st.integers(0, ROWS - 1), st.integers(1, ROWS), st.integers(1, ROWS))
def test_any_rows_in_any_batches_are_those_of_the_table(tmp_path_factory, ending, start, length, batch):
    folder = written(tmp_path_factory.mktemp("log"), table(), ending)
    rows = RowRange(start, min(start + length, ROWS))
    stream = b.stream_log(folder, columns=NAMED, batch_rows=batch)
    expected, read = b.read_log(table(), columns=NAMED).transitions.cut(rows), stream.read(rows)
    for name, column in expected.columns().items():  # episode ids are text, numbered across batches
        np.testing.assert_array_equal(getattr(read, name), column)
    assert [len(part) for _, part in stream.batches(rows)][:-1] == [batch] * ((len(rows) - 1) // batch)


@pytest.mark.parametrize("late", [0.5, 3, True])
def test_all_rows_of_a_csv_file_settle_the_type_of_a_column(tmp_path, monkeypatch, late):
    monkeypatch.setattr(formats, "_BLOCK", 512)
    rewards = [0] * (ROWS - 1) + [late]
    whole = table().set_column(3, "reward", pa.array(list(map(str, rewards))))
    WRITERS["csv"](whole, tmp_path / "log.csv")
    stream = b.stream_log(tmp_path / "log.csv", columns=NAMED, batch_rows=20)
    assert stream.content_hash == b.read_log(tmp_path / "log.csv", columns=NAMED).transitions.content_hash
    assert stream.read(RowRange(ROWS - 1, ROWS)).rewards[0] == late


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"terminated": None}, {"columns": {"terminations": None}}),
        (
            {"choice": np.array(["none", "low", "high"])[np.arange(ROWS) % 3]},
            {"actions": ["none", "low", "high", "huge"]},
        ),
        ({"choice": [str(k % 3) for k in range(ROWS)]}, {}),
        ({"reward": pa.array(np.linspace(0, 1, ROWS)).cast(pa.float32())}, {}),
        ({"x2": [None if k % 30 == 29 else 0.5 for k in range(ROWS)]}, {}),
    ],
)
def test_a_streamed_table_takes_the_options_of_a_loaded_one(tmp_path, changes, options):
    folder = written(tmp_path, table(**changes))
    options = {**options, "columns": {**NAMED, **options.get("columns", {})}}
    expected, stream = b.read_log(folder, **options).transitions, b.stream_log(folder, batch_rows=13, **options)
    assert stream.content_hash == expected.content_hash
    np.testing.assert_array_equal(stream.read().next_observations, expected.next_observations)


@pytest.mark.parametrize(
    ("changes", "columns", "words"),
    [
        ({"x": ["a", "b"] * 45, "x2": ["b", "a"] * 45}, {}, "x holds categories.*read_log"),
        ({"choice": ["go", "stay"] * 45}, {}, r"actions are text.*actions=\['none'"),
        ({"x": [None if k == 71 else 0.5 for k in range(ROWS)]}, {}, "x is missing at row 71.*read_log and missing="),
        ({"reward": [None if k == 62 else 0.5 for k in range(ROWS)]}, {}, "missing at row 62"),
        ({"x2": None, "y2": None}, {"next_observations": None}, "columns={part: None} states that the log has none"),
    ],
)
def test_what_a_stream_cannot_do_is_said(tmp_path, changes, columns, words):
    folder = written(tmp_path, table(**changes))
    with pytest.raises(InvalidInput, match=words):
        b.stream_log(folder, columns={**NAMED, **columns}, batch_rows=25)


def test_what_cannot_be_streamed_is_refused_with_the_way_out(tmp_path):
    folder = written(tmp_path, table(x2=None, y2=None))
    with pytest.raises(InvalidInput, match=r"no column for `next_observations`.*read_log"):
        b.stream_log(folder, columns={"observations": ["x", "y"], "actions": "choice"}, batch_rows=25)
    with pytest.raises(InvalidInput, match="Arrays go by the names of the parts"):
        b.stream_log(b.load_demo().log.columns(), actions=["go", "stay"])
    np.savez(tmp_path / "log.npz", rewards=np.zeros(3))
    with pytest.raises(InvalidInput, match=r"\.npz file.*read_log"):
        b.stream_log(tmp_path / "log.npz")


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
def test_long_files_have_all_their_rows(tmp_path, ending):
    """More rows than pyarrow hands out at a time, in any of the formats."""
    rows = 150_000
    whole = pa.table({"x": np.arange(rows) / 7, "action": np.arange(rows) % 2, "reward": np.arange(rows) % 5 / 4})
    {**WRITERS, "parquet": pq.write_table, "csv": write_csv}[ending](whole, tmp_path / f"log.{ending}")
    expected = b.Transitions.one_step(*(whole[name].to_numpy() for name in whole.column_names)).content_hash
    for log in (b.read_log, b.stream_log):
        found = log(tmp_path / f"log.{ending}", columns={"observations": "x"}, one_step=True)
        assert getattr(found, "transitions", found).content_hash == expected
