"""RocketMQ's own admin tool: topics that are there for everyone before they are used.

A broker listens before its name server knows it, and a name server may know it before it knows its
topics. RocketMQ's proxy asks three times, without a pause, and ends.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

from peer_bench.errors import PeerUnavailable
from peer_bench.processes.tools import run_tool

ROUTED_S_MAX: Final = 90.0
_TOOL_S_MAX: Final = 60
_TOOL: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"
_QUEUES: Final = re.compile(r'"readQueueNums"\s*:\s*(\d+)')


def queues_in(said: str) -> int:
    """How many queues a topic's route has, by what the tool printed; 0 where it found no route."""
    return sum(map(int, _QUEUES.findall(said)))


class RocketmqAdmin:
    """The tool beside a name server and its broker.

    Args:
        jars: The class path.
        home: Where it may write its logs.
        name_server: The name server's address.
        broker: The broker's address.
    """

    def __init__(self, jars: str, home: Path, name_server: str, broker: str) -> None:
        self._command = ["java", f"-Duser.home={home}", "-cp", jars, _TOOL]
        self._name_server = name_server
        self._broker = broker

    def make_topic(self, name: str, queues: int) -> None:
        """Make a topic; returns when the name server has its route with all its queues.

        Raises:
            PeerUnavailable: It never had.
            ToolFailed: The tool failed.
        """
        asked = ("updateTopic", "-b", self._broker, "-r", str(queues), "-w", str(queues))
        self._ask(*asked, "-t", name)
        self.wait_for_route(name, queues)

    def wait_for_route(self, name: str, queues: int = 1) -> None:
        """Wait until the name server has the route of a topic, with so many queues.

        Raises:
            PeerUnavailable: It never had.
            ToolFailed: The tool failed.
        """
        deadline = time.monotonic() + ROUTED_S_MAX
        while time.monotonic() < deadline:
            # Each of these is a Java machine that starts: no pause is needed.
            if queues_in(self._ask("topicRoute", "-t", name)) >= queues:
                return
        raise PeerUnavailable(f"RocketMQ: no route of {name} within {ROUTED_S_MAX:.0f} s")

    def _ask(self, *asked: str) -> str:
        # It ends with status 0 whatever becomes of it: what it printed tells.
        command = [*self._command, *asked, "-n", self._name_server]
        return run_tool(f"mqadmin {asked[0]}", command, _TOOL_S_MAX)
