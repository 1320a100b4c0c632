"""``ariane filter``, at FilterServers beside both brokers of the cluster."""

import time

import pytest

from ariane_admin.asking.cluster_doors import ClusterDoors
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk.sync import Message, Producer, PullConsumer, Uploaded

LATE = """
def matches(message):
    return int(message.properties["dep_delay"]) > 60
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "late.py"
    path.write_text(LATE)
    return path


@pytest.fixture
def flights(cluster, ariane):
    topic = f"flights-{time.monotonic_ns()}"
    ariane("topic", "create", topic, "--queues", "2")
    with Producer(cluster.name_servers) as producer:
        producer.send_batch(
            [
                Message(topic, b"%d" % delay, properties={"dep_delay": str(delay)})
                for delay in range(120)
            ]
        )
    return topic


def upload(ariane_json, name, module):
    """Its name and version."""
    row = ariane_json("filter", "upload", name, str(module))
    assert len(row["servers"]) == 2
    return row["filter"]


def test_a_filter_from_the_upload_to_the_end(ready, ariane, ariane_json, cluster, module, flights):
    version = upload(ariane_json, "late", module)
    assert version.startswith("late@")
    again = ariane_json("filter", "upload", "late", str(module))
    assert (again["filter"], again["duplicate"], again["failed"]) == (version, True, [])
    assert "2 FilterServers of broker-a, broker-b" in ariane(
        "filter", "upload", "late", str(module)
    )
    (row,) = ariane_json("filter", "list", "late")
    assert (row["filter"], row["language"], row["state"]) == (version, "python", "active")
    assert (row["servers"], row["bytes"]) == ("2 of 2", len(LATE))
    assert version in ariane("filter", "list")

    with PullConsumer(
        cluster.name_servers,
        group="filter-commands",
        subscriptions={flights: Uploaded(version)},
        start="earliest",
    ) as consumer:
        found = []
        while len(found) < 59:
            found += [int(message.body) for message in consumer.poll(timeout_s=60)]
        assert sorted(found) == list(range(61, 120))
        assert "filter-commands" in ariane("filter", "show", version)
        told = ariane_json("filter", "delete", version, "--dry-run")
        assert (told["groups"], told["dry_run"]) == (["filter-commands"], True)
        line = ariane("filter", "delete", version, "--yes", status=ExitStatus.REFUSED)
        assert "group filter-commands pulls through" in line

    assert "is quarantined: at 2" in ariane("filter", "quarantine", version, "--cause", "wild")
    row = ariane_json("filter", "show", version)
    assert (row["state"], row["quarantine_cause"]) == ("quarantined", "wild")
    assert "may run again" in ariane("filter", "release", version)
    assert ariane_json("filter", "show", version)["state"] == "active"
    assert ariane("filter", "show", version, "--module") == LATE


def test_an_unused_filter_is_deleted_everywhere(ready, ariane, ariane_json, tmp_path):
    module = tmp_path / "all.py"
    module.write_text("def matches(message): return True")
    version = upload(ariane_json, "all", module)
    line = ariane("filter", "delete", version, status=ExitStatus.USAGE)
    assert "--yes" in line
    told = ariane("filter", "delete", version, "--dry-run")
    assert told == f"{version} would be deleted at 2 of 2 FilterServers.\n"
    assert len(ariane_json("filter", "list", "all")) == 1
    ariane("filter", "delete", version, "--yes")
    assert ariane_json("filter", "list", "all") == []
    line = ariane("filter", "show", version, status=ExitStatus.NOT_FOUND)
    assert line.rstrip().endswith("[FILTER_NOT_FOUND]")


def test_a_try_shows_which_messages_match(ready, ariane, ariane_json, module, flights):
    rows = ariane_json("filter", "try", str(module), flights, "--count", "30")
    assert len(rows) == 30
    assert all(row["matches"] == (int(row["body"]) > 60) for row in rows)
    version = upload(ariane_json, "late", module)
    rows = ariane_json("filter", "try", version, flights, "--count", "1000", "--matches")
    assert sorted(int(row["body"]) for row in rows) == list(range(61, 120))
    assert "59 of 120 messages matched." in ariane(
        "filter", "try", version, flights, "--count", "120"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("show", "late"), ExitStatus.USAGE, "name@version"),
        (("show", "nobody@0123456789ab"), ExitStatus.NOT_FOUND, "FILTER_NOT_FOUND"),
        (("delete", "nobody@0123456789ab", "--dry-run"), ExitStatus.NOT_FOUND, "FILTER_NOT_FOUND"),
        (("try", "nobody", "flights"), ExitStatus.USAGE, "neither a file"),
        (("try", "x" * 400, "flights"), ExitStatus.USAGE, "neither a file"),
        (("try", "HUGE", "flights"), ExitStatus.USAGE, "2,000,000 bytes"),
        (("try", "EMPTY", "flights"), ExitStatus.USAGE, "0 bytes"),
        (("upload", "late", "BROKEN"), ExitStatus.USAGE, "SyntaxError"),
        (("upload", "a b", "GOOD"), ExitStatus.USAGE, "1 to 120 characters"),
        (("upload", "late", "EMPTY"), ExitStatus.USAGE, "0 bytes"),
    ],
)
def test_a_refusal_is_one_line(ready, ariane, tmp_path, arguments, status, said):
    contents = {"HUGE": "#" * 2_000_000, "BROKEN": "def matches(", "GOOD": LATE, "EMPTY": ""}
    words = []
    for word in arguments:
        if word in contents:
            path = tmp_path / "module.py"
            path.write_text(contents[word])
        words.append(str(path) if word in contents else word)
    line = ariane("filter", *words, status=status)
    assert said in line
    assert "Traceback" not in line


def test_without_filter_servers_the_error_says_what_is_missing(ariane, monkeypatch):
    async def none(self, names=(), *, cluster_name=""):
        return []

    monkeypatch.setattr(ClusterDoors, "primaries", none)
    assert "no FilterServer runs" in ariane("filter", "list", status=ExitStatus.UNREACHABLE)
