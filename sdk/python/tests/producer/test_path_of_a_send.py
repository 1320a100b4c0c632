"""How a single send goes through the SDK: nine modules to the network, and one object back."""

import sys
from itertools import groupby

from ariane_sdk import Message, Producer

PATH = (
    "producer",
    "unsettled",
    "intake",
    "accumulator",
    "queue_choice",
    "row",
    "sender",
    "append_calls",
    "table_wire",
    "connections",
)
"""From the application to the network, which begins at the last: who follows a send reads these."""

BESIDE = {"clock", "message", "timestamps"}
"""What tells the time, and the types of the application: nothing to follow."""


async def modules_of_a_send(world):
    """The modules of the SDK that a send runs through, in the order of the calls."""
    entered = []

    def note(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("ariane_sdk."):
            entered.append(module.rpartition(".")[2])

    async with Producer(world.name_servers) as producer:
        for _ in range(2):  # The route is known, and the connection stands.
            await producer.send(Message("orders", b"body"))
        sys.setprofile(note)
        try:
            await producer.send(Message("orders", b"body"))
        finally:
            sys.setprofile(None)
    return entered


async def test_a_send_runs_through_nine_modules_to_the_network(world):
    entered = await modules_of_a_send(world)
    assert tuple(dict.fromkeys(each for each in entered if each not in BESIDE)) == PATH


async def test_the_outcome_comes_back_without_the_way_up(world):
    entered = await modules_of_a_send(world)
    line = [module for module, _ in groupby(each for each in entered if each not in BESIDE)]
    back = line[line.index("connections") + 1 :]
    assert back[0] == "accumulator"  # Nothing else waits there to be sent.
    assert back[1:] == [
        *("append_calls", "table_wire", "row", "table_wire", "row", "unsettled"),
        *("append_calls", "sender", "accumulator", "sender", "producer"),
    ]
