"""What is known of a purge when a broker gives no answer to one of its calls."""

from datetime import UTC, datetime

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError, Metadata

from ariane.admin.v1.topic_service_pb2 import PurgeTopicRequest
from ariane.broker.v1.pull_service_pb2 import FindQueueOffsetsResponse, ListQueueBoundsResponse
from ariane.broker.v1.topic_service_pb2 import GetTopicResponse, UpdateTopicResponse
from ariane.common.v1.process_service_pb2 import GetProcessStateResponse
from ariane_admin.servicers.topic_purge import purged
from ariane_sdk import LiveBroker
from ariane_sdk.errors import DeadlinePassed

BROKER = LiveBroker("c", "broker-a", 0, "127.0.0.1:1", "", datetime.now(UTC), 1)
QUESTIONS = {
    "GetTopic": GetTopicResponse(),
    "GetProcessState": GetProcessStateResponse(),
    "FindQueueOffsets": FindQueueOffsetsResponse(),
    "ListQueueBounds": ListQueueBoundsResponse(),
}
ANSWERS = {**QUESTIONS, "UpdateTopic": UpdateTopicResponse()}


class Doors:
    """Doors to a broker, and its services: one method is not answered in time."""

    def __init__(self, silent):
        self.silent = silent

    def topics(self, address):
        return self

    pulls = processes = topics

    def __getattr__(self, method):
        async def call(request, **options):
            if method == self.silent:
                raise AioRpcError(StatusCode.DEADLINE_EXCEEDED, Metadata(), Metadata())
            return ANSWERS[method]

        return call


@pytest.mark.parametrize("method", ANSWERS)
async def test_only_the_change_itself_leaves_its_outcome_unknown(method):
    with pytest.raises(DeadlinePassed) as caught:
        await purged(Doors(method), PurgeTopicRequest(topic="orders"), BROKER)

    assert caught.value.outcome_unknown == (method not in QUESTIONS)
