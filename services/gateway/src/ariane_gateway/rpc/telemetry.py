"""The stream that each client keeps open: settings come up and go down, commands go down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from grpc import aio

from apache.rocketmq.v2.definition_pb2 import (
    Code,
    CustomizedBackoff,
    ExponentialBackoff,
    Metric,
    RetryPolicy,
    Settings,
)
from apache.rocketmq.v2.service_pb2 import TelemetryCommand
from ariane_gateway.brokers.group_calls import GroupCalls, GroupRules
from ariane_gateway.clients.client import GatewayClient
from ariane_gateway.clients.client_table import ClientTable
from ariane_gateway.patience import once_answered
from ariane_gateway.refusals import Refused
from ariane_gateway.rpc.caller import Caller, group_of, topic_of
from ariane_gateway.rpc.commands import Commands
from ariane_gateway.rpc.door import Door
from ariane_gateway.rpc.filter_wire import wanted_of
from ariane_gateway.rpc.statuses import OK, Illegal, status_of
from ariane_servicekit import field_invalid, first_request
from ariane_wire.transport.peers import host_of

TOPICS_MAX: Final = 1024
"""Of one client; brokers take no more."""

COMMANDS_WAITING_MAX: Final = 64
"""Commands for a client that takes none; more are dropped: each will be needed again."""

WAITING_BYTES_MAX: Final = 5 << 20
"""Their octets, unless a single one has more."""

SETTINGS_BYTES_MAX: Final = 1 << 20
"""Octets of a client's settings: brokers are told of them, and take 5 MiB at a time."""

SEND_ATTEMPTS_MAX: Final = 3

RECEIVE_COUNT: Final = 32

HOLD_S: Final = 20
"""How long consumers are to let receives be held, in seconds."""


class Telemetry:
    """Serves the streams of all clients."""

    def __init__(
        self,
        door: Door,
        clients: ClientTable,
        groups: GroupCalls,
        commands: Commands,
        *,
        body_bytes_max: int,
    ) -> None:
        self._door = door
        self._clients = clients
        self._commands = commands
        self._groups = groups
        self._body_bytes_max = body_bytes_max
        self._reading: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    async def serve(
        self, commands: AsyncIterator[TelemetryCommand], context: aio.ServicerContext[Any, Any]
    ) -> None:
        """Serve one stream until its client or this gateway ends it."""
        # Before anything is said: a stream that ends while its client writes tells it nothing.
        first = await first_request(anext(commands, None))
        if first is None or self._closing.is_set():
            return
        try:
            caller = self._door.caller(context)
        except Illegal as error:
            await context.write(TelemetryCommand(status=error.status))
            return
        client = self._clients.heard(*caller.identity)
        stream = _Stream(caller.user or host_of(context.peer()))
        self._clients.opens(client, stream)
        reading = asyncio.create_task(self._read(first, commands, client, caller, stream))
        del first  # The stream may stay idle for hours: nothing of it keeps what was said.
        self._reading.add(reading)
        try:
            with self._door.staying(caller):
                await _write(stream, reading, context)
        finally:
            self._clients.closes(client, stream)
            self._reading.discard(reading)
            reading.cancel()
            await asyncio.wait((reading,))
        if not self._closing.is_set() and not reading.cancelled():
            reading.result()

    def close(self) -> None:
        """End all streams."""
        self._closing.set()
        for reading in self._reading:
            reading.cancel()

    async def _read(
        self,
        first: TelemetryCommand,
        commands: AsyncIterator[TelemetryCommand],
        client: GatewayClient,
        caller: Caller,
        stream: _Stream,
    ) -> None:
        await self._hear(first, client, caller, stream)
        del first
        async for command in commands:
            self._clients.says(client)
            await self._hear(command, client, caller, stream)
            del command

    async def _hear(
        self, command: TelemetryCommand, client: GatewayClient, caller: Caller, stream: _Stream
    ) -> None:
        if command.WhichOneof("command") != "settings":
            self._commands.answered(caller.client_id, command)
            return
        try:
            settings = await self._settings(command.settings, client, stream.owner)
        except (Refused, Illegal) as error:
            status = status_of(error)
            stream(TelemetryCommand(status=status))
            if not stream.has_begun:
                # Who starts waits for settings, some for ever: that there are none ends it.
                raise field_invalid("settings", f"are refused: {status.message}") from error
            return
        stream.has_begun = True
        self._clients.changed(client)
        stream(TelemetryCommand(status=OK, settings=settings))

    async def _settings(self, given: Settings, client: GatewayClient, owner: str) -> Settings:
        """What a client is told that says its settings: they replace all that it said before.

        Raises:
            Illegal: A name is missing, they are too large, or TOO_MANY_REQUESTS.
            Refused: The user may not see the group.
            ServiceError: FIELD_INVALID: it neither sends nor receives.
        """
        if given.ByteSize() > SETTINGS_BYTES_MAX:
            raise Illegal(Code.BAD_REQUEST, f"settings have at most {SETTINGS_BYTES_MAX} bytes")
        kind = given.WhichOneof("pub_sub")
        if kind == "publishing":
            _check_count(len(given.publishing.topics))
            produces = tuple(map(topic_of, given.publishing.topics))
            _check_room(self._clients.does(client, owner, produces=produces))
            return producer_settings(given, body_bytes_max=self._body_bytes_max)
        if kind == "subscription":
            group = group_of(given.subscription.group)
            wanted = given.subscription.subscriptions
            _check_count(len(wanted))
            consumes = {group: tuple(wanted_of(each.topic, each.expression) for each in wanted)}
            rules = await once_answered(lambda: self._groups.rules(group))
            # Not before its user may see the group.
            _check_room(self._clients.does(client, owner, consumes=consumes))
            return consumer_settings(given, rules)
        raise field_invalid("settings", "must have publishing or subscription")


def _check_room(is_kept: bool) -> None:
    if not is_kept:
        text = "too many clients have very large settings already"
        raise Illegal(Code.TOO_MANY_REQUESTS, text)


def _check_count(count: int) -> None:
    if count > TOPICS_MAX:
        raise Illegal(Code.BAD_REQUEST, f"{count} topics in the settings; {TOPICS_MAX} are most")


class _Stream:
    """Sends commands over a client's stream."""

    __slots__ = ("_waiting", "has_begun", "owner", "waiting_bytes")

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        """Whom its client counts for: its user, or the host where nobody signs."""
        self._waiting: asyncio.Queue[TelemetryCommand | None] = asyncio.Queue(COMMANDS_WAITING_MAX)
        self.waiting_bytes = 0
        """Octets of the commands that wait."""
        self.has_begun = False
        """Whether its client has its settings."""

    def __call__(self, command: TelemetryCommand) -> None:
        size = command.ByteSize()
        is_full = self.waiting_bytes > 0 and self.waiting_bytes + size > WAITING_BYTES_MAX
        if not (is_full or self._waiting.full()):
            self._waiting.put_nowait(command)
            self.waiting_bytes += size

    @property
    def waits(self) -> bool:
        """Whether a command waits."""
        return not self._waiting.empty()

    async def next_command(self) -> TelemetryCommand | None:
        """The next command; None for a look whether the stream has ended."""
        command = await self._waiting.get()
        if command is not None:
            self.waiting_bytes -= command.ByteSize()
        return command

    def wake(self) -> None:
        """Have its writer look whether it has ended."""
        # A full queue wakes the writer anyway.
        with suppress(asyncio.QueueFull):
            self._waiting.put_nowait(None)


async def _write(
    stream: _Stream,
    reading: asyncio.Task[None],
    context: aio.ServicerContext[Any, Any],
) -> None:
    """Write commands until the client sends nothing more."""
    reading.add_done_callback(lambda _: stream.wake())
    while not reading.done() or stream.waits:
        command = await stream.next_command()
        if command is not None:
            await context.write(command)
        del command  # Not kept while the next one is awaited.


def producer_settings(given: Settings, *, body_bytes_max: int) -> Settings:
    """The settings of a producer."""
    settings = _copy_of(given)
    settings.backoff_policy.CopyFrom(
        RetryPolicy(
            max_attempts=SEND_ATTEMPTS_MAX,
            exponential_backoff=ExponentialBackoff(
                initial=_duration(0.01), max=_duration(1.0), multiplier=2.0
            ),
        )
    )
    settings.publishing.max_body_size = body_bytes_max
    settings.publishing.validate_message_type = True
    return settings


def consumer_settings(given: Settings, rules: GroupRules) -> Settings:
    """The settings of a consumer."""
    settings = _copy_of(given)
    settings.backoff_policy.CopyFrom(
        RetryPolicy(
            max_attempts=rules.attempts_max,
            customized_backoff=CustomizedBackoff(next=map(_duration, rules.delays_s)),
        )
    )
    subscription = settings.subscription
    subscription.fifo = rules.in_order
    subscription.receive_batch_size = RECEIVE_COUNT
    subscription.long_polling_timeout.CopyFrom(_duration(HOLD_S))
    return settings


def _copy_of(given: Settings) -> Settings:
    settings = Settings()
    settings.CopyFrom(given)
    # Some clients apply no settings that say nothing of metrics.
    settings.metric.CopyFrom(Metric(on=False))
    return settings


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMilliseconds(round(seconds * 1000))
    return duration
