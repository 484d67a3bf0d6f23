"""What a result can be turned into: plain data, a row, a picture, a page, a folder.

Each is a public function of `report`, which stands above results and is found by its public name when it is asked for: a
result knows no view of itself.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

from bondic.errors import InvalidInput


def _public(name: str) -> Any:
    return getattr(import_module("bondic"), name)


class Shortcuts:
    """Methods that every result has."""

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data: exactly what `result.json` holds, next steps included where the question is still there."""
        found: dict[str, Any] = _public("result_dict")(self)
        if not found["next_steps"] and getattr(self, "question", None) is not None:
            found["next_steps"] = [step.to_dict() for step in self.next_steps()]
        return found

    def to_row(self) -> dict[str, Any]:
        """One row of a table of many results, by column; the columns of `result.csv`."""
        found: dict[str, Any] = _public("result_row")(self)
        return found

    def to_frame(self) -> Any:
        """`to_row` as a pandas DataFrame of one row; `pandas.concat` makes a table of many."""
        return frame([self.to_row()])

    def next_steps(self) -> tuple[Any, ...]:
        """What would help where the answer is trivial, wide or rejected: `bondic.next_steps(result)`."""
        found: tuple[Any, ...] = _public("next_steps")(self)
        return found

    def plot(self) -> Any:
        """Both ends as stacks of their terms, with the interval: a matplotlib Figure (extra `plot`)."""
        return _public("terms_figure")(self)

    def report(self, path: str | os.PathLike[str], *, title: str = "Policy evaluation") -> Path:
        """Write the report, one page that opens anywhere."""
        written: Path = _public("write_report")(self, path, title=title)
        return written

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        title: str = "Policy evaluation",
        overwrite: bool = False,
        no_rows: bool = False,
    ) -> Path:
        """Write result, certificate and report into a folder that appears when it is complete, as `bondic evaluate` does."""
        written: Path = _public("save_result")(self, folder, title=title, overwrite=overwrite, no_rows=no_rows)
        return written


def frame(rows: list[dict[str, Any]]) -> Any:
    """Rows as a pandas DataFrame; pandas is looked for when somebody asks for one."""
    try:
        pandas = import_module("pandas")
    except ImportError as problem:
        raise InvalidInput(
            "A DataFrame needs pandas: pip install pandas. Without it, to_row() has the same."
        ) from problem
    return pandas.DataFrame(rows)
