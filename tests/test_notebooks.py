"""Notebooks are the tutorials: the same cells, and they run in Jupyter."""

import json
import sys
from pathlib import Path

import pytest

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
