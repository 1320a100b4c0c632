"""Event loops for those who make their own."""

from __future__ import annotations

import asyncio
from typing import Literal, TypeAlias

LoopName: TypeAlias = Literal["uvloop", "asyncio"]


def new_event_loop(name: LoopName = "uvloop") -> asyncio.AbstractEventLoop:
    """Make an event loop. No policy is set: loops of others stay what they are.

    Args:
        name: ``uvloop``: that of uvloop, where it is installed, and of asyncio elsewhere.
            ``asyncio``: that of asyncio.
    """
    if name == "uvloop":
        try:
            import uvloop  # noqa: PLC0415 - an extra; those without loops of their own need none.
        except ImportError:
            pass
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()
