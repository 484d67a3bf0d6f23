"""Values on their way to another process, as bytes: plain data and arrays by the codec. No pickle, no code.

    length of the head (8 bytes) | head: JSON | arrays, one after the other

The same values give the same bytes, so a digest of them names a piece of work.
"""

from __future__ import annotations

import importlib
import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from bondic._version import __version__
from bondic.codec import Arrays, Encoder, decode, instances
from bondic.errors import ExecutorError, InvalidInput
from bondic.registry import registered

_LENGTH = 8
_KINDS = "biuf"


def pack(**values: Any) -> bytes:
    """Named values as bytes."""
    encoder = Encoder()
    data = {name: encoder.encode(value, name) for name, value in values.items()}
    arrays = {name: _portable(array) for name, array in encoder.arrays.items()}
    forms = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    head = json.dumps({"values": data, "arrays": forms}).encode()
    return b"".join([len(head).to_bytes(_LENGTH, "little"), head, *(array.tobytes() for array in arrays.values())])


def pack_job(**values: Any) -> bytes:
    """Values for a process that may have other libraries: with our version, and the modules that they need."""
    return pack(version=__version__, modules=_homes(tuple(values.values())), **values)


def open_job(data: bytes) -> Parcel:
    """What `pack_job` made, once this process can read it."""
    parcel = Parcel(data)
    version = parcel.read("version", str)
    if version != __version__:
        raise ExecutorError(
            f"The work was sent by bondic {version}, and this process has {__version__}. Install the same version everywhere."
        )
    for module in parcel.read("modules", tuple[str, ...]):
        importlib.import_module(module)
    return parcel


def _homes(values: tuple[Any, ...]) -> tuple[str, ...]:
    """Modules that have to be imported before these values can be read."""
    homes = {type(part).__module__ for part in instances(values, object) if registered(type(part)) is not None}
    if "__main__" in homes:
        raise InvalidInput(
            "A kernel or function that is defined in a script is not known to other processes. Put it into a module that they "
            "can import."
        )
    return tuple(sorted(homes))


def _portable(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind not in _KINDS:
        raise InvalidInput(f"An array of {array.dtype} cannot be sent to another process: numbers are needed.")
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


class Parcel:
    """What `pack` made, to be read value by value, each by its type."""

    def __init__(self, data: bytes) -> None:
        try:
            end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
            head = json.loads(data[_LENGTH:end])
            self._values, self._arrays = head["values"], _arrays(data, end, head["arrays"])
        except (ValueError, KeyError, TypeError) as problem:
            raise ExecutorError(
                f"{len(data)} bytes from another process are no parcel of bondic ({problem}): do all machines have the same "
                "version?"
            ) from problem

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def read(self, name: str, kind: Any, **supplies: Any) -> Any:
        """The value of this name and type; `supplies` are those of the codec."""
        if name not in self._values:
            raise ExecutorError(f"A parcel from another process has no {name}: do all machines have the same version?")
        return decode(kind, self._values[name], self._arrays, name, **supplies)


def _arrays(data: bytes, start: int, forms: list[Any]) -> Arrays:
    found: Arrays = {}
    for name, form, shape in forms:
        kind, count = np.dtype(form), math.prod(shape)
        if kind.kind not in _KINDS:
            raise ValueError(f"an array of {kind}")
        found[name] = np.frombuffer(data, kind, count, start).reshape(shape).copy()  # aligned
        start += count * kind.itemsize
    if start != len(data):
        raise ValueError("its length is wrong")
    return found
