"""Calls that say which process they are for."""

import pytest
from grpc import StatusCode, aio

from ariane.broker.v1 import topic_service_pb2 as topic_pb


def asking(broker, meant):
    metadata = (("x-ariane-meant-for", meant),)
    return broker.topics.ListTopics(topic_pb.ListTopicsRequest(), metadata=metadata)


async def test_a_call_for_another_process_is_refused_and_one_for_this_is_not(broker):
    await asking(broker, "DefaultCluster/broker-a")
    for meant in "DefaultCluster/broker-b", "other/broker-a", "broker-a", "":
        with pytest.raises(aio.AioRpcError, match="and the call is meant for") as refused:
            await asking(broker, meant)
        assert refused.value.code() is StatusCode.FAILED_PRECONDITION
        assert "BROKER_NOT_PRIMARY" in str(refused.value.trailing_metadata())
