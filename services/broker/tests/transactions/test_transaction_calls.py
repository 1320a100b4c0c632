"""Half messages through the wire: kept, invisible, ended once, asked about, parked."""

import asyncio

import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import query_service_pb2 as query_pb
from ariane.broker.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_record import decode_record

COMMIT = client_pb.TRANSACTION_OUTCOME_COMMIT
ROLLBACK = client_pb.TRANSACTION_OUTCOME_ROLLBACK
UNKNOWN = client_pb.TRANSACTION_OUTCOME_UNKNOWN


def half_call(broker, body=b"paid", unique_id="t-1", **fields):
    return broker.store_half(unique_id, body, **fields)


def end_call(broker, outcome, transaction_id="t-1", **fields):
    return broker.end_transaction(transaction_id, outcome, **fields)


def list_call(broker, **fields):
    return broker.transactions.ListHalfMessages(transaction_pb.ListHalfMessagesRequest(**fields))


def check_call(broker, transaction_id="t-1", wait_s=0.0, **fields):
    request = transaction_pb.CheckTransactionRequest(transaction_id=transaction_id, **fields)
    request.wait_duration.FromMilliseconds(round(wait_s * 1000))
    return broker.transactions.CheckTransaction(request)


def park_call(broker, transaction_id="t-1", check_count=15):
    return broker.transactions.ParkTransaction(
        transaction_pb.ParkTransactionRequest(
            transaction_id=transaction_id, check_count=check_count
        )
    )


async def waiting(broker):
    return [half.transaction_id for half in (await list_call(broker)).half_messages]


async def attach_producer(broker, client_id, group="pay", *, reads_records=True):
    call = broker.clients.Attach()
    hello = client_pb.ClientHello(
        client_id=client_id, producer_groups=[group], reads_records=reads_records
    )
    await call.write(client_pb.AttachRequest(hello=hello))
    assert (await call.read()).accepted.broker_name
    return call


async def question(call):
    async with asyncio.timeout(60):
        notice = await call.read()
    assert notice.WhichOneof("content") == "transaction_check"
    return notice.transaction_check


async def answer(call, transaction_id, outcome):
    said = client_pb.TransactionAnswer(transaction_id=transaction_id, outcome=outcome)
    await call.write(client_pb.AttachRequest(transaction_answer=said))


OF_THE_TRANSACTION = (
    "TRANSACTION_CHECK_TIMES",
    "TRAN_FIRST_STORED_MS",
    "TRAN_OUTCOME",
    "TRAN_PARKED",
)


@pytest.fixture
async def orders(broker):
    await broker.create_topic("orders")
    return broker


async def test_a_half_message_is_visible_once_it_is_committed(orders):
    sent = await half_call(
        orders,
        tag="created",
        keys=["o-1"],
        properties={"a": "b", "CHECK_IMMUNITY_TIME_IN_SECONDS": "9"},
    )
    assert (sent.messages[0].unique_id, sent.duplicate) == ("t-1", False)
    assert await orders.bodies("orders") == []
    (half,) = (await list_call(orders)).half_messages
    assert (half.topic, half.producer_group, list(half.keys)) == ("orders", "pay", ["o-1"])
    assert half.immunity_duration.seconds == 9
    assert not half.parked
    ended = await end_call(orders, COMMIT)
    assert (ended.outcome, ended.duplicate, ended.position.queue_offset) == (COMMIT, False, 0)
    assert await orders.bodies("orders") == [b"paid"]
    assert await waiting(orders) == []
    found = await orders.queries.QueryMessages(
        query_pb.QueryMessagesRequest(topic="orders", key="o-1")
    )
    (message,) = found.messages
    assert message.message_type == message_pb.MESSAGE_TYPE_TRANSACTION
    assert (message.tag, dict(message.properties)["a"]) == ("created", "b")
    assert message.position.commit_log_offset == ended.position.commit_log_offset


async def test_a_rolled_back_message_is_never_visible(orders):
    await half_call(orders)
    ended = await end_call(orders, ROLLBACK)
    assert (ended.outcome, ended.HasField("position")) == (ROLLBACK, False)
    assert await waiting(orders) == []
    assert await orders.bodies("orders") == []


@pytest.mark.parametrize("outcomes_max", [100, 0], ids=["remembered", "looked up"])
@pytest.mark.parametrize(("first", "later"), [(COMMIT, ROLLBACK), (ROLLBACK, COMMIT)])
async def test_the_first_outcome_stands(running, refused, first, later, outcomes_max):
    async with running(transaction_outcomes_max=outcomes_max) as broker:
        await broker.create_topic("orders")
        await half_call(broker)
        await end_call(broker, first)
        bodies = await broker.bodies("orders")
    async with running(transaction_outcomes_max=outcomes_max) as broker:
        again = await end_call(broker, first, group="")
        assert (again.outcome, again.duplicate) == (first, True)
        assert again.HasField("position") is (first == COMMIT)
        failure = await refused(end_call(broker, later))
        assert (failure.reason, failure.code) == ("TRANSACTION_DECIDED", "FAILED_PRECONDITION")
        assert failure.metadata["outcome"] == ("COMMIT" if first == COMMIT else "ROLLBACK")
        for call in (check_call(broker), park_call(broker)):
            assert (await refused(call)).reason == "TRANSACTION_DECIDED"
        assert await broker.bodies("orders") == bodies


@pytest.mark.parametrize("snapshot", [True, False])
async def test_half_messages_wait_over_a_restart(running, tmp_path, snapshot):
    async with running() as broker:
        await broker.create_topic("orders")
        await half_call(broker, b"one", "t-1")
        await half_call(broker, b"two", "t-2")
        await park_call(broker, "t-2")
        await half_call(broker, b"three", "t-3")
        await end_call(broker, ROLLBACK, "t-3")
    if not snapshot:
        for path in (tmp_path / "store" / "config").glob("transactions.json*"):
            path.unlink()
    async with running() as broker:
        halves = (await list_call(broker)).half_messages
        assert [(half.transaction_id, half.parked) for half in halves] == [
            ("t-1", False),
            ("t-2", True),
        ]
        assert (await park_call(broker, "t-2")).duplicate
        await end_call(broker, COMMIT, "t-2")
        await end_call(broker, COMMIT, "t-1")
        assert await broker.bodies("orders") == [b"two", b"one"]


async def test_a_repeated_half_message_is_stored_once(orders, refused):
    first = await half_call(orders)
    again = await half_call(orders)
    assert not first.duplicate
    assert again.duplicate
    (half,) = (await list_call(orders)).half_messages
    assert half.queue_offset == 0
    assert (await refused(half_call(orders, group="other"))).reason == "TRANSACTION_FOREIGN"
    await orders.create_topic("bills")
    assert (await refused(half_call(orders, topic="bills"))).reason == "TRANSACTION_FOREIGN"
    await end_call(orders, COMMIT)
    assert (await refused(half_call(orders))).reason == "TRANSACTION_DECIDED"
    assert await orders.bodies("orders") == [b"paid"]


async def test_an_end_for_another_topic_or_id_finds_no_transaction(orders, refused):
    await half_call(orders)
    assert (await refused(end_call(orders, COMMIT, "no"))).reason == "TRANSACTION_NOT_FOUND"
    assert (await refused(end_call(orders, COMMIT, ""))).reason == "TRANSACTION_NOT_FOUND"
    other = end_call(orders, COMMIT, topic="other")
    assert (await refused(other)).reason == "TRANSACTION_NOT_FOUND"
    assert (await refused(end_call(orders, UNKNOWN))).reason == "FIELD_INVALID"
    await end_call(orders, COMMIT)
    other = end_call(orders, COMMIT, topic="other")
    assert (await refused(other)).reason == "TRANSACTION_NOT_FOUND"


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("producer_group", {"group": "strangers"}),
        ("producer_group", {"group": ""}),
        ("unique_id", {"unique_id": "t-2"}),
        ("unique_id", {"unique_id": ""}),
    ],
)
async def test_another_group_or_id_does_not_end_a_transaction(
    orders, refused, outcome, field, said
):
    await half_call(orders)
    failure = await refused(end_call(orders, outcome, **said))
    assert (failure.reason, failure.code) == ("TRANSACTION_FOREIGN", "FAILED_PRECONDITION")
    assert failure.metadata["field"] == field
    assert await waiting(orders) == ["t-1"]
    assert await orders.bodies("orders") == []


async def test_an_illegal_half_message_is_refused(orders, refused):
    illegal = (
        ({"group": ""}, "MESSAGE_ILLEGAL"),
        ({"group": "a b"}, "GROUP_NAME_ILLEGAL"),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, "TOPIC_RESERVED"),
        ({"delivery_time": {"seconds": 1}}, "MESSAGE_ILLEGAL"),
        ({"delay_level": 3}, "MESSAGE_ILLEGAL"),
        ({"properties": {"PGROUP": "x"}}, "MESSAGE_ILLEGAL"),
        *(({"properties": {name: "1"}}, "MESSAGE_ILLEGAL") for name in OF_THE_TRANSACTION),
    )
    for fields, reason in illegal:
        assert (await refused(half_call(orders, **fields))).reason == reason, fields
    assert await waiting(orders) == []


async def test_no_more_wait_than_is_allowed(running, refused):
    async with running(half_messages_max=2) as broker:
        await broker.create_topic("orders")
        await half_call(broker, unique_id="t-1")
        await half_call(broker, unique_id="t-2")
        assert (await refused(half_call(broker, unique_id="t-3"))).reason == "SERVICE_BUSY"
        await end_call(broker, ROLLBACK, "t-1")
        await half_call(broker, unique_id="t-3")


async def test_those_of_one_topic_leave_room_to_others(running, refused):
    async with running(half_messages_max=24) as broker:
        for topic in ("orders", "bills"):
            await broker.create_topic(topic)
        for number in range(18):
            await half_call(broker, unique_id=f"t-{number}")
        assert (await refused(half_call(broker, unique_id="t-18"))).reason == "SERVICE_BUSY"
        await half_call(broker, unique_id="t-1")  # Sent again, it is the one that waits.
        for number in range(6):
            await half_call(broker, unique_id=f"b-{number}", topic="bills")
        full = half_call(broker, unique_id="b-6", topic="bills")
        assert (await refused(full)).reason == "SERVICE_BUSY"
        await end_call(broker, ROLLBACK, "t-1")
    async with running(half_messages_max=24) as broker:
        await half_call(broker, unique_id="t-18")
        assert (await refused(half_call(broker, unique_id="t-19"))).reason == "SERVICE_BUSY"
        await end_call(broker, COMMIT, "b-1", topic="bills")
        assert (await refused(half_call(broker, unique_id="t-19"))).reason == "SERVICE_BUSY"


async def test_the_list_comes_in_pages_and_says_how_far_it_reaches(orders):
    for number in range(5):
        await half_call(orders, unique_id=f"t-{number}")
    await end_call(orders, ROLLBACK, "t-1")
    first = await list_call(orders, page_size=2)
    assert [half.queue_offset for half in first.half_messages] == [0, 2]
    rest = await list_call(orders, page_size=10, page_token=first.next_page_token)
    assert [half.queue_offset for half in rest.half_messages] == [3, 4]
    assert (rest.half_queue_offset_end, rest.op_queue_offset_end) == (5, 1)
    assert rest.answer_time.seconds > 0
    new = await list_call(orders, begin_queue_offset=4)
    assert [half.transaction_id for half in new.half_messages] == ["t-4"]


async def test_producers_are_asked_in_turn(orders, refused):
    await half_call(orders)
    failure = await refused(check_call(orders))
    assert failure.reason == "CLIENT_NOT_ATTACHED"
    calls = {name: await attach_producer(orders, name) for name in ("a", "b")}
    other = await attach_producer(orders, "c", "other")
    asked = []
    # The first one by the transaction's id, and each time the next.
    for number, name in enumerate(("b", "a", "b")):
        checking = asyncio.ensure_future(check_call(orders, check_count=number))
        check = await question(calls[name])
        assert (check.transaction_id, check.check_count) == ("t-1", number)
        record = decode_record(check.record)
        assert (record.body, record.properties["REAL_TOPIC"]) == (b"paid", "orders")
        # Nobody but who was asked is heard.
        await answer(other, "t-1", ROLLBACK)
        await answer(calls[name], "t-1", COMMIT if number else UNKNOWN)
        checked = await checking
        asked.append((checked.client_id, checked.outcome))
    assert asked == [("b", UNKNOWN), ("a", COMMIT), ("b", COMMIT)]
    # The answer decides nothing by itself.
    assert await waiting(orders) == ["t-1"]


async def test_a_producer_that_reads_no_records_is_asked_with_a_plain_message(orders):
    await half_call(orders, tag="created", keys=["o-1"], properties={"a": "b"})
    call = await attach_producer(orders, "go", reads_records=False)
    checking = asyncio.ensure_future(check_call(orders))
    check = await question(call)
    assert (check.transaction_id, check.record) == ("t-1", b"")
    half = check.message
    assert (half.topic, half.body, half.tag, list(half.keys)) == (
        *("orders", b"paid", "created"),
        ["o-1"],
    )
    assert (half.unique_id, dict(half.properties)) == ("t-1", {"a": "b"})
    assert half.message_type == message_pb.MESSAGE_TYPE_TRANSACTION
    await answer(call, "t-1", COMMIT)
    assert (await checking).outcome == COMMIT


async def test_a_silent_producer_holds_up_nobody(orders, refused):
    await half_call(orders, unique_id="t-1")
    await half_call(orders, unique_id="t-2")
    call = await attach_producer(orders, "a")
    silent = asyncio.ensure_future(refused(check_call(orders, "t-1", wait_s=0.3)))
    assert (await question(call)).transaction_id == "t-1"
    checking = asyncio.ensure_future(check_call(orders, "t-2"))
    assert (await question(call)).transaction_id == "t-2"
    await answer(call, "t-2", ROLLBACK)
    assert (await checking).outcome == ROLLBACK
    assert not silent.done()
    assert (await silent).reason == "DEADLINE_PASSED"


async def test_parking_copies_once_and_decides_nothing(orders, refused):
    await half_call(orders)
    assert not (await park_call(orders)).duplicate
    assert (await park_call(orders)).duplicate
    assert (await refused(park_call(orders, "no"))).reason == "TRANSACTION_NOT_FOUND"
    (half,) = (await list_call(orders)).half_messages
    assert half.parked
    assert (await end_call(orders, COMMIT)).outcome == COMMIT
    assert await orders.bodies("orders") == [b"paid"]


async def test_a_half_message_of_a_deleted_topic_is_rolled_back(orders, refused):
    await half_call(orders)
    await orders.topics.DeleteTopic(topic_pb.DeleteTopicRequest(topic="orders"))
    assert (await refused(end_call(orders, COMMIT))).reason == "TRANSACTION_DECIDED"
    assert (await end_call(orders, ROLLBACK)).outcome == ROLLBACK
    assert await waiting(orders) == []
    await orders.create_topic("orders")
    assert await orders.bodies("orders") == []


async def test_of_two_who_end_it_at_once_one_is_first(orders):
    await half_call(orders)
    ends = await asyncio.gather(
        *(end_call(orders, outcome) for outcome in (COMMIT, ROLLBACK) * 4), return_exceptions=True
    )
    kept = {ended.outcome for ended in ends if not isinstance(ended, Exception)}
    assert len(kept) == 1
    bodies = await orders.bodies("orders")
    assert bodies == ([b"paid"] if kept == {COMMIT} else [])


async def test_under_synchronous_flush_nothing_is_told_before_it_is_safe(running):
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders")
        sent = await half_call(broker)
        assert sent.acknowledged_level == message_pb.ACKNOWLEDGED_LEVEL_FLUSHED
        ended = await end_call(broker, COMMIT)
        assert ended.acknowledged_level == message_pb.ACKNOWLEDGED_LEVEL_FLUSHED
        assert await broker.bodies("orders") == [b"paid"]
