"""Questions of commands: they are put to the servicers in this process, as admin would put them.

So one module answers each question, for the command line, the console and the API. An operator's
questions do not need an admin that runs, and are judged by brokers by the operator's own rights.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from ariane.admin.v1.group_service_pb2 import ClusterGroup, GetGroupRequest
from ariane_admin.asking.absent_brokers import warn_of_absent
from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.asking.connection import run_async
from ariane_admin.asking.partial_answers import CompleteAnswers, PartialAnswers, unknown_group
from ariane_admin.servicers.here import ServicersHere
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.errors import CallError, GroupNotFound, RouteNotFound

_Answer = TypeVar("_Answer")


class Questions(ServicersHere):
    """The servicers, and which brokers have not answered them.

    A warning names each such broker once; it is not asked again.
    """

    def __init__(
        self, name_servers: str, checkers: Sequence[str] = (), *, complete: bool = False
    ) -> None:
        """Ask nothing yet.

        Args:
            name_servers: "host:port" of each, separated by commas.
            checkers: Transaction checkers, "host:port" each.
            complete: Whether a broker that does not answer is an error.
        """
        self._silent: dict[str, CallError] = {}
        kind = CompleteAnswers if complete else PartialAnswers
        super().__init__(name_servers, checkers, partial(kind, silent=self._silent))

    @property
    def doors(self) -> ClusterDoors:
        """Stubs to every process, for what no servicer answers."""
        return self.access.doors

    @property
    def unanswered(self) -> list[str]:
        """Names of the brokers that did not answer."""
        return sorted(self._silent)

    @property
    def status(self) -> ExitStatus:
        """The exit status of a command that has shown the answers."""
        return ExitStatus.UNREACHABLE if self._silent else ExitStatus.DONE

    async def warn_of_absent(self) -> None:
        """Warn of each broker that lists lack because the name server in use does not know it."""
        listed = {broker.broker_name for broker in await self.doors.primaries()}
        await warn_of_absent(self.doors, listed)

    async def group(self, name: str) -> ClusterGroup:
        """A consumer group.

        Raises:
            GroupNotFound: No broker knows it.
            CommandFailed: No broker that answers knows it.
        """
        try:
            answer = await self.groups.GetGroup(GetGroupRequest(consumer_group=name))
        except GroupNotFound:
            raise unknown_group(name, self) from None
        return answer.group


def answered(
    name_servers: str,
    method: Callable[[Questions], Callable[..., Awaitable[_Answer]]],
    request: Message,
    *,
    warn_of_absent: bool = False,
    believed: Callable[[Questions, _Answer], Awaitable[None]] | None = None,
) -> tuple[Questions, _Answer]:
    """Ask one question; return it, for its status, and the answer.

    Args:
        name_servers: "host:port" of each, separated by commas.
        method: The method of a servicer.
        request: Its request.
        warn_of_absent: Whether to warn of brokers that the name server in use does not know.
        believed: Fails for an answer that is not to be believed.

    Raises:
        CallError: As of the servicer.
    """

    async def ask() -> tuple[Questions, _Answer]:
        async with questions(name_servers) as asked:
            if warn_of_absent:
                await asked.warn_of_absent()
            answer = await method(asked)(request)
            if believed is not None:
                await believed(asked, answer)
            return asked, answer

    return run_async(ask())


async def expect_topic(asked: Questions, topic: str) -> None:
    """Refuse an empty list of a topic that no broker has: its name may be mistyped.

    The list is believed where this question is refused, or is not answered.

    Raises:
        RouteNotFound: No broker has the topic.
    """
    with _believing():
        await asked.doors.client.route(topic)


async def expect_group(asked: Questions, name: str) -> None:
    """Refuse an empty list of a group that no broker knows, likewise.

    Raises:
        GroupNotFound: No broker knows it.
        CommandFailed: No broker that answers knows it.
    """
    with _believing():
        await asked.group(name)


@contextmanager
def _believing() -> Iterator[None]:
    """Let only that a name is unknown pass."""
    try:
        yield
    except CallError as error:
        if isinstance(error, RouteNotFound | GroupNotFound):
            raise


@asynccontextmanager
async def questions(
    name_servers: str, checkers: Sequence[str] = (), *, complete: bool = False
) -> AsyncIterator[Questions]:
    """The servicers for questions, for the length of a block; arguments as of ``Questions``."""
    asked = Questions(name_servers, checkers, complete=complete)
    await asked.access.start()
    try:
        yield asked
    finally:
        await asked.access.close()
