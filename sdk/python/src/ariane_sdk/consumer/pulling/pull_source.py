"""Where the messages of a broker are pulled from: the broker, or a FilterServer beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from ariane_sdk.errors import (
    CallError,
    DeadlinePassed,
    FilterServersUnreachable,
    ServiceUnavailable,
)
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.settings import HOLD_S_MAX

NEXT_SERVER_REASONS: Final = frozenset(
    {"FILTER_NOT_FOUND", "FEATURE_NOT_AVAILABLE", "FILTER_MODULE_INVALID"}
)
"""Another FilterServer may accept the pull."""

FINAL_REASONS: Final = frozenset({"FILTER_QUARANTINED", "FILTER_EXPRESSION_INVALID"})
"""Every other FilterServer would refuse the pull as well."""


FILTER_SERVER_HOLD_S_MAX: Final = 1.0
"""How long a pull is held at a FilterServer: one that is frozen keeps its connections open, so that
it is left for the next one only after the hold and ``call_timeout_s``."""

SILENT_REASONS: Final = frozenset(
    {
        ServiceUnavailable.reason,
        DeadlinePassed.reason,
        FilterServersUnreachable.reason,
        "SERVICE_DRAINING",
    }
)
"""Errors that mean that a FilterServer is absent."""


class PullSource(Protocol):
    """The process that a pull loop pulls from."""

    peer: str
    """The name of the process for logs and errors."""
    hold_s_max: float
    """How long a pull may be held there, in seconds."""

    def address(self) -> str:
        """Return its address.

        Raises:
            CallError: The address is unknown.
        """

    def answered(self) -> None:
        """Note that it has answered."""

    def replica(self) -> str:
        """Return the address of a replica, another one each time; empty if there is none."""

    async def failed(self, error: CallError) -> bool:
        """Note that its stream has failed; True if another process can be asked at once."""


class BrokerSource:
    """The broker itself."""

    def __init__(
        self,
        broker_name: str,
        read_address: Callable[[], str],
        replicas: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Begin; the functions read the current route, and return nothing if it has no address."""
        self.peer = f"broker {broker_name}"
        self.hold_s_max = HOLD_S_MAX
        self._read_address = read_address
        self._replicas = replicas
        self._turn = 0

    def address(self) -> str:
        """As ``PullSource``."""
        address = self._read_address()
        if not address:
            raise CallError(f"no address of {self.peer} is known", retriable=True)
        return address

    def answered(self) -> None:
        """As ``PullSource``."""

    def replica(self) -> str:
        """As ``PullSource``."""
        replicas = self._replicas()
        self._turn += 1
        return replicas[self._turn % len(replicas)] if replicas else ""

    async def failed(self, error: CallError) -> bool:  # noqa: ARG002 - there is no other place
        """As ``PullSource``."""
        return False


class FilterServerSource:
    """The FilterServers beside a broker: one after the other, until one answers.

    Members of a group begin at different FilterServers, so that the load is shared. If all of them
    refuse the filter, or an operator has stopped it, the consumer ends with their reason. It also
    ends if no FilterServer answers while the broker does, for longer than a restart takes. In each
    case the offsets stay where they are.
    """

    def __init__(
        self,
        broker_name: str,
        addresses: Callable[[], Sequence[str]],
        *,
        first: int,
        wait_s: float,
        clock: Clock,
        broker_answers: Callable[[], Awaitable[object]],
        upload: Callable[[str], Awaitable[bool]],
        on_fatal: Callable[[CallError], None],
    ) -> None:
        """Ask none yet.

        Args:
            broker_name: The broker.
            addresses: Returns the FilterServers in the current route.
            first: The number of the first one to ask, which may be any.
            wait_s: After so long without any FilterServer the consumer ends.
            clock: The client's clock.
            broker_answers: Asks the broker itself; raises ``CallError`` if it does not answer.
            upload: Uploads the filters whose code the consumer has to the FilterServer at an
                address; returns whether there are any.
            on_fatal: Called with the reason when the consumer cannot go on.
        """
        self.peer = f"the FilterServer of broker {broker_name}"
        self.hold_s_max = FILTER_SERVER_HOLD_S_MAX
        self._broker_name = broker_name
        self._addresses = addresses
        self._first = first
        self._wait_s = wait_s
        self._clock = clock
        self._broker_answers = broker_answers
        self._upload = upload
        self._on_fatal = on_fatal
        self._refusals: dict[str, CallError] = {}
        self._tried: set[str] = set()
        self._uploaded: set[str] = set()
        self._asked = ""
        self._absent_since_s: float | None = None

    def address(self) -> str:
        """As ``PullSource``."""
        addresses = self._addresses()
        if not addresses:
            self._asked = ""
            raise FilterServersUnreachable(
                f"no FilterServer runs beside broker {self._broker_name}", retriable=True
            )
        if self._asked not in addresses:
            self._asked = addresses[self._first % len(addresses)]
        return self._asked

    def answered(self) -> None:
        """As ``PullSource``."""
        self._absent_since_s = None
        self._refusals.clear()
        self._tried.clear()
        self._uploaded.clear()

    def replica(self) -> str:
        """As ``PullSource``: a FilterServer has no replica."""
        return ""

    async def failed(self, error: CallError) -> bool:
        """As ``PullSource``."""
        if error.reason in FINAL_REASONS:
            self._on_fatal(error)
            return False
        refuses = error.reason in NEXT_SERVER_REASONS
        is_unknown = error.reason == "FILTER_NOT_FOUND"
        if is_unknown and self._asked and self._asked not in self._uploaded:
            try:
                if await self._upload(self._asked):
                    self._uploaded.add(self._asked)
                    return True
            except CallError as refusal:
                # One that has ended meanwhile, or is busy, gets the code again.
                error, refuses = refusal, not refusal.retriable
        if refuses:
            self._refusals[self._asked] = error
        else:
            self._refusals.pop(self._asked, None)
        self._tried.add(self._asked)
        addresses = self._addresses()
        if addresses and self._refusals.keys() >= set(addresses):
            self._on_fatal(error)
            return False
        if _has_spoken(error):
            self._absent_since_s = None
        else:
            await self._judge_absence(error)
        untried = [address for address in addresses if address not in self._tried]
        if untried:
            self._asked = untried[self._first % len(untried)]
            logger.info("broker %s: going on to %s", self._broker_name, self._asked)
            return True
        # All were tried: another round follows, after a pause.
        self._tried.clear()
        self._asked = next((each for each in addresses if each != self._asked), self._asked)
        return False

    async def _judge_absence(self, error: CallError) -> None:
        """End the consumer if no FilterServer has answered for too long, while the broker does."""
        now_s = self._clock.monotonic_s()
        if self._absent_since_s is None:
            self._absent_since_s = now_s
        if now_s - self._absent_since_s < self._wait_s:
            return
        try:
            await self._broker_answers()
        except CallError:
            # Consumers without a filter wait for the broker, too.
            self._absent_since_s = now_s
            return
        self._on_fatal(
            FilterServersUnreachable(
                f"no FilterServer of broker {self._broker_name} has answered for"
                f" {self._wait_s:g} s (filter_servers_wait_s), while the broker does; offsets stay"
                f" where they are. The last one said: {error}",
                metadata={"broker": self._broker_name},
                retriable=True,
            )
        )


def _has_spoken(error: CallError) -> bool:
    """Whether the error comes from a FilterServer, and not from the absence of one."""
    return error.reason not in SILENT_REASONS and not error.reason.startswith("GRPC_")
