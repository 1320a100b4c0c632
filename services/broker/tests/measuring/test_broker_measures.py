"""What Prometheus reads of a broker, on its own page."""

import asyncio
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ariane_testkit.free_ports import free_port


@pytest.fixture
async def scraped(running):
    """A broker with metrics, and a function that reads them."""
    port = free_port()
    address = f"127.0.0.1:{port}"

    def read():
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def scrape():
        return await asyncio.to_thread(read)

    async with running(metrics_listen=address) as broker:
        yield broker, scrape


async def test_what_is_stored_and_what_a_group_has_not_consumed(scraped):
    broker, scrape = scraped
    await broker.create_topic("orders", 2)
    await broker.store("orders", [b"a", b"b", b"c"], 0)
    await broker.store("orders", [b"d"], 1)
    await broker.store_offset("billing", "orders", 0, 1)
    await broker.store_offset("billing", "orders", 1, 1)
    values = await scrape()
    assert values["ariane_topic_messages_stored_total", "orders"] == 4
    assert values["ariane_topic_messages_kept", "orders"] == 4
    assert values["ariane_consumer_lag", "billing", "orders"] == 2
    assert 0 <= values["ariane_consumer_lag_age_seconds", "billing", "orders"] < 3600
    assert values["ariane_messages_stored_total",] == 4
    assert values["ariane_broker_writable",] == 1
    assert values["ariane_storage_size_bytes",] > 0
    calls = [key for key in values if key[0] == "rpc_server_call_duration_seconds_count"]
    assert any("ariane.broker.v1.TopicService/CreateTopic" in key for key in calls)
    assert values["process_resident_memory_bytes",] > 0
