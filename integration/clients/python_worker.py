"""Lets a test play scenarios with the Python client: README.md has the commands."""

from __future__ import annotations

import base64
import json
import re
import sys
from datetime import timedelta
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from ariane.broker.v1 import receive_service_pb2 as receive_pb
from ariane.broker.v1.receive_service_pb2_grpc import ReceiveServiceStub
from ariane.common.v1 import subscription_pb2 as subscription_pb
from ariane.namesrv.v1.route_service_pb2 import GetRouteRequest
from ariane.namesrv.v1.route_service_pb2_grpc import RouteServiceStub
from ariane_sdk import Message, TransactionCheck, TransactionOutcome
from ariane_sdk.errors import ArianeError
from ariane_sdk.sync import Producer

OUTCOMES = {
    "commit": TransactionOutcome.COMMIT,
    "rollback": TransactionOutcome.ROLLBACK,
    "unknown": TransactionOutcome.UNKNOWN,
}


class StatusSaid(Exception):
    """A status of the wire."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        info = ErrorInfo()
        self.reason = ""
        for detail in status.details:
            if detail.Unpack(info):
                self.reason = info.reason


class Worker:
    """What commands act on."""

    def __init__(self) -> None:
        self.name_servers: list[str] = []
        self.sender: Any = None
        self.receipts: list[Any] = []
        self.deliveries: list[tuple[str, str, str]] = []
        self.producers: dict[str, Any] = {}
        self.transactions: list[tuple[Any, Any]] = []
        self.answers: dict[str, str] = {}
        self.checks: list[str] = []
        self.stubs: dict[str, ReceiveServiceStub] = {}

    def perform(self, asked: dict[str, Any]) -> Any:
        return getattr(self, f"do_{asked['do']}")(asked)

    def do_connect(self, asked: dict[str, Any]) -> Any:
        self.name_servers = asked["name_servers"]
        self.sender = Producer(self.name_servers)
        self.sender.start()
        return {"language": "python"}

    def do_send(self, asked: dict[str, Any]) -> Any:
        messages = [sent(each) for each in asked["messages"]]
        if len(messages) == 1:
            results = [self.sender.send(messages[0])]
        else:
            results = self.sender.send_batch(messages)
        told = []
        for result in results:
            told.append(
                {
                    "number": len(self.receipts),
                    "id": result.unique_id,
                    "broker": result.message_queue.broker_name,
                    "queue_id": result.message_queue.queue_id,
                    "offset": result.queue_offset,
                }
            )
            self.receipts.append(result)
        return told

    def do_recall(self, asked: dict[str, Any]) -> Any:
        receipt = self.receipts[asked["numbers"][0]]
        self.sender.recall(receipt.recall_handle)
        return receipt.unique_id

    def do_receive(self, asked: dict[str, Any]) -> Any:
        channel = grpc.insecure_channel(self.name_servers[0])
        route = RouteServiceStub(channel).GetRoute(GetRouteRequest(topic=asked["topic"])).route
        channel.close()
        told: list[dict[str, Any]] = []
        wait_ms = asked["wait_ms"] // len(route.brokers)
        for broker in route.brokers:
            if told:
                break
            address = broker.addresses[0]
            order = receive_pb.ReceiveOrder(
                consumer_group=asked["group"],
                subscriptions=[subscription(asked)],
                message_count_max=asked["max"],
                invisible_duration=duration(asked["invisible_ms"]),
                hold_duration=duration(wait_ms),
            )
            request = receive_pb.ReceiveMessagesRequest(order=order)
            for answer in self.stub(address).ReceiveMessages(request):
                told += [self.received(each, asked["group"], address) for each in answer.messages]
        return told

    def received(self, each: Any, group: str, address: str) -> dict[str, Any]:
        message = each.message
        self.deliveries.append((address, group, each.receipt_handle))
        return {
            "topic": message.topic,
            "body": base64.b64encode(message.body).decode(),
            "tag": message.tag,
            "keys": list(message.keys),
            "group": message.message_group,
            "properties": dict(message.properties),
            "id": message.unique_id,
            "attempt": message.position.delivery_attempt + 1,
            "number": len(self.deliveries) - 1,
        }

    def do_ack(self, asked: dict[str, Any]) -> None:
        for address, group, handle in self.held(asked):
            request = receive_pb.AckMessagesRequest(consumer_group=group, receipt_handles=[handle])
            raise_first(self.stub(address).AckMessages(request).results)

    def do_nack(self, asked: dict[str, Any]) -> None:
        nack = receive_pb.Nack(delay=duration(asked["delay_ms"]), dead_letter=asked["dead_letter"])
        for address, group, handle in self.held(asked):
            request = receive_pb.NackMessagesRequest(
                consumer_group=group, receipt_handles=[handle], nack=nack
            )
            raise_first(self.stub(address).NackMessages(request).results)

    def do_extend(self, asked: dict[str, Any]) -> None:
        for number, (address, group, handle) in zip(
            asked["numbers"], self.held(asked), strict=True
        ):
            request = receive_pb.ChangeInvisibleDurationRequest(
                consumer_group=group,
                receipt_handle=handle,
                invisible_duration=duration(asked["invisible_ms"]),
            )
            answer = self.stub(address).ChangeInvisibleDuration(request)
            self.deliveries[number] = (address, group, answer.receipt_handle)

    def do_transactions(self, asked: dict[str, Any]) -> None:
        group = asked["group"]
        self.answers[group] = asked["answer"]
        if group in self.producers:
            return

        def check(question: TransactionCheck) -> TransactionOutcome:
            self.checks.append(question.transaction_id)
            return OUTCOMES[self.answers[group]]

        producer = Producer(self.name_servers, group=group, transaction_checker=check)
        producer.start()
        self.producers[group] = producer

    def do_begin(self, asked: dict[str, Any]) -> Any:
        producer = self.producers[asked["group"]]
        half = producer.send_half(sent(asked["messages"][0]))
        self.transactions.append((producer, half))
        return {"number": len(self.transactions) - 1, "id": half.transaction_id}

    def do_commit(self, asked: dict[str, Any]) -> None:
        producer, half = self.transactions[asked["numbers"][0]]
        producer.commit(half)

    def do_rollback(self, asked: dict[str, Any]) -> None:
        producer, half = self.transactions[asked["numbers"][0]]
        producer.rollback(half)

    def do_checked(self, _: dict[str, Any]) -> Any:
        return list(self.checks)

    def stub(self, address: str) -> ReceiveServiceStub:
        if address not in self.stubs:
            options = [("grpc.max_receive_message_length", 64 << 20)]
            channel = grpc.insecure_channel(address, options=options)
            self.stubs[address] = ReceiveServiceStub(channel)
        return self.stubs[address]

    def held(self, asked: dict[str, Any]) -> list[tuple[str, str, str]]:
        return [self.deliveries[number] for number in asked["numbers"]]


def sent(wire: dict[str, Any]) -> Message:
    delay_ms = wire.get("deliver_in_ms", 0)
    return Message(
        wire["topic"],
        base64.b64decode(wire["body"]),
        tag=wire["tag"],
        keys=wire["keys"],
        message_group=wire["group"],
        properties=wire["properties"],
        delay=timedelta(milliseconds=delay_ms) if delay_ms else None,
    )


def subscription(asked: dict[str, Any]) -> subscription_pb.Subscription:
    wanted = subscription_pb.Subscription(topic=asked["topic"])
    if asked["sql"]:
        wanted.filter.kind = subscription_pb.FILTER_KIND_SQL92
        wanted.filter.text = asked["sql"]
    elif asked["tags"]:
        wanted.filter.kind = subscription_pb.FILTER_KIND_TAG
        wanted.filter.text = asked["tags"]
    return wanted


def duration(ms: int) -> Duration:
    span = Duration()
    span.FromMilliseconds(ms)
    return span


def raise_first(results: Any) -> None:
    for result in results:
        if result.HasField("error"):
            raise StatusSaid(result.error)


def told(error: Exception) -> dict[str, Any]:
    # What the client itself refuses has no reason of the wire; its class is named alike.
    own = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()
    reason = getattr(error, "reason", "") or own
    if isinstance(error, grpc.RpcError):
        reason = StatusSaid(rpc_status.from_call(error) or Status()).reason
    unknown = bool(getattr(error, "outcome_unknown", False))
    return {
        "reason": reason,
        "text": f"{type(error).__name__}: {error}",
        "outcome_unknown": unknown,
    }


def main() -> None:
    worker = Worker()
    for line in sys.stdin:
        try:
            answer = {"ok": worker.perform(json.loads(line))}
        except (ArianeError, grpc.RpcError, StatusSaid, LookupError, ValueError) as error:
            answer = {"error": told(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
