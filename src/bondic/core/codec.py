"""Frozen dataclasses as plain data, by their fields: JSON values plus named arrays. No pickle, no code.

Writing follows the values, reading follows the annotations of the fields and refuses everything else with its place.
Registered objects (`bondic.core.registry`) are written as {kind: name, field: ..., ...}, arrays as {"array": name}.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import cache
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from bondic.core.errors import BondicError, InvalidInput, VerificationError, one_line
from bondic.core.registry import kind_of, lookup, registered

Arrays = dict[str, npt.NDArray[Any]]

_INFINITE = "may be infinite"
Extended = Annotated[float, _INFINITE]
"""A number that may be infinite; every other number of a certificate is finite."""
Numbers = Annotated[Any, npt.NDArray[np.float64]]
"""A field that takes what numpy makes an array of, and holds that array."""


def supplied(by: str, key: str | None = None) -> dict[str, str | None]:
    """Metadata of a field that is no data: the reader supplies it by this name (`key`: field with the entry's name)."""
    return {"supplied": by, "key": key}


# --- writing --------------------------------------------------------------------------------------------


class Encoder:
    """Turns values into plain data and collects their arrays under the place where they stand."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._stored: dict[int, tuple[str, Any]] = {}  # the object is kept: its id stays its own

    def encode(self, value: Any, place: str) -> Any:
        if isinstance(value, np.ndarray):
            return {"array": self._array(value, place)}
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, tuple | list):
            return [self.encode(item, _at(place, k)) for k, item in enumerate(value)]
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {key: self.encode(item, _at(place, key)) for key, item in value.items()}
        if not isinstance(value, type) and (dataclasses.is_dataclass(value) or kind_of(type(value))):
            return self._object(value, place)
        raise InvalidInput(f"{place}: a {type(value).__name__} cannot be written into a certificate.")

    def _object(self, value: Any, place: str) -> dict[str, Any]:
        cls = type(value)
        kind = registered(cls)
        if kind is None and (base := kind_of(cls)) is not None:
            raise InvalidInput(
                f"{place}: {cls.__name__} is not registered, so no certificate can name it. Put "
                f'@register("{base}", "a-name") above the class (bondic.core.registry).'
            )
        data = {
            field.name: self.encode(getattr(value, field.name), _at(place, field.name)) for field in data_fields(cls)
        }
        return data if kind is None else {kind[0]: kind[1], **data}

    def _array(self, array: npt.NDArray[Any], place: str) -> str:
        """An array that several parts share is stored once."""
        name, _ = self._stored.setdefault(id(array), (place, array))
        repeats = array.strides == (0,)  # one number, however long the array is
        self.arrays.setdefault(name, array if repeats else np.ascontiguousarray(array))
        return name


def _at(place: str, name: str | int) -> str:
    return f"{place}.{name}" if place else str(name)


def with_arrays(data: Any, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Encoded data with its arrays in place of their names: to be encoded again elsewhere."""
    if isinstance(data, dict):
        if set(data) == {"array"} and data["array"] in arrays:
            return arrays[data["array"]]
        return {name: with_arrays(item, arrays) for name, item in data.items()}
    return [with_arrays(item, arrays) for item in data] if isinstance(data, list) else data


# --- reading --------------------------------------------------------------------------------------------


def decode(annotation: Any, data: Any, arrays: Mapping[str, npt.NDArray[Any]], place: str, **supplies: Any) -> Any:
    """The value of this type that `data` describes; `supplies` are what fields marked `supplied` need."""
    return Decoder(arrays, supplies).decode(annotation, data, place)


@dataclasses.dataclass(frozen=True, eq=False)
class Decoder:
    """Builds values by the types they must have."""

    arrays: Mapping[str, npt.NDArray[Any]]
    supplies: Mapping[str, Any]

    def decode(self, annotation: Any, data: Any, place: str) -> Any:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if annotation in _WORDS:
            return _plain(annotation, data, place)
        if origin is Annotated:
            return _number(data, place) if _INFINITE in arguments else self.decode(arguments[1], data, place)
        if origin in (types.UnionType, typing.Union):
            return self._optional(arguments, data, place)
        if origin is typing.Literal:
            known = any(word == data and type(word) is type(data) for word in arguments)
            return _need(known, place, f"one of {', '.join(map(repr, arguments))} is needed", data)
        if origin is tuple:
            return self._tuple(arguments, data, place)
        if origin is dict:
            _need(type(data) is dict, place, "a list of named values is needed", data)
            pairs = ((self.decode(arguments[0], key, place), key, item) for key, item in data.items())
            return {key: self.decode(arguments[1], item, f"{place}.{name}") for key, name, item in pairs}
        if origin is np.ndarray:
            return self._array(arguments[1], data, place)
        if origin is npt.NDArray:  # NumPy 2.5 and later: a name of its own, not what it stands for
            return self._array(types.GenericAlias(np.dtype, (arguments[0],)), data, place)
        if isinstance(annotation, type) and issubclass(annotation, Enum):
            known = type(data) is str and data in annotation.__members__
            return annotation[_need(known, place, f"a {annotation.__name__} is needed", data)]
        if isinstance(annotation, type) and (kind_of(annotation) or dataclasses.is_dataclass(annotation)):
            return self._object(annotation, data, place)
        raise InvalidInput(
            f"{place}: values of type {annotation} cannot be read from a certificate. Fields are numbers, texts, arrays "
            "(bondic.core.codec.Numbers, npt.NDArray), tuples, dict[str, ...], frozen dataclasses and registered classes."
        )

    def _optional(self, arguments: tuple[Any, ...], data: Any, place: str) -> Any:
        if data is None and type(None) in arguments:
            return None
        others = [argument for argument in arguments if argument is not type(None)]
        others = [
            argument for argument in others if argument is type(data)
        ] or others  # 5 is whole before it is a number
        for argument in others[:-1]:
            with suppress(VerificationError):
                return self.decode(argument, data, place)
        return self.decode(others[-1], data, place)

    def _tuple(self, arguments: tuple[Any, ...], data: Any, place: str) -> tuple[Any, ...]:
        _need(type(data) is list, place, "a list is needed", data)
        if arguments[-1] is Ellipsis:
            arguments = arguments[:1] * len(data)
        _need(len(data) == len(arguments), place, f"a list of {len(arguments)} is needed", data)
        return tuple(self.decode(kind, data[k], f"{place}.{k}") for k, kind in enumerate(arguments))

    def _array(self, dtype: Any, data: Any, place: str) -> npt.NDArray[Any]:
        _need(type(data) is dict and set(data) == {"array"}, place, "an array is needed", data)
        name, expected = data["array"], typing.get_args(dtype)
        known = type(name) is str and name in self.arrays
        _need(known, place, "the name of an array that the certificate holds is needed (is one missing?)", name)
        array = self.arrays[name]
        if expected and expected[0] is not Any:
            kind = np.dtype(expected[0])
            _need(array.dtype == kind, place, f"numbers of type {kind} are needed", str(array.dtype))
        return array

    def _object(self, annotation: type, data: Any, place: str) -> Any:
        data = dict(_need(type(data) is dict, place, "a list of named values is needed", data))
        cls, kind = annotation, kind_of(annotation)
        if kind is not None:
            cls = lookup(kind, data.pop(kind, None), place)
            _need(issubclass(cls, annotation), place, f"a {annotation.__name__} is needed", cls.__name__)
        hints, known = field_types(cls), {field.name: field for field in data_fields(cls)}
        for name in known.keys() ^ data.keys():
            problem = "is missing" if name in known else "does not belong here"
            raise VerificationError(f"{place}.{one_line(name)} {problem}.")
        values = {name: self.decode(hints[name], data[name], f"{place}.{name}") for name in known}
        values |= {field.name: self._supply(field, values, place) for field in supplied_fields(cls)}
        try:
            return cls(**values)
        except BondicError as problem:
            raise VerificationError(f"{place}: {problem}") from problem

    def _supply(self, field: dataclasses.Field[Any], values: dict[str, Any], place: str) -> Any:
        by, key = field.metadata["supplied"], field.metadata["key"]
        found = self.supplies.get(by)
        if key is None and found is not None:
            return found
        if key is not None and found is not None and values[key] in found:
            return found[values[key]]
        label = "..." if key is None else f"{{{values[key]!r}: f}}"
        raise InvalidInput(f"{place}: `{field.name}` is not part of the certificate: pass {by}={label}.")


_WORDS = {
    float: "a number is needed",
    int: "a whole number is needed",
    bool: "true or false is needed",
    str: "text is needed",
}


def _plain(annotation: Any, data: Any, place: str) -> Any:
    if annotation is float:
        number = _number(data, place)
        _need(math.isfinite(number), place, "a finite number is needed", data)
        return number
    return _need(type(data) is annotation, place, _WORDS[annotation], data)


def _number(data: Any, place: str) -> float:
    """A float that is a number, or infinite."""
    _need(type(data) in (int, float) and abs(data) <= math.inf, place, _WORDS[float], data)
    try:
        return float(data)
    except OverflowError:
        return float(_need(False, place, "a finite number is needed", data))


def _need(condition: bool, place: str, expected: str, data: Any) -> Any:
    """The data, where they are what is expected."""
    if not condition:
        raise VerificationError(f"{one_line(place, 200)}: {expected}, not {one_line(reprlib.repr(data), 100)}.")
    return data


# --- fields ---------------------------------------------------------------------------------------------


@cache
def field_types(cls: type) -> dict[str, Any]:
    """The types of the fields, with names resolved."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError as problem:
        raise InvalidInput(
            f"The types of the fields of {cls.__name__} cannot be read ({problem}): define the class and its types at the top "
            "level of a module."
        ) from problem


def data_fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(field for field in dataclasses.fields(cls) if field.init and "supplied" not in field.metadata)


def supplied_fields(cls: type) -> tuple[dataclasses.Field[Any], ...]:
    return tuple(field for field in dataclasses.fields(cls) if "supplied" in field.metadata)


def same(first: Any, second: Any) -> bool:
    """Whether two values are the same data, field by field and number by number; functions of the user by identity."""
    return not first_difference(first, second, "value")


def first_difference(first: Any, second: Any, place: str, tolerance: float = 0.0, *, entrywise: bool = False) -> str:
    """Where two values first differ; "": nowhere by more than a share of the largest number of an array.

    `entrywise`: of each number. Columns of one array may have units of very different size.
    """
    if first is second:
        return ""
    if isinstance(first, _NUMBERS) and isinstance(second, _NUMBERS):
        return "" if _near(np.asarray(first), np.asarray(second), tolerance, entrywise=entrywise) else place
    if type(first) is not type(second):
        return place
    one, other = _children(first), _children(second)
    if one is None or other is None:
        return "" if first == second else place
    if one.keys() != other.keys():
        return place
    found = (first_difference(one[k], other[k], _at(place, k), tolerance, entrywise=entrywise) for k in one)
    return next(filter(None, found), "")


_NUMBERS = (bool, int, float, np.generic, np.ndarray)


def _near(one: npt.NDArray[Any], other: npt.NDArray[Any], tolerance: float, *, entrywise: bool) -> bool:
    if one.shape != other.shape or not (np.issubdtype(one.dtype, np.floating) and tolerance):
        return np.array_equal(one, other)
    with np.errstate(invalid="ignore"):  # infinities are equal or not
        size = np.abs(other) if entrywise else np.max(np.abs(other), where=np.isfinite(other), initial=0.0)
        return bool(np.all((one == other) | (np.abs(one - other) <= tolerance * size)))


def _children(value: Any) -> dict[Any, Any] | None:
    """The parts of a value by name or number; None for one that has none."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else None


def instances(value: Any, kind: type) -> Iterator[Any]:
    """Everything of this type that stands somewhere in the fields of a value."""
    if isinstance(value, kind):
        yield value
    for item in (_children(value) or {}).values():
        yield from instances(item, kind)
