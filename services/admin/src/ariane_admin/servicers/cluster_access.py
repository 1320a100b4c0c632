"""The cluster as servicers reach it: whom to ask, who kept silent, what became of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ariane.admin.v1.cluster_service_pb2 import BrokerOutcome
from ariane.admin.v1.silent_broker_pb2 import SilentBroker
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_sdk import DeadLetters, LiveBroker, Producer
from ariane_sdk.errors import ArianeError, RouteNotFound
from ariane_servicekit import ErrorTranslator, ServiceError

QUESTION_SECONDS_MAX: Final = 10.0
"""How long a broker may take for one question, of however many calls."""


class ClusterAccess:
    """Clients to one cluster, shared by all servicers.

    Attributes:
        doors: Stubs to every process.
        reader: Reads queues and dead letters.
        translator: From errors of the client to public ones.
    """

    def __init__(self, name_servers: str, translator: ErrorTranslator) -> None:
        self.doors = ClusterDoors(name_servers)
        self.reader = DeadLetters(name_servers)
        self.translator = translator
        self._name_servers = name_servers
        self._producer: Producer | None = None
        self._producer_turn = asyncio.Lock()

    async def start(self) -> None:
        """Make the clients ready; nothing is connected before it is asked."""
        await self.doors.client.start()
        await self.reader.start()

    async def close(self) -> None:
        """Let the clients go. Repeating is harmless."""
        if self._producer is not None:
            await self._producer.close()
        await self.reader.close()
        await self.doors.client.close()

    async def producer(self) -> Producer:
        """What sends messages of operators; made when it is first asked for."""
        async with self._producer_turn:
            if self._producer is None:
                producer = Producer(self._name_servers)
                await producer.start()
                self._producer = producer
            return self._producer

    async def answers(self, *, cluster_name: str = "") -> Answers:
        """All primaries, or those of a cluster, to be asked.

        Raises:
            CallError: There are none, or no name server answers.
        """
        return self.asking(await self.doors.primaries(cluster_name=cluster_name))

    async def carriers(self, topic: str) -> Answers:
        """The primaries that carry a topic, to be asked.

        Raises:
            ServiceError: TOPIC_NOT_FOUND.
        """
        try:
            return self.asking(await self.doors.primaries_of(topic))
        except RouteNotFound as error:
            raise topic_not_found(topic) from error

    def asking(self, brokers: Sequence[LiveBroker]) -> Answers:
        """Brokers to be asked, each for so long as a caller waits."""
        return Answers(brokers, seconds_max=QUESTION_SECONDS_MAX)

    def silent(self, answers: Answers) -> list[SilentBroker]:
        """Who did not answer, as the contract says it."""
        return [
            SilentBroker(
                cluster_name=broker.cluster_name,
                broker_name=broker.broker_name,
                address=broker.address,
                error=self.translator.status(answers.silent[broker.broker_name]),
            )
            for broker in answers.brokers
            if broker.broker_name in answers.silent
        ]

    async def change_each(
        self, brokers: Sequence[LiveBroker], change: Callable[[LiveBroker], Awaitable[object]]
    ) -> list[BrokerOutcome]:
        """Have each broker do its part of a change; what became of it on each, by name.

        Raises:
            ArianeError: All of them failed: the first failure.
        """
        results = await asyncio.gather(*map(change, brokers), return_exceptions=True)
        failures = [each for each in results if isinstance(each, BaseException)]
        for failure in failures:
            if not isinstance(failure, ArianeError | ServiceError):
                raise failure
        if failures and len(failures) == len(brokers):
            raise failures[0]
        outcomes = []
        for broker, result in zip(brokers, results, strict=True):
            outcome = BrokerOutcome(
                cluster_name=broker.cluster_name, broker_name=broker.broker_name
            )
            if isinstance(result, Exception):
                outcome.error.CopyFrom(self.translator.status(result))
            outcomes.append(outcome)
        return sorted(outcomes, key=lambda each: (each.cluster_name, each.broker_name))


def topic_not_found(topic: str) -> ServiceError:
    """No broker that lives has a topic."""
    return ServiceError(
        ErrorReason.ERROR_REASON_TOPIC_NOT_FOUND,
        f"no live broker carries topic {topic!r}",
        {"topic": topic},
    )


def group_not_found(group: str) -> ServiceError:
    """No broker that answers has a group."""
    return ServiceError(
        ErrorReason.ERROR_REASON_GROUP_NOT_FOUND,
        f"no broker that answers knows group {group!r}",
        {"consumer_group": group},
    )
