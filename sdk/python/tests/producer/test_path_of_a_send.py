"""How a lone message and a half message go through the SDK to the network, and the result back."""

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


HALF_PATH = ("transaction_block", "transaction_calls", "intake", "unsettled", *PATH[3:])
"""The same for a half message."""

AROUND_HALF = {
    *("producer_life", "home", "demand", "topic_info", "delay", "route_wait", "message_encoding"),
}
"""What checks a half message and its options, and is left again."""


async def modules_of(world, send):
    """The modules of the SDK that a send runs through, in their order."""
    entered = []

    def note(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("ariane_sdk."):
            entered.append(module.rpartition(".")[2])

    async with Producer(world.name_servers, group="payers") as producer:
        for _ in range(2):  # The route is known, and the connection stands.
            await send(producer, Message("orders", b"body"))
        sys.setprofile(note)
        try:
            await send(producer, Message("orders", b"body"))
        finally:
            sys.setprofile(None)
    return [each for each in entered if each not in BESIDE]


async def test_a_send_runs_through_nine_modules_to_the_network(world):
    entered = await modules_of(world, Producer.send)
    assert tuple(dict.fromkeys(entered)) == PATH


async def test_the_outcome_comes_back_without_the_way_up(world):
    entered = await modules_of(world, Producer.send)
    line = [module for module, _ in groupby(entered)]
    assert line[line.index("connections") + 1 :] == [
        *("append_calls", "table_wire", "row", "unsettled", "append_calls", "sender", "producer"),
    ]


async def test_a_half_message_takes_the_way_of_a_send_behind_two_modules_of_its_own(world):
    entered = dict.fromkeys(await modules_of(world, Producer.send_half))
    assert tuple(each for each in entered if each not in AROUND_HALF) == HALF_PATH
