from __future__ import annotations

import datetime

import pytest

from tools.release import ReleaseError, assemble, check, fragments, newest

TODAY = datetime.date(2026, 11, 29)
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n### Added\n\n- It.\n"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "changelog.d").mkdir()
    return tmp_path


def write(root, name, text="Calls end sooner.\n"):
    (root / "changelog.d" / name).write_text(text)


def test_fragments_become_a_dated_section_in_the_order_of_the_format(root):
    write(root, "net.fixed.md")
    write(root, "client.added.md", "A client.\nIt calls.\n")

    assemble(root, TODAY)

    new = "## [0.2.0] - 2026-11-29\n\n### Added\n\n- A client.\n  It calls.\n\n### Fixed\n\n- Calls"
    assert new in (root / "CHANGELOG.md").read_text()


def test_the_new_section_stands_above_the_older_one(root):
    write(root, "net.fixed.md")

    assemble(root, TODAY)

    assert newest((root / "CHANGELOG.md").read_text()) == "0.2.0"


def test_assembled_fragments_are_gone(root):
    write(root, "net.fixed.md")

    assemble(root, TODAY)

    assert not any(fragments(root).values())


def test_a_version_is_released_once(root):
    write(root, "net.fixed.md")
    (root / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')

    with pytest.raises(ReleaseError, match=r"raise the version in pyproject\.toml"):
        assemble(root, TODAY)


def test_a_changelog_without_its_place_for_news_is_refused(root):
    write(root, "net.fixed.md")
    (root / "CHANGELOG.md").write_text("# Changelog\n")

    with pytest.raises(ReleaseError, match="no section"):
        assemble(root, TODAY)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("net.md", id="no-section"),
        pytest.param("net.repaired.md", id="unknown-section"),
        pytest.param("net.fixed.txt", id="not-markdown"),
    ],
)
def test_a_fragment_that_would_be_lost_is_refused(root, name):
    write(root, name)

    with pytest.raises(ReleaseError, match="call it <topic>"):
        fragments(root)


def test_an_empty_fragment_is_refused(root):
    write(root, "net.fixed.md", "\n")

    with pytest.raises(ReleaseError, match="is empty"):
        fragments(root)


def test_version_changelog_and_tag_that_agree_pass(root):
    (root / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')

    assert check(root, ["v0.1.0"]) == "0.1.0"


def test_a_changelog_behind_the_version_is_refused(root):
    with pytest.raises(ReleaseError, match=r"says 0\.2\.0, but the newest .* is 0\.1\.0"):
        check(root, ["v0.2.0"])


def test_a_missing_tag_is_refused(root):
    (root / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')

    with pytest.raises(ReleaseError, match=r"tag this commit v0\.1\.0 \(its tags: v9\)"):
        check(root, ["v9"])
