"""One trace from a producer through the broker to consumers and Spark, and on through its sink.

All are told one setting, the address of a collector: a real one, over gRPC.
"""

import asyncio

import pytest

from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullSettings,
    PushConsumer,
    PushSettings,
)
from ariane_sdk.client.span_export import span_provider
from ariane_spark import session
from ariane_testkit.otlp_receiver import otlp_receiver

DELIVERIES = ("at-least-once", "exactly-once")


def copy_once(name_servers, endpoint, folder, delivery):
    """Have Spark read what there is as a stream, and write it to another topic."""
    spark = session("traces", master="local[1]")
    try:
        stream = (
            spark.readStream.format("ariane")
            .options(endpoints=name_servers, topic="orders", startingOffsets="earliest")
            .option("otlpEndpoint", endpoint)
            .load()
        )
        query = (
            stream.select("body", "properties")
            .writeStream.format("ariane")
            .options(endpoints=name_servers, topic=f"copies-{delivery}")
            .option("deliveryGuarantee", delivery)
            .option("otlpEndpoint", endpoint)
            .option("checkpointLocation", str(folder / delivery))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(300)
    finally:
        spark.stop()


@pytest.mark.slow  # A cluster of processes, and Spark's own.
@pytest.mark.timeout(600)
async def test_one_trace_from_sender_to_micro_batch(local_cluster, tmp_path):
    with otlp_receiver() as receiver:
        endpoint = receiver.endpoint
        async with local_cluster("--otlp-endpoint", endpoint) as cluster:
            heard = asyncio.Event()

            async def listen(messages):
                heard.set()

            consumer = PushConsumer(
                cluster.name_servers,
                group="billing",
                subscriptions={"orders": "*"},
                listener=listen,
                start="earliest",
                settings=PushSettings(otlp_endpoint=endpoint),
            )
            settings = ProducerSettings(otlp_endpoint=endpoint)
            async with Producer(cluster.name_servers, settings=settings) as producer:
                await producer.send(Message("orders", b"a teapot"))
                async with consumer, asyncio.timeout(120):
                    await heard.wait()
            async with ClusterClient(cluster.name_servers) as client:
                for delivery in DELIVERIES:
                    await client.create_topic(f"copies-{delivery}")
            for delivery in DELIVERIES:
                await asyncio.to_thread(
                    copy_once, cluster.name_servers, endpoint, tmp_path, delivery
                )
            async with PullConsumer(
                cluster.name_servers,
                group="auditors",
                subscriptions={f"copies-{delivery}": "*" for delivery in DELIVERIES},
                start="earliest",
                settings=PullSettings(otlp_endpoint=endpoint),
            ) as auditor:
                copies = [(await auditor.poll(1, timeout_s=120))[0] for _ in DELIVERIES]
        await asyncio.to_thread(span_provider(endpoint).force_flush)
    spans = {span.name: span for span in receiver.spans}

    assert {copy.body for copy in copies} == {b"a teapot"}
    send, append = spans["send orders"], spans["append orders"]
    process, read = spans["process orders"], spans["read orders"]
    assert {span.trace_id for span in spans.values()} == {send.trace_id}
    assert {span.parent_id for span in (append, process, read)} == {send.span_id}
    assert (append.service, read.service) == ("broker", "spark")
    assert read.attributes["ariane.spark.batch_id"] == "0"
    assert read.attributes["ariane.spark.query_id"]
    for delivery in DELIVERIES:
        write, poll = spans[f"write copies-{delivery}"], spans[f"poll copies-{delivery}"]
        # What is copied with its properties keeps the context of who sent it first.
        assert {write.parent_id, poll.parent_id} == {send.span_id}
        assert write.attributes["ariane.spark.batch_id"] == "0"
    sent, stored = spans["send copies-at-least-once"], spans["append copies-at-least-once"]
    assert sent.parent_id == spans["write copies-at-least-once"].span_id
    assert stored.parent_id == sent.span_id
