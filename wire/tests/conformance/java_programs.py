"""Java's interoperability programs, from Maven Central: had once, into `.cache/java-programs`."""

from __future__ import annotations

import fcntl
import shutil
import subprocess

import pytest
from go_programs import ROOT

VERSION = "1.79.0"
CACHE = ROOT / ".cache" / "java-programs" / VERSION
PACKAGE = "io.grpc.testing.integration"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>interop</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>io.grpc</groupId><artifactId>grpc-interop-testing</artifactId><version>{VERSION}</version>
  </dependency></dependencies>
</project>"""
LOAD_S_MAX = 280


def java_program(name: str) -> tuple[str, ...]:
    """The command that runs a program; the test is skipped where it cannot be had."""
    library = CACHE / "lib"
    if not library.exists():
        if shutil.which("java") is None or shutil.which("mvn") is None:
            pytest.skip("Java and Maven are not on this machine")
        CACHE.mkdir(parents=True, exist_ok=True)
        with (CACHE / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not library.exists():
                _load()
    return ("java", "-cp", f"{library}/*", f"{PACKAGE}.{name}")


def _load() -> None:
    (CACHE / "pom.xml").write_text(POM)
    command = ("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=loading")
    done = subprocess.run(
        command, cwd=CACHE, capture_output=True, text=True, check=False, timeout=LOAD_S_MAX
    )
    if done.returncode:
        pytest.skip(f"grpc-interop-testing could not be had: {done.stdout.strip()[-300:]}")
    (CACHE / "loading").rename(CACHE / "lib")
