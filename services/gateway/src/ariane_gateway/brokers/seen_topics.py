"""Which topics a user may see: routes are kept for all, and the gateway's own."""

from __future__ import annotations

from typing import Final

from ariane.broker.v1.topic_service_pb2 import GetTopicRequest
from ariane_gateway.brokers.acting import USER
from ariane_gateway.brokers.cluster import Cluster
from ariane_gateway.refusal_kinds import PASSING, Refusal
from ariane_gateway.refusals import Refused, refused_by
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.errors import CallError, TopicNotFound

KEPT_S: Final = 10.0
"""How long it is believed that a user may see a topic."""

KEPT_MAX: Final = 10_000


class SeenTopics:
    """Asks any broker: it judges the user before it looks whether it has the topic."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._until_s: dict[tuple[str, str], float] = {}
        self._silent: set[str] = set()

    async def check(self, topic: str) -> None:
        """Refuse a topic that the user of the call may not see, whether there is one or not.

        Raises:
            Refused: He may not, or no broker answered.
        """
        user = USER.get()
        if not user:
            return
        now_s = self._cluster.clock.monotonic_s()
        if now_s < self._until_s.get((user, topic), 0.0):
            return
        await self._ask(topic)
        if len(self._until_s) >= KEPT_MAX:
            self._until_s.clear()
        self._until_s[user, topic] = now_s + KEPT_S

    async def _ask(self, topic: str) -> None:
        """Ask one broker after the other, until one answers: first those that answered before."""
        addresses = (await self._cluster.primaries()).values()
        refused = Refused(Refusal.UNAVAILABLE, "no broker is registered")
        for address in sorted(addresses, key=self._silent.__contains__):
            self._silent.add(address)  # Also for others, which ask for another topic.
            call = self._cluster.acting.topics(address).GetTopic(
                GetTopicRequest(topic=topic), timeout=self._cluster.timeout_s
            )
            try:
                await answer_of(call, f"broker at {address}")
            except TopicNotFound:
                pass
            except CallError as error:
                refused = refused_by(error)
                if refused.kind in PASSING:
                    continue
                self._silent.discard(address)
                raise refused from error
            self._silent.discard(address)
            return
        raise refused
