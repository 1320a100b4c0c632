"""Clients in other languages install alone from what `make clients` lays into dist/."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools import clients
from tools.papers import Paper
from tools.workspace import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


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


def program(language: str, word: str) -> str:
    [text] = Paper(ROOT, f"sdk/{language}/README.md").blocks(word)
    return text


def test_a_go_program_takes_the_module_from_a_proxy(tmp_path):
    proxy = built("go")
    (tmp_path / "main.go").write_text(program("go", "go"))
    variables = {
        # What is not ours comes from where this machine has it.
        "GOPROXY": f"file://{proxy},{run('go', 'env', 'GOPROXY', folder=tmp_path).strip()}",
        "GONOSUMDB": clients.GO_MODULE,
        # A cache of its own: of this version the machine's may hold what an earlier run has built.
        "GOMODCACHE": str(tmp_path / "modules"),
        "GOFLAGS": "-mod=mod -modcacherw",
    }
    run("go", "mod", "init", "example.org/first", folder=tmp_path)
    run(
        "go",
        "get",
        f"{clients.GO_MODULE}@v{clients.version_of_all()}",
        folder=tmp_path,
        **variables,
    )
    run("go", "build", "./...", folder=tmp_path, **variables)


def test_a_node_program_installs_the_package(tmp_path):
    [tarball] = built("typescript").glob("*.tgz")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    options = ("--no-audit", "--no-fund", "--no-package-lock")
    run("npm", "install", *options, str(tarball), folder=tmp_path)
    installed = tmp_path / "node_modules" / "@arianemq" / "client"
    assert {"LICENSE", "CHANGELOG.md", "README.md"} <= {path.name for path in installed.iterdir()}
    script = "import { VERSION } from '@arianemq/client'; console.log(VERSION);"
    said = run("node", "--input-type=module", "-e", script, folder=tmp_path)
    assert said.strip() == clients.version_of_all()


def test_a_java_program_compiles_against_the_repository(tmp_path):
    version = clients.version_of_all()
    folder = built("java") / "mq" / "ariane" / "ariane-client" / version
    jar = folder / f"ariane-client-{version}.jar"
    assert (folder / f"ariane-client-{version}.pom").exists()
    assert (folder / f"ariane-client-{version}-sources.jar").exists()
    assert "META-INF/LICENSE" in run("jar", "tf", str(jar), folder=tmp_path)
    (tmp_path / "First.java").write_text(program("java", "java"))
    libraries = clients.JAVA / "target" / "lib" / "*"
    run("javac", "-cp", f"{jar}:{libraries}", "First.java", folder=tmp_path)
