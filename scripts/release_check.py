"""What has to hold before a version is published: `make release-check`.

Every check returns what it saw, or raises `Problem`. All of them run; the exit code is 1 if one failed. Nothing is uploaded,
tagged or changed: at the end stands what is left to a person.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = Path(sys.executable).parent
ALONE = ("bondic/", "bondic_lab/")
"""All that a wheel holds beside its metadata."""
LEFT = """left to a person:
  the tag, the upload (twine upload), and README's install line once the package can be installed by its name
  the address of the repository: [project.urls] in pyproject.toml, and links of README, which lead nowhere on PyPI without it
  long statistical runs (make experiments) and other systems than this one"""


class Problem(Exception):
    """Why this version cannot be published as it is."""


def run(*command: str | Path, cwd: Path = ROOT, path: Path | None = None) -> str:
    """What a command prints, with nothing of this checkout on its paths; with `path`, only programs of that folder."""
    words = [str(part) for part in command]
    env = {"PATH": str(path), "HOME": str(cwd), "COLUMNS": "80"} if path else None
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Problem(f"{' '.join(words)} gave {done.returncode}:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def tracked() -> set[str]:
    return set(run("git", "ls-files").splitlines())


# --- the checkout -------------------------------------------------------------------------------------


def version() -> str:
    text = (ROOT / "src/bondic/_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise Problem("src/bondic/_version.py states no version")
    return found[1]


def final(number: str) -> bool:
    return re.fullmatch(r"\d+\.\d+\.\d+", number) is not None


def clean_tree() -> str:
    if changed := run("git", "status", "--porcelain"):
        raise Problem(f"files are not committed:\n{changed.rstrip()}")
    return run("git", "log", "-1", "--format=%h").strip()


def quoted_versions(number: str, texts: Iterable[tuple[str, str]]) -> list[str]:
    """Files that write this version of bondic down."""
    pattern = re.compile(rf"(?:version[\W_]{{1,6}}|bondic[\s=-]{{1,2}}){re.escape(number)}(?![\w.])", re.IGNORECASE)
    return [name for name, text in texts if pattern.search(text)]


def one_version() -> str:
    """Written in `_version.py`; CITATION.cff repeats it for readers that run nothing, and a test compares."""
    names = sorted(tracked() - {"CHANGELOG.md", "constraints.txt"})
    texts = ((name, (ROOT / name).read_bytes().decode(errors="ignore")) for name in names)
    if (found := quoted_versions(version(), texts)) != ["CITATION.cff", "src/bondic/_version.py"]:
        raise Problem(f"the version {version()} is written in {', '.join(found)}")
    return version()


def section(number: str, changelog: str) -> str:
    """The newest section of the changelog, which is the one of this version."""
    title, _, text = changelog.partition("\n## ")[2].partition("\n")
    text = text.partition("\n## ")[0]
    wanted = rf"\[?{re.escape(number)}\]? - \d{{4}}-\d\d-\d\d" if final(number) else "Unreleased"
    if not re.fullmatch(wanted, title):
        raise Problem(
            f"the first section of CHANGELOG.md is {title!r}; version {number} needs one that fits {wanted!r}"
        )
    if not re.search(r"^- \S", text, re.MULTILINE):
        raise Problem(f"section {title!r} of CHANGELOG.md is empty")
    return title


def changelog() -> str:
    return section(version(), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def metadata() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if final(version()) and "urls" not in project:
        raise Problem("[project.urls] is missing: readers of the package index need the address of the repository")
    urls = ", ".join(project.get("urls", ["none yet"]))
    return f"{project['license']}, {len(project['classifiers'])} classifiers, urls: {urls}"


def container() -> str:
    run(TOOLS / "hadolint", "--failure-threshold", "style", "Dockerfile")
    try:
        run("docker", "build", "--quiet", ".")
    except (OSError, Problem) as problem:
        reason = str(problem).strip().splitlines()[-1]
        return f"linted; not built: {reason}"
    return "linted and built"


def documentation() -> str:
    with tempfile.TemporaryDirectory() as folder:
        run(TOOLS / "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder)
        first = (Path(folder) / "index.html").read_text(encoding="utf-8")
        if f"bondic {version()}</title>" not in first:
            raise Problem("the title of the documentation lacks the version")
        return f"{len(list(Path(folder).rglob('*.html')))} pages, titled bondic {version()}"


# --- the packages -------------------------------------------------------------------------------------


def foreign(names: Iterable[str], known: set[str]) -> list[str]:
    """Files of a package that are not in the repository."""
    return sorted(name for name in names if name not in known)


def packages(dist: Path) -> str:
    run(TOOLS / "python", "-m", "build", "--outdir", dist, ROOT)
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    run(TOOLS / "twine", "check", "--strict", wheel, source)
    with zipfile.ZipFile(wheel) as opened:
        inside = [name for name in opened.namelist() if ".dist-info/" not in name]
        licensed = any(name.endswith(".dist-info/licenses/LICENSE") for name in opened.namelist())
    if "bondic/py.typed" not in inside or not licensed or not all(name.startswith(ALONE) for name in inside):
        raise Problem(f"{wheel.name} lacks py.typed or LICENSE, or holds more than {' and '.join(ALONE)}")
    with tarfile.open(source) as opened:
        outside = [name.partition("/")[2] for name in opened.getnames()]
    known = tracked() | {"PKG-INFO"}
    if extra := foreign((f"src/{name}" for name in inside), known) + foreign(outside, known):
        raise Problem(f"packages hold files that are not in the repository: {', '.join(extra)}")
    sizes = ", ".join(f"{path.name} {path.stat().st_size / 1e6:.1f} MB" for path in (wheel, source))
    return f"{sizes}; twine check passed"


def installed(package: Path, place: Path, folder: Path) -> str:
    """A user's first minutes: install, demonstration, verify, a log of one's own; with no git in reach.

    The environment is made for the first package; a second one takes the place of the first there.
    """
    scripts, again = place / "bin", ("--force-reinstall", "--no-deps") if place.exists() else ()
    if not again:
        venv.create(place)
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python", "install", "-q", "--disable-pip-version-check")
    run(*pip, "--no-compile", *again, package, cwd=folder)

    def bondic(*words: str) -> str:
        return run(scripts / "bondic", *words, cwd=folder, path=scripts)

    if version() not in (said := bondic("--version")):
        raise Problem(f"--version prints {said!r}")
    answer = bondic("demo", "--out", "demo", "--quiet").strip()
    save = "import bondic, numpy; log = bondic.load_demo().log; keys = ('observations actions rewards next_observations '\n"
    save += "    'terminations truncations episode_ids timesteps').split()\n"
    save += "numpy.savez('log.npz', **{key: getattr(log, key) for key in keys})\n"
    (folder / "save.py").write_text(save, encoding="utf-8")
    run(scripts / "python", "save.py", cwd=folder, path=scripts)
    (folder / "policy.py").write_text("import bondic\n\npolicy = bondic.load_demo().policy\n", encoding="utf-8")
    checked = bondic("verify", "demo", "log.npz", "--policy", "policy.py:policy").splitlines()[0]
    if not checked.startswith("verified"):
        raise Problem(f"the demonstration is not verified: {checked}")
    rows = "".join(f"{i % 5},{i * i % 13 % 2},{i % 3 % 2},0.5\n" for i in range(400))
    (folder / "log.csv").write_text("obs,action,reward,propensity\n" + rows, encoding="utf-8")
    rule = "import numpy\n\n\ndef first(x):\n    return numpy.tile([1.0, 0.0], (len(x), 1))\n"
    (folder / "rule.py").write_text(rule, encoding="utf-8")
    words = ("log.csv", "--one-step", "--policy", "rule.py:first", "--reward-range", "0", "1")
    own = bondic("evaluate", *words, "--quiet", "--out", "own").splitlines()[-1]
    return f"{answer} / {checked} / {own}"


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        dist = Path(folder) / "dist"

        def first_minutes(suffix: str) -> Callable[[], str]:
            def check() -> str:
                (place := Path(folder) / suffix.strip("*.")).mkdir()
                found = list(dist.glob(suffix))
                if not found:
                    raise Problem("there is no such package")
                return installed(found[0], Path(folder) / "venv", place)

            return check

        checks: dict[str, Callable[[], str]] = {
            "clean tree": clean_tree,
            "one version": one_version,
            "changelog": changelog,
            "metadata": metadata,
            "packages": lambda: packages(dist),
            "wheel, installed": first_minutes("*.whl"),
            "source, installed": first_minutes("*.tar.gz"),
            "documentation": documentation,
            "container": container,
        }
        failed = []
        for name, check in checks.items():
            try:
                print(f"ok      {name}: {check()}", flush=True)
            except Problem as problem:
                failed.append(name)
                print(f"FAILED  {name}: {problem}", flush=True)
    print(LEFT)
    print(f"{len(checks) - len(failed)} of {len(checks)} hold" + (f"; not: {', '.join(failed)}" if failed else ""))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
