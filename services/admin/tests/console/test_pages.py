"""The console over HTTP, as a browser without scripts has it."""

import asyncio
import json
import re
from contextlib import aclosing, suppress
from html import unescape

import httpx
import pytest
from grpc.aio import AioRpcError

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import group_service_pb2 as group_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1.group_service_pb2_grpc import GroupServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.broker.v1.client_question_pb2 import HOLD_REASON_FAILED_IN_ORDER
from ariane.broker.v1.group_service_pb2 import ConsumerGroup
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane.namesrv.v1.route_pb2 import TOPIC_PERMISSION_READ
from ariane_admin.console.app import PAGES
from ariane_admin.console.changing.changes import CHANGES
from ariane_admin.console.guard import HEADERS
from ariane_admin.console.pages.groups import holds_table
from ariane_admin.servicers.message import dead_letters
from ariane_sdk import (
    ClusterClient,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueReader,
    ReceiveConsumer,
)
from ariane_sdk.errors import MessagesFailed


@pytest.fixture
async def topic(cluster):
    async with ClusterClient(cluster.name_servers) as client, Producer(cluster.name_servers) as p:
        await client.create_topic("adm-seen", queue_count=1, exists_ok=True)
        body = b'{"order": 17, "note": "<script>alert(1)</script>"}'
        yield await p.send(Message("adm-seen", body, tag="t", keys=["k17"]))
        await client.delete_topic("adm-seen", missing_ok=True)


async def test_every_page_answers_closed_to_strangers(browser, topic):
    paths = {
        "/topics/{topic}": "/topics/adm-seen",
        "/groups/{group}": "/groups/nobody",
        "/client": "/client?id=nobody",
        "/messages/{topic}/{message_id}": f"/messages/adm-seen/{topic.message_id}",
        "/cluster/{broker}": "/cluster/broker-a",
        "/audit/{sequence:int}": "/audit/77777",
        "/filters/{name}/{version}": "/filters/none/0123456789ab",
    }
    statuses = {"/groups/nobody": 404, "/client?id=nobody": 404, "/audit/77777": 404}
    statuses["/filters/none/0123456789ab"] = {404, 503}  # Other tests start FilterServers.
    for pattern in PAGES:
        path = paths.get(pattern, pattern)
        page = await browser.get(path)
        wanted = statuses.get(path, 200)
        allowed = wanted if isinstance(wanted, set) else {wanted}
        assert page.status_code in allowed, (path, page.text)
        assert page.text.count("<main") == 1
        assert {page.headers[name] for name in HEADERS} == set(HEADERS.values())
    assert (await browser.get("/nowhere")).status_code == 404
    assert "color-scheme" in (await browser.get("/static/console.css")).text


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("/groups/nobody", "/groups"),
        ("/messages?topic=adm-none", "/messages"),
        ("/dead-letters?group=nobody", "/dead-letters"),
    ],
)
async def test_what_does_not_work_leads_back_to_its_section(browser, path, section):
    page = await browser.get(path)
    assert page.status_code == 404
    assert f'<a href="{section}" data-key="' in page.text
    heading = page.text.partition("<h1>")[2].partition("</h1>")[0]
    assert f'href="{section}"' in heading


async def test_processes_that_are_not_there_are_told_and_others_shown(browser):
    assert "knows no transaction checker" in (await browser.get("/transactions")).text
    page = await browser.get("/settings?service=txn-checker")
    assert page.status_code == 200
    assert "There is no txn-checker in this cluster." in page.text
    assert 'option value="broker"' in page.text
    gone = await browser.get("/client?id=nobody")
    assert "No client of this id is attached" in gone.text


async def test_a_body_is_decoded_and_never_becomes_a_script(browser, topic):
    page = await browser.get("/messages", params={"topic": "adm-seen", "key": "k17"})
    assert topic.message_id in page.text
    assert "<script>alert" not in page.text
    whole = await browser.get(f"/messages/adm-seen/{topic.message_id}")
    assert "&#34;order&#34;: 17,\n" in whole.text
    assert "<script>alert" not in whole.text
    raw = await browser.get(f"/messages/adm-seen/{topic.message_id}?body=hex")
    assert "7b 22 6f" in raw.text


async def test_a_change_asks_first_and_is_audited_with_the_browsers_address(browser, entries):
    first = await browser.post(
        "/topics/create", data={"csrf": await browser.token(), "topic": "adm-made", "queues": "2"}
    )
    assert "Create topic adm-made? Queues on each broker: 2." in first.text
    assert (await browser.get("/topics/adm-made")).status_code == 404
    done = await browser.post("/topics/create", data=browser.hidden(first), follow_redirects=True)
    assert "Topic adm-made is there." in done.text
    gone = await browser.change("/topics/delete", topic="adm-made")
    assert "Topic adm-made is gone." in gone.text
    created, deleted = await entries(resource_name="adm-made")
    assert created.source_address.startswith("127.0.0.1:")
    assert deleted.outcome == audit_pb.AUDIT_OUTCOME_DONE
    listed = await browser.get("/audit", params={"resource": "adm-made"})
    assert listed.text.count("TopicService") == 0
    assert listed.text.count("DeleteTopic") == 1
    shown = await browser.get(f"/audit/{deleted.begin_sequence}")
    assert "&#34;topic&#34;: &#34;adm-made&#34;" in shown.text


async def test_a_topics_own_retention_is_shown_and_changed(browser):
    made = await browser.change("/topics/create", topic="adm-kept", queues="1", retention="1d12h")
    assert "Topic adm-kept is there." in made.text
    assert "<span>1d12h</span>" in (await browser.get("/topics?prefix=adm-kept")).text
    assert "<span>1d12h</span>" in (await browser.get("/topics/adm-kept")).text
    for wrong, why in ("0.0004s", "has a part of a millisecond"), ("long", "is a length of time"):
        refused = await browser.change("/topics/update", topic="adm-kept", retention=wrong)
        assert why in refused.text
    assert "Retention, now 1d12h" in (await browser.get("/topics/adm-kept")).text
    await browser.change("/topics/update", topic="adm-kept", retention="0s")
    assert "Retention, now broker&#39;s" in (await browser.get("/topics/adm-kept")).text
    await browser.change("/topics/delete", topic="adm-kept")


async def test_limits_are_set_told_to_brokers_and_shown_with_what_is_used(
    browser, topic, cluster, entries
):
    name = "adm-seen"
    wanted = {"figure": "sent-bytes", "subject": "topic", "name": name, "limit": "1000000"}
    assert (
        "topic adm-seen may have 1,000,000 sent-bytes."
        in (await browser.change("/limits/set", **wanted)).text
    )
    page, used = "", []
    async with asyncio.timeout(120), Producer(cluster.name_servers) as producer:
        while not used:
            await producer.send(Message(name, b"x" * 1000))
            page = (await browser.get("/limits")).text
            used = _rows(page, "What is used")
    [row] = _rows(page, "What is set")
    assert row == ["sent-bytes", "topic", name, "1,000,000", "second", "each broker"]
    assert used[0][:3] == row[:3]
    assert used[0][3].startswith("broker-")
    assert used[0][5:7] == row[3:5]
    assert "Quotas" in (await browser.get(f"/cluster/{used[0][3]}")).text
    wanted.pop("limit")
    assert "is deleted." in (await browser.change("/limits/delete", **wanted)).text
    gone = await browser.change("/limits/delete", **wanted)
    assert (gone.status_code, "has no quota of sent-bytes" in gone.text) == (409, True)
    assert (await browser.change("/limits/set", **wanted, limit="much")).status_code == 400
    methods = [each.method.rpartition("/")[2] for each in await entries(resource_name=name)]
    assert methods == ["SetQuota", "DeleteQuota", "DeleteQuota"]


def _rows(page, title):
    """The texts of a table's rows."""
    table = page.partition(f"<h2>{title}</h2>")[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]+>", "", cell).strip() for cell in row] for row in cells]


async def test_a_strangers_form_changes_nothing(browser, entries):
    fields = {"topic": "stolen", "queues": "1", "confirmed": "1"}
    own = await browser.token()
    for sent, headers in (
        (fields, {}),
        ({**fields, "csrf": "0" * 64}, {}),
        ({**fields, "csrf": own}, {"sec-fetch-site": "cross-site"}),
    ):
        refused = await browser.post("/topics/create", data=sent, headers=headers)
        assert refused.status_code == 403
    async with httpx.AsyncClient(base_url=browser.base_url) as other:
        refused = await other.post("/topics/create", data={**fields, "csrf": own})
        assert refused.status_code == 403
    strange = await browser.get("/", headers={"host": "evil.example.com"})
    assert strange.status_code == 400
    assert await entries(resource_name="stolen") == []


async def test_a_link_says_nothing_in_the_consoles_name(browser):
    page = await browser.get("/topics", params={"done": "Send us your password", "seal": "x"})
    assert "password" not in page.text
    # A stranger chooses the cookie to which the forms of his browser are bound.
    said = "Send-us-your-password"
    async with httpx.AsyncClient(base_url=browser.base_url, timeout=60) as other:
        other.cookies.set("ariane_console", said)
        form = await other.get("/topics")
        [seal] = {*re.findall(r'name="csrf" value="([0-9a-f]{64})"', form.text)}
        for reader in (other, browser):
            page = await reader.get("/topics", params={"done": said, "seal": seal})
            assert said not in page.text


async def test_a_refusal_is_shown_in_one_line(browser):
    missing = await browser.get("/topics/never-there")
    assert missing.status_code == 404
    assert "no live broker carries topic" in missing.text
    wrong = await browser.get("/messages", params={"topic": "adm-seen", "begin": "soon"})
    assert wrong.status_code == 400
    csrf = await browser.token()
    for path, fields in (
        ("/topics/create", {"topic": "x", "queues": "many"}),
        ("/topics/create", {"queues": "1"}),
        ("/dead-letters/redrive", {"group": "g", "place": "here"}),
        ("/definitions/import", {"definitions": "none"}),
        ("/groups/reset", {"group": "g", "topic": "t", "to": "time"}),
    ):
        refused = await browser.post(path, data={"csrf": csrf, "confirmed": "1", **fields})
        assert refused.status_code == 400, (path, refused.text)


async def test_definitions_are_taken_out_and_brought_in(browser, topic):
    taken = (await browser.get("/definitions/export")).json()
    assert "adm-seen" in {each["topic"] for each in taken["topics"]}
    done = await browser.change("/definitions/import", definitions=json.dumps({"topics": []}))
    assert "Done: 0 changes." in done.text


async def test_one_consumer_consumes_a_message_once_more_and_its_failure_is_shown(
    browser, topic, cluster, entries
):
    bodies = []
    heard = asyncio.Event()

    async def listen(messages):
        bodies.extend(message.body for message in messages)
        heard.set()
        if len(bodies) > 2:
            raise ValueError("no such order")

    named = {"topic": "adm-seen", "message_id": topic.message_id, "group": "adm-once-more"}
    consumer = PushConsumer(
        cluster.name_servers,
        group="adm-once-more",
        subscriptions={"adm-seen": "*"},
        listener=listen,
        start="earliest",
    )
    async with consumer, asyncio.timeout(120):
        await heard.wait()
        done = await browser.change("/messages/consume", **named)
        assert "no offset was moved" in done.text
        failed = await browser.change("/messages/consume", **named)
        assert failed.status_code == 409
        assert "raised an error: " in failed.text
        assert "no such order" in failed.text
    assert len(bodies) == 3
    done, failed = await entries(resource_name="adm-once-more")
    assert done.method.endswith("/ConsumeMessage")
    gone = await browser.change("/messages/consume", **named)
    assert gone.status_code in {400, 404}


async def test_a_long_redrive_goes_on_by_the_form_that_it_answers_with(
    browser, topic, cluster, monkeypatch
):
    async def refuse(messages):
        raise MessagesFailed(messages, "no such order", rejected=True)

    async with Producer(cluster.name_servers) as producer:
        for _ in range(2):
            await producer.send(Message("adm-seen", b"another"))
    consumer = PushConsumer(
        cluster.name_servers,
        group="adm-refuses",
        subscriptions={"adm-seen": "*"},
        listener=refuse,
        start="earliest",
    )
    async with consumer, asyncio.timeout(120):
        shown = ""
        while shown.count("no such order") < 3:
            await asyncio.sleep(0.05)
            shown = (await browser.get("/dead-letters?group=adm-refuses")).text
    nothing = await browser.change(
        "/dead-letters/redrive", group="adm-refuses", place="broker-a/0/77"
    )
    assert nothing.status_code == 409
    assert "has no dead letter broker-a/0/77" in nothing.text
    monkeypatch.setattr(dead_letters, "SEARCH_SECONDS_MAX", 0.0)
    searched = (await browser.get("/dead-letters?group=adm-refuses&key=rare")).text
    assert "None found so far." in searched
    assert "Searched so far up to broker-" in searched
    assert 'rel="next"' in searched
    monkeypatch.setattr(dead_letters, "REDRIVE_SECONDS_MAX", 0.0)
    page = await browser.change("/dead-letters/redrive", group="adm-refuses")
    turns = 0
    while "sent back so far" in page.text:
        turns += 1
        assert "data-by-itself" in page.text
        assert 'href="/dead-letters?group=adm-refuses"' in page.text
        page = await browser.post(
            "/dead-letters/redrive", data=browser.hidden(page), follow_redirects=True
        )
    assert turns > 0
    assert "3 sent back, 0 had been before." in page.text


async def test_messages_in_hand_of_receiving_members_are_shown(browser, topic, cluster):
    settings = {"group": "adm-receives", "subscriptions": {"adm-seen": "*"}}
    async with ReceiveConsumer(cluster.name_servers, **settings) as consumer:
        async with asyncio.timeout(120), aclosing(consumer.receive(count_max=1)) as received:
            await anext(received)
            page = await browser.get("/groups/adm-receives")
            while "In flight" not in page.text:
                await asyncio.sleep(0.05)
                page = await browser.get("/groups/adm-receives")
        shown = re.findall(r"<dt>(In flight|Delayed|Ready)</dt><dd><span[^>]*>(\d+)", page.text)
        assert [name for name, _ in shown] == ["In flight", "Delayed", "Ready"]
        assert dict(shown)["In flight"] == "1"
        whole = (await browser.get("/")).text
        row = whole.partition('href="/groups/adm-receives"')[2].partition("</tr>")[0]
        assert re.findall(r'class="number">(\d+)</span>', row)[1] == "1"
        assert "number bad" not in row


async def test_nothing_is_sent_back_to_a_group_that_polls(browser, topic, cluster):
    settings = {"group": "adm-polls", "subscriptions": {"adm-seen": "*"}}
    async with PullConsumer(cluster.name_servers, **settings) as consumer:
        await consumer.poll(timeout_s=0)
        refused = await browser.change("/dead-letters/redrive", group="adm-polls")
        assert refused.status_code == 409
        assert "polls, and gets none that are sent back to it" in refused.text


async def test_held_queues_of_members_are_shown(browser, topic, cluster):
    async def listen(_messages):
        """Take everything."""

    settings = {"group": "adm-holds", "subscriptions": {"adm-seen": "*"}, "listener": listen}
    async with PushConsumer(cluster.name_servers, **settings) as consumer, asyncio.timeout(60):
        consumer.pause()
        page = await browser.get("/groups/adm-holds")
        while "its application paused it" not in page.text:
            await asyncio.sleep(0.05)
            page = await browser.get("/groups/adm-holds")
        held = page.text.partition("Queues that are held")[2].partition("</table>")[0]
        assert consumer.client_id in held


def test_a_message_that_fails_in_order_is_named():
    answer = group_pb.ListGroupMembersResponse()
    hold = answer.members.add().member.holds.add(
        topic="orders", broker_name="broker-a", queue_id=3, reason=HOLD_REASON_FAILED_IN_ORDER
    )
    hold.queue_offset, hold.attempts, hold.cause = 7, 16, "no bank"
    hold.age.FromSeconds(3700)
    [row] = holds_table(answer).rows
    assert [cell.text for cell in row[:4]] == [
        "orders/broker-a/3",
        "waits in order for message 7, which failed 16 times",
        "3,700 s",
        "no bank",
    ]


async def test_a_message_is_sent_once_more(browser, topic):
    done = await browser.change("/messages/send", topic="adm-seen", again=topic.message_id)
    assert "Sent: it lies at" in done.text


async def test_a_reset_is_shown_before_it_is_made(browser, topic, group, cluster):
    async with QueueReader(cluster.name_servers) as reader:
        await reader.store_offsets(group, {topic.message_queue: 0})
    form = (await browser.get(f"/groups/{group}")).text.partition('action="/groups/reset"')[2]
    selects = re.findall(r"<select[^>]*>(.*?)</select>", form.partition("</form>")[0])
    assert selects[0].startswith('<option value="adm-seen" selected>')
    assert selects[1].startswith('<option value="" selected>')
    asked = {"csrf": await browser.token(), "group": group, "topic": "adm-seen"}
    assert (await browser.post("/groups/reset", data={**asked, "to": ""})).status_code == 400
    shown = await browser.post("/groups/reset", data={**asked, "to": "latest"})
    assert "1 message would be skipped, and 0 would come once more." in shown.text
    # Enter does nothing that cannot be undone, and No leads back.
    assert re.search(rf'<a class="button" href="/groups/{group}" autofocus>No</a>', shown.text)
    assert '<button class="danger">Yes, do it</button>' in shown.text


async def test_the_largest_message_is_shown_and_no_text_is_reordered(browser, cluster):
    async with ClusterClient(cluster.name_servers) as client, Producer(cluster.name_servers) as p:
        await client.create_topic("adm-large", exists_ok=True)
        large = await p.send(Message("adm-large", b"x" * (4 << 20)))
        turned = await p.send(Message("adm-large", "pay \u202e001".encode(), keys=["k\u202e1"]))
        half = await p.send(Message("adm-large", b'{"name": "\\ud83d"}'))
        await p.send(Message("adm-large", b"a" + "\u00e4".encode() * 100, keys=["long"]))
    page = await browser.get(f"/messages/adm-large/{large.message_id}")
    assert page.status_code == 200
    page = await browser.get(f"/messages/adm-large/{half.message_id}")
    assert "\\ud83d" in page.text
    page = await browser.get("/messages?topic=adm-large&key=long")
    assert "a" + "\u00e4" * 59 + "<" in page.text
    page = await browser.get(f"/messages?topic=adm-large&unique_id={large.unique_id}")
    assert len(page.text) < 64 << 10
    page = await browser.get(f"/messages/adm-large/{turned.message_id}")
    assert "\u202e" not in page.text
    assert "pay \\u202e001" in page.text


async def test_a_group_is_paused_and_deleted(browser, cluster, group):
    paused = await browser.change("/groups/pause", group=group)
    assert "is paused." in paused.text
    resumed = await browser.change("/groups/resume", group=group)
    assert "may consume again." in resumed.text
    gone = await browser.change("/groups/delete", group=group)
    assert "is gone." in gone.text


async def test_a_change_of_a_topic_keeps_what_is_not_said(browser, cluster, admin):
    stub = TopicServiceStub(admin)
    await stub.CreateTopic(topic_pb.CreateTopicRequest(topic=Topic(topic="adm-uneven")))
    more = {"read_queue_count": 9, "write_queue_count": 7, "broker_names": ["broker-b"]}
    await stub.UpdateTopic(topic_pb.UpdateTopicRequest(topic="adm-uneven", **more))
    page = (await browser.get("/topics/adm-uneven")).text
    form = page.partition('action="/topics/update"')[2].partition("</form>")[0]
    filled = {n: unescape(v) for n, v in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
    filled |= {"permission": "READ"}
    filled.pop("csrf")
    assert "is changed." in (await browser.change("/topics/update", **filled)).text
    told = (await stub.GetTopic(topic_pb.GetTopicRequest(topic="adm-uneven"))).topic
    placed = [each.topic for each in told.placements]
    assert [(e.read_queue_count, e.write_queue_count) for e in placed] == [(4, 4), (9, 7)]
    assert {each.permission for each in placed} == {TOPIC_PERMISSION_READ}
    nothing = await browser.change("/topics/update", topic="adm-uneven")
    assert "Say what is to change." in nothing.text
    await stub.DeleteTopic(topic_pb.DeleteTopicRequest(topic="adm-uneven"))


@pytest.fixture
async def group(admin):
    wanted = ConsumerGroup(consumer_group="adm-paused", consume_enabled=True, attempts_max=16)
    stub = GroupServiceStub(admin)
    await stub.CreateGroup(group_pb.CreateGroupRequest(group=wanted))
    yield wanted.consumer_group
    with suppress(AioRpcError):  # A test may have deleted it.
        await stub.DeleteGroup(group_pb.DeleteGroupRequest(consumer_group=wanted.consumer_group))


async def test_a_broker_and_a_setting_are_changed(browser):
    drained = await browser.change("/cluster/drain", broker="broker-a")
    assert "takes no more messages" in drained.text
    restored = await browser.change("/cluster/restore", broker="broker-a")
    assert "takes messages again" in restored.text
    fields = {"service": "namesrv", "name": "concurrent_calls_max", "value": "4096"}
    changed = await browser.change("/settings/update", **fields)
    assert "in 2 processes." in changed.text


def test_every_change_has_a_question_and_its_path_a_page():
    menu = {path.split("/")[1] for path in PAGES}
    for path, one in CHANGES.items():
        assert one.question.endswith(("?", ".", "{place}")), path
        assert path.split("/")[1] in {*menu, "definitions"}
