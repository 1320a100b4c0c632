"""``ariane topic`` against a real cluster."""

import os
import signal
import subprocess
import sys

import pytest

from ariane_admin.cli import main
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import Message, MessageQueue, sync
from ariane_sdk.errors import RouteNotFound
from ariane_servicekit import Address
from ariane_servicekit.running.processes import LocalCluster, ServiceProcess
from ariane_testkit.closed_clusters import TESTER
from ariane_testkit.registered_broker import RegisteredBroker
from ariane_testkit.small_store import SMALL_STORE


def layout(ariane_json, topic):
    return {
        row["broker"]: (row["read_queues"], row["write_queues"], row["permission"], row["type"])
        for row in ariane_json("topic", "show", topic, "--brokers")
    }


def listed(ariane_json, *options):
    return {row["topic"]: row for row in ariane_json("topic", "list", *options)}


def test_a_list_says_how_topics_lie_on_all_brokers(ariane, ariane_json):
    ariane("topic", "create", "l-alike", "--queues", "3", "--type", "normal")
    ariane("topic", "create", "l-unlike", "--queues", "2")
    ariane("topic", "update", "l-unlike", "--write-queues", "1", "--broker", "broker-a")
    ariane("topic", "update", "l-unlike", "--permission", "read", "--broker", "broker-b")
    rows = listed(ariane_json)
    assert rows["l-alike"] == {
        "topic": "l-alike",
        "brokers": ["broker-a", "broker-b"],
        "read_queues": 6,
        "write_queues": 6,
        "permission": "read-write",
        "type": "normal",
        "retention": "broker's",
        "unanswered": [],
    }
    unlike = rows["l-unlike"]
    assert (unlike["read_queues"], unlike["write_queues"]) == (4, 3)
    assert (unlike["permission"], unlike["type"]) == ("differs", "any")
    header = ariane("topic", "list").split("─")[0]
    assert " ".join(header.split()) == (
        "topic brokers read queues write queues permission type retention"
    )


def test_the_topic_of_replies_is_listed_when_asked_for(ariane, ariane_json):
    ariane("topic", "create", "DefaultCluster_REPLY_TOPIC", "--exists-ok")
    assert "DefaultCluster_REPLY_TOPIC" not in listed(ariane_json)
    assert listed(ariane_json, "--system")["DefaultCluster_REPLY_TOPIC"]["read_queues"] == 8


def test_a_topic_lies_where_it_is_wanted(ariane, ariane_json):
    ariane(
        *("topic", "create", "here", "--queues", "2", "--broker", "broker-b"),
        *("--type", "fifo", "--permission", "6"),
    )
    assert layout(ariane_json, "here") == {"broker-b": (2, 2, "read-write", "fifo")}
    assert "broker-b" in ariane("topic", "show", "here", "--brokers")
    err = ariane("topic", "create", "there", "--broker", "broker-z", status=ExitStatus.NOT_FOUND)
    assert "broker-z" in err
    err = ariane("topic", "create", "there", "--cluster", "other", status=ExitStatus.NOT_FOUND)
    assert "other" in err


def test_a_topic_is_changed_on_all_brokers_or_on_some(ariane, ariane_json):
    ariane("topic", "create", "changing", "--queues", "4", "--cluster", "DefaultCluster")
    rows = ariane_json("topic", "update", "changing", "--retention", "12h")
    assert {row["attributes"]["retention.ms"] for row in rows} == {"43200000"}
    assert {row["retention"] for row in rows} == {"12h"}
    err = ariane(
        *("topic", "update", "changing", "--retention", "0.0004s"), status=ExitStatus.USAGE
    )
    assert "'0.0004s': retention has a part of a millisecond" in err
    assert listed(ariane_json)["changing"]["retention"] == "12h"
    ariane("topic", "update", "changing", "--retention", "1d12h", "--broker", "broker-a")
    assert listed(ariane_json)["changing"]["retention"] == "differs"
    queues = ariane_json("topic", "show", "changing")
    assert {(row["broker"], row["retention"]) for row in queues} == {
        ("broker-a", "1d12h"),
        ("broker-b", "12h"),
    }
    assert "retention" in ariane("topic", "show", "changing").split("─")[0]
    for ended in ("broker's", "0", "0s"):
        rows = ariane_json("topic", "update", "changing", "--retention", ended)
        assert {row["retention"] for row in rows} == {"broker's"}
    assert "retention" not in ariane("topic", "show", "changing").split("─")[0]
    assert all(row["attributes"] == {} for row in rows)
    rows = ariane_json("topic", "update", "changing", "--write-queues", "2")
    assert [row["write_queues"] for row in rows] == [2, 2]
    ariane("topic", "update", "changing", "--permission", "read", "--broker", "broker-a")
    ariane("topic", "update", "changing", "--type", "normal", "--read-queues", "3")
    assert layout(ariane_json, "changing") == {
        "broker-a": (3, 2, "read", "normal"),
        "broker-b": (3, 2, "read-write", "normal"),
    }


def test_a_topic_is_purged_by_the_clocks_of_its_brokers_and_shown_again(ariane, ariane_json, lines):
    ariane("topic", "create", "purged", "--queues", "1")
    ariane("produce", "purged", lines("a", "b", "c"))
    would = ariane_json("topic", "purge", "purged", "--dry-run")
    assert (would["messages"], would["brokers"], would["dry_run"]) == (3, 2, True)
    none = ariane_json("topic", "purge", "purged", "--before", "-1d", "--dry-run")
    assert none["messages"] == 0
    assert ariane_json("topic", "purge", "purged", "--yes")["messages"] == 3
    since = since_of(ariane_json)
    # A later one of an earlier time shows nothing again.
    ariane("topic", "purge", "purged", "--before", "-1d", "--yes")
    assert since_of(ariane_json) == since
    ariane("topic", "purge", "purged", "--undo", "--before", "-1d", status=ExitStatus.USAGE)
    shown = ariane("topic", "purge", "purged", "--undo")
    assert shown == (
        "Shows, within 10 s, all messages of topic purged again that are still on 2 brokers.\n"
    )
    assert since_of(ariane_json) == {None}
    ariane("topic", "purge", "nowhere", "--yes", status=ExitStatus.NOT_FOUND)


def since_of(ariane_json):
    rows = ariane_json("topic", "show", "purged", "--brokers")
    return {row["attributes"].get("shown.since.ms") for row in rows}


def test_a_topic_that_is_there_otherwise_than_wanted_is_told(ariane, capfd):
    ariane("topic", "create", "otherwise", "--queues", "3", "--broker", "broker-b")
    wanted = ("topic", "create", "otherwise", "--exists-ok", "--broker", "broker-b")
    assert main([*wanted, "--queues", "3"]) == ExitStatus.DONE
    assert capfd.readouterr().err == ""
    assert main([*wanted, "--queues", "5", "--permission", "read"]) == ExitStatus.DONE
    [line] = capfd.readouterr().err.splitlines()
    assert line == (
        "ariane: warning: otherwise is on broker-b with 3 read and 3 write queues, read-write, any,"
        " retention broker's: ariane topic update changes it"
    )


def test_words_are_taken_in_the_capitals_that_help_shows(ariane, ariane_json):
    assert "READ-WRITE|READ|WRITE|NONE" in ariane("topic", "create", "--help")
    ariane("topic", "create", "capitals", "--permission", "READ", "--type", "FIFO")
    assert set(layout(ariane_json, "capitals").values()) == {(4, 4, "read", "fifo")}


def test_changes_that_make_no_sense(ariane):
    ariane("topic", "create", "sense")
    ariane("topic", "update", "sense", status=ExitStatus.USAGE)
    err = ariane("topic", "update", "sense", "--permission", "7", status=ExitStatus.USAGE)
    assert "read-write (6)" in err
    ariane("topic", "update", "nowhere", "--write-queues", "2", status=ExitStatus.NOT_FOUND)
    err = ariane("topic", "create", "%RETRY%x", status=ExitStatus.REFUSED)
    assert "reserved" in err.lower() or "system" in err.lower()


def test_deleting_asks_first(ariane, ariane_json):
    ariane("topic", "create", "doomed")
    err = ariane("topic", "delete", "doomed", status=ExitStatus.USAGE)
    assert "--yes" in err
    assert "doomed" in listed(ariane_json)
    assert ariane_json("topic", "delete", "doomed", "--yes") == {"topic": "doomed", "brokers": 2}
    assert "doomed" not in listed(ariane_json)
    ariane("topic", "delete", "doomed", "--yes", status=ExitStatus.NOT_FOUND)
    ariane("topic", "delete", "doomed", "--yes", "--missing-ok")


def test_a_person_may_say_no(ariane, monkeypatch, ariane_json):
    ariane("topic", "create", "spared")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("ariane_admin.terminal.confirmation.click.confirm", lambda *_a, **_k: False)
    err = ariane("topic", "delete", "spared", status=ExitStatus.REFUSED)
    assert err == "ariane: nothing was done [REFUSED]\n"
    assert "spared" in listed(ariane_json)


def test_topics_of_the_system_are_listed_when_asked_for(ariane_json):
    own = {row["topic"] for row in ariane_json("topic", "list")}
    everything = {row["topic"] for row in ariane_json("topic", "list", "--system")}
    assert "TBW102" in everything - own


def test_a_topic_takes_only_what_it_is_for(ariane, lines):
    ariane("topic", "create", "delayed-only", "--type", "delay")
    err = ariane("produce", "delayed-only", lines("now"), status=ExitStatus.REFUSED)
    assert "delayed-only" in err


def test_a_fifo_topic_keeps_the_order_of_its_queues(ariane, ariane_json):
    ariane("topic", "create", "trades", "--queues", "2", "--type", "fifo")
    fixed = ariane_json("topic", "order", "trades")
    assert fixed == {
        "topic": "trades",
        "queue_order": "broker-a:2;broker-b:2",
        "brokers": [
            {"broker": "broker-a", "queues": 2, "live": 2},
            {"broker": "broker-b", "queues": 2, "live": 2},
        ],
    }
    assert "broker-a:2;broker-b:2" in ariane("topic", "order", "trades")
    shown = ariane_json("topic", "show", "trades")
    assert [row["order_place"] for row in shown] == [0, 1, 2, 3]
    assert "order place" in ariane("topic", "show", "trades")


def test_an_order_changes_only_when_somebody_says_so(ariane, ariane_json):
    ariane("topic", "create", "grown", "--queues", "1", "--type", "fifo")
    ariane("topic", "update", "grown", "--write-queues", "2", "--read-queues", "2")
    ariane("topic", "create", "grown", "--queues", "2", "--type", "fifo", "--exists-ok")
    kept = ariane_json("topic", "order", "grown")
    assert kept["queue_order"] == "broker-a:1;broker-b:1"
    assert [row["live"] for row in kept["brokers"]] == [2, 2]
    places = [row["order_place"] for row in ariane_json("topic", "show", "grown")]
    assert places == [0, None, 1, None]
    assert "--yes" in ariane("topic", "order", "grown", "--set", status=ExitStatus.USAGE)
    fixed = ariane_json("topic", "order", "grown", "--set", "--yes")
    assert fixed["queue_order"] == "broker-a:2;broker-b:2"
    cleared = ariane_json("topic", "order", "grown", "--clear", "--yes")
    assert cleared["queue_order"] == ""
    assert [row["queues"] for row in cleared["brokers"]] == [0, 0]
    assert "none: message groups move" in ariane("topic", "order", "grown")
    assert "order place" not in ariane("topic", "show", "grown")


def test_the_order_of_a_topic_goes_with_its_last_broker(ariane, ariane_json):
    ariane("topic", "create", "anew", "--queues", "1", "--type", "fifo")
    ariane("topic", "delete", "anew", "--broker", "broker-a", "--yes")
    assert ariane_json("topic", "order", "anew")["queue_order"] == "broker-a:1;broker-b:1"
    ariane("topic", "delete", "anew", "--broker", "broker-b", "--yes")
    ariane("topic", "create", "anew", "--queues", "2", "--type", "fifo", "--broker", "broker-b")
    assert ariane_json("topic", "order", "anew")["queue_order"] == "broker-b:2"
    ariane("topic", "delete", "anew", "--yes")
    ariane("topic", "create", "anew", "--queues", "3")
    assert ariane_json("topic", "order", "anew")["queue_order"] == ""


@pytest.fixture
def away(cluster):
    """Makes a broker that has a topic of type FIFO, with its order of queues, and has left."""
    made = {}

    def make(topic):
        broker = RegisteredBroker(cluster.name_servers.split(","), topic, ordered=True)
        made[topic] = broker
        broker.registers()
        with sync.ClusterClient(cluster.name_servers) as client:
            client.keep_queue_order(topic)
        broker.leaves()
        return broker

    yield make
    with sync.ClusterClient(cluster.name_servers) as client:
        for topic, broker in made.items():
            broker.close()
            client.forget_queue_order(topic)


def order_of_missing(cluster, topic):
    with sync.ClusterClient(cluster.name_servers) as client, pytest.raises(RouteNotFound) as error:
        client.route(topic)
    return error.value.metadata.get("queue_order", "")


def test_a_topic_whose_only_broker_is_away_is_not_gone(ariane, cluster, away):
    broker = away("far-away")
    for words in ("--yes",), ("--yes", "--missing-ok"), ("--dry-run", "--missing-ok"):
        err = ariane("topic", "delete", "far-away", *words, status=ExitStatus.UNREACHABLE)
        assert f"{TESTER} had it and may come back" in err
    ariane("topic", "show", "far-away", status=ExitStatus.UNREACHABLE)
    assert order_of_missing(cluster, "far-away") == f"{TESTER}:2"
    broker.is_forgotten()
    ariane("topic", "delete", "far-away", "--yes", status=ExitStatus.NOT_FOUND)
    assert order_of_missing(cluster, "far-away") == ""


def test_a_topic_is_deleted_where_brokers_are_and_known_to_be_where_one_is_away(
    ariane, cluster, away
):
    away("half-away")
    ariane("topic", "create", "half-away", "--queues", "1", "--type", "fifo")
    err = ariane("topic", "delete", "half-away", "--yes", status=ExitStatus.UNREACHABLE)
    assert f"{TESTER} had it and may come back with it" in err
    assert "2 of 3 brokers did it" in err
    assert order_of_missing(cluster, "half-away").startswith(TESTER)
    with sync.ClusterClient(cluster.name_servers) as client:
        client.create_topic("half-away", queue_count=1)
        with pytest.raises(RouteNotFound, match=f"but {TESTER} had it") as error:
            client.delete_topic("half-away")
        assert error.value.retriable
    assert order_of_missing(cluster, "half-away").startswith(TESTER)


@pytest.mark.slow
def test_name_servers_that_do_not_keep_an_order_are_told_again(ariane, ariane_json, cluster, capfd):
    def frozen(*arguments):
        capfd.readouterr()
        os.kill(cluster.name_server_processes[0].pid, signal.SIGSTOP)
        try:
            status = main(arguments)
        finally:
            os.kill(cluster.name_server_processes[0].pid, signal.SIGCONT)
        # That depends on whether gRPC still has a connection of an earlier command.
        assert status in (ExitStatus.UNREACHABLE, ExitStatus.OUTCOME_UNKNOWN)
        return capfd.readouterr().err

    told = frozen("topic", "create", "half-known", "--queues", "1", "--type", "fifo")
    assert "1 of 2 name servers did it" in told
    assert "half-known" not in listed(ariane_json)
    ariane("topic", "create", "half-known", "--queues", "1", "--type", "fifo")
    told = frozen("topic", "delete", "half-known", "--yes")
    assert "repeat it when they answer" in told
    ariane("topic", "delete", "half-known", "--missing-ok", "--yes")
    ariane("topic", "create", "half-known", "--queues", "1")
    for _ in cluster.name_server_processes * 4:
        assert ariane_json("topic", "order", "half-known")["queue_order"] == ""


def test_name_servers_that_keep_no_order_refuse_before_a_fifo_topic_is_made(tmp_path, capfd):
    """A name server without a folder forgets what it is told, and so takes no order."""
    log = tmp_path / "namesrv.log"
    here = LocalCluster(tmp_path, extra_broker_args=SMALL_STORE)
    here.name_server_processes = [
        ServiceProcess("namesrv-0", "ariane_namesrv", (), log, Address("127.0.0.1", 0))
    ]
    with here:
        told = ("--name-servers", here.name_servers)
        assert main(["topic", "create", "trades", "--type", "fifo", *told]) == ExitStatus.REFUSED
        assert "--data-path" in capfd.readouterr().err
        assert main(["topic", "show", "trades", *told]) == ExitStatus.NOT_FOUND
        assert main(["topic", "create", "trades", *told]) == ExitStatus.DONE


def test_orders_that_make_no_sense(ariane):
    ariane("topic", "order", "nowhere", status=ExitStatus.NOT_FOUND)
    ariane("topic", "create", "plain")
    ariane("topic", "order", "plain", "--set", "--clear", status=ExitStatus.USAGE)


def test_queues_that_nobody_reads_need_force_and_are_told(ariane, ariane_json, cluster, capfd):
    ariane("topic", "create", "hidden", "--queues", "1", "--broker", "broker-a")
    said = ariane("topic", "update", "hidden", "--write-queues", "3", status=ExitStatus.REFUSED)
    assert "only 1 read" in said
    assert "--queues" in said
    ariane("topic", "update", "hidden", "--queues", "2")
    both = ariane("topic", "update", "hidden", "--queues", "2", "--read-queues", "1", status=2)
    assert "--queues sets both" in both
    rows = ariane_json("topic", "update", "hidden", "--write-queues", "3", "--force", "--yes")
    assert [(row["read_queues"], row["write_queues"]) for row in rows] == [(2, 3)]
    lost = MessageQueue("hidden", "broker-a", 2)
    with sync.Producer(cluster.name_servers) as producer:
        producer.send(Message("hidden", b"x"), message_queue=lost)
    assert [
        row["unread_messages"] for row in ariane_json("topic", "show", "hidden", "--brokers")
    ] == [1]
    capfd.readouterr()
    assert main(["doctor"]) == ExitStatus.FAILED
    assert "that no consumer may read" in capfd.readouterr().out
    ariane("topic", "update", "hidden", "--queues", "3")
    assert "that no consumer may read" not in ariane("doctor")


def test_a_list_loads_neither_numpy_nor_what_sends_and_consumes(cluster):
    """Of 0.4 seconds for an answer, loading what is not needed would take more than half."""
    program = (
        "import sys\n"
        "from ariane_admin.cli import main\n"
        f"assert main(['topic', 'list', '--name-servers', {cluster.name_servers!r}]) == 0\n"
        "heavy = {'numpy', 'pyarrow', 'yaml', 'sqlalchemy', 'opentelemetry', 'pyspark',"
        " 'ariane_sdk.producer', 'ariane_sdk.message', 'ariane_sdk.consumer.consumer_life',"
        " 'pydantic', 'structlog', 'ariane_admin.asking.changing.changes'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
