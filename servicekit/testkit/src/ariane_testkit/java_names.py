"""What a broker in Java leaves of its topics and groups, whose names may have ``%`` and ``|``."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

JAVA_TOPIC: Final = "shop%orders|eu"
JAVA_GROUP: Final = "team|billing%old"


def leave_java_names(
    store: Path,
    topics: Collection[str] = (),
    groups: Collection[str] = (),
    offsets: Mapping[str, str] | None = None,
) -> None:
    """Write the files of a Java broker into the folder of a store that no broker has opened yet.

    Args:
        store: The folder.
        topics: Topics of one queue.
        groups: Consumer groups.
        offsets: Topics, and the group that has offset 0 of queue 0 of each.
    """
    config = store / "config"
    config.mkdir(parents=True, exist_ok=True)

    def write(name: str, table: str, entries: object) -> None:
        version = {"counter": 4, "stateVersion": 0, "timestamp": 1}
        (config / name).write_text(json.dumps({"dataVersion": version, table: entries}))

    layout = {"perm": 6, "readQueueNums": 1, "writeQueueNums": 1}
    write("topics.json", "topicConfigTable", {t: {"topicName": t} | layout for t in topics})
    settings = {"consumeEnable": True, "retryMaxTimes": 16}
    rows = {group: {"groupName": group} | settings for group in groups}
    write("subscriptionGroup.json", "subscriptionGroupTable", rows)
    stored = {f"{topic}@{group}": {"0": 0} for topic, group in (offsets or {}).items()}
    write("consumerOffset.json", "offsetTable", stored)
