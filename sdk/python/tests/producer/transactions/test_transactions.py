"""Half messages against a real broker: blocks, ends, checks, lost answers."""

import asyncio
import uuid

import pytest
from grpc import StatusCode, aio

from ariane.broker.v1.transaction_service_pb2 import (
    CheckTransactionRequest,
    ListHalfMessagesRequest,
)
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane_sdk import (
    ClusterClient,
    HalfMessage,
    Message,
    Producer,
    ProducerSettings,
    QueueReader,
    TransactionOutcome,
)
from ariane_sdk import sync as ariane_sync
from ariane_sdk.errors import (
    CallError,
    IllegalArgument,
    MessageIllegal,
    SendError,
    TransactionDecided,
    TransactionForeign,
    TransactionNotFound,
)


@pytest.fixture
async def topic(cluster):
    name = f"orders-{uuid.uuid4().hex[:8]}"
    async with ClusterClient(cluster.name_servers) as client:
        await client.create_topic(name, queue_count=2)
    return name


@pytest.fixture
async def read_bodies(cluster, topic):
    async def read():
        found = []
        async with QueueReader(cluster.name_servers) as reader:
            for queue, (begin, end) in (await reader.bounds(topic)).items():
                async for columns in reader.read_range(queue, begin, end):
                    found += [bytes(message.body) for message in columns.iter_messages()]
        return sorted(found)

    return read


@pytest.fixture
def check(cluster):
    """Ask a broker about a transaction, as the checker service does."""

    async def ask(half, check_count=0):
        broker = next(
            broker for broker in cluster.brokers if broker.name.endswith(half.broker_name)
        )
        async with aio.insecure_channel(str(broker.address)) as channel:
            request = CheckTransactionRequest(
                transaction_id=half.transaction_id, check_count=check_count
            )
            return await TransactionServiceStub(channel).CheckTransaction(request)

    return ask


@pytest.fixture
async def waiting(cluster):
    async def ask():
        found = []
        for broker in cluster.brokers:
            async with aio.insecure_channel(str(broker.address)) as channel:
                stub = TransactionServiceStub(channel)
                response = await stub.ListHalfMessages(ListHalfMessagesRequest(page_size=1000))
                found += [half.transaction_id for half in response.half_messages]
        return found

    return ask


@pytest.fixture
async def producer(cluster):
    async with Producer(cluster.name_servers, group="pay") as one:
        yield one


async def test_a_block_that_ends_well_commits(producer, topic, read_bodies):
    async with producer.transaction(Message(topic, b"paid", tag="t", keys=("k",))) as transaction:
        assert await read_bodies() == []
        assert transaction.half_message.topic == topic
    assert await read_bodies() == [b"paid"]
    assert transaction.result.unique_id == transaction.transaction_id
    assert transaction.result.message_queue.topic == topic


async def test_a_block_that_fails_rolls_back(producer, topic, read_bodies, waiting):
    with pytest.raises(RuntimeError, match="no money"):
        async with producer.transaction(Message(topic, b"paid")) as transaction:
            raise RuntimeError("no money")
    assert transaction.transaction_id not in await waiting()
    assert await read_bodies() == []


async def test_a_cancelled_block_rolls_back(producer, topic, read_bodies, waiting):
    begun = asyncio.Event()

    async def pay():
        async with producer.transaction(Message(topic, b"paid")) as transaction:
            ids.append(transaction.transaction_id)
            begun.set()
            await asyncio.sleep(3600)

    ids = []
    paying = asyncio.create_task(pay())
    await begun.wait()
    paying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await paying
    assert ids[0] not in await waiting()
    assert await read_bodies() == []


async def test_a_block_may_end_its_transaction_itself(producer, topic, read_bodies, waiting):
    async with producer.transaction(Message(topic, b"one")) as one:
        await one.commit()
        assert await read_bodies() == [b"one"]
    async with producer.transaction(Message(topic, b"two")) as two:
        await two.rollback()
    async with producer.transaction(Message(topic, b"three")) as three:
        three.leave()
    left = await waiting()
    assert three.transaction_id in left
    assert two.transaction_id not in left
    await producer.rollback(three.half_message)
    assert await read_bodies() == [b"one"]


async def test_the_first_outcome_stands(producer, topic, read_bodies):
    half = await producer.send_half(Message(topic, b"paid"))
    first = await producer.commit(half)
    again = await producer.commit(half)
    assert again.duplicate
    assert again.queue_offset == first.queue_offset
    with pytest.raises(TransactionDecided) as refused:
        await producer.rollback(half)
    assert refused.value.outcome == "COMMIT"
    assert not refused.value.outcome_unknown
    with pytest.raises(TransactionNotFound):
        await producer.commit(half._replace(transaction_id="never"))
    assert await read_bodies() == [b"paid"]


async def test_another_process_of_the_group_may_end_it(cluster, producer, topic, read_bodies):
    kept = tuple(await producer.send_half(Message(topic, b"paid")))
    async with Producer(cluster.name_servers, group="pay") as other:
        await other.commit(HalfMessage(*kept))
    assert await read_bodies() == [b"paid"]


async def test_another_group_ends_nothing_and_is_told(cluster, producer, topic, read_bodies):
    half = await producer.send_half(Message(topic, b"paid"))
    async with Producer(cluster.name_servers, group="strangers") as stranger:
        for end in (stranger.commit, stranger.rollback):
            with pytest.raises(TransactionForeign) as refused:
                await end(half)
            assert not refused.value.outcome_unknown
        assert await read_bodies() == []
        await producer.commit(half)
        # It has ended: now there is an outcome to tell.
        with pytest.raises(TransactionDecided) as decided:
            await stranger.rollback(half)
        assert decided.value.outcome == "COMMIT"
    with pytest.raises(TransactionNotFound):
        await producer.commit(half._replace(topic="elsewhere"))
    assert await read_bodies() == [b"paid"]


async def test_a_block_is_told_what_was_decided_in_its_middle(
    cluster, producer, topic, read_bodies
):
    async with Producer(
        cluster.name_servers,
        group="pay",
        transaction_checker=lambda check: TransactionOutcome.COMMIT,
    ) as checked:
        for each in (producer, checked):
            with pytest.raises(TransactionDecided) as refused:
                async with each.transaction(Message(topic, b"one")) as one:
                    await producer.rollback(one.half_message)
            assert refused.value.outcome == "ROLLBACK"
            two = await each.transaction(Message(topic, b"two")).__aenter__()
            await producer.rollback(two.half_message)
            two._half = two.half_message._replace(transaction_id="forgotten")
            with pytest.raises(TransactionNotFound):
                await two.__aexit__(None, None, None)
    # A block that fails is told as well, and its own error comes.
    three = await producer.transaction(Message(topic, b"three")).__aenter__()
    await producer.commit(three.half_message)
    failed = RuntimeError("no money")
    await three.__aexit__(RuntimeError, failed, None)
    assert failed.__notes__ == [f"transaction {three.transaction_id} ended before: COMMIT"]
    assert await read_bodies() == [b"three"]


async def test_half_messages_of_a_group_of_messages_go_to_one_queue(producer, topic):
    queues = set()
    for number in range(6):
        message = Message(topic, b"%d" % number, message_group="customer-7")
        async with producer.transaction(message) as transaction:
            pass
        queues.add(transaction.result.message_queue)
    assert len(queues) == 1


async def test_a_half_message_that_breaks_a_rule_is_not_sent(cluster, producer, topic):
    for name in (
        "PGROUP",
        "TRANSACTION_CHECK_TIMES",
        "TRAN_FIRST_STORED_MS",
        "TRAN_OUTCOME",
        "TRAN_PARKED",
    ):
        message = Message(topic, b"x", properties={name: "1"})
        with pytest.raises(MessageIllegal, match=name):
            await producer.send_half(message)
        with pytest.raises(MessageIllegal, match=name):
            await producer.send(message)
    with pytest.raises(IllegalArgument):
        await producer.send_half(Message(topic, b"x"), immunity_s=-1)
    with pytest.raises(IllegalArgument):
        Producer(cluster.name_servers, transaction_checker=lambda check: None)
    async with Producer(cluster.name_servers) as nobody:
        with pytest.raises(IllegalArgument):
            await nobody.send_half(Message(topic, b"x"))


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
async def test_a_living_producer_is_asked(cluster, topic, check, kind):
    asked = []

    def plain(question):
        asked.append(question)
        return TransactionOutcome.COMMIT if question.keys == ("k-1",) else "ROLLBACK"

    async def coroutine(question):
        return plain(question)

    group = f"pay-{kind}"
    checker = coroutine if kind == "coroutine" else plain
    async with Producer(cluster.name_servers, group=group) as dying:
        one = await dying.send_half(Message(topic, b"paid", keys=("k-1",), properties={"a": "b"}))
        two = await dying.send_half(Message(topic, b"lost", keys=("k-2",)))
    async with Producer(cluster.name_servers, group=group, transaction_checker=checker) as alive:
        await alive.wait_attached()
        said = [(await check(half, 3)).outcome for half in (one, two)]
        assert said == [2, 3]
        assert [question.half_message for question in asked] == [one, two]
        assert (asked[0].body, asked[0].properties["a"]) == (b"paid", "b")
        assert asked[0].check_count == 3
        await alive.rollback(one)
        await alive.rollback(two)


@pytest.mark.parametrize("error", [OSError("no database"), StopIteration("no row")])
async def test_a_checker_that_fails_knows_nothing(cluster, topic, check, error):
    def checker(question):
        raise error

    async with Producer(
        cluster.name_servers, group="pay-fails", transaction_checker=checker
    ) as producer:
        await producer.wait_attached()
        half = await producer.send_half(Message(topic, b"paid"))
        assert (await check(half)).outcome == 1
        # Nor is a block that fails ended while nobody can tell how its local transaction ended.
        with pytest.raises(RuntimeError):
            async with producer.transaction(Message(topic, b"two")) as transaction:
                raise RuntimeError("who knows")
        for each in (half, transaction.half_message):
            await producer.rollback(each)


async def test_the_checker_is_asked_when_a_block_fails(cluster, topic, read_bodies):
    def checker(question):
        return (
            TransactionOutcome.COMMIT if question.body == b"stored" else TransactionOutcome.UNKNOWN
        )

    async with Producer(
        cluster.name_servers, group="pay-asks", transaction_checker=checker
    ) as producer:
        for body in (b"stored", b"not stored"):
            with pytest.raises(RuntimeError):
                async with producer.transaction(Message(topic, body)):
                    raise RuntimeError("the database did not answer")
    assert await read_bodies() == [b"stored"]


async def test_a_transaction_survives_its_broker(fragile_cluster):
    settings = ProducerSettings(send_timeout_s=30)
    (broker,) = fragile_cluster.brokers
    async with (
        ClusterClient(fragile_cluster.name_servers) as client,
        Producer(fragile_cluster.name_servers, group="pay", settings=settings) as producer,
    ):
        await client.create_topic("survives", queue_count=1)
        one = await producer.send_half(Message("survives", b"one"))
        two = await producer.send_half(Message("survives", b"two"))
        await producer.commit(one)
        broker.kill()
        await broker.wait()
        committing = asyncio.create_task(producer.commit(two))
        await broker.restart()
        result = await committing
        assert result.queue_offset == 1
        with pytest.raises(TransactionDecided):
            await producer.rollback(one)


async def test_a_broker_that_is_gone_leaves_a_commit_unknown(fragile_cluster, caplog):
    settings = ProducerSettings(send_timeout_s=2.0, call_timeout_s=1.5)
    (broker,) = fragile_cluster.brokers
    async with (
        ClusterClient(fragile_cluster.name_servers) as client,
        Producer(
            fragile_cluster.name_servers,
            group="pay",
            settings=settings,
            transaction_checker=lambda check: TransactionOutcome.COMMIT,
        ) as checked,
        Producer(fragile_cluster.name_servers, group="pay", settings=settings) as plain,
    ):
        await client.create_topic("gone", queue_count=1)
        half = await plain.send_half(Message("gone", b"one"))
        gone = asyncio.Event()

        async def end_block():
            async with checked.transaction(Message("gone", b"two")):
                broker.kill()
                await broker.wait()
                gone.set()

        async def commit():
            await gone.wait()
            with pytest.raises(CallError):
                await plain.commit(half)

        async def begin_block():
            await gone.wait()
            with pytest.raises(SendError):
                async with plain.transaction(Message("gone", b"three")):
                    pytest.fail("the block was entered")

        # Each waits until its time is up.
        await asyncio.gather(end_block(), commit(), begin_block())
        assert "left to the check" in caplog.text


def test_the_same_without_an_event_loop(cluster, topic):
    asked = []

    def checker(question):
        asked.append(question.transaction_id)
        return TransactionOutcome.ROLLBACK

    with ariane_sync.Producer(
        cluster.name_servers, group="pay-sync", transaction_checker=checker
    ) as producer:
        producer.wait_attached()
        with producer.transaction(Message(topic, b"paid")) as transaction:
            assert transaction.result is None
        assert transaction.result.message_queue.topic == topic
        with (
            pytest.raises(RuntimeError),
            producer.transaction(Message(topic, b"no")) as failed,
        ):
            raise RuntimeError("no money")
        assert asked == [failed.transaction_id]
        half = producer.send_half(Message(topic, b"two"))
        producer.rollback(half)
        with pytest.raises(TransactionDecided):
            producer.commit(half)
        with pytest.raises(TransactionNotFound):
            producer.rollback(half._replace(transaction_id="never"))
        with ariane_sync.Producer(cluster.name_servers, group="strangers") as stranger:
            one = producer.send_half(Message(topic, b"one"))
            with pytest.raises(TransactionForeign):
                stranger.commit(one)
            producer.rollback(one)
        with producer.transaction(Message(topic, b"three")) as third:
            third.leave()
        assert producer.commit(third.half_message).unique_id == third.transaction_id


async def test_a_producer_without_a_checker_is_not_asked(producer, topic, check):
    half = await producer.send_half(Message(topic, b"paid"))
    with pytest.raises(aio.AioRpcError) as refused:
        await check(half)
    assert refused.value.code() is StatusCode.FAILED_PRECONDITION
    await producer.rollback(half)
