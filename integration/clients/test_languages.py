"""Each language sends, each other receives, byte for byte, on one real cluster."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest
from languages import COMMANDS, JAVA_CLASSES, Refused, Worker, missing

from ariane.broker.v1.client_service_pb2_grpc import ClientServiceStub
from ariane.broker.v1.topic_producer_pb2 import ListProducersRequest
from ariane_record import SystemFlag
from ariane_record.layout import COMPRESSION_TYPE_MASK
from ariane_sdk import Compression, MessageQueue
from ariane_sdk.sync import DeadLetters, QueueReader
from ariane_testkit.closed_clusters import open_blocking_channel
from tools import clients
from tools.papers import Paper

HERE = Path(__file__).parent
SCENARIOS = tomllib.loads((HERE / "scenarios.toml").read_text())["scenario"]
LANGUAGES = tuple(COMMANDS)
PATIENCE_S = 120.0
COLD_SENDS = {"go": 10_000, "java": 10_000, "typescript": 10_000}
PLAYS_MAX = 40
"""Plays at a time: most of their time they wait."""
Played = tuple[str, Future[None]]
COMPRESSION_BITS = int(SystemFlag.COMPRESSED) | COMPRESSION_TYPE_MASK
VERBS = {
    *("send", "receive", "nothing", "recall", "begin", "commit", "rollback", "checked", "dead"),
    *("refused", "extend_ms", "ack_kept", "stored"),
}


class Play:
    """One scenario between a sender and a receiver, over a topic of their own."""

    def __init__(
        self, scenario: dict[str, Any], sender: Worker, receiver: Worker, reader: QueueReader
    ) -> None:
        label = f"{scenario['name']} {sender.language} {receiver.language}"
        self.scenario = scenario
        self.sender = sender
        self.receiver = receiver
        self.reader = reader
        self.topic = "s-" + hashlib.sha256(label.encode()).hexdigest()[:12]
        self.more = {self.topic + end: tags for end, tags in scenario.get("more", {}).items()}
        self.messages = [self._message(each) for each in scenario["messages"]]
        self.due_at: dict[int, float] = {}
        self.places: dict[int, tuple[MessageQueue, int]] = {}
        self.receipts: dict[int, int] = {}
        self.transactions: dict[int, dict[str, Any]] = {}
        self.kept: list[int] = []
        self.attempt = 0

    def _message(self, said: dict[str, Any]) -> dict[str, Any]:
        body = bytes.fromhex(said.get("bytes", "")) or said.get("body", "").encode()
        if size := said.get("random"):
            body = Random(size).randbytes(size)
        if size := said.get("size"):
            body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
        return {
            "topic": said.get("topic", self.topic + said.get("in", "")),
            "body": base64.b64encode(body).decode(),
            "tag": said.get("tag", ""),
            "keys": said.get("keys", []),
            "group": said.get("group", ""),
            "properties": said.get("properties", {}),
            "priority": said.get("priority", 0),
            "id": "",
            **({"deliver_in_ms": said["deliver_in_ms"]} if "deliver_in_ms" in said else {}),
        }

    def perform(self, letters: DeadLetters) -> None:
        """Play the scenario to its end."""
        for number, step in enumerate(self.scenario["steps"]):
            try:
                self.step(step, letters)
            except (AssertionError, Refused) as error:
                error.add_note(f"{self.scenario['name']}: step {number + 1}, {step}")
                raise

    def step(self, said: dict[str, Any], letters: DeadLetters) -> None:
        if "refused" in said:
            words = {word: value for word, value in said.items() if word != "refused"}
            with pytest.raises(Refused) as refused:
                self.step(words, letters)
            assert refused.value.reason == said["refused"]
            assert not refused.value.outcome_unknown
            return
        [verb] = VERBS & set(said)
        if verb == "dead":
            self.dead(said["dead"], letters)
        else:
            getattr(self, verb)(said[verb], said)

    def send(self, numbers: list[int], said: dict[str, Any]) -> None:
        # The client adds the delay later than this, so that no message is due sooner.
        asked_at = time.time()
        receipts = self.sender.ask(
            "send",
            messages=[self.messages[each] for each in numbers],
            compression=self.scenario.get("compression", ""),
        )
        assert len({receipt["id"] for receipt in receipts}) == len(numbers)
        for number, receipt in zip(numbers, receipts, strict=True):
            self.due_at[number] = asked_at + self.messages[number].get("deliver_in_ms", 0) / 1000
            self.messages[number] |= {"id": receipt["id"]}
            self.receipts[number] = receipt["number"]
            topic = self.messages[number]["topic"]
            queue = MessageQueue(topic, receipt["broker"], receipt["queue_id"])
            self.places[number] = queue, receipt["offset"]
        if said.get("one_queue"):
            assert len({queue for queue, _ in self.places.values()}) == 1

    def stored(self, numbers: list[int], said: dict[str, Any]) -> None:
        wanted = Compression(said["as"] or "none").system_flag
        for number in numbers:
            queue, offset = self.places[number]
            [found] = self.reader.read_range(queue, offset, offset + 1)
            assert [int(flag) & COMPRESSION_BITS for flag in found.system_flag] == [wanted]

    def recall(self, number: int, _: dict[str, Any]) -> None:
        numbers = [self.receipts[number]]
        assert (
            self.sender.ask("recall", topic=self.topic, numbers=numbers)
            == (self.messages[number]["id"])
        )

    def begin(self, number: int, said: dict[str, Any]) -> None:
        answer = said.get("answer", "unknown")
        self.sender.ask(
            "transactions",
            group=self.topic,
            topic=self.topic,
            answer=answer,
            compression=self.scenario.get("compression", ""),
        )
        began = self.sender.ask("begin", group=self.topic, messages=[self.messages[number]])
        self.transactions[number] = began
        self.messages[number] |= {"id": began["id"]}

    def commit(self, number: int, _: dict[str, Any]) -> None:
        self.sender.ask("commit", numbers=[self.transactions[number]["number"]])

    def rollback(self, number: int, _: dict[str, Any]) -> None:
        self.sender.ask("rollback", numbers=[self.transactions[number]["number"]])

    def checked(self, numbers: list[int], _: dict[str, Any]) -> None:
        wanted = {self.messages[number]["id"]: self.messages[number]["body"] for number in numbers}
        end = time.monotonic() + PATIENCE_S
        while not wanted.items() <= (said := self._asked_about()).items():
            assert time.monotonic() < end, said
            time.sleep(0.05)

    def receive(self, numbers: list[int], said: dict[str, Any]) -> None:
        came: list[dict[str, Any]] = []
        end = time.monotonic() + PATIENCE_S
        while len(came) < len(numbers):
            assert time.monotonic() < end, f"{len(came)} of {len(numbers)} have come"
            came += self._ask_receive(2000)
        # A due time has whole milliseconds.
        assert all(time.time() > self.due_at.get(number, 0.0) - 0.001 for number in numbers)
        handles = [each.pop("number") for each in came]
        attempts = [each.pop("attempt") for each in came]
        expected = [self._as_received(number) for number in numbers]
        if not said.get("in_order"):
            came.sort(key=lambda each: each["id"])
            expected.sort(key=lambda each: each["id"])
        assert came == expected
        if "attempt" in said:
            assert set(attempts) == {said["attempt"]}
        if said.get("again"):
            assert min(attempts) > self.attempt
        self.attempt = max(attempts)
        match said.get("then", "ack"):
            case "ack":
                self.receiver.ask("ack", numbers=handles)
            case "nack":
                self.receiver.ask("nack", numbers=handles)
            case "dead":
                self.receiver.ask("nack", numbers=handles, dead_letter=True)
            case "keep":
                self.kept = handles

    def nothing(self, wait_ms: int, _: dict[str, Any]) -> None:
        assert self._ask_receive(wait_ms) == []

    def extend_ms(self, duration_ms: int, _: dict[str, Any]) -> None:
        self.receiver.ask("extend", numbers=self.kept, invisible_ms=duration_ms)

    def ack_kept(self, _: bool, __: dict[str, Any]) -> None:
        self.receiver.ask("ack", numbers=self.kept)

    def dead(self, numbers: list[int], letters: DeadLetters) -> None:
        end = time.monotonic() + PATIENCE_S
        wanted = {self.messages[number]["id"] for number in numbers}
        while {each.message.unique_id for each in letters.read(self.topic)} != wanted:
            assert time.monotonic() < end
            time.sleep(0.2)

    def _asked_about(self) -> dict[str, str]:
        return {each["id"]: each["body"] for each in self.sender.ask("checked")}

    def _ask_receive(self, wait_ms: int) -> list[dict[str, Any]]:
        return self.receiver.ask(
            "receive",
            topic=self.topic,
            group=self.topic,
            tags=self.scenario.get("tags", ""),
            sql=self.scenario.get("sql", ""),
            more=self.more,
            by_priority=self.scenario.get("by_priority", False),
            max=self.scenario.get("max", 32),
            invisible_ms=self.scenario.get("invisible_ms", 60_000),
            wait_ms=wait_ms,
        )

    def _as_received(self, number: int) -> dict[str, Any]:
        return {
            word: value for word, value in self.messages[number].items() if word != "deliver_in_ms"
        }


def test_scenarios_use_known_verbs_and_every_verb_is_used():
    used = set()
    for scenario in SCENARIOS:
        for step in scenario["steps"]:
            verbs = VERBS & set(step)
            used |= verbs
            assert len(verbs - {"refused"}) == 1, step
    assert used == VERBS
    assert len({scenario["name"] for scenario in SCENARIOS}) == len(SCENARIOS) > 12


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", ["go", "java", "typescript"])
def test_an_address_that_is_none_is_refused_before_any_call(language, worker):
    worker(language)  # Built, or skipped.
    with Worker(language) as own:
        for wrong in ("nonsense", "127.0.0.1:99999", "127.0.0.1:0", ":9876", "", "::1:9876"):
            with pytest.raises(Refused, match="host:port"):
                own.ask("connect", name_servers=[wrong])
        own.ask("connect", name_servers=["[::1]:9876", "queue.example:65535"])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_times_that_are_none_do_not_end_a_program_of_node(worker):
    worker("typescript")  # Built, or skipped.
    script = """
        import { Client, Consumer, Producer } from "./dist/src/index.js";
        process.on("uncaughtException", (error) => console.log("uncaught", error.message));
        const client = new Client(["127.0.0.1:1"]);
        const consumer = new Consumer(client, { group: "g", topic: "t" });
        const message = { topic: "t", body: Buffer.from("x") };
        for (const ms of [NaN, Infinity, -1]) {
          for (const call of [
            () => new Client(["127.0.0.1:1"], { tryTimeoutMs: ms }),
            () => new Producer(client).send(message, { timeoutMs: ms }),
            () => consumer.receive(ms),
            () => new Consumer(client, { group: "g", topic: "t", invisibleMs: ms }),
            () => new Producer(client).send({ ...message, deliverAt: new Date(NaN) }),
            () => new Consumer(client, { group: "g", topic: "t", maxMessages: 1.5 }),
          ]) {
            try {
              await call();
              console.log("taken", String(call));
            } catch (error) {
              console.log(error.name);
            }
          }
        }
        client.close();
    """
    done = subprocess.run(
        ("node", "--input-type=module", "-e", script),
        cwd=clients.SDK / "typescript",
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.stdout.split() == ["RangeError"] * 18, done.stdout + done.stderr


@pytest.fixture(scope="session")
def plays(request, worker, topics, letters, reader) -> Iterator[Callable[[str, str], list[Played]]]:
    """The plays of a pair. Those of all pairs begin at once: they wait more than they work."""
    pairs = [
        tuple(item.callspec.params[word] for word in ("sending", "receiving"))
        for item in request.session.items
        if item.originalname == test_each_sends_and_each_other_receives.__name__
    ]
    here = {language for pair in pairs for language in pair if not missing(language)}
    with ThreadPoolExecutor() as builds:
        workers = dict(zip(here, builds.map(worker, here), strict=True))

    def play(scenario: dict[str, Any], sending: str, receiving: str) -> None:
        each = Play(scenario, workers[sending], workers[receiving], reader)
        for topic in (each.topic, *each.more):
            topics.create_topic(topic, queue_count=2)
        each.perform(letters)

    with ThreadPoolExecutor(PLAYS_MAX) as pool:
        started = {
            pair: [(each["name"], pool.submit(play, each, *pair)) for each in SCENARIOS]
            for pair in pairs
            if here.issuperset(pair)
        }
        yield lambda *pair: started[pair]
        pool.shutdown(cancel_futures=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("receiving", LANGUAGES)
@pytest.mark.parametrize("sending", LANGUAGES)
def test_each_sends_and_each_other_receives(sending, receiving, plays):
    for language in (sending, receiving):
        if lacks := missing(language):
            pytest.skip(f"{lacks} is not on this machine")
    failures = [
        (name, error) for name, play in plays(sending, receiving) if (error := play.exception())
    ]
    if failures:
        raise ExceptionGroup(f"from {sending} to {receiving}", [error for _, error in failures])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", COLD_SENDS)
def test_messages_are_found_by_key_and_id_whoever_has_packed_them(language, worker, topics, reader):
    topic = f"found-{language}"
    topics.create_topic(topic, queue_count=1)
    messages = [
        {
            **dict.fromkeys(("tag", "group", "id"), ""),
            "topic": topic,
            "body": base64.b64encode(key.encode()).decode(),
            "keys": [key, "both"],
            "properties": {"color": "rød"},
        }
        for key in ("first", "second")
    ]
    receipts = worker(language).ask("send", messages=messages)
    for wanted, words in (
        ([b"first"], {"key": "first"}),
        ([b"second"], {"unique_id": receipts[1]["id"]}),
        ([b"first", b"second"], {"key": "both"}),
    ):
        found = reader.query_messages(topic, **words)
        assert sorted(each.body for each in found) == wanted, words


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", COLD_SENDS)
def test_producers_are_listed_by_id_and_group(language, worker, topics):
    topic = f"told-{language}"
    topics.create_topic(topic, queue_count=1)
    message = {"topic": topic, "body": "", "keys": [], "properties": {}}
    message |= dict.fromkeys(("tag", "group", "id"), "")
    worker(language).ask("send", messages=[message])
    with ExitStack() as stack:
        addresses = topics.route(topic).primary_addresses.values()
        stubs = [
            ClientServiceStub(stack.enter_context(open_blocking_channel(at))) for at in addresses
        ]
        answers = [stub.ListProducers(ListProducersRequest(topic=topic)) for stub in stubs]
    [told] = [each for answer in answers for each in answer.producers]
    assert (told.agent.split("/")[0], told.producer_group) == (f"ariane-{language}", "conformance")
    assert told.client_id.count("@") == 2


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", COLD_SENDS)
def test_thousands_of_cold_sends_at_once_are_all_stored_once(
    language, worker, cluster, topics, reader
):
    worker(language)  # Built, or skipped.
    topic, count = f"cold-{language}", COLD_SENDS[language]
    topics.create_topic(topic, queue_count=2)
    message = {
        **dict.fromkeys(("body", "tag", "group", "id"), ""),
        "topic": topic,
        "keys": [],
        "properties": {},
    }
    with Worker(language) as own:
        own.ask("connect", name_servers=cluster.name_servers.split(","))
        own.ask("pump", messages=[message], count=count, in_flight=count)
    bounds = reader.bounds(topic).values()
    assert sum(end - first for first, end in bounds) == count


QUICK_STARTS = {
    "go": (clients.GO / "bin" / "_quick" / "main.go", ["go", "run", "./bin/_quick/main.go"]),
    "java": (
        clients.JAVA / "target" / "First.java",
        ["java", "-cp", ":".join(map(str, JAVA_CLASSES)), "target/First.java"],
    ),
    "typescript": (clients.TYPESCRIPT / "dist" / "first.mjs", ["node", "dist/first.mjs"]),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("language", QUICK_STARTS)
def test_the_programs_of_the_readme_run(language, worker, topics, cluster):
    worker(language)  # It is built then.
    path, command = QUICK_STARTS[language]
    paper = Paper(clients.ROOT, f"sdk/{language}/README.md")
    here = {
        "127.0.0.1:9876": cluster.name_servers.split(",")[0],
        "127.0.0.1:9881": cluster.admins[0].address,
        '"orders"': f'"quick-orders-{language}"',
        '"questions"': f'"quick-questions-{language}"',
    }
    words = re.compile("|".join(map(re.escape, here)))
    [first, second] = paper.blocks({"typescript": "ts"}.get(language, language))
    topics.create_topic(f"quick-orders-{language}", queue_count=2)  # The other makes its own.
    path.parent.mkdir(parents=True, exist_ok=True)
    for program, printed in (
        (first, "table-7 wants one espresso"),
        (second, "the answer: olleh"),
    ):
        path.write_text(words.sub(lambda found: here[found[0]], program))
        done = subprocess.run(
            command, cwd=clients.SDK / language, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert printed in done.stdout
