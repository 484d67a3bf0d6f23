"""Malformed files are refused on one screen that names the row, the column or the file; damage at random does nothing else."""

from __future__ import annotations

import io
import json
import pickle
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bondic.core.errors import InvalidInput
from bondic.data.io.read import read_log
from bondic.errors import ValidityWarning

N = 12
STEPS = np.arange(N) % 6
DRAW = np.random.default_rng(0)
GOOD = {
    "observations": DRAW.normal(size=(N, 2)),
    "actions": DRAW.integers(0, 2, size=N),
    "rewards": DRAW.uniform(size=N),
    "next_observations": DRAW.normal(size=(N, 2)),
    "terminations": STEPS == 5,
    "truncations": np.zeros(N, dtype=bool),
    "episode_ids": np.arange(N) // 6,
    "timesteps": STEPS,
}


def write(path, data):
    """Columns in the format of the file's ending; None leaves one out."""
    data = {name: column for name, column in data.items() if column is not None}
    lists = {name: column.tolist() if isinstance(column, np.ndarray) else column for name, column in data.items()}
    if path.suffix == ".npz":
        np.savez(path, **data)
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(lists), path)
    elif path.suffix == ".jsonl":
        rows = zip(*lists.values(), strict=False)
        path.write_text("\n".join(json.dumps(dict(zip(lists, row, strict=True))) for row in rows))
    else:
        flat = {}
        for name, column in lists.items():
            pairs = isinstance(column[0], list)
            flat |= {f"{name}_{k}": [row[k] for row in column] for k in (0, 1)} if pairs else {name: column}
        rows = [",".join("" if cell is None else str(cell) for cell in row) for row in zip(*flat.values(), strict=True)]
        path.write_text("\n".join([",".join(flat), *rows]) + "\n")
    return path


def text_of(tmp_path, **changes):
    return write(tmp_path / "made.csv", GOOD | changes).read_text()


def at(name, row, value):
    """A column with one entry replaced."""
    column = GOOD[name].tolist()
    column[row] = value
    return {name: column}


def zipped(header):
    """An archive of one array with a header of its own."""
    words = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {header}, }}".encode().ljust(117) + b"\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("rewards.npy", b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words)
    return buffer.getvalue()


ALONE = {"next_observations": None, "truncations": None, "episode_ids": None, "timesteps": None}
COLUMNS = [  # one column changed: wrong values, each in a format that can hold them
    ("csv", at("rewards", 4, np.inf), "`rewards` is not finite at row 4"),
    ("parquet", at("rewards", 4, None), "missing at row 4"),
    ("npz", {"terminations": np.where(np.arange(N) == 3, 2, 0)}, "(row 3: 2)"),
    ("npz", {"actions": np.where(np.arange(N) == 2, -1, 0)}, "`actions` is -1 at row 2"),
    ("jsonl", at("timesteps", 1, 0.5), "0.5 at row 1"),
    ("csv", at("timesteps", 1, 0), "same (episode, timestep) key"),
    ("parquet", at("episode_ids", 7, None), "missing at row 7"),
    ("npz", {"pscore": np.r_[0.0, np.full(11, 0.5)]}, "row 0"),
    ("npz", {"rewards": None}, "No column for `rewards`"),
    ("jsonl", {"done": [False] * N}, "could be any of the columns"),
    ("csv", at("rewards", 6, "high"), "text at row 6: 'high'"),
    ("csv", at("terminations", 6, "maybe"), "'maybe'"),
    ("csv", at("observations", 6, ["tall", 1.0]), "'tall' at row 6"),
    ("csv", at("observations", 3, [None, 1.0]), "missing at row 3"),
    ("csv", at("next_observations", 4, [None, 1.0]), "missing at row 4"),
    ("csv", {"observations_3": [0.0] * N}, "gaps or copies"),
    ("csv", {"next_observations_2": [0.0] * N}, "next observations 3"),
    ("csv", {"rewards": None} | {f"c{k}": [0] * N for k in range(3000)}, "more"),
    ("parquet", at("observations", 11, [1.0]), "list of 1 numbers at row 11"),
    ("parquet", at("observations", 5, None), "missing at row 5"),
    ("parquet", {"observations": [[[1.0]]] * N}, "lists of lists"),
    ("parquet", {"rewards": np.zeros(N, dtype="datetime64[s]")}, "Dates and times"),
    ("parquet", {"observations": [{"a": 1.0}] * N}, "struct"),
    ("parquet", {"rewards": [b"a"] * N}, "binary"),
    ("parquet", {name: column[:0] for name, column in GOOD.items()}, "no rows"),
    ("npz", {"observations": np.array([{"a": 1}] * N, dtype=object)}, "Python objects"),
    ("npz", {"actions": np.zeros(5, dtype=int)}, "5 rows, the rewards have 12"),
    ("npz", {"rewards": np.float64(3.0)}, "single value"),
    ("npz", {"observations": np.zeros((N, 4, 4))}, "shape (12, 4, 4)"),
    ("npz", {"observations": np.full((N, 2), 2**60)}, "2**53"),
    ("npz", {"next_observations": np.zeros((N, 3))}, "next observations 3"),
    ("npz", ALONE, "episodes were cut off"),
    ("npz", ALONE | {"terminations": np.zeros(N, dtype=bool), "episode_ids": np.arange(N)}, "no row has a following row"),
    ("npz", {"next_observations": None, "timesteps": 2 * STEPS}, "timestep 2"),
    ("npz", {"rewards": np.array([b"\xff\xfe"] * N)}, "not UTF-8"),
    ("npz", {"rewards": np.zeros(N, dtype=[("a", "f8")])}, "dtype"),
    ("jsonl", at("observations", 4, [1.0]), "list of 1 numbers at row 4"),
    ("jsonl", at("rewards", 4, [1.0]), "mixes"),
]  # fmt: skip
FILES = [  # whole files
    ("log.csv", "", "empty"),
    ("log.csv", "\n\n  \n", "empty"),
    ("log.csv", "observations,actions,rewards,terminations\n", "no rows"),
    ("log.csv", b"\x00\x01\x02" * 50, "zero bytes"),
    ("log.csv.gz", b"\x1f\x8b" + b"\x01" * 40, "cannot be read"),
    ("log.parquet", b"", "empty"),
    ("log.parquet", "observations,actions\n1,2\n", "cannot be read as Parquet"),
    ("log.npz", b"hello", ""),
    ("log.npz", pickle.dumps({"observations": [1]}), "Python objects"),
    ("log.npz", zipped("(1000000000000000,)"), ""),
    ("log.npz", zipped("(1,), 'x': 2"), ""),
    ("log.feather", "observations,actions\n", "cannot be read as Feather"),
    ("log.jsonl", "", "empty"),
    ("log.jsonl", "[1, 2]\n", "list, not an object"),
    ("log.jsonl", '{"reward": 1}\n\n{"reward": \n', "line 3 is not JSON"),
    ("log.jsonl", '{"a": ' * 100_000, "is not JSON"),
    ("log.jsonl", '{"a.b": 1, "a": {"b": 2}}\n', "two values called a.b"),
    ("log.jsonl", '{"rewards": [1, 2], "logprobs": [0, 0]}\n{"rewards": 1}', "line 2 is an episode"),
    ("log.xlsx", b"PK", "ending is not known"),
    ("log.hdf5", b"\x89HDF", "the page on logs has a few lines"),
    ("log.vw", "0:1:0.5 | a", "the page on logs has a few lines"),
    ("log.pkl", pickle.dumps(GOOD), "trust_pickle"),
]


def check_refused(path, needle):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # about columns called done
        with pytest.raises(InvalidInput) as caught:
            read_log(path)
    message = str(caught.value)
    assert needle in message, message
    assert len(message.splitlines()) <= 12
    assert len(message) < 1500
    assert all(c.isprintable() or c == "\n" for c in message)


@pytest.mark.parametrize(
    ("kind", "changes", "needle"), COLUMNS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_columns_that_cannot_be_used_are_named(kind, changes, needle, tmp_path):
    check_refused(write(tmp_path / f"log.{kind}", GOOD | changes), needle)


@pytest.mark.parametrize(("name", "content", "needle"), FILES, ids=[f"{name} {words}" for name, _, words in FILES])
def test_files_that_are_no_logs_are_refused(name, content, needle, tmp_path):
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    check_refused(tmp_path / name, needle)


def test_texts_that_are_no_tables_are_refused(tmp_path):
    text = text_of(tmp_path)
    lines = text.splitlines()
    for content, needle in (
        ("\n".join([*lines[:5], lines[5][:20], *lines[6:]]), "row 4"),
        ("\n".join([*lines[:5], '"' + lines[5], *lines[6:]]), "log.csv"),
        (text.replace("actions,", "rewards,", 1), "two columns"),
        (text.encode().replace(b"rewards", b"r\xe9"), "column name"),
        (text.replace("False", "näh").encode("latin-1"), ""),
        (text.replace(",", ";").replace(".", ","), "is text"),
        (text.replace("rewards", "\x1b[31mred"), "`rewards`"),
    ):
        (tmp_path / "log.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
        check_refused(tmp_path / "log.csv", needle)


def test_folders_and_names_that_are_no_logs_are_refused(tmp_path):
    half = {name: column[:6] for name, column in GOOD.items()}
    for name, second, needle in (
        ("lacking", {"rewards": None}, "lacks"),
        ("of other types", {"rewards": ["a"] * 6}, "do not fit together"),
        ("of other widths", {"observations": [[1.0, 2.0, 3.0]] * 6}, "at row 6"),
    ):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "part-0.parquet", half)
        write(tmp_path / name / "part-1.parquet", {key: column[6:] for key, column in GOOD.items()} | second)
        check_refused(tmp_path / name, needle)
    for file, content, needle in (
        ("notes.txt", b"hello", "no *.parquet"),
        ("a.parquet", b"PAR1PAR1", "cannot be read as Parquet"),
    ):
        place = tmp_path / f"{file} {needle[:3]}"
        place.mkdir()
        (place / file).write_bytes(content)
        check_refused(place, needle)
    np.save(tmp_path / "log.npy", np.zeros((N, 3)))
    check_refused(tmp_path / "log.npy", "without column names")
    for name, needle in (("nothing.csv", "no file or folder"), ("a\x00.csv", "no file or folder"), ("x" * 400, "xxx")):
        check_refused(tmp_path / name, needle)


def damaged(content, rng):
    """A few bytes changed, lost or added, anywhere."""
    out = bytearray(content)
    for kind in rng.integers(0, 3, size=rng.integers(1, 6)):
        place = int(rng.integers(0, len(out)))
        if kind == 0:
            out[place] = int(rng.integers(0, 256))
        elif kind == 1:
            del out[place : place + int(rng.integers(1, 8))]
        else:
            out[place:place] = rng.bytes(int(rng.integers(1, 5)))
    return bytes(out)


@pytest.mark.parametrize("form", ["csv", "parquet", "npz", "jsonl"])
def test_files_cut_or_damaged_at_random_are_read_or_refused(form, tmp_path, rng):
    """Formats without checksums cannot tell that a number was changed; nothing else but a refusal may happen."""
    path = write(tmp_path / f"log.{form}", GOOD)
    sound, refusals = path.read_bytes(), []
    cuts = [sound[: int(len(sound) * share)] for share in (0.1, 0.5, 0.99)]
    for content in (*cuts, *(damaged(sound, rng) for _ in range(20))):
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                read_log(path)
            except InvalidInput as refusal:
                refusals.append(str(refusal))
    assert all(len(message) < 1500 and message.isprintable() for message in refusals)
    assert len(refusals) > 8
