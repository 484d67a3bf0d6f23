"""Pictures of docs/gallery.md and README.md, from the demonstration log: `make gallery` (needs Chromium and matplotlib).

Screenshots of the report, plots, and a terminal session as SVG. Everything is written to docs/images.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

import bondic
from bondic.report.plots import comparison_figure, save_plot, sensitivity_figure, terms_figure
from bondic.report.table import result_table

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))

from chromium import Chromium, find_chromium  # noqa: E402

SHOTS: dict[str, tuple[int, int, dict[str, bool]]] = {
    "report-light.png": (1000, 1150, {}),
    "report-dark.png": (1000, 1150, {"dark": True}),
    "report-phone.png": (390, 844, {"phone": True}),
}
COMMAND = r"""$ bondic evaluate machine.csv --policy rules.py:maintain_late \
>     --gamma 0.8 --reward-range 0 1 --initial new.csv"""
RIVALS = ("duan-wang", "feng2020", "dm", "lstd", "drl", "model")


def question() -> bondic.Rows:
    demo = bondic.load_demo()
    return bondic.make_problem(demo.log, demo.policy, demo.initial, gamma=0.8, reward_range=(0.0, 1.0))


def shoot(page: str) -> None:
    """The top of the report as a reader sees it."""
    browser = find_chromium()
    if browser is None:
        raise SystemExit("no Chromium on the PATH: screenshots cannot be made")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.html"
        target.write_text(page, encoding="utf-8")
        window = Chromium(browser, Path(folder) / "profile")
        try:
            for name, (width, height, look) in SHOTS.items():
                window.window(width, height, **look)
                window.open(target)
                window.screenshot(IMAGES / name, beyond=False)
        finally:
            window.close()


def terminal(result: bondic.Result) -> None:
    """What `bondic evaluate` prints, as a picture whose text stays text."""
    console = Console(record=True, width=90, file=io.StringIO(), force_terminal=True)
    console.print(Text(COMMAND, style="bold"), soft_wrap=True)
    console.print(result_table(result))
    drawing = console.export_svg(title="bondic evaluate", unique_id="bondic", font_aspect_ratio=0.61)
    (IMAGES / "terminal.svg").write_text(_offline(drawing), encoding="utf-8")


def _offline(drawing: str) -> str:
    """rich names a font on the web; a reader's own monospaced font will do."""
    lines, skip = [], False
    for line in drawing.splitlines():
        skip = skip or line.strip().startswith("@font-face")
        if not skip:
            lines.append(line.replace("Fira Code, monospace", "monospace").rstrip())
        skip = skip and line.strip() != "}"
    return "\n".join(lines) + "\n"


def plots(problem: bondic.Rows, result: bondic.Result) -> None:
    save_plot(terms_figure(result), IMAGES / "terms.png")
    numbers = bondic.Dual(choices=bondic.Choices(categorical=False))  # a table has no radius that one could doubt
    curve = bondic.radius_sensitivity(problem, alpha=0.1, method=numbers)
    save_plot(sensitivity_figure(curve), IMAGES / "sensitivity.png")
    short = problem.select(0, 2000)  # on the whole log most rivals are shorter than their dot
    methods = {
        "sequential": bondic.Sequential(),
        "dual": bondic.Dual(),
        **{name: bondic.make_baseline(name) for name in RIVALS},
    }
    found = [(name, bondic.estimate_interval(short, alpha=0.1, method=method)) for name, method in methods.items()]
    save_plot(comparison_figure(found), IMAGES / "comparison.png")


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    demo, problem = bondic.load_demo(), question()
    result = bondic.estimate_interval(problem, alpha=0.1)
    terminal(result)
    plots(problem, result)
    page = bondic.report_page(
        result, problem, title="When to maintain the machine", log=demo.log, columns=["wear level"]
    )
    shoot(page)
    for path in sorted(IMAGES.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
