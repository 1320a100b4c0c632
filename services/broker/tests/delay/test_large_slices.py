"""More that is due at once than a segment takes in one block: all of it comes."""

import asyncio
import time

import numpy as np
import pytest

COUNT = 60
BODY_BYTES = 30 << 10


@pytest.mark.parametrize("way", ["by level", "by time"])
async def test_messages_due_at_once_may_be_more_than_a_segment(running, clock, way):
    due = np.full(20, time.time_ns() // 1_000_000 + 3_600_000, "<i8").tobytes()
    fields = {"delay_level": 1} if way == "by level" else {"delivery_times_ms": due}
    bodies = [b"%d " % number + bytes(BODY_BYTES) for number in range(COUNT)]
    async with running(segment_bytes=1 << 20, message_bytes_max=1 << 16) as broker:
        await broker.create_topic("orders")
        for begin in range(0, COUNT, 20):
            await broker.store("orders", bodies[begin : begin + 20], **fields)
        clock.advance(3601)
        found = []
        async with asyncio.timeout(60):
            while len(found) < COUNT:
                found += await broker.bodies("orders", 0, len(found), hold_s=0.02)
    assert found == bodies
