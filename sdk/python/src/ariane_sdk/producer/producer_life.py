"""The life of a producer: start, close, and waiting for its messages."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final, NoReturn, Self

from ariane.broker.v1.send_service_pb2 import RecallMessageRequest
from ariane_record.encoding.kept_memory import expect_large_blocks
from ariane_record.errors import RecallHandleIllegal
from ariane_record.single.message_id import UniqueIdGenerator
from ariane_record.single.recall_handle import decode_recall_handle
from ariane_sdk.checks.limits import checked_group
from ariane_sdk.client.broker_calls import answer_of
from ariane_sdk.client.message_trace import MessageTrace
from ariane_sdk.client.session import Session, new_client_id
from ariane_sdk.client.telemetry import Telemetry
from ariane_sdk.errors import CallError, ClientNotRunning, IllegalArgument
from ariane_sdk.producer.intake.intake import Intake
from ariane_sdk.producer.queues.latency import BrokerLatencies
from ariane_sdk.producer.requests.request_reply import Requests
from ariane_sdk.producer.sending.append_calls import AppendCalls
from ariane_sdk.producer.sending.unsettled import ProducerParts, Unsettled
from ariane_sdk.producer.transactions.transaction import TransactionChecker
from ariane_sdk.producer.transactions.transaction_answers import TransactionAnswers
from ariane_sdk.producer.transactions.transaction_block import TransactionalSends
from ariane_sdk.producer.transactions.transaction_calls import TransactionCalls
from ariane_sdk.routing.broker_addresses import address_for_send
from ariane_sdk.routing.name_servers import NameServerAddresses, parse_addresses
from ariane_sdk.routing.route import Route
from ariane_sdk.runtime.clock import Clock, SystemClock, new_random
from ariane_sdk.runtime.fork import process_id
from ariane_sdk.runtime.home import HomeGuard
from ariane_sdk.runtime.own_address import LOOPBACK, own_ip
from ariane_sdk.runtime.unclosed import warn_unclosed
from ariane_sdk.security import CredentialsGiven, TlsGiven, access_of
from ariane_sdk.settings import ProducerSettings, checked_settings
from ariane_wire import AddressSources

DELIVERED_REASON: Final = "RECEIPT_HANDLE_EXPIRED"


class ProducerLife(TransactionalSends):
    """All of a producer except its sends."""

    def __init__(
        self,
        name_servers: NameServerAddresses | None = None,
        *,
        group: str = "",
        transaction_checker: TransactionChecker | None = None,
        settings: ProducerSettings | None = None,
        tls: TlsGiven = None,
        credentials: CredentialsGiven = None,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Set the producer up; ``start`` connects it.

        Args:
            name_servers: "host:port" of each, as a list or by commas; None: ARIANE_NAME_SERVERS.
            group: Name of the producer group; only transactions need it.
            transaction_checker: Returns the outcome of a transaction of the group, whichever
                process began it. With it, the producer attaches to all brokers, which can then ask
                it.
            settings: The producer's behaviour.
            tls: Files for TLS, or that of the authority alone; False: plain text; None: what
                ARIANE_TLS_CA, ARIANE_TLS_CERTIFICATE and ARIANE_TLS_KEY say.
            credentials: File with the key of the user, or a function that gives a token; None: what
                ARIANE_CREDENTIALS says.
            clock: For tests.
            random: For tests.

        Raises:
            IllegalArgument: An address or the group's name is illegal, or there is a checker
                without a group.
        """
        if transaction_checker is not None and not group:
            raise IllegalArgument("a transaction checker needs a producer with a group")
        self._addresses = parse_addresses(name_servers)
        self._access = access_of(tls, credentials)
        self._group = checked_group(group) if group else ""
        super().__init__(transaction_checker)
        self._settings = checked_settings(settings, ProducerSettings)
        self._clock = clock or SystemClock()
        self._random = random or new_random()
        self._home = HomeGuard()
        self._unsettled = Unsettled(
            self._random,
            clock=self._clock,
            timeout_s=self._settings.send_timeout_s,
            size_bytes_max=self._settings.buffered_bytes_max,
        )
        self._accepting = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = False
        self._closed = False
        self._session: Session | None = None
        self._telemetry: Telemetry | None = None
        self._message_trace: MessageTrace | None = None

    async def start(self) -> None:
        """Connect. A producer can be started only once, even if its start was cancelled.

        Raises:
            ClientNotRunning: The producer was started before, or closed meanwhile.
            ClientForked: The producer was made in a parent process.
        """
        self._home.settle()
        if self._started:
            raise ClientNotRunning("a producer is started once; make another one")
        self._started = True
        expect_large_blocks()
        known = await AddressSources(self._addresses).read()
        ip = await own_ip(known[0]) if known else LOOPBACK
        if self._closed:
            raise ClientNotRunning("the producer was closed while it started")
        # Nothing below waits, so that an interrupted start leaves nothing to clear away.
        client_id = new_client_id(self._random)
        session = Session(
            self._addresses,
            timeout_s=self._settings.call_timeout_s,
            clock=self._clock,
            random=self._random,
            access=self._access,
            client_id=client_id,
            producer_group=self._group,
        )
        self._session = session
        self._put_together(session, client_id, ip)
        session.routes.start()
        if self._transaction_checker is not None:
            self._transaction_answers = TransactionAnswers(
                self._parts,
                self._transaction_checker,
                group=self._group,
                client_id=client_id,
            )
        self._loop = asyncio.get_running_loop()
        self._accepting = True

    def _put_together(self, session: Session, client_id: str, ip: str) -> None:
        """Make the parts."""
        settings, clock = self._settings, self._clock
        unique_ids = UniqueIdGenerator(
            clock.now_ms, ip=ip, pid=process_id(), origin=self._random.getrandbits(32)
        )
        self._parts = parts = ProducerParts(
            session,
            self._unsettled,
            BrokerLatencies(settings, clock),
            unique_ids,
            settings,
            clock,
            self._random,
        )
        self._sending = AppendCalls(parts)
        self._intake = Intake(parts, self._sending)
        self._requests = Requests(parts, client_id)
        self._transaction_calls = TransactionCalls(parts, self._intake, group=self._group)
        self._telemetry = Telemetry.configured(
            settings.tracer_provider,
            settings.meter_provider,
            client_id=client_id,
            otlp_endpoint=settings.otlp_endpoint,
        )
        if settings.message_trace:
            self._message_trace = self._transaction_calls.trace = MessageTrace(
                lambda: session,
                group=self._group,
                client_id=client_id,
                clock=clock,
                timeout_s=settings.call_timeout_s,
            )

    async def close(self) -> None:
        """Accept no more messages, wait for all outcomes, and disconnect.

        Takes at most ``send_timeout_s`` and the time of one call.
        """
        self._closed = self._started
        if self._session is None:
            return
        self._home.check()
        self._accepting = False
        try:
            await self.flush()
        finally:
            if self._transaction_answers is not None:
                await self._transaction_answers.close(self._settings.call_timeout_s)
            if self._message_trace is not None:
                await self._message_trace.close()
            await self._requests.close()
            self._transaction_calls.close()
            await self._sending.close()
            await self._session.close()

    def __del__(self) -> None:
        if getattr(self, "_accepting", False) and self._home.in_its_process:
            warn_unclosed(self)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def wait_for_room(self) -> None:
        """Wait until the buffer has room for another message."""
        self._home.check()
        await self._unsettled.wait_for_room()

    async def flush(self) -> None:
        """Wait for the outcome of everything sent so far.

        Raises:
            ClientNotRunning: The producer was never started.
        """
        if self._session is None:
            self._refuse()
        await self._intake.wait_for_routes()
        await self._unsettled.wait()

    async def recall(self, recall_handle: str) -> bool:
        """Withdraw a delayed message before it is delivered; repeating the call changes nothing.

        Args:
            recall_handle: From the result of the send, in this process or another. Messages with
                ``deliver_at`` or ``delay`` have one.

        Returns:
            True if the message will not be delivered; False if it was, or is being delivered.

        Raises:
            IllegalArgument: The text is not a recall handle.
            MessageNotFound: The broker does not have the message: it never did, or has deleted it.
            CallError: The broker did not answer, so the outcome is unknown.
        """
        self._check_running()
        if not isinstance(recall_handle, str):
            raise IllegalArgument(f"{recall_handle!r:.100} is no recall handle: a text is expected")
        try:
            named = decode_recall_handle(recall_handle)
        except RecallHandleIllegal as error:
            raise IllegalArgument(str(error)) from error
        session, timeout_s = self._parts.session, self._settings.call_timeout_s
        request = RecallMessageRequest(topic=named.topic, recall_handle=recall_handle)

        async def call() -> None:
            address = await address_for_send(session.routes, named.topic, named.broker_name)
            recalling = session.connections.send(address).RecallMessage(request, timeout=timeout_s)
            await answer_of(recalling, f"broker {named.broker_name} at {address}")

        recalled = True
        try:
            # Repeating the call is harmless.
            await session.failover.ask(
                call, [named.topic], patience_s=self._settings.send_timeout_s
            )
        except CallError as error:
            if error.reason != DELIVERED_REASON:
                raise
            recalled = False
        if self._message_trace is not None:
            self._message_trace.recalled(named.topic, named.unique_id, successful=recalled)
        return recalled

    async def route(self, topic: str) -> Route:
        """The route of a topic: where its queues are; for selectors and tools.

        Raises:
            RouteNotFound: No live broker has the topic.
            NameServersUnreachable: No name server answered, and the route was never known.
        """
        if self._session is None:
            self._refuse()
        return await self._session.routes.get(topic)

    def _check_running(self) -> None:
        if not (self._accepting and self._home.is_here):
            self._refuse()

    def _refuse(self) -> NoReturn:
        self._home.check()
        raise ClientNotRunning("the producer is not running: start it, or use it as `async with`")
