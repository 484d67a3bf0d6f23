"""Write the tables and pictures of experiments/reproduction/README.md from what `bondic reproduce` stored.

    python scripts/reproduction_page.py out/reproduction

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; the words around it are written by hand.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bondic_lab.reproduction.experiment import LABELS
from bondic_lab.reproduction.summary import slope

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "experiments" / "reproduction" / "README.md"
PICTURES = ROOT / "experiments" / "reproduction"

Summary = dict[str, Any]
Rows = list[dict[str, Any]]


def name(method: str) -> str:
    short = {"hcope": "`hcope`", "is-percentile": "`is-percentile`", "dm": "`dm`", "plug-in": "plug-in"}
    return short.get(method, LABELS.get(method, method))


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def minus(text: str) -> str:
    return text.replace("-", "−")


def markdown(head: list[str], lines: list[list[str]]) -> str:
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join(["| " + " | ".join(head) + " |", rule, *("| " + " | ".join(line) + " |" for line in lines)])


def of(rows: Rows, /, **wanted: Any) -> dict[str, Any]:
    """The one line of the table with these values."""
    found = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    if len(found) != 1:
        raise SystemExit(f"{len(found)} lines with {wanted}: is this a complete run?")
    return found[0]


def methods(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def fig1(summary: Summary) -> str:
    rows = [row for row in summary["table"] if "rows" in row]  # the others are about delta
    sizes = sorted({row["rows"] for row in rows})
    shown = [sizes[0], 5000, sizes[-1]]
    lines = []
    for method in methods(rows):
        lengths = [of(rows, method=method, rows=n)["raw length"] for n in sizes]
        values = [number(lengths[sizes.index(n)]) for n in shown]
        slopes = [minus(f"{slope(s, y):.2f}") for s, y in ((sizes, lengths), (sizes[-3:], lengths[-3:]))]
        lines.append([name(method), *values, *slopes])
    heads = [f"n = {n:,}".replace(",", " ") if n >= 10_000 else f"n = {n}" for n in shown]
    return markdown(["F⁺ − F⁻", *heads, "slope, all n", "slope, last three"], lines)


def fig2(summary: Summary) -> str:
    rows = summary["table"]
    worlds = list(dict.fromkeys(row["world"] for row in rows))

    def cell(row: dict[str, Any]) -> str:
        return minus(f"[{row['low']:.3g}, {row['high']:.3g}]") + f" ({row['misses']} of {row['trials']})"

    lines = [
        [name(method), *(cell(of(rows, world=world, method=method)) for world in worlds)] for method in methods(rows)
    ]
    return markdown(["median interval (misses)", *(world.replace("cartpole", "cart-pole") for world in worlds)], lines)


def radius(summary: Summary) -> str:
    rows = summary["table"]
    sizes = sorted({row["rows"] for row in rows})
    lines = []
    for method in methods(rows):
        for factor in (1.0, 100.0):
            ratios = [
                of(rows, method=method, rows=n, factor=factor)["raw length"]
                / of(rows, method=method, rows=n, factor=10.0)["raw length"]
                for n in sizes
            ]
            lines.append([f"{name(method)}, {factor:.0f} ‖q*‖", *(f"{ratio:.2f}" for ratio in ratios)])
    return markdown(["F⁺ − F⁻ over that of 10 ‖q*‖", *(f"n = {n}" for n in sizes)], lines)


def over(key: str, title: Callable[[Any], str], what: str, head: str) -> Callable[[Summary], str]:
    """One line per method, one column per value of `key`."""

    def table(summary: Summary) -> str:
        rows = summary["table"]
        places = list(dict.fromkeys(row[key] for row in rows))
        lines = [
            [name(method), *(number(of(rows, method=method, **{key: place})[what]) for place in places)]
            for method in methods(rows)
        ]
        return markdown([head, *map(title, places)], lines)

    return table


def length(summary: Summary) -> str:
    rows = summary["table"]
    places = sorted({row["steps"] for row in rows})
    lines = [
        [
            f"γ = {gamma:g}, {name(method)}",
            *(number(of(rows, gamma=gamma, method=method, steps=T)["length"]) for T in places),
        ]
        for gamma in sorted({row["gamma"] for row in rows})
        for method in methods(rows)
    ]
    return markdown(["length", *(f"T = {T}" for T in places)], lines)


def tightness(summary: Summary) -> str:
    rows = summary["table"]
    gammas = sorted({row["gamma"] for row in rows})
    sizes = sorted({row["rows"] for row in rows})
    ratios = {
        (float(found[1]), found[2]): float(found[3])
        for note in summary["notes"]
        if (found := re.match(r"γ = (\S+), (.*?): (\S+) times the limit", note))
    }
    limits = [note.rsplit(" ", 1)[1] for note in summary["notes"] if "a-priori" in note]
    lines = [[f"efficiency limit at n = {sizes[-1]}", *limits]]
    for method in methods(rows):
        cells = []
        for gamma in gammas:
            mine = [of(rows, gamma=gamma, method=method, rows=n) for n in sizes]
            trivial = " (trivial)" if mine[-1]["trivial"] == mine[-1]["trials"] else ""
            rate = slope(sizes, [row["raw length"] for row in mine])
            cells.append(f"{ratios[gamma, LABELS[method]]:.1f}{trivial}, slope {minus(f'{rate:.2f}')}")
        lines.append([name(method), *cells])
    lines.append(["a-priori length ÷ limit", *(f"{ratios[gamma, 'a-priori length']:.0f}" for gamma in gammas)])
    return markdown(["length ÷ limit, slope", *(f"γ = {gamma:g}" for gamma in gammas)], lines)


TABLES: dict[str, Callable[[Summary], str]] = {
    "fig1": fig1,
    "fig2": fig2,
    "ablation-radius": radius,
    "ablation-temperature": over("rate", lambda rate: "union" if rate < 0 else f"{rate:g}", "length", "length"),
    "ablation-length": length,
    "ablation-behavior": over("temperature", lambda t: f"{t:g}", "raw length", "F⁺ − F⁻"),
    "tightness": tightness,
}


def verdict(summaries: list[Summary]) -> str:
    checks = [check for summary in summaries for check in summary["checks"]]
    return (
        f"{len(checks)} cells, {sum(check['trials'] for check in checks)} intervals, "
        f"{sum(check['failures'] for check in checks)} misses, {sum(check['violated'] for check in checks)} violations."
    )


def insert(page: str, mark: str, text: str) -> str:
    pattern = re.compile(rf"(<!-- table: {re.escape(mark)} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"experiments/reproduction/README.md has no place for {mark}.")
    return pattern.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the --out of `bondic reproduce`")
    folder = parser.parse_args().folder
    summaries = {path.parent.name: json.loads(path.read_text()) for path in sorted(folder.glob("*/summary.json"))}
    page = PAGE.read_text()
    for figure, table in TABLES.items():
        page = insert(page, figure, table(summaries[figure]))
    page = insert(page, "verdict", verdict(list(summaries.values())))
    for figure in summaries:
        shutil.copyfile(folder / figure / f"{figure}.png", PICTURES / f"{figure}.png")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
