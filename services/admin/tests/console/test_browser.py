"""The console in a real Chromium, against a cluster with 2,000 topics."""

import asyncio
import re
import shutil

import pytest

from ariane.admin.v1 import console_service_pb2 as console_pb
from ariane.admin.v1 import definition_service_pb2 as definition_pb
from ariane.admin.v1 import topic_service_pb2 as topic_pb
from ariane.admin.v1.console_service_pb2_grpc import ConsoleServiceStub
from ariane.admin.v1.definition_service_pb2_grpc import DefinitionServiceStub
from ariane.admin.v1.topic_service_pb2_grpc import TopicServiceStub
from ariane.broker.v1.topic_service_pb2 import Topic
from ariane_admin.console.app import SECTIONS
from ariane_admin.console.entrance import COOKIE

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

STEP_S_MAX = 120
"""Seconds for one step of a browser."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


@pytest.fixture
async def chromium():
    playwright = pytest.importorskip("playwright.async_api")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        await browser.close()


@pytest.fixture
async def new_page(admin, chromium):
    """Open a page whose steps wait as long as a busy machine needs."""

    async def open_page(**settings):
        context = await chromium.new_context(base_url=admin.console_url, **settings)
        context.set_default_timeout(STEP_S_MAX * 1000)
        return await context.new_page()

    return open_page


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1200), ("dark", 1200), ("light", 390), ("dark", 390)]
)
async def test_every_section_fits_and_reports_no_error(new_page, scheme, width):
    page = await new_page(color_scheme=scheme, viewport={"width": width, "height": 800})
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    for section, path, _ in SECTIONS:
        answer = await page.goto(path)
        assert answer.status == 200
        assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth"), section
        dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(18, 21, 26)") == (scheme == "dark")
    assert said == []


async def test_a_topic_is_made_and_deleted_by_keyboard_and_mouse(new_page):
    page = await new_page()
    keys = page.get_by_text("Keys: g then a letter")
    await page.goto("/")
    await keys.wait_for()
    await page.keyboard.press("g")
    await page.keyboard.press("t")
    await page.wait_for_url("**/topics")
    await page.click("text=Create a topic")
    await page.fill("input[name=topic]", "by-hand")
    await page.keyboard.press("Enter")
    await page.get_by_text(re.compile("In cluster (DefaultCluster|main): ")).wait_for()
    await page.click("text=Yes, do it")
    await page.wait_for_selector("text=Topic by-hand is there.")
    await page.click("text=Delete this topic")
    await page.click("text=Delete with all messages")
    await page.click("text=Yes, do it")
    await page.wait_for_selector("text=Topic by-hand is gone.")
    await keys.wait_for()
    await page.keyboard.press("/")
    assert await page.evaluate("document.activeElement.name") == "prefix"


async def test_a_topic_is_purged_after_a_preview_and_shown_again(new_page):
    page = await new_page()
    await page.goto("/topics")
    await page.click("text=Create a topic")
    await page.fill("input[name=topic]", "by-mouse")
    await page.keyboard.press("Enter")
    await page.click("text=Yes, do it")
    for _ in range(2):
        await page.goto("/topics/by-mouse")
        await page.click("text=Send a message to this topic")
        await page.fill("textarea[name=body]", "old")
        await page.click("button:has-text('Send')")
        await page.click("text=Yes, do it")
        await page.wait_for_selector("text=Sent: it lies at")
    await page.goto("/topics/by-mouse")
    assert await page.locator("text=Undo a purge").count() == 0
    await page.click("text=Purge this topic")
    await page.fill("input[name=before]", "2020-01-01T00:00")
    await page.click("text=Hide messages")
    await page.wait_for_selector("text=0 messages would be hidden.")
    await page.goto("/topics/by-mouse")
    await page.click("text=Purge this topic")
    await page.click("text=Hide messages")
    await page.wait_for_selector("text=2 messages would be hidden.")
    await page.click("text=Yes, do it")
    await page.wait_for_selector("text=Within 10 s, 2 messages of topic by-mouse will be hidden.")
    await page.click("text=Undo a purge")
    await page.click("text=Show messages again")
    await page.click("text=Yes, do it")
    await page.wait_for_selector("text=Topic by-mouse shows all that its brokers still have")
    assert await page.locator("text=Undo a purge").count() == 0


async def test_people_sign_in_by_link_or_certificate_and_out(closed, chromium):
    url = f"https://{closed.app.console_address}"
    certificate, key = closed.certificates.user("root")
    shown = [{"origin": url, "certPath": str(certificate), "keyPath": str(key)}]
    for more in ({}, {"client_certificates": shown}):
        context = await chromium.new_context(ignore_https_errors=True, base_url=url, **more)
        context.set_default_timeout(STEP_S_MAX * 1000)
        page = await context.new_page()
        said = []
        page.on("pageerror", lambda error: said.append(str(error)))  # noqa: B023
        await page.goto("/topics?prefix=a")
        assert page.url == f"{url}/sign-in?next=%2Ftopics%3Fprefix%3Da"
        if more:
            await page.click("text=Sign in as root")
            await page.wait_for_url("**/topics?prefix=a")
        else:
            stub = ConsoleServiceStub(await closed.admin("root"))
            made = await stub.CreateSignInLink(console_pb.CreateSignInLinkRequest())
            await page.goto(made.link)
            token = made.link.partition("#")[2]
            await page.wait_for_function("!location.hash")
            assert await page.input_value("input[name=token]") == token
            await page.keyboard.press("Enter")
            await page.wait_for_url(f"{url}/")
        await page.wait_for_selector("text=root")
        [cookie] = [c for c in await context.cookies() if c["name"] == COOKIE]
        assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Lax")
        assert await page.evaluate("document.cookie") == ""
        assert not await page.evaluate("document.documentElement.scrollWidth > innerWidth")
        await page.click("text=Sign out")
        await page.wait_for_url("**/sign-in")
        await page.goto("/topics")
        assert "/sign-in?" in page.url
        assert said == []


async def test_a_page_that_is_used_while_it_is_fetched_anew_stays_as_it_is(new_page):
    page = await new_page()
    asked, shall_go_on = asyncio.Event(), asyncio.Event()

    async def hold(route):
        answer = await route.fetch()
        asked.set()
        await shall_go_on.wait()
        await route.fulfill(response=answer)

    # What is parsed is put into the page in the same turn.
    await page.add_init_script(
        "const parse = DOMParser.prototype.parseFromString;"
        "DOMParser.prototype.parseFromString = function (...given) {"
        " window.parsed = true; return parse.apply(this, given); };"
    )
    await page.goto("/delayed")
    await page.route("**/delayed", hold)
    async with asyncio.timeout(STEP_S_MAX):
        await asked.wait()
    await page.click("text=Take a message back")
    shall_go_on.set()
    await page.wait_for_function("window.parsed")
    assert await page.locator("details[open]").count() == 1


async def test_2000_topics_are_listed_searched_and_paged(admin, new_page):
    names = [f"many-{number:04}" for number in range(2000)]
    stub = DefinitionServiceStub(admin)
    for begin in range(0, len(names), 250):
        topics = [
            Topic(topic=name, read_queue_count=1, write_queue_count=1)
            for name in names[begin : begin + 250]
        ]
        told = await stub.ImportDefinitions(
            definition_pb.ImportDefinitionsRequest(
                definitions=definition_pb.Definitions(topics=topics)
            )
        )
        assert {each.failure for each in told.changes} <= {""}
    page = await new_page()
    await page.goto("/topics?prefix=many-")
    assert await page.locator("tbody tr").count() == 100
    await page.click("text=Next page")
    await page.wait_for_selector("text=many-0100")
    await page.fill("input[name=prefix]", "many-1999")
    await page.keyboard.press("Enter")
    # An address is there before its page is: a step in between would be one of the old page.
    await page.wait_for_url("**prefix=many-1999*")
    await page.locator("tbody").get_by_text("many-1999", exact=True).wait_for()
    assert await page.locator("tbody tr").count() == 1


async def test_long_names_push_nothing_out_of_sight(admin, new_page):
    name = "long-" + "x" * 100
    await TopicServiceStub(admin).CreateTopic(topic_pb.CreateTopicRequest(topic=Topic(topic=name)))
    page = await new_page(viewport={"width": 1200, "height": 800})
    for path in ("/topics?prefix=long-", "/audit", "/"):
        await page.goto(path)
        for selector in (".scroll", ".tiles dd"):
            for box in await page.locator(selector).all():
                assert not await box.evaluate("it => it.scrollWidth > it.clientWidth"), path
    await page.goto("/audit")
    first_time = page.locator("tbody .time").first
    assert (await first_time.bounding_box())["height"] < 30
