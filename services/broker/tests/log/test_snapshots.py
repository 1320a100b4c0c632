"""A snapshot of a state is of one turn of the loop, short whatever the size, and of its place.

And what is saved is the same in every process.

Lines of our modules are counted by Python's own tracing: it is no matter of time.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ariane_broker.clients.deaths.suspicions import GroupQueue, Suspicion, Suspicions
from ariane_broker.groups.consumer_groups import ConsumerGroups, GroupConfig
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.groups.queue_locks import QueueLocks
from ariane_broker.log.derived.producer_sequences import ProducerSequences
from ariane_broker.log.derived.producer_stream import StoredBatch
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.retry.redriven_table import RedrivenTable
from ariane_broker.retry.return_table import Returned, ReturnTable
from ariane_broker.spark_batches.records.batch_progress import Progress
from ariane_broker.spark_batches.records.batch_records import AttemptKey, BatchKey, Contents, Stage
from ariane_broker.spark_batches.records.batch_table import BatchTable
from ariane_broker.topics.topic_table import TopicConfig, TopicTable
from ariane_broker.transactions.transaction_records import Decision, HalfMessage, Outcome
from ariane_broker.transactions.transaction_table import TransactionTable
from ariane_record import ProducerSequence
from ariane_servicekit import at_once

COUNT = 300
"""Producers, queues, groups, batches, transactions or returns of a state."""

LINES_MAX = 60
"""Lines of one snapshot."""


def queue_of(number):
    return QueueKey(f"topic-{number % 40}", number)


def sequences():
    state = ProducerSequences(now_ms=lambda: 0, expiry_ms=1000, stream_count_max=COUNT)

    def change(first):
        for number in range(COUNT):
            batch = StoredBatch(first, 1, first, number, number + 1, 1)
            state.remember(queue_of(number), ProducerSequence(number, 0, first), batch)

    return state, change


def transactions():
    state = TransactionTable(decision_count_max=COUNT)

    def change(first):
        for number in range(first * COUNT, (first + 1) * COUNT):
            state.stored(HalfMessage(f"t-{number}", "orders", 0, "pay", number, number, 1))
            if number % 2:
                state.decided(Decision(f"t-{number}", "orders", Outcome.COMMIT, number))
            if number % 4 == 1:
                state.settled(number)

    return state, change


def returns():
    state = ReturnTable(now_ms=lambda: 0)

    def change(first):
        for number in range(COUNT):
            returned = Returned("id", first, dead_letter=False, due_ms=1, commit_log_offset=number)
            state.remember(f"group-{number}", number, returned)

    return state, change


def redriven():
    state = RedrivenTable()

    def change(first):
        for number in range(COUNT):
            state.mark(queue_of(number), np.array([2 + first]))

    return state, change


def batches():
    state = BatchTable()

    def change(first):
        for number in range(COUNT):
            query = f"query-{number}"
            attempt = AttemptKey(number, f"token-{first}")
            for stage in range(2):
                place = Stage(number + stage, 1, 1, 1, 1)
                state.add_stage(BatchKey(query, first + 2), attempt, place)
            state.commit(
                BatchKey(query, first),
                (number,),
                Progress(first, number, 1, {first: Contents(1, 1)}),
                ["broker-b", "broker-c"],
            )
            state.published(BatchKey(query, 0), number, 0, 1)
            state.prepare(BatchKey(query, first + 2), 1, (number,))
            state.notified(BatchKey(query, 0), ["broker-b"])

    return state, change


def receiving():
    state = ReceiveTable(ConsumerOffsets(now_ms=lambda: 0), lambda: None)

    def change(first):
        for number in range(COUNT):
            group, queue = f"group-{number % 100}", queue_of(number)
            if not first:
                state.apply(ReceiveEvent(EventKind.BEGIN, group, queue))
            state.apply(
                ReceiveEvent(
                    EventKind.HAND,
                    group,
                    queue,
                    ranges=np.array([[0, 3]], np.int64),
                    serial=number + 1,
                    until_ms=1000 + first,
                    offset=3,
                    attempts=np.ones(1, np.int32),
                )
            )

    return state, change


STATES = (sequences, transactions, returns, redriven, batches, receiving)
"""The states over the log, each with a function that changes all of it."""


def saved():
    """The contents of files, as JSON: of the states over the log, and of tables beside it."""
    documents = []
    for filled in STATES:
        state, change = filled()
        change(0)
        documents.append(state.snapshot(7)())
    offsets = ConsumerOffsets(now_ms=lambda: 1)
    locks = QueueLocks(monotonic=lambda: 0, now_ms=lambda: 1, lease_seconds=60)
    suspicions = Suspicions()
    topics = TopicTable(now_ms=lambda: 1, default_queue_count=4)
    groups = ConsumerGroups(now_ms=lambda: 1)
    for number in range(20):
        group, queue = f"group-{number}", queue_of(number)
        offsets.reset(group, queue, number)
        at_once(locks.lock(group, "client", [queue]))
        suspicions.put(GroupQueue(group, queue), Suspicion(watched_end=number))
        topics.put(TopicConfig(topic=f"topic-{number}", read_queue_count=1, write_queue_count=1))
        groups.put(GroupConfig(consumer_group=group))
    documents += [each.document() for each in (offsets, locks, suspicions)]
    documents += [each.document_with() for each in (topics, groups)]
    return json.dumps(documents)


def lines_of(call):
    """What a call returns, and how many lines of our modules it ran."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if not frame.f_globals.get("__name__", "").startswith("ariane"):
            return None
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        found = call()
    finally:
        sys.settrace(None)
    return found, count


@pytest.mark.parametrize("filled", STATES)
def test_a_snapshot_is_short_and_of_its_place(filled):
    state, change = filled()
    change(0)
    before = json.dumps(state.snapshot(7)())
    taken, lines = lines_of(lambda: state.snapshot(7))
    change(1)
    assert lines <= LINES_MAX
    # What a thread makes of it is of the place of the snapshot, whatever came behind it.
    assert json.dumps(taken()) == before != json.dumps(state.snapshot(7)())
    again, _ = filled()
    assert again.load(json.loads(before)) == 7
    assert json.dumps(again.snapshot(7)()) == before


def test_what_is_saved_depends_on_no_salt_of_a_process():
    code = "from services.broker.tests.log import test_snapshots; print(test_snapshots.saved())"
    salt = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    child = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[4],
        env={**os.environ, "PYTHONHASHSEED": salt},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    assert child.stdout.strip() == saved()
