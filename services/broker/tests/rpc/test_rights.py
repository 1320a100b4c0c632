"""What users reach in a closed broker, by every way in, and what they do not."""

from __future__ import annotations

import asyncio

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1 import pull_service_pb2 as pull_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.common.v1.message_pb2 import Message, ReplyAddress
from ariane.common.v1.subscription_pb2 import FILTER_KIND_TAG, FilterExpression, Subscription
from ariane_record.names import TRACE_TOPIC
from ariane_servicekit.security.caller import MemberKind

READER = "allow SUBSCRIBE topic DefaultCluster_REPLY_TOPIC; allow SUBSCRIBE group ARIANE_REPLIES"
CONSUMER = "allow SUBSCRIBE group g; allow SUBSCRIBE topic orders"


def sending(topic):
    return send_pb.SendMessagesRequest(topic=topic, messages=[Message(body=b"b")])


def attach(*groups, client_id="c1", producer_groups=()):
    memberships = [
        client_pb.Membership(
            consumer_group=group,
            model=client_pb.CONSUME_MODEL_CLUSTERING,
            subscriptions=[Subscription(topic="orders")],
        )
        for group in groups
    ]
    hello = client_pb.ClientHello(
        client_id=client_id, memberships=memberships, producer_groups=producer_groups
    )
    return client_pb.AttachRequest(hello=hello)


async def attached(probe, *groups, **options):
    stream = probe.clients.Attach()
    await stream.write(attach(*groups, **options))
    assert (await stream.read()).HasField("accepted")
    return stream


def other_ways(anna, topic):
    """Every way to do something else with a topic than to send to it."""
    order = receive_pb.ReceiveOrder(
        consumer_group="g", subscriptions=[Subscription(topic=topic)], message_count_max=1
    )
    position = pull_pb.PullPosition(topic=topic)
    yield anna.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic=topic))
    yield anna.topics.UpdateTopic(topic_pb.UpdateTopicRequest(topic=topic, write_queue_count=2))
    yield anna.queries.QueryMessages(query_pb.QueryMessagesRequest(topic=topic, key="k"))
    yield anna.queries.ListDelayedMessages(query_pb.ListDelayedMessagesRequest(topic=topic))
    yield anna.queries.GetMessage(query_pb.GetMessageRequest(topic=topic, message_id="x"))
    yield anna.pulls.PullMessages(
        pull_pb.PullMessagesRequest(consumer_group="g", positions=[position])
    )
    yield anna.pull((topic, 0, 0))
    yield anna.receives.ReceiveRecords(receive_pb.ReceiveRecordsRequest(order=order))
    yield anna.receives.AckMessages(receive_pb.AckMessagesRequest(consumer_group="g"))
    yield anna.known_offset("g", topic)
    yield anna.store_offset("g", topic, 0, 1)
    yield anna.retries.ReturnMessage(retry_pb.ReturnMessageRequest(consumer_group="g", topic=topic))
    yield anna.groups.CreateConsumerGroup(
        group_pb.CreateConsumerGroupRequest(group=group_pb.ConsumerGroup(consumer_group="g"))
    )
    yield anna.offsets.ResetConsumerOffsets(
        offset_pb.ResetConsumerOffsetsRequest(consumer_group="g", topic=topic, earliest=True)
    )
    yield first_of(anna.pulls.PullRange(pull_pb.PullRangeRequest(topic=topic)))
    yield first_of(anna.clients.Attach(iter([attach("g")])))
    yield anna.clients.GetClientState(client_pb.GetClientStateRequest(client_id="c1"))


async def first_of(stream):
    async for answer in stream:
        return answer
    return None


async def test_a_user_with_the_right_to_send_does_nothing_else(running_closed, refused):
    async with running_closed("anna: allow PUBLISH topic order-*", "bert: ") as broker:
        root, anna = await broker.of("root"), await broker.of("anna")
        for topic in ("order-1", "bills"):
            await root.create_topic(topic)
        await anna.sends.SendMessages(sending("order-1"))
        await anna.store("order-1", [b"packed"])
        await anna.store_half("u1", topic="order-1")
        assert await root.bodies("order-1") == [b"b", b"packed"]
        denied = [
            anna.sends.SendMessages(sending("bills")),
            anna.append(anna.batch("bills", [b"x"])),
            anna.append(anna.batch("order-1", [b"x"]), anna.batch("bills", [b"x"])),
            anna.store_half("u2", topic="bills"),
            anna.sends.SendMessages(sending("%RETRY%g")),
            anna.create_topic("order-3"),
            *other_ways(anna, "order-1"),
        ]
        for call in denied:
            assert (await refused(call)).reason == "ACCESS_DENIED"
        assert await root.bodies("order-1") == [b"b", b"packed"]
        assert await root.bodies("bills") == []


async def test_a_topic_that_is_not_there_looks_like_one_without_a_right(running_closed, refused):
    """By every way in: what is refused says nothing of what there is."""
    async with running_closed("anna: allow SUBSCRIBE group g; allow GET group g") as broker:
        root, anna = await broker.of("root"), await broker.of("anna")
        await root.create_topic("bills")
        told = []
        for topic in ("bills", "ghost"):
            calls = [
                anna.sends.SendMessages(sending(topic)),
                anna.append(anna.batch(topic, [b"x"])),
                anna.store_half("u2", topic=topic),
                anna.topics.GetTopic(topic_pb.GetTopicRequest(topic=topic)),
                *other_ways(anna, topic),
            ]
            refusals = [str(await refused(call)) for call in calls]
            told.append([each.replace(topic, "TOPIC") for each in refusals])
        assert told[0] == told[1]
        assert sum("ACCESS_DENIED" in each for each in told[0]) > 10


async def test_a_send_that_creates_needs_the_right_to_create(running_closed, refused, reason_of):
    async with running_closed(
        "anna: allow PUBLISH topic order-*; allow CREATE topic order-new", auto_create_topics=True
    ) as broker:
        anna = await broker.of("anna")
        refusal = await refused(anna.sends.SendMessages(sending("order-old")))
        assert (refusal.reason, refusal.metadata["action"]) == ("ACCESS_DENIED", "CREATE")
        [result] = await anna.append(anna.batch("order-old", [b"x"]))
        assert reason_of(result.error) == "ACCESS_DENIED"
        await anna.sends.SendMessages(sending("order-new"))


async def test_lists_show_what_there_is_for_a_user(running_closed):
    async with running_closed(
        "anna: allow PUBLISH topic order-*", "olga: allow GET cluster"
    ) as broker:
        root = await broker.of("root")
        for topic in ("order-1", "bills"):
            await root.create_topic(topic)

        async def topics(user):
            probe = await broker.of(user)
            answer = await probe.topics.ListTopics(topic_pb.ListTopicsRequest())
            return [each.topic for each in answer.topics]

        assert await topics("anna") == ["order-1"]
        assert {"order-1", "bills"} <= {*await topics("olga")}


async def test_half_messages_go_to_those_who_may_send(running_closed, refused):
    async with running_closed("anna: allow PUBLISH topic orders", "bert: ") as broker:
        root, anna = await broker.of("root"), await broker.of("anna")
        checker = await broker.of(MemberKind.CHECKER)
        await root.create_topic("orders")
        await anna.store_half("u1", group="pay")
        thief = await attached(await broker.of("bert"), client_id="t", producer_groups=["pay"])
        check = transaction_pb.CheckTransactionRequest(transaction_id="u1")
        refusal = await refused(checker.transactions.CheckTransaction(check))
        assert refusal.reason == "CLIENT_NOT_ATTACHED"
        # An answer that nobody asked for counts for nothing.
        await thief.write(
            client_pb.AttachRequest(
                transaction_answer=client_pb.TransactionAnswer(
                    transaction_id="u1",
                    outcome=client_pb.TRANSACTION_OUTCOME_ROLLBACK,
                )
            )
        )
        owner = await attached(anna, client_id="o", producer_groups=["pay"])
        asking = asyncio.ensure_future(checker.transactions.CheckTransaction(check))
        question = await owner.read()
        assert question.transaction_check.unique_id == "u1"
        await owner.write(
            client_pb.AttachRequest(
                transaction_answer=client_pb.TransactionAnswer(
                    transaction_id="u1",
                    outcome=client_pb.TRANSACTION_OUTCOME_COMMIT,
                )
            )
        )
        answer = await asking
        assert (answer.client_id, answer.outcome) == ("o", client_pb.TRANSACTION_OUTCOME_COMMIT)


async def test_clients_of_gateways_are_asked_by_rights_from_their_own_address(
    running_closed, refused
):
    async with running_closed(
        "anna: allow PUBLISH topic orders",
        "bert: allow PUBLISH topic orders from 127.0.0.0/8",
        "olga: allow PUBLISH topic orders from 10.0.0.0/8",
    ) as broker:
        root, anna = await broker.of("root"), await broker.of("anna")
        checker, gateway = await broker.of(MemberKind.CHECKER), await broker.of(MemberKind.GATEWAY)
        await root.create_topic("orders")
        await anna.store_half("u1", group="pay")
        stream = await attached(gateway, client_id="gateway-1")

        async def tell(user):
            hello = client_pb.ClientHello(client_id=f"of-{user}", producer_groups=["pay"])
            client = client_pb.RelayedClient(
                hello=hello, address="10.0.0.7:4242", reachable=True, user=user
            )
            relayed = client_pb.RelayedClients(present=[client])
            await stream.write(client_pb.AttachRequest(relayed_clients=relayed))
            listing = client_pb.ListClientsRequest()
            async with asyncio.timeout(20):
                while f"of-{user}" not in str(await root.clients.ListClients(listing)):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        check = transaction_pb.CheckTransactionRequest(transaction_id="u1")
        await tell("bert")  # The gateway's address is of his network, and he is not there.
        refusal = await refused(checker.transactions.CheckTransaction(check))
        assert refusal.reason == "CLIENT_NOT_ATTACHED"
        await tell("olga")
        asking = asyncio.ensure_future(checker.transactions.CheckTransaction(check))
        assert (await stream.read()).client_id == "of-olga"
        asking.cancel()


async def test_the_id_of_a_gateways_client_belongs_to_its_user(running_closed):
    async with running_closed("anna: allow PUBLISH topic orders", "bert: ") as broker:
        root, anna = await broker.of("root"), await broker.of("anna")
        checker, gateway = await broker.of(MemberKind.CHECKER), await broker.of(MemberKind.GATEWAY)
        await root.create_topic("orders")
        await anna.store_half("u1", group="pay")
        streams = [await attached(gateway, client_id=f"gateway-{n}") for n in range(2)]
        # Of the second gateway, the last one is known once all before are.
        for stream, *told in (
            (streams[0], ("anna", "c")),
            (streams[1], ("bert", "c"), ("bert", "d")),
        ):
            present = [
                client_pb.RelayedClient(
                    hello=client_pb.ClientHello(client_id=client_id, producer_groups=["pay"]),
                    address="10.0.0.7:4242",
                    reachable=True,
                    user=user,
                )
                for user, client_id in told
            ]
            relayed = client_pb.RelayedClients(present=present)
            await stream.write(client_pb.AttachRequest(relayed_clients=relayed))
            wanted = f'client_id: "{told[-1][1]}"'
            listing = client_pb.ListClientsRequest()
            async with asyncio.timeout(20):
                while wanted not in str(await root.clients.ListClients(listing)):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        check = transaction_pb.CheckTransactionRequest(transaction_id="u1")
        asking = asyncio.ensure_future(checker.transactions.CheckTransaction(check))
        assert (await streams[0].read()).client_id == "c"
        asking.cancel()


async def test_receipts_are_judged_by_what_they_settle(running_closed, refused):
    async with running_closed(
        f"anna: {CONSUMER}", "bert: allow SUBSCRIBE group g; allow SUBSCRIBE topic other"
    ) as broker:
        root, anna = await broker.of("root"), await broker.of("anna")
        await root.create_topic("orders")
        await root.store("orders", [b"one"])
        order = receive_pb.ReceiveOrder(
            consumer_group="g", subscriptions=[Subscription(topic="orders")], message_count_max=1
        )
        received = await anna.receives.ReceiveRecords(receive_pb.ReceiveRecordsRequest(order=order))
        [queue] = received.queues
        settle = receive_pb.SettleRecordsRequest(
            consumer_group="g",
            settlements=[receive_pb.RecordSettlement(receipt=queue.receipt)],
        )
        bert = await broker.of("bert")
        refusal = await refused(bert.receives.SettleRecords(settle))
        assert (refusal.reason, refusal.metadata["name"]) == ("ACCESS_DENIED", "orders")
        [result] = (await anna.receives.SettleRecords(settle)).results
        assert result.settled_count == 1


async def test_a_client_id_belongs_to_the_user_that_attached_it(running_closed, refused):
    async with running_closed(f"anna: {CONSUMER}", f"bert: {CONSUMER}") as broker:
        root = await broker.of("root")
        await root.create_topic("orders")
        probes = [await broker.of("anna"), await broker.of("bert")]
        stream = await attached(probes[0], "g", client_id="c1")
        store = offset_pb.StoreConsumerOffsetsRequest(
            consumer_group="g",
            client_id="c1",
            offsets=[offset_pb.QueueConsumerOffset(topic="orders", queue_id=0, queue_offset=0)],
        )
        pull = pull_pb.PullRecordsRequest(
            consumer_group="g", client_id="c1", positions=[pull_pb.PullPosition(topic="orders")]
        )
        for probe, right in zip(probes, (True, False), strict=True):
            for call in (
                lambda probe=probe: probe.offsets.StoreConsumerOffsets(store),
                lambda probe=probe: probe.pulls.PullRecords(pull),
            ):
                if right:
                    await call()
                else:
                    refusal = await refused(call())
                    assert refusal.reason == "ACCESS_DENIED"
        stream.cancel()


async def test_a_client_of_a_gateway_keeps_its_id_from_other_users(running_closed, refused):
    """Of gateways, too: what they tell later of another user's client is another client."""
    async with running_closed(f"anna: {CONSUMER}", f"bert: {CONSUMER}") as broker:
        anna, bert = await broker.of("anna"), await broker.of("bert")
        await (await broker.of("root")).create_topic("orders")
        gateway = await broker.of(MemberKind.GATEWAY)
        streams = [await attached(gateway, client_id=f"gateway-{number}") for number in (1, 2)]

        async def tell(stream, user, language):
            hello = client_pb.ClientHello(client_id="c1", language=language)
            client = client_pb.RelayedClient(
                hello=hello, address="10.0.0.7:4242", reachable=True, user=user
            )
            relayed = client_pb.RelayedClients(present=[client])
            await stream.write(client_pb.AttachRequest(relayed_clients=relayed))
            # What comes after it is read after it.
            await stream.write(client_pb.AttachRequest(heartbeat=client_pb.ClientHeartbeat()))
            assert (await stream.read()).HasField("heartbeat_accepted")

        await tell(streams[0], "anna", "java")
        await tell(streams[1], "bert", "go")
        store = offset_pb.StoreConsumerOffsetsRequest(
            consumer_group="g",
            client_id="c1",
            offsets=[offset_pb.QueueConsumerOffset(topic="orders", queue_id=0, queue_offset=0)],
        )
        await anna.offsets.StoreConsumerOffsets(store)
        refusal = await refused(bert.offsets.StoreConsumerOffsets(store))
        assert refusal.reason == "ACCESS_DENIED"
        # Another gateway may bring the same user's client.
        await tell(streams[1], "anna", "python")
        root = await broker.of("root")
        listed = (await root.clients.ListClients(client_pb.ListClientsRequest())).clients
        [client] = [each for each in listed if each.hello.client_id == "c1"]
        assert client.hello.language == "python"
        assert sorted(client.gateways) == ["gateway-1", "gateway-2"]
        for stream in streams:
            stream.cancel()


async def test_a_held_pull_ends_with_its_right(running_closed, refused):
    async with running_closed(f"anna: {CONSUMER}") as broker:
        root, anna = await broker.of("root"), await broker.of("anna")
        await root.create_topic("orders")
        held = asyncio.ensure_future(anna.pull(("orders", 0, 0), group="g", hold_s=30))
        await asyncio.sleep(0.1)
        assert not held.done()
        await broker.admin.tell("anna: allow SUBSCRIBE group g")
        async with asyncio.timeout(20):
            assert (await refused(held)).reason == "ACCESS_DENIED"


REPLIES = "DefaultCluster_REPLY_TOPIC"


def reply(client_id):
    address = ReplyAddress(correlation_id="1", client_id=client_id)
    message = Message(body=client_id.encode(), reply_address=address)
    return send_pb.SendMessagesRequest(topic=REPLIES, messages=[message])


def pull_of_replies(client_id, tag, **changes):
    filters = FilterExpression(kind=FILTER_KIND_TAG, text=tag)
    fields = {
        "consumer_group": "ARIANE_REPLIES",
        "client_id": client_id,
        "positions": [pull_pb.PullPosition(topic=REPLIES)],
        "subscriptions": [Subscription(topic=REPLIES, filter=filters)],
    }
    return pull_pb.PullRecordsRequest(**{**fields, **changes})


async def test_a_requester_reads_replies_to_its_own_client_only(running_closed, refused):
    # Two tags with one hash, as Java has it.
    own, other = "eve-Aa", "eve-BB"
    async with running_closed("anna: ", "eve: ", "auditor: " + READER) as broker:
        root, anna, eve = [await broker.of(name) for name in ("root", "anna", "eve")]
        await root.create_topic(REPLIES, 1)
        for client_id in ("anna-1", own, other):
            await eve.sends.SendMessages(reply(client_id))

        async def bodies(probe, *asked):
            answer = await probe.pulls.PullRecords(pull_of_replies(*asked))
            found = answer.queues[0].records
            return [body for body in (b"anna-1", b"eve-Aa", b"eve-BB") if body in found]

        assert await bodies(anna, "anna-1", "anna-1") == [b"anna-1"]
        assert await bodies(eve, own, own) == [b"eve-Aa"]
        # What she may not ask for: an id that somebody reads by, all, or in another way.
        for pull in (
            pull_of_replies("anna-1", "anna-1"),
            pull_of_replies(own, "anna-1"),
            pull_of_replies(own, f"{own}||anna-1"),
            pull_of_replies("*", "*"),
            pull_of_replies(own, own, subscriptions=[]),
            pull_of_replies(own, own, consumer_group="g"),
        ):
            assert (await refused(eve.pulls.PullRecords(pull))).reason == "ACCESS_DENIED", pull
        plain = pull_pb.PullRangeRequest(topic=REPLIES)
        assert (await refused(first_of(eve.pulls.PullRange(plain)))).reason == "ACCESS_DENIED"
        auditor = await broker.of("auditor")
        assert await bodies(auditor, "auditor-1", "*") == [b"anna-1", b"eve-Aa", b"eve-BB"]


async def test_a_trace_has_the_user_who_wrote_it_and_nobody_writes_for_another(
    running_closed, refused, reason_of
):
    async with running_closed("anna: ", "bert: ") as broker:
        root, anna = await broker.of("root"), await broker.of("anna")

        async def write(**fields):
            message = Message(body=b"b", keys=["u1"], **fields)
            request = send_pb.SendMessagesRequest(topic=TRACE_TOPIC, messages=[message])
            await anna.sends.SendMessages(request)

        await write(properties={"kept": "k"})
        refusal = await refused(write(properties={"ariane.written_by": "bert"}))
        assert refusal.reason == "MESSAGE_ILLEGAL"
        # In a packed record, the broker does not look at properties.
        [result] = await anna.append(anna.batch(TRACE_TOPIC, [b"x"]))
        assert reason_of(result.error) == "TOPIC_RESERVED"
        refusal = await refused(anna.store_half("u2", topic=TRACE_TOPIC))
        assert refusal.reason == "TOPIC_RESERVED"
        query = query_pb.QueryMessagesRequest(topic=TRACE_TOPIC, key="u1")
        [found] = (await root.queries.QueryMessages(query)).messages
        assert dict(found.properties) == {"kept": "k", "ariane.written_by": "anna"}
