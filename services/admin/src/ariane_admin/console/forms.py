"""The fields of a form, read in bounded memory and time, however they come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from starlette.requests import Request

FORM_BYTES_MAX: Final = 5 << 20
"""Of a form, definitions that are brought in among them."""

STRANGERS_FORM_BYTES_MAX: Final = 64 << 10
"""Of a form by which people sign in: whoever reaches the port may send one."""

FORM_S_MAX: Final = 30.0
"""Seconds that a form may take to come: connections are few, and each waits for its form."""

_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class FormTooLarge(Exception):
    """More came than the form may hold."""


async def fields_of(request: Request, bytes_max: int) -> dict[str, str]:
    """The texts of a form by their names; of a name that comes twice, the last.

    Args:
        request: A request with a form, or with something else, which has no fields.
        bytes_max: How much its body may hold, whatever its head says.

    Raises:
        FormTooLarge: It holds more.
        TimeoutError: It has not come in time.
    """
    if int(request.headers.get("content-length", "0")) > bytes_max:
        raise FormTooLarge
    bounded = Request(request.scope, _bounded(request.receive, bytes_max))
    async with asyncio.timeout(FORM_S_MAX):
        form = await bounded.form(max_files=0, max_part_size=bytes_max)
    return {name: value for name, value in form.items() if isinstance(value, str)}


def _bounded(receive: _Receive, bytes_max: int) -> _Receive:
    left = bytes_max

    async def take() -> MutableMapping[str, Any]:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise FormTooLarge
        return message

    return take
