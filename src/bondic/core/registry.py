"""What a certificate may name, by kind: kernels, functions, noise bounds, classes, models and proofs. Open to everybody.

    @register("kernel", "my-kernel")
    @dataclass(frozen=True, eq=False)
    class MyKernel(Leaf): ...

A certificate holds the name and the fields; verification needs the same class under the same name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from bondic.core.errors import InvalidInput, VerificationError, one_line

C = TypeVar("C", bound=type)

_BASES: dict[str, type] = {}
_MEMBERS: dict[str, dict[str, type]] = {}
_NAMES: dict[type, tuple[str, str]] = {}


def kind(name: str) -> Callable[[C], C]:
    """Class decorator: everything of this kind is a subclass of the decorated one."""

    def decorate(base: C) -> C:
        _BASES[name], _MEMBERS[name] = base, {}
        return base

    return decorate


def register(kind: str, name: str) -> Callable[[C], C]:
    """Class decorator, above @dataclass(frozen=True): `name` stands for the class in certificates.

    `kind` is "kernel", "function", "noise", "class", "model" or "proof". A class that is defined again (a cell of a
    notebook that is run twice) takes its own place.
    """

    def decorate(cls: C) -> C:
        if kind not in _BASES:
            raise InvalidInput(f"There is no kind {kind!r}; there are {', '.join(sorted(_BASES))}.")
        taken = _MEMBERS[kind].get(name)
        if taken is not None and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise InvalidInput(f"The {kind} name {name!r} is taken by {taken.__module__}.{taken.__qualname__}.")
        if not issubclass(cls, _BASES[kind]):
            raise InvalidInput(f"{cls.__name__} is registered as a {kind} but is no {_BASES[kind].__name__}.")
        final = next((base for base in cls.__mro__[1:] if base in _NAMES), None)
        if final is not None:
            raise InvalidInput(
                f"{cls.__name__} is derived from {final.__name__}, and wherever the library meets one of those it computes with "
                f"that formula. Derive it from {_BASES[kind].__name__} or another class without a name of its own."
            )
        if not (is_dataclass(cls) and cls.__dataclass_params__.frozen):  # type: ignore[attr-defined]
            raise InvalidInput(
                f"{cls.__name__} must be a frozen dataclass, @register above @dataclass(frozen=True, eq=False): its fields are "
                "what a certificate holds."
            )
        if kind in (field.name for field in fields(cls)):
            raise InvalidInput(f"A field of {cls.__name__} is called {kind!r}, where its registered name is written.")
        _MEMBERS[kind][name] = cls
        _NAMES[cls] = (kind, name)
        return cls

    return decorate


def lookup(kind: str, name: Any, place: str = "") -> type:
    """The class of this name; unknown names are refused with those that are known."""
    found = _MEMBERS[kind].get(name) if isinstance(name, str) else None
    if found is None:
        raise VerificationError(
            f"{place}: there is no {kind} {one_line(repr(name))}; known are {', '.join(names(kind))}. One of your own is known "
            "once the module that registers it is imported (--import MODULE)."
        )
    return found


def names(kind: str) -> tuple[str, ...]:
    return tuple(sorted(_MEMBERS[kind]))


def registered(cls: type) -> tuple[str, str] | None:
    """(kind, name) of exactly this class; a subclass has to be registered itself."""
    return _NAMES.get(cls)


def kind_of(cls: type) -> str | None:
    """The kind whose base `cls` is, or is derived from."""
    return next((name for name, base in _BASES.items() if issubclass(cls, base)), None)


def from_outside(value: object) -> bool:
    """Whether an object's class is not one of the packages of this distribution."""
    return not type(value).__module__.startswith(("bondic.", "bondic_lab."))
