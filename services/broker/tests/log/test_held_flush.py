"""Under synchronous flush no call that stores something is answered while the disk holds out."""

import asyncio
import threading
import time

import pytest

from ariane.broker.v1 import client_service_pb2 as client_pb
from ariane.broker.v1 import group_service_pb2 as group_pb
from ariane.broker.v1 import retry_service_pb2 as retry_pb
from ariane.broker.v1 import send_service_pb2 as send_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane.common.v1 import message_pb2 as message_pb
from ariane_storage import Store

GROUP = "billing"


@pytest.fixture
def disk_answers(monkeypatch):
    """While it is cleared, no flush ends."""
    answers = threading.Event()
    answers.set()
    flush = Store.flush

    def held_flush(store):
        assert answers.wait(60)
        return flush(store)

    monkeypatch.setattr(Store, "flush", held_flush)
    yield answers
    answers.set()


def half_call(broker, unique_id):
    return broker.store_half(unique_id)


def send_call(broker, **fields):
    message = message_pb.Message(body=b"new", **fields)
    return broker.sends.SendMessages(
        send_pb.SendMessagesRequest(topic="orders", queue_id=0, messages=[message])
    )


def end_call(broker, unique_id, outcome):
    return broker.end_transaction(unique_id, outcome)


def park_call(broker, unique_id):
    request = transaction_pb.ParkTransactionRequest(transaction_id=unique_id, check_count=15)
    return broker.transactions.ParkTransaction(request)


def return_call(broker, *places, **fields):
    request = retry_pb.ReturnMessagesRequest(
        consumer_group=GROUP,
        topic="orders",
        queue_id=0,
        queue_offsets=[queue_offset for queue_offset, _ in places],
        commit_log_offsets=[commit_log_offset for _, commit_log_offset in places],
        **fields,
    )
    return broker.retries.ReturnMessages(request)


async def test_no_answer_comes_before_the_flush(running, refused, reason_of, disk_answers):
    async with running(flush_mode="sync", flush_wait_s=0.5) as broker:
        await broker.create_topic("orders")
        group = group_pb.ConsumerGroup(consumer_group=GROUP, consume_enabled=True, attempts_max=16)
        await broker.groups.CreateConsumerGroup(group_pb.CreateConsumerGroupRequest(group=group))
        stored = [await broker.store("orders", [b"%d" % number]) for number in range(3)]
        places = [(each.first_queue_offset, each.first_commit_log_offset) for each in stored]
        # The first ones make the topics of retries and dead letters.
        await return_call(broker, places[0], return_id="first")
        await return_call(broker, places[0], return_id="last", dead_letter=True)
        for unique_id in ("t-1", "t-2", "t-3"):
            await half_call(broker, unique_id)
        later = await send_call(broker, delivery_time={"seconds": int(time.time()) + 3600})

        disk_answers.clear()
        append = broker.append(broker.batch("orders", [b"more"]))
        calls = {
            "send": send_call(broker),
            "half": half_call(broker, "t-4"),
            "commit": end_call(broker, "t-1", client_pb.TRANSACTION_OUTCOME_COMMIT),
            "rollback": end_call(broker, "t-2", client_pb.TRANSACTION_OUTCOME_ROLLBACK),
            "park": park_call(broker, "t-3"),
            "retry": return_call(broker, places[1], return_id="again"),
            "dead letter": return_call(broker, places[2], return_id="no", dead_letter=True),
            "recall": broker.sends.RecallMessage(
                send_pb.RecallMessageRequest(
                    topic="orders", recall_handle=later.messages[0].recall_handle
                )
            ),
        }
        try:
            (appended,), *failures = await asyncio.gather(append, *map(refused, calls.values()))
        finally:
            disk_answers.set()
    assert reason_of(appended.error) == "FLUSH_UNCONFIRMED"
    reasons = {name: each.reason for name, each in zip(calls, failures, strict=True)}
    assert reasons == dict.fromkeys(calls, "FLUSH_UNCONFIRMED")
