"""The checks of `make release-check` on texts that are wrong; its commands are run when a version is made."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import release_check  # noqa: E402

CHANGES = "# Changelog\n\n## {}\n\n### Validity\n\n- Something.\n\n## 0.1.0 - 2020-01-01\n\n- Older.\n"


@pytest.mark.parametrize(("version", "title"), [("7.2.0.dev0", "Unreleased"), ("7.2.0", "7.2.0 - 2026-01-31")])
def test_the_first_section_is_the_one_of_the_version(version, title):
    assert release_check.section(version, CHANGES.format(title)) == title
    for wrong in ("7.2.0", "7.2.1 - 2026-01-31", "Unreleased" if release_check.final(version) else "7.2.0.dev0"):
        with pytest.raises(release_check.Problem, match="first section"):
            release_check.section(version, CHANGES.format(wrong))
    with pytest.raises(release_check.Problem, match="empty"):
        release_check.section(version, CHANGES.format(title).replace("- Something.", ""))


def test_another_place_that_writes_the_version_is_found_and_versions_of_others_are_not():
    texts = {
        "a.py": '__version__ = "7.2.0"',
        "b.cff": "version: 7.2.0",
        "c.md": "bondic 7.2.0",
        "d.txt": "bondic-7.2.0",
    }
    other = {"e.txt": "scipy==7.2.0", "f.py": 'version = "7.2.0.dev0"', "g.md": "bondic 17.2.0"}
    assert release_check.quoted_versions("7.2.0", {**texts, **other}.items()) == list(texts)


def test_this_checkout_has_one_version_and_a_section_for_it():
    assert release_check.one_version() == release_check.version()
    assert release_check.changelog()
    assert "Apache-2.0" in release_check.metadata()


def test_a_file_that_is_not_in_the_repository_is_found_in_a_package():
    assert release_check.foreign(["src/a.py", "src/secret.txt"], {"src/a.py"}) == ["src/secret.txt"]


def test_a_command_that_fails_is_a_problem_with_its_words():
    with pytest.raises(release_check.Problem, match="gave 3:\nwhy"):
        release_check.run(sys.executable, "-c", "print('why'); raise SystemExit(3)")
