"""The broker beside the FilterServer: one connection over loopback, and the registration there."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from grpc import aio

from ariane.broker.v1.pull_service_pb2_grpc import PullServiceStub
from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane.filter.v1.filter_registration_service_pb2 import (
    GetFilterServersRequest,
    RegisterFilterServerRequest,
    UnregisterFilterServerRequest,
)
from ariane.filter.v1.filter_registration_service_pb2_grpc import FilterRegistrationServiceStub
from ariane_filter.refusals import broker_refusal
from ariane_servicekit import Address, Clock, Loop, ServiceError, get_logger, open_channel
from ariane_servicekit.security.caller import BROKERS
from ariane_wire import ChannelOptions

if TYPE_CHECKING:
    from ariane.broker.v1.pull_service_pb2_grpc import PullServiceAsyncStub
    from ariane.filter.v1.filter_registration_service_pb2_grpc import (
        FilterRegistrationServiceAsyncStub,
    )

CALL_S_MAX: Final = 3.0
RETRY_S: Final = 1.0

_OPTIONS: Final = ChannelOptions(
    # A restarted broker is found within seconds, not after two minutes.
    backoff_first_s=0.2,
    backoff_max_s=2.0,
    connect_timeout_s=1.0,
    # Consumers determine the size of answers.
    receive_octets_max=-1,
)

_log = get_logger(__name__)


class BrokerLink:
    """Calls to the broker, and the announcement that keeps the FilterServer in its routes."""

    pulls: PullServiceAsyncStub
    """Its pull service."""

    def __init__(self, broker: Address, clock: Clock, *, incarnation: str) -> None:
        """Connect later: see ``connect``. ``incarnation`` identifies this process."""
        self._broker = broker
        self._clock = clock
        self._incarnation = incarnation
        self._address = ""
        self._next_s = 0.0
        self._failed = False
        self._channel: aio.Channel | None = None
        self._registrations: FilterRegistrationServiceAsyncStub
        self.broker_name = ""
        """The broker's name; empty until it has answered once."""
        self.primary = ""
        """Address of the broker's primary, while the broker is a replica; empty otherwise."""
        self.loop = Loop("registration", self._turn, interval_s=RETRY_S, clock=clock)
        """Registers the FilterServer; to be started and stopped."""

    def connect(self) -> None:
        """Make the channel; it connects at the first call."""
        self._channel = open_channel(self._broker, _OPTIONS, kinds=BROKERS, acting=True)
        # Over a channel of ``aio`` a stub is the asynchronous one.
        self.pulls = PullServiceStub(self._channel)
        self._registrations = FilterRegistrationServiceStub(self._channel)

    def announce(self, address: Address) -> None:
        """Register this address in the broker's routes, from now on.

        Args:
            address: Address of the FilterServer for consumers.
        """
        self._address = str(address)
        self.loop.start(at_once=True)

    async def unregister(self) -> None:
        """Leave the routes at once; without this call the registration expires."""
        await self.loop.stop()
        request = UnregisterFilterServerRequest(
            address=self._address, incarnation=self._incarnation
        )
        with suppress(aio.AioRpcError):
            await self._registrations.UnregisterFilterServer(request, timeout=CALL_S_MAX)

    async def siblings(self) -> list[str]:
        """Addresses of the other FilterServers of the broker; a replica has none.

        Raises:
            ServiceError: PEER_UNREACHABLE: the broker does not answer.
        """
        try:
            answer = await self._registrations.GetFilterServers(
                GetFilterServersRequest(), timeout=CALL_S_MAX
            )
        except aio.AioRpcError as error:
            if broker_refusal(error).reason == ErrorReason.ERROR_REASON_BROKER_NOT_PRIMARY:
                return []
            raise ServiceError(
                ErrorReason.ERROR_REASON_PEER_UNREACHABLE,
                f"broker {self._broker} does not name its FilterServers",
                {"peer": str(self._broker)},
            ) from error
        return [each for each in answer.addresses if each != self._address]

    async def close(self) -> None:
        """End the connection."""
        await self.loop.stop()
        if self._channel is not None:
            await self._channel.close()

    async def _turn(self) -> None:
        """Register when it is time, and again a second after a failure."""
        if self._clock.monotonic() < self._next_s:
            return
        request = RegisterFilterServerRequest(address=self._address, incarnation=self._incarnation)
        try:
            answer = await self._registrations.RegisterFilterServer(request, timeout=CALL_S_MAX)
        except aio.AioRpcError as error:
            self._take_refusal(broker_refusal(error))
            return
        if self._failed or not self.broker_name:
            _log.info("registered", broker=answer.broker_name, address=self._address)
        self._failed = False
        self.primary = ""
        self.broker_name = answer.broker_name
        self._next_s = self._clock.monotonic() + answer.heartbeat_interval.ToMilliseconds() / 1000

    def _take_refusal(self, refusal: ServiceError) -> None:
        """Log once why the broker refuses the FilterServer, and try again in a second.

        A replica refuses all, because only the primary has routes.
        """
        if not self._failed:
            _log.warning("broker_refused", broker=str(self._broker), cause=refusal.message)
        self._failed = True
        is_replica = refusal.reason == ErrorReason.ERROR_REASON_BROKER_NOT_PRIMARY
        self.primary = str(refusal.metadata.get("primary", "")) if is_replica else ""
