"""Streams must begin soon: an idle one would use up one of the calls that a service accepts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError

ReadT = TypeVar("ReadT")

FIRST_REQUEST_S: Final = 10.0
"""Seconds within which the first request of a stream must arrive."""


async def first_request(reading: Awaitable[ReadT], *, wait_s: float = FIRST_REQUEST_S) -> ReadT:
    """The result of a stream's first read.

    Args:
        reading: The read.
        wait_s: How long it may take, in seconds.

    Raises:
        ServiceError: DEADLINE_PASSED; the caller has sent nothing.
    """
    try:
        async with asyncio.timeout(wait_s):
            return await reading
    except TimeoutError:
        raise ServiceError(
            ErrorReason.ERROR_REASON_DEADLINE_PASSED,
            f"no request came within {wait_s:g} s of the beginning of the stream",
            {"wait_s": f"{wait_s:g}"},
        ) from None
