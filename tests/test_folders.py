"""A result is replaced as a whole, also where the program is killed on the way."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from bondic import folders
from bondic.folders import RESULT_FORMAT, refuse_existing, result_folder

WRITING = """
import sys, time
from pathlib import Path
from bondic import folders

def stay():
    print("here", flush=True)
    time.sleep(60)

{stop}
with folders.result_folder(Path("{name}"), overwrite=True) as folder:
    {inside}
"""
MOVING = """
moved, replace = [], folders.os.replace
def stop(source, target):
    if len(moved) == {count}:
        stay()
    moved.append(target)
    replace(source, target)
folders.os.replace = stop
"""
FILES = ("result.json", "certificate.json", "summary.md")
WRITE = f"[(folder / name).write_text('new') for name in {FILES}]"


@contextmanager
def program(place, stop="", inside="stay()", name="out"):
    """Another process that has come to the moment in question."""
    code = WRITING.format(stop=stop, inside=inside, name=name)
    process = subprocess.Popen([sys.executable, "-c", code], cwd=place, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "here\n"
        yield process
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def write(place, *names, text="mine"):
    with result_folder(place, overwrite=True) as folder:
        for name in names:
            (folder / name).write_text(text)


def refuse_moves(monkeypatch, failing):
    """The disk is full at these moves of a file, counted from 0."""
    calls, real = [], os.replace

    def replace(source, target):
        calls.append(target)
        if len(calls) - 1 in failing:
            raise OSError(28, "No space left")
        real(source, target)

    monkeypatch.setattr(folders.os, "replace", replace)


def hidden(place):
    return sorted(path.name for path in place.iterdir() if path.name.startswith("."))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_replacement_that_was_killed_is_never_a_mixture_and_can_be_repeated(count, tmp_path):
    place = tmp_path / "out"
    place.mkdir()
    for name in FILES:
        (place / name).write_text("old")
    (place / "result.json").write_text(f'{{"format": "{RESULT_FORMAT}"}}')
    (place / "mine.txt").write_text("mine")
    with program(tmp_path, MOVING.format(count=count), WRITE):
        pass
    found = {path.read_text() for path in place.iterdir() if path.name in FILES[1:]}
    assert len(found) <= 1
    assert len(hidden(tmp_path)) == 1  # what may be the old result is not thrown away
    if count > 3:  # the new result.json of this test does not say what it is
        (place / "result.json").write_text(f'{{"format": "{RESULT_FORMAT}"}}')
    refuse_existing(place, overwrite=True)
    write(place, "result.json", "result.csv")
    assert {path.name for path in place.iterdir()} == {"result.json", "result.csv", "mine.txt"}


@pytest.mark.parametrize("failing", [0, 2, 4, None])
def test_a_result_that_cannot_be_moved_in_leaves_the_old_one(failing, tmp_path, monkeypatch):
    old = {"result.json": f'{{"format": "{RESULT_FORMAT}"}}', "certificate.npz": "rows", "summary.md": "old"}
    place = tmp_path / "out"
    place.mkdir()
    for name, text in {**old, "mine.txt": "mine"}.items():
        (place / name).write_text(text)
    refuse_moves(monkeypatch, () if failing is None else (failing,))
    if failing is None:
        write(place, "result.json", "result.csv")
    else:
        with pytest.raises(folders.InvalidInput, match="No space left"):
            write(place, "result.json", "result.csv")
    kept = {"result.json": "mine", "result.csv": "mine"} if failing is None else old
    assert {item.name: item.read_text() for item in place.iterdir()} == {**kept, "mine.txt": "mine"}
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_an_old_file_that_cannot_return_is_kept(tmp_path, monkeypatch):
    place = tmp_path / "out"
    place.mkdir()
    (place / "result.json").write_text(f'{{"format": "{RESULT_FORMAT}"}}')
    refuse_moves(monkeypatch, range(1, 99))
    with pytest.raises(folders.InvalidInput, match="No space left"):
        write(place, "summary.md")
    (kept,) = hidden(tmp_path)
    assert (tmp_path / kept / "result.json").exists()
