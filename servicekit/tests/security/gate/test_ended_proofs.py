"""Calls that last end with the token or key by which their caller is known."""

import asyncio
import time

import pytest

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.rpc.calls import Call
from ariane_servicekit.security.caller import Caller, CallerKind
from ariane_servicekit.security.gate.access_mode import AccessMode
from ariane_servicekit.security.gate.gate import Gate
from ariane_servicekit.security.gate.long_calls import LongCalls


def now_ms():
    return round(time.time() * 1000)


@pytest.fixture
def gate():
    return Gate(AccessMode.CLOSED, now_ms)


async def lasting(gate, ends_ms):
    """A call that lasts, in a task of its own; its task and the call."""
    calls, begun = LongCalls(gate), asyncio.Event()
    call = Call("m", "", None)
    call.is_judged = True
    call._caller = Caller(CallerKind.USER, "ipv4:10.0.0.7:4", "anna", ends_ms=ends_ms)

    async def work():
        long = calls.enter(call, None)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            calls.leave(long)

    task = asyncio.create_task(work())
    await begun.wait()
    return task, call


async def ended(task, call):
    async with asyncio.timeout(30):
        with pytest.raises(asyncio.CancelledError):
            await task
    return call.ended.reason, now_ms()


async def test_a_stream_ends_with_the_token_of_its_caller(gate):
    ends_ms = now_ms() + 50
    reason, when_ms = await ended(*await lasting(gate, ends_ms))
    assert reason == ErrorReason.ERROR_REASON_CREDENTIALS_INVALID
    assert when_ms >= ends_ms


async def test_a_stream_goes_on_as_long_as_its_client_renews(gate):
    renewed_ms = now_ms() + 150
    gate.proved_until_ms = lambda _: renewed_ms
    _, when_ms = await ended(*await lasting(gate, now_ms() + 20))
    assert when_ms >= renewed_ms


async def test_a_stream_without_an_end_of_its_own_goes_on(gate):
    task, call = await lasting(gate, 0)
    done, _ = await asyncio.wait((task,), timeout=0.05)
    assert not done
    assert call.ended is None
    task.cancel()
