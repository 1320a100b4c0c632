"""The report: what it counts, and the page."""

import json
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from ariane_sdk import Message
from ariane_sdk.sync import QueueReader
from ariane_spark.pipelines import write_report
from ariane_spark.pipelines.report_facts import GroupFacts, ReportFacts, TagFacts, TopicFacts
from ariane_spark.pipelines.report_page import page_of

NOON = datetime(2013, 2, 8, 12, tzinfo=UTC)


class Text(HTMLParser):
    """The words of a page, and its elements."""

    def __init__(self, page):
        super().__init__()
        self.words, self.elements = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data.split()


def facts_of(**parts):
    empty = {"topics": [], "tags": [], "groups": []}
    return ReportFacts(
        **{
            "since": NOON - timedelta(hours=1),
            "until": NOON,
            "step": timedelta(minutes=1),
            **empty,
            **parts,
        }
    )


def test_the_page_tells_everything_and_loads_nothing():
    rates = [0, 5, 10]
    page = Text(
        page_of(
            facts_of(
                topics=[TopicFacts("orders", 3600, (1.4, 22.0), 7, rates)],
                tags=[TagFacts("orders", "<b>", 900), TagFacts("orders", None, 2700)],
                groups=[GroupFacts("billing", "orders", 1234, NOON - timedelta(minutes=61))],
            ),
            NOON,
        )
    )

    text = " ".join(page.words)
    for clause in (
        "2013-02-08 11:00:00 to 2013-02-08 12:00:00",
        "billing orders 1,234 1 h 1 min",
        "orders 3,600 1.0 1 / 22 ms 7",
        "orders <b> 900 25.0 %",
        "orders none 2,700 75.0 %",
    ):
        assert clause in text
    bars = [attributes for tag, attributes in page.elements if tag == "rect"]
    assert [float(bar["height"]) for bar in bars] == [30, 60]
    assert "b" not in {tag for tag, _ in page.elements}
    assert not [a for _, attributes in page.elements for a in attributes if a in {"src", "href"}]


def test_a_page_without_anything():
    text = " ".join(Text(page_of(facts_of(), NOON)).words)

    for clause in ("No group consumes", "There are no such topics", "No messages were stored"):
        assert clause in text


@pytest.mark.spark
def test_a_report_counts_what_is_there(spark, local_cluster, topic, producer, tmp_path):
    before = datetime.now(UTC) - timedelta(minutes=5)
    results = producer.send_batch([Message(topic, b"x" * 1000, tag=f"t{n % 2}") for n in range(30)])
    queue = results[0].message_queue
    with QueueReader(local_cluster.name_servers) as reader:
        reader.store_offsets(f"group-{topic}", {queue: 1})
        (_, end) = reader.bounds(topic)[queue]
    path = tmp_path / "report.html"
    until = datetime.now(UTC) + timedelta(minutes=5)

    facts = write_report(
        spark, local_cluster.name_servers, path, since=before, until=until, pattern=topic
    )

    (counted,) = facts.topics
    assert (counted.topic, counted.message_count, sum(counted.rates)) == (topic, 30, 30)
    assert facts.tags == [TagFacts(topic, "t0", 15), TagFacts(topic, "t1", 15)]
    (group,) = facts.groups
    assert (group.group, group.lag) == (f"group-{topic}", end - 1)
    assert json.dumps(topic)[1:-1] in path.read_text()
