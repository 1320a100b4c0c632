"""``ariane filter`` before a FilterServer that changes filters for holders of its token only."""

import pytest

from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.sync import ClusterClient, Message, Producer
from ariane_servicekit.running.processes import ServiceProcess

TOKEN = "0123456789abcdef-of-the-tests"  # noqa: S105 - of the tests
ALL = "def matches(message): return True"


@pytest.fixture(scope="module")
def filter_servers(cluster, tmp_path_factory):
    """One beside the first broker; the second has none."""
    folder = tmp_path_factory.mktemp("guarded")
    config = folder / "filter.toml"
    config.write_text(f'upload_token = "{TOKEN}"\nuploads = "any"\n')
    process = ServiceProcess(
        "filter-guarded",
        "ariane_filter",
        (
            *("--config", str(config), "--broker", cluster.brokers[0].address),
            *("--data-path", str(folder / "filters")),
        ),
        folder / "filter.log",
    )
    cluster.call_blocking(process.start)
    yield [process]
    assert TOKEN not in process.log_path.read_text()
    cluster.call_blocking(process.stop)


@pytest.fixture
def ready(filter_servers, cluster):
    with ClusterClient(cluster.name_servers) as client:
        while not any(broker.filter_servers for broker in client.list_brokers()):
            pass


@pytest.fixture
def token_file(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return path


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "all.py"
    path.write_text(ALL)
    return path


@pytest.fixture
def flights(cluster, ariane):
    ariane("topic", "create", "tk-flights", "--broker", "broker-a", "--queues", "1")
    with Producer(cluster.name_servers) as producer:
        producer.send(Message("tk-flights", b"one"))
    return "tk-flights"


def test_every_change_needs_the_token_and_questions_do_not(
    ready, ariane, ariane_json, module, token_file, tmp_path, monkeypatch, flights
):
    other = tmp_path / "other"
    other.write_text("of-somebody-else-0123")
    for words in ((), ("--token-file", str(other))):
        line = ariane("filter", "upload", "tk", str(module), *words, status=ExitStatus.REFUSED)
        assert "--token-file" in line
        assert "[ACCESS_DENIED]" in line
    given = ("--token-file", str(token_file))
    version = ariane_json("filter", "upload", "tk", str(module), *given)["filter"]
    changes = [
        ("try", version, flights),
        ("try", str(module), flights),
        ("quarantine", version, "--cause", "wild"),
        ("release", version),
        ("delete", version, "--yes"),
    ]
    for words in changes:
        assert "[ACCESS_DENIED]" in ariane("filter", *words, status=ExitStatus.REFUSED), words
    assert ariane_json("filter", "show", version)["state"] == "active"
    assert ariane("filter", "show", version, "--module") == ALL
    monkeypatch.setenv("ARIANE_FILTER_TOKEN_FILE", str(token_file))
    for words in changes:
        ariane("filter", *words)
    assert ariane_json("filter", "list", "tk") == []


def test_admin_hands_the_token_on_and_writes_down_what_was_refused(
    ready, admin_process, ariane, ariane_json, module, token_file
):
    line = ariane("filter", "upload", "tk-admin", str(module), status=ExitStatus.REFUSED)
    assert "[ACCESS_DENIED]" in line
    given = ("--token-file", str(token_file))
    version = ariane_json("filter", "upload", "tk-admin", str(module), *given)["filter"]
    for words in (("quarantine", version), ("release", version), ("delete", version, "--yes")):
        ariane("filter", *words, *given)
    told = [row for row in ariane_json("audit", "list") if row["name"] == "tk-admin"]
    assert [(row["method"], row["outcome"]) for row in reversed(told)] == [
        ("UploadFilter", "failed"),
        ("UploadFilter", "done"),
        ("UpdateFilterQuarantine", "done"),
        ("UpdateFilterQuarantine", "done"),
        ("DeleteFilter", "done"),
    ]
    process, database = admin_process
    kept = database.read_bytes() + process.log_path.read_bytes()
    assert TOKEN.encode() not in kept


async def test_the_console_hands_the_token_on_and_no_page_shows_it(ready, browser, entries):
    fields = {"name": "tk-typed", "module": ALL}
    refused = await browser.change("/filters/upload", **fields)
    assert refused.status_code == 403
    assert "token" in refused.text
    csrf = await browser.token()
    asked = {"csrf": csrf, **fields, "upload_token": TOKEN}
    question = await browser.post("/filters/upload", data=asked)
    assert (
        question.text.count(TOKEN)
        == question.text.count(f'type="hidden" name="upload_token" value="{TOKEN}"')
        == 1
    )
    done = await browser.change("/filters/upload", **fields, upload_token=TOKEN)
    assert "tk-typed@" in done.text
    named = {
        "name": "tk-typed",
        "version": done.text.partition('href="/filters/tk-typed/')[2].partition('"')[0],
        "upload_token": TOKEN,
    }
    assert "is stopped." in (await browser.change("/filters/stop", **named, cause="wild")).text
    assert "may run again." in (await browser.change("/filters/release", **named)).text
    gone = await browser.change("/filters/delete", **named)
    assert "is deleted." in gone.text
    assert TOKEN not in gone.text
    assert len(await entries(resource_name="tk-typed")) == 5


@pytest.mark.parametrize("content", ["", "two words", "ein Schlüssel"])
def test_a_file_without_a_token_is_one_line(ariane, module, tmp_path, content):
    path = tmp_path / "token"
    path.write_text(content)
    words = ("filter", "upload", "tk", str(module), "--token-file", str(path))
    assert str(path) in ariane(*words, status=ExitStatus.USAGE)


@pytest.fixture
def kept(ready, ariane_json, module, token_file):
    """Name and version of an uploaded filter."""
    given = ("--token-file", str(token_file))
    version = ariane_json("filter", "upload", "tk-seen", str(module), *given)["filter"]
    yield version.split("@")
    ariane_json("filter", "delete", version, "--yes", *given)


async def test_the_console_without_the_token_says_who_has_it(kept, browser):
    name, version = kept
    named = {"name": name, "version": version}
    for path, fields in (
        ("/filters/upload", {"name": "tk-console", "module": ALL}),
        ("/filters/stop", {**named, "cause": "wild"}),
        ("/filters/delete", named),
    ):
        refused = await browser.change(path, **fields)
        assert refused.status_code == 403, refused.text
        assert "ariane filter says it by --token-file" in refused.text
    shown = await browser.get(f"/filters/{name}/{version}")
    assert "runs" in shown.text
