"""What a purge does at one broker of a topic."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1 import topic_service_pb2 as broker_pb
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.process_service_pb2 import GetProcessStateRequest
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    ClusterDoors,
    answer_of,
    broker_peer,
)
from ariane_admin.asking.topic_attributes import SHOWN_SINCE
from ariane_admin.servicers.times import milliseconds_in
from ariane_record.names import is_system_topic
from ariane_sdk import LiveBroker
from ariane_servicekit import ServiceError, field_invalid

if TYPE_CHECKING:
    from ariane_sdk import QueueReader


def check_purge(request: topic_pb.PurgeTopicRequest) -> None:
    """Refuse what brokers would refuse, also when it is only looked at.

    Raises:
        ServiceError: TOPIC_RESERVED or FIELD_INVALID.
    """
    if is_system_topic(request.topic):
        raise ServiceError(
            ErrorReason.ERROR_REASON_TOPIC_RESERVED,
            f"topic {request.topic!r} belongs to the system",
            {"topic": request.topic},
        )
    before_ms = milliseconds_in(request, "before")
    if before_ms is None:
        return
    if request.undo:
        raise field_invalid("before", "is absent where a purge is undone")
    if before_ms < 1:
        raise field_invalid("before", "must be after 1970")


async def purged(
    doors: ClusterDoors,
    reader: QueueReader | None,
    request: topic_pb.PurgeTopicRequest,
    broker: LiveBroker,
) -> topic_pb.HiddenMessages:
    """Hide a broker's messages of a topic, or count them only, as the request says.

    Args:
        doors: To the broker.
        reader: Counts messages; None where a purge is undone.
        request: The request.
        broker: The broker.

    Raises:
        ArianeError: The broker refused, or did not answer.
    """
    topics, peer = doors.topics(broker.address), broker_peer(broker)
    hidden = topic_pb.HiddenMessages(broker_name=broker.broker_name)
    text = ""
    if reader is not None:
        asked = broker_pb.GetTopicRequest(topic=request.topic)
        found = await answer_of(topics.GetTopic(asked, timeout=CALL_SECONDS_MAX), peer)
        since_ms = await _clock_ms_of(doors, broker)
        if request.HasField("before"):
            since_ms = min(since_ms, request.before.ToMilliseconds())
        # What is hidden stays hidden.
        since_ms = max(since_ms, int(found.topic.attributes.get(SHOWN_SINCE, 0)))
        hidden.before.FromMilliseconds(since_ms)
        hidden.message_count = await _count(reader, request.topic, broker, since_ms)
        text = str(since_ms)
    if not request.validate_only:
        change = broker_pb.UpdateTopicRequest(topic=request.topic, attributes={SHOWN_SINCE: text})
        await answer_of(topics.UpdateTopic(change, timeout=CALL_SECONDS_MAX), peer)
    return hidden


async def _clock_ms_of(doors: ClusterDoors, broker: LiveBroker) -> int:
    call = doors.processes(broker.address).GetProcessState(
        GetProcessStateRequest(), timeout=CALL_SECONDS_MAX
    )
    answer = await answer_of(call, broker_peer(broker))
    now_ms: int = answer.state.current_time.ToMilliseconds()
    return now_ms


async def _count(reader: QueueReader, topic: str, broker: LiveBroker, since_ms: int) -> int:
    """How many messages are seen now that were stored before a time."""
    names, since = [broker.broker_name], datetime.fromtimestamp(since_ms / 1000, UTC)
    bounds = await reader.bounds(topic, broker_names=names)
    ends = await reader.offsets_at(topic, since, broker_names=names)
    return sum(max(0, ends[queue] - begin) for queue, (begin, _) in bounds.items())
