"""Work for many clients or messages of a group: other calls have their turns in between."""

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from ariane_broker.groups.consumer_groups import ConsumerGroups
from ariane_broker.groups.consumer_offsets import ConsumerOffsets
from ariane_broker.queue_key import QueueKey
from ariane_broker.receive.dead_letters import DeadLetters
from ariane_broker.receive.in_hand import receive_table
from ariane_broker.receive.in_hand.receive_events import EventKind, ReceiveEvent
from ariane_broker.receive.in_hand.receive_table import ReceiveTable
from ariane_broker.receive.upkeep import ReceiveUpkeep
from ariane_record.names import retry_topic
from ariane_servicekit import EXAMINED_MAX
from ariane_storage.queues.consume_queue_entry import ENTRY

GROUP, QUEUE = "billing", QueueKey(retry_topic("billing"), 0)
COUNT = 5 * EXAMINED_MAX
NOW_MS = 1_800_000_000_000


class Log:
    """Changes that are written, and the turns of the loop in which each was."""

    def __init__(self, table):
        self._table = table
        self.turns = []

    def write(self, events):
        self.turns.append(1)
        for event in events:
            self._table.apply(event)

    def window(self, group, queue):
        return self._table.window(group, queue)


def event(kind, first=0, count=COUNT, **fields):
    ranges = np.array([[first, count]], np.int64)
    return ReceiveEvent(kind, GROUP, QUEUE, ranges=ranges, **fields)


@pytest.fixture
def table():
    table = ReceiveTable(ConsumerOffsets(now_ms=lambda: NOW_MS), lambda: None)
    table.apply(ReceiveEvent(EventKind.BEGIN, GROUP, QUEUE))
    hand_out(table)
    return table


def hand_out(table, count=COUNT):
    handed = event(
        EventKind.HAND,
        count=count,
        serial=NOW_MS * receive_table.SERIALS_PER_MS,
        until_ms=NOW_MS + 1000,
        offset=count,
        attempts=np.ones(1, np.int32),
    )
    table.apply(handed)


def keep(table, number):
    """Each message has a client of its own, which keeps it."""
    holder = b"client-%d" % number
    table.apply(event(EventKind.HIDE, number, 1, until_ms=NOW_MS + 1000, holder=holder))


async def most_in_a_turn(work, marks):
    """The most marks that one turn of the loop adds."""
    steps, task = [0], asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        steps.append(len(marks))
    await task
    return max(np.diff(steps))


async def test_renewals_for_many_clients_let_other_calls_run(table):
    for number in range(COUNT):
        keep(table, number)
    log = Log(table)
    upkeep = ReceiveUpkeep(
        log,
        table,
        SimpleNamespace(call=None),
        None,
        groups=ConsumerGroups(now_ms=lambda: NOW_MS),
        clients=SimpleNamespace(find=lambda name: name),
        held=SimpleNamespace(wake=None),
        now_ms=lambda: NOW_MS,
    )
    assert 0 < await most_in_a_turn(upkeep.turn(), log.turns) <= EXAMINED_MAX
    assert len(log.turns) == COUNT
    assert (table.window(GROUP, QUEUE).rows["until_ms"] > NOW_MS + 1000).all()


def test_a_group_that_is_done_is_looked_at_once_more_and_then_not_until_it_receives(table):
    table.apply(event(EventKind.SETTLE))
    assert [list(table.unsettled()) for _ in range(2)] == [[None], []]
    more = event(
        EventKind.HAND,
        COUNT,
        1,
        serial=(NOW_MS + 1) * receive_table.SERIALS_PER_MS,
        until_ms=NOW_MS + 1000,
        offset=COUNT + 1,
        attempts=np.ones(1, np.int32),
    )
    table.apply(more)
    [(group, queue, _)] = table.unsettled()
    assert (group, queue) == (GROUP, QUEUE)


async def test_messages_that_a_reset_took_meanwhile_are_not_renewed(table):
    for number in range(COUNT):
        keep(table, number)
    upkeep = ReceiveUpkeep(
        log := Log(table),
        table,
        SimpleNamespace(call=None),
        None,
        groups=ConsumerGroups(now_ms=lambda: NOW_MS),
        clients=SimpleNamespace(find=lambda name: name),
        held=SimpleNamespace(wake=None),
        now_ms=lambda: NOW_MS,
    )
    work = upkeep._look(0, NOW_MS)
    next(work)
    table.apply(event(EventKind.SETTLE, 2, COUNT))
    list(work)
    assert len(log.turns) == 2


def test_clients_that_hold_messages_are_not_gone_through_for_each_more(table, monkeypatch):
    monkeypatch.setattr(receive_table, "_HOLDERS_MAX", 100)
    looked = []
    unique = np.unique
    monkeypatch.setattr(np, "unique", lambda rows: looked.append(1) or unique(rows))
    table._holders = receive_table._Holders()
    for number in range(COUNT):
        keep(table, number)
    # At 100, at 200, ...
    assert 1 <= len(looked) <= 3
    names = {table.holder(number) for number in table.window(GROUP, QUEUE).rows["holder"]}
    assert names == {f"client-{number}" for number in range(COUNT)}


async def test_copies_are_read_in_turns_before_they_become_dead_letters(table):
    read, gone = [], []

    async def take_back(failure, places):
        gone.extend((place.commit_log_offset, failure.local_attempts) for place in places)
        return [None] * len(places)

    async def handed_out(places):
        pass

    def message_at(commit_log_offset):
        read.append(commit_log_offset)
        return SimpleNamespace(attempts=0)

    def queue_entries(topic, queue_id, begin, max_count):
        entries = np.zeros(max_count, ENTRY)
        entries["commit_log_offset"] = np.arange(begin, begin + max_count) * 100
        return entries

    letters = DeadLetters(
        SimpleNamespace(
            queue_bounds=lambda *_: (0, COUNT), queue_entries=queue_entries, message_at=message_at
        ),
        Log(table),
        table,
        SimpleNamespace(take_back=take_back, handed_out=handed_out),
        now_ms=lambda: NOW_MS,
    )
    offsets = np.arange(0, COUNT, dtype=np.int64)
    work = letters.bury(GROUP, QUEUE, offsets, reason="REJECTED")
    assert 0 < await most_in_a_turn(work, read) <= EXAMINED_MAX
    assert gone == [(offset * 100, 0) for offset in range(COUNT)]
    assert len(table.window(GROUP, QUEUE)) == 0
