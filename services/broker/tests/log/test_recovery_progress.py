"""Whoever waits for a long recovery is told how far it is, and not too often."""

from __future__ import annotations

from structlog.testing import capture_logs

from ariane_broker.log.recovery_words import RecoveryProgress, recovery_findings, recovery_notes
from ariane_storage import Store
from ariane_storage.recovery.recovery import Progress
from ariane_storage.testing import block_of, small_config


def test_a_line_for_each_tenth():
    progress = RecoveryProgress()
    with capture_logs() as lines:
        for done in range(0, 1001, 7):
            progress(Progress("scan the commit log", done, 1000))
    assert [line["percent"] for line in lines] == list(range(10, 100, 10))
    assert {line["step"] for line in lines} == {"scan the commit log"}


def test_a_small_store_says_nothing():
    with capture_logs() as lines:
        RecoveryProgress()(Progress("scan the commit log", 5, 100))
        RecoveryProgress()(Progress("scan the commit log", 0, 0))
    assert lines == []


def test_an_older_checkpoint_is_noted(tmp_path):
    def report_of(count):
        with Store.open(tmp_path, small_config()) as store:
            store.append(block_of("flights", [b"x"] * count), 0)
            assert recovery_findings(store.recovery, (), ()) == []
            return recovery_notes(store.recovery)

    assert report_of(1) == []
    older = (tmp_path / "checkpoint").read_bytes()
    assert report_of(2) == []
    (tmp_path / "checkpoint").write_bytes(older)
    (note,) = report_of(1)
    assert note.startswith("2 records scanned")
