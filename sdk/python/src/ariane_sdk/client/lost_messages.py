"""Messages that brokers have lost and pass over: logged, counted, and perhaps an error."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ariane.broker.v1.pull_service_pb2 import LostRun
from ariane_record.counted import are, counted
from ariane_sdk.client import messaging_names as semconv
from ariane_sdk.client.telemetry import SCOPE
from ariane_sdk.errors import MessagesLost
from ariane_sdk.message_queue import MessageQueue
from ariane_sdk.runtime.log import logger

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, MeterProvider

LOST_MESSAGES: Final = "ariane.client.lost.messages"
"""The measurement; OpenTelemetry's conventions have none."""


class LostMessages:
    """Logs and counts the lost messages of a client."""

    def __init__(
        self, *, fails: bool, group: str = "", meter_provider: MeterProvider | None = None
    ) -> None:
        """``fails`` says whether they are an error, instead of being passed over.

        ``meter_provider`` counts them in OpenTelemetry; default: the application's, if it has one.
        """
        self._fails = fails
        self._group = group
        self._counter = _counter(meter_provider)
        self._logged_ends: dict[MessageQueue, int] = {}
        self.count = 0
        """How many this client has passed over."""

    def note(self, queue: MessageQueue, lost: Sequence[LostRun]) -> None:
        """Note messages that a broker has lost; each is logged once while reading goes forward.

        Raises:
            MessagesLost: They are an error.
        """
        if not lost:
            return
        runs = [(run.first_queue_offset, run.message_count) for run in lost]
        if self._fails:
            first, count = runs[0]
            raise MessagesLost(
                f"{queue}: {counted(count, 'message')} from queue offset {first} on {are(count)}"
                " lost: damaged in the broker. To pass over such, do not set fail_on_lost_messages",
                reason="MESSAGES_LOST",
                metadata={"queue_offset": str(first), "count": str(count)},
            )
        known_end = self._logged_ends.get(queue, 0)
        for first, count in runs:
            if first < known_end:
                continue  # Read again after a broken connection.
            self._logged_ends[queue] = first + count
            self.count += count
            if self._counter is not None:
                attributes = {semconv.DESTINATION_NAME: queue.topic}
                if self._group:
                    attributes[semconv.CONSUMER_GROUP] = self._group
                self._counter.add(count, attributes)
            logger.error(
                "%s: %s from queue offset %d on %s lost, damaged in the broker, and passed over",
                queue,
                counted(count, "message"),
                first,
                are(count),
            )


def _counter(meter_provider: MeterProvider | None) -> Counter | None:
    # An application that has configured OpenTelemetry has loaded it.
    if meter_provider is None and "opentelemetry.metrics" not in sys.modules:
        return None
    from opentelemetry import metrics  # noqa: PLC0415 - an extra.

    meter = (meter_provider or metrics.get_meter_provider()).get_meter(SCOPE)
    return meter.create_counter(LOST_MESSAGES, "{message}")
