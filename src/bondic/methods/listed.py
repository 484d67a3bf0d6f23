"""Methods that answer a misspelled option with those that they have."""

from __future__ import annotations

from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

from bondic.core.errors import InvalidInput, did_you_mean, one_line

Kind = TypeVar("Kind", bound=type)


def listing_options(kind: Kind) -> Kind:
    """The dataclass, whose constructor names its options where it is given one that it has not."""
    names, made = [field.name for field in fields(kind) if field.init], kind.__init__  # type: ignore[misc]

    @wraps(made)
    def checked(self: Any, *values: Any, **options: Any) -> None:
        for name in options:
            if name not in names:
                raise InvalidInput(
                    f"{kind.__name__} has no option `{one_line(name)}`.{did_you_mean(name, names)} It has {', '.join(names)}."
                )
        made(self, *values, **options)

    kind.__init__ = checked  # type: ignore[misc]
    return kind
