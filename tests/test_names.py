"""One word, one meaning: names that were given up stay away, one spelling, and every field of a public class is explained."""

import ast
import dataclasses
import doctest
import inspect
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

import bondic

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# --- names --------------------------------------------------------------------------------------------


@cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def test_one_class_has_a_name_to_itself():
    """Two classes with one name, or a class and a type, are two meanings of a word; with an underscore it is a file's own."""
    classes, types = {}, {}
    for path in SOURCES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append(str(path.relative_to(ROOT / "src")))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                types.setdefault(node.targets[0].id, []).append(str(path.relative_to(ROOT / "src")))
    twice = {name: files for name, homes in classes.items() if len(files := homes + types.get(name, [])) > 1}
    assert not twice, f"one name, several meanings: {twice}"


RETIRED = {
    "Asked": "Estimand", "AskedPolicy": "StoredPolicy", "asked_of": "estimand_of", "Doubt": "ValidityNote",
    "doubts": "validity_notes", "ask_policy": "query_policy", "ask_next": "query_next", "ask_start": "query_start",
    "ask_target": "query_target", "can_be_asked": "answers_queries", "LeftTogether": "PooledRemainder",
    "left_together": "pooled_remainders", "seen_from": "from_end", "seen_by": "training_provenance",
    "SeenStates": "ObservedStates", "come_again": "has_repeats", "Traveling": "Serializable", "Bumps": "GaussianSum",
    "Gambler": "BettingProcess", "Proposer": "Planner", "Foresight": "predicted_length",
}  # fmt: skip
"""Names that were given up, and what took their place."""
RETIRED_FILES = ("asked", "doubts", "bumps", "elsewhere", "here", "travel", "parcel", "outside", "stand_ins")


def test_retired_names_do_not_come_back():
    """No variable, function, class, field or module has one of them again."""
    back = [
        f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}, say {RETIRED[token.string]}"
        for path in SOURCES
        for token in tokenize.generate_tokens(iter(path.read_text(encoding="utf-8").splitlines(keepends=True)).__next__)
        if token.type == tokenize.NAME and token.string in RETIRED
    ]
    assert back == []
    assert [str(path) for path in SOURCES if path.stem in RETIRED_FILES] == []


# --- arguments ----------------------------------------------------------------------------------------


def public_dataclasses():
    found = (getattr(bondic, name) for name in bondic.__all__)
    return sorted((item for item in found if dataclasses.is_dataclass(item)), key=lambda item: item.__name__)


def unexplained(cls):
    """Fields without a comment on their line, a text below them, or a line `name : type` in the docstring."""
    for field in dataclasses.fields(cls):
        owner = next(base for base in cls.__mro__ if field.name in vars(base).get("__annotations__", {}))
        if field.init and not field.name.startswith("_") and field.name not in explained(owner) | explained(cls):
            yield field.name


@cache
def explained(cls):
    lines = inspect.getsource(cls).splitlines(keepends=True)
    comments = {
        token.start[0] for token in tokenize.generate_tokens(iter(lines).__next__) if token.type == tokenize.COMMENT
    }
    node = ast.parse(inspect.cleandoc("".join(lines)) if lines[0][0] == " " else "".join(lines)).body[0]
    out = set(re.findall(r"^ *(\w+) : ", cls.__doc__ or "", re.MULTILINE))
    for item, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(item, ast.AnnAssign):
            below = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if below or comments & set(range(item.lineno, item.end_lineno + 1)):
                out.add(item.target.id)
    return out


def public_functions():
    return [name for name in bondic.__all__ if inspect.isfunction(getattr(bondic, name))]


def undescribed(function):
    """Arguments that no line `name : type`, `one, two : type` or `one, two` of the docstring is about."""
    text = inspect.getdoc(function) or ""
    heads = re.findall(r"^((?:\w+, )*\w+)(?: : .*)?$", text.partition("Parameters\n---")[2], re.MULTILINE)
    return sorted(inspect.signature(function).parameters.keys() - {name for head in heads for name in head.split(", ")})


@pytest.mark.parametrize("name", public_functions())
def test_every_argument_of_a_public_function_is_explained(name):
    assert undescribed(getattr(bondic, name)) == []


def test_an_argument_without_a_line_is_noticed():
    def function(known, other):
        """Text with other inside.

        Parameters
        ----------
        known : int
            A number.
        """

    assert undescribed(function) == ["other"]


def test_examples_of_public_names_run():
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    tests = [found for name in bondic.__all__ for found in finder.find(getattr(bondic, name), name) if found.examples]
    assert len(tests) >= 4
    assert [runner.run(found).failed for found in tests] == [0] * len(tests)


def test_every_field_of_a_public_dataclass_is_explained():
    lacking = {cls.__name__: fields for cls in public_dataclasses() if (fields := list(unexplained(cls)))}
    assert not lacking, f"a comment beside the field, or `name : type` in the docstring, is missing: {lacking}"


# --- notation -----------------------------------------------------------------------------------------


# --- spelling -----------------------------------------------------------------------------------------

PROSE = [
    path
    for folder in ("src", "docs")
    for kind in ("py", "md", "js", "css")
    for path in (ROOT / folder).rglob(f"*.{kind}")
]
BRITISH = re.compile(
    r"behaviour|centre|colour|neighbour|favour|grey|artefact|labelled|cancelled|cancelling|modelled|travelled|"
    r"(?:normal|factor|optim|minim|maxim|summar|general|real|initial|serial|regular|discret|random|recogn|standard|vector|"
    r"linear|marginal|symmetr|local|penal|character|parametr|organ)is(?:e|ed|er|es|ing|ation|ations)\b",
    re.IGNORECASE,
)
MEANT = ("behaviour_action_probs",)
"""A name of a column that people use, and an argument of `bondic reproduce`."""


def british(path):
    """Where a file spells a word the British way."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = BRITISH.search(re.sub("|".join(MEANT), "", line))
        if words is not None:
            yield f"{path.relative_to(ROOT)}:{number}: {words[0]}"


def test_spelling_is_american():
    assert [place for path in [*PROSE, ROOT / "README.md"] for place in british(path)] == []
    assert BRITISH.search("the optimiser of neighbours")
    assert not BRITISH.search("otherwise a promise of noise")


# --- words that readers stumble over ------------------------------------------------------------------------
