"""The wheel installs on its own, starts quickly, and carries nothing of the machine it was built on."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAPER = "Non-asymptotic Confidence Intervals of Off-policy Evaluation: Primal and Dual Bounds"

# --- the wheel ----------------------------------------------------------------------------------------


def _run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside the source tree's influence; on failure show all that it printed."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    env = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.timeout(900)
def test_wheel_installs_into_an_empty_environment(tmp_path: Path) -> None:
    from bondic._version import __version__

    dist = tmp_path / "dist"  # the wheel is made from the source distribution, so that one is tried as well
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, ROOT, cwd=tmp_path)
    (wheel,) = dist.glob("*.whl")
    (source,) = dist.glob("*.tar.gz")
    assert source.name == f"bondic-{__version__}.tar.gz"
    assert wheel.name.startswith(f"bondic-{__version__}-")

    venv = tmp_path / "venv"
    _run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=tmp_path)
    scripts = venv / ("Scripts" if os.name == "nt" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", scripts / "python", "install", "-q", "--disable-pip-version-check"]
    _run(*pip, "--no-compile", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)  # most of it is never imported here

    where = _run(scripts / "python", "-c", "import bondic; print(bondic.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(venv)
    version = _run(scripts / "python", "-c", "import bondic; print(bondic.__version__)", cwd=tmp_path)
    assert version.strip() == __version__
    assert "Usage" in _run(scripts / "bondic", "--help", cwd=tmp_path)
    answer = "import bondic; d = bondic.load_demo(); print(len(d.log), bondic.read_log('log.csv').transitions.rewards)"
    (tmp_path / "log.csv").write_text("obs,action,reward,next_obs,terminated\n0,1,0.5,1,0\n1,0,0.25,0,1\n")
    assert _run(scripts / "python", "-c", answer, cwd=tmp_path) == "50000 [0.5  0.25]\n"


def test_the_container_makes_targets_that_exist() -> None:
    """Whether it builds takes a daemon and a network; what it asks of the Makefile can be looked at without them."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    (last,) = (json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD "))
    asked = [words for line in lines for words in re.findall(r"make ([\w./-]+)", line)]
    assert last == ["make", "demo"]
    assert {"demo", "test", ".venv/.stamp-test"} <= {*asked, last[1]}
    for target in {*asked, last[1]}:
        _run("make", "-n", target, cwd=ROOT)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert ".venv/" in ignored
    assert not {".git", ".git/"} & set(ignored)  # a test asks git which files there are


# --- what starting up loads ---------------------------------------------------------------------------

HEAVY = {"numpy", "scipy", "numba", "pyarrow", "rich", "torch", "matplotlib"}
LOAD_PACKAGE = "import bondic"
SHOW_HELP = """
from bondic.cli.main import group, main
for words in [["--help"], *([name, "-h"] for name in group.commands)]:
    sys.argv = ["bondic", *words]
    try:
        main()
    except SystemExit as stop:
        assert stop.code in (0, None), stop.code
"""


def _loaded(statements: str, tmp_path: Path) -> set[str]:
    """Top-level names in sys.modules after the statements ran in a fresh interpreter."""
    report = tmp_path / "modules.json"
    script = tmp_path / "runner.py"
    script.write_text(
        f"import json, pathlib, sys\n{statements}\n"
        f"pathlib.Path({str(report)!r}).write_text(json.dumps(sorted(sys.modules)))\n"
    )
    _run(sys.executable, script, cwd=tmp_path)
    return {name.partition(".")[0] for name in json.loads(report.read_text())}


@pytest.mark.parametrize("statements", [LOAD_PACKAGE, SHOW_HELP], ids=["import", "help of every command"])
def test_starting_up_loads_nothing_heavy(statements: str, tmp_path: Path) -> None:
    loaded = _loaded(statements, tmp_path)
    assert "bondic" in loaded
    assert not loaded & HEAVY
    assert "scipy" in _loaded(f"{LOAD_PACKAGE}\nimport scipy", tmp_path) & HEAVY


def test_light_constants_of_the_command_line_agree_with_what_they_stand_for() -> None:
    import bondic
    from bondic.advice.lengths import KINDS
    from bondic.cli import commands
    from bondic.cli.options import ENGINES, SETTINGS
    from bondic.engines.standard import EngineName
    from bondic.estimate import OWN
    from bondic.extensions import added_methods
    from bondic.methods.dual import Dual
    from bondic_lab.baselines.registry import BASELINES
    from bondic_lab.catalog import NAMES
    from bondic_lab.commands import FIGURES
    from bondic_lab.reproduction.registry import EXPERIMENTS

    assert tuple(EXPERIMENTS) == FIGURES
    assert tuple(OWN)[: len(commands.METHODS)] == commands.METHODS
    assert tuple(BASELINES) == NAMES == tuple(added_methods())
    assert get_args(EngineName) == ENGINES
    assert SETTINGS["side"][1] == Dual().side
    assert commands.KINDS == KINDS
    assert len(bondic.__all__) <= 40


# --- citation -----------------------------------------------------------------------------------------


def test_citation_names_the_paper_and_the_version() -> None:
    from bondic._version import __version__

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["authors"] == [{"name": "The bondic developers"}]
    (paper,) = [entry for entry in citation["references"] if entry["title"] == PAPER]
    assert [author["family-names"] for author in paper["authors"]] == ["Feng", "Tang", "Zhang", "Liu"]
    assert paper["year"] == 2021
    assert str(citation["version"]) == __version__


# --- nothing of the machine ---------------------------------------------------------------------------

# The words are put together here so that this file does not match itself.
_OUTSIDE = "sha" + "red"
_TOPS = "|".join(("ho" + "me", "ro" + "ot", "Us" + "ers", "wo" + "rk", "op" + "t", "mn" + "t", "sr" + "v"))
MACHINE_PATHS = [
    re.compile(rf"\.\.[\\/]{_OUTSIDE}\b"),
    re.compile(rf"(?:parents?(?:\[\d+\])?|[\"']\.\.[\"'])\s*[/,]\s*[\"']{_OUTSIDE}\b"),
    re.compile(rf"(?<![\w.\-/\\}}])/(?:{_TOPS})/[\w.]"),
    re.compile(rf"file:///+(?:{_TOPS})\b"),
    re.compile(r"\b[A-Z]:\\{1,2}Us" + r"ers\b"),
]


def _machine_paths(text: str) -> list[str]:
    return [match.group() for pattern in MACHINE_PATHS for match in pattern.finditer(text)]


def _files_of_the_repository() -> list[Path]:
    """Tracked files, and those that the next `git add` would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    paths = [ROOT / os.fsdecode(name) for name in listing.split(b"\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_file_names_a_path_of_one_machine() -> None:
    found = {}
    files = _files_of_the_repository()
    for path in files:
        content = path.read_bytes()
        if b"\0" in content:
            continue
        if hits := _machine_paths(content.decode("utf-8", errors="replace")):
            found[str(path.relative_to(ROOT))] = hits
    assert ROOT / "pyproject.toml" in files
    assert not found


def test_a_path_of_one_machine_would_be_found_and_ordinary_text_is_none() -> None:
    paths = [
        f"open('../{_OUTSIDE}/x.csv')", f'ROOT.parent / "{_OUTSIDE}"', f'os.path.join("..", "{_OUTSIDE}")',
        "see /" + "home/someone/x", "'/" + "root/x'", "file:///" + "opt/wheels", "C:\\" + "Users\\someone",
    ]  # fmt: skip
    assert all(map(_machine_paths, paths))
    ordinary = [
        "#!/usr/bin/env bash",
        "https://example.org/" + "home/x",
        f"a {_OUTSIDE} kernel",
        "src/" + "work/x",
        "1/2",
    ]
    assert not any(map(_machine_paths, ordinary))
