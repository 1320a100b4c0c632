"""Rules about where things lie."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.tidy.sources import Finding, Sources
from tools.workspace import GENERATED, members

FOLDERS: Final = frozenset(
    {
        "bench",
        "compose",
        "docs",
        "integration",
        "protos",
        "sdk",
        "servicekit",
        "services",
        "spark",
        "storage",
        "tools",
        "wire",
    }
)
"""The rooms of the house. Another one is argued for in ARCHITECTURE.md before it is added here."""

MODULES_MAX: Final = 16
"""Modules of a folder, beside ``__init__.py`` and ``__main__.py``."""

CONSTRAINTS: Final = "tools/constraints.txt"
REQUIREMENTS: Final = "tools/requirements.in"


def unknown_folders(sources: Sources) -> Iterator[Finding]:
    """The top level is fixed."""
    top = {name.split("/")[0] for name in sources.files if "/" in name}
    for folder in sorted(top - FOLDERS):
        if not folder.startswith("."):
            yield Finding(folder, 0, "unknown-folder", "not one of the house's rooms")


def unmapped_folders(sources: Sources) -> Iterator[Finding]:
    """ARCHITECTURE.md names every room, written ``room/``."""
    text = sources.text("ARCHITECTURE.md") if "ARCHITECTURE.md" in sources.files else None
    if text is None:
        yield Finding("ARCHITECTURE.md", 0, "unmapped-folder", "the code map is missing")
        return
    top = {name.split("/")[0] for name in sources.files if "/" in name}
    for folder in sorted(top & FOLDERS):
        if not re.search(rf"(?<![\w/-]){re.escape(folder)}/", text):
            yield Finding("ARCHITECTURE.md", 0, "unmapped-folder", f"does not name {folder}/")


def bare_members(sources: Sources) -> Iterator[Finding]:
    """Every member says what it is and that it is typed."""
    present = set(sources.files)
    for member in members(sources.root):
        folder = member.folder.relative_to(sources.root).as_posix()
        if f"{folder}/README.md" not in present:
            yield Finding(folder, 0, "bare-member", "has no README.md")
        for package in member.packages:
            if f"{folder}/src/{package}/py.typed" not in present:
                yield Finding(f"{folder}/src/{package}", 0, "bare-member", "has no py.typed")


def full_folders(sources: Sources) -> Iterator[Finding]:
    """A folder has so few modules that a newcomer reads their names; nouns divide a larger one.

    Tests are found by the names of what they test. What is generated lies where its package in the
    contract says.
    """
    modules = Counter(
        str(PurePosixPath(name).parent)
        for name in sources.python
        if not name.endswith(("/__init__.py", "/__main__.py"))
        and not {"tests", "integration"} & set(PurePosixPath(name).parts)
    )
    for folder, count in sorted(modules.items()):
        if count > MODULES_MAX:
            yield Finding(folder, 0, "full-folder", f"has {count} modules, more than {MODULES_MAX}")


def hidden_packages(sources: Sources) -> Iterator[Finding]:
    """Generated folders without ``__init__.py`` are invisible to the import contracts."""
    present = set(sources.files)
    packages = {
        str(PurePosixPath(name).parent)
        for name in sources.files
        if name.startswith(GENERATED) and name.endswith(".py")
    }
    for package in sorted(packages):
        if f"{package}/__init__.py" not in present:
            yield Finding(package, 0, "hidden-package", "has no __init__.py; run `make protos`")


def stale_pins(sources: Sources) -> Iterator[Finding]:
    """constraints.txt pins what the members and tools ask for."""
    pins = dict(re.findall(r"(?m)^([\w.-]+)==([^\s;\\]+)", sources.text(CONSTRAINTS) or ""))
    pinned = {canonicalize_name(name): Version(version) for name, version in pins.items()}
    asked = [(REQUIREMENTS, line) for line in _lines(sources.text(REQUIREMENTS) or "")]
    ours = set()
    for member in members(sources.root):
        path = (member.folder / "pyproject.toml").relative_to(sources.root).as_posix()
        ours.add(canonicalize_name(member.project["name"]))
        asked += [(path, line) for line in member.dependencies]
    for path, line in asked:
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        if name in ours:
            continue
        version = pinned.get(name)
        if version is None or version not in requirement.specifier:
            text = f"{line!r} is pinned to {version}; run `make constraints`"
            yield Finding(path, 0, "stale-pin", text)


def _lines(text: str) -> list[str]:
    """The requirements of a requirements file."""
    stripped = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in stripped if line]
