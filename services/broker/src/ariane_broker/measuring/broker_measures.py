"""Metrics of the broker as a whole, read from its existing counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ariane_broker.clients.client_table import ClientTable
from ariane_broker.delay.delayed_counts import DelayedCounts
from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.log.clock_watch import ClockWatch
from ariane_broker.log.held_requests import HeldRequests
from ariane_broker.log.statistics import BrokerStatistics
from ariane_broker.log.store_keeping import StoreKeeping
from ariane_broker.measuring.queue_measures import QueueMeasures
from ariane_broker.naming.broker_drain import BrokerDrain
from ariane_broker.replication.replication_measures import ReplicationMeasures
from ariane_broker.topics.topic_table import TopicTable
from ariane_broker.topics.unread_queues import UnreadQueues
from ariane_broker.transactions.half_list import HalfList
from ariane_servicekit.observability.measures import Measures, Value, one
from ariane_storage.store import Store

BOUNDS_S: Final = (25e-6, 50e-6, 1e-4, 25e-5, 5e-4, 1e-3, 25e-4, 5e-3, 0.01, 0.05, 0.25, 1.0)
"""Upper bounds of histograms: an append of one message takes 30 us."""


@dataclass(frozen=True, slots=True)
class BrokerMeasures:
    """The sources of metrics."""

    store: Store
    """The store."""
    keeping: StoreKeeping
    """The upkeep of the store."""
    clock_watch: ClockWatch
    """Watches the clock."""
    statistics: BrokerStatistics
    """The broker's counters."""
    delayed: DelayedCounts
    """Counts of delayed messages."""
    halves: HalfList
    """Half messages without an outcome."""
    held: HeldRequests
    """Held requests."""
    clients: ClientTable
    """Attached clients."""
    drain: BrokerDrain
    """Whether the broker accepts messages."""
    unread: UnreadQueues
    """Messages in queues that consumers do not read."""
    topics: TopicTable
    """All topics."""
    groups: ConsumerGroups
    """All groups."""
    queues: QueueMeasures
    """Counts by topic and group."""
    replication: ReplicationMeasures | None = None
    """What is known of the set; None without replicas."""

    def make(self, measures: Measures) -> None:
        """Make all instruments of the broker."""
        self._make_traffic(measures)
        self._make_storage(measures)
        self._make_waiting(measures)
        self._make_incidents(measures)
        self.queues.make(measures)
        if self.replication is not None:
            self.replication.make(measures)

    def _make_traffic(self, measures: Measures) -> None:
        statistics = self.statistics
        for name, unit, description, read in (
            (
                "ariane.messages.stored",
                "{message}",
                "Messages stored, and records stored beside them.",
                lambda: one(statistics.stored_message_count),
            ),
            (
                "ariane.messages.stored.size",
                "By",
                "Bytes of their records.",
                lambda: one(statistics.stored_bytes),
            ),
            (
                "ariane.batches.stored",
                "{batch}",
                "Batches stored.",
                lambda: one(statistics.stored_batch_count),
            ),
            (
                "ariane.append.time",
                "s",
                "Time spent appending.",
                lambda: one(statistics.append_seconds),
            ),
            (
                "ariane.messages.read",
                "{message}",
                "Messages handed out, to consumers and to readers of ranges.",
                lambda: one(statistics.pulled_message_count),
            ),
            (
                "ariane.messages.read.size",
                "By",
                "Bytes of their records.",
                lambda: one(statistics.pulled_bytes),
            ),
            (
                "ariane.reads",
                "{read}",
                "Reads of queues for consumers.",
                lambda: one(statistics.read_count),
            ),
        ):
            measures.counter(name, unit, description, read)
        statistics.record_append = measures.histogram(
            "ariane.append.duration",
            "How long appends to the log took, flushes left out.",
            BOUNDS_S,
        )
        statistics.record_look = measures.histogram(
            "ariane.read.duration", "How long looks at the queues of pulls took.", BOUNDS_S
        )

    def _make_storage(self, measures: Measures) -> None:
        store, keeping = self.store, self.keeping
        for name, unit, description, read in (
            (
                "ariane.storage.size",
                "By",
                "Bytes of the commit log that are kept.",
                lambda: one(store.max_offset - store.min_offset),
            ),
            (
                "ariane.storage.unflushed",
                "By",
                "Bytes of the commit log that the loss of power would take.",
                lambda: one(store.max_offset - store.flushed_offset),
            ),
            (
                "ariane.storage.damaged",
                "By",
                "Bytes of the commit log that are known to be damaged.",
                lambda: one(sum(each.end - each.begin for each in store.damage)),
            ),
            (
                "ariane.storage.disk.used",
                "1",
                "Part of the disk that is used, by whomever.",
                lambda: one(keeping.disk_used_ratio),
            ),
            (
                "ariane.broker.writable",
                "1",
                "1 while the broker takes messages, 0 while it is drained or its disk is full.",
                lambda: one(int(self.drain.writable and not keeping.refusal)),
            ),
        ):
            measures.gauge(name, unit, description, read)

    def _make_waiting(self, measures: Measures) -> None:
        for name, unit, description, read in (
            ("ariane.topics", "{topic}", "Topics.", lambda: one(len(self.topics))),
            ("ariane.groups", "{group}", "Consumer groups.", lambda: one(len(self.groups))),
            ("ariane.clients", "{client}", "Clients attached.", lambda: one(len(self.clients))),
            ("ariane.pulls.held", "{pull}", "Pulls that wait.", lambda: one(self.held.count)),
            (
                "ariane.delayed.messages",
                "{message}",
                "Messages that wait for their time or delay level.",
                lambda: one(
                    self.delayed.timed_pending_count
                    + sum(each.pending_count for each in self.delayed.pending_levels())
                ),
            ),
            (
                "ariane.half.messages",
                "{message}",
                "Half messages without an outcome.",
                lambda: one(self.halves.pending_count),
            ),
            (
                "ariane.unread.messages",
                "{message}",
                "Messages in queues that nobody can read: more queues are written than read.",
                self._unread_messages,
            ),
        ):
            measures.gauge(name, unit, description, read)
        measures.gauge(
            "ariane.consumer.holds",
            "{queue}",
            "Queues of which members of a group hand out nothing, by reason.",
            self._holds,
        )

    def _holds(self) -> Iterator[Value | None]:
        counts: Counter[tuple[str, str]] = Counter()
        for client in self.clients.walk():
            counts.update((hold.consumer_group, hold.reason.value) for hold in client.holds)
            yield None
        for (group, reason), count in counts.items():
            yield count, {"consumer_group": group, "reason": reason}

    def _unread_messages(self) -> Iterator[Value | None]:
        count = 0
        for each in self.unread.walk():
            count += 0 if each is None else each.message_count
            yield None
        yield from one(count)

    def _expired(self) -> Iterator[Value]:
        counts = Counter[tuple[str, str]]()
        for (group, queue), count in tuple(self.statistics.expired_counts.items()):
            counts[group, queue.topic] += count
        for (group, topic), count in counts.items():
            yield count, {"consumer_group": group, "topic": topic}

    def _make_incidents(self, measures: Measures) -> None:
        statistics, late = self.statistics, self.delayed.lateness
        for name, unit, description, read in (
            (
                "ariane.delayed.delivered",
                "{message}",
                "Delayed messages delivered.",
                lambda: one(self.delayed.delivered_count),
            ),
            (
                "ariane.delayed.lateness",
                "s",
                "How late they were, in all.",
                lambda: one(late.sum_ms / 1000),
            ),
            (
                "ariane.members.vanished",
                "{member}",
                "Members of groups whose stream broke without a goodbye.",
                lambda: one(statistics.vanished_member_count),
            ),
            (
                "ariane.offsets.set_back",
                "{offset}",
                "Offsets beyond what the log kept of its end, set back.",
                lambda: one(statistics.set_back_offset_count),
            ),
            (
                "ariane.messages.lost",
                "{message}",
                "Damaged messages that readers were told of and passed over; each time.",
                lambda: one(statistics.lost_message_count),
            ),
            (
                "ariane.messages.expired",
                "{message}",
                "Messages that had expired and were passed over, by group and topic.",
                self._expired,
            ),
            (
                "ariane.reads.cold",
                "{read}",
                "Reads that had to wait for the disk, in a thread.",
                lambda: one(statistics.cold_fetch_count),
            ),
            (
                "ariane.reads.cold.bytes",
                "By",
                "Bytes that these reads wanted.",
                lambda: one(statistics.cold_bytes),
            ),
            (
                "ariane.clock.jumps",
                "{jump}",
                "Jumps of the machine's clock.",
                lambda: one(self.clock_watch.jump_count),
            ),
            (
                "ariane.storage.early_deletions",
                "{message}",
                "Messages deleted before their time because the disk was full.",
                lambda: one(self.keeping.early_deletions.message_count),
            ),
        ):
            measures.counter(name, unit, description, read)
