"""``BrokerService``: the broker itself, for operators."""
# ruff: noqa: ARG002, N802 - methods and their arguments are named by the contract.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from grpc import aio

from ariane.broker.v1 import broker_service_pb2 as broker_pb
from ariane.broker.v1.broker_service_pb2_grpc import BrokerServiceServicer
from ariane_broker.clients.client_table import ClientTable
from ariane_broker.delay.delayed_counts import DelayedCounts
from ariane_broker.errors.public_errors import client_not_attached
from ariane_broker.log.clock_watch import ClockWatch
from ariane_broker.log.early_deletions import EarlyDeletions
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.log.recovery_words import recovery_findings, recovery_notes
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.log.store_keeping import StoreKeeping
from ariane_broker.naming.announcement import BrokerAnnouncement
from ariane_broker.naming.broker_drain import BrokerDrain
from ariane_broker.rpc.servicers.quota_uses import BrokerQuotas
from ariane_broker.rpc.translation.wire_time import span_of, time_of
from ariane_broker.settings import BrokerSettings
from ariane_broker.state.state_files import BrokerState
from ariane_broker.topics.unread_queues import UnreadQueue, UnreadQueues
from ariane_servicekit import in_turns
from ariane_storage.store import Store

UNREAD_TOPICS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """The parts that operators can ask about."""

    settings: BrokerSettings
    """The broker's settings."""
    announcement: BrokerAnnouncement
    """Its identity for name servers."""
    store: Store
    """Its store."""
    keeping: StoreKeeping
    """The upkeep of the store."""
    clock_watch: ClockWatch
    """Watches its clock."""
    state: BrokerState
    """The state of its state files."""
    statistics: BrokerStatistics
    """Its counters."""
    delayed: DelayedCounts
    """Counts of delayed messages."""
    held: HeldRequests
    """Held requests."""
    clients: ClientTable
    """Attached clients."""
    drain: BrokerDrain
    """Whether it accepts messages."""
    unread: UnreadQueues
    """Finds queues that cannot be read."""
    quotas: BrokerQuotas
    """What is used of quotas."""
    version: str
    """The broker's version."""
    start_time_ms: int
    """When the process started."""


class BrokerServicer(BrokerServiceServicer):
    """Translates requests of operators."""

    def __init__(self, parts: BrokerParts) -> None:
        self._parts = parts

    async def GetBrokerState(
        self, request: broker_pb.GetBrokerStateRequest, context: aio.ServicerContext[Any, Any]
    ) -> broker_pb.GetBrokerStateResponse:
        """Return the state of the broker."""
        parts, store = self._parts, self._parts.store
        return broker_pb.GetBrokerStateResponse(
            identity=parts.announcement.identity,
            version=parts.version,
            start_time=time_of(parts.start_time_ms),
            writable=parts.drain.writable and not parts.keeping.refusal,
            store=self._store_state(),
            statistics=self._statistics(),
            recovery_findings=[
                *recovery_findings(store.recovery, store.damage, store.unreadable),
                *parts.state.findings,
            ],
            recovery_notes=recovery_notes(store.recovery),
            delayed_messages=self._delayed_messages(),
            unread_topics=_unread_topics(await in_turns(parts.unread.walk())),
            clock=self._clock_state(),
            quota_uses=await parts.quotas.uses(),
        )

    async def DisconnectClient(
        self, request: broker_pb.DisconnectClientRequest, context: aio.ServicerContext[Any, Any]
    ) -> broker_pb.DisconnectClientResponse:
        """End the attachment of a client, which is no death of it."""
        client = self._parts.clients.find(request.client_id)
        if client is None:
            raise client_not_attached(request.client_id, "")
        self._parts.clients.detach(client)
        return broker_pb.DisconnectClientResponse()

    async def DrainBroker(
        self, request: broker_pb.DrainBrokerRequest, context: aio.ServicerContext[Any, Any]
    ) -> broker_pb.DrainBrokerResponse:
        """Start or end draining."""
        drain = self._parts.drain
        await drain.set_draining(request.draining)
        return broker_pb.DrainBrokerResponse(writable=drain.writable)

    async def CleanBroker(
        self, request: broker_pb.CleanBrokerRequest, context: aio.ServicerContext[Any, Any]
    ) -> broker_pb.CleanBrokerResponse:
        """Delete old segments."""
        plan = await self._parts.keeping.clean(dry_run=request.validate_only)
        until_ms = plan.stored_until_ms
        return broker_pb.CleanBrokerResponse(
            segment_count=len(plan.segments),
            byte_count=sum(segment.size for segment in plan.segments),
            message_count=sum(each.end - each.begin for each in plan.ranges),
            min_commit_log_offset=plan.min_offset,
            store_time_end=None if until_ms is None else time_of(until_ms),
        )

    def _store_state(self) -> broker_pb.StoreState:
        store, keeping = self._parts.store, self._parts.keeping
        return broker_pb.StoreState(
            min_commit_log_offset=store.min_offset,
            max_commit_log_offset=store.max_offset,
            flushed_commit_log_offset=store.flushed_offset,
            confirmed_commit_log_offset=store.confirmed_offset,
            disk_used_ratio=keeping.disk_used_ratio,
            refusal=keeping.refusal,
            flush_mode=self._parts.settings.flush_mode,
            early_deletions=_early_deletions(keeping.early_deletions),
        )

    def _clock_state(self) -> broker_pb.ClockState:
        watch = self._parts.clock_watch
        return broker_pb.ClockState(
            jump_count=watch.jump_count,
            last_jump_duration=span_of(watch.last_jump_ms / 1000),
            last_jump_time=time_of(watch.last_jump_at_ms) if watch.jump_count else None,
            stamp_ahead_duration=span_of(watch.stamp_ahead_ms / 1000),
            doubted_duration=span_of(watch.doubted_ms / 1000),
        )

    def _delayed_messages(self) -> broker_pb.DelayedMessages:
        delayed = self._parts.delayed
        levels = [
            broker_pb.PendingDelayLevel(
                level=one.level,
                wait_duration=span_of(one.wait_ms / 1000),
                pending_count=one.pending_count,
                next_due_time=time_of(one.next_due_ms),
            )
            for one in delayed.pending_levels()
        ]
        return broker_pb.DelayedMessages(
            levels=levels,
            timed_pending_count=delayed.timed_pending_count,
            delivered_count=delayed.delivered_count,
            dropped_count=delayed.dropped_count,
            measured_count=delayed.lateness.message_count,
            lateness_duration=span_of(delayed.lateness.sum_ms / 1000),
            lateness_duration_max=span_of(delayed.lateness.max_ms / 1000),
        )

    def _statistics(self) -> broker_pb.BrokerStatistics:
        statistics = self._parts.statistics
        return broker_pb.BrokerStatistics(
            stored_message_count=statistics.stored_message_count,
            stored_bytes=statistics.stored_bytes,
            pulled_message_count=statistics.pulled_message_count,
            pulled_bytes=statistics.pulled_bytes,
            stored_batch_count=statistics.stored_batch_count,
            held_pull_count=self._parts.held.count,
            client_count=len(self._parts.clients),
            append_duration=span_of(statistics.append_seconds),
            vanished_member_count=statistics.vanished_member_count,
            counted_death_count=statistics.counted_death_count,
            set_back_offset_count=statistics.set_back_offset_count,
        )


def _unread_topics(unread: Sequence[UnreadQueue]) -> list[broker_pb.UnreadTopic]:
    topics: dict[str, broker_pb.UnreadTopic] = {}
    for each in sorted(unread):
        name = each.queue.topic
        entry = topics.setdefault(name, broker_pb.UnreadTopic(topic=name))
        entry.queue_count += 1
        entry.message_count += each.message_count
    return [*topics.values()][:UNREAD_TOPICS_MAX]


def _early_deletions(early: EarlyDeletions) -> broker_pb.EarlyDeletions:
    until_ms = early.last_stored_until_ms
    return broker_pb.EarlyDeletions(
        message_count=early.message_count,
        segment_count=early.segment_count,
        last_time=time_of(early.last_at_ms) if early.segment_count else None,
        last_topics=early.last_topics,
        last_store_time_end=None if until_ms is None else time_of(until_ms),
    )
