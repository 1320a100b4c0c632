"""What the papers tell people to type is typed, on real processes, as it stands.

Only the ports are others, because several of these may run on one machine, and the files of stores
are smaller, because the usual ones take 2 GiB.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from ariane_servicekit.running.processes import LocalCluster
from tools.papers import Paper
from tools.workspace import ROOT

README = Paper(ROOT, "README.md")
OPERATIONS = [
    Paper(ROOT, f"docs/operations/{name}.md")
    for name in ("running", "maintenance", "does-not-start", "closed-stores")
]
"""The pages for the night that show commands, in the order in which these are typed."""
BEGINNING = Paper(ROOT, "docs/getting-started.md")
DEPLOYMENT = Paper(ROOT, "docs/deployment.md")

SMALL_FILES = "--segment-bytes 8388608 --index-slots 1000 --index-items 4000"
NAME_SERVER_PORT = 9876
BROKER_PORT = 10911

BIN = Path(sys.executable).parent
ENVIRONMENT = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


def run_python(code: str, name_servers: str) -> str:
    """Run a program of the first page against another cluster; return what it prints."""
    program = code.replace(f"127.0.0.1:{NAME_SERVER_PORT}", name_servers)
    assert program != code
    done = subprocess.run(
        (sys.executable, "-W", "error::DeprecationWarning", "-c", program),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def cluster(tmp_path):
    with LocalCluster(tmp_path, extra_broker_args=SMALL_FILES.split()) as running:
        yield running


def test_first_program_runs_as_it_stands(cluster):
    first, _ = README.blocks("python")
    said = run_python(first, cluster.name_servers)
    assert f"It prints `{said.strip()}`" in README.prose


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
def test_second_program_reads_what_the_first_has_sent(cluster):
    first, second = README.blocks("python")
    run_python(first, cluster.name_servers)
    assert re.search(r"\|\s*bar\|\s*1\|", run_python(second, cluster.name_servers))


@pytest.mark.slow
def test_programs_for_beginners_run_as_they_stand(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = [run_python(code, cluster.name_servers) for code in BEGINNING.blocks("python")]
    assert said == [
        "stored, as safe as memory\nbooked 42 euros card\n",
        "booked a teapot\n",
        "visible\n",
        "rejected\n",
    ]
    [trouble] = [block for block in BEGINNING.blocks("sh") if "dead-letter" in block]
    environment = ENVIRONMENT | {"ARIANE_NAME_SERVERS": cluster.name_servers}
    words = ("bash", "-euo", "pipefail", "-c", trouble)
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "no such account" in done.stdout
    # The one of the transaction, too, if it came before the program ended.
    assert re.search(r"\b[12] sent back; 0 were sent back before; 0 failed", done.stdout)


def free_ports() -> dict[int, int]:
    """Ports to take in the place of the usual ones."""
    with socket.socket() as one, socket.socket() as other:
        for taken in (one, other):
            taken.bind(("127.0.0.1", 0))
        return {NAME_SERVER_PORT: one.getsockname()[1], BROKER_PORT: other.getsockname()[1]}


def with_ports(text: str, ports: dict[int, int]) -> str:
    """A text with other ports."""
    for usual, taken in ports.items():
        text = text.replace(f":{usual}", f":{taken}")
    return text


@pytest.mark.slow
def test_commands_for_the_night_work_in_their_order(tmp_path):
    ports = free_ports()
    script = with_ports(
        "\n".join(block for page in OPERATIONS for block in page.blocks("sh")), ports
    )
    script = script.replace("--store-path store", f"--store-path store {SMALL_FILES}")
    shell = subprocess.Popen(
        ("bash", "-euo", "pipefail", "-c", script),
        cwd=tmp_path,
        env={**ENVIRONMENT, "ARIANE_NAME_SERVERS": f"127.0.0.1:{ports[NAME_SERVER_PORT]}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    try:
        said, _ = shell.communicate(timeout=300)
    finally:
        # Whoever is left: nobody when all went well.
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said
    told = iter(said.splitlines())
    # In this order: `in` takes from the iterator up to what it finds.
    for line in ("SERVING", "SERVING", "are", "you", "there", "nothing to worry about"):
        assert line in told, said
    assert '"exit_status": 0' in said
    assert "3 records, no problem found" in said
    assert re.search(r"^ commit log .*^status 1$", said, re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.skipif(sys.platform != "linux", reason="needs more than one loopback address")
def test_three_machines_a_backup_and_an_upgrade_lose_nothing(tmp_path):
    script = with_ports("\n".join(DEPLOYMENT.blocks("sh")), free_ports())
    script = script.replace("ariane-broker", f"ariane-broker {SMALL_FILES}")
    shell = subprocess.Popen(
        ("bash", "-euo", "pipefail", "-c", script),
        cwd=tmp_path,
        env={**ENVIRONMENT, "A": "127.0.0.1", "B": "127.0.0.2", "C": "127.0.0.3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    try:
        said, _ = shell.communicate(timeout=350)
    finally:
        # Whoever is left: nobody when all went well.
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said
    assert {"60", "100"} <= set(said.split()), said


class Stores:
    """A folder with a store and a name server's data, and processes that are refused it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports = free_ports()

    def command(self, program: str, flags: str) -> list[str]:
        return [str(BIN / f"ariane-{program}"), *with_ports(flags, self.ports).split()]

    def start(self, program: str, flags: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.command(program, flags),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout
        assert "ready" in process.stdout.readline()
        return process

    def refusal(self, program: str, flags: str) -> str:
        """What a process says that must not start, with the usual ports."""
        done = subprocess.run(
            self.command(program, flags),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        return with_ports(done.stderr, {taken: usual for usual, taken in self.ports.items()})

    def damage(self, *names: str) -> None:
        for name in names:
            (self.folder / name).write_text("OUCH")

    def remove(self, pattern: str) -> None:
        for path in self.folder.glob(pattern):
            path.unlink()


@pytest.fixture
def stores(tmp_path):
    return Stores(tmp_path)


def assert_told(refusals: Sequence[str]) -> None:
    """Each refusal is one line, and stands on the page word for word."""
    told = "".join(block for page in OPERATIONS for block in page.blocks("text")).splitlines()
    for refusal in refusals:
        [line] = refusal.splitlines()
        assert line in told


@pytest.mark.slow
def test_refusals_of_what_is_in_use_are_told(stores):
    listen = "--listen 127.0.0.1:10911"
    broker = stores.start("broker", f"{listen} --store-path store {SMALL_FILES}")
    namesrv = stores.start("namesrv", "--listen 127.0.0.1:9876 --data-path namesrv")
    try:
        said = [
            stores.refusal("broker", f"{listen} --store-path other"),
            stores.refusal("broker", f"--store-path store {SMALL_FILES}"),
            stores.refusal("namesrv", "--listen 127.0.0.1:0 --data-path namesrv"),
            stores.refusal("broker", "--listen 0.0.0.0:10911 --store-path store"),
            stores.refusal("broker", "--store-pth store"),
            stores.refusal("broker", ""),
        ]
    finally:
        for process in (broker, namesrv):
            process.terminate()
            process.communicate(timeout=30)
    assert_told(said)


@pytest.mark.slow
def test_refusals_of_what_is_damaged_are_told_with_a_way_out(stores):
    flags = f"--store-path store {SMALL_FILES}"

    def starts(more: str = "") -> None:
        process = stores.start("broker", f"{flags} {more}")
        process.terminate()
        process.communicate(timeout=30)
        assert process.returncode == 0

    starts()
    said = [stores.refusal("broker", "--store-path store")]

    stores.remove("store/layout.json*")
    starts()

    stores.damage("store/config/topics.json", "store/config/topics.json.bak")
    said += [stores.refusal("broker", flags)]
    stores.remove("store/config/topics.json*")
    starts()

    stores.remove("store/config/consumerOffset.json*")
    said += [stores.refusal("broker", flags)]
    starts("--accept-offset-loss")
    starts()

    (stores.folder / "namesrv").mkdir()
    stores.damage("namesrv/kvConfig.json")
    at_data = "--listen 127.0.0.1:0 --data-path namesrv"
    said += [stores.refusal("namesrv", at_data)]
    stores.remove("namesrv/kvConfig.json*")
    process = stores.start("namesrv", at_data)
    process.terminate()
    process.communicate(timeout=30)

    assert_told(said)
