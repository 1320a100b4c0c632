"""What a purge does at one broker of a topic."""

from __future__ import annotations

from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.broker.v1 import topic_service_pb2 as broker_pb
from ariane.broker.v1.pull_service_pb2 import FindQueueOffsetsRequest
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.common.v1.process_service_pb2 import GetProcessStateRequest
from ariane_admin.asking.broker_readings import queue_bounds
from ariane_admin.asking.cluster_doors import ClusterDoors, answer_from, broker_peer, changed_at
from ariane_admin.servicers.times import milliseconds_in, time_of
from ariane_admin.topic_attributes import SHOWN_SINCE
from ariane_record.names import is_system_topic
from ariane_sdk import LiveBroker
from ariane_servicekit import ServiceError, field_invalid


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
    request: topic_pb.PurgeTopicRequest,
    broker: LiveBroker,
) -> topic_pb.HiddenMessages:
    """Hide a broker's messages of a topic, or count them only, as the request says.

    Args:
        doors: To the broker.
        request: The request.
        broker: The broker.

    Raises:
        ArianeError: The broker refused, or did not answer.
    """
    topics, peer = doors.topics(broker.address), broker_peer(broker)
    hidden = topic_pb.HiddenMessages(broker_name=broker.broker_name)
    text = ""
    if not request.undo:
        asked = broker_pb.GetTopicRequest(topic=request.topic)
        found = await answer_from(peer, topics.GetTopic, asked)
        since_ms = await _clock_ms_of(doors, broker)
        if request.HasField("before"):
            since_ms = min(since_ms, request.before.ToMilliseconds())
        # What is hidden stays hidden.
        since_ms = max(since_ms, int(found.topic.attributes.get(SHOWN_SINCE, 0)))
        hidden.before.FromMilliseconds(since_ms)
        hidden.message_count = await _count(doors, request.topic, broker, since_ms)
        text = str(since_ms)
    if not request.validate_only:
        change = broker_pb.UpdateTopicRequest(topic=request.topic, attributes={SHOWN_SINCE: text})
        await changed_at(peer, topics.UpdateTopic, change)
    return hidden


async def _clock_ms_of(doors: ClusterDoors, broker: LiveBroker) -> int:
    answer = await answer_from(
        broker, doors.processes(broker.address).GetProcessState, GetProcessStateRequest()
    )
    now_ms: int = answer.state.current_time.ToMilliseconds()
    return now_ms


async def _count(doors: ClusterDoors, topic: str, broker: LiveBroker, since_ms: int) -> int:
    """How many messages are seen now that were stored before a time.

    Raises:
        ArianeError: Nobody may read the topic: what would be hidden is not known.
    """
    asked = FindQueueOffsetsRequest(topic=topic, time=time_of(since_ms))
    found = await answer_from(broker, doors.pulls(broker.address).FindQueueOffsets, asked)
    ends = {queue.queue_id: queue.queue_offset for queue in found.queues}
    kept = await queue_bounds(doors, broker, topic)
    return sum(max(0, ends.get(each.queue_id, 0) - each.min_queue_offset) for each in kept)
