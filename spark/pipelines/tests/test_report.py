"""The report: what it counts, and the page."""

import json
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest

from ariane_pipelines import write_report
from ariane_pipelines.report_facts import GroupFacts, ReportFacts, TagFacts, TopicFacts
from ariane_pipelines.report_page import page_of
from ariane_pipelines.report_traces import TraceFacts, TraceStep, TraceSummary
from ariane_sdk import Message
from ariane_sdk.sync import QueueReader

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
    empty = {"topics": [], "tags": [], "groups": [], "traces": TraceSummary()}
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


def test_the_page_tells_the_ways_of_traces():
    born = NOON - timedelta(minutes=2)
    steps = [
        TraceStep("orders", "broker-a/0/7", "id", "<b>", born, NOON, ["billing"], ["stock"]),
        TraceStep("bills", "broker-b/1/9", "id", None, NOON, NOON, [], []),
    ]
    traces = TraceSummary(5, 2, [TraceFacts("4bf9" * 8, 3, 120.5, steps)])
    page = Text(page_of(facts_of(traces=traces), NOON))

    text = " ".join(page.words)
    for clause in (
        "5 messages of 2 traces.",
        f"{'4bf9' * 8}: 3 messages in 120.500 s",
        "orders broker-a/0/7 <b> 2013-02-08 12:00:00 120,000 ms billing stock",
        "bills broker-b/1/9 2013-02-08 12:00:00 0 ms",
        "and 1 more",
    ):
        assert clause in text
    assert "b" not in {tag for tag, _ in page.elements}


@pytest.mark.slow
@pytest.mark.spark
def test_a_report_counts_what_is_there(spark, local_cluster, topic, producer, tmp_path):
    before = datetime.now(UTC) - timedelta(minutes=5)
    # A trace of three messages, one of one, and what is no trace.
    parents = [f"00-{'a' * 32}-{'1' * 16}-01"] * 3 + [f"00-{'b' * 32}-{'2' * 16}-00", "nonsense"]
    results = [
        *producer.send_batch(
            [Message(topic, b"", properties={"traceparent": parent}) for parent in parents]
        ),
        *producer.send_batch([Message(topic, b"x" * 1000, tag=f"t{n % 2}") for n in range(30)]),
    ]
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
    assert (counted.topic, counted.message_count, sum(counted.rates)) == (topic, 35, 35)
    tags = [TagFacts(topic, "t0", 15), TagFacts(topic, "t1", 15), TagFacts(topic, None, 5)]
    assert facts.tags == tags
    (group,) = facts.groups
    assert (group.group, group.lag) == (f"group-{topic}", end - 1)
    traces = facts.traces
    assert (traces.traced_count, traces.trace_count) == (4, 2)
    by_id = {trace.trace_id: trace for trace in traces.longest}
    assert [by_id[sign * 32].message_count for sign in "ab"] == [3, 1]
    step = by_id["a" * 32].steps[0]
    place = (queue.broker_name, queue.queue_id, results[0].queue_offset)
    assert (step.topic, step.place) == (topic, "/".join(map(str, place)))
    past = {
        (step.place, name)
        for trace in traces.longest
        for step in trace.steps
        for name in step.consumed_by
    }
    assert past == {(f"{queue.broker_name}/{queue.queue_id}/0", f"group-{topic}")}
    assert json.dumps(topic)[1:-1] in path.read_text()
