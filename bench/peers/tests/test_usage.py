import os
import subprocess
import sys

from peer_bench.processes.usage import between, cpu_seconds_in, family_of, peak_bytes_in, usage_of

STAT = "4711 (a (b) c) S 1 4711 4711 0 -1 4194304 9 0 0 0 250 50 0 0 20 0 1 0 100 9 9"


def test_fields_are_counted_behind_the_name_whatever_it_holds():
    assert cpu_seconds_in(STAT) == 300 / os.sysconf("SC_CLK_TCK")


def test_peak_memory_is_in_bytes_and_zero_of_a_zombie():
    assert peak_bytes_in("Name:\tx\nVmHWM:\t    1024 kB\nVmRSS:\t 5 kB\n") == 1 << 20
    assert peak_bytes_in("Name:\tx\nState:\tZ (zombie)\n") == 0


def test_children_count_and_ended_processes_do_not():
    code = "import subprocess, sys; subprocess.run(['cat'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        while len(list(family_of([process.pid]))) < 2:
            assert process.poll() is None
        before = usage_of([process.pid])
        assert before.peak_bytes > 0
        process.stdin.close()
    assert between(before, usage_of([process.pid])).cpu_s == 0
