"""Notebooks are the tutorials: the same cells, and they run in Jupyter. Results show themselves there, and draw on axes."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console

import bondic
from bondic.core.claims import Status
from bondic.report.progress import progress_bar

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import make_notebooks  # noqa: E402


@pytest.mark.parametrize("name", make_notebooks.PAGES)
def test_a_notebook_is_its_page(name):
    stored = json.loads((ROOT / "notebooks" / f"{name}.ipynb").read_text())
    made = make_notebooks.notebook(ROOT / "docs" / "tutorials" / f"{name}.md")
    assert stored == made, "run `python scripts/make_notebooks.py`"


def test_links_of_a_notebook_lead_somewhere():
    page = ROOT / "docs" / "tutorials" / "clicks-and-prices.md"
    text = "".join(line for cell in make_notebooks.notebook(page)["cells"] for line in cell["source"])
    assert "](../docs/logs-and-policies.md)" in text
    assert (ROOT / "notebooks" / "../docs/logs-and-policies.md").resolve().exists()


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own
def test_a_notebook_runs(tmp_path, monkeypatch):
    """One of them, in Jupyter: cells are those of the pages, and every page is run."""
    import nbclient
    import nbformat

    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    book = nbformat.read(ROOT / "notebooks" / "clicks-and-prices.ipynb", as_version=4)
    shown = [cell.get("outputs", []) for cell in book.cells]
    nbformat.validate(book)
    nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    for cell, before in zip(book.cells, shown, strict=True):
        if cell.cell_type == "code" and before and not cell.source.startswith(("!", "%%")):
            printed = "".join(out["text"] for out in cell.outputs if out["output_type"] == "stream")
            assert printed.split() == "".join(before[0]["text"]).split()


# --- how results look there ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared():
    """Two hundred decisions: a new policy beside today's."""
    rng = np.random.default_rng(1)
    actions = rng.integers(0, 2, 200)
    log = {"obs": np.zeros(200), "action": actions, "reward": 1.0 * (rng.random(200) < 0.2 + 0.6 * actions)}
    policy = bondic.TablePolicy([[0.0, 1.0]])
    propensity = np.full(200, 0.5)
    return bondic.evaluate_policy(
        {**log, "propensity": propensity}, policy, reward_range=(0, 1), one_step=True, against="today"
    )


def test_a_cell_shows_the_answer_both_policies_and_the_rest_folded(compared):
    shown, _, folded = compared._repr_html_().partition("<details>")
    assert compared.headline() in shown
    assert shown.count('<rect class="bar') == 2
    assert "Assumptions</h3>" not in shown
    assert "Assumptions</h3>" in folded
    assert "<script" not in shown + folded
    rejected = replace(compared, status=Status.REJECTED)
    assert '<rect class="bar' not in rejected._repr_html_()


def test_a_picture_is_shown_by_itself_or_drawn_on_axes(compared):
    value, table = compared.parts[0], bondic.compare(dict(zip(compared.names, compared.parts, strict=True)))
    words = [(compared, "difference of the values"), (value, "value of the policy"), (table, "value of the policy")]
    for shown, label in words:
        assert shown.plot()._repr_png_().startswith(b"\x89PNG")
        left, right = Figure().subplots(1, 2)
        assert shown.plot(ax=right) is right
        assert right.lines
        assert right.get_xlabel() == label
        assert not left.lines


@pytest.mark.parametrize("notebook", [False, True])
def test_a_command_in_a_notebook_draws_no_bar(notebook, monkeypatch):
    """`!bondic` runs in a pseudo-terminal whose cursor cannot move up."""
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    if notebook:
        monkeypatch.setenv("JPY_PARENT_PID", "1")
    out = io.StringIO()
    with progress_bar(Console(file=out, force_terminal=True)) as report:
        report("plan", 0.5)
    assert ("\x1b[" in out.getvalue()) is not notebook
