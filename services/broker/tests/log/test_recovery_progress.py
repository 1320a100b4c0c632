"""Whoever waits for a long recovery is told how far it is, and not too often."""

from __future__ import annotations

from structlog.testing import capture_logs

from ariane_broker.log.recovery_words import RecoveryProgress
from ariane_storage.recovery.recovery import Progress


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
