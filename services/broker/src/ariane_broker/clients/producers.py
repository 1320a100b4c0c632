"""Who sends to which topic: noted of the calls that arrive, since producers do not register.

A client says who it is in its gRPC user agent, once a connection::

    ariane-python/0.1.0 client/web-1@4711@9f2c producer-group/orders ariane-wire/0.1.0

Of others, the first word and the address tell them apart. If there are too many, the users who
have most lose their oldest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple

from ariane_record.layout import Host
from ariane_record.names import TOPIC_NAME_LENGTH_MAX
from ariane_servicekit.security.limits.fair_room import outgoing

PRODUCERS_MAX: Final = 10_000
"""How many are remembered; a producer counts once for each topic."""

SILENCE_MS_MAX: Final = 3_600_000
"""After this time without a send, a producer is not listed any more."""

_MINUTE_MS: Final = 60_000
_TEXT_MAX: Final = 256
"""Characters of a user agent that are remembered."""


class Agent(NamedTuple):
    """What a client says of itself."""

    name: str
    """Its program or library, and the version; empty if it says nothing."""
    client_id: str
    """Its client id; empty if it says none."""
    producer_group: str
    """Its producer group; empty if it says none."""


def agent_of(user_agent: str) -> Agent:
    """Read a user agent."""
    words = user_agent.split()
    agents = dict(word.split("/", 1) for word in words if "/" in word)
    name = words[0] if words else ""
    return Agent(name, agents.get("client", ""), agents.get("producer-group", ""))


@dataclass(slots=True, eq=False)
class _Client:
    """A client that sends, at the address of its last connection."""

    agent: Agent
    """What it says of itself."""
    address: Host
    """Its IP address, and the port of its last connection."""
    user: str
    """The user that its calls are made for; empty if not known."""
    minute: int
    """The minute of the clock of its last call."""
    topics: dict[str, TopicProducer] = field(default_factory=dict)
    """What it has sent, by topic."""

    def turn(self, minute: int) -> None:
        """Begin to count the messages of another minute."""
        was_last = minute == self.minute + 1
        for each in self.topics.values():
            each.in_last_minute = each.message_count - each.before if was_last else 0
            each.before = each.message_count
        self.minute = minute


@dataclass(slots=True, eq=False)
class TopicProducer:
    """Who sends to a topic."""

    topic: str
    """The topic."""
    client: _Client
    """Who it is."""
    first_ms: int
    """When the first message arrived."""
    last_ms: int = 0
    """When the last one did."""
    message_count: int = 0
    """How many arrived."""
    in_last_minute: int = 0
    """How many arrived in the minute before that of the client's last call."""
    before: int = 0
    """How many had arrived before the minute of that call."""

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Its place in lists."""
        agent = self.client.agent
        host = self.client.address[0]
        return self.topic, agent.client_id, host, agent.name, agent.producer_group

    def per_second(self, now_ms: int) -> float:
        """Messages a second in the last whole minute of the clock."""
        minutes = now_ms // _MINUTE_MS - self.client.minute
        counts = (self.in_last_minute, self.message_count - self.before)
        return counts[minutes] * 1000 / _MINUTE_MS if minutes < len(counts) else 0.0


class Producers:
    """All who have sent lately."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        """The clock."""
        self._clients: dict[tuple[str, str], _Client] = {}
        self._count = 0

    def note(
        self,
        address: Host,
        user_agent: str,
        sent: Iterable[tuple[str, int]],
        user: Callable[[], str],
    ) -> None:
        """Note a call that brings messages.

        Args:
            address: The caller's.
            user_agent: What it says of itself.
            sent: Topics, each with a number of messages; there may be many.
            user: Returns the user that the call is made for.
        """
        now_ms = self.now_ms()
        minute = now_ms // _MINUTE_MS
        key = (user_agent[:_TEXT_MAX], address[0])
        client = self._clients.get(key)
        if client is None:
            client = _Client(agent_of(key[0]), address, user(), minute)
        client.address = address
        if minute != client.minute:
            client.turn(minute)
        topics = client.topics
        for topic, message_count in sent:
            known = topics.get(topic)
            if known is None:
                if len(topic) > TOPIC_NAME_LENGTH_MAX:
                    continue
                self._make_room()
                self._clients[key] = client
                self._count += 1
                known = topics[topic] = TopicProducer(topic, client, now_ms)
            known.last_ms = now_ms
            known.message_count += message_count

    def walk(self, topic: str = "") -> Iterator[TopicProducer | None]:
        """Those who sent within the last hour; None for others that are examined."""
        since_ms = self.now_ms() - SILENCE_MS_MAX
        for client in list(self._clients.values()):
            found = list(client.topics.values()) if not topic else [client.topics.get(topic)]
            for known in found:
                yield known if known is not None and known.last_ms >= since_ms else None

    def _make_room(self) -> None:
        if self._count < PRODUCERS_MAX:
            return
        known = [each for client in self._clients.values() for each in client.topics.values()]
        known.sort(key=attrgetter("last_ms"))
        for place in outgoing([each.client.user for each in known], PRODUCERS_MAX - 1):
            del known[place].client.topics[known[place].topic]
            self._count -= 1
        self._clients = {key: each for key, each in self._clients.items() if each.topics}
