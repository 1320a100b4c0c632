"""Questions about users to every process of the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from grpc import RpcError

from ariane.common.v1 import access_service_pb2 as access_pb
from ariane.common.v1.access_service_pb2_grpc import AccessServiceStub
from ariane_servicekit import get_logger, open_channel

ANSWER_S: Final = 5.0
"""Seconds that a process may take for one answer."""

_PAGE: Final = 1000
_USES_MAX: Final = 20_000
"""Of one process, which remembers no more."""

_PAGES_MAX: Final = 2 * _USES_MAX // _PAGE
"""Of one process: one that was taken over gives pages without end. Twice what is needed."""

_log: Final = get_logger(__name__)


class EndlessAnswer(Exception):
    """A process gives page after page."""


class Uses(NamedTuple):
    """What a user did."""

    uses: Sequence[access_pb.AccessUse]
    """Each kind of it, at one process."""
    silent: Sequence[str]
    """Addresses of processes that did not answer, or without end."""


class Found(NamedTuple):
    """A refusal."""

    refusal: access_pb.AccessRefusal | None
    """None if no process that answers remembers it."""
    address: str
    """The process that refused."""
    silent: Sequence[str]
    """Addresses of processes that did not answer."""


class AskedProcesses:
    """Asks processes.

    Args:
        processes: Returns the addresses of all.
    """

    def __init__(self, processes: Callable[[], Awaitable[Collection[str]]]) -> None:
        self._processes = processes

    async def uses_of(self, user: str) -> Uses:
        """What a user did, and was refused."""

        async def ask(stub: Any) -> list[access_pb.AccessUse]:
            uses: list[access_pb.AccessUse] = []
            request = access_pb.ListAccessUsesRequest(user=user, page_size=_PAGE)
            for _ in range(_PAGES_MAX):
                answer = await stub.ListAccessUses(request, timeout=ANSWER_S)
                uses += answer.uses
                request.page_token = answer.next_page_token
                if not (request.page_token and answer.uses) or len(uses) >= _USES_MAX:
                    return uses
            raise EndlessAnswer(f"more than {_PAGES_MAX} pages")

        answers, silent = await self._ask_each(ask)
        return Uses([use for uses in answers.values() for use in uses], silent)

    async def refusal(self, request_id: str) -> Found:
        """Why a call was refused."""

        async def ask(stub: Any) -> access_pb.GetAccessRefusalResponse:
            request = access_pb.GetAccessRefusalRequest(request_id=request_id)
            answer: access_pb.GetAccessRefusalResponse = await stub.GetAccessRefusal(
                request, timeout=ANSWER_S
            )
            return answer

        answers, silent = await self._ask_each(ask)
        for address, answer in answers.items():
            if answer.HasField("refusal"):
                return Found(answer.refusal, address, silent)
        return Found(None, "", silent)

    async def _ask_each(
        self, ask: Callable[[Any], Awaitable[Any]]
    ) -> tuple[dict[str, Any], list[str]]:
        async def at(address: str) -> Any:
            async with open_channel(address) as channel:
                return await ask(AccessServiceStub(channel))

        addresses = sorted(await self._processes())
        results = await asyncio.gather(*map(at, addresses), return_exceptions=True)
        answers: dict[str, Any] = {}
        silent: list[str] = []
        for address, answer in zip(addresses, results, strict=True):
            if isinstance(answer, RpcError | OSError):
                silent.append(address)
            elif isinstance(answer, EndlessAnswer):
                _log.warning("access_uses_endless", address=address, cause=str(answer))
                silent.append(address)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                answers[address] = answer
        return answers, silent
