"""What must hold of a history: a few lines for each promise of docs/promises.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from played_world.history import Delivered, History, Place, Sent, Told

SHOWN_MAX: Final = 3

RESET_TAKES_S: Final = 60.0
"""For how long what was in hand when a group was set back may still be settled."""

IN_HAND_S: Final = 20.0
"""For how long a client may have had in hand what it got of a topic that was deleted."""

HELD_UP_S: Final = 75.0
"""The same where clients were held up for longer than listeners take."""

LOCKING: Final = frozenset({"_take_over", "_renew_at"})
"""The functions of the SDK that ask for the locks of several queues."""

GONE: Final = frozenset({"QUEUE_NOT_FOUND", "TOPIC_NOT_FOUND", "TOPIC_NOT_READABLE"})
"""Why a queue cannot be locked that is not there."""


def nothing_is_lost(history: History) -> Iterator[str]:
    """What was acknowledged reaches every group."""
    for group in history.groups:
        missing = history.missing(group)
        if missing:
            yield f"lost: {group} lacks {len(missing)}: {_shown(missing)}"


def every_group_begins(history: History) -> Iterator[str]:
    """A group that begins with the newest messages gets queues: until then it lacks nothing."""
    for group in history.not_begun:
        yield f"never begun: {group} has got no queue"


def nothing_comes_from_nowhere(history: History) -> Iterator[str]:
    """Nobody gets what nobody has sent, or what was surely refused."""
    for got in history.delivered:
        sent = history.sent.get(got.value)
        if sent is None:
            yield f"phantom: {got.group} got {got.value!r}, which nobody has sent"
        elif sent.outcome in ("refused", "rolled back"):
            yield f"{sent.outcome}-but-stored: {got.group} got {got.value!r} at {got.place}"


def an_offset_has_one_meaning(history: History) -> Iterator[str]:
    """All who see an offset of a queue see the same message."""
    values: dict[Place, str] = {}
    for sent in history.acknowledged:
        if sent.topic in history.deletions:
            continue  # Each topic of the name begins anew.
        if sent.place is not None and values.setdefault(sent.place, sent.value) != sent.value:
            both = f"{values[sent.place]!r} and {sent.value!r}"
            yield f"inconsistent-offset: {sent.place} was told for {both}"
    for got in history.delivered:
        if got.place.topic in history.deletions:
            continue
        if values.setdefault(got.place, got.value) != got.value:
            yield f"inconsistent-offset: {got.place} is {values[got.place]!r} and {got.value!r}"


def nothing_is_stored_twice(history: History) -> Iterator[str]:
    """A message lies in one place of its topic."""
    places: dict[tuple[str, str], Place] = {}
    for sent in history.acknowledged:
        if sent.place is not None and sent.topic not in history.deletions:
            places[sent.topic, sent.value] = sent.place
    for got in history.delivered:
        if got.place.topic.startswith("%") or got.place.topic in history.deletions:
            continue  # Sent back by its group, or sent again to a new topic: another place.
        before = places.setdefault((got.place.topic, got.value), got.place)
        if before != got.place:
            yield f"duplicate: {got.value!r} at {before} and {got.place}"


def queues_are_consumed_in_order(history: History) -> Iterator[str]:
    """A group in order gets nothing of a queue before all that lies before it."""
    newest: dict[tuple[str, str, str, int], int] = {}
    for got in history.delivered:
        if got.group in history.ordered:
            topic, broker, queue_id, offset = got.place
            key = (got.group, topic, broker, queue_id)
            expected = newest.get(key, -1) + 1
            if offset > expected and key in newest:
                yield f"leap: {got.group} at {got.at_s:.3f} s: {got.place} after {expected - 1}"
            newest[key] = max(offset, expected - 1)


def message_groups_stay_in_order(history: History) -> Iterator[str]:
    """In a queue, messages of one message group lie as they were sent."""
    newest: dict[tuple[str, str, str, int], Sent] = {}
    seen: set[tuple[str, str]] = set()
    for got in history.delivered:
        sent = history.sent.get(got.value)
        if sent is None or not sent.group or (got.group, got.value) in seen:
            continue
        seen.add((got.group, got.value))
        if got.group not in history.ordered:
            continue
        queue = (got.group, sent.group, got.place.broker, got.place.queue_id)
        before = newest.get(queue)
        if before is not None and before.number > sent.number and sent.outcome == "acknowledged":
            yield f"overtaken: {got.group} got {sent.value!r} after {before.value!r}"
        if before is None or before.number < sent.number:
            newest[queue] = sent


def nothing_is_early(history: History) -> Iterator[str]:
    """Nobody gets a delayed message before its time, by the clock of its broker."""
    for got in history.delivered:
        sent = history.sent.get(got.value)
        if sent is not None and got.at_s < sent.due_s * history.pace - history.set_ahead_s:
            yield f"early: {got.value!r} by {sent.due_s - got.at_s:.3f} s"


def what_is_settled_stays_so(history: History) -> Iterator[str]:
    """A message whose receipt was acknowledged is not received again by its group."""
    for got in history.delivered:
        settled_s = history.settled.get((got.group, got.value))
        if settled_s is not None and got.at_s > settled_s:
            topic = history.sent[got.value].topic  # It may have come back by another one.
            if history.was_reset(got.group, topic, settled_s - RESET_TAKES_S, got.at_s):
                continue
            yield f"returned: {got.value!r} to {got.group} at {got.at_s:.3f} s, {settled_s:.3f} s"


def offsets_never_fall(history: History) -> Iterator[str]:
    """While a broker lives, a consumer offset falls only where an operator sets it back."""
    newest: dict[tuple[str, tuple[str, str, int]], Told] = {}
    for told in history.offsets:
        before = newest.get((told.group, told.queue))
        newest[told.group, told.queue] = told
        if before is None or before.process_id != told.process_id or told.offset >= before.offset:
            continue
        topic = told.queue[0]
        was_reset = history.was_reset(told.group, topic, before.at_s - RESET_TAKES_S, told.at_s)
        if not was_reset and topic not in history.deletions:
            yield (
                f"fell: {told.group} in {told.queue} from {before.offset} at {before.at_s:.3f} s "
                f"to {told.offset} at {told.at_s:.3f} s"
            )


def what_is_set_back_comes_again(history: History) -> Iterator[str]:
    """What a group had got before it was set back, from there on, comes once it was asked for.

    Nobody outside knows when the broker has done it. What comes between question and answer may be
    of the time before; it counts as what comes again, for it may be that as well.
    """
    newest: dict[tuple[str, str, str, int], tuple[float, int]] = {}
    for begin_s, group, place in history.moves:
        newest[group, *place[:3]] = begin_s, place.offset
    got: dict[tuple[str, str, str, int], list[Delivered]] = {}
    for each in history.delivered:
        got.setdefault((each.group, *each.place[:3]), []).append(each)
    for queue, (begin_s, offset) in newest.items():
        group, topic = queue[:2]
        if history.was_reset(group, topic, begin_s) or topic in history.deletions:
            continue  # Nobody knows from where on it gets all then.
        before = [one.place.offset for one in got.get(queue, ()) if one.at_s < begin_s]
        again = {one.place.offset for one in got.get(queue, ()) if one.at_s >= begin_s}
        lacking = sorted(one for one in set(before) - again if one >= offset)
        if lacking:
            yield (
                f"forgotten: {group} was set back to {offset} of {queue[1:]} at {begin_s:.3f} s "
                f"and has not got {lacking[0]} again"
            )


def every_position_is_kept(history: History) -> Iterator[str]:
    """A broker refuses no position of a reader: it knows all that was read, and by whose epoch."""
    for _, reason, topic, words in history.refusals:
        if reason == "QUEUE_CUT" and topic not in history.deletions:
            yield f"cut: {words}"


def locks_are_renewed_one_by_one(history: History) -> Iterator[str]:
    """A queue that is not there costs a member no lock of another queue."""
    for what, reason, topic, words in history.refusals:
        # Of a deleted topic even who needs no locks is refused the offsets.
        if what in LOCKING and reason in GONE and topic not in history.deletions:
            yield f"locks: {words}"


def nothing_is_left(history: History) -> Iterator[str]:
    """Brokers say that groups have nothing left when all have got everything."""
    if history.lags is None:
        yield "lag: nobody tells it at the end"
    for place, count in (history.lags or {}).items():
        yield f"lag: {count} of {place}, who has got everything"


def what_is_deleted_stays_so(history: History) -> Iterator[str]:
    """Nothing of a deleted topic comes to a later one of its name."""
    for got in history.delivered:
        sent = history.sent.get(got.value)
        if sent is None or sent.outcome != "acknowledged":
            continue
        for deletion in history.deletions.get(sent.topic, ()):
            due_s = sent.due_s * history.pace - history.set_ahead_s
            in_hand_s = HELD_UP_S if history.was_held_up else IN_HAND_S
            gone_s = deletion.end_s + (0.0 if due_s > deletion.end_s else in_hand_s)
            if sent.told_s < deletion.begin_s and got.at_s > gone_s:
                yield (
                    f"revived: {got.group} at {got.at_s:.3f} s got {got.value!r} of "
                    f"{sent.told_s:.3f} s, deleted until {deletion.end_s:.3f} s"
                )


PROMISES: tuple[Callable[[History], Iterator[str]], ...] = (
    nothing_is_lost,
    every_group_begins,
    nothing_comes_from_nowhere,
    an_offset_has_one_meaning,
    nothing_is_stored_twice,
    queues_are_consumed_in_order,
    message_groups_stay_in_order,
    nothing_is_early,
    what_is_settled_stays_so,
    what_is_deleted_stays_so,
    offsets_never_fall,
    what_is_set_back_comes_again,
    every_position_is_kept,
    locks_are_renewed_one_by_one,
    nothing_is_left,
)


def anomalies(history: History) -> list[str]:
    """All that is wrong with a history: at most a few of each kind."""
    found: list[str] = []
    for promise in PROMISES:
        for number, anomaly in enumerate(promise(history)):
            if number == SHOWN_MAX:
                found.append(f"... and more that {promise.__name__} finds")
                break
            found.append(anomaly)
    return found


def _shown(messages: list[Sent]) -> str:
    shown = [f"{each.value!r} at {each.place} of {each.sent_s:.3f} s" for each in messages]
    return ", ".join(shown[:SHOWN_MAX])
