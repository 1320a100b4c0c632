"""Java programs of others, by their coordinates: fetched once into a cache folder.

For tests and measurements beside them; nothing of it is kept in the repository, and no service
needs it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

FETCH_S_MAX: Final = 600


class MavenUnavailable(Exception):
    """Java or Maven is not here, or a jar cannot be had."""


def class_path(pom: Path, folder: Path) -> str:
    """Fetch what a project lists, with all that needs; again only after the list has changed.

    Args:
        pom: Lists it.
        folder: Holds the jars, and nothing else.

    Returns:
        A Java class path.

    Raises:
        MavenUnavailable: It cannot be had.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            msg = f"{program} is not installed"
            raise MavenUnavailable(msg)
    marker = folder / "fetched"
    if not marker.exists() or marker.stat().st_mtime < pom.stat().st_mtime:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(  # noqa: S603 - coordinates of our own, words from above
                command, capture_output=True, timeout=FETCH_S_MAX, check=False
            )
        except subprocess.TimeoutExpired as error:
            msg = f"fetching what {pom} lists took longer than {FETCH_S_MAX} s"
            raise MavenUnavailable(msg) from error
        if done.returncode != 0:
            msg = f"what {pom} lists cannot be fetched: {done.stdout.decode()[-500:]}"
            raise MavenUnavailable(msg)
        marker.touch()
    return f"{folder}/*"
