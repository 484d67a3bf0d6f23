"""Objects in Python code of the user: `module:object` or `path/to/file.py:object`. The code runs: it is the user's own."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bondic.core.errors import InvalidInput, one_line
from bondic.errors import MissingExtra, PolicyError, did_you_mean, shown
from bondic.folders import near

_FILES: dict[str, tuple[str, str]] = {}
"""Modules that objects were loaded from: their files, and the hashes of these."""


def loaded_files() -> dict[str, tuple[str, str]]:
    """All of them, for another process where pickles refer to them."""
    return dict(_FILES)


def load_files(files: dict[str, tuple[str, str]]) -> None:
    """Import the modules of another process under their names, from the same files."""
    for name, (path, digest) in files.items():
        if name in sys.modules and _FILES.get(name, (path, digest)) == (path, digest):
            continue
        if _digest(Path(path)) != digest or name in sys.modules:
            raise PolicyError(
                f"{one_line(path, 200)} is not the file of the process that sent the work: it is missing here, has other "
                "contents, or was changed after this process loaded it. All processes need the same file under the same path; "
                "start the workers again after a change."
            )
        _load(name, Path(path))


def _digest(path: Path) -> str:
    """Of a file; empty where there is none to look at."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def import_object(spec: str) -> Any:
    """The object behind `module:object`; dots after the colon go into attributes."""
    place, _, name = spec.rpartition(":")
    if not place or not name or not all(part.isidentifier() for part in name.split(".")):
        raise InvalidInput(f"{one_line(spec, 200)} is not of the form module:object, such as my_policies:greedy.")
    module = import_module(place)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = [entry for entry in vars(module) if not entry.startswith("_")]
            raise InvalidInput(
                f"{one_line(place, 200)} has no `{one_line(name)}`. It has: {shown(public) or 'nothing'}."
                f"{did_you_mean(part, public)}"
            )
        found = getattr(found, part)
    return found


def import_module(place: str) -> Any:
    """A module by its name, or by its file."""
    try:
        if place.endswith(".py"):
            return _from_file(Path(place))
        with _working_folder():
            module = importlib.import_module(place)
        if (file := getattr(module, "__file__", None)) is not None:
            _FILES[place] = (str(Path(file).resolve()), _digest(Path(file)))
        return module
    except InvalidInput:
        raise
    except (Exception, SystemExit) as problem:  # importing runs the user's code
        raise PolicyError(
            f"{one_line(place, 200)} cannot be imported ({type(problem).__name__}: {one_line(problem, 300)})."
        ) from problem


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise InvalidInput(f"There is no file {one_line(path, 200)}.{near(path)}")
    name = f"_bondic_policy_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
    # of a file that has not changed there is one module: pickles look functions up in it
    known = name in sys.modules and _FILES.get(name) == (str(path.resolve()), _digest(path))
    return sys.modules[name] if known else _load(name, path)


def _load(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:  # other processes are not sent a module that fails
        del sys.modules[name]
        raise
    _FILES[name] = (str(path.resolve()), _digest(path))
    return module


@contextmanager
def _working_folder() -> Iterator[None]:
    """A module in the working folder is found, after everything that is installed."""
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.append(here)
    try:
        yield
    finally:
        if added and here in sys.path:
            sys.path.remove(here)


def load_pickle(path: Path) -> Any:
    """The object in a file that the user trusts."""
    try:
        if path.suffix.lower() == ".joblib":
            return _joblib(path)
        with path.open("rb") as file:
            return pickle.load(file)
    except MissingExtra:
        raise
    except (Exception, SystemExit) as problem:  # a pickle can raise anything
        raise InvalidInput(
            f"{one_line(path.name)} cannot be unpickled ({type(problem).__name__}: {one_line(problem, 200)})."
        ) from problem


def _joblib(path: Path) -> Any:
    try:
        import joblib  # comes with scikit-learn
    except ImportError as problem:
        raise MissingExtra("joblib", "sklearn", "Reading joblib files") from problem
    return joblib.load(path)
