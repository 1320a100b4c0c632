"""Our own SDK behind the verbs of the official clients' drivers, in the test's own process."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Lock, Thread
from typing import Any

from official import WORDS

from ariane_record import PropertyName
from ariane_sdk import (
    Message,
    ProducerSettings,
    ReceivedMessage,
    Sql,
    TransactionCheck,
    TransactionOutcome,
)
from ariane_sdk.errors import ClientNotRunning
from ariane_sdk.sync import Producer, ReceiveConsumer

CALL_S = 30.0
AWAIT_S = 5.0
OUTCOMES = {
    "commit": TransactionOutcome.COMMIT,
    "rollback": TransactionOutcome.ROLLBACK,
    "unknown": TransactionOutcome.UNKNOWN,
}
SYSTEM_PROPERTIES = frozenset(
    value for name, value in vars(PropertyName).items() if not name.startswith("_")
)


class OurSdk:
    """Does what a driver is asked to, on name servers instead of a gateway."""

    name = "ariane"
    lacks: frozenset[str] = frozenset()

    def __init__(self, name_servers: Sequence[str]) -> None:
        self._name_servers = list(name_servers)
        self._lock = Lock()
        self._starting: dict[Any, Lock] = {}
        self._clients: dict[Any, Any] = {}
        self._deliveries: list[tuple[ReceiveConsumer, ReceivedMessage]] = []
        self._transactions: list[tuple[Producer, Any]] = []
        self._answers: dict[str, str] = {}
        self._asked: dict[str, list[dict[str, str]]] = {}
        self._heard: dict[str, list[dict[str, Any]]] = {}
        self._handles: dict[str, Any] = {}

    def ask(self, do: str, **words: Any) -> Any:
        """Do something; return what a driver would say."""
        return getattr(self, f"do_{do}")({**WORDS, **words})

    def end(self) -> None:
        """Stop all clients."""
        for client in self._clients.values():
            client.close()

    def do_connect(self, _: dict[str, Any]) -> None:
        """It knows its name servers."""

    def do_send(self, asked: dict[str, Any]) -> Any:
        producer = self._producer(asked)
        results = [producer.send(_sent(each)) for each in asked["messages"]]
        said = []
        for result in results:
            handle = result.recall_handle
            self._handles[str(handle)] = handle
            said.append({"id": result.unique_id, "recall": str(handle) if handle else ""})
        return said

    def do_recall(self, asked: dict[str, Any]) -> Any:
        self._producer(asked).recall(self._handles[asked["recall"]])
        return None

    def do_receive(self, asked: dict[str, Any]) -> Any:
        consumer = self._consumer(asked)
        found = consumer.receive_batch(asked["max"], timeout_s=AWAIT_S)
        with self._lock:
            first = len(self._deliveries)
            self._deliveries += [(consumer, each) for each in found]
        return [_received(each) | {"number": number} for number, each in enumerate(found, first)]

    def do_ack(self, asked: dict[str, Any]) -> None:
        for number in asked["numbers"]:
            consumer, message = self._deliveries[number]
            consumer.ack(message)

    def do_extend(self, asked: dict[str, Any]) -> None:
        for number in asked["numbers"]:
            consumer, message = self._deliveries[number]
            consumer.extend(message, seconds=asked["invisible_ms"] / 1000)

    def do_listen(self, asked: dict[str, Any]) -> None:
        group = asked["group"]
        heard = self._heard.setdefault(group, [])

        def listener(message: ReceivedMessage) -> None:
            time.sleep(asked["take_ms"] / 1000)
            said = _received(message)
            heard.append(said)
            if said["attempt"] <= asked["fail"]:
                raise RuntimeError("told to fail")

        consumer = self._consumer(asked)

        def listen() -> None:
            with suppress(ClientNotRunning):
                consumer.listen(listener)

        Thread(target=listen, daemon=True).start()

    def do_heard(self, asked: dict[str, Any]) -> Any:
        heard = self._heard[asked["group"]]
        count = len(heard)
        found, heard[:count] = heard[:count], []
        return found

    def do_leave(self, asked: dict[str, Any]) -> None:
        if client := self._clients.pop(("consumer", asked["group"]), None):
            client.close()

    def do_transactions(self, asked: dict[str, Any]) -> None:
        self._answers[asked["topic"]] = asked["answer"]
        self._producer(asked)

    def do_begin(self, asked: dict[str, Any]) -> Any:
        producer = self._producer(asked)
        half = producer.send_half(_sent(asked["messages"][0]))
        with self._lock:
            self._transactions.append((producer, half))
            return {"number": len(self._transactions) - 1, "id": half.transaction_id}

    def do_commit(self, asked: dict[str, Any]) -> None:
        producer, half = self._transactions[asked["numbers"][0]]
        producer.commit(half)

    def do_rollback(self, asked: dict[str, Any]) -> None:
        producer, half = self._transactions[asked["numbers"][0]]
        producer.rollback(half)

    def do_checked(self, asked: dict[str, Any]) -> Any:
        return list(self._asked.get(asked["topic"], ()))

    def _producer(self, asked: dict[str, Any]) -> Producer:
        topic = asked["topic"]
        asked_about = self._asked.setdefault(topic, [])

        def check(question: TransactionCheck) -> TransactionOutcome:
            body = base64.b64encode(question.body).decode()
            asked_about.append({"id": question.transaction_id, "body": body})
            return OUTCOMES[self._answers.get(topic, "unknown")]

        def start() -> Producer:
            producer = Producer(
                self._name_servers,
                group=f"ours-{topic}",
                transaction_checker=check,
                settings=ProducerSettings(call_timeout_s=CALL_S, send_timeout_s=3 * CALL_S),
            )
            producer.start()
            return producer

        return self._client(("producer", topic), start)

    def _consumer(self, asked: dict[str, Any]) -> ReceiveConsumer:
        def start() -> ReceiveConsumer:
            wanted = Sql(asked["sql"]) if asked["sql"] else asked["tags"] or "*"
            consumer = ReceiveConsumer(
                self._name_servers,
                group=asked["group"],
                subscriptions={asked["topic"]: wanted},
                invisible_s=asked["invisible_ms"] / 1000,
                call_timeout_s=CALL_S,
            )
            consumer.start()
            return consumer

        return self._client(("consumer", asked["group"]), start)

    def _client(self, name: Any, start: Callable[[], Any]) -> Any:
        with self._lock:
            starting = self._starting.setdefault(name, Lock())
        with starting:
            if name not in self._clients:
                self._clients[name] = start()
            return self._clients[name]


def _sent(said: dict[str, Any]) -> Message:
    delay_ms = said["deliver_in_ms"]
    return Message(
        said["topic"],
        base64.b64decode(said["body"]),
        tag=said["tag"],
        keys=said["keys"],
        message_group=said["group"],
        properties=said["properties"],
        delay=timedelta(milliseconds=delay_ms) if delay_ms else None,
        priority=said["priority"] or 0,
    )


def _received(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "tag": message.tag,
        "keys": sorted(message.keys),
        "group": message.message_group,
        "properties": {
            name: value
            for name, value in message.properties.items()
            if name not in SYSTEM_PROPERTIES
        },
        "id": message.unique_id,
        "attempt": message.attempts + 1,
        "corrupted": False,
        "at_ms": time.time() * 1000,
    }
