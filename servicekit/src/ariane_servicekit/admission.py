"""Who may enter: nobody while the service starts or drains, and never too many at once."""

from __future__ import annotations

import enum
from collections.abc import Collection
from typing import Any, Final

from ariane.common.v1.error_reason_pb2 import ErrorReason
from ariane_servicekit.calls import Call
from ariane_servicekit.errors import ServiceError
from ariane_servicekit.interceptor import Proceed

ALWAYS_OPEN: Final = (
    "/grpc.health.",
    "/grpc.reflection.",
    "/ariane.common.v1.ProcessService/",
)
"""Methods with these beginnings are answered in every phase, and beyond the limit of calls."""


class Phase(enum.Enum):
    """Where a service is in its life."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"


class Admission:
    """The innermost stage: phase, deadline and number of calls.

    A call whose deadline has passed is refused before its work begins. Streams and held calls
    count for as long as they last.
    """

    def __init__(self, *, concurrent_calls_max: int, open_while_draining: Collection[str]) -> None:
        self.phase = Phase.STARTING
        self.call_count = 0
        """Calls in work now, those that are always open left out."""
        self._call_count_max = concurrent_calls_max
        self._open_while_draining = frozenset(open_while_draining)

    def change_call_count_max(self, call_count_max: int) -> None:
        """Take or refuse from now on by another limit; calls in work are not ended."""
        self._call_count_max = call_count_max

    async def __call__(self, call: Call, proceed: Proceed) -> Any:
        """Refuse the call, or count it for as long as it is in work."""
        if call.method.startswith(ALWAYS_OPEN):
            return await proceed()
        if self.phase is not Phase.SERVING:
            self._check_phase(call)
        if self.call_count >= self._call_count_max:
            raise ServiceError(
                ErrorReason.ERROR_REASON_SERVICE_BUSY,
                f"{self._call_count_max} calls are in work already",
                {"limit": self._call_count_max},
            )
        # None when the caller set no deadline, whatever the stub says.
        remaining_s: float | None = call.context.time_remaining()
        if remaining_s is not None and remaining_s <= 0:
            raise ServiceError(
                ErrorReason.ERROR_REASON_DEADLINE_PASSED, "the deadline passed before the work"
            )
        self.call_count += 1
        try:
            return await proceed()
        finally:
            self.call_count -= 1

    def _check_phase(self, call: Call) -> None:
        if self.phase is Phase.STARTING:
            raise ServiceError(
                ErrorReason.ERROR_REASON_SERVICE_STARTING, "the service is still recovering"
            )
        if call.method not in self._open_while_draining:
            raise ServiceError(ErrorReason.ERROR_REASON_SERVICE_DRAINING, "the service is stopping")
