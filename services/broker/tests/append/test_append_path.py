"""The way of messages and half messages to the log is the one that ARCHITECTURE.md draws."""

import sys
from pathlib import Path

import numpy as np
import pytest

from ariane.broker.v1.client_service_pb2 import TRANSACTION_OUTCOME_COMMIT
from ariane_storage.log.segment import Segment
from ariane_testkit.append_rows import rows_request
from services.broker.tests.append_side import wire

ROOT = Path(__file__).parents[4]
MODULES_MAX = 9


def modules_on_stack():
    """The modules of broker and store that wait for the caller, each once, from the outermost."""
    frame, found = sys._getframe(2), {}
    while frame is not None:
        name = frame.f_globals["__name__"]
        if name.startswith(("ariane_broker.", "ariane_storage.")):
            found[name] = None
        frame = frame.f_back
    return list(found)[::-1]


@pytest.fixture
def ways(monkeypatch):
    """The ways of all writes to the log."""
    found, write = [], Segment.write

    def walked(segment, position, octets):
        found.append(modules_on_stack())
        return write(segment, position, octets)

    monkeypatch.setattr(Segment, "write", walked)
    return found


def is_drawn(name):
    drawn = (ROOT / "ARCHITECTURE.md").read_text()
    path = f"{name.replace('.', '/')}.py"
    return path in drawn or f"`{Path(path).name}`" in drawn


async def test_an_append_crosses_few_modules_and_each_is_drawn(broker, ways):
    await broker.create_topic("orders")
    answer = await broker.sends.AppendRecords(rows_request([wire("orders", 0, [b"x"])]))
    assert np.frombuffer(answer.table_result.first_queue_offsets, "<i8").tolist() == [0]
    (way,) = ways
    assert way[0].endswith("send_servicer")
    assert len(way) <= MODULES_MAX
    assert [name for name in way if not is_drawn(name)] == []


async def test_a_half_message_and_its_end_cross_few_modules_and_each_is_drawn(broker, ways):
    await broker.create_topic("orders")
    row = wire("orders", 0, [b"x"], unique_id="t-1", half_group="pay")
    await broker.sends.AppendRecords(rows_request([row]))
    (half,) = ways
    assert half[0].endswith("send_servicer")
    assert len(half) <= MODULES_MAX
    ways.clear()
    await broker.end_transaction("t-1", TRANSACTION_OUTCOME_COMMIT)
    (end,) = ways  # The message and its op record are one table.
    assert end[0].endswith("transaction_servicer")
    assert len(end) <= MODULES_MAX
    assert [name for name in (*half, *end) if not is_drawn(name)] == []
