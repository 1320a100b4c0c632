"""One trace from a producer through the broker to a consumer and a micro-batch of Spark.

All are told one setting, the address of a collector: a real one, over gRPC.
"""

import asyncio

import pytest

from ariane_sdk import Message, Producer, ProducerSettings, PushConsumer, PushSettings
from ariane_sdk.client.span_export import span_provider
from ariane_spark import session
from ariane_testkit.otlp_receiver import otlp_receiver


def read_once(name_servers, endpoint, folder):
    """Have Spark read what there is as a stream: how many messages."""
    spark = session("traces", master="local[1]")
    try:
        stream = (
            spark.readStream.format("ariane")
            .options(endpoints=name_servers, topic="orders", startingOffsets="earliest")
            .option("otlpEndpoint", endpoint)
            .load()
        )
        query = (
            stream.writeStream.format("memory")
            .queryName("orders")
            .option("checkpointLocation", str(folder))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(300)
        return spark.table("orders").count()
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
            count = await asyncio.to_thread(
                read_once, cluster.name_servers, endpoint, tmp_path / "checkpoint"
            )
        await asyncio.to_thread(span_provider(endpoint).force_flush)
    spans = {span.name: span for span in receiver.spans}

    assert count == 1
    send, append = spans["send orders"], spans["append orders"]
    process, read = spans["process orders"], spans["read orders"]
    assert {span.trace_id for span in spans.values()} == {send.trace_id}
    assert {span.parent_id for span in (append, process, read)} == {send.span_id}
    assert (append.service, read.service) == ("broker", "spark")
    assert read.attributes["ariane.spark.batch_id"] == "0"
    assert read.attributes["ariane.spark.query_id"]
