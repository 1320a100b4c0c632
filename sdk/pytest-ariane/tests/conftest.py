"""What the plugin's own tests share."""

import asyncio

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture
def until():
    """Wait until a question is answered with yes."""

    async def until(ask, *, seconds=120.0):
        async with asyncio.timeout(seconds):
            while not ask():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)

    return until
