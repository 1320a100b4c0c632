"""Who sees what in the console of a closed cluster, by its real server over TLS."""

from urllib.parse import parse_qs, urlsplit

import pytest

from ariane.admin.v1 import audit_service_pb2 as audit_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1 import user_service_pb2 as user_pb
from ariane.admin.v1.audit_service_pb2_grpc import AuditServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.admin.v1.user_service_pb2_grpc import UserServiceStub
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_admin.console.app import PAGES
from ariane_admin.console.changing.changes import CHANGES
from ariane_admin.console.entrance import COOKIE, own_path

REFUSED = "That did not work: it does not hold here, or no more."


async def make_topics(admin, *names):
    for name in names:
        topic = Topic(topic=name, read_queue_count=1, write_queue_count=1)
        await TopicServiceStub(admin).CreateTopic(topic_pb.CreateTopicRequest(topic=topic))


async def test_a_stranger_sees_nothing_and_changes_nothing(closed):
    root, stranger = await closed.admin("root"), await closed.visitor()
    await make_topics(root, "secret-orders")
    for path in (*PAGES, "/dead-letters/export", "/definitions/export", "/nowhere"):
        asked = path.replace("{sequence:int}", "1").replace("{", "").replace("}", "")
        away = await stranger.get(asked)
        assert away.status_code == 303, asked
        assert away.headers["location"].startswith("/sign-in?next="), asked
        assert not away.content
    # Of the text ``a%25ef``, the second half may not be taken for an octet on the way back.
    path = "/topics/shop%25ef%7Ceu"
    away = await stranger.get(path)
    assert parse_qs(urlsplit(away.headers["location"]).query)["next"] == [path]
    token = stranger.hidden(await stranger.get("/sign-in"))["csrf"]
    for path in CHANGES:
        given = {"csrf": token, "topic": "secret-orders", "confirmed": "1"}
        assert (await stranger.post(path, data=given)).status_code == 403, path
    answer = await TopicServiceStub(root).ListTopics(topic_pb.ListTopicsRequest())
    assert [each.topic for each in answer.topics] == ["secret-orders"]


async def test_every_invalid_sign_in_is_refused_with_the_same_text(closed):
    stranger, unknown = await closed.visitor(), await closed.visitor("ben")
    assert "Sign in as" not in (await stranger.get("/sign-in")).text
    assert "Sign in as ben" in (await unknown.get("/sign-in")).text
    for browser, way, fields in (
        (stranger, "certificate", {}),
        (unknown, "certificate", {}),
        (stranger, "link", {"token": ""}),
        (stranger, "link", {"token": "\u0661" * 43}),
        (stranger, "link", {}),
    ):
        refused = await browser.sign_in(way, **fields)
        assert refused.status_code == 403
        assert REFUSED in refused.text
        assert COOKIE not in refused.headers.get("set-cookie", "")
    root = await closed.visitor("root")
    assert (await root.post("/sign-in/certificate", data={"csrf": "0" * 64})).status_code == 403
    assert (await root.sign_in("certificate", csrf="0" * 64)).status_code == 403
    assert (await root.get("/topics")).status_code == 303


async def test_a_user_with_a_certificate_comes_in_and_acts_in_his_own_name(closed):
    browser, thief = await closed.visitor("root"), await closed.visitor()
    entered = await browser.post(
        "/sign-in/certificate",
        data={
            **browser.hidden(await browser.get("/sign-in", params={"next": "/topics?prefix=a"})),
        },
    )
    assert entered.status_code == 303
    [cookie] = [
        each for each in entered.headers.get_list("set-cookie") if each.startswith(f"{COOKIE}=")
    ]
    words = {word.strip().lower() for word in cookie.split(";")[1:]}
    assert {"httponly", "secure", "samesite=lax", "path=/"} <= words
    assert "domain" not in cookie.lower()
    page = await browser.get("/topics")
    assert "root" in page.text
    assert "Sign out" in page.text
    made = await browser.change("/topics/create", topic="by-hand", queues="1")
    assert "Topic by-hand is there." in made.text
    # A form without the token of the session is nobody's.
    own = thief.hidden(await thief.get("/sign-in"))["csrf"]
    for wrong in ("", "0" * 64, own):
        given = {"topic": "stolen", "queues": "1", "confirmed": "1", "csrf": wrong}
        assert (await browser.post("/topics/create", data=given)).status_code == 403
    answer = await AuditServiceStub(await closed.admin("root")).ListAuditEntries(
        audit_pb.ListAuditEntriesRequest(resource_name="by-hand")
    )
    [entry] = answer.entries
    assert entry.user == "root by admin a1"
    assert entry.source_address.startswith("127.0.0.1:")
    # The cookie alone is of no use to who has not the key of the certificate.
    session = browser.cookies[COOKIE]
    stolen = {"cookie": f"{COOKIE}={session}"}
    assert (await thief.get("/topics", headers=stolen)).status_code == 303
    out = await browser.post("/sign-out", data={"csrf": await browser.token()})
    assert out.headers["location"] == "/sign-in"
    assert (await browser.get("/topics")).status_code == 303
    assert (await browser.get("/topics", headers=stolen)).status_code == 303


async def test_a_user_sees_and_does_what_he_may_until_he_is_disabled(closed):
    root, browser = await closed.admin("root"), await closed.visitor("anna")
    await make_topics(root, "orders", "bills")
    await closed.make_user("anna", "allow PUBLISH topic orders")

    async def entered():
        return (await browser.sign_in("certificate")).status_code

    await closed.until(entered, 303)

    async def shown():
        page = await browser.get("/topics")
        return page.status_code, "orders" in page.text, "bills" in page.text

    await closed.until(shown, (200, True, False))
    token = await browser.token()
    given = {"csrf": token, "topic": "orders", "confirmed": "1"}
    refused = await browser.post("/topics/delete", data=given)
    assert refused.status_code == 403
    assert "anna" in refused.text
    overview = await browser.get("/")
    assert overview.status_code == 200, overview.text
    assert "bills" not in overview.text

    async def enable(*, enabled):
        request = user_pb.UpdateUserRequest(user="anna", enabled=enabled)
        await UserServiceStub(root).UpdateUser(request)

    await enable(enabled=False)

    async def out():
        return (await browser.get("/topics")).status_code

    await closed.until(out, 303)
    assert (await browser.sign_in("certificate")).status_code == 403
    await enable(enabled=True)
    other = await closed.visitor("anna")

    async def again():
        return (await other.sign_in("certificate")).status_code

    await closed.until(again, 303)
    # What has ended stays so.
    assert await out() == 303


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/topics?prefix=a", "/topics?prefix=a"),
        ("//evil.test/", "/"),
        ("/\\evil.test", "/"),
        ("https://evil.test/", "/"),
        ("/\nx", "/"),
        ("/sign-in?next=/", "/"),
        ("", "/"),
    ],
)
def test_a_browser_is_led_to_pages_of_the_console_only(text, path):
    assert own_path(text) == path
