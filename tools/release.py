"""Turn the fragments of `changelog.d/` into a release, and let nothing disagree about it.

Run by `scripts/release`, twice per release. With fragments there, they become the section
of the version that `pyproject.toml` names. With none left, the version, the newest section
of the changelog and the tag of the commit must be the same, and the wheel is built.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import tomllib
from pathlib import Path

__all__ = [
    "SECTIONS",
    "ReleaseError",
    "assemble",
    "check",
    "fragments",
    "main",
    "newest",
    "version",
]

SECTIONS = ("added", "changed", "deprecated", "removed", "fixed", "security")
"""The sections of Keep a Changelog, in its order."""

_FRAGMENT = re.compile(rf"(?P<topic>[a-z0-9-]+)\.(?P<section>{'|'.join(SECTIONS)})\.md")
_HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\]", re.MULTILINE)
_UNRELEASED = "## [Unreleased]\n"


class ReleaseError(Exception):
    """The release cannot go on; the message says what disagrees."""


def version(root: Path) -> str:
    """The version that `pyproject.toml` names."""
    with (root / "pyproject.toml").open("rb") as file:
        name: str = tomllib.load(file)["project"]["version"]
    return name


def fragments(root: Path) -> dict[str, list[Path]]:
    """The files of `changelog.d/` by section.

    Raises:
        ReleaseError: A file is not called `<topic>.<section>.md`, or is empty.
    """
    found: dict[str, list[Path]] = {section: [] for section in SECTIONS}
    for path in sorted((root / "changelog.d").iterdir()):
        name = _FRAGMENT.fullmatch(path.name)
        if path.name == "README.md":
            continue
        if name is None:
            raise ReleaseError(
                f"changelog.d/{path.name}: call it <topic>.<section>.md, "
                f"with one of the sections {', '.join(SECTIONS)}"
            )
        if not path.read_text().strip():
            raise ReleaseError(f"changelog.d/{path.name} is empty: say what a user notices")
        found[name["section"]].append(path)
    return found


def newest(changelog: str) -> str | None:
    """The version of the newest section that is released, or `None`."""
    versions = [found["version"] for found in _HEADING.finditer(changelog)]
    return next((name for name in versions if name != "Unreleased"), None)


def assemble(root: Path, today: datetime.date) -> str:
    """Move the fragments into the changelog; return the version they now belong to.

    Raises:
        ReleaseError: That version is in the changelog already.
    """
    path = root / "CHANGELOG.md"
    changelog, name, found = path.read_text(), version(root), fragments(root)
    if f"## [{name}]" in changelog:
        raise ReleaseError(
            f"CHANGELOG.md has a section {name} already: raise the version in pyproject.toml"
        )
    if _UNRELEASED not in changelog:
        raise ReleaseError("CHANGELOG.md has no section [Unreleased] to put the new one under")
    lines = [f"## [{name}] - {today.isoformat()}"]
    for section, paths in found.items():
        entries = [_entry(fragment.read_text()) for fragment in paths]
        lines += ["", f"### {section.capitalize()}", "", *entries] if entries else []
    new = _UNRELEASED + "\n" + "\n".join(lines) + "\n"
    path.write_text(changelog.replace(_UNRELEASED, new, 1))
    for fragment in (fragment for paths in found.values() for fragment in paths):
        fragment.unlink()
    return name


def check(root: Path, tags: list[str]) -> str:
    """The version that `pyproject.toml`, the changelog and a tag agree on.

    Args:
        tags: Those of the commit that is released.

    Raises:
        ReleaseError: They disagree.
    """
    name, top = version(root), newest((root / "CHANGELOG.md").read_text())
    if top != name:
        raise ReleaseError(
            f"pyproject.toml says {name}, but the newest section of CHANGELOG.md is {top}"
        )
    if f"v{name}" not in tags:
        shown = ", ".join(tags) or "none"
        raise ReleaseError(f"tag this commit v{name} (its tags: {shown}): git tag v{name}")
    return name


def _entry(text: str) -> str:
    """One list item; further lines of the fragment are indented under it."""
    first, *rest = text.strip().splitlines()
    return "\n".join([f"- {first}", *(f"  {line}".rstrip() for line in rest)])


def _tags(root: Path) -> list[str]:
    asked = ["git", "tag", "--points-at", "HEAD"]
    done = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.split()


def main() -> int:
    """Do the next step of a release; return the exit code."""
    root = Path.cwd()
    try:
        if any(fragments(root).values()):
            name = assemble(root, datetime.date.today())
            print(f"CHANGELOG.md has {name}: read it, commit it, tag it v{name}, run this again")
            return 0
        name = check(root, _tags(root))
    except ReleaseError as error:
        print(f"scripts/release: {error}", file=sys.stderr)
        return 1
    wheel = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", "dist", "."]
    return subprocess.run(wheel, cwd=root).returncode


if __name__ == "__main__":
    sys.exit(main())
