import importlib.util
import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2]


def row(work, against, ratio, floor):
    return {
        "work": work, "ours": 200_000.0, "unit": "msg/s", "against": against, "theirs": 100_000.0,
        "ratio": ratio, "ratio_min": ratio * 0.9, "ratio_max": ratio * 1.1, "pairs": 5,
        "floor": floor, "goal": None, "lost": 0, "when": "2026-01-01T00:00:00Z",
        "machine": {"cores": "2"}, "versions": {},
    }  # fmt: skip


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    spec = importlib.util.spec_from_file_location("peers_page", BENCH / "peers_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("ROWS_PATH", "RUNS_PATH", "PICTURE_PATH"):
        monkeypatch.setattr(module, name, tmp_path / name)
    return module


def test_nothing_is_said_before_anything_was_measured(page):
    assert page.section() == ""


def test_a_table_a_picture_where_we_lose_and_who_was_skipped(page):
    rows = [row("batches", "Queue <1>", 2.0, 1.0), row("singles", "Queue <1>", 0.25, None)]
    rows.append(row("batches", "copying the bytes", 0.01, None))
    page.ROWS_PATH.write_text(json.dumps(rows))
    page.RUNS_PATH.write_text(json.dumps({"rabbit": {"skipped": "no Erlang"}, "q": {"legs": []}}))
    said = page.section()
    assert "| batches | Queue <1> | 200,000 msg/s | 100,000 | 2 (1.8 to 2.2) | 1 |  | 0 |" in said
    assert "Where we are slower:\n\n- singles: 0.25 of Queue <1>" in said
    assert "- rabbit: no Erlang" in said
    assert said.index("what the machine can do") < said.index("| copying the bytes |")
    drawn = ET.fromstring(page.PICTURE_PATH.read_text())  # noqa: S314 - our own picture.
    bars = [part for part in drawn.iter() if part.tag.endswith("rect")]
    assert len(bars) == 1 + 2
    assert all(float(bar.get("width")) > 0 for bar in bars)
