"""``ariane group`` against a real cluster."""

import asyncio
import json

import pytest

from ariane_admin.cli import main
from ariane_admin.doctor import member_rules
from ariane_admin.terminal.exits import ExitStatus
from ariane_sdk import PushConsumer
from ariane_sdk.errors import GroupRefused


@pytest.fixture
def consumed(ariane, lines):
    """Make a topic with three messages in one queue, of which a group has consumed two."""

    def make(topic, group):
        ariane("topic", "create", topic, "--queues", "1", "--broker", "broker-a")
        ariane("produce", topic, lines("one", "two", "three"), "--group", "all")
        member = ("consume", topic, "--group", group, "--from", "earliest")
        assert ariane(*member, "--count", "2") == "one\ntwo\n"

    return make


def test_a_group_and_its_backlog(ariane, ariane_json, consumed):
    consumed("g-orders", "g-billing")
    [row] = [row for row in ariane_json("group", "list") if row["group"] == "g-billing"]
    assert (row["members"], row["lag"]) == (0, 1)
    assert row["topics"][-1] == "g-orders"
    shown = ariane_json("group", "show", "g-billing")
    assert (shown["group"], shown["lag"]) == ("g-billing", 1)
    assert shown["oldest"]
    assert (shown["member_list"], shown["conflicts"]) == ([], [])
    [queue] = [each for each in shown["queues"] if each["topic"] == "g-orders"]
    assert (queue["broker"], queue["consumer_offset"], queue["lag"]) == ("broker-a", 2, 1)
    text = ariane("group", "show", "g-billing")
    assert "Queues:" in text
    assert "Conflicts:" not in text


def test_messages_that_expired_before_a_group_got_them_are_counted(ariane, ariane_json, lines):
    ariane("topic", "create", "g-codes", "--queues", "1", "--broker", "broker-a")
    ariane("produce", "g-codes", lines("old", "older"), "--expire-after", "1ms")
    ariane("produce", "g-codes", lines("new"))
    member = ("consume", "g-codes", "--group", "g-late", "--from", "earliest", "--count", "1")
    assert ariane(*member) == "new\n"
    shown = ariane_json("group", "show", "g-late")
    assert shown["expired"] == 2
    [queue] = [each for each in shown["queues"] if each["topic"] == "g-codes"]
    assert (queue["expired"], queue["lag"]) == (2, 0)
    assert "expired" in ariane("group", "show", "g-late")


def test_groups_of_a_topic_are_listed(ariane_json, consumed):
    consumed("g-watched", "g-watchers")
    consumed("g-unwatched", "g-others")
    listed = ariane_json("group", "list", "--topic", "g-watched")
    assert [(row["group"], row["lag"]) for row in listed] == [("g-watchers", 1)]


def test_groups_of_a_store_from_java(ariane, ariane_json):
    named = {row["group"]: row for row in ariane_json("group", "list", "--system")}
    assert named.keys() > {"CID_ONSAPI_OWNER", "SELF_TEST_C_GROUP", "TOOLS_CONSUMER"}
    assert (named["TOOLS_CONSUMER"]["members"], named["TOOLS_CONSUMER"]["lag"]) == (0, 0)
    assert ariane_json("group", "show", "TOOLS_CONSUMER")["member_list"] == []
    own = {row["group"] for row in ariane_json("group", "list")}
    assert "TOOLS_CONSUMER" not in own
    assert "team|billing%old" in own
    assert ariane_json("group", "show", "team|billing%old")["lag"] == 0


def test_a_long_list_of_groups_is_cut_and_says_so(ariane, cluster, capfd, monkeypatch):
    monkeypatch.setenv("ARIANE_NAME_SERVERS", cluster.name_servers)
    assert main(["group", "list", "--system", "--count", "2", "-o", "json"]) == ExitStatus.DONE
    out, err = capfd.readouterr()
    assert [row["group"] for row in json.loads(out)] == ["CID_ONSAPI_OWNER", "SELF_TEST_C_GROUP"]
    assert "there are more than these 2: raise --count to see more" in err


def test_a_group_that_is_not_there(ariane):
    assert "nobody" in ariane("group", "show", "nobody", status=ExitStatus.NOT_FOUND)


def test_reset_to_places_and_times(ariane, ariane_json, consumed):
    consumed("g-reset", "g-resetters")

    def reset(*arguments):
        rows = ariane_json("group", "reset", "g-resetters", "g-reset", *arguments)
        return [(row["broker"], row["queue_id"], row["consumer_offset"]) for row in rows]

    def now():
        queues = ariane_json("group", "show", "g-resetters")["queues"]
        return [each["consumer_offset"] for each in queues if each["topic"] == "g-reset"]

    assert reset("--to", "earliest", "--dry-run") == [("broker-a", 0, 0)]
    assert now() == [2]
    assert reset("--to", "EARLIEST", "--yes") == [("broker-a", 0, 0)]
    assert now() == [0]
    assert reset("--to", "latest", "--yes") == [("broker-a", 0, 3)]
    assert reset("--to", "2020-01-01T00:00:00Z", "--yes") == [("broker-a", 0, 0)]
    assert reset("--queue", "broker-a:0=1", "--yes") == [("broker-a", 0, 1)]
    assert now() == [1]
    assert reset("--to", "-2h", "--yes") == [("broker-a", 0, 0)]
    assert reset("--to", "-1ms", "--yes") == []
    assert now() == [0]
    assert reset("--to", "-1ms", "--skip", "--dry-run") == [("broker-a", 0, 3)]


def test_a_reset_to_a_time_that_moves_nothing_says_so(ariane, cluster, capfd, consumed):
    consumed("g-ahead", "g-behind")
    reset = ("group", "reset", "g-behind", "g-ahead", "--to", "-1ms", "--yes")
    assert main([*reset, "--name-servers", cluster.name_servers]) == ExitStatus.DONE
    assert "group g-behind stands at or before that time; --skip" in capfd.readouterr().err
    assert main([*reset, "--skip", "--name-servers", cluster.name_servers]) == ExitStatus.DONE
    assert "warning" not in capfd.readouterr().err


def test_a_reset_shows_where_each_queue_stood(ariane, ariane_json, consumed):
    consumed("g-stood", "g-standing")
    reset = ("group", "reset", "g-standing", "g-stood", "--to")
    [row] = ariane_json(*reset, "earliest", "--yes")
    assert (row["offset_before"], row["consumer_offset"], row["moved"]) == (2, 0, -2)
    [row] = ariane_json(*reset, "latest", "--dry-run")
    assert (row["offset_before"], row["consumer_offset"], row["moved"]) == (0, 3, 3)
    assert "moved" in ariane(*reset, "latest", "--yes")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--to", "earliest"),
        ("--to", "earliest", "--queue", "broker-a:0=1", "--yes"),
        ("--queue", "broker-a:0", "--yes"),
        ("--queue", "broker-b:0=1", "--yes"),
        ("--to", "yesterday", "--yes"),
        ("--to", "9999-12-31T23:59:59-10:00", "--yes"),
        ("--queue", "broker-a:0=9223372036854775808", "--yes"),
        ("--queue", "broker-a:2147483648=0", "--yes"),
        ("--queue", "broker-a:²=1", "--yes"),
        ("--queue", f"broker-a:0={'9' * 5000}", "--yes"),
    ],
)
def test_resets_that_make_no_sense(ariane, arguments):
    ariane("topic", "create", "g-sense", "--broker", "broker-a", "--exists-ok")
    err = ariane("group", "reset", "g-any", "g-sense", *arguments, status=ExitStatus.USAGE)
    assert len(err.splitlines()) <= 4


def test_a_place_that_is_not_kept_is_refused(ariane, consumed):
    consumed("g-beyond", "g-outside")
    ariane(
        *("group", "reset", "g-outside", "g-beyond", "--queue", "broker-a:0=99", "--yes"),
        status=ExitStatus.REFUSED,
    )


def test_offsets_are_cloned(ariane, ariane_json, consumed):
    consumed("g-cloned", "g-first")
    rows = ariane_json("group", "clone", "g-first", "g-second", "g-cloned", "--yes")
    assert [row["consumer_offset"] for row in rows] == [2]
    assert ariane("consume", "g-cloned", "--group", "g-second", "--count", "1") == "three\n"


def test_a_group_is_not_cloned_to_itself(ariane):
    # Before anybody is asked: neither the group nor the topic is there.
    line = ariane("group", "clone", "g-self", "g-self", "g-none", status=ExitStatus.USAGE)
    assert (
        line == "ariane: source and target are the same group g-self: give another target [USAGE]\n"
    )


@pytest.mark.parametrize(
    ("command", "rule"),
    [
        (("topic", "create", "no name"), "1 to 127"),
        (("group", "delete", "no name", "--yes"), "1 to 120"),
    ],
)
def test_the_rule_for_names_is_stated_once(ariane, command, rule):
    [line] = ariane(*command, status=ExitStatus.USAGE).splitlines()
    assert line.count(rule) == 1
    assert line.count("A-Z a-z 0-9 _ - % and |") == 1


async def test_the_owner_of_each_queue_is_shown(ariane, ariane_json, cluster):
    await asyncio.to_thread(ariane, "topic", "create", "g-owned", "--queues", "2")
    await asyncio.to_thread(ariane, "consume", "g-owned", "--no-follow")

    async def listen(_messages):
        pass

    async with PushConsumer(
        cluster.name_servers,
        group="g-owners",
        subscriptions={"g-owned": "*"},
        listener=listen,
        start="earliest",
    ) as member:
        await member.wait_assigned()
        await asyncio.to_thread(
            ariane, "group", "reset", "g-owners", "g-owned", "--to", "latest", "--yes"
        )
        owners = set()
        async with asyncio.timeout(60):
            # A queue that was reset is taken over anew.
            while owners != {member.client_id}:
                shown = await asyncio.to_thread(ariane_json, "group", "show", "g-owners")
                owners = {each["owner"] for each in shown["queues"] if each["topic"] == "g-owned"}


async def test_a_queue_without_progress_is_named_by_the_doctor(
    ariane, ariane_json, lines, cluster, monkeypatch
):
    monkeypatch.setattr(member_rules, "STANDSTILL_SECONDS", 0.1)
    await asyncio.to_thread(ariane, "topic", "create", "g-still", "--queues", "1")
    await asyncio.to_thread(ariane, "produce", "g-still", lines("one", "two"))
    has_one, may_go_on = asyncio.Event(), asyncio.Event()

    async def listen(_messages):
        has_one.set()
        await may_go_on.wait()

    async with PushConsumer(
        cluster.name_servers,
        group="g-standing",
        subscriptions={"g-still": "*"},
        listener=listen,
        start="earliest",
        batch_size=1,
    ) as member:
        await has_one.wait()
        findings = []
        async with asyncio.timeout(60):
            while not findings:
                told = await asyncio.to_thread(ariane_json, "doctor")
                findings = [one for one in told if one["subject"] == "group g-standing"]
        [finding] = findings
        assert f"member {member.client_id}: " in finding["finding"]
        assert "g-still/broker-" in finding["finding"]
        may_go_on.set()


async def test_members_that_disagree_are_named_by_group_and_doctor(ariane, ariane_json, cluster):
    await asyncio.to_thread(ariane, "topic", "create", "g-conflict")

    async def listen(_messages):
        pass

    def member(tag):
        return PushConsumer(
            cluster.name_servers,
            group="g-quarrel",
            subscriptions={"g-conflict": tag},
            listener=listen,
        )

    async with member("paid") as first:
        await first.wait_assigned()
        with pytest.raises(GroupRefused):
            async with member("sent") as second:
                await second.run_until_stopped()
        shown = await asyncio.to_thread(ariane_json, "group", "show", "g-quarrel")
        findings = await asyncio.to_thread(ariane_json, "doctor")
    [inside] = shown["member_list"]
    assert inside["subscriptions"] == {"g-conflict": "paid"}
    [conflict] = shown["conflicts"]
    assert conflict["refused"]
    assert conflict["member"].startswith(inside["client_id"])
    assert "g-conflict" in conflict["difference"]
    [finding] = [one for one in findings if one["subject"] == "group g-quarrel"]
    assert "refused" in finding["finding"]


def test_a_group_is_paused_and_resumed(ariane, ariane_json, lines, capfd):
    ariane("topic", "create", "g-paused", "--queues", "1", "--broker", "broker-a")
    ariane("produce", "g-paused", lines("a", "b"))
    take = ("consume", "g-paused", "--group", "g-paused", "--from", "earliest", "--count", "1")
    ariane(*take)
    ariane("group", "retry", "g-paused", "--attempts", "7")
    assert "--yes" in ariane("group", "pause", "g-paused", status=ExitStatus.USAGE)
    assert not ariane_json("group", "pause", "g-paused", "--yes")["consume_enabled"]
    named = {row["group"]: row["paused"] for row in ariane_json("group", "list")}
    assert named["g-paused"] == ["broker-a", "broker-b"]
    assert not any(brokers for group, brokers in named.items() if group != "g-paused")
    assert ariane_json("group", "show", "g-paused")["paused"] == ["broker-a", "broker-b"]
    for command in ("show", "running"):
        capfd.readouterr()
        assert main(["group", command, "g-paused"]) == ExitStatus.DONE
        assert "paused on broker-a, broker-b" in capfd.readouterr().err
    [finding] = [one for one in ariane_json("doctor") if one["subject"] == "group g-paused"]
    assert (finding["severity"], "resume g-paused" in finding["advice"]) == ("note", True)
    assert ariane_json("group", "resume", "g-paused")["consume_enabled"]
    assert not any(row["paused"] for row in ariane_json("group", "list"))
    assert {row["attempts_max"] for row in ariane_json("group", "retry", "g-paused")} == {7}
    assert "b" in ariane(*take)
    ariane("group", "pause", "g-nobody", "--yes", status=ExitStatus.NOT_FOUND)
