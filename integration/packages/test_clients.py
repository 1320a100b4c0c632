"""Clients in other languages install alone from what `make clients` lays into dist/, and run.

Each test does what its README tells a new user, word for word, in an empty folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools import clients
from tools.papers import Paper
from tools.workspace import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

MAVEN_HOME = ROOT / ".cache" / "maven-of-users"
"""What Maven has fetched for projects of users, apart from what it has for ours."""


def built(language: str) -> Path:
    if lacks := clients.missing_tools(language):
        pytest.skip(f"{' and '.join(lacks)} is not on this machine")
    clients.build(language)
    return clients.DIST / language


def run(*command: str, folder: Path, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class NewUser:
    """Somebody with an empty folder, a cluster and a README."""

    def __init__(self, language: str, cluster: str, folder: Path) -> None:
        self.paper = Paper(ROOT, f"sdk/{language}/README.md")
        self.folder = folder
        self.topic = f"orders-{language}"
        self._cluster = cluster
        ariane = str(Path(sys.executable).with_name("ariane"))
        create = ("topic", "create", self.topic)
        run(ariane, *create, folder=folder, ARIANE_NAME_SERVERS=cluster)

    def write(self, word: str, name: str) -> None:
        """The first block of a language of code as a file."""
        text = self.paper.blocks(word)[0]
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = text.replace("127.0.0.1:9876", self._cluster).replace('"orders"', f'"{self.topic}"')
        path.write_text(text)

    def follow(self, **variables: str) -> str:
        """Type every command of the README; return what they say."""
        script = "set -e\n" + "\n".join(self.paper.blocks("sh"))
        return run("bash", "-c", script, folder=self.folder, ARIANEMQ=str(ROOT), **variables)


def test_a_new_user_of_go_sends_and_receives(cluster, tmp_path):
    built("go")
    folder = tmp_path / "first"
    folder.mkdir()
    user = NewUser("go", cluster, folder)
    user.write("go", "main.go")
    # A cache of its own: of this version the machine's may hold what an earlier run has built.
    modules = str(tmp_path / "modules")
    said = user.follow(GOMODCACHE=modules, GOFLAGS="-modcacherw -buildvcs=false")
    assert "table-7 wants one espresso" in said


def test_a_new_user_of_node_sends_and_receives(cluster, tmp_path):
    built("typescript")
    user = NewUser("typescript", cluster, tmp_path)
    user.write("ts", "first.ts")
    assert "table-7 wants one espresso" in user.follow()
    installed = tmp_path / "node_modules" / "@arianemq" / "client"
    assert {"LICENSE", "CHANGELOG.md", "README.md"} <= {path.name for path in installed.iterdir()}


def test_a_new_user_of_java_sends_and_receives(cluster, tmp_path):
    folder = built("java") / "mq" / "ariane" / "ariane-client" / clients.version_of_all()
    names = {path.name.removeprefix(f"ariane-client-{folder.name}") for path in folder.iterdir()}
    assert {".jar", ".pom", "-sources.jar"} <= names
    jar = str(folder / f"ariane-client-{folder.name}.jar")
    assert "META-INF/LICENSE" in run("jar", "tf", jar, folder=tmp_path)
    user = NewUser("java", cluster, tmp_path)
    user.write("java", "src/main/java/First.java")
    user.write("xml", "pom.xml")
    # Of this version it may hold what an earlier run has built.
    shutil.rmtree(MAVEN_HOME / "mq", ignore_errors=True)
    said = user.follow(MAVEN_OPTS=f"-Dmaven.repo.local={MAVEN_HOME}")
    assert "table-7 wants one espresso" in said
