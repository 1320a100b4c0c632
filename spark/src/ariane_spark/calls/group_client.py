"""Reads and stores the offsets of consumer groups, by blocking calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import pyspark

from ariane.broker.v1 import offset_service_pb2 as offset_pb
from ariane.broker.v1.offset_service_pb2_grpc import OffsetServiceStub
from ariane_record import QueueOffset
from ariane_sdk import MessageQueue
from ariane_sdk.errors import ArianeError, CallError, ConsumerOffsetRefused, ServiceUnavailable
from ariane_sdk.translation import error_from_rpc
from ariane_spark.calls.channels import Channels
from ariane_spark.calls.routes import Routes
from ariane_spark.positions.offsets import Positions
from ariane_wire import CallFailed

_ENGINE: Final = f"Spark {pyspark.__version__}"


class GroupClient:
    """Consumer offsets of one cluster; calls are not repeated."""

    def __init__(self, routes: Routes, channels: Channels, *, timeout_s: float) -> None:
        self._routes = routes
        self._channels = channels
        self._timeout_s = timeout_s

    def offsets(self, group: str, queues: Collection[MessageQueue]) -> Positions:
        """The consumer offsets of a group; queues without an offset are missing.

        Raises:
            ArianeError: The group's name is illegal, or a broker does not answer.
        """
        found: Positions = {}
        for broker_name, of_broker in _by_broker(queues).items():
            request = offset_pb.GetConsumerOffsetsRequest(
                consumer_group=group,
                queues=[
                    offset_pb.QueueReference(topic=queue.topic, queue_id=queue.queue_id)
                    for queue in of_broker
                ],
            )
            stub, address = self._stub(broker_name, of_broker[0].topic)
            try:
                answer = stub.GetConsumerOffsets(request, timeout=self._timeout_s)
            except CallFailed as failure:
                self._routes.forget(of_broker[0].topic)
                raise error_from_rpc(
                    failure, peer=f"broker {broker_name} at {address}"
                ) from failure
            for queue, place in zip(of_broker, answer.offsets, strict=True):
                if place.HasField("queue_offset"):
                    found[queue] = QueueOffset(place.queue_offset)
        return found

    def store(self, group: str, positions: Mapping[MessageQueue, int]) -> None:
        """Store consumer offsets of a group on all brokers at the same time.

        Raises:
            ArianeError: A broker refused some, or does not answer; the last such error.
        """
        failed: ArianeError | None = None
        calls: list[tuple[str, str, str, Any]] = []
        for broker_name, of_broker in _by_broker(positions).items():
            request = offset_pb.StoreConsumerOffsetsRequest(
                consumer_group=group,
                stream_engine=_ENGINE,
                offsets=[
                    offset_pb.QueueConsumerOffset(
                        topic=queue.topic,
                        queue_id=queue.queue_id,
                        queue_offset=positions[queue],
                        # A query may have gone back to an older checkpoint.
                        rule=offset_pb.STORE_RULE_MOVE,
                    )
                    for queue in of_broker
                ],
            )
            topic = of_broker[0].topic
            try:
                stub, address = self._stub(broker_name, topic)
            except ArianeError as error:
                failed = error
            else:
                call = stub.StoreConsumerOffsets.future(request, timeout=self._timeout_s)
                calls.append((broker_name, address, topic, call))
        for broker_name, address, topic, call in calls:
            try:
                answer = call.result()
            except CallFailed as failure:
                self._routes.forget(topic)
                failed = error_from_rpc(failure, peer=f"broker {broker_name} at {address}")
            else:
                failed = _refusal(broker_name, answer) or failed
        if failed is not None:
            raise failed

    def _stub(self, broker_name: str, topic: str) -> tuple[OffsetServiceStub, str]:
        address = self._routes.addresses(topic).get(broker_name)
        if address is None:
            self._routes.forget(topic)
            raise ServiceUnavailable(f"no address of broker {broker_name} is known", retriable=True)
        return OffsetServiceStub(self._channels.to(address)), address


def _refusal(
    broker_name: str, answer: offset_pb.StoreConsumerOffsetsResponse
) -> ConsumerOffsetRefused | None:
    """The offsets that a broker did not store, if any."""
    if not answer.refused:
        return None
    return ConsumerOffsetRefused(
        {
            MessageQueue(each.topic, broker_name, each.queue_id): CallError(each.error.message)
            for each in answer.refused
        }
    )


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    brokers: dict[str, list[MessageQueue]] = {}
    for queue in sorted(queues):
        brokers.setdefault(queue.broker_name, []).append(queue)
    return brokers
