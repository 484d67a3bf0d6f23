"""Pictures of docs/report.md and README.md: `make gallery` (needs Chromium and matplotlib).

Screenshots of the report, plots, and a terminal session as SVG. Everything is written to docs/images.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

import bondic
from bondic.advice.levers import with_next_steps
from bondic.decisions.difference import with_today
from bondic.report.pens import result_table
from bondic.report.plots import save_plot

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))

from gallery_situations import SITUATIONS, comparison, machine  # noqa: E402

from chromium import Chromium, find_chromium  # noqa: E402

SHOTS: dict[str, tuple[str, int, int, str, dict[str, bool]]] = {
    "report-light.png": ("sharp", 900, 1000, "", {}),
    "report-dark.png": ("sharp", 900, 1060, "", {"dark": True}),
    "report-phone.png": ("sharp", 390, 844, "", {"phone": True}),
    "report-wide.png": ("wide", 900, 1300, "", {}),
    "report-trivial.png": ("trivial", 900, 1000, "", {}),
    "report-rejected.png": ("rejected", 900, 840, "", {}),
    "report-one-step.png": ("one-step", 900, 640, "health", {}),
    "report-34-actions.png": ("many-actions", 900, 900, "health", {}),
    "comparison-page.png": ("comparison", 900, 960, "", {}),
    "comparison-phone.png": ("comparison", 390, 844, "", {"phone": True, "dark": True}),
}
"""File: situation, width, height, the section it shows, and how."""
COMMAND = r"""$ bondic evaluate machine.csv --policy rules.py:maintain_late \
>     --gamma 0.8 --reward-range 0 1 --initial new.csv"""
_COLORS = 128
"""Of a picture: enough for pages without photographs, at a third of the size."""


def pages(folder: Path) -> dict[str, Path]:
    """Every situation as a page."""
    out = {name: folder / f"{name}.html" for name in (*SITUATIONS, "comparison")}
    for name, situation in SITUATIONS.items():
        out[name].write_text(situation.page(), encoding="utf-8")
    comparison().report(out["comparison"], title="Which method?")
    return out


def shoot() -> None:
    """The reports as a reader sees them."""
    browser = find_chromium()
    if browser is None:
        raise SystemExit("no Chromium on the PATH: screenshots cannot be made")
    with tempfile.TemporaryDirectory() as folder:
        targets = pages(Path(folder))
        window = Chromium(browser, Path(folder) / "profile")
        try:
            for name, (situation, width, height, section, look) in SHOTS.items():
                window.window(width, height, **look)
                window.open(targets[situation])
                if section:
                    window.run(f"document.getElementById('{section}').scrollIntoView()")
                window.screenshot(IMAGES / name, beyond=False)
                _smaller(IMAGES / name)
        finally:
            window.close()


def _smaller(path: Path) -> None:
    """The same picture with fewer colors."""
    with Image.open(path) as picture:
        reduced = picture.convert("RGB").quantize(_COLORS, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)


def terminal(result: bondic.Result) -> None:
    """What `bondic evaluate` prints, as a picture whose text stays text."""
    console = Console(record=True, width=90, file=io.StringIO(), force_terminal=True)
    console.print(Text(COMMAND, style="bold"), soft_wrap=True)
    console.print(result_table(result, width=console.width))
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


def plots(result: bondic.Result) -> None:
    save_plot(result.plot(), IMAGES / "terms.png")
    save_plot(comparison().plot(), IMAGES / "comparison.png")


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    problem = machine()
    result = with_next_steps(with_today(bondic.estimate_interval(problem, alpha=0.1), problem), problem)
    terminal(result)
    plots(result)
    shoot()
    for path in sorted(IMAGES.iterdir()):
        print(f"{path.relative_to(ROOT)}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
