"""A FIFO topic keeps its message groups in their queues while a broker is away."""

import asyncio

import pytest

from ariane_sdk import ClusterClient, Message, MessageQueue, Producer, ProducerSettings, errors
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

IMPATIENT = ProducerSettings(send_timeout_s=1.0)
KEEN = ProducerSettings(repeat_delay_s_max=0.1)


async def test_groups_wait_for_their_broker(tmp_path):
    async with (
        LocalCluster(tmp_path, brokers=2, extra_broker_args=SMALL_STORE) as here,
        ClusterClient(here.name_servers) as cluster,
    ):
        await cluster.create_topic("trades", queue_count=2, fifo=True)
        route = await cluster.route("trades")
        assert route.queue_order == "broker-a:2;broker-b:2"
        assert route.ordered
        async with Producer(here.name_servers) as producer:
            before = await producer.send_batch(messages())
        assert {result.message_queue.broker_name for result in before} == {"broker-a", "broker-b"}
        here.brokers[1].terminate()
        await here.brokers[1].wait()
        await cluster.create_topic("trades", queue_count=2, fifo=True, exists_ok=True)
        async with Producer(here.name_servers, settings=KEEN) as producer:
            assert (await cluster.route("trades")).group_queues == route.group_queues
            sending = asyncio.create_task(producer.send_batch(messages()))
            # Whoever belongs to the broker that lives does not wait for the other.
            there = next(m for m, r in zip(messages(), before, strict=True) if is_at(r, "broker-a"))
            assert is_at(await producer.send(there), "broker-a")
            assert not sending.done()
            await here.brokers[1].restart()
            after = await sending
        assert [r.message_queue for r in after] == [r.message_queue for r in before]
        await cluster.forget_queue_order("trades")
        assert not (await cluster.route("trades")).queue_order
        async with Producer(here.name_servers, settings=IMPATIENT) as producer:
            with pytest.raises(errors.QueueOrderUnknown):
                await producer.send(Message("trades", b"x", message_group="g0"))
        await cluster.keep_queue_order("trades")
        await cluster.delete_topic("trades")
        await cluster.create_topic("trades", queue_count=1)
        created = await cluster.route("trades")
        assert not created.queue_order, "a topic of the same name begins anew"
        assert created.group_queues == (
            MessageQueue("trades", "broker-a", 0),
            MessageQueue("trades", "broker-b", 0),
        )


async def test_an_order_that_outlived_its_topic_is_forgotten_when_that_is_deleted_again(cluster):
    async with ClusterClient(cluster.name_servers) as client:
        await client._queue_orders().put("left-behind", {"broker-a": 1})
        with pytest.raises(errors.RouteNotFound) as unknown:
            await client.route("left-behind")
        assert unknown.value.metadata["queue_order"] == "broker-a:1"
        await client.delete_topic("left-behind", missing_ok=True)
        with pytest.raises(errors.RouteNotFound) as unknown:
            await client.route("left-behind")
        assert "queue_order" not in unknown.value.metadata


def messages():
    return [Message("trades", b"x", message_group=f"g{number}") for number in range(12)]


def is_at(result, broker_name):
    return result.message_queue.broker_name == broker_name
