"""Faults to plant, one at a time: mends that are taken back, and mistakes that were never made.

The list was closed before the first of them was played; README.md says what became of each.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_BROKER: Final = "services/broker/src/ariane_broker/"
_SDK: Final = "sdk/python/src/ariane_sdk/"
_STORAGE: Final = "storage/src/ariane_storage/"


class Planted(NamedTuple):
    """A fault: a piece of a file of the house, and what stands there instead."""

    name: str
    """For the command line."""
    breaks: str
    """What goes wrong, for people."""
    path: str
    """The file, from the root of the repository."""
    right: str
    """What stands there; once in the file."""
    wrong: str
    """What stands there with the fault."""


MENDS: Final = (
    Planted(
        "start-in-new-queues",
        "a late group begins with the newest message in a queue that its topic got meanwhile",
        _SDK + "consumer/offsets/group_start.py",
        "return set()\n"
        '        return await self._begin_at(broker, dict.fromkeys(fresh, "earliest"))',
        "return set()\n"
        "        return await self._begin_at(broker, dict.fromkeys(fresh, self._start))",
    ),
    Planted(
        "offsets-fall",
        "what a former owner stores late puts a group back",
        _BROKER + "consuming/offset_changes.py",
        "if known is None or wanted.consumer_offset > known or wanted.rule is StoreRule.MOVE:",
        "if wanted is not None:",
    ),
    Planted(
        "epochs-told-early",
        "clients learn of the epoch of a deletion that a kill takes back",
        _BROKER + "clients/room.py",
        "    epochs.reserve()\n    await save(epochs.document())\n    await copied()\n",
        "    epochs.reserve()\n",
    ),
    Planted(
        "delayed-of-deleted-topics",
        "a delayed message of a deleted topic comes to the next one of its name",
        _BROKER + "delay/delivery.py",
        "parked.orphans(self._log.store.deleted_end)",
        "parked.orphans(lambda _: 0)",
    ),
    Planted(
        "halves-of-deleted-topics",
        "a half message of a deleted topic comes to the next one of its name",
        _BROKER + "transactions/ending.py",
        "if half.commit_log_offset < self.log.store.deleted_end(half.topic):",
        "if half is None:",
    ),
    Planted(
        "retries-of-deleted-topics",
        "what came back for a retry comes to the next topic of its name",
        _BROKER + "filters/living_origins.py",
        "if not deleted_ends or not topic.startswith(RETRY_PREFIX):",
        "if topic:",
    ),
    Planted(
        "stop-iteration",
        "a queue stands still for ever when a plain listener raises StopIteration",
        _SDK + "client/listener.py",
        """for_thread(cast("Callable[[list[ReceivedMessage]], object]", listener))""",
        """cast("Callable[[list[ReceivedMessage]], object]", listener)""",
    ),
    Planted(
        "delay-by-senders-clock",
        "a delay ends early when the sender's clock is behind",
        _SDK + "checks/delay.py",
        "    if message.delay is not None:\n        return AFTER_DELAYS\n",
        "    if message.delay is not None:\n        return AT_TIMES\n",
    ),
    Planted(
        "replicas-delete",
        "a replica deletes fresh messages when its own disk is full",
        _BROKER + "log/room.py",
        "return Copying(set_begin, always) if set_begin is not None else None",
        "return None",
    ),
    Planted(
        "stores-put-back",
        "a store that was put back to an earlier state stays in sync",
        _BROKER + "following/standing.py",
        "return is_counted and (is_pressed or self._may_lack(found) or self._lost_store(found))",
        "return is_counted and (is_pressed or self._may_lack_end or self._log().is_damaged)",
    ),
    Planted(
        "beginnings-unshared",
        "where a group begins, and where it was reset to, is lost with its primary",
        _BROKER + "consuming/offset_changes.py",
        "        await self._saved.save()\n        await self._replicate()\n",
        "        await self._saved.save()\n",
    ),
    Planted(
        "cut-while-in-sync",
        "a replica cuts its damaged end while the set relies on it",
        _BROKER + "following/replica_client.py",
        "        if self._is_relied_on():\n            return False\n",
        "",
    ),
    Planted(
        "unshared-epochs",
        "clients learn the epoch of a primary that no other broker has heard of",
        _BROKER + "log/log_epochs.py",
        "return self.current if self._was_shared else 0",
        "return self.current",
    ),
    Planted(
        "locks-of-none",
        "a queue that is not there costs a member the locks of all others",
        _BROKER + "consuming/queue_locking.py",
        "if error.row.name not in _UNREADABLE:",
        "if error.row.name:",
    ),
    Planted(
        "all-topics-of-all-brokers",
        "who receives asks each broker for all topics, and gets nothing where one is missing",
        _SDK + "consumer/receiving/asked_brokers.py",
        "receive_request(self._order_at(broker), hold_s, count_max)",
        "receive_request(self._order, hold_s, count_max)",
    ),
    Planted(
        "damaged-copies-in-sync",
        "a replica that has lost a part of its log stays in sync",
        _BROKER + "following/standing.py",
        "return self._may_lack_end or log.is_damaged or is_shorter or is_earlier",
        "return is_earlier",
    ),
    Planted(
        "deletions-copied-early",
        "a replica brings back the last messages of a deleted topic",
        _BROKER + "following/state_pulls.py",
        "return max(deleted_topics.values(), default=0) <= end",
        "return True",
    ),
    Planted(
        "queues-closed-late",
        "a queue takes messages while it is being closed, and nobody gets them",
        _BROKER + "topics/topic_changes.py",
        "        if config.read_queue_count < before.read_queue_count:\n",
        "        if config.read_queue_count == 0:\n",
    ),
)
"""Mends of earlier faults, each taken back."""

MISTAKES: Final = (
    Planted(
        "no-flush",
        "sends are acknowledged before the disk has them",
        _BROKER + "log/group_flush.py",
        "flushed_offset = self._store.flush()",
        "flushed_offset = self._store.max_offset",
    ),
    Planted(
        "repeats-stored",
        "a batch that comes again is stored again",
        _BROKER + "log/derived/producer_sequences.py",
        "            if same_numbers and is_same(batch):\n                return batch\n",
        "            if same_numbers and is_same(batch):\n                return None\n",
    ),
    Planted(
        "locks-taken-away",
        "a queue lock is given to whoever asks for it",
        _BROKER + "groups/queue_locks.py",
        "        if self._is_dead(lock, now):\n            return True\n        return",
        "        if self._is_dead(lock, now):\n            return True\n        return True or",
    ),
    Planted(
        "locks-for-ever",
        "a member relies on its locks for ever",
        _SDK + "consumer/group/queue_locks.py",
        "return lock is not None and self._clock.monotonic_s() < lock.good_until_s",
        "return lock is not None",
    ),
    Planted(
        "offsets-ahead",
        "a member stores an offset beyond what its listener has in work",
        _SDK + "consumer/delivery/window.py",
        "return self._in_work[0].unfinished_offset",
        "return self.taken_end",
    ),
    Planted(
        "settled-in-memory",
        "a receipt is acknowledged before the disk has it",
        _BROKER + "receive/in_hand/receive_log.py",
        "await self._log.promised()",
        "return",
    ),
    Planted(
        "decided-twice",
        "a transaction that was ended is forgotten, and may be ended again",
        _BROKER + "transactions/ending.py",
        "                self.table.decided(\n"
        "                    Decision(half.transaction_id, half.topic, Outcome.COMMIT, "
        "commit_log_offset)\n"
        "                )\n",
        "",
    ),
    Planted(
        "confirmed-by-none",
        "a set acknowledges what no replica has",
        _BROKER + "replication/confirmation.py",
        "if commit_log_offset <= self.confirmed:",
        "if commit_log_offset:",
    ),
    Planted(
        "anybody-elected",
        "a replica is elected that was not in sync",
        _BROKER + "replication/replica_set.py",
        "return broker_id in self.in_sync",
        "return broker_id in self.addresses",
    ),
    Planted(
        "failures-forgotten",
        "what a listener fails on counts as done",
        _SDK + "consumer/delivery/queue_work.py",
        "return await self._try_again(delivery, left, error, tries)",
        "return True",
    ),
    Planted(
        "recovery-skips",
        "a start after a crash finds no message that was flushed and not yet in its queue",
        _STORAGE + "recovery/recovery.py",
        "begin = max(lowest, self.checkpoint.dispatched_offset)",
        "begin = max(lowest, self.checkpoint.flushed_offset)",
    ),
    Planted(
        "delayed-early",
        "a delayed message comes a second early",
        _BROKER + "delay/timer/timer_queue.py",
        "self._window.take_due(self._now_ms(), count)",
        "self._window.take_due(self._now_ms() + 1000, count)",
    ),
    Planted(
        "flushed-too-far",
        "what was written during a flush passes for flushed",
        _STORAGE + "log/commit_log.py",
        "            self.flushed_offset = target\n",
        "            self.flushed_offset = self.write_offset\n",
    ),
    Planted(
        "cut-in-memory",
        "the end that a replica has cut comes back with a crash",
        _STORAGE + "log/commit_log.py",
        "            self._disk.cut(last.path, commit_log_offset - last.start)\n",
        "",
    ),
    Planted(
        "lease-from-the-answer",
        "a primary counts its lease from when the database has answered",
        _BROKER + "replication/reign.py",
        "self._lease_end_s = begin_s + self._lease_s",
        "self._lease_end_s = self._monotonic() + self._lease_s",
    ),
    Planted(
        "acknowledged-without-lease",
        "a primary whose lease is over acknowledges",
        _BROKER + "replication/confirmation.py",
        "on_done(None if self._holds() else replication_unconfirmed())",
        "on_done(None)",
    ),
    Planted(
        "queues-of-nobody",
        "some queues are nobody's when the members of a group do not divide them evenly",
        _SDK + "consumer/group/allocation.py",
        "return queues[begin : begin + share + (position < remainder)]",
        "return queues[begin : begin + max(1, share)]",
    ),
    Planted(
        "given-back-is-done",
        "a message that a receiver gives back counts as settled",
        _BROKER + "receive/settling.py",
        "        if isinstance(outcome, Done):\n",
        "        if not isinstance(outcome, (Hidden, Kept)):\n",
    ),
    Planted(
        "left-alone-is-lost",
        "a message that a receiver left alone does not come again",
        _BROKER + "receive/in_hand/queue_window.py",
        """return np.flatnonzero(self.rows["until_ms"] <= now_ms)""",
        """return np.flatnonzero((self.rows["until_ms"] <= now_ms) & (self.rows["serial"] == 0))""",
    ),
    Planted(
        "halves-forgotten",
        "a start after a crash forgets half messages",
        _BROKER + "transactions/transaction_table.py",
        "            if half is not None:\n                self.stored(half)\n",
        "            if half is not None and half.parked:\n                self.stored(half)\n",
    ),
    Planted(
        "delayed-again",
        "a start after a crash delivers again what was delivered",
        _BROKER + "delay/timer/timer_queue.py",
        "        mark_origins(self._store, TIMER_QUEUE, self._progress, origins)\n",
        "",
    ),
)
"""Mistakes that nobody has made here."""

PLANTED: Final = {each.name: each for each in (*MENDS, *MISTAKES)}
