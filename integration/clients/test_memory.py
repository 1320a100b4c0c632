"""Who sends for long keeps nothing of what was sent: memory is flat over a million messages."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from languages import COMMANDS, Worker, build, missing

from ariane_sdk.sync import ClusterClient
from ariane_servicekit.running.processes import LocalCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PART = 200_000
PARTS = 5
IN_FLIGHT = 256
GROWTH_MIB_MAX = 40
"""Of the parts after the first: 52 bytes of each message would be more."""

HEAPS = {
    "java": {"JAVA_TOOL_OPTIONS": "-Xmx96m"},
    "typescript": {"NODE_OPTIONS": "--max-old-space-size=96"},
}
"""Theirs grow to what they may have before they are tidied up."""

MESSAGE: dict[str, Any] = {
    **dict.fromkeys(("tag", "group", "id"), ""),
    "topic": "long",
    "body": base64.b64encode(b"x" * 100).decode(),
    "keys": [],
    "properties": {},
    "priority": 0,
}


@pytest.mark.parametrize("language", [each for each in COMMANDS if each != "python"])
def test_memory_is_flat_over_a_million_sends(language, tmp_path):
    if lacks := missing(language):
        pytest.skip(f"{lacks} is not on this machine")
    build(language)
    with (
        LocalCluster(tmp_path) as cluster,
        ClusterClient(cluster.name_servers) as client,
        Worker(language, call_ms=230_000, environment=HEAPS.get(language)) as worker,
    ):
        client.create_topic(MESSAGE["topic"], queue_count=4)
        worker.ask("connect", name_servers=cluster.name_servers.split(","))
        taken_mib = []
        for _ in range(PARTS):
            worker.ask("pump", messages=[MESSAGE], count=PART, in_flight=IN_FLIGHT)
            taken_mib.append(resident_mib(worker.pid))
    assert max(taken_mib[1:]) - taken_mib[0] < GROWTH_MIB_MAX, taken_mib


def resident_mib(pid: int) -> float:
    """What a process has in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 2**20
