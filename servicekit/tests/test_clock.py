"""The clock of the machine."""

from __future__ import annotations

import time

import pytest

from ariane_servicekit import SystemClock


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock")
def test_time_also_passes_while_the_machine_sleeps(monkeypatch):
    """Else a lease would not be over when the machine wakes beside a newer primary."""
    asked = []

    def clock_gettime(which):
        asked.append(which)
        return 7.0

    monkeypatch.setattr(time, "clock_gettime", clock_gettime)
    assert SystemClock().monotonic() == 7.0
    assert asked == [time.CLOCK_BOOTTIME]
