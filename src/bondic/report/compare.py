"""compare: several results, or several methods on one question, as a table that prints, exports and draws itself."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from bondic.core.claims import ErrorBudget, check_alpha
from bondic.core.errors import BondicError, InvalidInput, kind_of
from bondic.estimate import estimate_interval, named_method
from bondic.methods.candidates import Method
from bondic.rendering import escape
from bondic.report.comparison import Line, comparison_page, comparison_table, print_comparison
from bondic.report.exports import frame
from bondic.report.plots import comparison_figure
from bondic.result import Result
from bondic.rows import Rows
from bondic.saving import write_atomically

_WIDTH = 120


@dataclass(frozen=True)
class Comparison:
    """Several intervals side by side: prints as a table, and leaves as rows, a DataFrame, a picture or a page."""

    lines: tuple[Line, ...]  # one per interval, with its name, or why there is none
    title: str  # what the intervals promise together

    def __len__(self) -> int:
        return len(self.lines)

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines)

    def __getitem__(self, name: str) -> Result:
        """The result of this name."""
        found = {line.name: line for line in self.lines}
        if name not in found:
            raise InvalidInput(f"There is no line {name!r}; there are {', '.join(found)}.")
        result = found[name].result
        if result is None:
            raise InvalidInput(f"{name} gave no interval: {found[name].reason}")
        return result

    def __str__(self) -> str:
        text = io.StringIO()
        print_comparison(Console(file=text, width=_WIDTH, color_system=None), list(self.lines), self.title, costs=True)
        return text.getvalue().rstrip()

    def to_rows(self) -> list[dict[str, Any]]:
        """A dict per line: name, method, guarantee, ends, length, status, seconds; `reason` where there is no interval."""
        return [line.to_row() for line in self.lines]

    def to_frame(self) -> Any:
        """`to_rows` as a pandas DataFrame."""
        return frame(self.to_rows())

    def plot(self) -> Any:
        """All intervals in one picture: a matplotlib Figure (extra `plot`)."""
        return comparison_figure([(line.name, line.result) for line in self.lines if line.result is not None])

    def report(self, path: str | os.PathLike[str], *, title: str = "Comparison") -> Path:
        """Write picture and table as one page that opens anywhere; returns the path."""
        target = Path(path)
        write_atomically(target, comparison_page(self.lines, self.title, title=title).encode())
        return target

    def _repr_html_(self) -> str:
        reasons = [f"<p>{escape(line.name)}: {escape(line.reason)}</p>" for line in self.lines if line.result is None]
        return f"<section><p>{escape(self.title)}</p>{comparison_table(self.lines)}{''.join(reasons)}</section>"


def compare(
    what: Sequence[Result] | Mapping[str, Result] | Rows,
    methods: Sequence[str | Method] | Mapping[str, str | Method] | None = None,
    *,
    alpha: float = 0.1,
    joint: bool = False,
) -> Comparison:
    """Results side by side, or what several methods say about one problem.

    Parameters
    ----------
    what : list of Result, dict of Result, or Rows
        Results, by name where they are a dict; or the problem that `make_problem` returns, and `methods` to run on it.
    methods : list or dict of str or Method, default None
        Names such as "sequential", "dual", "tis", or methods with options of their own, by name where they are a dict. One
        that cannot be used on this log has a line that says why.
    alpha : float, default 0.1
        Probability of a miss of each interval; only for a problem.
    joint : bool, default False
        Divide alpha over all methods, so that all finite-sample intervals hold at once and one may be picked afterwards.
    """
    if isinstance(what, Rows):
        return _methods(what, methods, alpha, joint)
    if methods is not None:
        raise InvalidInput("methods= is for a problem: compare(make_problem(...), ['sequential', 'dual']).")
    named = dict(what) if isinstance(what, Mapping) else _names(what)
    for name, result in named.items():
        if not isinstance(result, Result):
            raise InvalidInput(f"{name} is {kind_of(result)}, not a Result: pass what evaluate_policy returns.")
    if not named:
        raise InvalidInput("There is nothing to compare.")
    lines = tuple(Line("" if name == r.method else str(name), r.method, r) for name, r in named.items())
    return Comparison(lines, "Each interval holds by itself, at its own alpha")


def _names(results: Any) -> dict[str, Any]:
    """Results by method, those of the same method numbered."""
    if isinstance(results, Result | str) or not isinstance(results, Sequence):
        raise InvalidInput(
            f"compare takes a list of results, a dict of them by name, or a problem; it was given {kind_of(results)}."
        )
    return _numbered([(getattr(result, "method", f"entry {k}"), result) for k, result in enumerate(results)])


def _numbered(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Values by name; where a name comes several times, it is numbered."""
    names = [name for name, _ in pairs]
    return {
        f"{name} {index + 1}" if names.count(name) > 1 else name: value for index, (name, value) in enumerate(pairs)
    }


def _methods(problem: Rows, methods: Any, alpha: float, joint: bool) -> Comparison:
    check_alpha(alpha)
    if not methods or isinstance(methods, str) or not isinstance(methods, Sequence | Mapping):
        raise InvalidInput("Name the methods to compare in a list: compare(problem, ['sequential', 'dual', 'tis']).")
    listed = (
        dict(methods)
        if isinstance(methods, Mapping)
        else _numbered([(one if isinstance(one, str) else type(one).__name__.lower(), one) for one in methods])
    )
    chosen = {name: named_method(one) if isinstance(one, str) else one for name, one in listed.items()}
    share = line_alpha(alpha, [(name, "") for name in chosen]) if joint else alpha
    lines = [tried("", name, _running(problem, share, one), strict=len(chosen) == 1) for name, one in chosen.items()]
    return Comparison(tuple(lines), joint_title(share, joint=joint))


def _running(problem: Rows, alpha: float, method: Method) -> Callable[[], Result]:
    return lambda: estimate_interval(problem, alpha=alpha, method=method)


def line_alpha(alpha: float, lines: Sequence[tuple[str, str]]) -> float:
    """The share of one line: a reader may pick the policy *and* the method after seeing them all."""
    budget = ErrorBudget.split(alpha, {f"{first} {second}": 1.0 for first, second in lines})
    return min(budget.parts.values())


def joint_title(alpha: float, *, joint: bool) -> str:
    if joint:
        return f"All finite-sample lines hold at once (alpha = {alpha:.3g} each)"
    return f"Each interval holds by itself (alpha = {alpha:.3g})"


def tried(policy: str, name: str, run: Callable[[], Result], *, strict: bool) -> Line:
    """A method that cannot be used on this log, or lacks its library, says why; alone it is an error."""
    try:
        result = run()
        return Line(policy, result.method if name == "auto" else name, result)
    except BondicError as problem:
        if strict:
            raise
        return Line(policy, name, None, str(problem))
