"""The way of an append through the modules is the one that ARCHITECTURE.md draws."""

import sys
from pathlib import Path

import numpy as np

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


async def test_an_append_crosses_few_modules_and_each_is_drawn(broker, monkeypatch):
    await broker.create_topic("orders")
    ways, write = [], Segment.write

    def walked(segment, position, octets):
        ways.append(modules_on_stack())
        return write(segment, position, octets)

    monkeypatch.setattr(Segment, "write", walked)
    answer = await broker.sends.AppendRecords(rows_request([wire("orders", 0, [b"x"])]))
    assert np.frombuffer(answer.table_result.first_queue_offsets, "<i8").tolist() == [0]
    (way,) = ways
    assert way[0].endswith("send_servicer")
    assert len(way) <= MODULES_MAX
    drawn = (ROOT / "ARCHITECTURE.md").read_text()
    for name in way:
        path = f"{name.replace('.', '/')}.py"
        assert path in drawn or f"`{Path(path).name}`" in drawn, f"{path} is not drawn"
