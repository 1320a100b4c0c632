"""A stream of pulls ends when it cannot go on, whatever its consumer does at that moment."""

import asyncio
from contextlib import aclosing

import pytest
from grpc import StatusCode, aio

from ariane.broker.v1.pull_service_pb2 import (
    PullRecordsRequest,
    PullRecordsResponse,
    StreamPullsRequest,
    StreamPullsResponse,
)
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_filter.pulling.filtered_pulls import FilteredPulls
from ariane_servicekit import AnswerBudget, ServiceError

STOPPED = ServiceError(
    ErrorReason.ERROR_REASON_FILTER_QUARANTINED, "it is quarantined", {"filter": "late@0"}
)
LATE = subscription_pb.Subscription(
    topic="flights",
    filter=subscription_pb.FilterExpression(
        kind=subscription_pb.FILTER_KIND_UPLOADED, text=f"late@{'0' * 64}"
    ),
)


class Stopped:
    """An operator has just stopped the filter."""

    async def get(self, name, digits, group):
        raise STOPPED


class Broker:
    """Answers each pull with nothing, until it goes."""

    def __init__(self, *, answers_max=99):
        self.pulls = self
        self._left = answers_max
        self._asked = asyncio.Queue()

    def StreamPulls(self):  # noqa: N802 - named by the contract
        return self

    async def write(self, request):
        if not self._left:
            raise asyncio.InvalidStateError("RPC already finished.")
        self._asked.put_nowait(request)

    async def read(self):
        if not self._left:
            return aio.EOF
        await self._asked.get()
        self._left -= 1
        return StreamPullsResponse(pulled=PullRecordsResponse())

    async def code(self):
        return StatusCode.UNAVAILABLE

    async def details(self):
        return "the broker goes"

    async def initial_metadata(self):
        return aio.Metadata()

    async def trailing_metadata(self):
        return aio.Metadata()

    async def done_writing(self):
        pass

    def cancel(self):
        return True


def stream_of(broker, running, requests):
    async def asked():
        while True:
            yield await requests.get()

    return FilteredPulls(broker, running, AnswerBudget(1 << 23)).stream(asked(), "peer")


def pull(*subscriptions):
    request = PullRecordsRequest(consumer_group="group", subscriptions=subscriptions)
    return StreamPullsRequest(pull=request)


async def turns():
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_filter_stopped_while_an_answer_is_taken_ends_the_stream():
    requests = asyncio.Queue()
    requests.put_nowait(pull())
    async with aclosing(stream_of(Broker(), Stopped(), requests)) as stream:
        await anext(stream)
        # The answer is on its way; the next request has come, and is refused.
        requests.put_nowait(pull(LATE))
        await turns()
        with pytest.raises(ServiceError) as ended:
            async with asyncio.timeout(60):
                await anext(stream)
        assert ended.value.reason == STOPPED.reason


async def test_a_broker_that_goes_while_an_answer_is_taken_says_why():
    requests = asyncio.Queue()
    requests.put_nowait(pull())
    async with aclosing(stream_of(Broker(answers_max=1), None, requests)) as stream:
        await anext(stream)
        requests.put_nowait(pull())
        await turns()
        with pytest.raises(aio.AioRpcError) as ended:
            async with asyncio.timeout(60):
                await anext(stream)
        assert ended.value.details() == "the broker goes"
