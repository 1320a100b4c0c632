"""How changes are made: through admin, which records them, or by the same servicers here.

::

    --admin HOST:PORT   or ARIANE_ADMIN, or in the context: through this admin. If it is away or
                        serves another cluster, nothing is changed.
    --admin none        in this process, with a warning that the change is not recorded
    not given           through the admin at 127.0.0.1:9881 if one listens there and serves this
                        cluster, else in this process: a new cluster has no admin yet
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

import click
from click.core import ParameterSource
from grpc.aio import AioRpcError

from ariane.common.v1.process_service_pb2 import (
    GetProcessStateRequest,
    ListProcessSettingsRequest,
)
from ariane.common.v1.process_service_pb2_grpc import ProcessServiceStub
from ariane_admin.asking.admin_service import ADMIN_SECONDS_MAX, admin_channel
from ariane_admin.asking.cluster_doors import CALL_SECONDS_MAX
from ariane_admin.asking.connection import (
    ADMIN_VARIABLE,
    DEFAULT_ADMIN,
    check_address,
    name_servers_option,
    run_async,
)
from ariane_admin.asking.services import Services, services_at
from ariane_admin.errors import CommandFailed
from ariane_admin.terminal.client_warnings import say_warning
from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.output import output_option
from ariane_sdk.errors import CallError
from ariane_sdk.translation import error_from_rpc, error_from_status

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from google.rpc.status_pb2 import Status
    from grpc.aio import Channel

    from ariane.admin.v1.cluster_service_pb2 import BrokerOutcome

NO_ADMIN: Final = "none"
LOOK_SECONDS_MAX: Final = 1.0
"""How long a connection to the default admin address may take."""

_Answer = TypeVar("_Answer")
_Command = TypeVar("_Command", bound=Callable[..., Any])


class AtBrokers(Protocol):
    """The answer to a change at several brokers."""

    @property
    def outcomes(self) -> Sequence[BrokerOutcome]:
        """How it went at each."""
        ...


_Outcomes = TypeVar("_Outcomes", bound=AtBrokers)


class AdminChoice(NamedTuple):
    """The admin to make changes through."""

    address: str
    """Its address; empty for none."""
    is_explicit: bool
    """Whether the address was given. Otherwise it is only tried."""


def change_option(command: _Command) -> _Command:
    """Give a command the option ``--admin`` and the argument `admin`, an `AdminChoice`."""
    option = click.option(
        "--admin",
        default=DEFAULT_ADMIN,
        envvar=ADMIN_VARIABLE,
        show_default=True,
        show_envvar=True,
        metavar="HOST:PORT|none",
        callback=_choice,
        help="Make the change through this admin, which records it in the audit trail. The"
        " default address is used only if an admin answers there and serves this"
        " cluster; an address you give must. 'none' makes the change directly, without"
        " a record.",
    )
    return option(command)


def change_options(command: _Command) -> _Command:
    """Give a command what a change needs: ``--name-servers``, ``--admin`` and ``--output``."""
    return name_servers_option(change_option(output_option(command)))


@asynccontextmanager
async def administration(
    name_servers: str, choice: AdminChoice, *, checker: str = ""
) -> AsyncIterator[Services]:
    """The services that change a cluster, for the length of a block.

    Args:
        name_servers: Name servers of the cluster, "host:port" each, separated by commas.
        choice: The admin to use.
        checker: A transaction checker that identifies the cluster instead of name servers.

    Raises:
        CommandFailed: The given admin is away, or serves another cluster.
    """
    cluster = _Served("checkers", checker) if checker else _Served("name_servers", name_servers)
    if choice.address and (choice.is_explicit or await _listens(choice.address)):
        async with admin_channel(choice.address) as channel:
            trouble = await _trouble(channel, choice.address, cluster)
            if not trouble:
                yield services_at(channel, f"admin {choice.address}")
                return
        if choice.is_explicit:
            raise CommandFailed(
                f"nothing was changed: {trouble}; --admin none makes the change without admin,"
                " and without an audit record",
                ExitStatus.UNREACHABLE,
            )
        say_warning(f"this change is not recorded in an audit trail: {trouble}")
    if choice.is_explicit:
        say_warning(
            "this change is not recorded in the audit trail of admin, because of --admin none"
        )
    # Only commands that need servicers wait until they are loaded.
    from ariane_admin.servicers.here import servicers_here  # noqa: PLC0415

    async with servicers_here(name_servers, [checker] if checker else []) as services:
        yield services


def changed(
    name_servers: str,
    choice: AdminChoice,
    method: Callable[[Services], Callable[..., Awaitable[_Answer]]],
    request: Message,
    *,
    seconds_max: float = ADMIN_SECONDS_MAX,
) -> _Answer:
    """Make one change of a cluster, and return the answer.

    Args:
        name_servers: Name servers of the cluster, "host:port" each, separated by commas.
        choice: The admin to use.
        method: The method of a service.
        request: Its request.
        seconds_max: How long it may take.

    Raises:
        CommandFailed: The given admin is away, or serves another cluster.
        CallError: The error of the service.
    """

    async def ask() -> _Answer:
        async with administration(name_servers, choice) as changes:
            return await changes.ask(method(changes), request, seconds_max=seconds_max)

    return run_async(ask())


def changed_everywhere(
    name_servers: str,
    choice: AdminChoice,
    method: Callable[[Services], Callable[..., Awaitable[_Outcomes]]],
    request: Message,
) -> _Outcomes:
    """Make one change at several brokers, and return the answer; arguments as of `changed`.

    Raises:
        CommandFailed: As with `changed`.
        CallError: As with `changed`; or a broker did not make the change: a note has the number of
            those that did.
    """
    answer = changed(name_servers, choice, method, request)
    outcomes = answer.outcomes
    failed = [each for each in outcomes if each.HasField("error")]
    if failed:
        error = error_of(failed[0].error)
        if len(outcomes) > 1:
            done_count = len(outcomes) - len(failed)
            error.add_note(f"{done_count} of {len(outcomes)} brokers did it")
        raise error
    return answer


def error_of(status: Status) -> CallError:
    """Convert the error of a part of an answer to an error of the client."""
    return error_from_status(status, peer="")


class _Served(NamedTuple):
    """The identity of a cluster: addresses that its admin uses, and the name of their setting."""

    setting: str
    addresses: str


def _choice(context: click.Context, parameter: click.Parameter, value: str) -> AdminChoice:
    source = context.get_parameter_source(str(parameter.name))
    is_explicit = source is not ParameterSource.DEFAULT
    return AdminChoice("" if value == NO_ADMIN else check_address(value), is_explicit)


async def _listens(address: str) -> bool:
    """Whether a process accepts connections there; without one this takes only a moment."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(LOOK_SECONDS_MAX):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _trouble(channel: Channel, address: str, cluster: _Served) -> str:
    """Why changes of a cluster cannot go through an admin; empty if they can."""
    call = ProcessServiceStub(channel).ListProcessSettings(
        ListProcessSettingsRequest(), timeout=CALL_SECONDS_MAX
    )
    try:
        settings = {each.name: each.value for each in (await call).settings}
    except AioRpcError as error:
        return str(error_from_rpc(error, peer=f"admin {address}"))
    served = settings.get(cluster.setting, "")
    if not await _meet(_parts(served), _parts(cluster.addresses)):
        if cluster.setting == "name_servers" and await _knows_the_same(channel, cluster.addresses):
            return ""
        what = "name servers" if cluster.setting == "name_servers" else "transaction checkers"
        return (
            f"admin {address} serves another cluster, with {what} {served or 'unknown'} and not"
            f" {cluster.addresses}"
        )
    return ""


async def _knows_the_same(channel: Channel, name_servers: str) -> bool:
    """Whether admin uses one of these name servers under another address.

    Each process draws a unique incarnation at its start, which is the same under all addresses.
    """
    from ariane.admin.v1.cluster_service_pb2 import ListNameServersRequest  # noqa: PLC0415
    from ariane.admin.v1.cluster_service_pb2_grpc import ClusterServiceStub  # noqa: PLC0415

    async def incarnation_at(address: str) -> str:
        async with admin_channel(address) as own:
            call = ProcessServiceStub(own).GetProcessState(
                GetProcessStateRequest(), timeout=CALL_SECONDS_MAX
            )
            try:
                return (await call).state.incarnation
            except AioRpcError:
                return ""  # This address cannot be compared.

    listing = ClusterServiceStub(channel).ListNameServers(
        ListNameServersRequest(), timeout=ADMIN_SECONDS_MAX
    )
    try:
        known = {each.incarnation for each in (await listing).name_servers}
    except AioRpcError:
        return False
    own = set(await asyncio.gather(*map(incarnation_at, _parts(name_servers))))
    return bool((known & own) - {""})


def _parts(text: str) -> set[str]:
    return {part.strip() for part in text.replace(";", ",").split(",") if part.strip()}


async def _meet(served: set[str], wanted: set[str]) -> bool:
    """Whether two lists of addresses have one in common, before or after name resolution."""
    if served & wanted:
        return True
    places = await asyncio.gather(*map(_places, (served, wanted)))
    return bool(places[0] & places[1])


async def _places(addresses: Iterable[str]) -> set[tuple[str, int]]:
    loop = asyncio.get_running_loop()
    found: set[tuple[str, int]] = set()
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            infos = await loop.getaddrinfo(
                host.strip("[]"), int(port), type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
        except (OSError, ValueError):
            continue
        found |= {(info[4][0], int(info[4][1])) for info in infos}  # type: ignore[misc]
    return found
