"""Methods of other packages, such as the baselines of the lab: found by the entry points of the group `bondic.methods`.

An entry point leads to a mapping from short names to methods. Its keys are known at once; a method is imported when its name is
looked up, so nothing of another package is loaded before it is used.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol

GROUP = "bondic.methods"


class NamedMethod(Protocol):
    """A method, and the fields that its short name stands for."""

    @property
    def method(self) -> type[Any]: ...
    @property
    def fixed(self) -> Mapping[str, Any]: ...

    def make(self, **options: Any) -> Any:
        """The method with these fields."""


@cache
def added_methods() -> Mapping[str, NamedMethod]:
    """By short name; empty where no other package adds any."""
    return ChainMap(*(entry.load() for entry in entry_points(group=GROUP)))
