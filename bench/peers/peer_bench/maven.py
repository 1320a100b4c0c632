"""Jars from Maven Central by their coordinates, fetched once, and our drivers that need them."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import Final

from peer_bench.errors import PeerUnavailable
from peer_bench.places import CACHE_PATH, JAVA_PATH
from peer_bench.servers import version_said

FETCH_S_MAX: Final = 600
COMPILE_S_MAX: Final = 120


def class_path(name: str) -> str:
    """Fetch what ``java/<name>/pom.xml`` lists; returns a Java class path.

    Raises:
        PeerUnavailable: There is no Java or Maven here, or a jar cannot be had.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise PeerUnavailable(f"{program} is not installed")
    pom = JAVA_PATH / name / "pom.xml"
    jars = CACHE_PATH / name
    marker = jars / "fetched"
    if not marker.exists() or marker.stat().st_mtime < pom.stat().st_mtime:
        shutil.rmtree(jars, ignore_errors=True)
        jars.mkdir(parents=True)
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=FETCH_S_MAX, check=False)
        except subprocess.TimeoutExpired as error:
            raise PeerUnavailable(f"fetching {name} took longer than {FETCH_S_MAX} s") from error
        if done.returncode != 0:
            raise PeerUnavailable(f"{name} cannot be fetched: {done.stdout.decode()[-500:]}")
        marker.touch()
    return f"{jars}/*"


@cache
def java_version() -> str:
    """The version of the Java that runs what was fetched.

    Raises:
        PeerUnavailable: There is none.
    """
    return version_said(["java", "-version"])


def driver_path(name: str) -> str:
    """Compile what lies in ``java/<name>`` and ``java/shared``; returns a class path with jars.

    Raises:
        PeerUnavailable: There is no Java here, or a jar cannot be had.
    """
    jars = class_path(name)
    if shutil.which("javac") is None:
        raise PeerUnavailable("javac is not installed")
    sources = sorted([*(JAVA_PATH / name).glob("*.java"), *(JAVA_PATH / "shared").glob("*.java")])
    classes = CACHE_PATH / f"{name}-classes"
    marker = classes / "compiled"
    newest = max(source.stat().st_mtime for source in sources)
    if not marker.exists() or marker.stat().st_mtime < newest:
        shutil.rmtree(classes, ignore_errors=True)
        classes.mkdir(parents=True)
        command = ["javac", "-nowarn", "-cp", jars, "-d", str(classes), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, timeout=COMPILE_S_MAX, check=False)
        if done.returncode != 0:
            raise PeerUnavailable(f"{name} cannot be compiled: {done.stderr.decode()[-500:]}")
        marker.touch()
    return f"{classes}:{jars}"
