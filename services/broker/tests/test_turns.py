"""What one turn of the loop examines is bounded, whatever clients ask and however much there is.

Python's own tracing counts the lines that each callback of the loop runs in our modules: a count
and no time, so that it is the same on every machine. A walk over thousands of topics, groups,
offsets, clients, messages of a key or positions in a single turn would be over the bound.
"""

import asyncio
import sys
from collections import Counter
from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass
from grpc import aio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from ariane_broker import app
from ariane_broker.clients.attached_client import Hello
from ariane_broker.clients.members.membership import Membership
from ariane_broker.delay.timer.timer_queue import TIMER_QUEUE
from ariane_broker.groups.consumer_groups import GroupConfig
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.receipts import Receipt, encode_handle
from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent
from ariane_broker.rpc.translation.receive_wire import HANDLES_MAX, SETTLEMENTS_MAX
from ariane_broker.spark_batches.records.batch_progress import Progress
from ariane_broker.spark_batches.records.batch_records import AttemptKey, BatchKey, Stage
from ariane_broker.topics.topic_table import TopicConfig
from ariane_broker.transactions.transaction_records import HalfMessage
from ariane_record import ConsumerOffset
from ariane_record.names import OP_TOPIC
from ariane_record.testing.block_encoder import BlockEncoder
from ariane_servicekit import serving
from ariane_servicekit.observability import measures as measuring
from ariane_servicekit.observability.measures import SERIES_MAX, Measures
from ariane_servicekit.running import turns
from ariane_servicekit.running.turns import EXAMINED_MAX
from ariane_storage.testing import block_of
from ariane_testkit.contract import contract_services

COUNT = 8000
"""Topics, groups, offsets, clients, half messages, queries, messages of a key."""

LINES_MAX = 300 * EXAMINED_MAX
"""Lines for one thing, times the things of a turn. A walk over all would take more."""

LINES_OF_POSITION = 16
"""Lines for each of the positions of a pull, at most 8192, that remain in one turn: they note where
to go on and what to wait for."""

OURS = ("ariane_broker", "ariane_servicekit", "ariane_storage", "ariane_record", "ariane_sql92")

FAR_MS = 1 << 42
SECRET = b"s" * 32
KEYED = QueueKey("keyed", 0)
HANDLES = [
    encode_handle(Receipt(KEYED, 1, offset), "settlers", SECRET) for offset in range(HANDLES_MAX)
]
"""Handles of messages that were handed out."""

COLLIDING = ["".join(pairs) for pairs in islice(product(("Aa", "BB"), repeat=13), COUNT)]
"""Transaction ids of one hash: a look for one of them in the index finds all."""

REFUSED = {
    "TransactionService.CheckTransaction": "NOT_FOUND",
    "TransactionService.ParkTransaction": "NOT_FOUND",
    "TopicService.UpdateTopic": "FAILED_PRECONDITION",
}
"""What is refused only after it has looked at much; all others succeed."""

LONG_CONDITION = " OR ".join(f"colour CONTAINS 'x{number}'" for number in range(100))

RECEIVED = {
    "receivers-1": ("broad", "colour = 'red'", False),
    "receivers-2": ("deep", LONG_CONDITION, False),
    "receivers-3": ("deep", "colour = 'red'", True),
}
"""Of each group the topic, all queues of which it looks at; a condition that no message fulfils;
and whether messages are wanted by priority."""

HOSTILE = {
    "BrokerService.GetBrokerState": [{}],
    "ClientService.ListClients": [{"pageSize": 1000}],
    "ClientService.ListGroupMembers": [{"consumerGroup": "crowd"}],
    "ClientService.ListSubscriptionConflicts": [{"pageSize": 1000}],
    "ClientService.LockQueues": [
        {
            "consumerGroup": "orderly",
            "clientId": "locker",
            "queues": [{"topic": "broad", "queueId": number} for number in range(COUNT)],
        },
    ],
    "ClientService.UnlockQueues": [
        {
            "consumerGroup": "orderly",
            "clientId": "locker",
            "queues": [{"topic": "broad", "queueId": number} for number in range(COUNT)],
        },
    ],
    "GroupService.ListConsumerGroups": [{"pageSize": 1000}],
    "OffsetService.CloneConsumerOffsets": [
        {"consumerGroup": "crowd", "targetConsumerGroup": "twin", "topic": "broad"}
    ],
    "OffsetService.DeleteConsumerOffsets": [{"consumerGroup": "leaver", "topic": "broad"}],
    "OffsetService.ResetConsumerOffsets": [
        {"consumerGroup": "crowd", "topic": "broad", "earliest": True},
        {"consumerGroup": "crowd", "topic": "broad", "time": "2026-01-01T00:00:00Z"},
        {
            "consumerGroup": "crowd",
            "topic": "broad",
            "table": {"queueOffsets": dict.fromkeys(range(COUNT), "1")},
        },
    ],
    "OffsetService.GetConsumerOffsets": [
        {"consumerGroup": "wide"},
        {
            "consumerGroup": "wide",
            "queues": [{"topic": f"topic-{number}"} for number in range(COUNT)],
        },
    ],
    "OffsetService.ListConsumerLags": [
        {"pageSize": 1000},
        {"topic": "topic-1"},
        {"consumerGroup": "wide", "pageSize": 1000},
    ],
    "OffsetService.StoreConsumerOffsets": [
        {
            "consumerGroup": "wide",
            "offsets": [
                {"topic": f"topic-{number}", "queueOffset": "1"} for number in range(COUNT)
            ],
        }
    ],
    "PullService.PullRecords": [
        {
            "consumerGroup": "wide",
            "positions": [
                {"topic": f"topic-{number}", "queueOffset": "1"} for number in range(COUNT)
            ],
        },
        {
            "consumerGroup": "wide",
            "positions": [{"topic": "keyed"}],
            "subscriptions": [
                {
                    "topic": "keyed",
                    "filter": {"kind": "FILTER_KIND_SQL92", "text": LONG_CONDITION},
                }
            ],
        },
        *(
            {
                "consumerGroup": "wide",
                "positions": [{"topic": "deep", "queueId": number} for number in range(1, 101)],
                "subscriptions": [
                    {"topic": "deep", "filter": {"kind": "FILTER_KIND_SQL92", "text": condition}}
                ],
            }
            for condition in ("colour = 'red'", LONG_CONDITION)
        ),
    ],
    "PullService.PullMessages": [
        {
            "consumerGroup": "wide",
            "positions": [
                {"topic": "broad", "queueId": number, "queueOffset": "1"} for number in range(COUNT)
            ],
            "subscriptions": [
                {
                    "topic": "broad",
                    "filter": {"kind": "FILTER_KIND_SQL92", "text": "colour = 'red'"},
                }
            ],
        },
        {
            "consumerGroup": "wide",
            "positions": [
                {"topic": f"topic-{number}", "queueOffset": "1"} for number in range(COUNT)
            ],
        },
    ],
    "PullService.ListQueueBounds": [{"topic": "broad"}],
    "PullService.FindQueueOffsets": [{"topic": "broad", "time": "2026-01-01T00:00:00Z"}],
    "QueryService.QueryMessages": [
        {"topic": "keyed", "key": "k", "messageCountMax": 64},
        {"topic": "keyed", "key": "k", "beforeCommitLogOffset": "1"},
        {"topic": "keyed", "key": "k", "endTime": "2001-01-01T00:00:00Z"},
    ],
    "QueryService.ListDelayedMessages": [{"topic": "keyed", "pageSize": 1000}],
    "ReceiveService.ReceiveMessages": [
        {
            "order": {
                "consumerGroup": "wide",
                "subscriptions": [{"topic": "keyed"}],
                "messageCountMax": 64,
            }
        },
        *(
            {
                "order": {
                    "consumerGroup": group,
                    "subscriptions": [
                        {
                            "topic": topic,
                            "filter": {"kind": "FILTER_KIND_SQL92", "text": condition},
                        }
                    ],
                    "messageCountMax": 64,
                    "byPriority": by_priority,
                }
            }
            for group, (topic, condition, by_priority) in RECEIVED.items()
        ),
    ],
    "ReceiveService.ListReceiving": [{"consumerGroup": "many"}],
    "ReceiveService.SettleRecords": [
        {"consumerGroup": "settlers", "settlements": [{"receipt": "AAAA"}] * SETTLEMENTS_MAX}
    ],
    "ReceiveService.AckMessages": [
        {"consumerGroup": "settlers", "receiptHandles": HANDLES[: HANDLES_MAX // 2]}
    ],
    "ReceiveService.NackMessages": [
        {
            "consumerGroup": "settlers",
            "receiptHandles": HANDLES[HANDLES_MAX // 2 :],
            "nack": {},
        }
    ],
    "ReceiveService.KeepInvisible": [
        {
            "consumerGroup": "settlers",
            "clientId": "client-0",
            "receiptHandles": HANDLES,
        }
    ],
    "SinkService.ListSinks": [{"pageSize": 1000}],
    "TopicService.GetTopic": [{"topic": "topic-1"}],
    "TopicService.ListTopics": [{"pageSize": 1000, "includeSystem": True}],
    "TransactionService.CheckTransaction": [{"transactionId": COLLIDING[0]}],
    "TransactionService.CommitBatch": [{"queryId": "stager", "batchId": str(COUNT)}],
    "TransactionService.GetBatchProgress": [{"queryId": "query-1"}],
    "TransactionService.ListHalfMessages": [{"pageSize": 1000}],
    "TransactionService.ParkTransaction": [{"transactionId": COLLIDING[0]}],
    "TransactionService.UpdateTransactions": [
        {
            "ends": [
                {
                    "topic": "keyed",
                    "transactionId": COLLIDING[0],
                    "uniqueId": COLLIDING[0],
                    "producerGroup": "pay",
                    "outcome": "TRANSACTION_OUTCOME_COMMIT",
                }
            ]
        }
    ],
    "TopicService.CreateTopic": [{"topic": {"topic": "one-more"}}],
    "TopicService.UpdateTopic": [{"topic": "deep", "readQueueCount": 1, "writeQueueCount": 1}],
    "GroupService.CreateConsumerGroup": [{"group": {"consumerGroup": "one-more"}}],
    "GroupService.DeleteConsumerGroup": [{"consumerGroup": "group-1"}, {"consumerGroup": "twin"}],
    "TopicService.DeleteTopic": [{"topic": "topic-2"}, {"topic": "broad"}],
}
"""Requests that make a method look at as much as it can; all others get an empty one."""


class Lines:
    """Counts the lines of our modules that each callback of the loop runs."""

    def __init__(self):
        self.worst = Counter()
        """The most of one callback, by what was asked meanwhile."""
        self.asked = ""
        """What is asked."""
        self._count = 0
        self._where = Counter()
        self.places = {}

    def count_callbacks(self, patch):
        # Traced, a thing takes many times as long; the count is to hold without the clock.
        patch.setattr(turns, "TURN_S_MAX", 3600)
        run = asyncio.events.Handle._run

        def counted(handle):
            self._count = 0
            self._where.clear()
            sys.settrace(self._trace)
            try:
                run(handle)
            finally:
                sys.settrace(None)
                if self._count > self.worst[self.asked]:
                    self.worst[self.asked] = self._count
                    self.places[self.asked] = self._where.most_common(3)

        patch.setattr(asyncio.events.Handle, "_run", counted)

    def _trace(self, frame, event, _):
        name = frame.f_globals.get("__name__", "")
        return self._line if name.startswith(OURS) and event == "call" else None

    def _line(self, frame, event, _):
        if event == "line":
            self._count += 1
            self._where[frame.f_code.co_qualname] += 1
        return self._line


def fill(rooms):
    """As much of everything as makes a walk over it long."""
    state, store = rooms.state, rooms.log.store
    names = [f"topic-{number}" for number in range(COUNT)]
    wide = TopicConfig(topic="broad", read_queue_count=COUNT, write_queue_count=COUNT)
    deep = TopicConfig(topic="deep", read_queue_count=1024, write_queue_count=1024)
    for name in (*names, "keyed"):
        state.topics.put(TopicConfig(topic=name, read_queue_count=1, write_queue_count=1))
    state.topics.put(wide, deep)
    for number in range(1, 101):
        store.append(block_of("deep", [b"m"]), number)
    for number, name in enumerate(names):
        store.append(block_of(name, [b"m"]), 0)
        store.append(block_of("broad", [b"m"]), number)
        group = f"group-{number}"
        state.groups.put(GroupConfig(consumer_group=group))
        for place in (group, "wide"):
            state.offsets.put(place, QueueKey(name, 0), ConsumerOffset(0))
        queue = QueueKey(name, 0)
        state.receiving.apply(ReceiveEvent(EventKind.BEGIN, group, queue, offset=1))
        for place in ("many", "leaver"):
            begin = ReceiveEvent(EventKind.BEGIN, place, QueueKey("broad", number), offset=1)
            state.receiving.apply(begin)
        state.offsets.put("crowd", QueueKey("broad", number), ConsumerOffset(1))
        state.offsets.put(group, QueueKey("deep", 0), ConsumerOffset(0))
        crowd = (Membership(consumer_group="crowd"),) if number < 400 else ()
        rooms.clients.table.attach(Hello(client_id=f"client-{number}", memberships=crowd), "test")
    locker = Membership(consumer_group="orderly", ordered=True)
    rooms.clients.table.attach(Hello(client_id="locker", memberships=(locker,)), "test")
    for name in ("wide", "crowd", "orderly", "settlers", "twin", "many", "leaver", *RECEIVED):
        state.groups.put(GroupConfig(consumer_group=name))
    encoder = BlockEncoder("keyed", size_bytes_max=4 << 20)
    for number in range(COUNT):
        encoder.add(b"m", keys=("k",), properties={"colour": f"red-{number}"}, born_timestamp_ms=1)
    store.append(encoder.finish(), 0)
    encoder = BlockEncoder(OP_TOPIC, size_bytes_max=4 << 20)
    for transaction_id in COLLIDING[1:]:
        encoder.add(b"m", keys=(transaction_id,), born_timestamp_ms=1)
    store.append(encoder.finish(), 0)
    handed = np.array([[0, HANDLES_MAX]], np.int64)
    for event in (
        ReceiveEvent(EventKind.SECRET, holder=SECRET),
        ReceiveEvent(EventKind.BEGIN, "settlers", KEYED),
        ReceiveEvent(
            EventKind.HAND,
            "settlers",
            KEYED,
            ranges=handed,
            serial=1,
            until_ms=FAR_MS,
            offset=HANDLES_MAX,
            attempts=np.ones(1, np.int32),
        ),
    ):
        state.receiving.apply(event)
    fill_delayed(store)
    fill_undecided(rooms)


def fill_delayed(store):
    encoder = BlockEncoder(TIMER_QUEUE.topic, size_bytes_max=4 << 20)
    for _ in range(COUNT):
        encoder.add(b"m", properties={"REAL_TOPIC": "keyed"}, born_timestamp_ms=1)
    times_ms = np.full(COUNT, FAR_MS)
    store.append(replace(encoder.finish(), delivery_times_ms=times_ms), TIMER_QUEUE.queue_id)


def fill_undecided(rooms):
    """Transactions and batches without an outcome."""
    transactions, batches = rooms.transactions.ends.table, rooms.spark_batches.sinks.table
    for number in range(COUNT):
        transactions.stored(HalfMessage(f"t-{number}", "keyed", 0, "pay", number, number, 1))
        batches.advance(f"query-{number}", Progress(1, number, 1, {}))
    for number in range(COUNT):
        stage = Stage(number, 1, 1, FAR_MS, 1)
        batches.add_stage(BatchKey("stager", number), AttemptKey(0, "token"), stage)


@pytest.fixture
async def filled(settings_for, monkeypatch):
    """A broker with much of everything; gives it and a channel."""
    built, lives = [], []

    def keeping(*given, make=app._rooms):
        built.append(make(*given))
        return built[-1]

    def compose(settings, stop):
        lives.append(app.compose(settings, stop))
        return lives[-1]

    monkeypatch.setattr(app, "_rooms", keeping)
    settings = settings_for(
        topics_max=20_000,
        groups_max=20_000,
        client_silence_s=3600,
        index_items=40_000,
        segment_bytes=16 << 20,
        # Files of thousands of queues are written by themselves, and take as long as the disk.
        offset_save_s=3600,
        producer_save_s=3600,
    )
    async with (
        serving(settings, compose) as address,
        aio.insecure_channel(str(address)) as channel,
    ):
        (rooms,) = built
        fill(rooms)
        yield lives[0], channel


async def called(channel, method, request):
    """Call a method with one request, and take its first answer or refusal."""
    shape = "_".join(
        "stream" if streams else "unary"
        for streams in (method.client_streaming, method.server_streaming)
    )
    call = getattr(channel, shape)(
        f"/{method.containing_service.full_name}/{method.name}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )(iter([request]) if method.client_streaming else request, timeout=300)
    try:
        await (call.read() if method.server_streaming else call)
    except aio.AioRpcError as error:
        return error.code().name
    finally:
        call.cancel()
    return "OK"


def lines_max(method):
    positions = COUNT if method.startswith("PullService.Pull") else 0
    return LINES_MAX + positions * LINES_OF_POSITION


def methods():
    return {
        f"{service.name}.{method.name}": method
        for service in contract_services()
        if service.file.package == "ariane.broker.v1"
        for method in service.methods
    }


@pytest.mark.slow
@pytest.mark.timeout(600)  # Thousands of folders are removed in the end, too.
async def test_no_call_examines_more_in_a_turn_than_the_bound(filled, monkeypatch):
    _, channel = filled
    lines, known, codes = Lines(), methods(), {}
    assert HOSTILE.keys() <= known.keys()
    lines.count_callbacks(monkeypatch)
    for name, method in known.items():
        for content in HOSTILE.get(name, [{}]):
            lines.asked = name
            request = ParseDict(content, GetMessageClass(method.input_type)())
            codes[name] = await called(channel, method, request)
    monkeypatch.undo()
    over = {name: (count, lines.places[name]) for name, count in lines.worst.items()}
    over = {name: found for name, found in over.items() if found[0] > lines_max(name)}
    assert not over
    # What was refused at once would show nothing.
    assert {name: codes[name] for name in HOSTILE} == dict.fromkeys(HOSTILE, "OK") | REFUSED


@pytest.mark.slow
@pytest.mark.timeout(600)  # Thousands of folders are removed in the end, too.
async def test_no_scrape_examines_more_in_a_turn_than_the_bound(filled, monkeypatch):
    life, _ = filled
    # Traced, it takes many times as long.
    monkeypatch.setattr(measuring, "READ_S_MAX", 300)
    reader = InMemoryMetricReader()
    measures = Measures(MeterProvider([reader]).get_meter("test"))
    life.measure(measures)
    lines = Lines()
    lines.count_callbacks(monkeypatch)
    lines.asked = "by a collector"
    await asyncio.to_thread(reader.collect, timeout_millis=300_000)
    lines.asked = "by Prometheus"
    text = await asyncio.to_thread(measures.text)
    monkeypatch.undo()
    over = {by: lines.places[by] for by, count in lines.worst.items() if count > LINES_MAX}
    assert not over
    assert lines.worst.keys() == {"by a collector", "by Prometheus"}
    # As many topics and groups as one instrument tells of, and nothing that failed.
    assert text.count("ariane_consumer_lag{") == SERIES_MAX
