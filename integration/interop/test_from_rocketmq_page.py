"""The page for those who come from RocketMQ is done as it stands, on the store of a real broker.

Only ports are others, and the segments of the log smaller, which both brokers are told.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from rocketmq import rocketmq, run_java_tool
from test_store_handover import write_topics

from ariane_testkit.free_ports import free_port
from tools.papers import Paper
from tools.workspace import ROOT

MISSING = [tool for tool in ("java", "mvn") if not shutil.which(tool)]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(500),
    pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)}"),
]

PAGE = Paper(ROOT, "docs/from-rocketmq.md")

SENT = 200
QUEUES = 4
DONE_OF_EACH_QUEUE = 10

JAVA_SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 20,
    "mappedFileSizeConsumeQueue": 1000 * 20,
}
OUR_SIZES = {
    "ARIANE_BROKER_SEGMENT_BYTES": str(1 << 20),
    "ARIANE_BROKER_CONSUME_QUEUE_ENTRIES": "1000",
    # Not more than a segment.
    "ARIANE_BROKER_MESSAGE_BYTES_MAX": str(1 << 16),
}


def run_page(store: Path, folder: Path) -> str:
    """Type all commands of the page, in one shell; returns what they said."""
    ports = {9876: free_port(), 10911: free_port()}
    script = "\n".join(PAGE.blocks("sh"))
    for usual, taken in ports.items():
        script = script.replace(f":{usual}", f":{taken}")
    folder.mkdir()
    shell = subprocess.Popen(
        ("bash", "-euxo", "pipefail", "-c", script),
        cwd=folder,
        env={
            **os.environ,
            **OUR_SIZES,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "STORE": str(store),
            "ARIANE_NAME_SERVERS": f"127.0.0.1:{ports[9876]}",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )
    try:
        said, _ = shell.communicate(timeout=240)
    finally:
        # Whoever is left: nobody when all went well.
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    assert shell.returncode == 0, said
    return said


def places(rows: list[dict[str, Any]]) -> dict[tuple[int, int], str]:
    return {(row["queue_id"], row["queue_offset"]): row["body"] for row in rows}


def test_a_store_is_taken_over_and_given_back_by_the_commands_of_the_page(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write_topics(store, {"orders": QUEUES})
    with rocketmq(store, tmp_path / "home", JAVA_SETTINGS) as name_server:
        done = run_java_tool("SendMessages.java", [name_server, "orders", str(SENT), "11"])
        assert done == [{"sent": SENT}]
        arguments = [name_server, "orders", "billing", str(DONE_OF_EACH_QUEUE)]
        assert run_java_tool("CommitOffsets.java", arguments) == [{"queues": QUEUES}]
        before = places(run_java_tool("ReadTopics.java", [name_server, "orders"])[:-1])
    assert len(before) == SENT

    said = run_page(store, tmp_path / "ours")

    assert re.search(rf"^ records +{SENT} +$", said, re.MULTILINE), said
    (message,) = [
        json.loads(line) for line in said.splitlines() if line.startswith("{") and '"body"' in line
    ]
    # The group went on behind what its Java members were done with.
    place = (message["queue_id"], message["queue_offset"])
    assert place[1] >= DONE_OF_EACH_QUEUE
    if place in before:
        assert bytes.fromhex(before[place]).decode() == message["body"]

    with rocketmq(store, tmp_path / "home", JAVA_SETTINGS) as name_server:
        after = places(run_java_tool("ReadTopics.java", [name_server, "orders"])[:-1])
    assert {place: after[place] for place in before} == before
    (added,) = [body for place, body in after.items() if place not in before]
    assert bytes.fromhex(added) == b"sent by ariane"
