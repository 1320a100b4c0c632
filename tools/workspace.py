"""Where things are: the members of the workspace, their packages, the files of the repository."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent

GENERATED: Final = "protos/src/"
FOREIGN: Final = "protos/apache/"
"""The protocol of RocketMQ's clients, word for word."""

GENERATED_PACKAGES: Final = frozenset({"apache", "ariane"})


@dataclass(frozen=True, slots=True)
class Member:
    """One distribution of the workspace."""

    folder: Path
    """Absolute."""
    project: dict[str, Any]
    """The ``[project]`` table of its pyproject.toml."""

    @property
    def dependencies(self) -> list[str]:
        """Its requirements, those of its extras too."""
        extras = self.project.get("optional-dependencies", {}).values()
        return [
            *self.project.get("dependencies", []),
            *(line for extra in extras for line in extra),
        ]

    @property
    def is_private(self) -> bool:
        """Whether it stays in this repository; package indexes refuse this classifier."""
        return "Private :: Do Not Upload" in self.project.get("classifiers", [])

    @property
    def packages(self) -> list[str]:
        """The packages that it installs, by import name."""
        return sorted(path.parent.name for path in self.folder.glob("src/*/__init__.py"))


def members(root: Path = ROOT) -> list[Member]:
    """The members that the root pyproject.toml names, by folder."""
    workspace = tomllib.loads((root / "pyproject.toml").read_text())
    patterns = workspace["tool"]["uv"]["workspace"]["members"]
    found = {path for pattern in patterns for path in root.glob(f"{pattern}/pyproject.toml")}
    return [
        Member(path.parent, tomllib.loads(path.read_text())["project"]) for path in sorted(found)
    ]


def home_page(root: Path = ROOT) -> str:
    """The address of the repository, as the root pyproject.toml says it."""
    workspace = tomllib.loads((root / "pyproject.toml").read_text())
    return str(workspace["tool"]["arianemq"]["home"])


def hand_written_packages(root: Path = ROOT) -> list[str]:
    """The packages that people write, by import name; the others are generated."""
    return sorted({name for each in members(root) for name in each.packages} - GENERATED_PACKAGES)


def repository_files(root: Path = ROOT) -> list[str]:
    """What is or would be committed: relative paths, sorted; ignored files left out."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    names = listed.stdout.split("\0")
    return sorted({name for name in names if name and (root / name).is_file()})
