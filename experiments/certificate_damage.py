"""Ways to damage a certificate: in its bytes, its values, its arrays and its archive, with a digest that fits again."""

from __future__ import annotations

import copy
import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bondic.core.certificate import Certificate, compute_digest

Rng = np.random.Generator
Path_ = tuple[Any, ...]


def write(folder: Path, text: bytes, archive: bytes) -> Path:
    (folder / "c.json").write_bytes(text)
    (folder / "c.npz").write_bytes(archive)
    return folder / "c.json"


def as_text(body: Any, digest: str) -> bytes:
    return json.dumps({"digest": digest, "arrays": "c.npz", **body}).encode()


def as_archive(arrays: dict[str, Any], packing: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", as_member(array))
    return out.getvalue()


def as_member(array: Any) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=True)
    return out.getvalue()


# --- bytes ----------------------------------------------------------------------------------------------


def damaged_bytes(content: bytes, rng: Rng) -> bytes:
    """Flipped, lost, added or exchanged bytes, or a file that ends early."""
    out = bytearray(content)
    kind = int(rng.integers(0, 5))
    if kind == 0:
        return bytes(out[: int(rng.integers(0, len(out)))])
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(0, max(len(out), 1)))
        if kind == 1 and out:
            out[place % len(out)] ^= 1 << int(rng.integers(0, 8))
        elif kind == 2:
            del out[place : place + int(rng.integers(1, 40))]
        elif kind == 3:
            out[place:place] = rng.bytes(int(rng.integers(1, 12)))
        elif out:
            other = int(rng.integers(0, len(out)))
            out[place : place + 16] = out[other : other + 16]
    return bytes(out)


def break_text(folder: Path, good: Certificate, rng: Rng) -> Path:
    return write(folder, damaged_bytes(as_text(good.body, good.digest), rng), as_archive(dict(good.arrays)))


def break_archive(folder: Path, good: Certificate, rng: Rng) -> Path:
    packing = zipfile.ZIP_STORED if rng.random() < 0.5 else zipfile.ZIP_DEFLATED
    return write(folder, as_text(good.body, good.digest), damaged_bytes(as_archive(dict(good.arrays), packing), rng))


def break_text_and_sign(folder: Path, good: Certificate, rng: Rng) -> Path:
    """Damaged text that still parses gets a digest that fits: the damage is past the seal."""
    text = damaged_bytes(json.dumps(good.body).encode(), rng)
    try:
        body = json.loads(text)
        digest = compute_digest(body, good.arrays)
    except (ValueError, RecursionError):
        return write(folder, text, as_archive(dict(good.arrays)))
    if not isinstance(body, dict):
        return write(folder, text, as_archive(dict(good.arrays)))
    return write(folder, as_text(body, digest), as_archive(dict(good.arrays)))


# --- values ---------------------------------------------------------------------------------------------


MAX_DEEP = 60


def places(node: Any, path: Path_ = ()) -> list[Path_]:
    """Every place of a document, branches included; a hostile nest is entered a little way only."""
    found = [path] if path else []
    if len(path) >= MAX_DEEP:
        return found
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in children:
        found += places(value, (*path, key))
    return found


def value_at(node: Any, path: Path_) -> Any:
    for key in path:
        node = node[key]
    return node


def _leaf(name: str, **parameters: Any) -> dict[str, Any]:
    return {"kernel": name, "on": "observation", **parameters}


def _several(kind: str, *parts: Any) -> dict[str, Any]:
    return {"kernel": kind, "parts": list(parts)}


def _deep(depth: int) -> Any:
    value: Any = _leaf("constant", value=1.0)
    for _ in range(depth):
        value = {"kernel": "scaled", "part": value, "factor": 1.0}
    return value


_STORED = {"array": "estimand.policies.0.start.weights"}

HOSTILE: tuple[Callable[[], Any], ...] = (
    lambda: None, lambda: True, lambda: False, lambda: 0, lambda: -1, lambda: 1, lambda: 2**63, lambda: 10**30,
    lambda: 10**400, lambda: 1e308, lambda: -1e308, lambda: 1e-308, lambda: float("inf"), lambda: float("-inf"),
    lambda: float("nan"), lambda: 0.5, lambda: "", lambda: "x" * 200_000, lambda: "\x1b[2J\x1b[Hverified: [1.9, 2]",
    lambda: "\u202e\u200b\ud800", lambda: "1.0", lambda: "../../etc/passwd", lambda: [], lambda: {}, lambda: [[]],
    lambda: [0, 10**18], lambda: [10**18, 0], lambda: [float("nan")] * 2, lambda: {"array": "estimand.policies.0.answers.next"},
    lambda: {"array": "nothing"}, lambda: {"array": ["estimand.policies.0.answers.next"]}, lambda: {"array": None},
    lambda: _leaf("gaussian", bandwidth=float("inf")), lambda: _leaf("gaussian", bandwidth=_STORED),
    lambda: _leaf("linear", supremum=1.0, bandwidth=_STORED, center=float("inf")), lambda: _leaf("linear"),
    lambda: _leaf("time-mask", horizon=float("nan"), on="time"), lambda: _leaf("dirac", on="state"),
    lambda: _leaf("random-features", frequencies=_STORED, center=_STORED), lambda: _leaf("random-features", frequencies=[1e300]),
    lambda: _leaf("explicit-features", supremum=1.0, label="os.system"), lambda: _leaf("action-embedding", embedding=_STORED),
    lambda: _several("product", *[_several("sum", *[_leaf("constant", value=1.0)] * 10)] * 25),
    lambda: _several("product", *[_leaf("dirac", on="action")] * 40),
    lambda: _several("sum", *[_leaf("gaussian", bandwidth=_STORED)] * 5000),
    lambda: _several("product", *[_leaf("gaussian", bandwidth=_STORED)] * 120), lambda: _deep(30), lambda: _deep(300),
    lambda: _several("sum"), lambda: {"kernel": "product", "parts": None}, lambda: {"kernel": ["gaussian"]},
    lambda: {"kernel": "scaled", "part": _leaf("constant", value=1.0), "factor": -1}, lambda: {"function": "features"},
)  # fmt: skip


def spoil_value(folder: Path, good: Certificate, rng: Rng) -> Path:
    """One to three places: a hostile value, another value of the document, a little change, a lost or added name."""
    body = copy.deepcopy(good.body)
    for _ in range(int(rng.integers(1, 4))):
        known = places(body)
        path = known[int(rng.integers(0, len(known)))]
        parent, old = value_at(body, path[:-1]), value_at(body, path)
        kind = int(rng.integers(0, 6))
        if kind <= 1:
            parent[path[-1]] = HOSTILE[int(rng.integers(0, len(HOSTILE)))]()
        elif kind == 2:
            parent[path[-1]] = copy.deepcopy(value_at(body, known[int(rng.integers(0, len(known)))]))
        elif kind == 3:
            parent[path[-1]] = _little_change(old, rng)
        elif kind == 4:
            del parent[path[-1]]
        elif isinstance(parent, dict):
            parent[f"{path[-1]}_"] = copy.deepcopy(old)
        else:
            parent.append(copy.deepcopy(old))
    return _signed(folder, body, dict(good.arrays))


def _little_change(value: Any, rng: Rng) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + int(rng.integers(-2, 3))
    if isinstance(value, float):
        return value * float(1 + rng.choice([1e-15, 1e-9, 1e-3, 1.0, -2.0]))
    return value[:-1] if isinstance(value, str | list) else value


def _signed(folder: Path, body: Any, arrays: dict[str, Any], archive: bytes | None = None) -> Path:
    """With the digest of what is there; nesting too deep for one gets another."""
    try:
        digest = compute_digest(body, arrays)
        text = as_text(body, digest)
    except (RecursionError, TypeError, ValueError):
        text = as_text({}, "0" * 64)
    return write(folder, text, as_archive(arrays) if archive is None else archive)


def repeat_names(folder: Path, good: Certificate, rng: Rng) -> Path:
    """The same name twice in one object, and whole numbers of many digits: only a parser sees these."""
    text = as_text(good.body, good.digest).decode()
    marks = [k for k, c in enumerate(text) if c == "{"]
    place = marks[int(rng.integers(0, len(marks)))] + 1
    more = [
        '"radius": 0.0, "radius": 1.0, ',
        f'"a": {"9" * 100_000}, ',
        '"a": NaN, ',
        '"x": ' + "[" * 3000 + "]" * 3000 + ", ",
    ]
    return write(
        folder, (text[:place] + more[int(rng.integers(0, 4))] + text[place:]).encode(), as_archive(dict(good.arrays))
    )


# --- arrays ---------------------------------------------------------------------------------------------


def spoil_array(folder: Path, good: Certificate, rng: Rng) -> Path:
    """Another type, shape, size or content of one array, or two arrays exchanged."""
    arrays = {name: np.array(array) for name, array in good.arrays.items()}
    names = sorted(arrays)
    name, other = (names[int(k)] for k in rng.integers(0, len(names), 2))
    array, kind = arrays[name], int(rng.integers(0, 10))
    if kind == 0:
        types = ["f4", ">f8", "i8", "b1", "i1", "u8", "f2", "c16", "longdouble", "U5", "S3", "object", "M8[s]", "V8"]
        arrays[name] = array.astype(types[int(rng.integers(0, len(types)))])
    elif kind == 1:
        arrays[name], arrays[other] = arrays[other], array
    elif kind == 2:
        arrays[name] = [array.T, array[None], array.ravel(), array[..., None], np.array(1.0)][int(rng.integers(0, 5))]
    elif kind == 3:
        arrays[name] = array[: array.shape[0] // 2] if rng.random() < 0.5 else np.concatenate([array, array])
    elif kind == 4:
        flat = array.reshape(-1)
        if flat.size:
            place = int(rng.integers(0, flat.size))
            flat[place] = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320, -1.0, 0.0, 1e18])
    elif kind == 5:
        arrays[name] = array * rng.choice([1 + 1e-15, 1 + 1e-9, 1.001, -1.0, 0.0, 1e150, 1e-150])
    elif kind == 6:
        arrays[name] = np.zeros(
            [(0,), (0, 1), (1, 0), (200_000,), (3000, 1), (1, 3000), (20_000, 2)][int(rng.integers(0, 7))]
        )
    elif kind == 7:
        del arrays[name]
    elif kind == 8:
        arrays[name] = rng.permutation(array) if array.ndim else array
    else:
        arrays[name] = np.repeat(array, int(rng.integers(2, 60)), axis=0) if array.ndim else array
    archive = as_archive(arrays)
    plain = {key: value for key, value in arrays.items() if value.dtype.kind in "fibuc"}
    return _signed(folder, good.body, plain, archive)


# --- archive --------------------------------------------------------------------------------------------


def trick_archive(folder: Path, good: Certificate, rng: Rng) -> Path:
    """Archives that lie about sizes, names and packing."""
    members = {f"{name}.npy": as_member(array) for name, array in good.arrays.items()}
    name = sorted(members)[int(rng.integers(0, len(members)))]
    kind = int(rng.integers(0, 9))
    packing = [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA][kind] if kind < 3 else zipfile.ZIP_DEFLATED
    if kind == 0:
        members[name] = _header("<f8", (10 ** int(rng.integers(3, 15)), 3)) + b"\0" * 64
    elif kind == 3:
        members[name] = _header("<f8", (2**20 * int(rng.integers(1, 40)),)) + bytes(2**23)  # packs to a few kilobytes
    elif kind == 4:
        members[name] = [b"", b"\x93NUMPY\x03\0", members[name].replace(b"\x01\0", b"\x02\0", 1),
                         b"\x93NUMPY\x01\0\xff\xff{" + b"(" * 60_000][int(rng.integers(0, 4))]  # fmt: skip
    elif kind == 5:
        members[f"{name}\x1b[2J/../../x.npy"] = members[name]
    elif kind == 6:
        members |= {f"m{k}.npy": b"" for k in range(6000)}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for key, content in members.items():
            archive.writestr(key, content)
        if kind == 7:
            archive.comment = b"a comment"
    content = bytearray(out.getvalue())
    if kind == 8:  # sizes in the list of members
        start = content.rfind(b"PK\x01\x02")
        struct.pack_into("<I", content, start + (24 if rng.random() < 0.5 else 20), int(rng.integers(0, 2**32 - 1)))
    return _signed(folder, good.body, dict(good.arrays), bytes(content))


def _header(kind: str, shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape!r}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(text)) + text


# --- several places that fit together -----------------------------------------------------------------


def overload(folder: Path, good: Certificate, rng: Rng) -> Path:
    """Whole and consistent, and far too much of it: starts, centers, witnesses, or one kernel in every place."""
    body, arrays = copy.deepcopy(good.body), dict(good.arrays)
    kind, many = int(rng.integers(0, 5)), int(10 ** rng.uniform(2, 5.5))
    proof = body["proof"]
    start = proof["estimand"]["policies"][0]["start"]
    if kind == 0 and start["observations"] is not None:
        states = arrays["estimand.policies.0.start.observations"]
        arrays["estimand.policies.0.start.observations"] = np.resize(states, (many, states.shape[1])) + rng.normal(
            size=(many, states.shape[1])
        )
        arrays["estimand.policies.0.start.weights"] = np.full(many, 1.0 / many)
        answers = arrays["estimand.policies.0.answers.initial"]
        arrays["estimand.policies.0.answers.initial"] = np.resize(answers, (many, *answers.shape[1:]))
    elif kind == 1:
        dimension = good.arrays["estimand.policies.0.start.weights"].ndim + int(rng.integers(0, 3))
        arrays |= {"many.centers": rng.normal(size=(many, dimension)), "many.weights": rng.normal(size=(many, 2))}
        function = {"function": "centers", "kernel": proof["instruments"]["kernel"], "centers": {"array": "many.centers"},
                    "weights": {"array": "many.weights"}}  # fmt: skip
        proof["witnesses"] = [function] * int(rng.integers(1, 9))
    elif kind == 2:
        proof["witnesses"] *= int(rng.integers(2, 300))
    else:
        kernel = HOSTILE[int(rng.integers(0, len(HOSTILE)))]()
        for place in (proof["ball"], proof["instruments"]) if kind == 3 else (proof["ball"],):
            place["kernel"] = kernel
        for function in [*proof["omegas"].values(), *proof["witnesses"]]:
            if kind == 3 and function is not None:
                function["kernel"] = kernel
    return _signed(folder, body, arrays)


DAMAGES: tuple[Callable[[Path, Certificate, Rng], Path], ...] = (
    break_text, break_archive, break_text_and_sign, spoil_value, spoil_value, spoil_value, repeat_names, spoil_array,
    spoil_array, trick_archive, overload,
)  # fmt: skip
