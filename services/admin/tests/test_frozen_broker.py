"""What lists and shows say while one of two brokers is frozen: its part is missing, and said so."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from ariane_admin.asking.partial_answers import PartialAnswers
from ariane_admin.cli import main
from ariane_admin.servicers.group import groups
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import LiveBroker, PushConsumer, PushSettings, QueueReader
from ariane_sdk.errors import DeadlinePassed, MessagesFailed
from ariane_sdk.sync import Message, MessageQueue, Producer
from ariane_sdk.sync import QueueReader as BlockingReader
from ariane_servicekit.running.processes import LocalCluster
from ariane_testkit.small_store import SMALL_STORE

BIN = Path(sys.executable).parent
COMMANDS = {
    "topics": "topic list",
    "groups": "group list",
    "group": "group show billing",
    "no group": "group show nobody",
    "tries": "group retry billing",
    "no tries": "group retry nobody",
    "queues": "topic show orders",
    "layouts": "topic show orders --brokers",
    "found": "message query orders --key o-1",
    "no message": "message show 0123456789ABCDEF0123456789ABCDEF --topic orders",
    "dead letters": "dead-letter list shipping",
    "brokers": "broker list",
    "sinks": "sink list",
    "no dead letters": "dead-letter list nobody",
    "exported": "dead-letter export shipping",
    "stored": "consume orders --from earliest --no-follow",
    "stored since": "consume orders --from 2020-01-01T00:00:00Z --no-follow",
}
TOTALS = ("topics", "groups", "group")
LINES = ("stored", "stored since")
WITH_ONE_MORE_LINE = ("exported",)


def run(cluster, text, *more):
    environment = {**os.environ, "ARIANE_NAME_SERVERS": cluster.name_servers}
    return subprocess.run(
        [BIN / "ariane", *text.split(), *more],
        capture_output=True,
        text=True,
        env=environment,
        timeout=240,  # All commands run at a time.
        check=False,
    )


async def give_up(cluster, topic, group_name):
    """Have a group make dead letters of what is in a topic, two messages."""
    seen = []

    async def listen(messages):
        seen.extend(messages)
        raise MessagesFailed(messages, "no such account", rejected=True)

    async with (
        asyncio.timeout(60),
        PushConsumer(
            cluster.name_servers,
            group=group_name,
            subscriptions={topic: "*"},
            listener=listen,
            start="earliest",
            settings=PushSettings(handover_s=0.1, rebalance_gap_s_min=0.05),
        ) as consumer,
    ):
        while len(seen) < 2:  # noqa: ASYNC110 - there is nothing to be told by.
            await asyncio.sleep(0.02)
        await consumer.store_offsets()


def freeze(cluster, position=1):
    os.kill(cluster.brokers[position].pid, signal.SIGSTOP)


def thaw(cluster, position=1):
    os.kill(cluster.brokers[position].pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two brokers; on each a message, how far a group is, and a dead letter of another group."""
    folder = tmp_path_factory.mktemp("frozen")
    with LocalCluster(folder, brokers=2, extra_broker_args=SMALL_STORE) as cluster:
        assert run(cluster, "topic create orders --queues 2").returncode == ExitStatus.DONE
        with (
            Producer(cluster.name_servers) as producer,
            BlockingReader(cluster.name_servers) as reader,
        ):
            for name in ("broker-a", "broker-b"):
                queue = MessageQueue("orders", name, 0)
                body = f"on {name}".encode()
                producer.send(Message("orders", body, keys=("o-1",)), message_queue=queue)
                reader.store_offsets("billing", {queue: 0})
        asyncio.run(give_up(cluster, "orders", "shipping"))
        yield cluster


@pytest.fixture(scope="module")
def frozen(two):
    """What each command wrote, for people and for programs, and how it ended."""
    asked = {
        (what, form): (text, *(() if what in WITH_ONE_MORE_LINE else ("-o", form)))
        for what, text in COMMANDS.items()
        for form in ("table", "json")
        if what in TOTALS or (form == "table") == (what in (*LINES, *WITH_ONE_MORE_LINE))
    }
    freeze(two)
    try:
        with ThreadPoolExecutor(len(asked)) as threads:
            ended = threads.map(lambda words: run(two, *words), asked.values())
            return dict(zip(asked, ended, strict=True))
    finally:
        thaw(two)


def told(frozen, what):
    return json.loads(frozen[what, "json"].stdout)


@pytest.mark.parametrize("what", COMMANDS)
def test_the_silent_broker_is_named_in_a_line_and_by_the_status(frozen, what):
    for ended in (ended for (asked, _), ended in frozen.items() if asked == what):
        assert ended.returncode == ExitStatus.UNREACHABLE, ended.stderr
        warning, *more = ended.stderr.splitlines()
        assert warning.startswith("ariane: warning: a broker does not answer, and ")
        assert "broker broker-b at 127.0.0.1" in warning
        # Where nothing was found, another line says that not all were asked.
        assert len(more) == (what.startswith("no ") or what in WITH_ONE_MORE_LINE)


def test_totals_without_a_broker_do_not_look_right(frozen):
    [topic] = told(frozen, "topics")
    assert (topic["brokers"], topic["read_queues"]) == (["broker-a"], 2)
    [billing, shipping] = told(frozen, "groups")
    assert (billing["group"], billing["lag"]) == ("billing", 1)
    assert (shipping["group"], shipping["lag"]) == ("shipping", 0)
    shown = told(frozen, "group")
    for row in (topic, billing, shipping, shown):
        assert row["unanswered"] == ["broker-b"]
    for what, total in (("topics", ">= 2"), ("groups", ">= 1"), ("group", ">= 1")):
        text = frozen[what, "table"].stdout
        assert total in text
        assert "unanswered" in text
        assert "broker-b" in text


def test_queues_of_a_silent_broker_are_there_and_their_messages_are_not_known(frozen):
    queues = [(row["broker"], row["queue_id"], row["messages"]) for row in told(frozen, "queues")]
    assert queues == [
        ("broker-a", 0, 1),
        ("broker-a", 1, 0),
        ("broker-b", 0, None),
        ("broker-b", 1, None),
    ]
    layouts = [(row["broker"], row["read_queues"]) for row in told(frozen, "layouts")]
    assert layouts == [("broker-a", 2), ("broker-b", None)]


def test_what_the_others_have_is_written(frozen):
    assert [row["body"] for row in told(frozen, "found")] == ["on broker-a"]
    assert [row["broker"] for row in told(frozen, "tries")] == ["broker-a"]
    assert frozen["stored", "table"].stdout == "on broker-a\n"
    assert frozen["stored since", "table"].stdout == "on broker-a\n"
    [letter] = told(frozen, "dead letters")
    assert (letter["place"], letter["body"]) == ("broker-a/0/0", "on broker-a")
    assert json.loads(frozen["exported", "table"].stdout) == letter
    assert "1 dead letter written" in frozen["exported", "table"].stderr


def test_a_broker_that_is_frozen_is_listed_as_name_servers_know_it(frozen):
    well, silent = told(frozen, "brokers")
    assert (well["broker"], well["writable"], well["error"]) == ("broker-a", True, None)
    assert (silent["broker"], silent["writable"], silent["wiped"]) == ("broker-b", None, False)
    assert "broker broker-b at 127.0.0.1" in silent["error"]


@pytest.mark.slow
def test_the_outcome_of_draining_a_frozen_broker_is_reported(two):
    try:
        freeze(two)
        try:
            with ThreadPoolExecutor(2) as threads:
                asked = "broker drain broker-b --yes", "broker restore broker-b"
                drained, restored = threads.map(partial(run, two), asked)
        finally:
            thaw(two)
        wiped = {
            row["broker"]: row["wiped"]
            for row in json.loads(run(two, "broker list -o json").stdout)
        }
    finally:
        assert run(two, "broker restore broker-b").returncode == ExitStatus.DONE
    # No connection comes about with a process that is frozen: it has surely not heard of either.
    assert drained.returncode == restored.returncode == ExitStatus.UNREACHABLE
    assert "1 of 1 name servers keep producers away from it" in drained.stderr
    assert "name servers were not called" in restored.stderr
    assert wiped == {"broker-a": False, "broker-b": True}


def test_a_dead_letter_at_its_place_needs_no_other_broker(two):
    freeze(two)
    try:
        with ThreadPoolExecutor(3) as threads:
            places = ("broker-a/0/0", "broker-b/0/0", "broker-c/0/0")
            ended = threads.map(lambda place: run(two, "dead-letter show shipping", place), places)
            shown, hidden, unknown = ended
    finally:
        thaw(two)
    assert shown.returncode == ExitStatus.DONE, shown.stderr
    assert hidden.returncode == ExitStatus.UNREACHABLE
    assert unknown.returncode == ExitStatus.NOT_FOUND
    assert "no broker broker-c is registered" in unknown.stderr


@pytest.mark.slow
@pytest.mark.parametrize("text", ["list", "show billing"])
def test_a_broker_that_freezes_meanwhile_hides_no_other(two, text, monkeypatch, capfd):
    facts_of = groups.facts_of

    async def freeze_before(*arguments):
        freeze(two)
        return await facts_of(*arguments)

    monkeypatch.setattr(groups, "facts_of", freeze_before)
    monkeypatch.setenv("ARIANE_NAME_SERVERS", two.name_servers)
    try:
        status = main(["group", *text.split(), "-o", "json"])
    finally:
        thaw(two)
    out, err = capfd.readouterr()
    assert status == ExitStatus.UNREACHABLE, err
    shown = json.loads(out)
    billing = shown if isinstance(shown, dict) else shown[0]
    assert (billing["group"], billing["lag"], billing["unanswered"]) == ("billing", 1, ["broker-b"])
    [warning] = err.splitlines()
    assert "a broker does not answer, and the result lacks it: broker broker-b at" in warning


def test_what_the_others_keep_is_written_when_a_broker_freezes_meanwhile(two, monkeypatch, capfd):
    told = 0
    bounds = QueueReader.bounds

    async def freeze_behind(self, *arguments, **options):
        nonlocal told
        answer = await bounds(self, *arguments, **options)
        told += 1
        if told == 4:  # Of both where they begin, and where they end.
            freeze(two, 0)
        return answer

    monkeypatch.setattr(QueueReader, "bounds", freeze_behind)
    monkeypatch.setenv("ARIANE_NAME_SERVERS", two.name_servers)
    try:
        status = main(["consume", "orders", "--from", "earliest", "--no-follow"])
    finally:
        thaw(two, 0)
    out, err = capfd.readouterr()
    assert (status, out) == (ExitStatus.UNREACHABLE, "on broker-b\n"), err
    [warning] = err.splitlines()
    assert (
        "warning: a broker does not answer, and the result lacks it: broker broker-a at" in warning
    )


def test_leaving_out_the_last_broker_fails_the_command(capfd):
    now = datetime.now(UTC)
    brokers = [
        LiveBroker("c", name, 0, "127.0.0.1:1", "", now, 1) for name in ("broker-a", "broker-b")
    ]
    answers = PartialAnswers(brokers)
    first, second = DeadlinePassed("a"), DeadlinePassed("b", outcome_unknown=True)

    answers.leave_out("broker-a", first)
    with pytest.raises(DeadlinePassed) as caught:
        answers.leave_out("broker-b", second)

    assert caught.value is second
    assert not second.outcome_unknown
    assert answers.unanswered == ["broker-a", "broker-b"]
    assert capfd.readouterr().err.count("the result lacks it") == 1
