"""Patience where nobody else would ask again.

Clients ask for some things once, when they start: told that these cannot be had, they give up.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ariane_gateway.refusal_kinds import PASSING
from ariane_gateway.refusals import Refused
from ariane_servicekit import get_logger

AnswerT = TypeVar("AnswerT")

PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Between questions, in seconds; the last one repeats."""

_log = get_logger(__name__)


async def once_answered(
    ask: Callable[[], Awaitable[AnswerT]], *, wait_s: float = math.inf
) -> AnswerT:
    """The answer of brokers or name servers, once they give one.

    Args:
        ask: Asks them.
        wait_s: How long to ask again, in seconds.

    Raises:
        Refused: For a reason that does not pass, or for too long.
    """
    now_s = asyncio.get_running_loop().time
    end_s = now_s() + wait_s
    pauses_s = iter(PAUSES_S)
    while True:
        try:
            return await ask()
        except Refused as refused:
            pause_s = next(pauses_s, PAUSES_S[-1])
            if refused.kind not in PASSING or now_s() + pause_s >= end_s:
                raise
            _log.info("answer_awaited", cause=refused.text)
        await asyncio.sleep(pause_s)
