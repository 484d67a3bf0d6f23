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
import ctypes, os, shutil
moved = []
def counted(real):
    def call(*given, **more):
        if len(moved) == {count}:
            stay()
        moved.append(real)
        return real(*given, **more)
    return call
for module, name in ((os, "replace"), (os, "rename"), (os, "link"), (ctypes, "CDLL"), (shutil, "rmtree")):
    setattr(module, name, counted(getattr(module, name)))
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


def old_result(tmp_path):
    place = tmp_path / "out"
    (place / "own").mkdir(parents=True)
    old = dict.fromkeys(FILES, "old") | {"result.json": f'{{"format": "{RESULT_FORMAT}"}}', "certificate.npz": "rows"}
    for name, text in {**old, "mine.txt": "mine", "own/notes.txt": "mine"}.items():
        (place / name).write_text(text)
    return place, old


def texts(place):
    return {str(path.relative_to(place)): path.read_text() for path in place.rglob("*") if path.is_file()}


@pytest.mark.parametrize("count", range(6))
def test_a_replacement_that_was_killed_leaves_the_old_result_or_the_new_one(count, tmp_path):
    place, old = old_result(tmp_path)
    with program(tmp_path, MOVING.format(count=count), f"{WRITE}\nprint('here', flush=True)"):
        pass
    others = {"mine.txt": "mine", "own/notes.txt": "mine"}
    assert texts(place) in (old | others, dict.fromkeys(FILES, "new") | others)
    (place / "result.json").write_text(f'{{"format": "{RESULT_FORMAT}"}}')  # that of WRITE does not say what it is
    refuse_existing(place, overwrite=True)
    write(place, "result.json", "result.csv")
    assert texts(place) == {"result.json": "mine", "result.csv": "mine"} | others


def one_by_one(monkeypatch):
    """A system that cannot exchange two folders."""
    monkeypatch.setattr(folders.ctypes, "CDLL", lambda _: object())


@pytest.mark.parametrize("failing", [0, 1, None])
def test_a_result_that_cannot_be_moved_in_leaves_the_old_one(failing, tmp_path, monkeypatch):
    place, old = old_result(tmp_path)
    one_by_one(monkeypatch)
    refuse_moves(monkeypatch, () if failing is None else (failing,))
    if failing is None:
        write(place, "result.json", "result.csv")
    else:
        with pytest.raises(folders.InvalidInput, match="No space left"):
            write(place, "result.json", "result.csv")
    kept = {"result.json": "mine", "result.csv": "mine"} if failing is None else old
    assert texts(place) == {**kept, "mine.txt": "mine", "own/notes.txt": "mine"}
    assert [item.name for item in tmp_path.iterdir()] == ["out"]


def test_a_result_in_the_folder_of_the_program_is_not_replaced(tmp_path, monkeypatch):
    place, old = old_result(tmp_path)
    monkeypatch.chdir(place / "own")
    with pytest.raises(folders.InvalidInput, match="from another folder"):
        write(place, "result.json")
    assert old.items() <= texts(place).items()


def test_an_old_folder_that_cannot_return_is_kept(tmp_path, monkeypatch):
    place = tmp_path / "out"
    place.mkdir()
    (place / "result.json").write_text(f'{{"format": "{RESULT_FORMAT}"}}')
    one_by_one(monkeypatch)
    refuse_moves(monkeypatch, range(1, 99))
    with pytest.raises(folders.InvalidInput, match="No space left"):
        write(place, "summary.md")
    (kept,) = hidden(tmp_path)
    assert (tmp_path / kept / "result.json").exists()
