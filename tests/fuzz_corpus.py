"""Malformed logs: each is a name, a function that writes the file into a folder, and words of the message it must give."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N = 12


@dataclass(frozen=True)
class Case:
    name: str
    write: Callable[[Path], Path]
    expected: str


def good() -> dict[str, Any]:
    """A log that is accepted: two episodes of six steps, both terminated."""
    rng = np.random.default_rng(0)
    return {
        "observations": rng.normal(size=(N, 2)),
        "actions": rng.integers(0, 2, size=N),
        "rewards": rng.uniform(size=N),
        "next_observations": rng.normal(size=(N, 2)),
        "terminations": np.arange(N) % 6 == 5,
        "truncations": np.zeros(N, dtype=bool),
        "episode_ids": np.arange(N) // 6,
        "timesteps": np.arange(N) % 6,
    }


def wide(data: dict[str, Any]) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for name, column in data.items():
        if np.ndim(column) == 2:
            out |= {f"{name}_{k}": column[:, k].tolist() for k in range(column.shape[1])}
        else:
            out[name] = np.asarray(column).tolist()
    return out


def at(values: Any, row: int, value: Any) -> list[Any]:
    """The column with one entry replaced."""
    out = list(np.asarray(values).tolist())
    out[row] = value
    return out


# --- writers --------------------------------------------------------------------------------------------


def raw(name: str, content: bytes | str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def csv_text(columns: dict[str, list[Any]], separator: str = ",") -> str:
    rows = [separator.join(columns), *(separator.join(map(_cell, row)) for row in zip(*columns.values(), strict=True))]
    return "\n".join(rows) + "\n"


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def csv(**changes: Any) -> Callable[[Path], Path]:
    """A CSV file with some columns replaced; None removes a column."""
    columns = {name: values for name, values in {**wide(good()), **changes}.items() if values is not None}
    return raw("log.csv", csv_text(columns))


def csv_lines(edit: Callable[[list[str]], list[str]]) -> Callable[[Path], Path]:
    return raw("log.csv", "\n".join(edit(csv_text(wide(good())).splitlines())) + "\n")


def parquet(**changes: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        columns = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in {**good(), **changes}.items()}
        pq.write_table(pa.table({n: v for n, v in columns.items() if v is not None}), folder / "log.parquet")
        return folder / "log.parquet"

    return write


def npz(**changes: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        arrays = {name: values for name, values in {**good(), **changes}.items() if values is not None}
        np.savez(folder / "log.npz", **arrays)
        return folder / "log.npz"

    return write


def hdf5(fill: Callable[[Any], None], base: bool = True) -> Callable[[Path], Path]:
    """An HDF5 file of arrays by name, changed by `fill`."""

    def write(folder: Path) -> Path:
        with h5py.File(folder / "log.hdf5", "w") as file:
            for name, column in good().items() if base else ():
                file[name] = column
            fill(file)
        return folder / "log.hdf5"

    return write


def replaced(**changes: Any) -> Callable[[Path], Path]:
    def fill(file: Any) -> None:
        for name, values in changes.items():
            if name in file:
                del file[name]
            if values is not None:
                file[name] = values

    return hdf5(fill)


def cut(write: Callable[[Path], Path], fraction: float) -> Callable[[Path], Path]:
    """The file, broken off after a part of its bytes."""

    def write_cut(folder: Path) -> Path:
        path = write(folder)
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * fraction)])
        return path

    return write_cut


def spoiled(write: Callable[[Path], Path], start: float, stop: float) -> Callable[[Path], Path]:
    """The file with a stretch of its bytes overwritten."""

    def write_spoiled(folder: Path) -> Path:
        path = write(folder)
        content = bytearray(path.read_bytes())
        low, high = int(len(content) * start), int(len(content) * stop)
        content[low:high] = b"\xa5" * (high - low)
        path.write_bytes(bytes(content))
        return path

    return write_spoiled


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """A few bytes changed, lost or added, anywhere."""
    out = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(0, len(out)))
        kind = int(rng.integers(0, 3))
        if kind == 0:
            out[place] = int(rng.integers(0, 256))
        elif kind == 1:
            del out[place : place + int(rng.integers(1, 8))]
        else:
            out[place:place] = rng.bytes(int(rng.integers(1, 5)))
    return bytes(out)


def folder_of(**files: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        where = folder / "log"
        where.mkdir()
        for name, content in files.items():
            (where / name.replace("__", ".")).write_bytes(content)
        return where

    return write


def parts(first: dict[str, Any], second: dict[str, Any]) -> Callable[[Path], Path]:
    """A folder of two Parquet parts."""

    def write(folder: Path) -> Path:
        where = folder / "parts"
        where.mkdir()
        for index, data in enumerate((first, second)):
            columns = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in data.items()}
            pq.write_table(pa.table(columns), where / f"part-{index}.parquet")
        return where

    return write


# --- cases ----------------------------------------------------------------------------------------------

_NAN, _INF = float("nan"), float("inf")
_G = good()
_LONG = "x" * 5000


def _values() -> list[Case]:
    """Wrong values: each in one of the formats that can hold them, and each format with some of them."""
    changes: list[tuple[str, dict[str, Any], str]] = [
        ("inf reward", {"rewards": at(_G["rewards"], 4, _INF)}, "`rewards` is not finite at row 4"),
        ("missing reward", {"rewards": at(_G["rewards"], 4, _NAN)}, "missing at row 4"),
        ("flag of 2", {"terminations": at(_G["terminations"].astype(int), 3, 2)}, "(row 3: 2)"),
        ("negative action", {"actions": at(_G["actions"], 2, -1)}, "`actions` is -1 at row 2"),
        ("fraction of time", {"timesteps": at(_G["timesteps"].astype(float), 1, 0.5)}, "0.5 at row 1"),
        ("same key twice", {"timesteps": at(_G["timesteps"], 1, 0)}, "same (episode, timestep) key"),
        ("missing episode", {"episode_ids": at(_G["episode_ids"].astype(float), 7, _NAN)}, "missing at row 7"),
        ("probability of 0", {"pscore": [0.0] + [0.5] * 11}, "row 0"),
        ("no rewards", {"rewards": None}, "No column for `rewards`"),
        ("no ends", {"terminations": None}, "No column for `terminations`"),
        ("two kinds of ends", {"done": [False] * N}, "could be any of the columns"),
    ]
    formats = (("csv", csv), ("parquet", parquet), ("npz", npz), ("hdf5", replaced), ("jsonl", jsonl))
    return [
        Case(f"{kind}: {name}", make(**change), words)
        for (name, change, words), (kind, make) in zip(changes, cycle(formats), strict=False)
    ]


def _csv_cases() -> list[Case]:
    text = csv_text(wide(good()))
    return [
        Case("csv: empty", raw("log.csv", ""), "empty"),
        Case("csv: blank lines", raw("log.csv", "\n\n  \n"), "empty"),
        Case("csv: header only", raw("log.csv", text.splitlines()[0] + "\n"), "no rows"),
        Case("csv: no header", raw("log.csv", "\n".join(text.splitlines()[1:])), ""),
        Case("csv: short line", csv_lines(lambda rows: [*rows[:5], rows[5][:20], *rows[6:]]), "row 4"),
        Case("csv: open quote", csv_lines(lambda rows: [*rows[:5], '"' + rows[5], *rows[6:]]), "log.csv"),
        Case("csv: same name twice", raw("log.csv", text.replace("actions,", "rewards,", 1)), "two columns"),
        Case("csv: binary", raw("log.csv", b"\x00\x01\x02" * 50), "zero bytes"),
        Case("csv: name not in UTF-8", raw("log.csv", text.encode().replace(b"rewards", b"r\xe9")), "column name"),
        Case("csv: latin-1", raw("log.csv", text.replace("False", "näh").encode("latin-1")), ""),
        Case("csv: json", raw("log.csv", '{"observations": [1, 2]}\n{"observations": [1, 2]}\n'), "No column"),
        Case("csv: word as reward", csv(rewards=at(_G["rewards"], 6, "high")), "text at row 6: 'high'"),
        Case("csv: word as flag", csv(terminations=at(_G["terminations"].astype(int), 6, "maybe")), "'maybe'"),
        Case("csv: word in numbers", csv(observations_0=at(_G["observations"][:, 0], 6, "tall")), "'tall' at row 6"),
        Case("csv: gap", csv(observations_0=at(_G["observations"][:, 0], 3, None)), "missing at row 3"),
        Case("csv: numbers with a hole", csv(observations_3=[0.0] * N), "gaps or copies"),
        Case("csv: more next dimensions", csv(next_observations_2=[0.0] * N), "next observations 3"),
        Case("csv: decimal commas", raw("log.csv", text.replace(",", ";").replace(".", ",")), "is text"),
        Case("csv: terminal codes in names", raw("log.csv", text.replace("rewards", "\x1b[31mred")), "`rewards`"),
        Case("csv: 3000 columns", csv(rewards=None, **{f"c{k}": [0] * N for k in range(3000)}), "more"),
        Case("csv: list of unequal length", csv(obs=['"[1, 2]"'] * 11 + ['"[1]"'], observations_0=None,
             observations_1=None), "list of 1 numbers at row 11"),
        Case("csv: lists of words", csv(obs=['"[a, b]"'] * N, observations_0=None, observations_1=None), "row 0"),
        Case("csv: damaged gzip", raw("log.csv.gz", b"\x1f\x8b" + b"\x01" * 40), "cannot be read"),
        Case("csv: free text", csv(observations_0=[f"note {k}" for k in range(N)], next_observations_0=[0.0] * N),
             "one holds text"),
    ]  # fmt: skip


def _parquet_cases() -> list[Case]:
    whole = parquet()
    lists = _G["observations"].tolist()
    cases = [Case(f"parquet: cut at {f}", cut(whole, f), "cannot be read as Parquet") for f in (0.1, 0.999)]
    cases += [Case("parquet: spoiled data", spoiled(whole, 0.0, 0.3), ""),
              Case("parquet: spoiled footer", spoiled(whole, 0.7, 0.95), "cannot be read as Parquet")]  # fmt: skip
    half = {name: column[:6] for name, column in good().items()}
    rest = {name: column[6:] for name, column in good().items()}
    return [
        *cases,
        Case("parquet: empty file", raw("log.parquet", b""), "empty"),
        Case("parquet: text", raw("log.parquet", "observations,actions\n1,2\n"), "cannot be read as Parquet"),
        Case("parquet: no rows", parquet(**{name: column[:0] for name, column in good().items()}), "no rows"),
        Case("parquet: no columns", parquet(**dict.fromkeys(good())), "No column"),
        Case("parquet: unequal lists", parquet(observations=[*lists[:-1], [1.0]]), "list of 1 numbers at row 11"),
        Case("parquet: a list is missing", parquet(observations=[*lists[:5], None, *lists[6:]]), "missing at row 5"),
        Case("parquet: lists of lists", parquet(observations=[[[1.0]]] * N), "lists of lists"),
        Case("parquet: dates", parquet(rewards=np.zeros(N, dtype="datetime64[s]")), "Dates and times"),
        Case("parquet: structs", parquet(observations=[{"a": 1.0}] * N), "struct"),
        Case("parquet: bytes", parquet(rewards=[b"a"] * N), "binary"),
        Case("parquet: empty folder", folder_of(), "no *.parquet"),
        Case("parquet: folder of other files", folder_of(notes__txt=b"hello"), "no *.parquet"),
        Case("parquet: folder with a broken part", folder_of(a__parquet=b"PAR1PAR1"), "cannot be read as Parquet"),
        Case("parquet: part lacks a column", parts(half, {k: v for k, v in rest.items() if k != "rewards"}), "lacks"),
        Case("parquet: parts of other types", parts(half, rest | {"rewards": ["a"] * 6}), "do not fit together"),
        Case("parquet: parts of other widths", parts(half, rest | {"observations": [[1.0, 2.0, 3.0]] * 6}), "at row 6"),
    ]


def _npz_cases() -> list[Case]:
    whole = npz()
    cases = [Case(f"npz: cut at {f}", cut(whole, f), "cannot be read as .npz") for f in (0.1, 0.99)]
    objects = np.array([{"a": 1}] * N, dtype=object)
    return [
        *cases,
        Case("npz: not an archive", raw("log.npz", b"hello"), ""),
        Case("npz: a pickle", raw("log.npz", pickle.dumps({"observations": [1]})), "Python objects"),
        Case("npz: objects inside", npz(observations=objects), "Python objects"),
        Case("npz: huge header", raw("log.npz", _zip({"rewards.npy": _npy_header("(1000000000000000,)")})), ""),
        Case("npz: evil header", raw("log.npz", _zip({"rewards.npy": _npy_header("(1,), 'x': 2")})), ""),
        Case("npz: other lengths", npz(actions=np.zeros(5, dtype=int)), "5 rows, the rewards have 12"),
        Case("npz: scalar", npz(rewards=np.float64(3.0)), "single value"),
        Case("npz: images", npz(observations=np.zeros((N, 4, 4))), "shape (12, 4, 4)"),
        Case("npz: no dimension", npz(observations=np.zeros((N, 0))), "shape (12, 0)"),
        Case("npz: dates", npz(rewards=np.zeros(N, dtype="datetime64[s]")), "Dates and times"),
        Case("npz: integers too large", npz(observations=np.full((N, 2), 2**60)), "2**53"),
        Case("npz: dimensions change", npz(next_observations=np.zeros((N, 3))), "next observations 3"),
        Case("npz: rewards of two columns", npz(rewards=np.zeros((N, 2))), "shape"),
        Case("npz: no next, no episodes", npz(next_observations=None, truncations=None, episode_ids=None,
             timesteps=None), "cut off end"),
        Case("npz: no next, one row each", npz(next_observations=None, terminations=np.zeros(N, dtype=bool),
             episode_ids=np.arange(N)), "no row has a following row"),
        Case("npz: no next, time jumps", npz(next_observations=None, timesteps=2 * _G["timesteps"]), "timestep 2"),
        Case("npz: odd probabilities", npz(next_action_probs=np.full((N, 2), np.nan)), "`next_action_probs` is missing"),
        Case("npz: too few probabilities", npz(next_action_probs=np.ones((N, 1))), "has 1 actions"),
        Case("npy: plain array", _plain_npy, "without column names"),
    ]  # fmt: skip


def _plain_npy(folder: Path) -> Path:
    np.save(folder / "log.npy", np.zeros((N, 3)))
    return folder / "log.npy"


def _zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _npy_header(shape: str) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def _minari(file: Any, **changes: Any) -> None:
    flags = np.zeros(4, dtype=bool)
    entries = {"observations": np.zeros((5, 2)), "actions": np.zeros(4, dtype=int), "rewards": np.zeros(4),
               "terminations": flags, "truncations": flags}  # fmt: skip
    group = file.create_group("episode_0")
    for name, value in {**entries, **changes}.items():
        if value is not None:
            group[name] = value


def _hdf5_cases() -> list[Case]:
    whole = hdf5(lambda file: None)  # noqa: ARG005
    cases = [Case(f"hdf5: cut at {f}", cut(whole, f), "cannot be read as HDF5") for f in (0.05, 0.95)]

    def bare(fill: Callable[..., None], **changes: Any) -> Callable[[Path], Path]:
        return hdf5(lambda file: fill(file, **changes), base=False)

    return [
        *cases,
        Case("hdf5: text", raw("log.hdf5", "hello"), "cannot be read as HDF5"),
        Case("hdf5: spoiled", spoiled(whole, 0.0, 0.2), "cannot be read as HDF5"),
        Case("hdf5: nothing inside", hdf5(lambda file: None, base=False), "No column"),  # noqa: ARG005
        Case("hdf5: other lengths", replaced(actions=np.zeros(4, dtype=int)), "4 rows, the rewards have 12"),
        Case("hdf5: not UTF-8", replaced(rewards=np.array([b"\xff\xfe"] * N)), "not UTF-8"),
        Case("hdf5: objects by name", replaced(rewards=np.zeros(N, dtype=[("a", "f8")])), "dtype"),
        Case("hdf5: d4rl without cuts", replaced(next_observations=None, truncations=None, episode_ids=None,
             timesteps=None), "cut off end"),
        Case("d3rlpy: a buffer", hdf5(lambda file: file.update(columns=["rewards"], num_episodes=1), base=False), "d3rlpy"),
        Case("minari: other lengths", bare(_minari, actions=np.zeros(3, dtype=int)), "3 entries for 4 rewards"),
        Case("minari: no rewards", bare(_minari, rewards=None), "rewards missing"),
        Case("minari: no folder", folder_of(metadata__json=b'{"data_format": "arrow"}'), "arrow"),
        Case("minari: spoiled metadata", folder_of(metadata__json=b"{"), "unknown"),
    ]  # fmt: skip


def jsonl(**changes: Any) -> Callable[[Path], Path]:
    """The good log with columns replaced, a line per row."""
    data = {name: column for name, column in {**good(), **changes}.items() if column is not None}
    columns = {
        name: column if isinstance(column, list) else np.asarray(column).tolist() for name, column in data.items()
    }
    rows = zip(*columns.values(), strict=False)
    return raw("log.jsonl", "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))


def _jsonl_cases() -> list[Case]:
    return [
        Case("jsonl: empty", raw("log.jsonl", ""), "empty"),
        Case("jsonl: cut", cut(jsonl(), 0.5), "is not JSON"),
        Case("jsonl: a list", raw("log.jsonl", "[1, 2]\n"), "list, not an object"),
        Case("jsonl: deep", raw("log.jsonl", '{"a": ' * 100_000), "is not JSON"),
        Case("jsonl: binary", raw("log.jsonl", b"\x00\xff\x02" * 50), "is not JSON"),
        Case("jsonl: no gzip", raw("log.jsonl.gz", '{"reward": 1}'), "cannot be read"),
        Case("jsonl: one name twice", raw("log.jsonl", '{"a.b": 1, "a": {"b": 2}}\n'), "two values called a.b"),
        Case("jsonl: ragged", jsonl(observations=at(_G["observations"], 4, [1.0])), "list of 1 numbers at row 4"),
        Case("jsonl: mixed", jsonl(rewards=at(_G["rewards"], 4, [1.0])), "mixes"),
        Case("jsonl: an episode, then none", raw("log.jsonl", '{"rewards": [1, 2], "logprobs": [0, 0]}\n{"rewards": 1}'),
             "line 2 is an episode"),
    ]  # fmt: skip


def _vowpal_cases() -> list[Case]:
    return [
        Case("vw: blank", raw("log.vw", "\n\n"), "no example"),
        Case("vw: binary", raw("log.vw", b"\x00\xff\x02" * 50), "cannot be read"),
        Case("vw: not a log", raw("log.vw", "hello\nworld\n"), "action:cost:probability"),
        Case("vw: no cost", raw("log.vw", "1:nan:0.5 | a\n"), "missing at row 0"),
    ]


def _feather_cases() -> list[Case]:
    return [
        Case("feather: text", raw("log.feather", "observations,actions\n"), "cannot be read as Feather"),
    ]


def _other_cases() -> list[Case]:
    return [
        Case("unknown ending", raw("log.xlsx", b"PK"), "ending is not known"),
        Case("absent file", lambda folder: folder / "nothing.csv", "no file or folder"),
        Case("name with zero byte", lambda folder: folder / "a\x00.csv", "no file or folder"),
        Case("name too long", lambda folder: folder / ("x" * 400 + ".csv"), "xxx"),
        Case("pickle", raw("log.pkl", pickle.dumps(good())), "trust_pickle"),
    ]


GOOD: dict[str, Callable[[Path], Path]] = {
    "csv": csv(),
    "parquet": parquet(),
    "npz": npz(),
    "hdf5": replaced(),
    "minari": hdf5(_minari, base=False),
}
"""Sound files, to be damaged at random."""

CORPUS: tuple[Case, ...] = (
    *_values(),
    *_csv_cases(),
    *_parquet_cases(),
    *_npz_cases(),
    *_hdf5_cases(),
    *_jsonl_cases(),
    *_vowpal_cases(),
    *_feather_cases(),
    *_other_cases(),
)
