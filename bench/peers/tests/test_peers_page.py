import json
import xml.etree.ElementTree as ET

import pytest

from bench.pages import peers_page


def row(work, against, ratio, floor):
    return {
        "work": work, "ours": 200_000.0, "unit": "msg/s", "against": against, "theirs": 100_000.0,
        "ratio": ratio, "ratio_min": ratio * 0.9, "ratio_max": ratio * 1.1, "pairs": 5,
        "floor": floor, "goal": None, "lost": 0, "when": "2026-01-01T00:00:00Z",
        "machine": {"cores": "2"}, "versions": {},
    }  # fmt: skip


@pytest.fixture
def page(tmp_path, monkeypatch):
    for name in ("ROWS_PATH", "RUNS_PATH", "PICTURES_PATH"):
        monkeypatch.setattr(peers_page, name, tmp_path / name)
    return peers_page


def test_nothing_is_said_before_anything_was_measured(page):
    assert page.section() == ""


def side(work, side, client_us, server_us):
    return {
        "work": work, "side": side, "client_cpu_us": client_us, "server_cpu_us": server_us,
        "cores": (client_us + server_us) / 5, "lost": 0, "quick": False,
    }  # fmt: skip


def test_tables_pictures_and_who_was_skipped(page):
    rows = [row("batches", "Queue <1>", 2.0, 1.0), row("catch-up", "Queue <1>", 2.5, None)]
    rows += [row("batches", "Other 2", 3.0, 1.0), row("batches", "copying the bytes", 0.01, None)]
    rows.append({**row("end to end, p99", "Queue <1>", 1.5, 0.5), "unit": "ms", "ours": 1.234})
    page.ROWS_PATH.write_text(json.dumps(rows))
    runs = {"rabbit": {"skipped": "no Erlang"}, "q": {"sides": [], "failed": {"batches": "word"}}}
    page.RUNS_PATH.write_text(json.dumps(runs))
    said = page.section()
    assert (
        "| batches | Queue <1> | 200,000 msg/s | 100,000 | 2 (1.8 to 2.2) | 1 |  |  | 0 |" in said
    )
    assert "| 1.23 ms |" in said
    assert "**We are faster in 3 of 3 comparisons of speed.** Of 3 ratios" in said
    assert "with a floor, 3 reach it, and 0 reach their goal." in said
    assert "- rabbit: no Erlang\n- q, batches: failed" in said
    assert "Where we lose" not in said
    assert "| Queue <1> | catch-up **2.5**; batches **2** |  |" in said
    assert said.index("peers-overview.svg") < said.index("| Queue <1> |") < said.index("### How")
    assert (
        said.index("| Queue <1> | 200,")
        < said.index("| Other 2 | 200,")
        < said.index("### Consuming")
    )
    assert said.index("what the machine can do") < said.index("| copying the bytes |")
    picture = (page.PICTURES_PATH / "peers-sending.svg").read_text()
    drawn = ET.fromstring(picture)  # noqa: S314 - our own picture.
    bars = [part for part in drawn.iter() if part.tag.endswith("rect")]
    assert len(bars) == 1 + 2
    assert all(float(bar.get("width")) > 0 for bar in bars)


def test_what_has_a_newer_major_version_is_not_counted_and_said(page):
    rows = [
        row("batches", "redis-py to Redis Streams 7.0.15", 2.0, 1.0),
        row("batches", "aiokafka to Kafka 4.3.0", 0.5, 1.0),
        row("batches", "nats-py to NATS JetStream 2.15.2", 3.0, 1.0),
    ]
    page.ROWS_PATH.write_text(json.dumps(rows))
    said = page.section()
    assert "**We are faster in 1 of 2 comparisons of speed.** Of 3 ratios" in said
    assert (
        "Measured were older versions of Kafka 4.3 (there is 4.4), Redis 7.0.15 (there is 8, and"
        " Valkey 9; not counted above): newer ones may be faster."
    ) in said
    page.ROWS_PATH.write_text(json.dumps([rows[2]]))
    assert "older versions" not in page.section()


def test_rows_of_quick_runs_and_losses_of_peers_are_told(page):
    page.ROWS_PATH.write_text(json.dumps([row("batches", "Queue 1", 2.0, 1.0)]))
    sides = [side("batches", "ours", 6.0, 4.0), side("batches", "theirs", 1.0, 2.0)]
    page.RUNS_PATH.write_text(json.dumps({"q": {"sides": sides, "contenders": {"Queue 1": {}}}}))
    said = page.section()
    assert "quick run" not in said.partition("pairs: 5")[2]
    assert "Messages that peers" not in said
    quick = [{**each, "quick": True} for each in sides]
    quick[1] |= {"lost": 5}
    quick[0] |= {"lost": 9}
    page.RUNS_PATH.write_text(json.dumps({"q": {"sides": quick, "contenders": {"Queue 1": {}}}}))
    said = page.section()
    assert "pairs: 5; quick runs, with few messages and short warm-ups: q." in said
    assert "### Messages that peers refused or lost\n\n- q, batches: 5\n" in said


def test_a_missing_measurement_is_reported(page):
    page.ROWS_PATH.write_text(json.dumps([row("batches", "Queue 1", 2.0, 1.0)]))
    runs = {
        "nats": {"took_s": {"batches": {"5": 1.0}}},
        "redis": {"skipped": "no Debian"},
        "aio-pika": {"took_s": {"batches": {"5": 1.0}}, "failed": {"singles-64": "no word"}},
    }
    page.RUNS_PATH.write_text(json.dumps(runs))
    said = page.section().partition("### Not measured here")[2]
    assert "- nats: singles-64, topics-peers\n" in said
    assert "- confluent: batches\n" in said
    assert "redis" not in said
    assert "aio-pika" not in said


def test_where_we_lose_is_told_with_what_was_measured(page):
    rows = [row("batches", "Queue 1", 0.5, 1.0), row("singles", "Queue 1", 0.8, None)]
    rows.append(row("batches", "copying the bytes", 0.01, None))
    rows.append({**row("CPU", "-", 0.9, 1.0), "ours": 3.33, "theirs": 3.0, "unit": "us"})
    page.ROWS_PATH.write_text(json.dumps(rows))
    sides = [side("batches", "ours", 6.0, 4.0), side("batches", "theirs", 1.0, 2.0)]
    runs = {"q": {"sides": sides, "contenders": {"Queue 1": {}}}}
    page.RUNS_PATH.write_text(json.dumps(runs))
    said = page.section()
    lines = said.partition("### Where we lose, and why")[2].splitlines()
    table = [line for line in lines if line.startswith("|")][2:5]
    assert table == [
        "| batches | Queue 1 | **0.5** | 1 | 6.0 + 4.0 µs, 2.0 cores | 1.0 + 2.0 µs, 0.6 cores |",
        "| CPU | - | **0.9** | 1 |  |  |",
        "| singles | Queue 1 | 0.8 |  |  |  |",
    ]


def test_a_row_stands_beside_the_fastest_of_its_limits(page):
    singles = "single sends, one at a time, 1 KiB"
    rows = [row(singles, "Queue 1", 2.0, 1.0)]
    for limit, rate in (
        ("the bytes as bare gRPC calls", 400_000.0),
        ("the bytes on a bare gRPC stream", 800_000.0),
        ("copying the bytes", 9e9),
    ):
        rows.append({**row(singles, limit, 0.5, None), "theirs": rate})
    late = {**row("end to end, p99", "Queue 1", 1.5, None), "unit": "ms", "ours": 0.01}
    spark = {**row("Spark: batch read", "Connector", 2.0, None), "unit": "rows/s"}
    columns = "catch-up consuming, columns, 1 KiB"
    rows += [late, spark, {**row(columns, "the bytes as bare gRPC calls", 0.5, None)}]
    page.ROWS_PATH.write_text(json.dumps(rows))
    said = page.section()
    assert (
        f"| {singles} | Queue 1 | 200,000 msg/s | 100,000 | 2 (1.8 to 2.2) | 1 |  | 0.25 | 0 |"
        in said
    )
    assert (
        "| end to end, p99 | Queue 1 | 0.01 ms | 100,000 | 1.5 (1.4 to 1.7) |  |  | 0.12 | 0 |"
        in said
    )
    assert "| 200,000 rows/s | 100,000 | 2 (1.8 to 2.2) |  |  | 2 | 0 |" in said


def test_many_topics_have_the_limit_of_the_same_sends_to_one(page):
    many, one = (
        "256 topics, single sends, 1,024 in flight, 1 KiB",
        "single sends, 1,024 in flight, 1 KiB",
    )
    limit = {**row(one, "the bytes as bare gRPC calls", 0.5, None), "theirs": 800_000.0}
    page.ROWS_PATH.write_text(json.dumps([row(many, "Queue 1", 2.0, None), limit]))
    assert "| 2 (1.8 to 2.2) |  |  | 0.25 | 0 |" in page.section()


def test_the_first_screen_tells_who_is_faster_and_colours_its_bars(page):
    rows = [row("batches", "Queue 1", 1.5, 1.0), row("singles", "Queue 1", 0.7, 0.5)]
    rows += [row("columns of 128 B", "Queue 1", 0.4, 0.6), row("CPU", "-", 2.0, 1.0)]
    page.ROWS_PATH.write_text(json.dumps(rows))
    said = page.section()
    assert "**We are faster in 1 of 3 comparisons of speed.**" in said
    assert "| Queue 1 | batches **1.5** | singles **0.7**; send columns of 128 B **0.4** |" in said
    drawn = ET.fromstring((page.PICTURES_PATH / "peers-overview.svg").read_text())  # noqa: S314 - our own picture.
    bars = [part.get("fill") for part in drawn.iter() if part.tag.endswith("rect")]
    assert bars[1:] == ["#2b7a4b", "#2b7a4b", "#c9a227", "#b5472f"]
