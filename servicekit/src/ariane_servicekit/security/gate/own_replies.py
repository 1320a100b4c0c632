"""Replies: a requester reads those to its own client id, and needs no right to read all of them.

All replies of a cluster go to one topic, each with the id of the client that waits as its tag. Who
pulls with that tag alone reads the replies to one client. An id is whose who reads by it first, and
for as long as he does; ids have random parts, and responders see them only in requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from ariane.common.v1.subscription_pb2 import FILTER_KIND_TAG
from ariane_record.names import REPLY_GROUP, REPLY_SUFFIX

SILENCE_MS_MAX: Final = 120_000
"""Inboxes pull every few seconds; after such a silence, another user may read by an id."""

READERS_MAX: Final = 100_000
READERS_OF_USER_MAX: Final = 1000

_PULLS: Final = frozenset(
    f"ariane.broker.v1.{name}Request" for name in ("PullRecords", "PullMessages", "StreamPulls")
)


class OwnReplies(NamedTuple):
    """A pull of replies to one client."""

    client_id: str
    """The client."""
    topics: frozenset[str]
    """The topics with replies."""


def own_replies(request: Any) -> OwnReplies | None:
    """What a request pulls if that is replies to its own client only; None for all else."""
    if request.DESCRIPTOR.full_name not in _PULLS:
        return None
    pull = getattr(request, "pull", request)
    tag = pull.client_id
    # One tag as it is in records: an expression would mean all, or others as well, and the spaces
    # around a tag mean nothing, so that " a" would read what is for "a".
    if pull.consumer_group != REPLY_GROUP or tag in {"", "*"} or "|" in tag or tag != tag.strip():
        return None
    topics = frozenset(position.topic for position in pull.positions)
    wanted = [(each.topic, each.filter.kind, each.filter.text) for each in pull.subscriptions]
    is_own = (
        all(topic.endswith(REPLY_SUFFIX) for topic in topics)
        and len(wanted) == len(topics) > 0
        and set(wanted) == {(topic, FILTER_KIND_TAG, tag) for topic in topics}
    )
    return OwnReplies(tag, topics) if is_own else None


class ReplyReaders:
    """Who reads replies by which client id; bounded."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._readers: dict[str, tuple[str, int]] = {}
        self._counts: Counter[str] = Counter()
        self._cleaned_ms = 0

    def admits(self, user: str, client_id: str) -> bool:
        """Whether a user may read the replies to a client; they are his from now on."""
        now_ms = self._now_ms()
        present = self._readers.get(client_id)
        if present is not None and present[0] != user:
            if now_ms - present[1] <= SILENCE_MS_MAX:
                return False
            self._forget(client_id)
            present = None
        if present is None:
            if not self._has_room(user, now_ms):
                return False
            self._counts[user] += 1
        self._readers[client_id] = user, now_ms
        return True

    def _has_room(self, user: str, now_ms: int) -> bool:
        if self._is_full(user) and now_ms - self._cleaned_ms > SILENCE_MS_MAX // 10:
            self._cleaned_ms = now_ms
            for client_id, (_, heard_ms) in list(self._readers.items()):
                if now_ms - heard_ms > SILENCE_MS_MAX:
                    self._forget(client_id)
        return not self._is_full(user)

    def _is_full(self, user: str) -> bool:
        return len(self._readers) >= READERS_MAX or self._counts[user] >= READERS_OF_USER_MAX

    def _forget(self, client_id: str) -> None:
        user, _ = self._readers.pop(client_id)
        self._counts[user] -= 1
        if not self._counts[user]:
            del self._counts[user]
