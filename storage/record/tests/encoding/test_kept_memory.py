"""Memory that was freed is kept for the next chunk."""

import ctypes
import subprocess
import sys

import pytest

from ariane_record.encoding.kept_memory import keep_freed_memory

FAULTS = """
import resource, sys
from ariane_record.encoding.kept_memory import expect_large_blocks, keep_freed_memory
if sys.argv[1] == "kept":
    assert keep_freed_memory()
elif sys.argv[1] == "expected":
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    expect_large_blocks()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (1 << 10)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def fill_blocks():
    for _ in range(10):
        blocks = [b"x" * (4 << 20) for _ in range(4)]

fill_blocks()
before = faults()
fill_blocks()
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc's allocator")
@pytest.mark.parametrize("how", ["kept", "expected"])
def test_pages_are_not_asked_for_anew(how):
    def faults(how):
        program = [sys.executable, "-c", FAULTS, how]
        return int(subprocess.run(program, capture_output=True, check=True).stdout)

    kept, given_back = faults(how), faults("given-back")

    assert kept < given_back / 4


def test_another_allocator_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())

    assert keep_freed_memory() is False
