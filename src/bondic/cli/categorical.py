"""`--categorical` and `--numeric`: which observation columns hold names. Text of the log is names without being asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bondic.core.errors import InvalidInput, did_you_mean, one_line, shown
from bondic.data.io.loaded import LoadedLog
from bondic.tuning.states import Categorical

EVERY = "obs"


def stated_columns(options: Mapping[str, Any], loaded: LoadedLog | None, dimension: int) -> Categorical:
    """True, False, or numbers of columns, as the options say; None when they say nothing."""
    words: Sequence[str] = options["categorical"]
    if options["numeric"]:
        if words:
            raise InvalidInput(
                f"--numeric says that no column holds names, --categorical {one_line(words[0])} that one does. Keep one of them."
            )
        return False
    names = () if loaded is None else loaded.names
    if not words:
        return _coded(loaded, names, dimension)
    if EVERY in words and EVERY not in names:
        return True
    return tuple(sorted({_column(word, names, dimension) for word in words}))


def _column(word: str, names: Sequence[str], dimension: int) -> int:
    """A name of a column, or else its number from 0."""
    if word in names:
        return names.index(word)
    if word.isdecimal() and int(word) < dimension:
        return int(word)
    known = f"observations have the columns {shown(tuple(names))}" if names else "columns have no names here"
    raise InvalidInput(
        f"--categorical {one_line(word)} is no observation column: {known}; their numbers are 0 to {dimension - 1}, and "
        f"{EVERY} means all of them.{did_you_mean(word, names)}"
    )


def _coded(loaded: LoadedLog | None, names: Sequence[str], dimension: int) -> Categorical:
    """Columns that were text and became codes 0, 1, ...: nothing relates them but equality."""
    codings = {} if loaded is None else loaded.encodings
    coded = {name for coding in codings.values() if coding.kind == "codes" for name in coding.columns}
    columns = tuple(index for index, name in enumerate(names) if name in coded)
    return (True if len(columns) == dimension else columns) if columns else None
