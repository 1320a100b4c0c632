"""What is built installs into an empty environment with the newest of everything, and runs.

The pins of the developer environment play no part: users have none.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools import dist
from tools.papers import Paper
from tools.workspace import ROOT, members

# Environments are made and Spark is started, on machines that may have much else to do.
pytestmark = pytest.mark.timeout(1800)

README = Paper(ROOT, "README.md")
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "PYTEST", "VIRTUAL_ENV", "ARIANE", "GRPC", "COV"))
}

STATES = """
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
stub = health_pb2_grpc.HealthStub(grpc.insecure_channel(sys.argv[1]))
print(stub.List(health_pb2.HealthListRequest()).statuses[""])
"""
"""The newest health service has a method that the pinned one does not know."""


def interpreter(version: str) -> str:
    """A Python of this version, on the path or beside it as pyenv keeps them."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = sorted(home.glob(f"versions/{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, kept)):
        if candidate and succeeds(candidate, "-c", "import venv, ensurepip"):
            return candidate
    pytest.skip(f"Python {version} is not on this machine")


def succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    dist.build(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_a_new_user_installs_starts_and_runs_the_first_program(version, wheels, tmp_path):
    run(interpreter(version), "-m", "venv", "user", folder=tmp_path)
    bin_folder = tmp_path / "user" / "bin"
    commands = "\n".join(README.blocks("sh"))
    [install] = re.findall(r"^pip install .*?(?=\s*#|$)", commands, re.MULTILINE)
    words = [word if word != "dist" else str(wheels) for word in shlex.split(install)]
    # Most modules are never imported here: what is, is compiled then.
    words += ["--quiet", "--no-compile", "pytest-ariane"]
    run(bin_folder / "python", "-m", *words, folder=tmp_path)
    run(bin_folder / "python", "-m", "pip", "check", folder=tmp_path)
    assert "Usage: ariane" in run(bin_folder / "ariane", "--help", folder=tmp_path)
    with subprocess.Popen(
        (bin_folder / "ariane", "dev", "--name-server-port", "0", "-o", "json"),
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    ) as cluster:
        try:
            ready = json.loads(cluster.stdout.readline())
            program = README.blocks("python")[0].replace("127.0.0.1:9876", ready["name_servers"])
            said = run(bin_folder / "python", "-c", program, folder=tmp_path)
            states = ("-c", STATES, ready["name_servers"])
            assert "SERVING" in run(bin_folder / "python", *states, folder=tmp_path)
        finally:
            cluster.send_signal(signal.SIGINT)
    assert said == "table-7 wants one espresso\n"
    assert cluster.returncode == 0

    example = Paper(ROOT, "sdk/pytest-ariane/README.md").blocks("python")[0]
    (tmp_path / "test_mine.py").write_text(example)
    tests = ("-m", "pytest", "-q", "test_mine.py")
    assert "2 passed" in run(bin_folder / "python", *tests, folder=tmp_path)


def installed_alone(member: str, version: str, wheels: Path, folder: Path) -> Path:
    """An environment of this Python with one of our members and what it asks for; its Python."""
    run(interpreter(version), "-m", "venv", "alone", folder=folder)
    python = folder / "alone" / "bin" / "python"
    options = ("--quiet", "--no-compile", "--find-links", wheels)
    run(python, "-m", "pip", "install", *options, member, folder=folder)
    run(python, "-m", "pip", "check", folder=folder)
    return python


def installed_members(python: Path, folder: Path) -> set[str]:
    listed = run(python, "-m", "pip", "list", "--format", "json", folder=folder)
    ours = {member.project["name"] for member in members()}
    return {each["name"] for each in json.loads(listed)} & ours


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_client_alone_runs_the_first_example(version, wheels, cluster, tmp_path):
    python = installed_alone("ariane-sdk", version, wheels, tmp_path)
    names = ("ordering", "protos", "record", "sdk", "sql92", "wire")
    expected = {f"ariane-{name}" for name in names}
    assert installed_members(python, tmp_path) == expected
    program = README.blocks("python")[0].replace("127.0.0.1:9876", cluster)
    own = program.replace("orders", f"orders-{version.replace('.', '-')}")
    assert run(python, "-c", own, folder=tmp_path) == "table-7 wants one espresso\n"


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_the_command_line_alone_runs_its_first_commands(version, wheels, cluster, tmp_path):
    python = installed_alone("ariane-admin", version, wheels, tmp_path)
    assert "ariane-broker" not in installed_members(python, tmp_path)
    commands = "\n".join(Paper(ROOT, "services/admin/README.md").blocks("sh"))
    create, produce, consume = (
        re.search(rf"^.*\bariane {words}.*$", commands, re.MULTILINE)[0]
        for words in ("topic create orders", "produce orders", "consume orders")
    )
    script = f"set -e\n{create}\n{produce}\n{consume}"
    script = script.replace("orders", f"shell-{version.replace('.', '-')}")
    environment = {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "ARIANE_NAME_SERVERS": cluster,
    }
    done = subprocess.run(
        ("bash", "-c", script), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "first order" in done.stdout


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_connector_alone_runs_sparks_first_example(version, wheels, cluster, tmp_path):
    if shutil.which("java") is None:
        pytest.skip("Java is not on this machine")
    python = installed_alone("ariane-spark", version, wheels, tmp_path)
    paper = Paper(ROOT, "spark/README.md").blocks("python")
    topic = f"spark-{version.replace('.', '-')}"
    send = (
        "from ariane_sdk.sync import Message, Producer\n"
        f"with Producer({cluster!r}) as producer:\n"
        f"    for tag in ('created', 'created', 'paid'):\n"
        f"        producer.send(Message({topic!r}, b'an order', tag=tag))\n"
    )
    program = send + paper[0] + paper[1]
    program = program.replace("127.0.0.1:9876", cluster).replace('"orders"', f'"{topic}"')
    program = program.replace("copies", f"{topic}-copies")
    count = f'\nspark.read.format("ariane").option("endpoints", "{cluster}")'
    program += f'{count}.option("topic", "{topic}-copies").load().groupBy("tag").count().show()\n'
    said = run(python, "-c", program, folder=tmp_path)
    # Of three messages by column, then again what the batch and the stream have copied.
    assert re.findall(r"\|\s*(\w+)\|\s*(\d+)\|", said).count(("created", "2")) == 1
    assert ("created", "4") in re.findall(r"\|\s*(\w+)\|\s*(\d+)\|", said)


def test_each_archive_holds_its_own_member_and_no_other(wheels):
    """Members that lie inside the folder of another one are published by themselves."""
    for member in members():
        name = member.project["name"].replace("-", "_")
        if member.is_private:
            assert not list(wheels.glob(f"{name}-*"))
            continue
        [wheel] = wheels.glob(f"{name}-*.whl")
        with zipfile.ZipFile(wheel) as file:
            tops = {path.partition("/")[0] for path in file.namelist() if ".dist-info/" not in path}
        assert tops == set(member.packages)
        [source] = wheels.glob(f"{name}-*.tar.gz")
        with tarfile.open(source) as file:
            projects = [path for path in file.getnames() if path.endswith("/pyproject.toml")]
        assert len(projects) == 1, projects


def test_members_depend_on_each_other_by_the_version_that_they_have():
    workspace = {member.project["name"]: member for member in members()}
    for member in workspace.values():
        for line in member.dependencies:
            name = line.split("==")[0].split("[")[0]
            if name in workspace:
                assert line.endswith(f"=={workspace[name].project['version']}"), line
            else:
                assert "<" in line, f"{member.folder.name}: {line} has no end"
