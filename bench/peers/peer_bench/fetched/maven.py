"""Jars from Maven Central by their coordinates, fetched once, and our drivers that need them."""

from __future__ import annotations

import shutil
from functools import cache
from typing import Final

from ariane_testkit.programs import maven
from peer_bench.errors import PeerUnavailable
from peer_bench.places import CACHE_PATH, JAVA_PATH
from peer_bench.processes.tools import run_tool
from peer_bench.servers import version_said

COMPILE_S_MAX: Final = 120


def class_path(name: str) -> str:
    """Fetch what ``java/<name>/pom.xml`` lists; returns a Java class path.

    Raises:
        PeerUnavailable: There is no Java or Maven here, or a jar cannot be had.
    """
    try:
        return maven.class_path(JAVA_PATH / name / "pom.xml", CACHE_PATH / name)
    except maven.MavenUnavailable as error:
        raise PeerUnavailable(str(error)) from error


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
        ToolFailed: It does not compile.
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
        run_tool(f"compiling the driver of {name}", command, COMPILE_S_MAX)
        marker.touch()
    return f"{classes}:{jars}"
