"""``ariane bench`` against a real cluster, with few messages."""

import asyncio
import gc

import pytest

from ariane_admin.bench.bench_bodies import BenchBodies
from ariane_admin.bench.bench_latency import Ticker
from ariane_admin.bench.bench_works import seconds_of
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import Producer
from ariane_sdk.errors import SendError


@pytest.fixture
def nothing_is_left(ariane_json):
    """Compares topics and groups before and after."""

    def there():
        topics = {row["topic"] for row in ariane_json("topic", "list")}
        return topics, {row["group"] for row in ariane_json("group", "list")}

    before = there()
    yield
    assert there() == before


@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("shape", [("--in-flight", "8"), ("--batch", "30", "--in-flight", "2")])
def test_sent_messages_are_counted_in_the_store(ariane_json, shape):
    row = ariane_json("bench", "produce", "--count", "100", "--size", "64", *shape)
    assert (row["messages"], row["stored"], row["failed"], row["lost"]) == (100, 100, 0, 0)
    assert row["messages_per_second"] > 0


@pytest.mark.usefixtures("nothing_is_left")
def test_the_garbage_collector_leaves_alone_what_is_imported_while_a_clock_runs(
    ariane_json, monkeypatch
):
    spared = []
    send = Producer.send

    async def noted(self, message):
        spared.append(gc.get_freeze_count())
        return await send(self, message)

    monkeypatch.setattr(Producer, "send", noted)
    ariane_json("bench", "produce", "--count", "3", "--size", "64")
    assert len(spared) == 3
    assert min(spared) > 0
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_is_left")
def test_every_group_gets_all(ariane_json):
    row = ariane_json("bench", "consume", "--count", "1500", "--groups", "2", "--size", "64")
    assert row["messages"] - row["repeated"] == 3000
    assert (row["lost"], row["altered"]) == (0, 0)


@pytest.mark.usefixtures("nothing_is_left")
def test_a_schedule_is_kept_and_every_message_timed(ariane, ariane_json):
    row = ariane_json(
        *("bench", "latency", "--rate", "500", "--seconds", "0.4", "--warm-up", "0.2"),
    )
    assert (row["messages"], row["failed"], row["lost"], row["altered"]) == (300, 0, 0, 0)
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"] <= row["max_ms"]
    names = ("p50_ms", "p99_ms", "p999_ms", "max_ms")
    acknowledged = [row[f"acknowledged_{name}"] for name in names]
    assert acknowledged == sorted(acknowledged)
    assert acknowledged[0] > 0
    assert "p99 ms" in ariane(
        *("bench", "latency", "--rate", "100", "--seconds", "0.1", "--warm-up", "0")
    )


@pytest.mark.usefixtures("nothing_is_left")
def test_failed_sends_fail_the_command(ariane, monkeypatch):
    async def refuse(_self, message):
        raise SendError(f"no room for {message.topic}")

    monkeypatch.setattr(Producer, "send", refuse)
    said = ariane("bench", "produce", "--count", "10", status=ExitStatus.FAILED)
    assert "10 failed" in said


def test_wrong_usage_and_nobody_there(ariane):
    ariane("bench", "produce", "--size", "8", status=ExitStatus.USAGE)
    nobody = ("--name-servers", "127.0.0.1:1")
    ariane("bench", "latency", *nobody, status=ExitStatus.UNREACHABLE)


def test_more_than_memory_holds_is_refused(ariane):
    said = ariane("bench", "consume", "--count", "5000000", status=ExitStatus.USAGE)
    assert "4.8 GiB would be held in memory, and at most 4 GiB are allowed" in said
    schedule = ("--rate", "1000000", "--seconds", "3600")
    said = ariane("bench", "latency", *schedule, status=ExitStatus.USAGE)
    assert "3,601,000,000 messages, at most 50,000,000" in said


def test_a_first_call_counts_as_if_it_had_taken_its_part():
    assert seconds_of(2.0, 5.0, 20, 40) == 4.0
    assert seconds_of(2.0, 3.0, 20, 40) == 3.0
    assert seconds_of(0.0, 0.5, 32, 32) == 0.5
    assert seconds_of(0.5, 5.0, 999, 1000) == 5.0


def test_bodies_that_are_missing_repeated_or_altered_are_told():
    bodies = BenchBodies(5, 40, copies=2)
    for number in (0, 0, 0, 1, 1, 2):
        bodies.check(bodies.body(number))
    bodies.check(bodies.body(3)[:-1] + b"\0")
    bodies.check(bodies.body(7))
    assert bodies.seen_count == 8
    assert bodies.missing_count == 1 + 2 + 2
    assert bodies.repeated_count == 1
    assert bodies.altered_count == 2


async def test_a_loop_that_is_late_is_woken_once_and_not_for_each_millisecond():
    calls = []
    ticker = Ticker(0, 1000, lambda: calls.append(1))
    ticker.start()
    ticker.join()  # All of them pass while the loop does nothing but wait here.
    await asyncio.sleep(0)
    assert calls == [1]


def test_help_has_examples(ariane):
    for work in ("produce", "consume", "latency"):
        assert f"ariane bench {work} " in ariane("bench", work, "--help")
