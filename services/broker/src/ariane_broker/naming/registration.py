"""The broker's registration with the name servers.

The broker registers with every name server by itself: at start, again at once when a topic changes
or the name server requests it, with heartbeats in between. An unreachable name server delays no
other: the broker tries again, soon at first and then ever slower, and registers everything once it
is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

import grpc
from grpc import aio

from ariane.namesrv.v1.registration_service_pb2 import (
    HeartbeatBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)
from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceStub
from ariane_broker.naming.announcement import BrokerAnnouncement
from ariane_servicekit import Address, Clock, get_logger, open_channel
from ariane_servicekit.clock import sleep_until_woken
from ariane_servicekit.security.caller import MemberKind
from ariane_wire import AddressSources, ChannelOptions

if TYPE_CHECKING:
    from ariane.namesrv.v1.registration_service_pb2_grpc import RegistrationServiceAsyncStub

CALL_SECONDS_MAX: Final = 3.0
RETRY_SECONDS_MIN: Final = 0.5
RETRY_SECONDS_MAX: Final = 15.0


# A restarted name server is found within seconds, not after two minutes.
_OPTIONS: Final = ChannelOptions(backoff_first_s=0.2, backoff_max_s=5.0, connect_timeout_s=1.0)


_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class NameServer:
    """One name server."""

    address: str
    """Its address, for logs."""
    stub: RegistrationServiceAsyncStub
    """The stub for calls."""
    close: Callable[[], Awaitable[None]]
    """Ends the connection."""


class NameServerLink:
    """The broker's registration with one name server."""

    def __init__(
        self,
        name_server: NameServer,
        announcement: BrokerAnnouncement,
        clock: Clock,
        *,
        heartbeat_seconds: float,
    ) -> None:
        self._name_server = name_server
        self._announcement = announcement
        self._clock = clock
        self._heartbeat_seconds = heartbeat_seconds
        self._registered: int | None = None
        self._refused_topic_count = 0
        self._failures = 0
        self.name_taken = ""
        """The name server's error if another live broker had the name at the last call; else
        empty."""
        self._woken = asyncio.Event()
        self._turned = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def reached(self) -> bool:
        """Whether the last call succeeded, or none was made yet."""
        return self._failures == 0

    def start(self) -> None:
        """Register now, and keep the registration up."""
        self._task = asyncio.create_task(self._run(), name=f"link:{self._name_server.address}")

    def wake(self) -> None:
        """Update the name server soon."""
        self._woken.set()

    async def wait_registered(self) -> None:
        """Return once the name server has the present state, or is unreachable."""
        version = self._announcement.version
        while (self._registered is None or self._registered < version) and self.reached:
            turned = self._turned
            await turned.wait()

    async def stop(self) -> None:
        """End all calls."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        """End all calls and the connection."""
        await self.stop()
        await self._name_server.close()

    async def unregister(self) -> None:
        """Leave all routes at once; without this call the registration expires."""
        identity = self._announcement.identity
        request = UnregisterBrokerRequest(
            cluster_name=identity.cluster_name,
            broker_name=identity.broker_name,
            broker_id=identity.broker_id,
            incarnation=self._announcement.incarnation,
        )
        with suppress(aio.AioRpcError):
            await self._name_server.stub.UnregisterBroker(request, timeout=CALL_SECONDS_MAX)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            pause = await self._turn()
            turned, self._turned = self._turned, asyncio.Event()
            turned.set()
            await sleep_until_woken(self._clock, pause, self._woken)

    async def _turn(self) -> float:
        """Register or send a heartbeat; return the seconds until the next turn."""
        try:
            pause = await self._update()
        except aio.AioRpcError as error:
            return self._failed(error)
        except Exception:  # noqa: BLE001 - logged with its trace, and the loop goes on.
            # Without this log line the end of updates to this name server would go unnoticed.
            _log.exception("name_server_call_failed", name_server=self._name_server.address)
            self._failures += 1
            return RETRY_SECONDS_MAX
        if self._failures:
            _log.info("name_server_reached", name_server=self._name_server.address)
        self._failures = 0
        self.name_taken = ""
        return pause

    async def _update(self) -> float:
        if self._registered == self._announcement.version:
            try:
                return await self._send_heartbeat(self._registered)
            except aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.NOT_FOUND:
                    raise
                # The name server is new, or has dropped this broker: register everything.
                _log.info("registration_asked_for", name_server=self._name_server.address)
        return await self._register()

    async def _register(self) -> float:
        version = self._announcement.version
        request = self._announcement.registration()
        response = await self._name_server.stub.RegisterBroker(request, timeout=CALL_SECONDS_MAX)
        self._registered = version
        self._log_refused_topics(response)
        return self._next_heartbeat(response.heartbeat_interval.ToMilliseconds() / 1000)

    def _log_refused_topics(self, response: RegisterBrokerResponse) -> None:
        """Log the refused topics, which no client can find; once for each number of them."""
        count = response.refused_topic_count
        if count and count != self._refused_topic_count:
            _log.warning(
                "topics_refused_by_name_server",
                name_server=self._name_server.address,
                refused_topic_count=count,
                topics=[f"{one.topic}: {one.cause}" for one in response.refused_topics[:3]],
            )
        self._refused_topic_count = count

    async def _send_heartbeat(self, version: int) -> float:
        identity = self._announcement.identity
        request = HeartbeatBrokerRequest(
            cluster_name=identity.cluster_name,
            broker_name=identity.broker_name,
            broker_id=identity.broker_id,
            incarnation=self._announcement.incarnation,
            topics_version=version,
        )
        response = await self._name_server.stub.HeartbeatBroker(request, timeout=CALL_SECONDS_MAX)
        return self._next_heartbeat(response.heartbeat_interval.ToMilliseconds() / 1000)

    def _next_heartbeat(self, wanted_seconds: float) -> float:
        if wanted_seconds <= 0:
            return self._heartbeat_seconds
        return min(self._heartbeat_seconds, wanted_seconds)

    def _failed(self, error: aio.AioRpcError) -> float:
        self._failures += 1
        taken = error.code() is grpc.StatusCode.ALREADY_EXISTS
        self.name_taken = error.details() or "its name is taken" if taken else ""
        if self._failures == 1:
            _log.warning(
                "name_server_refused",
                name_server=self._name_server.address,
                code=error.code().name,
                message=error.details(),
            )
        doublings = min(self._failures - 1, 10)
        return min(RETRY_SECONDS_MAX, RETRY_SECONDS_MIN * float(1 << doublings))


class Registration:
    """The broker's registration with all name servers, which may come and go."""

    def __init__(
        self,
        find: Callable[[], Awaitable[Mapping[str, Callable[[], NameServerLink]]]],
        *,
        wait_seconds: float,
    ) -> None:
        """``find`` returns how to make the link of each name server there is, by its address."""
        self._found: dict[str, NameServerLink] = {}
        self._find = find
        self._wait_seconds = wait_seconds
        self._started = False

    @property
    def _links(self) -> Sequence[NameServerLink]:
        return tuple(self._found.values())

    async def start(self) -> None:
        """Register with all name servers, and wait a moment for their answers."""
        self._started = True
        await self.reread()
        await self._wait_registered()

    async def reread(self) -> None:
        """Register with name servers that are new, and leave those that are gone."""
        if self._started:
            await self._follow(await self._find())

    async def _follow(self, wanted: Mapping[str, Callable[[], NameServerLink]]) -> None:
        if not self._started:
            return  # The broker stops.
        for address in [address for address in self._found if address not in wanted]:
            link = self._found.pop(address)
            _log.info("name_server_left", name_server=address)
            await link.stop()
            await link.unregister()
            await link.close()
        for address, make_link in wanted.items():
            if address not in self._found:
                _log.info("name_server_found", name_server=address)
                self._found[address] = link = make_link()
                link.start()

    @property
    def name_taken(self) -> str:
        """A name server's error if another live broker has this name; else empty."""
        return next((link.name_taken for link in self._links if link.name_taken), "")

    async def announce(self) -> None:
        """Register with all name servers now; wait a moment for those reached last time."""
        if self._started:
            for link in self._links:
                link.wake()
            await self._wait_registered()

    async def unregister(self) -> None:
        """Leave the routes of all name servers."""
        if self._started:
            self._started = False
            await asyncio.gather(*(link.stop() for link in self._links))
            await asyncio.gather(*(link.unregister() for link in self._links))

    async def close(self) -> None:
        """End all calls and connections, without a goodbye."""
        self._started = False
        await asyncio.gather(*(link.close() for link in self._links))

    async def _wait_registered(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait_seconds):
                await asyncio.gather(*(link.wait_registered() for link in self._links))


def name_server_link(
    address: Address,
    announcement: BrokerAnnouncement,
    clock: Clock,
    chance: Random,
    *,
    heartbeat_seconds: float,
) -> NameServerLink:
    """The broker's registration with the name server at an address."""
    channel = open_channel(address, _OPTIONS, chance, kinds=(MemberKind.NAME_SERVER,))
    name_server = NameServer(str(address), RegistrationServiceStub(channel), channel.close)
    return NameServerLink(name_server, announcement, clock, heartbeat_seconds=heartbeat_seconds)


class FoundNameServers:
    """Name servers by their addresses, and from sources that are read again."""

    def __init__(
        self, name_servers: Sequence[str], make_link: Callable[[Address], NameServerLink]
    ) -> None:
        """``make_link`` makes the link of an address."""
        self._sources = AddressSources(name_servers)
        self._make_link = make_link

    async def find(self) -> dict[str, Callable[[], NameServerLink]]:
        """Read the sources; how to make the link of each name server, by its address."""
        before = dict(self._sources.errors)
        found = await self._sources.read()
        for source, error in self._sources.errors.items():
            if before.get(source) != error:
                _log.warning("name_servers_unread", error=error)
        return {address: partial(self._make_link, Address.parse(address)) for address in found}
