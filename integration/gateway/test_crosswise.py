"""Official clients and our own SDK: each sends, and each receives what all of them sent."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import pytest
from actors import started
from official import BUILD_S_MAX, NEWEST, OFFICIAL
from stage import (
    PATIENCE_S,
    Actor,
    as_received,
    check_received,
    hear,
    message,
    receive,
    side_by_side,
    text,
)

from ariane_sdk.sync import DeadLetters

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EACH = range(4)
"""Messages of a client in one message group."""

Sent = list[dict[str, Any]]


def send(actor: Actor, topic: str, messages: list[dict[str, Any]]) -> Sent:
    """Send one after the other; returns what is to come of each."""
    receipts = actor.ask("send", topic=topic, messages=messages)
    pairs = zip(messages, receipts, strict=True)
    return [as_received(sent, receipt["id"]) for sent, receipt in pairs]


def joined(sent: dict[str, Sent]) -> Sent:
    return [each for own in sent.values() for each in own]


@pytest.mark.timeout(BUILD_S_MAX + 60)
@pytest.mark.parametrize("name", NEWEST)
def test_the_driver_of_a_client_can_be_had_here(name):
    client = OFFICIAL[name]
    if client.missing:
        pytest.skip(f"{client.missing} is not on this machine")
    assert client.made().is_dir()


def test_everything_of_a_message_arrives_as_it_was_sent(stage, cast):
    topic = stage.topic("normal")

    def sending(actor: Actor) -> Sent:
        bodies = ["plain", "naïve Ångström 雪 🦆", bytes(range(256)), b"0123456789abcdef" * 20_000]
        messages = [message(topic, body) for body in bodies]
        messages[1] |= {"tag": "created", "keys": ["o-1", "o-2"]}
        messages[1]["properties"] = {"customer": "Zoë", "from": actor.name}
        return send(actor, topic, messages)

    sent = joined(side_by_side("send", cast, sending))

    def receiving(actor: Actor) -> None:
        came = receive(actor, len(sent), topic=topic, group=f"normal-{actor.name}")
        check_received(actor, came, sent)
        assert {each["attempt"] for each in came} == {1}

    side_by_side("receive", cast, receiving)


def test_a_hundred_messages_over_several_queues_arrive_once(stage, cast):
    topic = stage.topic("many", queues=4)

    def sending(actor: Actor) -> Sent:
        return send(actor, topic, [message(topic, f"{actor.name} {n}") for n in range(100)])

    sent = joined(side_by_side("send", cast, sending))

    def receiving(actor: Actor) -> None:
        group = f"many-{actor.name}"
        check_received(actor, receive(actor, len(sent), topic=topic, group=group), sent)
        assert actor.ask("receive", topic=topic, group=group) == []

    side_by_side("receive", cast, receiving)


def test_filters_by_tag_and_by_sql(stage, cast):
    topic = stage.topic("filtered")
    rows = [("paid", 150), ("created", 50), ("sent", 1000), ("", 500)]

    def sending(actor: Actor) -> Sent:
        return send(
            actor,
            topic,
            [
                message(topic, f"{actor.name} {tag}", tag=tag, properties={"amount": str(amount)})
                for tag, amount in rows
            ],
        )

    sent = joined(side_by_side("send", cast, sending))
    by_tag = [each for each in sent if each["tag"] in {"paid", "sent"}]
    by_sql = [each for each in sent if int(each["properties"]["amount"]) > 100]

    def receiving(actor: Actor) -> None:
        asked = {"topic": topic, "group": f"tagged-{actor.name}", "tags": "paid || sent"}
        check_received(actor, receive(actor, len(by_tag), **asked), by_tag)
        asked = {"topic": topic, "group": f"sql-{actor.name}", "sql": "amount > 100"}
        check_received(actor, receive(actor, len(by_sql), **asked), by_sql)

    side_by_side("receive", cast, receiving)


def test_messages_of_a_group_arrive_in_order(stage, cast):
    topic = stage.topic("ordered", fifo=True)

    def sending(actor: Actor) -> Sent:
        said = [message(topic, f"{actor.name} {n}", group=f"table-{actor.name}") for n in EACH]
        return send(actor, topic, said)

    sent = joined(side_by_side("send", cast, sending))

    def receiving(actor: Actor) -> None:
        group = stage.group(f"ordered-{actor.name}", in_order=True)
        came = receive(actor, len(sent), topic=topic, group=group)
        check_received(actor, came, sent)
        check_order(cast, came)

    side_by_side("receive", cast, receiving)


def test_listeners_hear_messages_of_a_group_in_order_whoever_sent_them(stage, cast):
    topic = stage.topic("ordered-heard", fifo=True)
    listeners = [actor for actor in cast if actor.can("push")]

    def sending(actor: Actor) -> Sent:
        # Clients have different ideas of where a message group goes.
        said = [message(topic, f"{actor.name} {n}", group="table-7") for n in EACH]
        return send(actor, topic, said)

    sent = joined(side_by_side("send", cast, sending))

    def listening(actor: Actor) -> None:
        group = stage.group(f"ordered-heard-{actor.name}", in_order=True)
        actor.ask("listen", topic=topic, group=group)
        heard = hear(actor, group, lambda heard: len(heard) >= len(sent))
        actor.ask("leave", group=group)
        check_received(actor, heard, sent)
        check_order(cast, heard)

    side_by_side("listen", listeners, listening)


def check_order(cast: list[Actor], came: Sent) -> None:
    """Fail unless the messages of each sender came in its order."""
    numbers = defaultdict(list)
    for each in came:
        name, number = text(each).split()
        numbers[name].append(int(number))
    assert numbers == {actor.name: list(EACH) for actor in cast}


def test_delayed_messages_come_when_they_are_due(stage, cast):
    topic = stage.topic("delayed")

    def sending(actor: Actor) -> tuple[float, Sent]:
        # The client adds the delay later than this.
        due_ms = time.time() * 1000 + 6000
        return due_ms, send(actor, topic, [message(topic, actor.name, deliver_in_ms=6000)])

    played = side_by_side("send", cast, sending)
    due_ms = {name: due for name, (due, _) in played.items()}
    sent = [each for _, own in played.values() for each in own]

    def receiving(actor: Actor) -> None:
        came = receive(actor, len(sent), topic=topic, group=f"delayed-{actor.name}")
        check_received(actor, came, sent)
        # A due time has whole milliseconds.
        early = {text(each): each["at_ms"] - due_ms[text(each)] for each in came}
        assert all(late_ms > -1 for late_ms in early.values()), early

    side_by_side("receive", cast, receiving)


def test_a_recalled_message_is_never_delivered(stage, cast):
    topic = stage.topic("recalled")
    able = [actor for actor in cast if actor.can("recall")]

    def sending(actor: Actor) -> Sent:
        back = message(topic, f"{actor.name} back", deliver_in_ms=8000)
        [receipt] = actor.ask("send", topic=topic, messages=[back])
        assert receipt["recall"]
        actor.ask("recall", topic=topic, recall=receipt["recall"])
        # What was taken back would have been due before this one.
        return send(actor, topic, [message(topic, f"{actor.name} late", deliver_in_ms=10_000)])

    sent = joined(side_by_side("send and recall", able, sending))

    def receiving(actor: Actor) -> None:
        asked = {"topic": topic, "group": f"recalled-{actor.name}"}
        check_received(actor, receive(actor, len(sent), **asked), sent)
        assert actor.ask("receive", **asked) == []

    side_by_side("receive", cast, receiving)


def test_messages_with_a_priority_arrive(stage, cast):
    topic = stage.topic("priorities", queues=1)
    able = [actor for actor in cast if actor.can("priority")]

    def sending(actor: Actor) -> Sent:
        bodies = range(1, 4)
        return send(actor, topic, [message(topic, f"{actor.name} {n}", priority=n) for n in bodies])

    sent = joined(side_by_side("send", able, sending))

    def receiving(actor: Actor) -> None:
        came = receive(actor, len(sent), topic=topic, group=f"priorities-{actor.name}")
        check_received(actor, came, sent)

    side_by_side("receive", cast, receiving)


def test_transactions_commit_roll_back_and_are_asked_about(stage, cast):
    topic = {actor.name: stage.topic(f"asked-about-{actor.name}") for actor in cast}
    common = stage.topic("transactions")

    def sending(actor: Actor) -> Sent:
        said = [message(common, f"{actor.name} {word}") for word in ("commits", "rolls back")]
        began = [actor.ask("begin", topic=common, group=common, messages=[each]) for each in said]
        actor.ask("commit", topic=common, numbers=[began[0]["number"]])
        actor.ask("rollback", topic=common, numbers=[began[1]["number"]])
        return [as_received(said[0], began[0]["id"])]

    sent = joined(side_by_side("commit and roll back", cast, sending))

    def receiving(actor: Actor) -> None:
        asked = {"topic": common, "group": f"transactions-{actor.name}"}
        check_received(actor, receive(actor, len(sent), **asked), sent)
        assert actor.ask("receive", **asked) == []

    side_by_side("receive", cast, receiving)

    def asked_about(actor: Actor) -> None:
        own = topic[actor.name]
        actor.ask("transactions", topic=own, answer="commit")
        forgotten = message(own, "forgotten", keys=["k"], properties={"a": "1"})
        began = actor.ask("begin", topic=own, group=own, messages=[forgotten])
        asked = {"topic": own, "group": own}
        check_received(actor, receive(actor, 1, **asked), [as_received(forgotten, began["id"])])
        said = actor.ask("checked", topic=own)
        assert {"id": began["id"], "body": forgotten["body"]} in said, said

    side_by_side("are asked", cast, asked_about)


def test_a_message_that_is_not_settled_in_time_is_redelivered(stage, cast):
    topic = stage.topic("again")
    sent = joined(
        side_by_side("send", cast[:1], lambda each: send(each, topic, [message(topic, "slow")]))
    )

    def receiving(actor: Actor) -> None:
        asked = {"topic": topic, "group": f"again-{actor.name}", "invisible_ms": 10_000}
        [first] = receive(actor, 1, ack=False, **asked)
        [second] = receive(actor, 1, **asked)
        assert (first["attempt"], second["attempt"]) == (1, 2)
        assert second["at_ms"] - first["at_ms"] > 9000
        check_received(actor, [second], sent)

    side_by_side("receive", cast, receiving)


def test_a_longer_time_to_settle_can_be_asked_for(stage, cast):
    topic = stage.topic("longer")
    able = [actor for actor in cast if actor.can("extend")]
    side_by_side("send", cast[:1], lambda each: send(each, topic, [message(topic, "slow")]))

    def receiving(actor: Actor) -> None:
        asked = {"topic": topic, "group": f"longer-{actor.name}", "invisible_ms": 20_000}
        [first] = receive(actor, 1, ack=False, **asked)
        held = {"topic": topic, "group": asked["group"], "numbers": [first["number"]]}
        actor.ask("extend", invisible_ms=60_000, **held)
        end = time.monotonic() + 22
        while time.monotonic() < end:
            assert actor.ask("receive", **asked) == []
        actor.ask("ack", **held)

    side_by_side("receive", able, receiving)


def test_listeners_hear_everything_once(stage, cast):
    topic = stage.topic("heard", queues=4)
    listeners = [actor for actor in cast if actor.can("push")]

    def listening(actor: Actor) -> None:
        actor.ask("listen", topic=topic, group=f"heard-{actor.name}")

    side_by_side("listen", listeners, listening)

    def sending(actor: Actor) -> Sent:
        return send(actor, topic, [message(topic, f"{actor.name} {n}") for n in range(20)])

    sent = joined(side_by_side("send", cast, sending))

    def hearing(actor: Actor) -> None:
        group = f"heard-{actor.name}"
        heard = hear(actor, group, lambda heard: len(heard) >= len(sent))
        check_received(actor, heard, sent)
        assert {each["attempt"] for each in heard} == {1}
        actor.ask("leave", group=group)

    side_by_side("hear", listeners, hearing)


def test_a_message_that_the_listener_fails_on_is_redelivered_and_ends_as_a_dead_letter(stage, cast):
    topic = stage.topic("failing")
    listeners = [actor for actor in cast if actor.can("push")]
    [sent] = joined(
        side_by_side("send", cast[:1], lambda each: send(each, topic, [message(topic, "bad")]))
    )

    def failing(actor: Actor) -> str:
        group = stage.group(f"failing-{actor.name}", retries=2, delay_s=1)
        actor.ask("listen", topic=topic, group=group, fail=1)
        heard = hear(actor, group, lambda heard: len(heard) >= 2)
        assert [each["attempt"] for each in heard] == [1, 2]
        actor.ask("leave", group=group)
        dead = stage.group(f"dead-{actor.name}", retries=1, delay_s=1)
        actor.ask("listen", topic=topic, group=dead, fail=100)
        heard = hear(actor, dead, lambda heard: len(heard) >= 2)
        assert [each["attempt"] for each in heard] == [1, 2]
        wait_for_dead_letters(stage, dead, {sent["id"]})
        assert actor.ask("heard", group=dead) == []
        actor.ask("leave", group=dead)

    side_by_side("fail", listeners, failing)


def test_a_group_in_order_goes_on_after_a_dead_letter(stage, cast):
    topic = stage.topic("ordered-failing", queues=1, fifo=True)
    listeners = [actor for actor in cast if actor.can("push") and actor.name != "ariane"]
    messages = [message(topic, str(n), group="table-7") for n in range(3)]
    sent = joined(side_by_side("send", cast[:1], lambda each: send(each, topic, messages)))

    def failing(actor: Actor) -> None:
        group = stage.group(f"ordered-dead-{actor.name}", in_order=True, retries=1, delay_s=1)
        actor.ask("listen", topic=topic, group=group, fail=100)
        wait_for_dead_letters(stage, group, {each["id"] for each in sent})
        heard = hear(actor, group, lambda heard: len(heard) >= len(sent))
        actor.ask("leave", group=group)
        numbers = [int(text(each)) for each in heard]
        assert numbers == sorted(numbers), numbers
        assert set(numbers) == {0, 1, 2}

    side_by_side("fail in order", listeners, failing)


@pytest.mark.parametrize("name", ["java", "go"])
def test_clients_that_speak_tls_unless_told_otherwise(name, stage, gateway, tmp_path):
    own = started(name, gateway, stage, tmp_path, tls=True)
    try:
        topic = stage.topic(f"tls-{name}")
        sent = send(own, topic, [message(topic, "secret")])
        check_received(own, receive(own, 1, topic=topic, group=topic), sent)
    finally:
        own.program.end()


@pytest.mark.parametrize("name", [name for name in OFFICIAL if name not in NEWEST])
def test_older_versions_send_receive_listen_and_commit(name, stage, actor):
    own = actor(name)
    label = name.replace(".", "-")
    topic = stage.topic(f"older-{label}")
    said = message(topic, "plain", tag="created", keys=["o-1"], properties={"a": "1"})
    sent = send(own, topic, [said])
    committed = message(topic, "committed")
    began = own.ask("begin", topic=topic, messages=[committed])
    own.ask("commit", topic=topic, numbers=[began["number"]])
    sent.append(as_received(committed, began["id"]))
    came = receive(own, 2, topic=topic, group=f"older-simple-{label}")
    check_received(own, came, sent)
    if not own.can("push"):
        return
    group = f"older-push-{label}"
    own.ask("listen", topic=topic, group=group)
    check_received(own, hear(own, group, lambda heard: len(heard) >= 2), sent)
    own.ask("leave", group=group)


def wait_for_dead_letters(stage: Any, group: str, wanted: set[str]) -> None:
    """Wait until exactly these are dead letters of a group."""
    end = time.monotonic() + PATIENCE_S
    with DeadLetters(stage.cluster.name_servers.split(",")) as letters:
        while (found := {each.message.unique_id for each in letters.read(group)}) != wanted:
            assert time.monotonic() < end, (found, wanted)
            time.sleep(0.5)
