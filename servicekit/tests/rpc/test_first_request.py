"""A stream that begins with silence ends."""

import asyncio

import pytest

from ariane_servicekit import ServiceError, first_request


async def test_a_stream_that_begins_with_silence_is_refused():
    reading = asyncio.get_running_loop().create_future()
    with pytest.raises(ServiceError, match="no request came") as raised:
        await first_request(reading, wait_s=0.01)
    assert raised.value.row.name == "DEADLINE_PASSED"
    assert reading.cancelled()


async def test_a_stream_that_speaks_gives_its_request():
    reading = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(reading.set_result, "first")
    assert await first_request(reading, wait_s=60) == "first"
