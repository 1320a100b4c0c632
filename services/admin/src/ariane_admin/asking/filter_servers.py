"""The FilterServers of a cluster. Those of one broker share a catalogue; each broker has its own.

Uploads and decisions go to all of them. A version means the same code everywhere, so that repeating
a call is harmless, and a FilterServer that was away gets it the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from ariane.filter.v1 import filter_pb2
from ariane.filter.v1.filter_service_pb2 import GetFilterRequest, ListFiltersRequest
from ariane_admin.asking.cluster_doors import (
    CALL_SECONDS_MAX,
    ClusterDoors,
    all_pages,
    answer_to_question,
)
from ariane_sdk.errors import CallError, ServiceUnavailable

LOAD_SECONDS_MAX: Final = 120.0
"""How long a module may take to be loaded by a jailed worker."""

_Answer = TypeVar("_Answer")


class FilterServer(NamedTuple):
    """One FilterServer."""

    broker_name: str
    """The broker that it runs beside."""
    address: str
    """Its address."""

    def __str__(self) -> str:
        """The name in errors."""
        return f"FilterServer {self.address} of broker {self.broker_name}"


@dataclass(frozen=True, slots=True)
class Answers(Generic[_Answer]):
    """The answers of FilterServers."""

    given: dict[FilterServer, _Answer]
    """Answers by FilterServer."""
    failures: dict[FilterServer, CallError]
    """The errors of the others."""


async def filter_servers(doors: ClusterDoors) -> list[FilterServer]:
    """All FilterServers in routes, at least one.

    Raises:
        ServiceUnavailable: There is none.
    """
    found = sorted(
        FilterServer(broker.broker_name, address)
        for broker in await doors.primaries()
        for address in broker.filter_servers
    )
    if not found:
        raise ServiceUnavailable(
            "no FilterServer runs beside any broker; start one with ariane-filter --broker"
            " HOST:PORT --data-path FOLDER"
        )
    return found


async def ask_all(
    servers: Sequence[FilterServer],
    ask: Callable[[FilterServer], Awaitable[_Answer]],
) -> Answers[_Answer]:
    """Call all FilterServers in parallel, and wait for each."""

    async def one(server: FilterServer) -> _Answer | CallError:
        try:
            return await answer_to_question(ask(server), str(server))
        except CallError as error:
            return error

    answers = dict(zip(servers, await asyncio.gather(*map(one, servers)), strict=True))
    failures = {
        server: answer for server, answer in answers.items() if isinstance(answer, CallError)
    }
    given = {
        server: answer for server, answer in answers.items() if not isinstance(answer, CallError)
    }
    return Answers(given, failures)


async def kept_filters(
    doors: ClusterDoors, server: FilterServer, name: str
) -> list[filter_pb2.Filter]:
    """All versions on one FilterServer, of one filter or of all."""
    return await all_pages(
        str(server),
        doors.filters(server.address).ListFilters,
        ListFiltersRequest(filter=name),
        lambda page: page.filters,
    )


async def kept_filter(
    doors: ClusterDoors, server: FilterServer, request: GetFilterRequest
) -> filter_pb2.Filter:
    """One version on one FilterServer."""
    stub = doors.filters(server.address)
    return (await stub.GetFilter(request, timeout=CALL_SECONDS_MAX)).filter
