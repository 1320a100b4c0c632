"""The servicers without admin's process: they ask and change a cluster, and record nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from google.protobuf.message import Message

from ariane_admin.asking.answers import Answers
from ariane_admin.asking.services import SERVICES, Services
from ariane_admin.servicers.cluster_access import ClusterAccess
from ariane_admin.servicers.public_errors import ADMIN_ERROR_RULES
from ariane_admin.servicers.rates import RateMemory
from ariane_sdk import LiveBroker
from ariane_sdk.translation import error_from_status
from ariane_servicekit import ErrorTranslator, ServiceError, SystemClock
from ariane_servicekit.rpc.error_status import status_of

_Metadata = Sequence[tuple[str, str]]

_MODULES: Final = {
    "dead_letters": "message.dead_letters",
    "delayed": "message.delayed_messages",
    "groups": "group.groups",
    "messages": "message.messages",
}
"""The modules of servicers that do not have the name of their service."""


class ServicersHere(Services):
    """Servicers in this process, each loaded when it is first asked for.

    Lists come whole: their requests need no page.
    """

    def __init__(
        self,
        name_servers: str,
        checkers: Sequence[str] = (),
        asking: Callable[[Sequence[LiveBroker]], Answers] | None = None,
    ) -> None:
        """Call nobody yet.

        Args:
            name_servers: "host:port" of each, separated by commas.
            checkers: Transaction checkers, "host:port" each.
            asking: Makes the questions to brokers.
        """
        super().__init__("", self._servicer)
        self.access = ClusterAccess(
            name_servers, ErrorTranslator(ADMIN_ERROR_RULES), whole_lists=True, asking=asking
        )
        self._checkers = checkers

    def _servicer(self, name: str) -> Any:
        module = import_module(f"ariane_admin.servicers.{_MODULES.get(name, name)}")
        further: dict[str, tuple[object, ...]] = {
            "cluster": (RateMemory(), SystemClock()),
            "lags": (SystemClock(),),
            "settings": (self._checkers,),
            "transactions": (self._checkers,),
        }
        servicer = getattr(module, f"{SERVICES[name]}Servicer")
        return _Here(servicer(self.access, *further.get(name, ())))


@asynccontextmanager
async def servicers_here(
    name_servers: str, checkers: Sequence[str] = ()
) -> AsyncIterator[ServicersHere]:
    """Servicers in this process, for the length of a block; arguments as of the class."""
    here = ServicersHere(name_servers, checkers)
    await here.access.start()
    try:
        yield here
    finally:
        await here.access.close()


class _Context:
    """The part of a call's context that servicers use: the metadata."""

    def __init__(self, metadata: _Metadata) -> None:
        self._metadata = metadata

    def invocation_metadata(self) -> _Metadata:
        return self._metadata


class _Here:
    """A servicer with the interface of a stub; its refusals become errors of the client."""

    def __init__(self, servicer: object) -> None:
        self._servicer = servicer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._servicer, name)

        async def call(request: Message, metadata: _Metadata = (), **_: object) -> Any:
            try:
                return await method(request, _Context(metadata))
            except ServiceError as error:
                raise error_from_status(status_of(error), peer="") from error

        return call
