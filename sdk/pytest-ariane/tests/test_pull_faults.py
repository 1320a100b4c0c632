"""Faults of pulls that go on after an answer: one request, many answers."""

from unittest.mock import Mock

import pytest

from ariane.broker.v1.pull_service_pb2 import StreamPullsRequest, StreamPullsResponse
from pytest_ariane.faults import Faults, FaultyServicer


class ThreeAnswers:
    """Answers each request three times."""

    async def StreamPulls(self, requests, context):  # noqa: N802 - as in the contract
        async for _ in requests:
            for more_follow in (True, True, False):
                yield StreamPullsResponse(more_follow=more_follow).SerializeToString()


class Aborted(Exception):
    """The call was ended."""


class Context:
    """Where a call is aborted."""

    async def abort(self, code, text):
        raise Aborted(code)


async def two_requests():
    yield StreamPullsRequest(follow=True)
    yield StreamPullsRequest(follow=True)


def answers(faults):
    return FaultyServicer(ThreeAnswers(), faults).StreamPulls(two_requests(), Context())


async def test_each_request_may_have_many_answers():
    assert len([answer async for answer in answers(Faults(Mock()))]) == 6


@pytest.mark.parametrize("rule", ["lose_reply", "refuse"])
async def test_each_answer_counts_as_a_pull(rule):
    faults = Faults(Mock())
    stream = answers(faults)
    await anext(stream)
    getattr(faults, rule)("PullRecords")
    with pytest.raises(Aborted):
        await anext(stream)
    assert faults.pending == 0
