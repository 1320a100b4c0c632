"""What lies on the disks in the end: all brokers lose power once more, and their stores are read.

Consumers forget what they are done with. A store must not: what was acknowledged or delivered lies
where it was said to lie, and brokers in sync have the same octets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from ariane_storage.errors import RecordCorrupted, RecordNotFound, StorageError
from ariane_storage.store import Store
from ariane_storage.testing.fixed_clock import FixedClock
from played_world.oracle import SHOWN_MAX
from played_world.programs.services import STORE, broker_settings
from played_world.steps import id_in_set, set_row

if TYPE_CHECKING:
    from ariane_storage.testing.faulty_disk import FaultyDisk
    from played_world.history import History, Place
    from played_world.programs.stage import Role, Stage


def autopsy(stage: Stage) -> list[str]:
    """All that is wrong with what the disks have, in words."""
    row = set_row(stage) if stage.is_set else None
    known = places(stage.history)
    words: list[str] = []
    logs: list[tuple[str, int, bytes]] = []
    for role in stage.of_kind("broker"):
        if row is not None and id_in_set(role) not in row["in_sync"]:
            continue  # Nobody relies on what it has.
        own = known if row is not None else _at(known, role.name)
        disk = role.machine.content.copy().lose_power(role.machine.health.order.getrandbits(32))
        try:
            with _opened(role, disk) as store:
                words += examine(role.name, store, own)
                words += revived(role.name, store, stage.history)
                if row is not None:
                    words += short(role.name, store.min_offset, store.max_offset, row)
                    logs.append((role.name, store.min_offset, _octets(store)))
        except (StorageError, OSError) as error:
            words.append(f"unreadable: the store of {role.name}: {error}")
    return [*words, *different(logs)]


def places(history: History) -> dict[Place, str]:
    """What must lie where: all that was acknowledged or delivered, but of deleted topics."""
    known = {
        sent.place: sent.value
        for sent in history.acknowledged
        if sent.place is not None and sent.topic not in history.deletions
    }
    for got in history.delivered:
        topic = got.place.topic
        if not topic.startswith("%") and topic not in history.deletions:
            known.setdefault(got.place, got.value)
    return known


def examine(name: str, store: Store, known: Mapping[Place, str]) -> list[str]:
    """What a store lacks of what must lie in it, and what is damaged in it."""
    words = [f"damaged: {name} from {one.begin} to {one.end}" for one in store.damage]
    gone = [place for place, value in known.items() if not _is_there(store, place, value)]
    if gone:
        shown = ", ".join(f"{known[place]!r} at {place}" for place in gone[:SHOWN_MAX])
        words.append(f"gone: {name} lacks {len(gone)} after a loss of power: {shown}")
    return words


def short(name: str, begin: int, end: int, row: Mapping[str, Any]) -> Iterator[str]:
    """What the log of a broker in sync lacks of that which its set relies on."""
    if begin > row["begin"]:
        yield f"short: {name}, in sync, begins at {begin}, its set at {row['begin']}"
    if end < row["confirmed"]:
        yield f"short: {name}, in sync, ends at {end}, confirmed is {row['confirmed']}"


def revived(name: str, store: Store, history: History) -> Iterator[str]:
    """Messages of deleted topics that a store has in a queue of the same name."""
    for topic, queue_id in store.queues():
        done = [one for one in history.deletions.get(topic, ()) if one.end_s < inf]
        begin, end = store.queue_bounds(topic, queue_id)
        if not done or begin == end:
            continue
        for entry in store.queue_entries(topic, queue_id, begin, max_count=end - begin):
            try:
                value = store.message_at(int(entry["commit_log_offset"])).body.decode()
            except (RecordNotFound, RecordCorrupted):
                continue
            sent = history.sent.get(value)
            if sent is None or sent.outcome != "acknowledged":
                continue
            if any(sent.told_s < deletion.begin_s for deletion in done):
                yield f"revived: {name} has {value!r} of {sent.told_s:.3f} s in {topic}/{queue_id}"
                break


def _opened(role: Role, disk: FaultyDisk) -> Store:
    config = broker_settings(role.machine).store_config()
    return Store.open(STORE, config, disk=disk, clock=FixedClock(role.stage.now_ms))


def _at(known: Mapping[Place, str], broker: str) -> dict[Place, str]:
    return {place: value for place, value in known.items() if place.broker == broker}


def _is_there(store: Store, place: Place, value: str) -> bool:
    """Whether a message lies at its place, or was deleted for lack of space."""
    topic, _, queue_id, offset = place
    begin, _ = store.queue_bounds(topic, queue_id)
    if offset < begin:
        return True
    entries = store.queue_entries(topic, queue_id, offset, max_count=1)
    if not len(entries):
        return False
    try:
        found = store.message_at(int(entries["commit_log_offset"][0]))
    except (RecordNotFound, RecordCorrupted):
        return False
    is_its_place = (found.topic, found.queue_id, found.queue_offset) == (topic, queue_id, offset)
    return is_its_place and found.body == value.encode()


def _octets(store: Store) -> bytes:
    """The log, up to where a part of it is missing."""
    octets = bytearray()
    while read := store.copying.read(store.min_offset + len(octets), store.max_offset):
        octets += read
    return bytes(octets)


def different(logs: list[tuple[str, int, bytes]]) -> Iterator[str]:
    """Where two copies of a log differ, as far as both have it."""
    for (one, one_begin, one_octets), (other, other_begin, other_octets) in pairwise(logs):
        begin = max(one_begin, other_begin)
        end = min(one_begin + len(one_octets), other_begin + len(other_octets))
        parts = one_octets[begin - one_begin : end - one_begin], other_octets[begin - other_begin :]
        if parts[0] != parts[1][: end - begin]:
            pairs = zip(*parts, strict=False)
            place = next(place for place, (this, that) in enumerate(pairs) if this != that)
            yield f"unequal: the logs of {one} and {other} differ at {begin + place}"
