"""Admission of calls: none while the service starts or drains, and never too many at once."""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.errors import ServiceError, refusal
from ariane_servicekit.rpc.calls import Call
from ariane_wire.server.host_places import SHARE_MIN, HostPlaces
from ariane_wire.transport.peers import host_of

ALWAYS_OPEN: Final = (
    "/grpc.health.",
    "/grpc.reflection.",
    "/ariane.common.v1.ProcessService/",
)
"""Methods with these beginnings are answered in every phase, and beyond the limit of calls."""


class Phase(enum.Enum):
    """The phase of a service's life."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


class Admission:
    """Phase, deadline and number of calls, in all and of each caller.

    A call whose deadline has passed is refused before its work begins. Streams and held calls
    count for as long as they last. One connection may have a quarter of them and one host three
    quarters, so that no caller can block all others.
    """

    def __init__(self, *, concurrent_calls_max: int, open_while_draining: Collection[str]) -> None:
        self.phase = Phase.STARTING
        self._hosts = HostPlaces(concurrent_calls_max)
        self._connection_share = connection_share(concurrent_calls_max)
        self._open_while_draining = frozenset(open_while_draining)
        self._of_connection: dict[str, int] = {}

    @property
    def call_count(self) -> int:
        """Calls in work now, those that are always open left out."""
        return self._hosts.count

    def change_call_count_max(self, call_count_max: int) -> None:
        """Set another limit for calls from now on; calls in work are not ended."""
        self._hosts.change_count_max(call_count_max)
        self._connection_share = connection_share(call_count_max)

    def enter(self, call: Call) -> tuple[str, str]:
        """Count a call until ``leave``; return its place, which is its peer and host.

        Raises:
            ServiceError: It is refused, and not counted.
        """
        if self.phase is not Phase.SERVING:
            self._check_phase(call)
        hosts = self._hosts
        if hosts.count >= hosts.count_max:
            raise _too_many(hosts.count_max, "calls are in work already")
        peer = call.context.peer()
        of_peer = self._of_connection.get(peer, 0)
        if of_peer >= self._connection_share:
            raise _too_many(of_peer, "calls of this connection are in work already")
        # None if the caller set no deadline, although the stub's type has no None.
        remaining_s: float | None = call.context.time_remaining()
        if remaining_s is not None and remaining_s <= 0:
            raise ServiceError(
                ErrorReason.ERROR_REASON_DEADLINE_PASSED, "the deadline passed before the work"
            )
        host = host_of(peer)
        if not hosts.enter(host):
            raise _too_many(hosts.taken_by(host), "calls of this host are in work already")
        self._of_connection[peer] = of_peer + 1
        return peer, host

    def leave(self, place: tuple[str, str]) -> None:
        """A call with this place is over."""
        peer, host = place
        self._hosts.leave(host)
        left = self._of_connection[peer] - 1
        if left:
            self._of_connection[peer] = left
        else:
            del self._of_connection[peer]

    def _check_phase(self, call: Call) -> None:
        if self.phase is Phase.STARTING:
            raise ServiceError(
                ErrorReason.ERROR_REASON_SERVICE_STARTING, "the service is still recovering"
            )
        if call.method not in self._open_while_draining:
            raise ServiceError(ErrorReason.ERROR_REASON_SERVICE_DRAINING, "the service is stopping")


def connection_share(call_count_max: int) -> int:
    """Calls that one connection may have in work at a time."""
    return max(SHARE_MIN, call_count_max // 4)


@refusal(ErrorReason.ERROR_REASON_SERVICE_BUSY, without=("what",))
def _too_many(limit: int, what: str) -> str:
    return f"{limit} {what}"
