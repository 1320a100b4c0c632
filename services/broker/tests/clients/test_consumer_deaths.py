"""Members that vanish, and what that says of the messages that they had in work."""

import asyncio
from contextlib import asynccontextmanager

import numpy as np
import pytest

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane_broker.clients.deaths.client_work import ClientWork, GroupQueue
from ariane_broker.clients.deaths.suspicions import NO_SUSPICION, Suspicion, Suspicions
from ariane_broker.queue_key import QueueKey
from ariane_record.decoding.columns import decode_columns
from ariane_record.names import dead_letter_topic, retry_topic
from ariane_servicekit import at_once

GROUP, TOPIC = "billing", "orders"
GRACE_S = 0.15


class Member:
    """A member of the group, as the broker sees it."""

    def __init__(self, broker, client_id, call):
        self.broker = broker
        self.client_id = client_id
        self._call = call

    async def pull(self, queue_offset=0, topic=TOPIC):
        (pulled,) = await self.broker.pull(
            (topic, 0, queue_offset), group=GROUP, client_id=self.client_id
        )
        return pulled

    async def tell(self, queue_offset, in_work_end=None, *, alone=False, topic=TOPIC):
        """Store an offset; say what is in work."""
        said = offset_pb.QueueConsumerOffset(
            topic=topic,
            queue_id=0,
            queue_offset=queue_offset,
            in_work_end=in_work_end,
            alone=alone,
        )
        request = offset_pb.StoreConsumerOffsetsRequest(
            consumer_group=GROUP, client_id=self.client_id, offsets=[said]
        )
        assert not (await self.broker.offsets.StoreConsumerOffsets(request)).refused

    async def die(self):
        self._call.cancel()
        await until_gone(self.broker, self.client_id)

    async def leave(self):
        await self._call.write(client_pb.AttachRequest(goodbye=client_pb.ClientGoodbye()))
        await self._call.done_writing()
        await until_gone(self.broker, self.client_id)


async def until_gone(broker, client_id):
    async def gone():
        response = await broker.clients.ListClients(client_pb.ListClientsRequest())
        return all(client.hello.client_id != client_id for client in response.clients)

    await until(gone)


async def until(ask):
    async with asyncio.timeout(60):
        while not (answer := await ask()):  # noqa: ASYNC110 - the other side of a wire
            await asyncio.sleep(0.005)
    return answer


async def join(broker, client_id="a", *, topics=(TOPIC,), incarnation="", **fields):
    subscriptions = [
        subscription_pb.Subscription(
            topic=topic,
            filter=subscription_pb.FilterExpression(kind=subscription_pb.FILTER_KIND_TAG, text="*"),
        )
        for topic in topics
    ]
    membership = client_pb.Membership(consumer_group=GROUP, subscriptions=subscriptions, **fields)
    call = broker.clients.Attach()
    content = client_pb.ClientHello(
        client_id=client_id, memberships=[membership], incarnation=incarnation
    )
    await call.write(client_pb.AttachRequest(hello=content))
    assert (await call.read()).HasField("accepted")
    return Member(broker, client_id, call)


async def place_of(broker, topic=TOPIC):
    reference = offset_pb.QueueReference(topic=topic, queue_id=0)
    request = offset_pb.GetConsumerOffsetsRequest(consumer_group=GROUP, queues=[reference])
    (offset,) = (await broker.offsets.GetConsumerOffsets(request)).offsets
    return offset


async def suspected(broker):
    place = await place_of(broker)
    return place.watched_end, place.alone_end


async def settled(broker, topic=TOPIC):
    """The place of the group once it is decided what a death means."""

    async def decided():
        place = await place_of(broker, topic)
        return None if place.in_doubt else place

    return await until(decided)


async def letters_in(broker, topic):
    (pulled,) = await broker.pull((topic, 0, 0), group=GROUP)
    if pulled.HasField("error") or not pulled.record_sizes:
        return []
    columns = decode_columns(pulled.records, np.frombuffer(pulled.record_sizes, "<i4"))
    return list(map(columns.message, range(len(columns))))


@asynccontextmanager
async def one_that_dies_alone(broker, queue_offset=1, client_id="a", topic=TOPIC, **fields):
    member = await join(broker, client_id, **fields)
    await member.pull(queue_offset, topic)
    await member.tell(queue_offset, queue_offset + 1, alone=True, topic=topic)
    yield member
    await member.die()


@pytest.fixture
async def prepared(running):
    @asynccontextmanager
    async def prepared(**changes):
        values = {"consumer_grace_s": GRACE_S, "delay_levels": "1s " * 17 + "1s"} | changes
        async with running(**values) as broker:
            if await broker.known_offset(GROUP, TOPIC) is None:
                await broker.create_topic(TOPIC)
                await broker.store(TOPIC, [b"%d" % each for each in range(6)])
                assert not await broker.store_offset(GROUP, TOPIC, 0, 0)
            yield broker

    return prepared


async def test_three_steps_find_the_message(prepared, clock):
    async with prepared() as broker:
        member = await join(broker)
        await member.pull()
        await member.tell(1)
        await member.die()
        assert await suspected(broker) == (6, 0)
        member = await join(broker, "b")
        await member.pull(1)
        await member.tell(2, 4)
        await member.die()
        assert await suspected(broker) == (6, 4)
        async with one_that_dies_alone(broker, 3, "c"):
            pass
        assert (await place_of(broker)).in_doubt
        place = await settled(broker)
        assert (place.queue_offset, place.watched_end) == (4, 6)
        clock.advance(1)
        (copy,) = await until(lambda: letters_in(broker, retry_topic(GROUP)))
        assert (copy.body, copy.attempts) == (b"3", 1)
        assert copy.properties["CONSUMER_DEATHS"] == "1"
        assert "died" in copy.properties["LAST_ERROR"]
        state = await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())
        assert state.statistics.vanished_member_count == 3
        assert state.statistics.counted_death_count == 1


async def test_a_consumer_that_detaches_has_died_of_no_message(prepared):
    async with prepared() as broker:
        member = await join(broker)
        await member.pull()
        await member.leave()
        assert await suspected(broker) == (0, 0)


async def test_a_consumer_without_unfinished_work_has_died_of_no_message(prepared):
    async with prepared() as broker:
        member = await join(broker)
        await member.pull()
        await member.tell(6)
        await member.die()
        assert await suspected(broker) == (0, 0)


async def test_broadcasting_members_store_no_offsets_to_suspect(prepared):
    async with prepared() as broker:
        member = await join(broker, model=client_pb.CONSUME_MODEL_BROADCASTING)
        await member.pull()
        await member.die()
        assert await suspected(broker) == (0, 0)


async def test_a_member_without_network_for_a_moment_did_not_die(prepared):
    async with prepared(consumer_grace_s=30) as broker:
        async with one_that_dies_alone(broker):
            pass
        assert (await place_of(broker)).in_doubt
        member = await join(broker)
        place = await place_of(broker)
        assert (place.in_doubt, place.queue_offset) == (False, 1)
        # It still has the message, as it said before.
        await member.die()
        assert (await place_of(broker)).in_doubt


async def test_another_process_under_the_same_name_does_not_make_the_first_one_live(prepared):
    async with prepared(consumer_grace_s=3600, consumer_deaths_max=1) as broker:
        async with one_that_dies_alone(broker, incarnation="one"):
            pass
        second = await join(broker, incarnation="two")
        assert (await settled(broker)).queue_offset == 2
        await second.leave()
        (letter,) = await letters_in(broker, dead_letter_topic(GROUP))
        assert letter.properties["DLQ_REASON"] == "CONSUMER_DIED"


async def test_suspicions_of_a_member_that_comes_back_are_forgotten(prepared):
    async with prepared(consumer_grace_s=30) as broker:
        member = await join(broker)
        await member.pull()
        await member.die()
        assert await suspected(broker) == (6, 0)
        member = await join(broker)
        assert await suspected(broker) == (0, 0)
        await member.leave()


async def test_who_asks_for_something_lives(prepared, clock):
    async with prepared(consumer_grace_s=1.0) as broker:
        async with one_that_dies_alone(broker) as member:
            pass
        for _ in range(15):
            clock.advance(0.1)
            await asyncio.sleep(0.01)
            await member.tell(1)
        assert (await place_of(broker)).in_doubt


async def test_a_passed_message_is_no_longer_suspected(prepared):
    async with prepared() as broker:
        member = await join(broker)
        await member.pull()
        await member.die()
        member = await join(broker, "b")
        await member.tell(5)
        assert await suspected(broker) == (6, 0)
        await member.tell(6)
        assert await suspected(broker) == (0, 0)
        await member.leave()


async def test_nothing_else_is_suspected_of_one_who_died_alone(prepared):
    async with prepared() as broker:
        await broker.create_topic("other")
        await broker.store("other", [b"x"])
        assert not await broker.store_offset(GROUP, "other", 0, 0)
        async with one_that_dies_alone(broker, topics=(TOPIC, "other")) as member:
            await member.pull(topic="other")
        other = await place_of(broker, "other")
        assert (other.watched_end, other.in_doubt) == (0, False)
        assert (await settled(broker)).queue_offset == 2


async def test_one_who_is_done_with_what_it_had_alone_died_of_something_else(prepared):
    async with prepared() as broker:
        async with one_that_dies_alone(broker) as member:
            await member.tell(2, 2)
        assert not (await place_of(broker)).in_doubt
        assert await suspected(broker) == (6, 0)


@pytest.mark.parametrize("attempts_max", [16, 1])
async def test_so_many_deaths_make_a_dead_letter(prepared, clock, attempts_max):
    async with prepared(consumer_deaths_max=3) as broker:
        group = group_pb.ConsumerGroupChange(consumer_group=GROUP, attempts_max=attempts_max)
        await broker.groups.UpdateConsumerGroup(group_pb.UpdateConsumerGroupRequest(group=group))
        async with one_that_dies_alone(broker):
            pass
        await settled(broker)
        deaths = min(3, attempts_max + 1)
        for death in range(2, deaths + 1):
            clock.advance(1)
            copies = await until(lambda: letters_in(broker, retry_topic(GROUP)))
            while len(copies) < death - 1:
                await asyncio.sleep(0.01)
                copies = await letters_in(broker, retry_topic(GROUP))
            assert copies[-1].properties["CONSUMER_DEATHS"] == str(death - 1)
            async with one_that_dies_alone(
                broker, death - 2, f"m{death}", topic=retry_topic(GROUP)
            ):
                pass
            await settled(broker, retry_topic(GROUP))
        (letter,) = await letters_in(broker, dead_letter_topic(GROUP))
        assert (letter.body, letter.attempts) == (b"1", deaths)
        assert letter.properties["DLQ_REASON"] == "CONSUMER_DIED"
        assert letter.properties["DLQ_ORIGIN_TOPIC"] == TOPIC
        assert letter.properties["ORIGIN_QUEUE_OFFSET"] == "1"
        assert (await place_of(broker)).queue_offset == 2


async def test_in_order_deaths_are_counted_in_place_over_a_restart(prepared):
    async def die(broker, client_id):
        async with one_that_dies_alone(broker, client_id=client_id, ordered=True):
            pass
        return await settled(broker)

    async with prepared() as broker:
        place = await die(broker, "a")
        assert (place.queue_offset, place.alone_end) == (1, 2)
        await die(broker, "b")
        request = offset_pb.ListConsumerLagsRequest(consumer_group=GROUP)
        (lag,) = (await broker.offsets.ListConsumerLags(request)).lags
        assert (lag.death_count, lag.suspected_count) == (2, 1)
        assert not await letters_in(broker, dead_letter_topic(GROUP))
    async with prepared() as broker:
        place = await die(broker, "c")
        assert place.queue_offset == 2
        (letter,) = await letters_in(broker, dead_letter_topic(GROUP))
        assert (letter.body, letter.attempts) == (b"1", 3)
        assert letter.properties["DLQ_REASON"] == "CONSUMER_DIED"
        assert not await letters_in(broker, retry_topic(GROUP))


async def test_a_broker_that_stops_takes_nobody_for_dead(prepared):
    async with prepared() as broker:
        member = await join(broker)
        await member.pull()
        await member.tell(1, 2, alone=True)
    async with prepared() as broker:
        place = await place_of(broker)
        assert (place.in_doubt, place.watched_end, place.alone_end) == (False, 0, 0)


async def test_deaths_may_be_ignored(prepared):
    async with prepared(consumer_deaths_max=0) as broker:
        async with one_that_dies_alone(broker):
            pass
        place = await place_of(broker)
        assert (place.in_doubt, place.watched_end, place.queue_offset) == (False, 0, 1)


def test_what_a_client_says_of_its_work():
    place, other = GroupQueue("g", QueueKey("t", 0)), GroupQueue("g", QueueKey("t", 1))
    work = ClientWork()
    work.report(place, 3, 8, alone=False)
    # A later one may overtake it.
    work.report(place, 3, 6, alone=False)
    assert work.reported_ends == {place: 8}
    work.report(place, 8, None, alone=False)
    assert work.reported_ends == {}
    work.report(place, 9, 10, alone=True)
    work.report(other, 4, None, alone=False)
    work.report(place, 9, None, alone=False)
    assert work.alone == (place, 9)
    work.report(place, 10, None, alone=False)
    assert work.alone is None
    work.report(place, 10, 11, alone=True)
    work.report(place, 10, 10, alone=False)
    assert (work.alone, work.reported_ends) == (None, {})


def test_suspicions_are_kept_and_forgotten():
    places = [GroupQueue(g, QueueKey(t, 0)) for g in ("a", "b") for t in ("x", "y")]
    suspicions = Suspicions()
    for place in places:
        suspicions.put(place, Suspicion(10, 5, 4, 2))
    again = Suspicions()
    again.load(suspicions.document())
    assert again.document() == suspicions.document()
    assert again.find(places[0]).deaths_of(4) == 2
    assert again.find(places[0]).deaths_of(5) == 0
    assert not again.passed(places[0], 9)
    assert again.passed(places[0], 10)
    assert again.find(places[0]) is NO_SUSPICION
    assert at_once(again.remove_topics({"x"}))
    assert at_once(again.remove_group("b"))
    assert not at_once(again.remove_group("b"))
    assert again.find(places[1]) == Suspicion(10, 5, 4, 2)
    with pytest.raises(ValueError, match="version 7"):
        again.load({"version": 7, "suspicions": []})
