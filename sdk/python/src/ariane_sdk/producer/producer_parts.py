"""What a running producer is made of."""

from __future__ import annotations

import os
from dataclasses import dataclass
from random import Random

from ariane_record.single.message_id import UniqueIdGenerator
from ariane_sdk.client.client_id import new_client_id
from ariane_sdk.client.session import Session
from ariane_sdk.client.telemetry import Telemetry
from ariane_sdk.producer.batches.bundle import BundleSettings
from ariane_sdk.producer.batches.intake import Intake
from ariane_sdk.producer.recall_calls import RecallCalls
from ariane_sdk.producer.requests.reply_inbox import ReplyInbox
from ariane_sdk.producer.requests.request_reply import Requests
from ariane_sdk.producer.sending.latency import BrokerLatencies, UnavailabilityTable
from ariane_sdk.producer.sending.queue_streams import QueueStreams
from ariane_sdk.producer.sending.sending import Sending
from ariane_sdk.producer.sending.unsettled import Unsettled
from ariane_sdk.producer.transactions.transaction_calls import TransactionCalls
from ariane_sdk.runtime.clock import Clock
from ariane_sdk.settings import ProducerSettings


@dataclass(frozen=True, slots=True)
class ProducerParts:
    """The parts, put together.

    Attributes:
        client_id: The id under which brokers know the producer.
        sending: Where batches go.
        intake: Takes messages.
        reply_inbox: Gets the replies to its requests.
        requests: Its requests.
        recall_calls: Take delayed messages back.
        transaction_calls: Send and end half messages.
        telemetry: Tells what it does; nothing if nobody wants to know.
    """

    client_id: str
    sending: Sending
    intake: Intake
    reply_inbox: ReplyInbox
    requests: Requests
    recall_calls: RecallCalls
    transaction_calls: TransactionCalls
    telemetry: Telemetry | None

    @classmethod
    def of(
        cls,
        session: Session,
        unsettled: Unsettled,
        streams: QueueStreams | None,
        *,
        own_ip: str,
        group: str,
        settings: ProducerSettings,
        clock: Clock,
        random: Random,
    ) -> ProducerParts:
        """Put them together; nothing is sent yet.

        Args:
            session: Its connections.
            unsettled: Will have what waits.
            streams: Number batches, if they are to be stored once.
            own_ip: The address of this machine, for the ids of messages.
            group: Name of the producer group, or nothing.
            settings: How it behaves.
            clock: Tells the time, and paces repeats.
            random: Draws ids and delays.
        """
        connections, routes = session.connections, session.routes
        latencies = _latencies(settings, clock)
        unique_ids = UniqueIdGenerator(
            clock.now_ms,
            ip=own_ip,
            pid=os.getpid(),
            origin=random.getrandbits(32),
        )
        sending = Sending(
            connections,
            routes,
            unsettled,
            streams=streams,
            latencies=latencies,
            group=group,
            settings=settings,
            clock=clock,
            random=random,
            bundle_settings=BundleSettings(
                unique_ids=unique_ids,
                sequenced=settings.idempotent,
                body_bytes_max=settings.body_bytes_max,
            ),
        )
        intake = Intake(
            routes,
            sending,
            settings=settings,
            clock=clock,
            random=random,
            unique_ids=unique_ids,
            latencies=latencies,
        )
        client_id = new_client_id(random)
        reply_inbox = ReplyInbox(
            session, client_id=client_id, timeout_s=settings.call_timeout_s, clock=clock
        )
        return cls(
            client_id=client_id,
            sending=sending,
            intake=intake,
            reply_inbox=reply_inbox,
            requests=Requests(routes, reply_inbox, clock=clock, new_unique_id=unique_ids.next_id),
            recall_calls=RecallCalls(connections, routes, settings=settings, clock=clock),
            transaction_calls=TransactionCalls(
                connections,
                routes,
                intake,
                group=group,
                settings=settings,
                clock=clock,
                new_unique_id=unique_ids.next_id,
            ),
            telemetry=Telemetry.configured(
                settings.tracer_provider, settings.meter_provider, client_id=client_id
            ),
        )


def _latencies(settings: ProducerSettings, clock: Clock) -> BrokerLatencies:
    """Which brokers are to be left alone; slow ones only if the queue choice says so."""
    table = None
    if settings.queue_choice == "least_latency":
        table = UnavailabilityTable(settings.latency_bounds_s, settings.unavailable_s)
    return BrokerLatencies(
        table,
        failed_call_s=settings.failed_call_latency_s,
        avoid_s=settings.avoid_broker_s,
        clock=clock,
    )
