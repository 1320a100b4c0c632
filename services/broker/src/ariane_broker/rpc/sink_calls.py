"""Calls to the other brokers of a sink, each found by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from google.rpc.error_details_pb2 import ErrorInfo
from grpc import aio
from grpc_status import rpc_status

from ariane.broker.v1 import sink_service_pb2 as sink_pb
from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceStub
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_broker.errors.transactions import peer_silent
from ariane_broker.naming.broker_addresses import BrokerAddresses, NobodyKnows
from ariane_broker.rpc.translation.sink_wire import (
    attempt_messages,
    batch_message,
    contents_of,
    home_message,
    home_of,
)
from ariane_broker.spark_batches.records.batch_records import BatchKey, Contents, NamedAttempt
from ariane_broker.spark_batches.records.sink_homes import SinkHome
from ariane_broker.spark_batches.sink_peers import Fate, HomeElsewhere, PeerGone
from ariane_servicekit import ServiceError, ServicekitError, open_channel
from ariane_servicekit.security.caller import BROKERS
from ariane_wire import ChannelOptions

if TYPE_CHECKING:
    from ariane.broker.v1.sink_service_pb2_grpc import SinkServiceAsyncStub

CALL_S_MAX: Final = 5.0
VISIBLE_S_MAX: Final = 60.0
"""A large part takes time until it is completely visible."""

_OPTIONS: Final = ChannelOptions(
    backoff_first_s=0.1, backoff_max_s=1.0, connect_timeout_s=1.0, receive_octets_max=-1
)
_REASON: Final = "ERROR_REASON_"
_REASONS: Final = frozenset(ErrorReason.keys())

_AnswerT = TypeVar("_AnswerT")


class SinkCalls:
    """Calls to brokers by name; ``SinkPeers`` for the use cases."""

    def __init__(self, addresses: BrokerAddresses, chance: Random) -> None:
        self._addresses = addresses
        self._chance = chance
        self._channels: dict[str, aio.Channel] = {}

    async def prepare(
        self,
        broker_name: str,
        batch: BatchKey,
        home: SinkHome,
        decision_id: int,
        attempts: Sequence[NamedAttempt],
    ) -> None:
        """Have a broker keep its part of a batch for the decision."""
        request = sink_pb.PrepareBatchRequest(
            query_id=batch.query_id,
            batch_id=batch.batch_id,
            home=home_message(home),
            decision_id=decision_id,
            attempts=attempt_messages(attempts),
        )
        await self._ask(broker_name, lambda stub: stub.PrepareBatch(request, timeout=CALL_S_MAX))

    async def publish(
        self,
        broker_name: str,
        batch: BatchKey,
        home: SinkHome,
        contents: Contents,
        *,
        until_visible: bool = False,
    ) -> None:
        """Tell a broker that a batch is committed."""
        request = sink_pb.PublishBatchRequest(
            query_id=batch.query_id,
            home=home_message(home),
            batch=batch_message(batch.batch_id, contents),
            until_visible=until_visible,
        )
        timeout_s = VISIBLE_S_MAX if until_visible else CALL_S_MAX
        await self._ask(broker_name, lambda stub: stub.PublishBatch(request, timeout=timeout_s))

    async def fate_of(self, broker_name: str, batch: BatchKey, decision_id: int) -> Fate:
        """Ask the home what became of a preparation."""
        request = sink_pb.GetBatchDecisionRequest(
            query_id=batch.query_id, batch_id=batch.batch_id, decision_id=decision_id
        )
        answer = await self._ask(
            broker_name, lambda stub: stub.GetBatchDecision(request, timeout=CALL_S_MAX)
        )
        committed = contents_of(answer.batch) if answer.HasField("batch") else None
        return Fate(answer.decided, committed)

    async def note_home(
        self, broker_name: str, query_id: str, topic: str, home: SinkHome
    ) -> SinkHome:
        """Have a broker note a home; return the home that counts there, with what it knows."""
        request = sink_pb.NoteSinkHomeRequest(
            query_id=query_id, topic=topic, home=home_message(home)
        )
        answer = await self._ask(
            broker_name, lambda stub: stub.NoteSinkHome(request, timeout=CALL_S_MAX)
        )
        return home_of(answer.home)

    async def close(self) -> None:
        """Close the connections."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            await channel.close()
        await self._addresses.close()

    async def _ask(
        self, broker_name: str, ask: Callable[[SinkServiceAsyncStub], Awaitable[_AnswerT]]
    ) -> _AnswerT:
        try:
            address = await self._addresses.address_of(broker_name)
        except NobodyKnows as error:
            raise peer_silent(broker_name, str(error)) from error
        if address is None:
            raise PeerGone(f"no name server knows broker {broker_name}")
        key = f"{broker_name}@{address}"
        if key not in self._channels:
            await self._close_others(broker_name)
            self._channels[key] = open_channel(
                address, _OPTIONS, self._chance, kinds=BROKERS, name=broker_name
            )
        stub: Any = SinkServiceStub(self._channels[key])
        try:
            return await ask(stub)
        except aio.AioRpcError as error:
            self._addresses.forget()
            raise _failure(broker_name, error) from error

    async def _close_others(self, broker_name: str) -> None:
        """Close connections to where a broker was before."""
        for key in [key for key in self._channels if key.startswith(f"{broker_name}@")]:
            await self._channels.pop(key).close()


def _failure(broker_name: str, error: aio.AioRpcError) -> ServicekitError:
    """What a failed call means: what the broker answered, or that it did not."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:
        status = None
    for detail in status.details if status is not None else ():
        info = ErrorInfo()
        if not detail.Unpack(info):
            continue
        metadata = dict(info.metadata)
        if info.reason == "SINK_MOVED":
            return HomeElsewhere(SinkHome(metadata["home"], int(metadata["move_count"])))
        if f"{_REASON}{info.reason}" in _REASONS:
            reason = ErrorReason.Value(f"{_REASON}{info.reason}")
            return ServiceError(reason, f"broker {broker_name}: {error.details()}", metadata)
    return peer_silent(broker_name, error.details() or error.code().name)
