"""Builds what is published: ``make dist``.

    python -m tools.dist            # wheel and source distribution of what is published, in dist/
    python -m tools.dist FOLDER     # the same, elsewhere

The last lines say how to install them from there.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tools.workspace import ROOT, Member, members

DIST: Final = ROOT / "dist"


def main(arguments: Sequence[str]) -> int:
    """Build all members; return the exit status."""
    folder = Path(arguments[0]).absolute() if arguments else DIST
    try:
        built = build(folder)
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        return 1
    print(f"{built} members are built. A cluster and the client, in any environment:")
    print(f"  pip install --find-links {folder} 'ariane-admin[dev]' ariane-sdk")
    return 0


def build(folder: Path) -> int:
    """Build every member that is published into a folder.

    Returns:
        How many there are.

    Raises:
        subprocess.CalledProcessError: One could not be built; its ``stderr`` says why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    workspace = [member for member in members() if not member.is_private]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda member: _build(member, folder), workspace))
    return len(workspace)


def _build(member: Member, folder: Path) -> None:
    command = (sys.executable, "-m", "hatchling", "build", "--directory", str(folder))
    subprocess.run(command, cwd=member.folder, check=True, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
