"""Fields that are made when they are first used: starts of a log that is read in batches may be as many as its rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self


class Unread:
    """Mixed into a frozen dataclass, before it. `replace` and the constructor give objects whose fields are all there."""

    @classmethod
    def made_by(cls, make: Callable[[], Mapping[str, Any]], **known: Any) -> Self:
        """An object with the known fields; `make` gives the others."""
        found: Self = object.__new__(cls)
        vars(found).update(known, _make=make)
        return found

    @property
    def made(self) -> bool:
        return "_make" not in vars(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self.made:
            raise AttributeError(name)
        make = vars(self).pop("_make")
        try:
            vars(self).update(make())
        except BaseException:
            vars(self)["_make"] = make
            raise
        return getattr(self, name)
