"""The brokers of all clusters, over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode, aio
from grpc.aio import AioRpcError
from grpc_status import rpc_status

from ariane.broker.v1.client_service_pb2 import TransactionOutcome
from ariane.broker.v1.transaction_service_pb2 import (
    CheckTransactionRequest,
    ListHalfMessagesRequest,
    ParkTransactionRequest,
    TransactionToEnd,
    UpdateTransactionsRequest,
)
from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceStub
from ariane.namesrv.v1.route_service_pb2 import ListBrokersRequest
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_servicekit import Address, get_logger, open_channel
from ariane_servicekit.security.caller import BROKERS, MemberKind
from ariane_txn_checker.errors import (
    BrokerFailed,
    BrokerRefusal,
    BrokerUnreachable,
    NobodyAnswered,
    OutcomeStands,
    TransactionForgotten,
)
from ariane_txn_checker.rpc.translation import half_message_page, span_of
from ariane_txn_checker.transaction import (
    Answer,
    BrokerKey,
    CheckedTransaction,
    HalfMessagePage,
    Outcome,
)
from ariane_txn_checker.watching.brokers import Broker
from ariane_wire import AddressSources, ChannelOptions

if TYPE_CHECKING:
    from ariane.broker.v1.transaction_service_pb2_grpc import TransactionServiceAsyncStub
    from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceAsyncStub

CALL_S_MAX: Final = 5.0
CONNECT_S_MAX: Final = 2.0
PAGE_SIZE: Final = 1000
PRIMARY_ID: Final = 0

_OPTIONS: Final = ChannelOptions(
    # A broker that comes back is found within seconds, not after two minutes.
    backoff_first_s=0.2,
    backoff_max_s=5.0,
    connect_timeout_s=1.0,
    # A page of half messages with long keys may exceed the default of 4 MiB.
    receive_octets_max=-1,
)

_NOT_TAKEN: Final = frozenset({"SERVICE_STARTING", "SERVICE_DRAINING", "SERVICE_BUSY"})
"""Reasons of a broker that refused a call before it worked on it."""

_SILENCE: Final = frozenset({"CLIENT_NOT_ATTACHED", "DEADLINE_PASSED"})
"""Reasons of a broker whose producers did not answer."""

_log = get_logger(__name__)

_CODES: Final[dict[int, StatusCode]] = {code.value[0]: code for code in StatusCode}


class RemoteBroker:
    """One broker's ``TransactionService``."""

    def __init__(self, address: str, *, answer_ms_max: int, chance: Random) -> None:
        self.address = address
        self._channel = open_channel(address, _OPTIONS, chance, kinds=BROKERS)
        self._stub: TransactionServiceAsyncStub = TransactionServiceStub(self._channel)
        self._answer_ms_max = answer_ms_max

    async def list_half_messages(
        self, *, page_size: int, page_token: str = "", begin_queue_offset: int = 0
    ) -> HalfMessagePage:
        """List half messages without an outcome."""
        request = ListHalfMessagesRequest(
            page_size=page_size, page_token=page_token, begin_queue_offset=begin_queue_offset
        )
        await self._connect()
        try:
            answer = await self._stub.ListHalfMessages(request, timeout=CALL_S_MAX)
        except aio.AioRpcError as error:
            raise _refusal(failure_of(error)) from error
        return half_message_page(answer)

    async def ask(self, transaction_id: str, *, check_count: int) -> Answer:
        """Make the broker ask a producer."""
        request = CheckTransactionRequest(
            transaction_id=transaction_id,
            wait_duration=span_of(self._answer_ms_max),
            check_count=check_count,
        )
        await self._connect()
        try:
            answer = await self._stub.CheckTransaction(
                request, timeout=self._answer_ms_max / 1000 + CALL_S_MAX
            )
        except aio.AioRpcError as error:
            refusal = _refusal(failure_of(error))
            if isinstance(refusal, BrokerFailed):
                # The broker may have asked a producer: that counts.
                raise NobodyAnswered(refusal.reason) from error
            raise refusal from error
        return Answer(Outcome(answer.outcome), answer.client_id, answer.cause)

    async def end(self, transaction: CheckedTransaction, outcome: Outcome) -> Outcome:
        """End a transaction; return the outcome that now stands."""
        end = TransactionToEnd(
            topic=transaction.topic,
            transaction_id=transaction.key.transaction_id,
            unique_id=transaction.unique_id,
            outcome=TransactionOutcome.ValueType(outcome),
            producer_group=transaction.producer_group,
        )
        await self._connect()
        request = UpdateTransactionsRequest(ends=[end])
        try:
            answer = await self._stub.UpdateTransactions(request, timeout=CALL_S_MAX)
        except aio.AioRpcError as error:
            raise _refusal(failure_of(error)) from error
        (ended,) = answer.ends
        if ended.HasField("error"):
            refusal = _refusal(failure_of_status(ended.error))
            if isinstance(refusal, OutcomeStands):
                return refusal.outcome
            raise refusal
        return Outcome(ended.outcome)

    async def park(self, transaction_id: str, *, check_count: int) -> None:
        """Park a copy."""
        request = ParkTransactionRequest(transaction_id=transaction_id, check_count=check_count)
        await self._connect()
        try:
            await self._stub.ParkTransaction(request, timeout=CALL_S_MAX)
        except aio.AioRpcError as error:
            raise _refusal(failure_of(error)) from error

    async def close(self) -> None:
        """End the connection."""
        await self._channel.close()

    async def _connect(self) -> None:
        """Wait for the connection: a call that fails before it stands has surely done nothing."""
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                await self._channel.channel_ready()
        except TimeoutError:
            raise BrokerUnreachable(f"no connection to {self.address}") from None


def _refusal(failure: RpcFailure) -> BrokerRefusal:
    """Translate the failure of a call to a broker."""
    reason = failure.reason
    if reason == "TRANSACTION_DECIDED":
        return OutcomeStands(Outcome[failure.metadata["outcome"]])
    if reason == "TRANSACTION_NOT_FOUND":
        return TransactionForgotten(failure.message)
    if reason in _NOT_TAKEN:
        return BrokerUnreachable(str(failure))
    if reason in _SILENCE:
        return NobodyAnswered(reason)
    if not reason:
        late = failure.code is StatusCode.DEADLINE_EXCEEDED
        reason = "DEADLINE_PASSED" if late else failure.code.name
    return BrokerFailed(reason, failure.message)


class RemoteBrokers:
    """The primaries that name servers know, and connections to them.

    The answers of all name servers count together; one that has just started may lack brokers. As
    long as every answer may lack some, known brokers are kept.
    """

    def __init__(self, name_servers: Sequence[str], *, answer_ms_max: int, chance: Random) -> None:
        """``name_servers``: their addresses, or sources of them."""
        self._answer_ms_max = answer_ms_max
        self._chance = chance
        self._sources = AddressSources(name_servers)
        self._channels: dict[str, aio.Channel] = {}
        self._addresses: dict[BrokerKey, str] = {}
        self._brokers: dict[BrokerKey, RemoteBroker] = {}

    @property
    def keys(self) -> frozenset[BrokerKey]:
        """The living primaries."""
        return frozenset(self._addresses)

    async def refresh(self) -> None:
        """Query all name servers; those that do not answer are skipped."""
        answers = await asyncio.gather(*map(_ask, await self._name_servers()))
        known: dict[BrokerKey, str] = {}
        believed = False
        for answer in answers:
            if answer is not None:
                brokers, warming_up = answer
                known.update(brokers)
                believed = believed or not warming_up
        if not believed:
            known = {**self._addresses, **known}
        self._addresses = known
        for key in [*self._brokers]:
            if self._brokers[key].address != known.get(key):
                await self._brokers.pop(key).close()

    async def _name_servers(self) -> list[RouteServiceAsyncStub]:
        """Stubs of the name servers there are now; connections to others end."""
        addresses = await self._sources.read()
        for address in sorted(self._channels.keys() - set(addresses)):
            await self._channels.pop(address).close()
        for address in addresses:
            if address not in self._channels:
                self._channels[address] = open_channel(
                    Address.parse(address),
                    _OPTIONS,
                    self._chance,
                    kinds=(MemberKind.NAME_SERVER,),
                )
        return [RouteServiceStub(self._channels[address]) for address in addresses]

    def broker(self, key: BrokerKey) -> Broker:
        """Return the connection to a broker; it is made on first use."""
        if key not in self._addresses:
            raise BrokerUnreachable(f"no name server knows {key}")
        if key not in self._brokers:
            self._brokers[key] = RemoteBroker(
                self._addresses[key], answer_ms_max=self._answer_ms_max, chance=self._chance
            )
        return self._brokers[key]

    async def close(self) -> None:
        """Close all connections."""
        brokers, self._brokers = self._brokers, {}
        for broker in brokers.values():
            await broker.close()
        for channel in self._channels.values():
            await channel.close()


async def _ask(
    name_server: RouteServiceAsyncStub,
) -> tuple[dict[BrokerKey, str], bool] | None:
    """The primaries' addresses, and whether some may be missing. None: no answer."""
    found: dict[BrokerKey, str] = {}
    warming_up, page_token = False, ""
    try:
        while True:
            request = ListBrokersRequest(page_size=PAGE_SIZE, page_token=page_token)
            answer = await name_server.ListBrokers(request, timeout=CALL_S_MAX)
            warming_up = warming_up or answer.warming_up
            for broker in answer.brokers:
                identity = broker.identity
                if identity.broker_id == PRIMARY_ID:
                    key = BrokerKey(identity.cluster_name, identity.broker_name)
                    found[key] = identity.address
            page_token = answer.next_page_token
            if not page_token:
                return found, warming_up
    except aio.AioRpcError as error:
        _log.info("name_server_unreachable", error=str(failure_of(error)))
        return None


@dataclass(frozen=True, slots=True)
class RpcFailure:
    """The reason and text of a failed call."""

    code: StatusCode
    message: str
    reason: str = ""
    """Such as ``"TRANSACTION_DECIDED"``; empty if the network failed before a service answered."""
    metadata: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """As one line for a log."""
        return f"{self.reason or self.code.name}: {self.message}"


def failure_of(error: AioRpcError) -> RpcFailure:
    """Read a failed call."""
    message = error.details() or ""
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    if status is None:
        return RpcFailure(error.code(), message)
    return failure_of_status(status)


def failure_of_status(status: Status) -> RpcFailure:
    """Read the failure of one item of a call."""
    code = _CODES.get(status.code, StatusCode.UNKNOWN)
    for detail in status.details:
        named = ErrorInfo()
        if detail.Unpack(named):
            return RpcFailure(code, status.message, named.reason, dict(named.metadata))
    return RpcFailure(code, status.message)
