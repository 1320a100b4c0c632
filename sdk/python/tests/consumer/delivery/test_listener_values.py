"""What listeners return: nothing, or they have failed."""

import pytest

from ariane_sdk.client.listener import ListenerCalls


async def returns_false(_messages):
    return False


def returns_a_status(_messages):
    return "RECONSUME_LATER"


@pytest.mark.parametrize("listener", [returns_false, returns_a_status])
async def test_a_value_is_an_error_of_the_listener(listener):
    calls = ListenerCalls(listener, threads=1)
    try:
        with pytest.raises(TypeError, match=r"returned .*: it must return None"):
            await calls.deliver([])
    finally:
        calls.close()
