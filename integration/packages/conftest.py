"""A cluster for what is installed from packages."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cluster(tmp_path_factory) -> Iterator[str]:
    """A cluster of this work tree, for programs that have the client only: its name servers."""
    place = tmp_path_factory.mktemp("cluster")
    ariane = Path(sys.executable).with_name("ariane")
    with subprocess.Popen(
        (ariane, "dev", "--name-server-port", "0", "-o", "json"),
        cwd=place,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield json.loads(process.stdout.readline())["name_servers"]
        finally:
            process.send_signal(signal.SIGINT)
