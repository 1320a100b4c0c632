"""How a single send goes through the SDK: one line there, and one object back."""

import sys
from itertools import groupby

from ariane_sdk import Message, Producer

MODULES_MAX = 14
"""Whoever wants to follow a send reads no more files than these."""

LINE = ("producer", "intake", "open_rows", "row", "sender", "append_calls", "connections")
"""From the application to the wire."""


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


async def test_a_send_runs_through_few_modules(world):
    modules = set(await modules_of_a_send(world))
    assert modules.issuperset(LINE)
    assert len(modules) <= MODULES_MAX, " ".join(sorted(modules))


async def test_the_outcome_comes_back_without_the_way_up(world):
    entered = await modules_of_a_send(world)
    line = [module for module, _ in groupby(module for module in entered if module in LINE)]
    assert tuple(dict.fromkeys(line)) == LINE
    back = line[line.index("connections") + 1 :]
    assert back == ["append_calls", "row", "append_calls", "sender", "producer"]
    assert not {"intake", "open_rows"}.intersection(back)
