"""The stream of a client to one broker: it sends heartbeats and receives notices.

The stream is opened anew whenever it ends. When a consumer's stream ends, the broker takes the
member for dead, and the others share its queues; no message is lost, some are delivered twice.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from grpc.aio import AioRpcError

from ariane.broker.v1.client_question_pb2 import QueueHold
from ariane.broker.v1.client_service_pb2 import (
    AttachRequest,
    AttachResponse,
    ClientGoodbye,
    ClientHeartbeat,
    ClientHello,
    Membership,
)
from ariane_sdk.client.hold import keys_of
from ariane_sdk.client.operator_answers import OperatorAnswers
from ariane_sdk.errors import CallError
from ariane_sdk.net.backoff import reconnect_delay_s
from ariane_sdk.net.connections import Connections
from ariane_sdk.net.status import error_from_rpc
from ariane_sdk.net.timestamps import duration_s
from ariane_sdk.release import __version__
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.runtime.log import logger
from ariane_sdk.runtime.tasks import start_task

HEARTBEAT_INTERVAL_S: Final = 30.0
"""Interval of heartbeats, unless the broker asks for a shorter one."""

FATAL_REASONS: Final = frozenset(
    {"SUBSCRIPTION_CONFLICT", "GROUP_NAME_ILLEGAL", "FILTER_EXPRESSION_INVALID", "ACCESS_DENIED"}
)
"""Refusals that do not change when tried again."""


class Attachment:
    """Keeps a client attached to one broker."""

    def __init__(
        self,
        broker_name: str,
        address: str,
        connections: Connections,
        *,
        client_id: str,
        incarnation: str = "",
        membership: Membership | None = None,
        producer_groups: Sequence[str] = (),
        clock: Clock,
        on_notice: Callable[[str, AttachResponse], None],
        on_fatal: Callable[[CallError], None],
        on_turn: Callable[[], None] = lambda: None,
        answers: OperatorAnswers,
        holds: Callable[[str], Sequence[QueueHold]] = lambda _broker_name: (),
    ) -> None:
        """Attach, and stay attached.

        Args:
            broker_name: The broker.
            address: Its "host:port".
            connections: The client's connections.
            client_id: The client.
            incarnation: Distinguishes the client from earlier ones of the same id; empty where an
                id never comes back.
            membership: Its membership of a consumer group; None for a producer.
            producer_groups: The producer groups whose transactions it can be asked about.
            clock: The client's clock.
            on_notice: Called with the broker's name and each of its notices.
            on_fatal: Called when the broker will never admit this client.
            on_turn: Called when the stream ended, failed to open, or was opened anew: the broker
                may be gone, or may have a new address.
            answers: Answers the questions of operators.
            holds: Returns what is not handed out of a broker's queues.
        """
        self.broker_name = broker_name
        """The broker."""
        self.address = address
        """Its address."""
        self.error: CallError | None = None
        """The last refusal, if the client was ever refused."""
        self._connections = connections
        self._client_id = client_id
        self._incarnation = incarnation
        self._memberships = [] if membership is None else [membership]
        self._sent_memberships = self._memberships
        self._producer_groups = producer_groups
        self._clock = clock
        self._on_notice = on_notice
        self._on_fatal = on_fatal
        self._on_turn = on_turn
        self._answers = answers
        self._holds = holds
        self._sent_holds = keys_of(())
        self._holds_end_s = math.inf
        self._outgoing: asyncio.Queue[AttachRequest | None] = asyncio.Queue()
        self._heartbeat_interval_s = HEARTBEAT_INTERVAL_S
        self._leaving = False
        self._attached = asyncio.Event()
        self._tried = asyncio.Event()
        self._task = start_task(self._run(), f"attach-{broker_name}")

    @property
    def attached(self) -> bool:
        """Whether the broker has admitted the client."""
        return self._attached.is_set()

    @property
    def ended(self) -> bool:
        """Whether it has given up: the broker will never admit this client as it is."""
        return self._task.done()

    def change_membership(self, membership: Membership) -> None:
        """Report a new membership of the consumer's group."""
        self._memberships = [membership]
        if self.attached:
            self._send_memberships()

    def _send_memberships(self) -> None:
        self._sent_memberships = self._memberships
        heartbeat = ClientHeartbeat(memberships=self._memberships, memberships_changed=True)
        self._outgoing.put_nowait(self._with_holds(heartbeat))

    def send_holds(self) -> None:
        """Report what is not handed out, if that has changed."""
        if not self.attached:
            return
        # One that has begun anew: it is over by what was said, and goes on.
        is_over = asyncio.get_running_loop().time() > self._holds_end_s
        if is_over or keys_of(self._holds(self.broker_name)) != self._sent_holds:
            self._outgoing.put_nowait(self._with_holds(ClientHeartbeat()))

    def say_offsets_stored(self) -> None:
        """Tell a broker that goes that it need not wait for offsets any longer."""
        self.send(self._with_holds(ClientHeartbeat(offsets_stored=True)))

    def _with_holds(self, heartbeat: ClientHeartbeat) -> AttachRequest:
        holds = self._holds(self.broker_name)
        self._sent_holds = keys_of(holds)
        left_ms = (hold.remaining.ToMilliseconds() for hold in holds if hold.HasField("remaining"))
        now_s = asyncio.get_running_loop().time()
        self._holds_end_s = now_s + min(left_ms, default=math.inf) / 1000
        heartbeat.holds.extend(holds)
        return AttachRequest(heartbeat=heartbeat)

    def send(self, request: AttachRequest) -> None:
        """Send a request to the broker; dropped while the client is not attached."""
        if self.attached:
            self._outgoing.put_nowait(request)

    async def wait_tried(self) -> None:
        """Wait until the broker has admitted the client, or one attempt has failed."""
        await self._tried.wait()

    async def close(self, timeout_s: float) -> None:
        """Detach, so that other members need not wait until the broker notices the silence."""
        self._leaving = True
        self.send(AttachRequest(goodbye=ClientGoodbye()))
        self._outgoing.put_nowait(None)
        if not self.attached:
            self._task.cancel()
        done, _ = await asyncio.wait((self._task,), timeout=timeout_s)
        if not done:
            self._task.cancel()
            await asyncio.wait((self._task,))
        # A task that is cancelled before its first step has not set it.
        self._tried.set()

    async def _run(self) -> None:
        failure_count = 0
        while not self._leaving:
            try:
                await self._stay_attached()
                failure_count = 0
            except AioRpcError as rpc_error:
                error = error_from_rpc(rpc_error, peer=f"broker {self.broker_name}")
                self.error = error
                if _is_final(error):
                    self._tried.set()
                    self._on_fatal(error)
                    return
                failure_count = 0 if self.attached else failure_count + 1
                logger.info("not attached to broker %s: %s", self.broker_name, error)
            except Exception:  # noqa: BLE001 - a loop that dies would take the membership with it.
                failure_count += 1
                logger.exception(
                    "the stream to broker %s failed, and is made anew", self.broker_name
                )
            finally:
                self._attached.clear()
                self._tried.set()
            if not self._leaving:
                self._on_turn()
                await self._clock.sleep(reconnect_delay_s(failure_count))

    async def _stay_attached(self) -> None:
        """Open one stream, and serve it until its end."""
        self._outgoing = asyncio.Queue()
        call = self._connections.clients(self.address).Attach(self._requests())
        try:
            # Not by `read`: it drops responses that arrive together with the end of the call.
            async for response in call:
                self._take_notice(response)
                del response  # Not kept while the next one is awaited.
        finally:
            call.cancel()
        if not self._leaving:
            # If the broker ended the stream, its status has the reason.
            code = await call.code()
            logger.info("broker %s ended the stream: %s", self.broker_name, code)

    async def _requests(self) -> AsyncIterator[AttachRequest]:
        self._sent_memberships = self._memberships
        self._sent_holds = keys_of(())
        hello = ClientHello(
            client_id=self._client_id,
            language="python",
            sdk_version=__version__,
            producer_groups=self._producer_groups,
            memberships=self._memberships,
            reads_records=True,
            incarnation=self._incarnation,
        )
        yield AttachRequest(hello=hello)
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_interval_s):
                    request = await self._outgoing.get()
            except TimeoutError:
                request = self._with_holds(ClientHeartbeat())
            if request is None:
                return
            yield request
            del request  # Not kept while the next one is awaited.

    def _take_notice(self, response: AttachResponse) -> None:
        kind = response.WhichOneof("content")
        if kind == "accepted":
            wanted_s = duration_s(response.accepted.heartbeat_interval)
            if wanted_s > 0:
                self._heartbeat_interval_s = min(wanted_s, HEARTBEAT_INTERVAL_S)
            self.error = None
            self._attached.set()
            if self._sent_memberships is not self._memberships:
                # They changed after the hello, so the broker has old ones.
                self._send_memberships()
            if self._tried.is_set():
                self._on_turn()
            self._tried.set()
        elif response.client_id:
            pass  # It is for a client that this one relays to.
        elif kind == "state_question":
            state = self._answers.state(response.state_question)
            self._outgoing.put_nowait(AttachRequest(state=state))
        elif kind == "consume_question":
            self._answers.consume(response.consume_question, self.broker_name, self.send)
        self._on_notice(self.broker_name, response)


def _is_final(error: CallError) -> bool:
    """Whether a refusal does not change; nor does that of a group deleted while it was away."""
    gone = error.reason == "GROUP_NOT_FOUND" and "deleted" in error.metadata
    return gone or error.reason in FATAL_REASONS
