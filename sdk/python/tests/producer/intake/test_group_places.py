"""A message group has one queue, whatever name servers know at the moment."""

import asyncio

import pyarrow as pa
import pytest

from ariane_sdk import Message, Producer, ProducerSettings, errors
from ariane_sdk.producer.intake import route_wait as _route_wait
from ariane_sdk.routing import routes as _routes

ORDER = "broker-a:2;broker-b:2"
TEMPLATE = "TBW102"
DEAD = "127.0.0.1:1"


@pytest.fixture
def trades(two_brokers, monkeypatch):
    """Topic ``trades`` of type FIFO on two brokers, the name server knows all of it."""
    monkeypatch.setattr(_routes, "REFRESH_GAP_S_MIN", 0.0)
    monkeypatch.setattr(_route_wait, "ROUTE_RETRY_S", 0.01)
    set_trades(two_brokers, two_brokers.name_server)
    return two_brokers


def set_trades(world, server, brokers=("broker-a", "broker-b"), order=ORDER):
    addresses = {name: world.brokers[name].address for name in brokers}
    server.set_route("trades", addresses)
    server.routes["trades"].queue_order = order
    for broker in server.routes["trades"].brokers:
        broker.ordered = True


def set_template(world, server, brokers):
    server.set_route(TEMPLATE, {name: world.brokers[name].address for name in brokers})


def messages(count=12):
    return [Message("trades", b"x", message_group=f"g{number}") for number in range(count)]


def producer_of(*name_servers, timeout_s=30.0):
    return Producer(",".join(name_servers), settings=ProducerSettings(send_timeout_s=timeout_s))


async def places(producer):
    return [result.message_queue for result in await producer.send_batch(messages())]


async def asked_again(server, topic, count):
    """Until a name server was asked so often."""
    async with asyncio.timeout(60):
        while server.asked.count(topic) < count:
            server.heard.clear()
            await server.heard.wait()


async def test_a_restarted_producer_meets_a_name_server_that_learns_brokers_one_by_one(trades):
    """The topic is not known yet when it is asked for, but a broker that would create it is."""
    server = trades.name_server
    async with producer_of(server.address) as producer:
        before = await places(producer)
    assert {queue.broker_name for queue in before} == {"broker-a", "broker-b"}
    server.warming_up = True
    del server.routes["trades"]
    set_template(trades, server, ["broker-a"])
    asked_count = server.asked.count("trades")
    async with producer_of(server.address, DEAD) as producer:
        sending = asyncio.create_task(places(producer))
        await asked_again(server, "trades", asked_count + 3)
        assert not sending.done()
        # Messages of no group go where the topic will be.
        plain = await producer.send(Message("trades", b"plain"))
        assert plain.message_queue.broker_name == "broker-a"
        set_trades(trades, server, ["broker-a"])
        asked_count = server.asked.count("trades")
        await asked_again(server, "trades", asked_count + 2)
        assert not sending.done(), "groups of a broker that is missing wait for it"
        set_trades(trades, server)
        assert await sending == before


async def test_the_same_when_it_kept_the_order_and_no_other_is_missing(trades):
    server = trades.name_server
    async with producer_of(server.address) as producer:
        before = await places(producer)
    server.warming_up = True
    del server.routes["trades"]
    server.orders["trades"] = ORDER
    set_template(trades, server, ["broker-a"])
    asked_count = server.asked.count("trades")
    async with producer_of(server.address) as producer:
        sending = asyncio.create_task(places(producer))
        await asked_again(server, "trades", asked_count + 3)
        set_trades(trades, server)
        assert await sending == before


async def test_a_name_server_that_was_never_told_the_order(trades):
    second = await trades.add_name_server()
    async with producer_of(trades.name_server.address) as producer:
        before = await places(producer)
        # Who knows the order keeps it.
        set_trades(trades, trades.name_server, order="")
        await producer._session.routes.refresh("trades")
        assert await places(producer) == before
    set_trades(trades, second, order="")
    set_trades(trades, trades.name_server)
    for first, other in [(second, trades.name_server), (trades.name_server, second)]:
        async with producer_of(first.address, other.address) as producer:
            assert await places(producer) == before


async def test_without_an_order_nothing_is_sent(trades):
    set_trades(trades, trades.name_server, order="")
    async with producer_of(trades.name_servers, timeout_s=0.2) as producer:
        with pytest.raises(errors.BatchSendError) as failed:
            await producer.send_batch(messages(2))
        assert {type(each) for each in failed.value.outcomes} == {errors.QueueOrderUnknown}
        assert not any(each.outcome_unknown for each in failed.value.outcomes)
        with pytest.raises(errors.QueueOrderUnknown, match="trades"):
            await producer.send(messages(1)[0])
        table = pa.table({"body": [b"x", b"y"], "messageGroup": ["g", ""]})
        with pytest.raises(errors.ColumnsSendError) as columns_failed:
            await producer.send_columns("trades", table)
        assert {each.reason for each in columns_failed.value.errors} == {"QUEUE_ORDER_UNKNOWN"}
        assert not any(b.group for broker in trades.brokers.values() for b in broker.messages)


async def test_groups_miss_the_order_even_where_no_queue_takes_messages(trades):
    set_trades(trades, trades.name_server, order="")
    for broker in trades.name_server.routes["trades"].brokers:
        broker.write_queue_count = 0
    async with producer_of(trades.name_servers, timeout_s=0.2) as producer:
        with pytest.raises(errors.QueueOrderUnknown):
            await producer.send(messages(1)[0])
        table = pa.table({"body": [b"x"], "messageGroup": ["g"]})
        with pytest.raises(errors.ColumnsSendError) as failed:
            await producer.send_columns("trades", table)
        assert {type(each) for each in failed.value.errors} == {errors.QueueOrderUnknown}


async def test_no_message_overtakes_one_that_waits_for_the_order(trades):
    set_trades(trades, trades.name_server, order="")
    async with producer_of(trades.name_servers) as producer:
        sends = []
        for number in range(20):
            if number == 10:
                asked_count = trades.name_server.asked.count("trades")
                await asked_again(trades.name_server, "trades", asked_count + 2)
                set_trades(trades, trades.name_server)
            message = Message("trades", str(number).encode(), message_group="g")
            sends.append(asyncio.create_task(producer.send(message)))
            await asyncio.sleep(0)
        results = await asyncio.gather(*sends)
    assert [result.queue_offset for result in results] == list(range(20))
    assert len({result.message_queue for result in results}) == 1


async def test_batches_stay_in_the_order_of_their_calls(trades):
    """Also those of a call that comes in the very moment in which others need not wait longer."""
    set_trades(trades, trades.name_server, order="")
    async with producer_of(trades.name_servers) as producer:

        def send(number):
            batch = [Message("trades", str(number).encode(), message_group="g")]
            return asyncio.create_task(producer.send_batch(batch))

        sends = [send(0)]
        asked_count = trades.name_server.asked.count("trades")
        await asked_again(trades.name_server, "trades", asked_count + 2)
        set_trades(trades, trades.name_server)
        while not sends[0].done():
            sends.append(send(len(sends)))
            await asyncio.sleep(0)
        results = [result for [result] in await asyncio.gather(*sends)]
    assert [result.queue_offset for result in results] == list(range(len(sends)))


async def test_a_new_topic_in_a_new_cluster_needs_no_patience(trades):
    server = trades.name_server
    server.warming_up = True
    set_template(trades, server, ["broker-a", "broker-b"])
    async with producer_of(server.address) as producer:
        result = await producer.send(Message("new", b"x", message_group="g"))
    assert result.message_queue.topic == "new"


async def test_a_guess_becomes_sure_when_a_name_server_has_warmed_up(trades):
    server = trades.name_server
    server.warming_up = True
    set_template(trades, server, ["broker-a"])
    async with producer_of(server.address, DEAD) as producer:
        sending = asyncio.create_task(producer.send(Message("new", b"x", message_group="g")))
        await asked_again(server, "new", 3)
        assert not sending.done()
        server.warming_up = False
        assert (await sending).message_queue.broker_name == "broker-a"
