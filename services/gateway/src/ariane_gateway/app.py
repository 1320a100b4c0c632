"""The parts list of a gateway.

::

    rpc          the protocol of RocketMQ 5 clients: requests, answers, the stream of each client
    sending      messages on their way to brokers
    receiving    messages on their way to consumers, and what becomes of them
    clients      who lives
    brokers      routes, addresses, calls to brokers
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Final

from apache.rocketmq.v2 import service_pb2, service_pb2_grpc
from ariane_gateway.access_keys import AccessKeys, KeysOfFile
from ariane_gateway.admin_keys import AdminKeys
from ariane_gateway.brokers.acting import ClusterTls
from ariane_gateway.brokers.attachments import Attachments
from ariane_gateway.brokers.cluster import Cluster
from ariane_gateway.brokers.group_calls import GroupCalls
from ariane_gateway.brokers.receive_calls import ReceiveCalls
from ariane_gateway.brokers.seen_topics import SeenTopics
from ariane_gateway.clients.client_table import ClientTable
from ariane_gateway.front_tls import FrontTls
from ariane_gateway.kept_keys import SealedKeys
from ariane_gateway.receiving.open_holds import OpenHolds
from ariane_gateway.receiving.receiving import Receiving
from ariane_gateway.receiving.settling import Settling
from ariane_gateway.receiving.shared_holds import SharedHolds
from ariane_gateway.rpc.client_calls import ClientCalls
from ariane_gateway.rpc.commands import Commands
from ariane_gateway.rpc.door import Door
from ariane_gateway.rpc.messaging_servicer import MessagingServicer
from ariane_gateway.rpc.receiving_calls import ReceivingCalls
from ariane_gateway.rpc.send_spans import SendSpans
from ariane_gateway.rpc.sending_calls import SendingCalls
from ariane_gateway.rpc.telemetry import Telemetry
from ariane_gateway.sending.sending import Sending
from ariane_gateway.settings import GatewaySettings
from ariane_sdk import ProducerSettings, Tls
from ariane_servicekit import Address, ErrorRules, Loop, Machine, RpcService, StopRequest
from ariane_servicekit.clock import Clock
from ariane_servicekit.observability.measures import Measures, one
from ariane_servicekit.observability.tracing import WorkTracer
from ariane_servicekit.security.tls.service_tls import MEMBER_TLS
from ariane_wire import TlsContext

LOOK_S: Final = 5.0
"""Seconds between searches for brokers that are new, and for clients that are gone and routes that
nobody uses."""


class GatewayApp:
    """A gateway: no state but who lives, one service."""

    def __init__(
        self, settings: GatewaySettings, _stop: StopRequest, machine: Machine | None = None
    ) -> None:
        machine = machine or Machine()
        clock = machine.clock
        self._tls = MEMBER_TLS.get()
        self._is_draining = False
        self._address = settings.listen
        name_servers = settings.name_servers
        tls = _tls_of(settings)
        self._cluster = Cluster(name_servers, timeout_s=settings.call_timeout_s, tls=tls)
        self._sending = Sending(
            self._cluster,
            name_servers,
            ProducerSettings(
                call_timeout_s=settings.call_timeout_s,
                send_timeout_s=settings.send_timeout_s,
                body_bytes_max=settings.body_bytes_max,
                buffered_bytes_max=settings.buffered_bytes_max,
            ),
            tls=tls,
        )
        self.clients = ClientTable(clock.monotonic, clients_max=settings.clients_max)
        self._holds = OpenHolds()
        self._groups = groups = GroupCalls(self._cluster)
        receive_calls = ReceiveCalls(self._cluster)
        self._commands = Commands(self.clients, machine.new_id)
        self._attachments = Attachments(
            self._cluster,
            f"gateway@{socket.gethostname()[:100]}@{machine.process_id}@{machine.new_id()}",
            everybody=self.clients.portraits,
            ask=self._commands.ask,
            facts=self._facts,
        )
        self._commands.attachments = self.clients.audience = self._attachments
        self._keys = _keys_of(settings, clock)
        self._door = door = Door(self._keys, lambda: datetime.now(UTC), self.clients.is_of_another)
        self._telemetry = Telemetry(
            door, self.clients, groups, self._commands, body_bytes_max=settings.body_bytes_max
        )
        self._sending_calls = SendingCalls(
            self._sending,
            self._commands,
            body_bytes_max=settings.body_bytes_max,
            now_ms=self._cluster.clock.now_ms,
        )
        self._shared = SharedHolds(receive_calls, clock.monotonic)
        self._receiving = Receiving(receive_calls, self._shared, self._holds)
        self._look = Loop("gateway-clients", self._turn, interval_s=LOOK_S, clock=clock)
        self._front = FrontTls(settings, _hosts_of(settings))
        self.error_rules: ErrorRules = {}
        self.open_while_draining: Collection[str] = ()
        self.rpc_services: Sequence[RpcService] = (
            RpcService(
                service_pb2.DESCRIPTOR.services_by_name["MessagingService"],
                service_pb2_grpc.add_MessagingServiceServicer_to_server,
                self._servicer(settings, door, groups, Settling(receive_calls)),
                foreign=True,
            ),
        )

    def front_context(self) -> TlsContext | None:
        """What clients are shown."""
        return self._front.context()

    def measure(self, measures: Measures) -> None:
        """Make the instruments of a gateway."""
        for name, unit, description, read in (
            (
                "ariane.gateway.clients",
                "{client}",
                "Clients that were heard of lately, by a call or over a stream.",
                lambda: one(len(self.clients)),
            ),
            (
                "ariane.gateway.streams",
                "{stream}",
                "Open streams of clients.",
                lambda: one(self.clients.stream_count),
            ),
            (
                "ariane.gateway.held",
                "{call}",
                "Receives of clients in work, most of them held until a message comes.",
                lambda: one(len(self._holds)),
            ),
            (
                "ariane.gateway.held.at_brokers",
                "{call}",
                "Those of them that are at brokers; the others wait for their turn.",
                lambda: one(self._shared.leading),
            ),
        ):
            measures.gauge(name, unit, description, read)

    def trace(self, tracer: WorkTracer) -> None:
        """Make spans of sends."""
        self._sending_calls.spans = SendSpans(tracer)

    def _facts(self) -> dict[str, str]:
        """What operators are told by way of brokers, and the doctor judges."""
        times = {
            "current_time": datetime.now(UTC),
            "certificate_ends": None if self._tls is None else self._tls.ends(),
            "front_certificate_ends": self._front.ends,
        }
        return {
            "address": str(self._address),
            "stage": "draining" if self._is_draining else "serving",
            "clients": str(len(self.clients)),
            "streams": str(self.clients.stream_count),
            **{name: time.isoformat() for name, time in times.items() if time is not None},
        }

    async def recover(self, _address: Address) -> None:
        """Get ready to ask name servers, which may start later; learn who clients are."""
        self._cluster.open()
        if self._keys is not None:
            await self._keys.start(self._door.end_signed_by_lost_keys)

    async def serve_started(self, address: Address) -> None:
        """Attach to brokers, and begin to forget clients that are gone."""
        self._address = address
        self._look.start(at_once=True)

    async def drain(self) -> None:
        """Answer held receives, and end the streams of clients."""
        self._is_draining = True
        self._commands.ask_to_reconnect()
        self._holds.close()
        self._telemetry.close()

    async def stop(self) -> None:
        """Wait for the outcome of sends, and disconnect."""
        await self._look.stop()
        if self._keys is not None:
            await self._keys.stop()
        await self._receiving.close()
        self._groups.close()
        await self._attachments.close()
        await self._sending.close()
        await self._cluster.close()

    def _servicer(
        self, settings: GatewaySettings, door: Door, groups: GroupCalls, settling: Settling
    ) -> MessagingServicer:
        """What answers clients."""
        now_ms = self._cluster.clock.now_ms
        return MessagingServicer(
            door,
            ClientCalls(
                self._cluster,
                groups,
                SeenTopics(self._cluster),
                self.clients,
                advertised=settings.advertised_address,
                listens=lambda: self._address,
            ),
            self._sending_calls,
            ReceivingCalls(self._receiving, settling, self.clients, now_ms=now_ms),
            self._telemetry,
        )

    async def _turn(self) -> None:
        if self._keys is not None:
            self._keys.look()
            self._door.end_signed_by_lost_keys()
        await self._attachments.follow()
        self.clients.forget_silent()
        self._cluster.forget_unused()
        self._sending.forget_unused()


def _keys_of(settings: GatewaySettings, clock: Clock) -> AccessKeys | None:
    """The keys that clients sign with; None where they need none."""
    if settings.admins:
        path, private = settings.admin_keys_file, settings.tls_key
        return AdminKeys(
            settings.admins,
            clock,
            hold_s_max=settings.access_rules_s_max,
            file=None if path is None or private is None else SealedKeys(path, private),
        )
    return None if settings.access_keys is None else KeysOfFile(settings.access_keys)


def _hosts_of(settings: GatewaySettings) -> list[str]:
    """Names and addresses by which clients may call."""
    named = [settings.listen, *filter(None, (settings.advertised_address,))]
    hosts = (each.host for each in named if not each.is_wildcard)
    return list(dict.fromkeys(("localhost", "127.0.0.1", *hosts)))


def _tls_of(settings: GatewaySettings) -> ClusterTls:
    """The certificates for connections to the cluster; False for plain text."""
    if settings.tls_members is None:
        return False
    return Tls(
        ca=settings.tls_members,
        certificate=settings.tls_certificate,
        key=settings.tls_key,
        oldest=settings.tls_oldest,
    )
