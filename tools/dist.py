"""Builds and checks what is published: ``make dist``.

    python -m tools.dist            # wheel and source distribution of what is published, in dist/
    python -m tools.dist FOLDER     # the same, elsewhere

The last lines say how to install them from there. Every member is built from a copy of its
committed files, with the repository's licence and changelog beside them: one text of each is kept,
and every archive carries both. Links of its page lead to the repository, and so do its addresses.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tools.workspace import ROOT, Member, home_page, members, repository_files

DIST: Final = ROOT / "dist"
SHARED: Final = ("LICENSE", "CHANGELOG.md")
"""What every archive carries and the repository has once."""

CHECKER: Final = "twine==7.0.0"
CHECKER_HOME: Final = ROOT / ".cache" / "twine"


_LINK: Final = re.compile(r"(!?)\[([^]]*)\]\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")
"""A link of Markdown into the repository: image or not, text, path, anchor."""


def main(arguments: Sequence[str]) -> int:
    """Build and check all members; return the exit status."""
    folder = Path(arguments[0]).absolute() if arguments else DIST
    try:
        built = build(folder)
        check(folder)
    except subprocess.CalledProcessError as error:
        print(error.stdout, error.stderr, file=sys.stderr)
        return 1
    print(f"{built} members are built and checked. A cluster and the client, in any environment:")
    print(f"  pip install --find-links {folder} 'ariane-admin[dev]' ariane-sdk")
    return 0


def build(folder: Path) -> int:
    """Build every member that is published into a folder; what older versions left there goes.

    Returns:
        How many there are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    workspace = members()
    for old in _archives(folder):
        old.unlink()
    files = repository_files()
    published = [member for member in workspace if not member.is_private]
    for member in published:
        _build(member, workspace, files, folder)
    return len(published)


def check(folder: Path) -> None:
    """Have an index's own checker look at every archive of ours in a folder.

    What images install lies there, too, and is judged by those who publish it.

    Raises:
        subprocess.CalledProcessError: An index would refuse one; its ``stdout`` says which and why.
    """
    archives = sorted(map(str, _archives(folder)))
    command = (str(checker()), "-m", "twine", "check", "--strict", *archives)
    subprocess.run(command, check=True, capture_output=True, text=True)


def checker() -> Path:
    """A Python that has the checker, in a home of its own: the environment does not need it."""
    python = CHECKER_HOME / "bin" / "python"
    if not python.exists():
        _run(sys.executable, "-m", "venv", str(CHECKER_HOME))
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", CHECKER)
    return python


def _build(member: Member, workspace: Iterable[Member], files: Iterable[str], folder: Path) -> None:
    """Build one member from a copy of its files without those of members inside its folder."""
    inner = [
        each.folder
        for each in workspace
        if each.folder != member.folder and each.folder.is_relative_to(member.folder)
    ]
    with tempfile.TemporaryDirectory() as place:
        for name in files:
            path = ROOT / name
            if not path.is_relative_to(member.folder):
                continue
            if any(path.is_relative_to(other) for other in inner):
                continue
            target = Path(place, path.relative_to(member.folder))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        for name in SHARED:
            shutil.copyfile(ROOT / name, Path(place, name))
        _lead_home(Path(place), member)
        # In this process: a front end would make an interpreter for each member, if no environment.
        for builder in (SdistBuilder, WheelBuilder):
            list(builder(place).build(directory=str(folder)))


def _lead_home(place: Path, member: Member) -> None:
    """Write the repository's addresses into a copy of a member, and make links of its page whole.

    On an index, paths lead nowhere.
    """
    home = home_page()
    page = place / "README.md"
    page.write_text(whole_links(page.read_text("utf-8"), member.folder, home), "utf-8")
    urls = {
        "Homepage": home,
        "Documentation": f"{home}/tree/main/docs",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
    }
    lines = "".join(f'{name} = "{address}"\n' for name, address in urls.items())
    project = place / "pyproject.toml"
    project.write_text(f"{project.read_text('utf-8').rstrip()}\n\n[project.urls]\n{lines}", "utf-8")


def whole_links(text: str, folder: Path, home: str) -> str:
    """A page with addresses in the place of paths.

    Args:
        text: Markdown.
        folder: The folder of the page, to which its paths are relative.
        home: The address of the repository.
    """

    def whole(link: re.Match[str]) -> str:
        mark, words, path, anchor = link.groups()
        target = (folder / path).resolve()
        kind = "tree" if target.is_dir() else "raw" if mark else "blob"
        address = f"{home}/{kind}/main/{target.relative_to(ROOT).as_posix()}{anchor or ''}"
        return f"{mark}[{words}]({address})"

    return _LINK.sub(whole, text)


def _archives(folder: Path) -> list[Path]:
    """Archives of our members in a folder, of whichever version."""
    names = (str(member.project["name"]).replace("-", "_") for member in members())
    return [path for name in names for path in folder.glob(f"{name}-*")]


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
