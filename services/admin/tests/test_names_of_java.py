"""Topics and groups whose names a Java broker's store brought along, for operators."""

import asyncio
from urllib.parse import quote

from ariane_sdk import Message, Producer, PushConsumer
from ariane_sdk.errors import MessagesFailed
from ariane_testkit.java_names import JAVA_GROUP, JAVA_TOPIC

HEIR = "adm%heir|two"


async def send(cluster, *bodies):
    async with Producer(cluster.name_servers) as producer:
        return [(await producer.send(Message(JAVA_TOPIC, body))).message_id for body in bodies]


async def consume_in_order(cluster, count):
    """Consume under queue locks, so that offsets of the group are stored."""
    bodies, done = [], asyncio.Event()

    async def listen(messages):
        bodies.extend(message.body for message in messages)
        if len(bodies) >= count:
            done.set()

    consumer = PushConsumer(
        cluster.name_servers,
        group=JAVA_GROUP,
        subscriptions={JAVA_TOPIC: "*"},
        listener=listen,
        ordered=True,
        start="earliest",
    )
    async with consumer, asyncio.timeout(60):
        await done.wait()
    return bodies


async def reject_one(cluster):
    """Make a dead letter."""
    done = asyncio.Event()

    async def refuse(messages):
        done.set()
        raise MessagesFailed(messages, "no such order", rejected=True)

    consumer = PushConsumer(
        cluster.name_servers,
        group=JAVA_GROUP,
        subscriptions={JAVA_TOPIC: "*"},
        listener=refuse,
        start="earliest",
    )
    async with consumer, asyncio.timeout(60):
        await done.wait()


def test_commands_work_on_names_of_java(cluster, ariane, ariane_json):
    first, *_ = cluster.call_blocking(lambda: send(cluster, b"cup", b"teapot"))
    consumed = cluster.call_blocking(lambda: consume_in_order(cluster, 2))
    assert consumed[-2:] == [b"cup", b"teapot"]
    assert JAVA_TOPIC in ariane("topic", "list")
    assert ariane_json("topic", "show", JAVA_TOPIC)[0]["broker"] == "broker-a"
    assert "teapot" in ariane("topic", "tail", JAVA_TOPIC, "--no-follow")
    assert "cup" in ariane("message", "show", first, "--topic", JAVA_TOPIC)
    assert JAVA_TOPIC in ariane("group", "show", JAVA_GROUP)
    ariane("group", "pause", JAVA_GROUP, "--yes")
    ariane("group", "resume", JAVA_GROUP)
    ariane("group", "retry", JAVA_GROUP, "--attempts", "3")
    ariane("group", "reset", JAVA_GROUP, JAVA_TOPIC, "--to", "earliest", "--yes")
    ariane("group", "clone", JAVA_GROUP, HEIR, JAVA_TOPIC, "--yes")
    ariane("group", "clone", HEIR, JAVA_GROUP, JAVA_TOPIC, "--yes")
    ariane("topic", "update", JAVA_TOPIC, "--queues", "2", "--yes")
    ariane("topic", "purge", JAVA_TOPIC, "--yes")
    ariane("group", "forget", JAVA_GROUP, JAVA_TOPIC, "--yes")
    cluster.call_blocking(lambda: send(cluster, b"broken"))
    cluster.call_blocking(lambda: reject_one(cluster))
    assert "broken" in ariane("dead-letter", "list", JAVA_GROUP)
    ariane("dead-letter", "redrive", JAVA_GROUP, "--yes")
    ariane("topic", "create", "adm%new|one")
    ariane("topic", "delete", "adm%new|one", "--yes")
    ariane("group", "delete", HEIR, "--yes")
    assert HEIR not in ariane("group", "list")


async def test_pages_show_names_of_java(cluster, browser):
    (message_id,) = await send(cluster, b"saucer")
    topic, group = quote(JAVA_TOPIC, safe=""), quote(JAVA_GROUP, safe="")
    assert f'href="/topics/{topic}"' in (await browser.get("/topics")).text
    assert f'href="/groups/{group}"' in (await browser.get("/groups")).text
    shown = await browser.get(f"/topics/{topic}")
    assert JAVA_TOPIC in shown.text
    assert (await browser.get(f"/groups/{group}")).status_code == 200
    found = await browser.get("/messages", params={"topic": JAVA_TOPIC})
    assert f'href="/messages/{topic}/{message_id}"' in found.text
    assert "saucer" in (await browser.get(f"/messages/{topic}/{message_id}")).text
    assert (await browser.get("/dead-letters", params={"group": JAVA_GROUP})).status_code == 200
    paused = await browser.change("/groups/pause", group=JAVA_GROUP)
    assert paused.status_code == 200, paused.text
    again = await browser.change("/messages/send", topic=JAVA_TOPIC, again=message_id)
    assert "Sent: it lies at" in again.text
