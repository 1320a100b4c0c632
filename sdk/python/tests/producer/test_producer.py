import asyncio
from array import array
from dataclasses import replace

import grpc
import pytest

from ariane_sdk import AcknowledgedLevel, Message, MessageQueue, Producer, ProducerSettings, errors
from ariane_sdk.producer.intake.whole_rows import COUNT_MIN
from ariane_sdk.routing import routes as _routes

QUICK = ProducerSettings(
    call_timeout_s=1, send_timeout_s=60, repeat_delay_s_min=0.01, repeat_delay_s_max=0.05
)

PATIENT = replace(QUICK, call_timeout_s=60.0, send_timeout_s=90.0)

WHOLE_BATCHES = replace(PATIENT, spread_count=0)


def orders(*bodies, **fields):
    return [Message("orders", body.encode(), **fields) for body in bodies]


async def test_a_result_says_where_the_message_is(world):
    async with Producer(world.name_servers) as producer:
        result = await producer.send(Message("orders", b"one"))
    [(topic, queue_id)] = world.brokers["broker-a"].queues

    assert result.message_queue == MessageQueue("orders", "broker-a", queue_id)
    assert topic == "orders"
    assert result.queue_offset == 0
    assert result.commit_log_offset == 1000
    assert result.store_timestamp_ms == 1_234_567
    assert result.acknowledged_level is AcknowledgedLevel.MEMORY
    assert world.brokers["broker-a"].messages[0].unique_id == result.unique_id
    assert len(result.message_id) == 32


async def test_everything_that_a_message_says_arrives(world):
    message = Message(
        "orders",
        bytearray(b"body"),
        tag="created",
        keys=("o-1", "o-2"),
        message_group="customer-7",
        properties={"a": "b"},
        flag=-3,
    )

    async with Producer(world.name_servers) as producer:
        await producer.send(message)
    [stored] = world.brokers["broker-a"].messages

    assert (stored.body, stored.tag, stored.keys) == (b"body", "created", ("o-1", "o-2"))
    assert (stored.message_group, stored.flag) == ("customer-7", -3)
    assert stored.properties["a"] == "b"
    assert stored.born_timestamp_ms > 0


async def test_sends_of_one_turn_of_the_loop_share_a_call(world):
    async with Producer(world.name_servers, settings=WHOLE_BATCHES) as producer:
        await producer.send(Message("orders", b"first"))
        await asyncio.gather(*map(producer.send, orders(*map(str, range(100)))))

    assert len(world.brokers["broker-a"].calls) == 2


async def test_messages_sent_while_a_call_is_in_flight_form_the_next_call(world):
    broker = world.brokers["broker-a"]
    answer = asyncio.Event()
    broker.script.append(answer)
    async with Producer(world.name_servers, settings=WHOLE_BATCHES) as producer:
        sends = [producer.send_nowait(message) for message in orders("one")]
        await broker.wait_called(1)
        for message in orders(*map(str, range(50))):
            sends.append(producer.send_nowait(message))
            await asyncio.sleep(0)
        assert len(broker.calls) == 1
        answer.set()
        await asyncio.gather(*sends)

    assert len(broker.calls) == 2
    assert len(broker.calls[1].rows) == 1


async def test_messages_for_no_particular_queue_stick_and_move_on(two_brokers):
    async with Producer(two_brokers.name_servers) as producer:
        queues = [
            {
                result.message_queue
                for result in await producer.send_batch(orders(*map(str, range(20))))
            }
            for _ in range(4)
        ]

    assert all(len(batch) == 1 for batch in queues)
    assert len(set.union(*queues)) == 4


async def test_a_group_stays_in_order_on_one_queue(two_brokers):
    bodies = [str(number) for number in range(300)]
    async with Producer(two_brokers.name_servers) as producer:
        results = await asyncio.gather(
            *map(producer.send, orders(*bodies, message_group="tail-N14228"))
        )

    [queue] = {result.message_queue for result in results}
    stored = two_brokers.brokers[queue.broker_name].queues["orders", queue.queue_id]
    assert [message.body.decode() for message in stored] == bodies


async def test_queue_and_selector_decide(world):
    third = MessageQueue("orders", "broker-a", 1)
    async with Producer(world.name_servers) as producer:
        [message] = orders("one")
        chosen = await producer.send(message, message_queue=third)
        selected = await producer.send(message, selector=lambda queues, _: queues[0])

        assert chosen.message_queue == third
        assert selected.message_queue == MessageQueue("orders", "broker-a", 0)
        with pytest.raises(errors.QueueNotFound):
            await producer.send(message, message_queue=third._replace(queue_id=9))
        with pytest.raises(errors.IllegalArgument):
            await producer.send(message, message_queue=third._replace(topic="bills"))


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("orders", bytes(100)), errors.MessageTooLarge),
        (Message("or ders", b""), errors.NameIllegal),
        (Message("SCHEDULE_TOPIC_XXXX", b""), errors.NameIllegal),
        (Message("orders", b"", tag="a|b"), errors.MessageIllegal),
        (Message("orders", b"", tag="*"), errors.MessageIllegal),
        (Message("orders", b"", keys=("with space",)), errors.MessageIllegal),
        (Message("orders", b"", keys="o-1"), errors.MessageIllegal),
        (Message("orders", b"", keys=tuple(map(str, range(300)))), errors.MessageIllegal),
        (Message("orders", b"", properties={"DELAY": "3"}), errors.MessageIllegal),
        (Message("orders", b"", properties={"a": "\x01"}), errors.MessageIllegal),
        (Message("orders", b"", properties={"a": "x" * 40_000}), errors.MessageIllegal),
    ],
)
async def test_a_message_that_breaks_a_rule_never_leaves(world, message, error):
    settings = ProducerSettings(body_bytes_max=99)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.send(Message("orders", bytes(99)))
        with pytest.raises(error):
            await producer.send(message)
        with pytest.raises(errors.BatchSendError) as caught:
            await producer.send_batch([message, *orders("good")])

    assert isinstance(caught.value.outcomes[0], error)
    assert world.brokers["broker-a"].bodies[1:] == [b"good"]


async def test_an_unknown_topic_is_said_to_be_unknown(world):
    async with Producer(world.name_servers) as producer:
        with pytest.raises(errors.SendError) as caught:
            await producer.send(Message("nowhere", b""))
        with pytest.raises(errors.SendError):
            await producer.send_nowait(Message("nowhere", b""))
        with pytest.raises(errors.BatchSendError) as batch:
            await producer.send_batch([Message("nowhere", b""), *orders("good")])

    assert not caught.value.outcome_unknown
    assert isinstance(caught.value.__cause__, errors.RouteNotFound)
    assert isinstance(batch.value.outcomes[0], errors.SendError)
    assert batch.value.outcomes[1].queue_offset == 0


async def test_any_buffer_is_a_body_before_and_after_the_route_is_known(world):
    async with Producer(world.name_servers) as producer:
        for _ in range(2):
            await producer.send(Message("orders", array("B", b"body")))


async def test_messages_wait_for_a_name_server_that_is_away_for_a_moment(world):
    world.name_server.refusal = grpc.StatusCode.UNAVAILABLE
    async with Producer(world.name_servers) as producer:
        first = producer.send_nowait(*orders("one"))
        second = producer.send_nowait(*orders("two"))
        await world.name_server.heard.wait()
        world.name_server.refusal = None
        results = await asyncio.gather(first, second)

    assert [result.queue_offset for result in results] == [0, 1]


async def test_a_send_fails_in_time_where_no_name_server_answers(world):
    world.name_server.refusal = grpc.StatusCode.UNAVAILABLE
    async with Producer(
        world.name_servers, settings=replace(QUICK, send_timeout_s=1.5)
    ) as producer:
        with pytest.raises(errors.SendError, match="no name server answered"):
            await producer.send(*orders("one"))


@pytest.fixture
def eager_refresh(monkeypatch):
    """Ask again at each routing error, however soon after the last time."""
    monkeypatch.setattr(_routes, "REFRESH_GAP_S_MIN", 0.0)


async def test_a_known_route_outlives_the_name_servers(world, eager_refresh):
    async with Producer(world.name_servers) as producer:
        await producer.send(*orders("one"))
        world.name_server.refusal = grpc.StatusCode.UNAVAILABLE
        world.brokers["broker-a"].script.append(
            grpc.StatusCode.UNAVAILABLE  # Makes it ask again.
        )
        await producer.send(*orders("two"))

    assert len(world.name_server.asked) > 1
    assert world.brokers["broker-a"].bodies == [b"one", b"two"]


async def test_with_several_calls_in_flight_a_queue_has_one(world):
    broker = world.brokers["broker-a"]
    answer = asyncio.Event()
    broker.script.append(answer)
    zero, one = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
    settings = replace(PATIENT, calls_in_flight_max=3)
    async with Producer(world.name_servers, settings=settings) as producer:
        await producer.route("orders")
        first = producer.send_nowait(*orders("first"), message_queue=zero)
        await broker.wait_called(1)
        second = producer.send_nowait(*orders("second"), message_queue=zero)
        other = await producer.send(*orders("other"), message_queue=one)
        assert not first.done()
        assert not second.done()
        answer.set()

        assert (await first).queue_offset == 0
        assert (await second).queue_offset == 1
    assert other.message_queue == one
    assert len(broker.calls) == 3


async def test_much_leaves_beside_what_is_in_flight_and_little_gathers(world):
    broker = world.brokers["broker-a"]
    answer = asyncio.Event()
    broker.script.append(answer)
    zero, one = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
    async with Producer(world.name_servers, settings=WHOLE_BATCHES) as producer:
        await producer.route("orders")
        first = producer.send_nowait(*orders("first"), message_queue=zero)
        await broker.wait_called(1)
        little = producer.send_nowait(*orders("little"), message_queue=one)
        await asyncio.sleep(0.02)
        assert len(broker.calls) == 1
        # The group "1" has queue one. A table for any queue might get the one in flight, and wait.
        table = {"body": [bytes(1000)] * 300, "messageGroup": ["1"] * 300}
        places = await producer.send_columns("orders", table)
        assert set(places["queueId"].to_pylist()) == {1}
        assert await little
        assert not first.done()
        answer.set()
        await first
    assert len(broker.calls) >= 3


async def test_large_batches_are_cut_to_size(world):
    settings = ProducerSettings(body_bytes_max=5000, batch_bytes_max=4000, request_bytes_max=10_000)
    bodies = [bytes([number]) * 1000 for number in range(40)] + [b"big" * 1666]
    async with Producer(world.name_servers, settings=settings) as producer:
        results = await producer.send_batch([Message("orders", body) for body in bodies])

    sizes = [
        [len(batch.records) for batch in call.rows] for call in world.brokers["broker-a"].calls
    ]
    assert len(results) == len(bodies)
    assert sorted(world.brokers["broker-a"].bodies) == sorted(bodies)
    assert all(sum(call) <= 10_000 for call in sizes)
    assert all(size <= 4000 or size > 4998 for call in sizes for size in call)


async def test_results_of_a_batch_are_in_order_whatever_queue_each_goes_to(two_brokers):
    messages = [
        Message("orders", str(number).encode(), message_group=f"g{number % 7}" * (number % 3 > 0))
        for number in range(200)
    ]
    async with Producer(two_brokers.name_servers) as producer:
        results = await producer.send_batch(messages)

    for message, result in zip(messages, results, strict=True):
        queue = result.message_queue
        stored = two_brokers.brokers[queue.broker_name].queues["orders", queue.queue_id]
        assert stored[result.queue_offset].body == message.body
        assert stored[result.queue_offset].unique_id == result.unique_id
    assert len({result.unique_id for result in results}) == 200


async def test_an_empty_batch_is_no_work(world):
    async with Producer(world.name_servers) as producer:
        assert await producer.send_batch([]) == []

    assert not world.brokers["broker-a"].calls


async def test_a_full_buffer_makes_senders_wait(world):
    broker = world.brokers["broker-a"]
    answer = asyncio.Event()
    broker.script.append(answer)
    settings = replace(PATIENT, buffered_bytes_max=3000)
    async with Producer(world.name_servers, settings=settings) as producer:
        sends = [producer.send_nowait(Message("orders", bytes(1000)))]
        await broker.wait_called(1)
        sends += [producer.send_nowait(Message("orders", bytes(1000))) for _ in range(2)]
        with pytest.raises(errors.SendBufferFull):
            producer.send_nowait(Message("orders", b""))
        waiting = asyncio.create_task(producer.send(Message("orders", b"patient")))
        room = asyncio.create_task(producer.wait_for_room())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert not room.done()
        answer.set()
        await asyncio.gather(room, waiting, *sends)

    assert broker.bodies.count(b"patient") == 1


async def test_flush_waits_for_what_was_sent_before(world):
    async with Producer(world.name_servers) as producer:
        sends = [producer.send_nowait(message) for message in orders(*map(str, range(10)))]
        await producer.flush()

        assert all(send.done() for send in sends)


async def test_close_waits_for_what_is_on_its_way_and_takes_no_more(world):
    producer = Producer(world.name_servers)
    with pytest.raises(errors.ClientNotRunning):
        await producer.send(*orders("early"))
    await producer.start()
    sends = [producer.send_nowait(message) for message in orders("a", "b")]
    await producer.close()

    assert all(send.result().queue_offset >= 0 for send in sends)
    with pytest.raises(errors.ClientNotRunning):
        await producer.send(*orders("late"))
    with pytest.raises(errors.ClientNotRunning):
        await producer.start()
    await producer.close()


async def test_a_cancelled_send_disturbs_nobody(world):
    broker = world.brokers["broker-a"]
    answer = asyncio.Event()
    broker.script.append(answer)
    async with Producer(world.name_servers, settings=PATIENT) as producer:
        cancelled = asyncio.create_task(producer.send(*orders("cancelled")))
        kept = asyncio.create_task(producer.send(*orders("kept")))
        await broker.wait_called(1)
        cancelled.cancel()
        answer.set()

        assert (await kept).queue_offset == 1
        with pytest.raises(asyncio.CancelledError):
            await cancelled


async def one_by_one(producer, messages):
    return await asyncio.gather(*map(producer.send, messages))


async def in_a_block(producer, messages):
    return await producer.send_batch(messages)


@pytest.mark.parametrize(("send", "count"), [(one_by_one, 2), (in_a_block, COUNT_MIN)])
async def test_a_changed_route_is_followed(two_brokers, make_status, eager_refresh, send, count):
    [name] = [name for name in two_brokers.brokers if name == "broker-a"]
    two_brokers.name_server.set_route("orders", {name: two_brokers.brokers[name].address})
    gone = make_status(grpc.StatusCode.NOT_FOUND, "TOPIC_NOT_FOUND", topic="orders")
    async with Producer(two_brokers.name_servers, settings=WHOLE_BATCHES) as producer:
        await producer.send(*orders("one"))
        two_brokers.name_server.set_route(
            "orders", {"broker-b": two_brokers.brokers["broker-b"].address}
        )
        two_brokers.brokers[name].script.append(gone)
        results = await send(producer, orders(*map(str, range(count))))

    assert {result.message_queue.broker_name for result in results} == {"broker-b"}
