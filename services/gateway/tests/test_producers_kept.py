"""Which producers a gateway keeps for its users and their addresses."""

import asyncio
import itertools

import pytest

from ariane_gateway.brokers.acting import USER
from ariane_gateway.brokers.cluster import ROUTE_UNUSED_S, Cluster
from ariane_gateway.refusal_kinds import Refusal
from ariane_gateway.refusals import Refused
from ariane_gateway.sending import sending as sending_module
from ariane_gateway.sending.sending import Sending
from ariane_gateway.sending.transaction_handle import TransactionHandle
from ariane_record.single.recall_handle import RecallHandle
from ariane_sdk import Producer, ProducerSettings
from ariane_sdk.message import RelayedMessage
from services.gateway.tests.test_kept_routes import ClusterClock

_numbers = itertools.count(1)


def message_to(topic):
    return RelayedMessage(topic, b"a", unique_id=f"01ABCDEF{next(_numbers):026d}")


@pytest.fixture
def life(monkeypatch):
    """Whose producers began and ended, in turn: real ones, which note it."""
    happened = []

    class Noted(Producer):
        async def start(self):
            self.user = USER.get()
            happened.append(("begins", self.user))
            await super().start()

        async def close(self):
            happened.append(("ends", self.user))
            await super().close()

    monkeypatch.setattr(sending_module, "Producer", Noted)
    return happened


@pytest.fixture
async def cluster(ariane_cluster):
    opened = Cluster([ariane_cluster.name_servers], timeout_s=10.0, tls=False)
    opened.clock = ClusterClock()
    opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def send(cluster, ariane_cluster, ariane_topic):
    """Send a message of a user."""
    sending = Sending(cluster, [ariane_cluster.name_servers], ProducerSettings(), tls=False)

    async def send(user="", topic=ariane_topic):
        USER.set(user)
        return await sending.send(message_to(topic), 10.0)

    send.sending = sending
    yield send
    await sending.close()


async def test_the_producer_that_was_used_least_lately_goes_first(send, life, monkeypatch):
    monkeypatch.setattr(sending_module, "PRODUCERS_MAX", 2)
    for user in ("", "anna;10.0.0.1", "", "anna;10.0.0.2", "", "anna;10.0.0.1"):
        assert (await send(user)).broker_name == "broker-a"
    begun = [user for what, user in life if what == "begins"]
    assert begun == ["", "anna;10.0.0.1", "anna;10.0.0.2", "anna;10.0.0.1"]
    await send.sending.close()
    assert sorted(user for what, user in life if what == "ends") == sorted(begun)


async def test_a_producer_that_nobody_uses_ends(send, life, cluster):
    await send("anna")
    await send("bert")
    cluster.clock.advance(ROUTE_UNUSED_S / 2)
    await send("bert")
    cluster.clock.advance(ROUTE_UNUSED_S / 2 + 1)
    send.sending.forget_unused()
    await asyncio.sleep(0)
    assert life[2:] == [("ends", "anna")]
    await send("anna")
    assert life[3:] == [("begins", "anna")]


async def test_a_producer_with_many_topics_that_nobody_uses_is_replaced(
    send, life, cluster, ariane_topic, make_ariane_topic, monkeypatch
):
    """It would ask for their routes for ever, also for those of topics that were deleted."""
    monkeypatch.setattr(sending_module, "TOPICS_UNUSED_MAX", 1)
    for topic in [make_ariane_topic(queue_count=1) for _ in range(2)]:
        await send(topic=topic)
    cluster.clock.advance(ROUTE_UNUSED_S + 1)
    await send()

    async def work(former):
        send.sending.forget_unused()
        await send()
        assert life == [("begins", ""), ("begins", "")]
        # What is under way is not cut off.
        assert (await former.send(message_to(ariane_topic))).queue_offset >= 0

    await send.sending._by_producer(ariane_topic, work)
    await asyncio.sleep(0)
    assert life[2:] == [("ends", "")]
    send.sending.forget_unused()
    assert len(life) == 3


async def test_a_topic_that_is_none_takes_no_place_in_a_producer(send, life):
    """A producer asks for its route for ever, in case that it is made."""
    handle = RecallHandle("nobody-knows-it", "broker-a", 1, "id").encode()
    for call in (
        send(topic="nobody-knows-it"),
        send.sending.recall("nobody-knows-it", handle),
        send.sending.end_transaction(
            "nobody-knows-it", TransactionHandle("broker-a", "id"), commit=True
        ),
    ):
        with pytest.raises(Refused) as refused:
            await call
        assert refused.value.kind is Refusal.TOPIC_UNKNOWN
    assert life == []
