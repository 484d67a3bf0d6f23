"""The table of evidence: every kind has logs of its own, and misses are counted."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))

from experiments import evidence  # noqa: E402

KIND = evidence.Kind("some logs", "some")


def row(low, high, status="INTERVAL"):
    known = {"cell": "some", "truth": 0.5, "slack": 0.0, "width": 1.0, "seconds": 1.0, "used": "table"}
    return known | {"low": low, "high": high, "status": status, "alpha": 0.1, "method": "default"}


def test_every_kind_has_logs_and_no_log_two_kinds():
    names = list(evidence.cells())
    for kind in evidence.KINDS:
        assert any(re.fullmatch(kind.pattern, name) for name in names), kind.words
    assert all(sum(bool(re.fullmatch(kind.pattern, name)) for kind in evidence.KINDS) <= 1 for name in names)


@pytest.mark.parametrize(("misses", "mark"), [(1, False), (9, True)])
def test_misses_and_trivial_answers_are_counted(misses, mark):
    rows = [row(0.6, 0.7)] * misses + [row(0.4, 0.6)] * (20 - misses) + [row(0.0, 1.0, "TRIVIAL")] * 5
    cells = [cell.strip() for cell in evidence.line(KIND, rows).split("|")[1:-1]]
    assert cells[:2] == ["some logs", "25"]
    assert cells[2] == f"{misses}{' **too many**' if mark else ''}"
    assert cells[3] == "20"


def test_the_page_has_a_place_for_the_table():
    page = (ROOT / "docs" / "evidence.md").read_text()
    assert len(evidence.MARKS.findall(page)) == 1


def test_what_is_stated_about_short_episodes_is_true():
    trial = evidence.reminders(evidence.np.random.default_rng(0), patients=200)
    low, high = trial.evaluate(0.1).interval
    assert low <= trial.truth <= high
