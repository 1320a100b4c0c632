"""Speaks the lines of README.md and acts with RocketMQ's own Python client.

Nothing of this repository is imported here.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

CALLS_MAX = 128
AWAIT_S = 5
RESOLUTIONS = {
    "commit": TransactionResolution.COMMIT,
    "rollback": TransactionResolution.ROLLBACK,
    "unknown": TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}


class Listener(MessageListener):
    """Keeps what it hears; fails the first attempts at each message."""

    def __init__(self, fail: int, take_ms: int) -> None:
        self.fail = fail
        self.take_ms = take_ms
        self.heard: list[dict[str, Any]] = []
        self.lock = Lock()

    def consume(self, message: Message) -> ConsumeResult:
        time.sleep(self.take_ms / 1000)
        with self.lock:
            self.heard.append(received(message))
        failed = message.delivery_attempt <= self.fail
        return ConsumeResult.FAILURE if failed else ConsumeResult.SUCCESS


class Checker(TransactionChecker):
    """Answers what it was told to."""

    def __init__(self) -> None:
        self.answer = "unknown"
        self.asked: list[dict[str, str]] = []

    def check(self, message: Message) -> TransactionResolution:
        body = base64.b64encode(message.body).decode()
        self.asked.append({"id": message.message_id, "body": body})
        return RESOLUTIONS[self.answer]


class Driver:
    """What commands act on."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.starting: dict[Any, Lock] = {}
        self.configuration: ClientConfiguration | None = None
        self.tls = False
        self.clients: dict[Any, Any] = {}
        self.deliveries: list[tuple[Any, Message]] = []
        self.transactions: list[Any] = []

    def perform(self, asked: dict[str, Any]) -> Any:
        return getattr(self, f"do_{asked['do']}")(asked)

    def do_connect(self, asked: dict[str, Any]) -> Any:
        credentials = Credentials(asked["key"], asked["secret"])
        self.configuration = ClientConfiguration(
            asked["endpoints"],
            credentials,
            asked["namespace"],
            request_timeout=asked["timeout_ms"] // 1000,
        )
        self.tls = asked["tls"]

    def do_send(self, asked: dict[str, Any]) -> Any:
        producer, _ = self.producer(asked)
        messages = [sent(each) for each in asked["messages"]]
        if asked["at_once"]:
            under_way = [producer.send_async(each) for each in messages]
            receipts = [each.result() for each in under_way]
        else:
            receipts = [producer.send(each) for each in messages]
        return [{"id": each.message_id, "recall": handle(each)} for each in receipts]

    def do_recall(self, asked: dict[str, Any]) -> Any:
        producer, _ = self.producer(asked)
        said = producer.recall_message(asked["topic"], asked["recall"])
        return getattr(said, "message_id", said)

    def do_receive(self, asked: dict[str, Any]) -> Any:
        consumer = self.client(("simple", asked["group"]), lambda: self.simple(asked))
        words = asked["max"], asked["invisible_ms"] // 1000
        if asked["at_once"]:
            found = consumer.receive_async(*words).result() or []
        else:
            found = consumer.receive(*words) or []
        with self.lock:
            first = len(self.deliveries)
            self.deliveries += [(consumer, each) for each in found]
        return [received(each) | {"number": number} for number, each in enumerate(found, first)]

    def do_ack(self, asked: dict[str, Any]) -> None:
        for number in asked["numbers"]:
            consumer, message = self.deliveries[number]
            consumer.ack(message)

    def do_extend(self, asked: dict[str, Any]) -> None:
        for number in asked["numbers"]:
            consumer, message = self.deliveries[number]
            consumer.change_invisible_duration(message, asked["invisible_ms"] // 1000)

    def do_listen(self, asked: dict[str, Any]) -> None:
        def start() -> Any:
            listener = Listener(asked["fail"], asked["take_ms"])
            consumer = PushConsumer(
                self.configuration,
                asked["group"],
                listener,
                {asked["topic"]: wanted(asked)},
                tls_enable=self.tls,
            )
            consumer.startup()
            return consumer, listener

        self.client(("push", asked["group"]), start)

    def do_heard(self, asked: dict[str, Any]) -> Any:
        _, listener = self.clients["push", asked["group"]]
        with listener.lock:
            heard, listener.heard = listener.heard, []
        return heard

    def do_leave(self, asked: dict[str, Any]) -> None:
        if pushing := self.clients.pop(("push", asked["group"]), None):
            pushing[0].shutdown()
        if simple := self.clients.pop(("simple", asked["group"]), None):
            simple.shutdown()

    def do_transactions(self, asked: dict[str, Any]) -> None:
        _, checker = self.producer(asked)
        checker.answer = asked["answer"]

    def do_begin(self, asked: dict[str, Any]) -> Any:
        producer, _ = self.producer(asked)
        transaction = producer.begin_transaction()
        receipt = producer.send(sent(asked["messages"][0]), transaction)
        with self.lock:
            self.transactions.append(transaction)
            return {"number": len(self.transactions) - 1, "id": receipt.message_id}

    def do_commit(self, asked: dict[str, Any]) -> None:
        self.transactions[asked["numbers"][0]].commit()

    def do_rollback(self, asked: dict[str, Any]) -> None:
        self.transactions[asked["numbers"][0]].rollback()

    def do_checked(self, asked: dict[str, Any]) -> Any:
        return list(self.producer(asked)[1].asked)

    def producer(self, asked: dict[str, Any]) -> tuple[Producer, Checker]:
        def start() -> Any:
            checker = Checker()
            producer = Producer(
                self.configuration, (asked["topic"],), checker=checker, tls_enable=self.tls
            )
            producer.startup()
            return producer, checker

        return self.client(("producer", asked["topic"]), start)

    def simple(self, asked: dict[str, Any]) -> SimpleConsumer:
        consumer = SimpleConsumer(
            self.configuration,
            asked["group"],
            {asked["topic"]: wanted(asked)},
            await_duration=AWAIT_S,
            tls_enable=self.tls,
        )
        consumer.startup()
        return consumer

    def client(self, name: Any, start: Any) -> Any:
        """A client, started by the first who asks for it."""
        with self.lock:
            starting = self.starting.setdefault(name, Lock())
        with starting:
            if name not in self.clients:
                self.clients[name] = start()
            return self.clients[name]

    def close(self) -> None:
        for name, each in self.clients.items():
            (each if name[0] == "simple" else each[0]).shutdown()


def wanted(asked: dict[str, Any]) -> FilterExpression:
    if asked["sql"]:
        return FilterExpression(asked["sql"], FilterType.SQL)
    return FilterExpression(asked["tags"] or "*")


def sent(said: dict[str, Any]) -> Message:
    message = Message()
    message.topic = said["topic"]
    message.body = base64.b64decode(said["body"])
    if said["tag"]:
        message.tag = said["tag"]
    for key in said["keys"]:
        message.keys = key
    for name, value in said["properties"].items():
        message.add_property(name, value)
    if said["group"]:
        message.message_group = said["group"]
    if said["deliver_in_ms"]:
        # The client takes whole seconds.
        message.delivery_timestamp = int(time.time() + said["deliver_in_ms"] / 1000) + 1
    if said["priority"] is not None:
        message.priority = said["priority"]
    return message


def received(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "tag": message.tag or "",
        "keys": sorted(message.keys),
        "group": message.message_group or "",
        "properties": dict(message.properties),
        "id": message.message_id,
        "attempt": message.delivery_attempt,
        "corrupted": bool(message.corrupted),
        "at_ms": time.time() * 1000,
    }


def handle(receipt: Any) -> str:
    return getattr(receipt, "recall_handle", None) or ""


def main() -> None:
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    driver = Driver()
    writing = Lock()

    def answer(asked: dict[str, Any]) -> None:
        try:
            said = {"call": asked["call"], "ok": driver.perform(asked)}
        except Exception as error:  # noqa: BLE001 - whatever the client raises is an answer
            code = getattr(error, "code", None)
            reason = str(code) if code else type(error).__name__
            failed = {"reason": reason, "text": f"{type(error).__name__}: {error}"}
            said = {"call": asked["call"], "error": failed | {"outcome_unknown": False}}
        with writing:
            out.write(json.dumps(said) + "\n")

    with ThreadPoolExecutor(CALLS_MAX) as pool:
        for line in sys.stdin:
            pool.submit(answer, json.loads(line))
    driver.close()
    os._exit(0)


if __name__ == "__main__":
    main()
