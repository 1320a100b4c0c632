"""StreamAppends over the wire: requests of one stream are answered one by one."""

import asyncio

import grpc

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.common.v1.message_pb2 import ACKNOWLEDGED_LEVEL_FLUSHED
from ariane_broker.app import compose
from ariane_servicekit import serving
from ariane_servicekit.rpc.request_stream import IN_WORK_MAX


def request(number, *batches):
    return send_pb.StreamAppendsRequest(request_number=number, batches=batches)


async def answers_of(stream, count):
    return {answer.request_number: answer for answer in [await stream.read() for _ in range(count)]}


async def test_requests_are_answered_under_their_numbers(broker):
    await broker.create_topic("orders", 2)
    stream = broker.sends.StreamAppends()
    for number in range(5):
        await stream.write(request(10 + number, broker.batch("orders", [b"%d" % number])))
    answers = await answers_of(stream, 5)
    assert {number: answer.results[0].first_queue_offset for number, answer in answers.items()} == {
        10 + number: number for number in range(5)
    }
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    assert await broker.bodies("orders") == [b"%d" % number for number in range(5)]


async def test_what_fails_a_call_fails_one_request(broker, reason_of):
    await broker.create_topic("orders")
    stream = broker.sends.StreamAppends()
    await stream.write(request(1))
    await stream.write(request(2, broker.batch("orders", [b"a"], -1)))
    await stream.write(
        request(3, broker.batch("orders", [b"b"], 7), broker.batch("orders", [b"c"]))
    )
    answers = await answers_of(stream, 3)
    assert reason_of(answers[1].error) == "FIELD_INVALID"
    assert reason_of(answers[2].error) == "FIELD_INVALID"
    assert not answers[3].HasField("error")
    refused, stored = answers[3].results
    assert reason_of(refused.error) == "QUEUE_NOT_FOUND"
    assert not stored.HasField("error")
    assert await broker.bodies("orders") == [b"c"]
    stream.cancel()


async def test_a_repeat_is_answered_with_the_first_result(broker):
    await broker.create_topic("orders")
    batch = broker.batch("orders", [b"a"], sequence=(7, 0, 0))
    stream = broker.sends.StreamAppends()
    await stream.write(request(1, batch))
    await stream.write(request(2, batch))
    answers = await answers_of(stream, 2)
    assert not answers[1].results[0].duplicate
    assert answers[2].results[0].duplicate
    assert await broker.bodies("orders") == [b"a"]
    stream.cancel()


async def test_a_request_makes_its_topic(broker):
    stream = broker.sends.StreamAppends()
    await stream.write(request(1, broker.batch("fresh", [b"a"], 3)))
    answers = await answers_of(stream, 1)
    assert answers[1].results[0].record_count == 1
    assert await broker.bodies("fresh", 3) == [b"a"]
    stream.cancel()


async def test_many_requests_share_a_synchronous_flush(running):
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders")
        stream = broker.sends.StreamAppends()
        count = 2 * IN_WORK_MAX

        async def write_all():
            for number in range(count):
                await stream.write(request(number, broker.batch("orders", [b"%d" % number])))

        writing = asyncio.create_task(write_all())
        answers = await answers_of(stream, count)
        await writing
        levels = {answer.results[0].acknowledged_level for answer in answers.values()}
        assert levels == {ACKNOWLEDGED_LEVEL_FLUSHED}
        assert await broker.bodies("orders") == [b"%d" % number for number in range(count)]
        stream.cancel()


async def test_small_batches_of_a_request_share_a_synchronous_flush(running, reason_of):
    async with running(flush_mode="sync") as broker:
        await broker.create_topic("orders", 4)
        await broker.store("orders", [b"first"])
        stream = broker.sends.StreamAppends()
        batches = [
            broker.batch("orders", [b"%d" % number] * 3, number % 4, sequence=(7 + number, 0, 0))
            for number in range(20)
        ]
        refused = broker.batch("orders", [b"x"], 0, sequence=(7, 0, 9))
        await stream.write(request(1, *batches))
        await stream.write(request(2, *batches[:4], refused, *batches[4:]))
        answers = await answers_of(stream, 2)
        again = list(answers[2].results)
        assert reason_of(again.pop(4).error) == "SEQUENCE_GAP"
        for results, duplicate in ((answers[1].results, False), (again, True)):
            levels = {result.acknowledged_level for result in results}
            assert levels == {ACKNOWLEDGED_LEVEL_FLUSHED}
            assert {result.duplicate for result in results} == {duplicate}
        assert [result.first_commit_log_offset for result in again] == [
            result.first_commit_log_offset for result in answers[1].results
        ]
        for queue_id in range(1, 4):
            expected = [b"%d" % number for number in range(queue_id, 20, 4) for _ in range(3)]
            assert await broker.bodies("orders", queue_id) == expected
        stream.cancel()


async def test_a_broker_that_drains_refuses_requests_and_not_streams(broker, reason_of):
    await broker.create_topic("orders")
    stream = broker.sends.StreamAppends()
    await stream.write(request(1, broker.batch("orders", [b"a"])))
    await stream.read()
    await broker.broker.DrainBroker(broker_pb.DrainBrokerRequest(draining=True))
    await stream.write(request(2, broker.batch("orders", [b"b"])))
    assert reason_of((await stream.read()).error) == "SERVICE_DRAINING"
    await broker.broker.DrainBroker(broker_pb.DrainBrokerRequest(draining=False))
    await stream.write(request(3, broker.batch("orders", [b"c"])))
    assert (await stream.read()).results[0].first_queue_offset == 1
    stream.cancel()


async def test_a_broker_that_stops_answers_what_it_has_read_and_ends_streams(
    settings_for, refused, probe_class
):
    async with serving(settings_for(flush_mode="sync"), compose) as address:
        channel = grpc.aio.insecure_channel(str(address))
        broker = probe_class(channel, address)
        await broker.create_topic("orders")
        stream = broker.sends.StreamAppends()
        await stream.write(request(1, broker.batch("orders", [b"a"])))
        answer = await stream.read()
    assert answer.results[0].record_count == 1
    assert (await refused(stream.read())).reason == "SERVICE_DRAINING"
    await channel.close()


async def test_what_is_no_request_ends_its_stream(broker, refused):
    stream = broker.channel.stream_stream("/ariane.broker.v1.SendService/StreamAppends")()

    async def talk():
        await stream.write(b"\x0a\xff")
        await stream.read()

    failure = await refused(talk())
    assert failure.reason == "FIELD_INVALID"
