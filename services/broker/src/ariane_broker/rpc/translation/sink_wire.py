"""Homes of sinks and their batches, as messages of the contract."""

from __future__ import annotations

from collections.abc import Iterable

from ariane.broker.v1 import sink_service_pb2 as sink_pb
from ariane.broker.v1 import transaction_service_pb2 as transaction_pb
from ariane_broker.spark_batches.records.batch_records import Contents, NamedAttempt
from ariane_broker.spark_batches.records.sink_homes import SinkHome


def home_of(message: sink_pb.SinkHome) -> SinkHome:
    """The home that a message tells of."""
    contents = {each.batch_id: contents_of(each) for each in message.committed_batches}
    last_id = message.committed_batch_id if message.HasField("committed_batch_id") else None
    return SinkHome(
        message.broker_name,
        message.move_count,
        last_id,
        contents,
        frozenset(message.broker_names),
        message.given_up_broker_name,
    )


def home_message(home: SinkHome) -> sink_pb.SinkHome:
    """A home as a message."""
    return sink_pb.SinkHome(
        broker_name=home.broker_name,
        move_count=home.move_count,
        committed_batch_id=home.committed_id,
        committed_batches=[batch_message(*each) for each in home.contents.items()],
        broker_names=sorted(home.broker_names),
        given_up_broker_name=home.given_up,
    )


def contents_of(message: sink_pb.CommittedBatch) -> Contents:
    """The contents of a committed batch."""
    return Contents(message.record_count, message.content_sum, message.decision_id)


def batch_message(batch_id: int, contents: Contents) -> sink_pb.CommittedBatch:
    """A committed batch as a message."""
    return sink_pb.CommittedBatch(
        batch_id=batch_id,
        record_count=contents.record_count,
        content_sum=contents.content_sum,
        decision_id=contents.decision_id,
    )


def attempts_of(messages: Iterable[transaction_pb.BatchAttempt]) -> list[NamedAttempt]:
    """The attempts that messages name."""
    return [
        NamedAttempt(
            each.partition_id,
            each.attempt_token,
            each.record_count,
            each.checksum,
            each.broker_name,
        )
        for each in messages
    ]


def attempt_messages(attempts: Iterable[NamedAttempt]) -> list[transaction_pb.BatchAttempt]:
    """Attempts as messages to the broker that has them."""
    return [
        transaction_pb.BatchAttempt(
            partition_id=each.partition_id,
            attempt_token=each.token,
            record_count=each.record_count,
            checksum=each.checksum,
        )
        for each in attempts
    ]
