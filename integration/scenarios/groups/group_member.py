"""A member of a group as a process of its own: writes down what it does, a JSON line each.

Run as ``python group_member.py NAME_SERVERS GROUP TOPIC NAME ORDERED TAGS LEASE_S``. A line names
the member, what it did ("joined", "rejected", "refused", "gone"; "begin" and "end" of a delivery),
the queue, what its messages say, and when, by the clock that all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time

from ariane_sdk import PushConsumer, PushSettings, ReceivedMessage, errors


def _settings(lease_s: float) -> PushSettings:
    """Brisk settings for brokers that keep a lock for this long."""
    return PushSettings(
        rebalance_interval_s=1.0,
        rebalance_gap_s_min=0.05,
        handover_s=0.05,
        offset_store_interval_s=0.1,
        suspend_s=0.1,
        hold_s=1.0,
    )


def _write(name: str, what: str, queue: str = "", numbers: list[int] | None = None) -> None:
    happening = {
        "name": name,
        "what": what,
        "queue": queue,
        "numbers": numbers or [],
        "at_s": time.monotonic(),
    }
    os.write(1, (json.dumps(happening) + "\n").encode())


class _Refusals(logging.Handler):
    """Writes down that a broker refused a stale lock."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._member = name

    def emit(self, record: logging.LogRecord) -> None:
        if "is no longer held" in record.getMessage():
            _write(self._member, "refused")


async def _run(name_servers: str, group: str, topic: str, name: str, flags: list[str]) -> None:
    async def listen(messages: list[ReceivedMessage]) -> None:
        queue = str(messages[0].message_queue)
        numbers = [int(message.body) for message in messages]
        _write(name, "begin", queue, numbers)
        await asyncio.sleep(0.02)
        _write(name, "end", queue, numbers)

    ordered, tags, lease_s = flags
    consumer = PushConsumer(
        name_servers,
        group=group,
        subscriptions={topic: tags},
        listener=listen,
        start="earliest",
        batch_size=4,
        ordered=ordered == "ordered",
        settings=_settings(float(lease_s)),
    )
    try:
        async with consumer:
            _write(name, "joined")
            await consumer.run_until_stopped()
    except errors.GroupRefused:
        _write(name, "rejected")
    except errors.GroupNotFound:
        _write(name, "gone")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    logging.getLogger("ariane_sdk").addHandler(_Refusals(arguments[3]))
    asyncio.run(_run(*arguments[:4], arguments[4:]))
