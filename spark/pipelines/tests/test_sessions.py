"""Sessions per key, told once, with state that outlives the query."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner
from pyspark.errors import StreamingQueryException

from ariane_pipelines import SessionsPlan, session_counts, start_sessions
from ariane_pipelines.commands import spark as spark_commands
from ariane_pipelines.sessions import check_plan
from ariane_pipelines.sessions import sessions_of as closed_sessions
from ariane_sdk import Message
from ariane_spark.errors import OptionIllegal
from ariane_spark.records.columns import message_schema

BEGIN = datetime(2013, 1, 1, tzinfo=UTC)
GAP_MINUTES = 30
KEYS, VISITS, CLICKS = 6, 5, 4
"""Each key makes visits of some clicks, a minute apart; visits are two hours apart."""

NEVER = datetime(2013, 6, 1, tzinfo=UTC)


def instant(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def clicks_of(visits):
    """Clicks of some visits of all keys, in the order of their time."""
    return [
        (f"k{key}", BEGIN + timedelta(hours=2 * visit, minutes=click, seconds=key), key + click)
        for visit in visits
        for click in range(CLICKS)
        for key in range(KEYS)
    ]


def sessions_of(visits):
    """What must come out: key, begin, end, events, sum."""
    return Counter(
        (
            f"k{key}",
            instant(BEGIN + timedelta(hours=2 * visit, seconds=key)),
            instant(BEGIN + timedelta(hours=2 * visit, minutes=CLICKS - 1, seconds=key)),
            CLICKS,
            CLICKS * key + CLICKS * (CLICKS - 1) // 2,
        )
        for visit in visits
        for key in range(KEYS)
    )


@pytest.fixture
def click(producer):
    def click(topic, clicks):
        producer.send_batch(
            [
                Message(
                    topic,
                    json.dumps({"at": instant(moment), "value": value}).encode(),
                    message_group=key,
                )
                for key, moment, value in clicks
            ]
        )

    return click


@pytest.fixture
def plan(local_cluster, tmp_path):
    def plan(topic, target, **more):
        given = {
            "endpoints": local_cluster.name_servers,
            "topic": topic,
            "target": target,
            "checkpoint": str(tmp_path / "checkpoint"),
            "gap": f"{GAP_MINUTES} minutes",
            "watermark": "10 minutes",
            "time": "get_json_object(text, '$.at')",
            "totals": {"value": "sum(cast(get_json_object(text, '$.value') AS int))"},
        }
        return SessionsPlan(**{**given, **more})

    return plan


@pytest.fixture
def told(reading):
    """The sessions that a topic holds."""

    def told(topic):
        found = Counter()
        for row in reading(topic).load().collect():
            body = json.loads(row.body)
            assert (row["keys"], row.tag) == ([body["key"]], "session")
            found[tuple(body.values())] += 1
        return found

    return told


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_closed_sessions_are_told_once_and_open_ones_wait(spark, new_topic, click, plan, told):
    topic, target = new_topic(), new_topic()
    begun = clicks_of(range(VISITS))
    cut = len(begun) - KEYS * 2
    click(topic, begun[:cut])

    first = start_sessions(spark, plan(topic, target))
    assert first.awaitTermination(300)

    # The last visits are open, and are half over.
    assert told(target) == sessions_of(range(VISITS - 1))
    counts = session_counts(first)
    assert (counts.message_count, counts.session_count) == (cut, KEYS * (VISITS - 1))
    assert (counts.event_count, counts.open_count) == (KEYS * CLICKS * (VISITS - 1), KEYS)
    assert counts.late_count == 0

    # The second half comes, something late, and an event long after that closes all.
    click(topic, [*begun[cut:], ("k0", BEGIN, 1000)])
    click(topic, [("closing", NEVER, 0)])
    second = start_sessions(spark, plan(topic, target))
    assert second.awaitTermination(300)

    assert told(target) == sessions_of(range(VISITS))
    counts = session_counts(second)
    assert (counts.session_count, counts.late_count, counts.open_count) == (KEYS, 1, 1)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_session_ends_by_the_gap_and_not_before(spark, new_topic, click, plan, told):
    topic, target = new_topic(), new_topic()
    gap = timedelta(minutes=GAP_MINUTES)
    second = timedelta(seconds=1)
    moments = [BEGIN, BEGIN + gap - second, BEGIN + 2 * gap]
    click(topic, [("k", moment, 1) for moment in moments])
    click(topic, [("closing", NEVER, 0)])

    assert start_sessions(spark, plan(topic, target)).awaitTermination(300)

    assert told(target) == Counter(
        [
            ("k", instant(moments[0]), instant(moments[1]), 2, 2),
            ("k", instant(moments[2]), instant(moments[2]), 1, 1),
        ]
    )


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_query_that_runs_on_dies_and_repeats_tells_each_session_once(
    spark, new_topic, click, plan, told, tmp_path
):
    topic, target = new_topic(), new_topic()
    wanted = plan(topic, target, batch_records_max=20)

    def run_on():
        for tries_left in reversed(range(10)):
            query = start_sessions(spark, wanted, every="100 milliseconds")
            try:
                query.processAllAvailable()
            except StreamingQueryException as failure:
                # Spark waits ten seconds for a new Python, which a busy machine may need.
                if not tries_left or "failed to connect back" not in str(failure):
                    raise
            else:
                return
            finally:
                query.stop()

    for visit in range(VISITS):
        click(topic, clicks_of([visit]))
        if visit == VISITS - 1:
            click(topic, [("closing", NEVER, 0)])
        run_on()
        # It was committed, and Spark did not come to say so.
        commits = tmp_path / "checkpoint" / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        for path in commits.glob(f"*{last}*"):
            if path.name in {str(last), f".{last}.crc"}:
                path.unlink()
    run_on()

    assert told(target) == sessions_of(range(VISITS))


def test_a_plan_that_makes_no_sense_is_refused():
    good = {
        "endpoints": "a:1",
        "topic": "clicks",
        "target": "visits",
        "checkpoint": "x",
        "gap": "1 minute",
        "watermark": "0 seconds",
    }

    check_plan(SessionsPlan(**good))
    for change, clause in (
        ({"target": "clicks"}, "events of themselves"),
        ({"totals": {"end": "max(time)"}}, "end are fields"),
    ):
        with pytest.raises(OptionIllegal, match=clause):
            check_plan(SessionsPlan(**{**good, **change}))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("change", "option"),
    [
        # With such gaps Spark takes all events, and makes nothing of them.
        ({"gap": "30 minuts"}, "gap"),
        ({"gap": "0 seconds"}, "gap"),
        ({"gap": "-5 minutes"}, "gap"),
        ({"watermark": "late"}, "watermark"),
        ({"watermark": "-1 minute"}, "watermark"),
        ({"key": "nothing"}, "key"),
        ({"time": "nothing"}, "time"),
        ({"where": "1 +"}, "where"),
        ({"totals": {"value": "body"}}, "totals"),
    ],
)
def test_what_spark_makes_nothing_of_is_refused_by_name(spark, plan, change, option):
    messages = spark.createDataFrame([], message_schema())

    with pytest.raises(OptionIllegal) as refusal:
        closed_sessions(messages, replace(plan("clicks", "visits"), **change))

    assert refusal.value.option == option
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_command(spark, local_cluster, new_topic, click, told, tmp_path, monkeypatch):
    topic, target = new_topic(), new_topic()
    click(topic, clicks_of(range(VISITS)))
    monkeypatch.setattr("ariane_spark.spark_session.session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)

    def run(*arguments):
        where = ["--name-servers", local_cluster.name_servers]
        words = ["sessions", topic, target, "--gap", "30 minutes", *where, *arguments]
        folder = ["--checkpoint", str(tmp_path / "checkpoint")]
        return CliRunner().invoke(spark_commands, [*words, *folder])

    wrong = run("--key", "nothing")
    done = run(
        *("--time", "get_json_object(text, '$.at')", "-o", "json"),
        *("--total", "value=sum(cast(get_json_object(text, '$.value') AS int))"),
    )

    assert (wrong.exit_code, wrong.output.count("\n")) == (1, 1), wrong.output
    assert done.exit_code == 0, done.output
    counts = json.loads(done.output)
    assert counts["session_count"] == KEYS * (VISITS - 1)
    assert (counts["open_count"], counts["late_count"]) == (KEYS, 0)
    assert told(target) == sessions_of(range(VISITS - 1))
    assert run("--total", "spent").exit_code == 2
