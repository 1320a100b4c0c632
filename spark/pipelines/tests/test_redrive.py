"""Dead letters repaired and sent back, each once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

from ariane.broker.v1.topic_service_pb2 import Topic
from ariane.common.v1.message_pb2 import MessageType
from ariane_pipelines import LetterFilter, RedrivePlan, dead_letters, redrive
from ariane_pipelines.commands import spark as spark_commands
from ariane_pipelines.redrive_ledger import RedriveLedger
from ariane_pipelines.redriving import agreed_types, check_plan
from ariane_pipelines.repairs import DROPPED, FAILED, SENT, Letter, Repairing, unchanged
from ariane_spark.errors import OptionIllegal

NOON = datetime(2013, 2, 8, 12, tzinfo=UTC)
LETTERS_KILLED = 200

LETTERS = pa.schema(
    [
        ("place", pa.string()),
        ("died", pa.timestamp("us", "America/New_York")),
        ("topic", pa.string()),
        ("reason", pa.string()),
        ("lastError", pa.string()),
        ("attempts", pa.int32()),
        ("body", pa.binary()),
        ("tag", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("messageGroup", pa.string()),
        ("properties", pa.map_(pa.string(), pa.string())),
    ]
)


def batch_of(*bodies):
    rows = [
        {
            "place": f"broker-a/0/{at}",
            "died": NOON,
            "topic": "orders",
            "reason": "REJECTED",
            "lastError": "no",
            "attempts": 1,
            "body": body,
            "tag": None,
            "keys": ["k"],
            "messageGroup": "g",
            "properties": [("colour", "red")],
        }
        for at, body in enumerate(bodies)
    ]
    return pa.RecordBatch.from_pylist(rows, LETTERS)


def decide(function, *bodies, on_tables=False, target=None, types=MappingProxyType({})):
    repairing = Repairing(function, on_tables, target, frozenset({"orders", "other"}), types)
    return repairing(batch_of(*bodies).to_struct_array()).to_pylist()


def mend(letter):
    """Drops 0, fails on 1, mends the others."""
    number = int(letter.body)
    if number == 0:
        return None
    if number == 1:
        raise KeyError("currency")
    return replace(letter, body=b"mended %d" % number, properties={**letter.properties, "by": "me"})


def test_a_function_repairs_drops_and_fails():
    dropped, failed, sent = decide(mend, b"0", b"1", b"2")

    assert (dropped["outcome"], dropped["body"]) == (DROPPED, None)
    assert (failed["outcome"], failed["cause"]) == (FAILED, "KeyError: 'currency'")
    assert (sent["outcome"], sent["body"], sent["topic"]) == (SENT, b"mended 2", "orders")
    assert sent["properties"] == [("colour", "red"), ("by", "me")]
    assert (sent["origin"], sent["reason"], sent["died"]) == ("orders", "REJECTED", NOON)


def test_a_letter_is_as_documented():
    seen = []
    decide(seen.append, b"x")

    assert seen == [
        Letter(
            place="broker-a/0/0",
            died=NOON,
            reason="REJECTED",
            last_error="no",
            attempts=1,
            topic="orders",
            body=b"x",
            keys=("k",),
            message_group="g",
            properties={"colour": "red"},
        )
    ]
    assert seen[0].died.tzinfo is UTC


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"topic": "nowhere"}, "LookupError: there is no topic 'nowhere'"),
        ({"body": 5}, "TypeError: its body is int"),
        ({"keys": "one"}, "TypeError: its keys are one text"),
        ({"keys": ["with space"]}, "keys"),
        ({"tag": "a||b"}, "tag"),
        ({"tag": 7}, ""),
        ({"properties": {"KEYS": "x"}}, "properties"),
        ({"body": b"x" * (5 << 20)}, "bytes"),
    ],
)
def test_what_no_topic_would_take_fails_alone(change, cause):
    def spoil(letter):
        return replace(letter, **change) if letter.body == b"1" else letter

    outcomes = decide(spoil, b"0", b"1", b"2")

    assert [each["outcome"] for each in outcomes] == [SENT, FAILED, SENT]
    assert cause in outcomes[1]["cause"]
    assert outcomes[1]["body"] is None


@pytest.mark.parametrize(
    ("kind", "message_group", "cause"),
    [
        ("FIFO", "", "is of type FIFO and takes only messages with a message group"),
        ("FIFO", "g", None),
        ("NORMAL", "g", "is of type NORMAL and takes no messages with a message group"),
        ("NORMAL", "", None),
        ("DELAY", "", "takes only messages of type DELAY"),
        ("TRANSACTION", "g", "takes only messages of type TRANSACTION"),
    ],
)
def test_a_letter_that_its_topic_would_not_take_fails(kind, message_group, cause):
    def regroup(letter):
        return replace(letter, message_group=message_group)

    (outcome,) = decide(regroup, b"0", types={"orders": kind})

    if cause is None:
        assert outcome["outcome"] == SENT
    else:
        assert outcome["outcome"] == FAILED
        assert cause in outcome["cause"]


def test_a_type_about_which_brokers_disagree_is_left_to_the_send():
    fifo, normal = MessageType.MESSAGE_TYPE_FIFO, MessageType.MESSAGE_TYPE_NORMAL
    of_brokers = [
        *(("same", fifo), ("other", fifo), ("half", fifo), ("none", None)),
        *(("same", fifo), ("other", normal), ("half", None), ("none", None)),
    ]

    types = agreed_types(Topic(topic=topic, message_type=kind) for topic, kind in of_brokers)

    assert types == {"same": "FIFO"}


def test_what_is_no_letter_fails():
    (outcome,) = decide(lambda letter: letter.body, b"0")

    assert outcome["cause"] == "TypeError: it gave bytes, not a Letter"


def test_all_go_to_one_topic_where_that_is_wanted():
    assert [each["topic"] for each in decide(unchanged, b"0", target="other")] == ["other"]


def test_a_function_on_tables():
    def upper(table):
        assert table.column_names == LETTERS.names
        kept = table.filter(pc.not_equal(table["body"], b"drop"))
        bodies = pc.utf8_upper(kept["body"].cast(pa.string()))
        return pa.table({"place": kept["place"], "body": bodies})

    sent, dropped = decide(upper, b"send", b"drop", on_tables=True)

    assert (sent["outcome"], sent["body"], sent["keys"]) == (SENT, b"SEND", ["k"])
    assert sent["properties"] == [("colour", "red")]
    assert dropped["outcome"] == DROPPED


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        (lambda table: pa.concat_tables([table, table]), "2 rows for one letter"),
        (lambda table: table.drop(["place"]), "without a place"),
        (lambda table: table.set_column(0, "place", [["elsewhere"] * 2]), "elsewhere"),
        (lambda table: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_function_on_tables_that_goes_wrong(function, cause):
    outcomes = decide(function, b"0", b"1", on_tables=True)

    assert [each["outcome"] for each in outcomes] == [FAILED, FAILED]
    assert all(cause in each["cause"] for each in outcomes)


def test_a_plan_that_makes_no_sense_is_refused():
    good = {"endpoints": "a:1", "group": "billing", "state": "x"}
    no_zone = LetterFilter(since=NOON.replace(tzinfo=None))

    check_plan(RedrivePlan(**good))
    for change, clause in (
        ({"group": "%DLQ%x"}, "belongs to the system"),
        ({"group": "no group"}, "characters of A-Z"),
        ({"repair": mend, "repair_table": mend}, "one function is enough"),
        ({"wanted": no_zone}, "need a time zone"),
    ):
        with pytest.raises(OptionIllegal, match=clause):
            check_plan(RedrivePlan(**{**good, **change}))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_dead_letters_are_mended_and_sent_back_once(
    spark, local_cluster, new_topic, give_up, reading, bodies_of, plan
):
    topic = new_topic()
    group = f"group-{topic}"
    assert dead_letters(spark, local_cluster.name_servers, group).count() == 0
    give_up(group, topic, range(40))

    first = redrive(spark, plan(group, repair=mend))

    assert (first.sent_count, first.dropped_count, first.failed_count) == (38, 1, 1)
    assert [(each.last_error, each.letter_count) for each in first.reasons] == [
        ("no currency", 26),
        ("no amount", 14),
    ]
    assert {(each.topic, each.reason) for each in first.reasons} == {(topic, "REJECTED")}
    assert sorted((each.outcome, each.cause) for each in first.kept) == [
        (DROPPED, ""),
        (FAILED, "KeyError: 'currency'"),
    ]
    rows = reading(topic).load().collect()
    sent = {bytes(r.body): r for r in rows if "redrivenFrom" in r.properties}
    assert Counter(bytes(row.body) for row in rows) == Counter(
        [*(b"%d" % n for n in range(40)), *(b"mended %d" % n for n in range(2, 40))]
    )
    letters = {
        int(row.body): row
        for row in dead_letters(spark, local_cluster.name_servers, group).collect()
    }
    for n in range(2, 40):
        row = sent[b"mended %d" % n]
        assert (row.tag, row["keys"], row.messageGroup) == (
            "currency" if n % 3 else "amount",
            [f"key-{n}"],
            f"g{n % 4}",
        )
        assert row.properties.keys() == {"number", "by", "redrivenFrom", "messageId"}
        assert row.properties["redrivenFrom"] == f"{group}/{letters[n].place}"
    # What was kept goes once there is something better; the slow tests have what died since.
    last = redrive(spark, plan(group))
    assert (last.sent_count, last.sent_before_count) == (2, 38)
    assert bodies_of(topic) == Counter(bytes(row.body) for row in rows) + Counter([b"0", b"1"])
    with pytest.raises(OptionIllegal, match=f"is that of group {group}"):
        redrive(spark, plan("others", dry_run=True))


class Struck(Exception):
    """The process died here."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "step", ["decide", "mark_planned", "before sending", "between topics", "mark_sent"]
)
def test_a_redrive_that_died_is_finished_by_the_next(
    spark, new_topic, give_up, bodies_of, plan, monkeypatch, step
):
    topics = [new_topic(), new_topic(), new_topic()]
    group = f"group-{topics[0]}"
    for topic, numbers in zip(topics[:2], (range(2, 20), range(20, 40)), strict=True):
        give_up(group, topic, numbers)
    with monkeypatch.context() as patch:
        if step in {"decide", "mark_planned", "mark_sent"}:
            done = getattr(RedriveLedger, step)

            def strike(*arguments, **options):
                if step == "decide":
                    done(*arguments)
                raise Struck

            patch.setattr(RedriveLedger, step, strike)
        else:
            drawn = iter([True] if step == "between topics" else [])
            identity = RedriveLedger.identity

            def strike(ledger):
                if not next(drawn, False):
                    raise Struck
                return identity(ledger)

            patch.setattr(RedriveLedger, "identity", strike)
        with pytest.raises(Struck):
            redrive(spark, plan(group, repair=mend))
    give_up(group, topics[2], range(40, 44))

    report = redrive(spark, plan(group, repair=mend))
    again = redrive(spark, plan(group, repair=mend))

    assert (again.letter_count, again.finished_count, again.sent_before_count) == (0, 0, 42)
    planned = step not in {"decide", "mark_planned"}
    assert (report.finished_count, report.sent_count) == ((38, 4) if planned else (0, 42))
    found = sum((bodies_of(topic) for topic in topics), Counter())
    mended = Counter({body: n for body, n in found.items() if body.startswith(b"mended")})
    assert mended == Counter(b"mended %d" % n for n in range(2, 44))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_killed_redrives_send_each_letter_once(
    local_cluster, new_topic, give_up, bodies_of, tmp_path
):
    topic, group = new_topic(), "killed-redrive"
    give_up(group, topic, range(LETTERS_KILLED))
    job = [sys.executable, str(Path(__file__).with_name("redriving_job.py"))]

    def start():
        return subprocess.Popen(
            [*job, local_cluster.name_servers, group, str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    for number, sight in ((1, "decisions/_SUCCESS"), (1, "planned")):
        process = start()
        while not (tmp_path / "state" / f"run-00000{number}" / sight).exists():
            assert process.poll() is None
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    process = start()
    told, _ = process.communicate(timeout=300)

    # The second one died while it sent, or was just done with it.
    finished = {f"({count}, 0, {LETTERS_KILLED})\n" for count in (LETTERS_KILLED, 0)}
    assert told in finished
    bodies = bodies_of(topic)
    mended = {body: count for body, count in bodies.items() if body.startswith(b"mended")}
    assert mended == {b"mended %d" % n: 1 for n in range(LETTERS_KILLED)}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_command(spark, local_cluster, new_topic, give_up, bodies_of, tmp_path, monkeypatch):
    topic, other = new_topic(), new_topic()
    group = f"group-{topic}"
    give_up(group, topic, range(10))
    (tmp_path / "my_fixes.py").write_text(
        "from dataclasses import replace\n"
        "def fix(letter):\n"
        "    if letter.body == b'3':\n"
        "        raise RuntimeError('three')\n"
        "    return replace(letter, body=letter.body + b'!')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("ariane_spark.spark_session.session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)

    def run(*arguments):
        words = ["redrive", group, "--state", str(tmp_path / "state"), "--to-topic", other]
        where = ["--name-servers", local_cluster.name_servers]
        return CliRunner().invoke(spark_commands, [*words, *where, *arguments])

    dry = run("--repair", "my_fixes:fix", "--dry-run")
    done = run("--repair", "my_fixes:fix", "-o", "json")
    again = run("--repair", "my_fixes:fix")

    assert dry.exit_code == 0, dry.output
    assert "9 of 10 dead letters" in dry.output
    assert "would be sent; 0 dropped, 1 failed" in dry.output
    told = json.loads(done.output)
    assert done.exit_code == 1
    assert (told["letter_count"], told["sent_count"], told["failed_count"]) == (10, 9, 1)
    assert [each["cause"] for each in told["kept"]] == ["RuntimeError: three"]
    assert {each["last_error"] for each in told["reasons"]} == {"no amount", "no currency"}
    assert again.exit_code == 1
    assert bodies_of(other).total() == 9
    assert "0 of 1 dead letter of" in again.output
    assert again.output.endswith("1 failed; 9 were sent before.\n")
    assert bodies_of(other) == Counter(b"%d!" % n for n in range(10) if n != 3)
    refused = run("--repair", "my_fixes:nothing")
    assert (refused.exit_code, refused.output.count("\n")) == (1, 1)
    assert "my_fixes:nothing" in refused.output
