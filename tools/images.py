"""Builds the images of the services: ``make images``.

    python -m tools.images                        # all of them, with docker or podman
    python -m tools.images broker namesrv         # some of them
    python -m tools.images spark                  # that of Spark's jobs, which is not among them
    IMAGE_BASE=localhost/python:3.11 make images  # on another base that has Python 3.11 with pip

First everything that they install is laid into dist/: our own members, and what they need as it is
pinned for development, by hash. The builds then reach no network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from tools import dist
from tools.workspace import ROOT, members

TARGETS: Final = ("namesrv", "broker", "filter", "txn-checker", "gateway", "admin")
JOBS: Final = ("spark",)
"""Built when named only: Spark is large, and its image needs a JVM (from ``IMAGE_JAVA``)."""

SERVICES: Final = tuple(f"ariane-{target}" for target in TARGETS)
CONSTRAINTS: Final = ROOT / "tools" / "constraints.txt"
DOCKERFILE: Final = "compose/Dockerfile"


def main(names: Sequence[str]) -> int:
    """Build the named images, or all; return the exit status."""
    unknown = set(names) - {*TARGETS, *JOBS}
    if unknown:
        print(
            f"no such image: {', '.join(sorted(unknown))}; there are {', '.join((*TARGETS, *JOBS))}"
        )
        return 2
    engine = next((each for each in ("docker", "podman") if works(each)), None)
    if engine is None:
        print("neither docker nor podman runs on this machine")
        return 1
    try:
        dist.build(dist.DIST)
        fetch(jobs=bool(set(names) & set(JOBS)))
        for name in names or TARGETS:
            build(engine, name)
            print(f"{tag_of(name)} is built")
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr)
        return 1
    return 0


def works(engine: str) -> bool:
    """Whether an engine is here and runs; of docker the client alone may be."""
    if shutil.which(engine) is None:
        return False
    return subprocess.run((engine, "info"), capture_output=True, check=False).returncode == 0


def fetch(*, jobs: bool) -> None:
    """Lay wheels of everything that services need into dist/, as it is pinned; of jobs if wanted.

    Raises:
        subprocess.CalledProcessError: One could not be had.
    """
    versions = {each.project["name"]: each.project["version"] for each in members()}
    wanted = {name: name for name in SERVICES}
    wanted["ariane-servicekit"] = "ariane-servicekit[telemetry]"
    if jobs:
        wanted |= {"ariane-pipelines": "ariane-pipelines", "ariane-spark": "ariane-spark[otlp]"}
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--dest", str(dist.DIST), "--find-links", str(dist.DIST), "--only-binary", ":all:"),
        *("--python-version", "3.11", "--constraint", str(unhashed())),
        *(f"{spelled}=={versions[name]}" for name, spelled in wanted.items()),
    )


def unhashed() -> str:
    """The pins without hashes: our own members have none, and pip wants all or nothing."""
    lines = CONSTRAINTS.read_text().splitlines()
    pins = [line.split(" ")[0].rstrip("\\") for line in lines if "==" in line and line[0] != "#"]
    path = ROOT / ".cache" / "image-pins.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(pins) + "\n")
    return str(path)


def build(engine: str, name: str) -> None:
    """Build one image.

    Raises:
        subprocess.CalledProcessError: It could not be built.
    """
    given = {"BASE": os.environ.get("IMAGE_BASE"), "JAVA": os.environ.get("IMAGE_JAVA")}
    arguments = [f"--build-arg={key}={image}" for key, image in given.items() if image]
    run(engine, "build", "-f", DOCKERFILE, "--target", name, "-t", tag_of(name), *arguments, ".")


def tag_of(name: str) -> str:
    """What an image is called in compose.yaml."""
    [version] = {each.project["version"] for each in members()}
    return f"{os.environ.get('ARIANE_IMAGES', 'ariane')}/{name}:{version}"


def run(*command: str) -> None:
    """Run a command of the build.

    Raises:
        subprocess.CalledProcessError: It failed; its ``stderr`` says why.
    """
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
