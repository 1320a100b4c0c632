"""The clock of the machine."""

from __future__ import annotations

import time

import pytest

from ariane_servicekit import SystemClock


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock")
def test_time_also_passes_while_the_machine_sleeps():
    """Else a lease would not be over when the machine wakes beside a newer primary."""
    read = SystemClock().monotonic
    assert (read.func, read.args) == (time.clock_gettime, (time.CLOCK_BOOTTIME,))
    begin_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert begin_s <= read() <= time.clock_gettime(time.CLOCK_BOOTTIME)
