"""Lets a test play scenarios with the Python client: README.md has the commands."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Lock, Thread
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from python_administration import administer

from ariane_record import PropertyName
from ariane_sdk import (
    Compression,
    Message,
    ProducerSettings,
    ReceivedMessage,
    Sql,
    TransactionCheck,
    TransactionOutcome,
)
from ariane_sdk import Producer as AsyncProducer
from ariane_sdk import ReceiveConsumer as AsyncReceiveConsumer
from ariane_sdk.errors import ClientNotRunning
from ariane_sdk.sync import Producer, ReceiveConsumer

CALLS_MAX = 128
CALL_S = 30.0
"""What a try of a call may take: no play fails because a machine is slow."""
EMPTY_MAX = 2
"""How many empty answers in a row say that no more messages come."""
OUTCOMES = {
    "commit": TransactionOutcome.COMMIT,
    "rollback": TransactionOutcome.ROLLBACK,
    "unknown": TransactionOutcome.UNKNOWN,
}


SYSTEM_PROPERTIES = frozenset(
    value for name, value in vars(PropertyName).items() if not name.startswith("_")
) | {"CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "CLUSTER"}


class Worker:
    """What commands act on."""

    def __init__(self) -> None:
        self.lock = Lock()  # Commands are carried out side by side.
        self.name_servers: list[str] = []
        self.senders: dict[str, Producer] = {}
        self.receipts: list[Any] = []
        self.consumers: dict[str, ReceiveConsumer] = {}
        self.deliveries: list[tuple[ReceiveConsumer, ReceivedMessage]] = []
        self.producers: dict[str, Any] = {}
        self.transactions: list[tuple[Any, Any]] = []
        self.answers: dict[str, str] = {}
        self.checks: list[dict[str, str]] = []
        self.stop: Callable[[], None] | None = None  # Ends the answering.
        self.spans: InMemorySpanExporter | None = None

    def perform(self, asked: dict[str, Any]) -> Any:
        return getattr(self, f"do_{asked['do']}")(asked)

    def do_connect(self, asked: dict[str, Any]) -> Any:
        self.name_servers = asked["name_servers"]
        self.senders.clear()
        return {"language": "python"}

    def do_send(self, asked: dict[str, Any]) -> Any:
        messages = [sent(each) for each in asked["messages"]]
        sender = self.sender(asked["compression"])
        results = [sender.send(*messages)] if len(messages) == 1 else sender.send_batch(messages)
        with self.lock:
            first = len(self.receipts)
            self.receipts += results
        return [
            {
                "number": number,
                "id": result.unique_id,
                "broker": result.message_queue.broker_name,
                "queue_id": result.message_queue.queue_id,
                "offset": result.queue_offset,
            }
            for number, result in enumerate(results, first)
        ]

    def do_pump(self, asked: dict[str, Any]) -> float:
        return asyncio.run(self.pump(asked))

    async def pump(self, asked: dict[str, Any]) -> float:
        message = sent(asked["messages"][0])
        batch = [message] * asked["batch"]
        numbers = iter(range(0, asked["count"], asked["batch"]))
        compression = settings(asked["compression"])
        async with AsyncProducer(self.name_servers, settings=compression) as producer:

            async def send() -> None:
                for _ in numbers:
                    if len(batch) > 1:
                        await producer.send_batch(batch)
                    else:
                        await producer.send(message)

            began_s = time.perf_counter()
            await asyncio.gather(*(send() for _ in range(asked["in_flight"])))
            return time.perf_counter() - began_s

    def do_drain(self, asked: dict[str, Any]) -> float:
        return asyncio.run(self.drain(asked))

    async def drain(self, asked: dict[str, Any]) -> float:
        consumer = AsyncReceiveConsumer(
            self.name_servers, group=asked["group"], subscriptions={asked["topic"]: "*"}
        )
        async with consumer:
            left = asked["count"]
            empty = 0
            began_s = time.perf_counter()
            while left > 0:
                messages = await consumer.receive_batch(asked["max"])
                await consumer.ack(*messages)
                left -= len(messages)
                empty = 0 if messages else empty + 1
                if empty == EMPTY_MAX:
                    raise RuntimeError(f"{left} of {asked['count']} messages are missing")
            return time.perf_counter() - began_s

    def do_recall(self, asked: dict[str, Any]) -> Any:
        receipt = self.receipts[asked["numbers"][0]]
        self.sender("").recall(receipt.recall_handle)
        return receipt.unique_id

    def do_receive(self, asked: dict[str, Any]) -> Any:
        group = asked["group"]
        if group not in self.consumers:
            wanted = Sql(asked["sql"]) if asked["sql"] else asked["tags"] or "*"
            consumer = ReceiveConsumer(
                self.name_servers,
                group=group,
                subscriptions={asked["topic"]: wanted, **asked["more"]},
                invisible_s=asked["invisible_ms"] / 1000,
                by_priority=asked["by_priority"],
                call_timeout_s=CALL_S,
            )
            consumer.start()
            self.consumers[group] = consumer
        consumer = self.consumers[group]
        messages = consumer.receive_batch(asked["max"], timeout_s=asked["wait_ms"] / 1000)
        with self.lock:
            first = len(self.deliveries)
            self.deliveries += [(consumer, each) for each in messages]
        return [received(each, number) for number, each in enumerate(messages, first)]

    def do_lost(self, asked: dict[str, Any]) -> int:
        return self.consumers[asked["group"]].lost_message_count

    def do_ack(self, asked: dict[str, Any]) -> None:
        for consumer, message in self.held(asked):
            consumer.ack(message)

    def do_nack(self, asked: dict[str, Any]) -> None:
        for consumer, message in self.held(asked):
            consumer.nack(
                message, delay_s=asked["delay_ms"] / 1000, dead_letter=asked["dead_letter"]
            )

    def do_extend(self, asked: dict[str, Any]) -> None:
        for consumer, message in self.held(asked):
            consumer.extend(message, seconds=asked["invisible_ms"] / 1000)

    def do_transactions(self, asked: dict[str, Any]) -> None:
        group = asked["group"]
        self.answers[group] = asked["answer"]
        if group in self.producers:
            return

        def check(question: TransactionCheck) -> TransactionOutcome:
            body = base64.b64encode(question.body).decode()
            self.checks.append({"id": question.transaction_id, "body": body})
            return OUTCOMES[self.answers[group]]

        producer = Producer(
            self.name_servers,
            group=group,
            transaction_checker=check,
            settings=settings(asked["compression"]),
        )
        producer.start()
        self.producers[group] = producer

    def do_begin(self, asked: dict[str, Any]) -> Any:
        producer = self.producers[asked["group"]]
        half = producer.send_half(sent(asked["messages"][0]))
        with self.lock:
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

    def do_request(self, asked: dict[str, Any]) -> Any:
        [message] = map(sent, asked["messages"])
        reply = self.sender("").request(message, timeout_s=asked["timeout_ms"] / 1000)
        return {"body": base64.b64encode(reply.body).decode()}

    def do_answer(self, asked: dict[str, Any]) -> None:
        producer = self.sender("")
        consumer = ReceiveConsumer(
            self.name_servers,
            group=asked["group"],
            subscriptions={asked["topic"]: "*"},
            call_timeout_s=CALL_S,
        )
        consumer.start()

        def answer(request: ReceivedMessage) -> None:
            producer.reply(request, request.body[::-1])

        def listen() -> None:
            with suppress(ClientNotRunning):
                consumer.listen(answer)

        answering = Thread(target=listen)
        answering.start()

        def stop() -> None:
            consumer.close()
            answering.join()

        self.stop = stop

    def do_stop(self, _: dict[str, Any]) -> None:
        assert self.stop is not None
        self.stop()

    def do_administer(self, asked: dict[str, Any]) -> Any:
        return asyncio.run(administer(self.name_servers, asked))

    def do_spans(self, _: dict[str, Any]) -> Any:
        if self.spans is None:
            self.spans = InMemorySpanExporter()
            provider = TracerProvider()
            provider.add_span_processor(SimpleSpanProcessor(self.spans))
            trace.set_tracer_provider(provider)
        return {"spans": [told_span(each) for each in self.spans.get_finished_spans()]}

    def sender(self, compression: str) -> Producer:
        with self.lock:
            if compression not in self.senders:
                sender = Producer(self.name_servers, settings=settings(compression))
                sender.start()
                self.senders[compression] = sender
            return self.senders[compression]

    def held(self, asked: dict[str, Any]) -> list[tuple[ReceiveConsumer, ReceivedMessage]]:
        return [self.deliveries[number] for number in asked["numbers"]]


def settings(compression: str) -> ProducerSettings:
    return ProducerSettings(
        compression=Compression(compression or "none"),
        call_timeout_s=CALL_S,
        send_timeout_s=int(os.environ["CALL_MS"]) / 1000,
    )


def received(message: ReceivedMessage, number: int) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "tag": message.tag,
        "keys": list(message.keys),
        "group": message.message_group,
        "properties": {
            name: value
            for name, value in message.properties.items()
            if name not in SYSTEM_PROPERTIES
        },
        "priority": int(message.properties.get(PropertyName.PRIORITY, 0)),
        "id": message.unique_id,
        "attempt": message.attempts + 1,
        "number": number,
    }


def sent(wire: dict[str, Any]) -> Message:
    delay_ms = wire.get("deliver_in_ms", 0)
    return Message(
        wire["topic"],
        base64.b64decode(wire["body"]),
        tag=wire["tag"],
        keys=wire["keys"],
        message_group=wire["group"],
        properties=wire["properties"],
        priority=wire.get("priority", 0),
        delay=timedelta(milliseconds=delay_ms) if delay_ms else None,
    )


def told_span(span: ReadableSpan) -> dict[str, Any]:
    own = span.context
    assert own is not None
    return {
        "name": span.name,
        "kind": span.kind.name,
        "trace": f"{own.trace_id:032x}",
        "span": f"{own.span_id:016x}",
        "parent": "" if span.parent is None else f"{span.parent.span_id:016x}",
        "links": [f"{each.context.trace_id:032x}" for each in span.links],
        "attributes": dict(span.attributes or {}),
    }


def told(error: Exception) -> dict[str, Any]:
    # What the client itself refuses has no reason of the wire; its class is named alike.
    own = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()
    reason = getattr(error, "reason", "") or own
    unknown = bool(getattr(error, "outcome_unknown", False))
    return {
        "reason": reason,
        "text": f"{type(error).__name__}: {error}",
        "outcome_unknown": unknown,
    }


def answer(worker: Worker, asked: dict[str, Any]) -> None:
    try:
        said = {"call": asked["call"], "ok": worker.perform(asked)}
    except Exception as error:  # noqa: BLE001 - whoever asked is told, and waits no longer.
        said = {"call": asked["call"], "error": told(error)}
    line = json.dumps(said) + "\n"
    with worker.lock:
        sys.stdout.write(line)
        sys.stdout.flush()


def main() -> None:
    worker = Worker()
    with ThreadPoolExecutor(CALLS_MAX) as calls:
        for line in sys.stdin:
            calls.submit(answer, worker, json.loads(line))
    if worker.stop is not None:
        worker.stop()
    for each in (*worker.senders.values(), *worker.consumers.values(), *worker.producers.values()):
        each.close()


if __name__ == "__main__":
    main()
