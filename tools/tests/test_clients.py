import re

import pytest

from ariane_broker.rpc.translation.reply_address import REPLY_PROPERTIES
from ariane_broker.rpc.translation.stored_message import SYSTEM_PROPERTIES
from tools import clients


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """A repository of two files, whose Go client is a file; how often it was built."""
    source, contract, made = (tmp_path / each for each in ("sdk/go/a.go", "protos/ariane/b", "m"))
    for path in (source, contract):
        path.parent.mkdir(parents=True)
        path.write_text(path.name)
    listed = [str(path.relative_to(tmp_path)) for path in (source, contract)]
    built = []

    def builder():
        built.append(made)
        made.write_text("")

    monkeypatch.setattr(clients, "ROOT", tmp_path)
    monkeypatch.setattr(clients, "BUILT", tmp_path / "cache")
    monkeypatch.setattr(clients, "repository_files", lambda: listed)
    monkeypatch.setattr(clients, "MADE", {"go": (made,)})
    monkeypatch.setattr(clients, "BUILDERS", {"go": builder})
    return source, contract, made, built


def test_a_client_is_built_when_what_it_is_built_from_has_changed(workshop):
    source, contract, made, built = workshop
    assert clients.build("go")
    assert not clients.build("go")
    source.write_text("another")
    assert clients.build("go")
    contract.write_text("another")
    assert clients.build("go")
    made.unlink()
    assert clients.build("go")
    assert not clients.build("go")
    assert len(built) == 4


def test_a_client_whose_build_failed_is_built_again(workshop, monkeypatch):
    source, *_, built = workshop
    assert clients.build("go")
    source.write_text("wrong")

    def broken():
        raise clients.ClientFailed("does not compile")

    with monkeypatch.context() as patched:
        patched.setattr(clients, "BUILDERS", {"go": broken})
        for _ in range(2):
            with pytest.raises(clients.ClientFailed):
                clients.build("go")
    source.write_text("a.go")  # As at first.
    assert clients.build("go")
    assert len(built) == 2


LAYERS = {
    "Go": "go/ariane*/*.go",
    "Java": "java/src/main/java/mq/ariane/client/**/*.java",
    "TypeScript": "typescript/src/*.ts",
}
PARTS = [
    {"client", "limit", "index", "sources", "routes"}
    | {"Client", "ClientSettings", "Deadline", "Sources", "NameServers", "TopicRoute"},
    {"security", "Security", "Tls", "Peer", "Login"},
    {"errors", "ArianeException"},
    {"message", "Message", "Delivery", "Receipt", "Nack", "Outcome", "Times"},
    {"producer", "Producer", "gathering", "Gathering", "records"},
    {"consumer", "received", "settling", "Consumer", "ConsumerSettings", "Records"},
    {"listener", "listening", "Listener", "Listening", "standstill", "Standstill"},
    {"transaction", "transactions", "TransactionProducer"},
    {"requests", "inbox", "Requests", "Inbox", "ReplyInbox"},
    {"admin", "Admin", "TopicSettings", "GroupSettings"},
    {"tracing", "tracer", "Tracing", "Tracer", "Traced", "OpenTelemetryTracing", "opentelemetry"},
    {"compression", "Bodies"},
]
"""Files of each row of the page's table, by name."""


def lines_of_code(path):
    """Lines that are no comment, not blank, and no import."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    imports = r"^import \(\n.*?^\)\n|^package \w+$|^(?:import|package) [^;]*;$"
    text = re.sub(imports, "", text, flags=re.MULTILINE | re.DOTALL)
    lines = map(str.strip, text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("//"))


def test_the_page_says_how_thick_the_layers_are():
    page = (clients.SDK / "README.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \| (\d+) \|", page, re.MULTILINE)
    for column, pattern in enumerate(LAYERS.values()):
        counted = [0] * len(PARTS)
        for path in clients.SDK.glob(pattern):
            if not path.stem.endswith("_test") and (lines := lines_of_code(path)):
                [part] = [each for each, names in enumerate(PARTS) if path.stem in names]
                counted[part] += lines
        said = [int(row[column]) for row in rows]
        assert said == pytest.approx([*counted, sum(counted)], rel=0.05)


def test_go_shows_no_property_of_a_record_that_a_broker_does_not_show_plainly():
    code = (clients.GO / "ariane/received.go").read_text()
    hidden, read = code.split("var hiddenProperties", 1)[1].split("\n}\n", 1)
    names = re.findall(r'"(\S+?)": true', hidden) + re.findall(r'case "(\S+)":', read)
    assert sorted(names) == sorted(SYSTEM_PROPERTIES | REPLY_PROPERTIES)


def test_java_shows_no_property_of_a_record_that_a_broker_does_not_show_plainly():
    code = (clients.JAVA / "src/main/java/mq/ariane/client/Records.java").read_text()
    hidden = code.split("HIDDEN = Set.of(", 1)[1].split(");", 1)[0]
    assert sorted(re.findall(r'"(\S+?)"', hidden)) == sorted(SYSTEM_PROPERTIES | REPLY_PROPERTIES)
