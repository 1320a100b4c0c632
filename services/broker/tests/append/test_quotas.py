"""Quotas of topics and users at a real broker: told, slowed, refused, and none the wiser."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from grpc import StatusCode
from grpc.aio import AioRpcError

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1 import quota_pb2 as pb
from ariane_broker import app
from ariane_testkit.access_rules import rules_of, telling
from ariane_testkit.append_rows import results_of, rows_request

TOPIC, USER, PREFIX = pb.QUOTA_SUBJECT_TOPIC, pb.QUOTA_SUBJECT_USER, pb.QUOTA_SUBJECT_PREFIX
BODY = b"x" * 1000


@pytest.fixture
async def limited(broker):
    """Tell the broker quotas, on each call another version."""
    async with telling(broker.channel) as admin:

        async def limited(*quotas):
            stated = rules_of(admin.version + 1)
            for figure, subject, name, limit in quotas:
                stated.quotas.add(
                    figure=f"QUOTA_FIGURE_{figure}", subject=subject, name=name, limit=limit
                )
            await admin.push_rules(stated)

        yield limited


async def append(broker, *batches, timeout=0.5):  # noqa: ASYNC109 - the deadline of the call
    answer = await broker.sends.AppendRecords(rows_request(batches), timeout=timeout)
    results = results_of(answer, [batch.count for batch in batches])
    errors = ["" if each.error is None else each.error.message for each in results]
    return [error.partition(" has used up ")[0] for error in errors]


async def test_a_topic_beyond_its_quota_is_refused_and_its_neighbours_are_not(broker, limited):
    await broker.create_topic("orders")
    await broker.create_topic("free")
    await limited(("SENT_BYTES", TOPIC, "orders", 1000))
    orders, free = broker.batch("orders", [BODY] * 20), broker.batch("free", [BODY])
    # It owes twenty seconds, and the answer comes before the deadline all the same.
    assert await append(broker, orders) == [""]
    assert await append(broker, orders, free) == ["topic orders", ""]
    assert await append(broker, free) == [""]
    # Single messages go the same way, and what was refused is not stored.
    plain = send_pb.SendMessagesRequest(topic="orders", messages=[{"body": b"x"}])
    with pytest.raises(AioRpcError, match="quota of sent-bytes, 1000 a second, here") as caught:
        await broker.sends.SendMessages(plain, timeout=5)
    assert caught.value.code() is StatusCode.RESOURCE_EXHAUSTED
    [use] = (await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())).quota_uses
    assert (use.quota.name, use.quota.limit, use.refused_count) == ("orders", 1000, 2)
    assert use.waited_duration.ToMilliseconds() > 0
    assert use.HasField("age_duration")
    assert use.refusing
    assert use.used > 0
    await limited()
    assert await append(broker, orders) == [""]
    assert len(await broker.bodies("orders")) == 40


async def test_uses_of_quotas_are_listed_before_any_is_exceeded(broker, limited):
    for name in ("shop-1", "shop-2", "other"):
        await broker.create_topic(name)
    group = group_pb.ConsumerGroup(consumer_group="shop-g")
    await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))
    await limited(
        ("TOPICS", PREFIX, "shop-", 4),
        ("GROUPS", PREFIX, "", 10),
        ("SENT_BYTES", TOPIC, "other", 1 << 40),
        ("CONNECTIONS", pb.QUOTA_SUBJECT_ADDRESS, "", 100),
    )
    assert await append(broker, broker.batch("other", [BODY])) == [""]
    told = (await broker.broker.GetBrokerState(broker_pb.GetBrokerStateRequest())).quota_uses
    used = {(pb.QuotaFigure.Name(u.quota.figure)[13:], u.quota.name): u.used for u in told}
    assert used.pop(("SENT_BYTES", "other")) > 0
    assert used.pop(("CONNECTIONS", "127.0.0.1")) >= 1
    assert used == {("TOPICS", "shop-"): 2, ("GROUPS", ""): 1}
    assert not any(use.HasField("age_duration") or use.refusing for use in told)
    # Who uses the largest part is told first.
    assert (told[0].quota.name, told[0].quota.limit) == ("shop-", 4)


async def test_batches_of_a_topic_are_counted(broker, limited):
    await broker.create_topic("orders")
    await limited(("CALLS", TOPIC, "", 1))
    batch = broker.batch("orders", [b"x"])
    # A table is judged as a whole, and each of its rows is a call.
    assert await append(broker, *[batch] * 10) == [""] * 10
    assert await append(broker, batch) == ["topic orders"]


async def test_topics_and_groups_with_a_prefix_are_bounded_also_if_made_together(broker, limited):
    await limited(("TOPICS", PREFIX, "shop-", 3), ("GROUPS", PREFIX, "", 1))
    batches = [broker.batch(f"shop-{number}", [b"x"]) for number in range(5)]
    told = await asyncio.gather(*(append(broker, batch, timeout=30) for batch in batches))
    assert sorted(each for (each,) in told) == ["", "", "", "prefix shop-", "prefix shop-"]
    await broker.create_topic("other")

    def create(name):
        group = group_pb.ConsumerGroup(consumer_group=name)
        request = group_pb.CreateConsumerGroupRequest(group=group)
        return broker.groups.CreateConsumerGroup(request)

    await create("one")
    with pytest.raises(AioRpcError, match="quota of groups, 1, here"):
        await create("two")


async def test_a_full_topic_takes_no_more_until_it_has_room(running, monkeypatch):
    monkeypatch.setattr(app, "LOOK_S", 0.02)
    async with running() as broker, telling(broker.channel) as admin:
        await broker.create_topic("orders")
        await broker.create_topic("free")
        orders, free = broker.batch("orders", [BODY] * 4), broker.batch("free", [BODY])
        for limit, end in ((3000, "topic orders"), (10**9, "")):
            stated = rules_of(admin.version + 1)
            figure = "QUOTA_FIGURE_STORED_BYTES"
            stated.quotas.add(figure=figure, subject=TOPIC, name="orders", limit=limit)
            await admin.push_rules(stated)
            for _ in range(1000):
                told = await append(broker, orders, free, timeout=30)
                if told[0] == end:
                    break
                await asyncio.sleep(0.02)
            assert told == [end, ""]
        request = broker_pb.GetBrokerStateRequest()
        [use] = (await broker.broker.GetBrokerState(request)).quota_uses
        assert use.quota.limit == 10**9
        assert use.used >= 3000


async def test_a_user_is_limited_by_all_its_calls_and_others_are_not(running_closed):
    rules = ("anna: allow PUBLISH topic *", "ben: allow PUBLISH topic *")
    async with running_closed(*rules) as closed:
        root = await closed.of("root")
        await root.create_topic("orders")
        stated = rules_of(closed.admin.version + 1, *rules)
        stated.quotas.add(figure="QUOTA_FIGURE_SENT_BYTES", subject=USER, limit=1000)
        await closed.admin.push_rules(stated)
        anna, ben = await closed.of("anna"), await closed.of("ben")
        batch = anna.batch("orders", [BODY] * 20)
        assert await append(anna, batch) == [""]
        with pytest.raises(AioRpcError, match="user anna has used up its quota") as caught:
            await append(anna, batch)
        assert caught.value.code() is StatusCode.RESOURCE_EXHAUSTED
        # Whatever else she asks, too.
        with pytest.raises(AioRpcError, match="user anna has used up its quota"):
            await anna.create_topic("more")
        assert await append(ben, batch) == [""]


async def test_half_messages_are_counted_with_all_their_bytes(broker, limited):
    await broker.create_topic("orders")
    await limited(("SENT_BYTES", TOPIC, "orders", 1000))
    first, second = (
        replace(broker.batch("orders", [BODY * 20]), half_group="pay") for _ in range(2)
    )
    assert await append(broker, first) == [""]
    assert await append(broker, second) == ["topic orders"]
