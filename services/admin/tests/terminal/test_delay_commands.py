"""Messages for later from the command line, and taking them back, against a real cluster."""

import json
from datetime import UTC, datetime, timedelta

import click
import pytest

from ariane_admin.terminal.exits import ExitStatus
from ariane_admin.terminal.waits import WaitType

LATER = ("consume", "later", "--from", "earliest", "--no-follow")


@pytest.fixture
def later(ariane):
    ariane("topic", "create", "later", "--exists-ok")
    return ariane


def test_messages_come_after_a_delay_at_a_time_and_by_level(later, lines):
    soon = datetime.now(UTC) + timedelta(seconds=1)
    far = (soon + timedelta(hours=1)).isoformat()
    later("produce", "later", lines("delayed"), "--delay", "1s200ms")
    later("produce", "later", lines("timed"), "--at", soon.isoformat())
    later("produce", "later", lines("of a level"), "--delay-level", "1")
    own = json.dumps({"body": "far", "deliver_at": far})
    later("produce", "later", lines(own), "--input", "json", "--delay", "1ms")
    assert later(*LATER) == ""
    came = later("consume", "later", "--from", "earliest", "--count", "3")
    assert sorted(came.splitlines()) == ["delayed", "of a level", "timed"]


def test_a_delayed_message_is_recalled_by_its_handle(later, ariane_json, lines, tmp_path):
    file = tmp_path / "handles"
    later("produce", "later", lines("a", "b"), "--delay", "1d", "--handles", str(file))
    first, second = file.read_text().split()
    assert "of later will not be delivered" in later("message", "recall", first)
    for _ in range(2):
        assert ariane_json("message", "recall", second)["topic"] == "later"
    later("produce", "later", lines("soon"), "--delay", "1ms", "--handles", str(file))
    later("consume", "later", "--from", "earliest", "--count", "1")
    err = later("message", "recall", file.read_text().strip(), status=ExitStatus.REFUSED)
    assert "delivered" in err
    err = later("message", "recall", "nonsense", status=ExitStatus.USAGE)
    assert "'nonsense': no recall handle" in err


def test_handles_that_cannot_be_kept_are_told_before_anything_is_sent(later, lines, ariane_json):
    later("topic", "create", "unkept")
    later(
        *("produce", "unkept", lines("a"), "--handles", "/nowhere/handles"),
        status=ExitStatus.USAGE,
    )
    assert later("consume", "unkept", "--from", "earliest", "--no-follow") == ""
    # This one opens, and takes nothing.
    err = later(
        *("produce", "unkept", lines("a"), "--delay", "1d", "--handles", "/dev/full"),
        status=ExitStatus.FAILED,
    )
    assert "(1 message sent)" in err


def test_a_broker_shows_what_waits(later, ariane_json, lines):
    def shown():
        return [ariane_json("broker", "show", f"broker-{letter}") for letter in "ab"]

    def by_level():
        return sum(each["delayed_pending"] - each["delayed_pending_timed"] for each in shown())

    before = by_level()
    later("produce", "later", lines("a", "b"), "--delay-level", "17")
    levels = [level for each in shown() for level in each["delay_levels"] if level["level"] == 17]
    assert {level["wait"] for level in levels} == {"1:00:00"}
    assert sum(level["pending"] for level in levels) == 2
    assert by_level() == before + 2
    assert all(each["delayed_lateness_ms_max"] >= 0 for each in shown())


def test_delayed_messages_of_a_topic_are_listed_with_their_times(ariane, ariane_json, lines):
    ariane("topic", "create", "parked")
    at = (datetime.now(UTC) + timedelta(hours=3)).replace(microsecond=0)
    ariane("produce", "parked", lines("a"), "--at", at.isoformat(), "--tag", "eu", "--key", "k1")
    ariane("produce", "parked", lines("b"), "--delay", "1d")
    ariane("produce", "parked", lines("c", "d"), "--delay-level", "18")

    waiting = ariane_json("message", "delayed", "--topic", "parked")

    assert [each["level"] for each in waiting] == [18, 18, None, None]
    timed = waiting[2]
    assert (timed["tag"], timed["keys"], timed["body_bytes"]) == ("eu", ["k1"], 1)
    assert datetime.fromisoformat(timed["due"]) == at
    ariane("message", "recall", timed["recall_handle"])
    left = ariane_json("message", "delayed", "--topic", "parked")
    assert [each["unique_id"] for each in left] == [
        each["unique_id"] for each in waiting if each is not timed
    ]
    assert left[2]["recall_handle"] in ariane("message", "delayed", "--topic", "parked")
    assert len(ariane_json("message", "delayed", "--topic", "parked", "--count", "1")) == 1
    err = ariane("message", "delayed", "--topic", "nowhere", status=ExitStatus.NOT_FOUND)
    assert "nowhere" in err


@pytest.mark.parametrize(
    "options",
    [
        ("--delay", "1s", "--delay-level", "1"),
        ("--delay", "soon"),
        ("--delay", ""),
        ("--at", "2026-12-01T08:00:00"),
        ("--delay-level", "0"),
    ],
)
def test_times_that_make_no_sense(later, lines, options):
    later("produce", "later", lines("a"), *options, status=ExitStatus.USAGE)


def test_a_line_whose_time_has_no_zone(later, lines):
    line = json.dumps({"body": "a", "deliver_at": "2026-12-01T08:00:00"})
    err = later("produce", "later", lines(line), "--input", "json", status=ExitStatus.USAGE)
    assert "line 1 is no message: its deliver_at " in err
    assert "is no time with a zone" in err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("1h30m", 5400), ("2d", 172_800), ("1.5s", 1.5), ("9ms", 0.009)],
)
def test_lengths_of_time(text, seconds):
    assert WaitType().convert(text, None, None) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1m1h", "-1s", "1w"])
def test_no_lengths_of_time(text):
    with pytest.raises(click.BadParameter):
        WaitType().convert(text, None, None)
