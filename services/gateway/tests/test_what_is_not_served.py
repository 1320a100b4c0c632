"""What the gateway does not serve says so, in one line."""

import grpc
import pytest
from grpc import aio

from apache.rocketmq.v2 import admin_pb2 as admin
from apache.rocketmq.v2 import service_pb2 as pb
from apache.rocketmq.v2.admin_pb2_grpc import AdminStub


async def refusal(call):
    with pytest.raises(aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details()


async def test_lite_topics_and_the_administration_of_rocketmq_are_not_there(client):
    code, text = await refusal(
        client.call("SyncLiteSubscription", pb.SyncLiteSubscriptionRequest())
    )
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert "a lite topic of RocketMQ" in text
    call = AdminStub(client.channel).ListSubscription(admin.ListSubscriptionRequest(), timeout=20)
    code, text = await refusal(call)
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert "apache.rocketmq.v2.Admin/ListSubscription is not available" in text


OFFSETS = [
    ("UpdateOffset", pb.UpdateOffsetRequest()),
    ("GetOffset", pb.GetOffsetRequest()),
    ("QueryOffset", pb.QueryOffsetRequest()),
]


@pytest.mark.parametrize(("method", "request_"), OFFSETS)
async def test_what_no_client_calls_is_not_there(client, method, request_):
    code, text = await refusal(client.call(method, request_))
    assert code is grpc.StatusCode.UNIMPLEMENTED
    assert method in text


async def test_a_stream_that_neither_sends_nor_receives_is_refused(client):
    stream = client.stub.Telemetry(metadata=client.metadata, timeout=20)
    await stream.write(pb.TelemetryCommand(settings={}))
    code, text = await refusal(stream.read())
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "publishing or subscription" in text
