"""Whoever catches ``SendError`` has caught whatever a cluster can do to a send."""

import asyncio

import grpc
import pyarrow as pa
import pytest

from ariane_sdk import ClusterClient, Message, Producer, ProducerSettings, errors

QUICK = ProducerSettings(send_timeout_s=0.3, call_timeout_s=3.0)
NOBODY = "127.0.0.1:1"


def ways_to_send(producer):
    yield producer.send(Message("x", b"a"))
    yield producer.send(Message("x", b"a"), timeout_s=30)
    yield producer.send_nowait(Message("x", b"a"))
    yield producer.send_batch([Message("x", b"a"), Message("x", b"b")])
    yield producer.send_columns("x", pa.table({"body": [b"a"]}))
    yield producer.send_half(Message("x", b"a"))
    yield producer.request(Message("x", b"a"), timeout_s=30)


async def test_an_unreachable_cluster_is_a_send_error_in_every_way_to_send():
    async with Producer(NOBODY, group="writers", settings=QUICK) as producer:
        outcomes = await asyncio.gather(*ways_to_send(producer), return_exceptions=True)
    for error in outcomes:
        assert isinstance(error, errors.SendError), error
        assert "no name server answered" in str(error)
        assert not error.outcome_unknown


async def test_the_error_behind_a_send_error_is_its_cause(world):
    world.name_server.refusal = grpc.StatusCode.UNAVAILABLE
    async with Producer(world.name_servers, settings=QUICK) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(Message("orders", b"a"))
    assert caught.value.reason == "NAME_SERVERS_UNREACHABLE"
    assert caught.value.retriable
    assert isinstance(caught.value.__cause__, errors.NameServersUnreachable)


async def test_a_fifo_topic_says_that_it_wants_a_message_group(cluster):
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic("fifo-refusals", fifo=True)
    async with Producer(cluster.name_servers) as producer:
        with pytest.raises(errors.SendError, match="set a message group") as caught:
            await producer.send(Message("fifo-refusals", b"x"))
    assert caught.value.reason == "MESSAGE_TYPE_MISMATCH"


def test_all_errors_of_sends_have_one_base():
    for kind in (errors.BatchSendError, errors.ColumnsSendError, errors.QueueOrderUnknown):
        assert issubclass(kind, errors.SendError)
