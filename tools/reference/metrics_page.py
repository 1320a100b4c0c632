"""``docs/metrics.md``: every metric of every service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, Final
from unittest.mock import MagicMock

from ariane_broker.measuring.broker_measures import BrokerMeasures
from ariane_broker.measuring.queue_measures import QueueMeasures
from ariane_broker.replication.replication_measures import ReplicationMeasures
from ariane_gateway.app import GatewayApp
from ariane_namesrv.app import NamesrvApp
from ariane_servicekit.observability.measures import SERIES_MAX, Instrument, Measures
from ariane_servicekit.rpc.quota_measures import measure_quotas
from ariane_servicekit.rpc.transport_measures import TransportMeasures, measure_certificate
from ariane_txn_checker.app import CheckerApp
from tools.reference.markdown import code, made_from, page, table

CALLS: Final = "rpc_server_call_duration_seconds"

_ROCKETMQ: Final = {
    "ariane.broker.writable": "rocketmq_broker_permission",
    "ariane.topics": "rocketmq_topic_number",
    "ariane.groups": "rocketmq_consumer_group_number",
    "ariane.messages.stored": "rocketmq_messages_in_total",
    "ariane.messages.read": "rocketmq_messages_out_total",
    "ariane.messages.stored.size": "rocketmq_throughput_in_total",
    "ariane.messages.read.size": "rocketmq_throughput_out_total",
    "ariane.clients": "rocketmq_producer_connections, rocketmq_consumer_connections",
    "ariane.consumer.lag": "rocketmq_consumer_lag_messages",
    "ariane.consumer.lag.age": "rocketmq_consumer_lag_latency",
    "ariane.consumer.in_flight": "rocketmq_consumer_inflight_messages",
    "ariane.dead_letters": "rocketmq_send_to_dlq_messages_total",
    "ariane.half.messages": "rocketmq_half_messages",
    "ariane.storage.size": "rocketmq_storage_size",
    "ariane.storage.unflushed": "rocketmq_storage_flush_behind_bytes",
    "ariane.delayed.messages": "rocketmq_timing_messages",
    "ariane.delayed.delivered": "rocketmq_timer_dequeue_total",
    "ariane.delayed.lateness": "rocketmq_delay_message_latency",
}

_INTRODUCTION: Final = f"""
Metrics are off until a setting turns them on, in any service:

```console
$ ariane-broker --metrics-listen 127.0.0.1:9464 ...     # Prometheus scrapes http://127.0.0.1:9464/metrics
$ ariane-broker --otlp-endpoint http://collector:4317   # or a collector gets them every 30 s
```

Both need `pip install 'ariane-servicekit[telemetry]'`. Values are computed on request. Except for
the durations of calls, appends and reads, services count nothing for metrics that they do not count
anyway. A metric has at most {SERIES_MAX:,} values; the others are summed up under `_OTHER`.

[compose/telemetry](../compose/telemetry) has a dashboard for Grafana and alerts for Prometheus.

## Traces

One setting of each process names the collector that gets its spans by OTLP over gRPC. Without it,
there are no spans, and nothing is loaded for them:

| Process | Setting | One span for |
| --- | --- | --- |
| producer | `ProducerSettings(otlp_endpoint=...)` | `send orders`: a call that sends |
| [Go, Java, TypeScript](../sdk/README.md) | a tracer | `send orders` and `process orders` |
| gateway | `--otlp-endpoint` | `send orders`: a call whose client names sampled spans |
| broker | `--otlp-endpoint` | `append orders`: a call with sampled spans |
| consumer | `PushSettings(otlp_endpoint=...)` | `process orders`: a call of the listener |
| | `PullSettings(otlp_endpoint=...)` | `poll orders`: a poll that returned messages or columns |
| Spark | `otlpEndpoint` of a read | `read orders`: a task that reads messages of sampled spans |
| | `otlpEndpoint` of a write | `write copies`: a task that writes |

All spans of a message are in one trace: a property of the message has the W3C `traceparent`, and
the spans of broker, consumer and Spark are children of the span that sent it. If a call or a task
has messages of several spans, its span is a child of the first and linked to the others; the span
of a listener or a poll has links only. Rows of `send_columns` have no context: the broker's span
is a child of the one that sent them, and readers have none. Rows that Spark writes have the
context of their task's span, unless their `properties` already have one: then it stays, and the
span of the task is a child of the first of those. Brokers have no span for an exactly-once write.

The sender decides what is sampled, by `OTEL_TRACES_SAMPLER=traceidratio` and
`OTEL_TRACES_SAMPLER_ARG=0.01`: producers, and Spark tasks that write. Brokers, and tasks that
read, start no traces of their own. Each call to a broker lists the sampled spans that sent it, so
the broker looks at no message. Applications that configure OpenTelemetry themselves need no
setting: see [the client](../sdk/python/README.md). The extras `ariane-sdk[otlp]` and
`ariane-spark[otlp]` are required.
"""


class _Recorder(Measures):
    """Notes instruments instead of making them."""

    def __init__(self) -> None:
        self.metrics: list[Instrument] = []

    def counter(self, name: str, unit: str, description: str, read: Any) -> None:
        self.metrics.append(Instrument(name, unit, description, grows=True, read=read))

    def gauge(self, name: str, unit: str, description: str, read: Any) -> None:
        self.metrics.append(Instrument(name, unit, description, grows=False, read=read))

    def histogram(self, *_told: Any) -> Any:
        """Not a value of one instrument: the page tells of them in words."""


def metrics() -> dict[str, list[Instrument]]:
    """All values of our own, by service."""
    # Instruments are only made here: what they would read need not be there.
    parts: dict[str, Any] = {each.name: MagicMock() for each in fields(BrokerMeasures)}
    nothing: Any = MagicMock()
    parts["queues"] = QueueMeasures(nothing, nothing, nothing, now_ms=nothing, monotonic=nothing)
    parts["replication"] = ReplicationMeasures(("", ""), nothing, nothing)
    broker = BrokerMeasures(**parts)
    return {
        "Broker": _made(broker.make),
        "Name server": _made(lambda measures: NamesrvApp.measure(MagicMock(), measures)),
        "Gateway": _made(lambda measures: GatewayApp.measure(MagicMock(), measures)),
        "Transaction checker": _made(lambda measures: CheckerApp.measure(MagicMock(), measures)),
    }


def _made(make: Any) -> list[Instrument]:
    recorder = _Recorder()
    make(recorder)
    return recorder.metrics


def render() -> str:
    """The page."""
    return page(
        "# Metrics", made_from("the services"), _INTRODUCTION, *_services(), *_every_service()
    )


def _services() -> Iterator[str]:
    for service, told in metrics().items():
        yield f"## {service}"
        rows = [
            (
                code(each.prometheus),
                "counter" if each.grows else "gauge",
                each.description,
                _ROCKETMQ.get(each.name, ""),
            )
            for each in told
        ]
        yield table(("Metric", "Kind", "What it is", "RocketMQ"), rows)
        if service == "Broker":
            yield (
                "Values of replication have the labels `cluster_name` and `broker_name`, which tell"
                " sets apart;\nthose of each replica have `broker_id`, too.\n"
                "`ariane_append_duration_seconds` and `ariane_read_duration_seconds` are histograms"
                " of appends to the log, by\nwhichever call or stream they came, and of looks at"
                " queues for pulls. Of `ariane_reads_total`, all but\n`ariane_reads_cold_total`"
                " found what they wanted in memory."
            )


def _certificate(measures: Any) -> None:
    measure_certificate(measures, MagicMock(), MagicMock())


def _quotas(measures: Any) -> None:
    measure_quotas(measures, MagicMock())


def _every_service() -> Iterator[str]:
    yield "## Every service"
    measures = TransportMeasures(MagicMock(), MagicMock())
    rows = [
        (code(each.prometheus), "counter" if each.grows else "gauge", each.description)
        for each in (*_made(measures.make), *_made(_quotas), *_made(_certificate))
    ]
    yield table(("Metric", "Kind", "What it is"), rows)
    yield f"""`{CALLS}` is a histogram of calls by `rpc_method` and
`rpc_response_status_code`, streams and held calls included; its `_count` is the number of calls.
`process_cpu_seconds_total`, `process_resident_memory_bytes` and their like are those of Prometheus'
own client."""

    yield """## Clients

Where an application has configured OpenTelemetry, the Python client tells
`ariane.client.connections`, `ariane.client.calls`, `ariane.client.held` (gauges),
`ariane.client.connections.begun`, `ariane.client.calls.begun`, `ariane.client.sent`,
`ariane.client.received` and `ariane.client.stalls` (counters) of all clients of the process, by
`server.address`: what the services tell of their servers. Its measurements of messages have the
names of OpenTelemetry's conventions for messaging."""
