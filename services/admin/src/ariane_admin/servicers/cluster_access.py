"""Servicers' access to the cluster: its brokers, silent brokers, and outcomes of changes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ariane.admin.v1.cluster_service_pb2 import BrokerOutcome
from ariane.admin.v1.silent_broker_pb2 import SilentBroker
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_admin.asking.answers import Answers
from ariane_admin.asking.cluster_doors import PATIENCE_S, ClusterDoors
from ariane_admin.asking.own_tls import own_tls
from ariane_admin.counted import counted
from ariane_sdk import LiveBroker, MessageQueue
from ariane_sdk.errors import ArianeError, RouteNotFound
from ariane_servicekit import ErrorTranslator, Page, PageKey, ServiceError, take_page
from ariane_servicekit.errors import refusal
from ariane_servicekit.rpc.calls import current_caller

if TYPE_CHECKING:
    from ariane_sdk import DeadLetters, Producer

QUESTION_SECONDS_MAX: Final = 10.0
"""How long a broker may take for one question, which may be several calls."""

NAMES_SECONDS_MAX: Final = 2.0
"""How long a prompt waits for the names of clusters."""

PRODUCERS_MAX: Final = 16
"""Users for whom a producer is kept."""

_Entry = TypeVar("_Entry")


class _PageAsked(Protocol):
    """A request for a page of a list."""

    @property
    def page_size(self) -> int: ...

    @property
    def page_token(self) -> str: ...


class ClusterAccess:
    """Clients to one cluster, shared by all servicers."""

    def __init__(
        self,
        name_servers: str,
        translator: ErrorTranslator,
        *,
        whole_lists: bool = False,
        asking: Callable[[Sequence[LiveBroker]], Answers] | None = None,
    ) -> None:
        """Call nobody yet.

        Args:
            name_servers: "host:port" of each, separated by commas.
            translator: Translates errors of the client to public ones.
            whole_lists: Whether lists have no pages: each page would ask all brokers again.
            asking: Makes the questions to brokers; by default each broker has a time limit.
        """
        self.doors = ClusterDoors(name_servers)
        """Stubs to every process."""
        self.translator = translator
        """Translates errors of the client to public ones."""
        self._name_servers = name_servers
        self.whole_lists = whole_lists
        """Whether lists have no pages."""
        self._asking = asking or partial(Answers, seconds_max=QUESTION_SECONDS_MAX)
        self._owners: dict[str, Mapping[MessageQueue, str]] = {}
        self._producers: dict[str, Producer] = {}
        self._producer_turn = asyncio.Lock()
        self._reader: DeadLetters | None = None
        self._reader_turn = asyncio.Lock()

    async def start(self) -> None:
        """Make the clients ready; connections are made at the first call."""
        await self.doors.open()

    async def close(self) -> None:
        """Close the clients. Repeating is harmless."""
        producers, self._producers = list(self._producers.values()), {}
        for producer in producers:
            await producer.close()
        if self._reader is not None:
            await self._reader.close()
        await self.doors.close()

    async def reader(self) -> DeadLetters:
        """Reads queues and dead letters; made at the first use, since few questions need it."""
        async with self._reader_turn:
            if self._reader is None:
                from ariane_sdk import DeadLetters  # noqa: PLC0415 - it loads numpy.

                reader = DeadLetters(self._name_servers, patience_s=PATIENCE_S, tls=own_tls())
                await reader.start()
                self._reader = reader
            return self._reader

    async def names(self) -> Sequence[str]:
        """The names of the clusters that name servers know; none if they do not answer soon."""
        try:
            async with asyncio.timeout(NAMES_SECONDS_MAX):
                brokers = await self.doors.client.list_brokers()
        except (ArianeError, TimeoutError):
            return ()
        return sorted({broker.cluster_name for broker in brokers})

    async def producer(self) -> Producer:
        """The producer for messages of the operator who asks; made at the first use.

        Each user has one: what it does in the background is done for whoever made it.
        """
        from ariane_sdk import Producer  # noqa: PLC0415 - it loads numpy.
        from ariane_servicekit.security.identity.identify import acting_text  # noqa: PLC0415

        user = acting_text(current_caller())
        async with self._producer_turn:
            producer = self._producers.get(user)
            if producer is None:
                while len(self._producers) >= PRODUCERS_MAX:
                    oldest = next(iter(self._producers))
                    await self._producers.pop(oldest).close()
                producer = Producer(self._name_servers, tls=own_tls())
                await producer.start()
                self._producers[user] = producer
            return producer

    async def answers(self, *, cluster_name: str = "") -> Answers:
        """Questions to all primaries, or to those of a cluster.

        Raises:
            CallError: There are none, or no name server answers.
        """
        return self.asking(await self.doors.primaries(cluster_name=cluster_name))

    async def carriers(self, topic: str) -> Answers:
        """Questions to the primaries that carry a topic.

        Raises:
            ServiceError: TOPIC_NOT_FOUND.
            RouteNotFound: Brokers that have it may come back.
        """
        try:
            return self.asking(await self.doors.primaries_of(topic))
        except RouteNotFound as error:
            if error.may_come_back:
                raise
            raise topic_not_found(topic) from error

    def asking(self, brokers: Sequence[LiveBroker]) -> Answers:
        """Questions to some brokers."""
        return self._asking(brokers)

    async def queue_owners(self, group: str, answers: Answers) -> Mapping[MessageQueue, str]:
        """Which member has each queue of a group in work, as far as members answer.

        Where lists come whole, members are asked once: each question goes to all of them.
        """
        if group in self._owners:
            return self._owners[group]

        async def at(broker: LiveBroker) -> Mapping[MessageQueue, str]:
            return await self.doors.client.queue_owners(group, broker_names=[broker.broker_name])

        owners = {queue: who for found in await answers.ask(at) for queue, who in found.items()}
        if self.whole_lists:
            self._owners[group] = owners
        return owners

    def page(
        self,
        entries: Sequence[_Entry],
        key: Callable[[_Entry], PageKey],
        request: _PageAsked,
        *,
        scope: str,
        page_size: int = 0,
    ) -> Page[_Entry]:
        """The page of a list that a request asks for; arguments as of ``take_page``.

        Args:
            entries: The list.
            key: The sort key.
            request: The request.
            scope: The method and its filter.
            page_size: The size of pages where the request says none.

        Raises:
            ServiceError: FIELD_INVALID for the size, PAGE_TOKEN_INVALID for the token.
        """
        if self.whole_lists:
            return Page(entries, "")
        return take_page(
            entries,
            key,
            page_size=request.page_size or page_size,
            page_token=request.page_token,
            scope=scope,
        )

    def silent(self, answers: Answers) -> list[SilentBroker]:
        """The brokers that did not answer, as messages of the contract."""
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
        """Let each broker make its part of a change; return the outcomes by broker name.

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


@refusal(ErrorReason.ERROR_REASON_TOPIC_NOT_FOUND)
def topic_not_found(topic: str) -> str:
    """The error for a topic that no live broker has."""
    return f"no live broker carries topic {topic!r}"


@refusal(ErrorReason.ERROR_REASON_GROUP_NOT_FOUND)
def group_not_found(consumer_group: str) -> str:
    """The error for a group that no answering broker has."""
    return f"no broker that answers knows group {consumer_group!r}"


@refusal(ErrorReason.ERROR_REASON_GROUP_IN_USE)
def group_in_use(consumer_group: str, member_count: int) -> str:
    """The error for a group that is consumed, as brokers raise it."""
    return f"group {consumer_group!r} has {counted(member_count, 'live member')}"
