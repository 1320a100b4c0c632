"""The messaging room: messages in and out."""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import dataclass
from typing import Final

from ariane_broker.append.append import AppendRecords
from ariane_broker.append.topics_for_send import TopicsForSend
from ariane_broker.clients.room import ChangingRoom
from ariane_broker.delay.recall import Recall
from ariane_broker.delay.room import DelayingRoom, block_check
from ariane_broker.errors import STORAGE_RULES
from ariane_broker.log.room import StoringRoom
from ariane_broker.log.store_host import literal_host
from ariane_broker.naming.broker_drain import BrokerDrain
from ariane_broker.naming.room import NamingRoom
from ariane_broker.outside import Outside
from ariane_broker.read.message_query import MessageQuery
from ariane_broker.read.pull import PullRecords
from ariane_broker.read.queue_looks import QueueLooks
from ariane_broker.read.range_pull import PullRange
from ariane_broker.rpc.append_streams import AppendStreams
from ariane_broker.rpc.plain_send import SendMessages
from ariane_broker.state.room import StateRoom
from ariane_record.layout import BLANK_SIZE_MIN_BYTES
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_servicekit import (
    ErrorTranslator,
)

PLAIN_CALL_BYTES_MAX: Final = 32 << 20
"""Bytes of all records that plain messages of one call may become."""


@dataclass(frozen=True, slots=True)
class MessagingRoom:
    """Messages in and out."""

    append_records: AppendRecords
    append_streams: AppendStreams
    send_messages: SendMessages
    pull_records: PullRecords
    pull_range: PullRange
    query: MessageQuery
    drain: BrokerDrain
    topics_for_send: TopicsForSend
    recall: Recall


def messaging_room(
    outside: Outside,
    state: StateRoom,
    storing: StoringRoom,
    naming: NamingRoom,
    changing: ChangingRoom,
    *,
    delaying: DelayingRoom,
) -> MessagingRoom:
    """Messages in and out."""
    settings, clock, store = outside.settings, outside.clock, storing.store
    service_error = ErrorTranslator(STORAGE_RULES).service_error
    topics_for_send = TopicsForSend(changing.topic_changes, check_block=block_check(settings))
    append_records = AppendRecords(
        storing.log,
        topics_for_send,
        storing.sequences,
        delaying.parking,
        body_bytes_max=settings.message_bytes_max,
        service_error=service_error,
    )
    origin = secrets.randbits(32)
    unique_ids = UniqueIdGenerator(clock.now_ms, ip="127.0.0.1", pid=os.getpid(), origin=origin)
    send_messages = SendMessages(
        append_records,
        topics_for_send,
        message_at=store.message_at,
        next_unique_id=unique_ids.next_id,
        now_ms=clock.now_ms,
        body_bytes_max=settings.message_bytes_max,
        call_bytes_max=min(settings.segment_bytes - BLANK_SIZE_MIN_BYTES, PLAIN_CALL_BYTES_MAX),
    )
    looks = QueueLooks(
        log=store,
        topics=state.topics,
        statistics=storing.statistics,
        check_group=changing.group_changes.check_may_consume,
        clients=changing.clients,
        members=changing.members,
        locks=state.locks,
        epochs=state.epochs,
        service_error=service_error,
        draw=random.Random(secrets.randbits(64)).randrange,  # noqa: S311 - fairness, no secret.
    )
    return MessagingRoom(
        append_records=append_records,
        append_streams=AppendStreams(append_records),
        send_messages=send_messages,
        pull_records=PullRecords(looks, storing.held, monotonic=clock.monotonic),
        pull_range=PullRange(store, state.topics, storing.held, storing.statistics, state.epochs),
        query=MessageQuery(
            store, state.topics, own_host=lambda: literal_host(naming.announcement.address)
        ),
        drain=BrokerDrain(append_records, naming.announcement, naming.registration.announce),
        topics_for_send=topics_for_send,
        recall=_recall(outside, storing, delaying, append_records),
    )


def _recall(
    outside: Outside, storing: StoringRoom, delaying: DelayingRoom, append_records: AppendRecords
) -> Recall:
    return Recall(
        storing.log,
        storing.store,
        delaying.timer_queue,
        broker_name=outside.settings.broker_name,
        is_draining=lambda: append_records.draining,
    )
