"""Who sends to which topic: noted of the calls that arrive, since producers do not register.

A client says who it is in its gRPC user agent, once a connection::

    ariane-python/0.1.0 client/web-1@4711@9f2c producer-group/orders ariane-wire/0.1.0

Of others, the first word and the address tell them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from ariane_record.layout import Host
from ariane_record.names import TOPIC_NAME_LENGTH_MAX

PRODUCERS_MAX: Final = 10_000
"""The most that are remembered, one of two topics twice; who sent longest ago is forgotten."""

SILENCE_MS_MAX: Final = 3_600_000
"""Who has sent nothing for so long is not listed any more."""

_MINUTE_MS: Final = 60_000
_TEXT_MAX: Final = 256
"""Characters of a user agent that are remembered."""


class Agent(NamedTuple):
    """What a client says of itself.

    Attributes:
        name: Its program or library, and the version; empty if it says nothing.
        client_id: Its client id; empty if it says none.
        producer_group: Its producer group; empty if it says none.
    """

    name: str
    client_id: str
    producer_group: str


def agent_of(user_agent: str) -> Agent:
    """Read a user agent."""
    words = user_agent.split()
    said = dict(word.split("/", 1) for word in words if "/" in word)
    name = words[0] if words else ""
    return Agent(name, said.get("client", ""), said.get("producer-group", ""))


@dataclass(slots=True)
class TopicProducer:
    """Who sends to a topic.

    Attributes:
        topic: The topic.
        agent: What the client says of itself.
        address: Its IP address, and the port of its last connection.
        user: The user that its calls are made for; empty if not known.
        first_ms: When the first message arrived.
        last_ms: When the last one did.
        message_count: How many arrived.
    """

    topic: str
    agent: Agent
    address: Host
    user: str
    first_ms: int
    last_ms: int = 0
    message_count: int = 0
    _minute: int = 0
    _in_minute: int = 0
    _in_last_minute: int = 0

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Its place in lists."""
        agent = self.agent
        return self.topic, agent.client_id, self.address[0], agent.name, agent.producer_group

    def count(self, message_count: int, now_ms: int) -> None:
        """Note messages that arrive."""
        self._turn(now_ms // _MINUTE_MS)
        self.last_ms = now_ms
        self.message_count += message_count
        self._in_minute += message_count

    def per_second(self, now_ms: int) -> float:
        """Messages a second in the last whole minute of the clock."""
        self._turn(now_ms // _MINUTE_MS)
        return self._in_last_minute * 1000 / _MINUTE_MS

    def _turn(self, minute: int) -> None:
        if minute != self._minute:
            self._in_last_minute = self._in_minute if minute == self._minute + 1 else 0
            self._minute, self._in_minute = minute, 0


class Producers:
    """All who have sent lately.

    Attributes:
        now_ms: The clock.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._known: dict[tuple[str, str, str], TopicProducer] = {}

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
            sent: Topics, each with a number of messages.
            user: Returns the user that the call is made for.
        """
        user_agent, now_ms = user_agent[:_TEXT_MAX], self.now_ms()
        for topic, message_count in sent:
            key = (topic, user_agent, address[0])
            known = self._known.get(key)
            if known is None:
                if len(topic) > TOPIC_NAME_LENGTH_MAX:
                    continue
                self._make_room()
                known = TopicProducer(topic, agent_of(user_agent), address, user(), now_ms)
                self._known[key] = known
            known.address = address
            known.count(message_count, now_ms)

    def walk(self, topic: str = "") -> Iterator[TopicProducer | None]:
        """Those who sent within the last hour; None for others that are examined."""
        since_ms = self.now_ms() - SILENCE_MS_MAX
        for known in list(self._known.values()):
            lists = known.last_ms >= since_ms and topic in {"", known.topic}
            yield known if lists else None

    def _make_room(self) -> None:
        if len(self._known) < PRODUCERS_MAX:
            return
        order = sorted(map(attrgetter("last_ms"), self._known.values()))
        limit_ms = order[PRODUCERS_MAX // 10]
        self._known = {key: each for key, each in self._known.items() if each.last_ms > limit_ms}
