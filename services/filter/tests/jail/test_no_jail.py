"""Where the kernel cannot jail, filters are refused and not run loose."""

import shutil
import struct
import subprocess
import time

import pytest

from ariane_filter.jail.errors import JailUnavailable
from ariane_filter.jail.limits import FilterLanguage, FilterModule, JailLimits
from ariane_filter.jail.process import JailLauncher
from ariane_filter.jail.seccomp import (
    ALLOW,
    ARCHITECTURES,
    CALLS,
    CHANNEL_CALLS,
    INSTRUCTION,
    KILL_PROCESS,
    MEMORY_CALLS,
    REFUSE,
    program,
)
from ariane_filter.jail.worker_handle import WorkerHandle

CHANNEL = 7


@pytest.fixture(scope="module")
def kernel_without_namespaces():
    """A command that starts another where the kernel gives no further namespaces."""
    command = ["-U", "-r", "/bin/sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && "$@"']
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, *command, "sh", "true"], check=False).returncode:
        pytest.skip("no namespace here in which namespaces could be forbidden")
    return (unshare, *command, "sh")


async def test_without_namespaces_no_filter_runs(kernel_without_namespaces, tmp_path):
    mark = tmp_path / "ran"
    module = FilterModule(FilterLanguage.PYTHON, f"open({str(mark)!r}, 'w')".encode())
    with pytest.raises(JailUnavailable, match="namespaces of its own"):
        await WorkerHandle.start(
            module,
            JailLimits(start_s=120),
            launch=JailLauncher(kernel_without_namespaces),
            monotonic=time.monotonic,
        )
    assert not mark.exists()


def verdict(lines, number, arguments=(0,) * 6, architecture=ARCHITECTURES["x86_64"]):
    """Runs the program as the kernel does."""
    call = struct.pack("<iIQ6Q", number, architecture, 0, *arguments)
    position = word = 0
    while True:
        code, jump_true, jump_false, k = INSTRUCTION.unpack_from(lines, position * 8)
        position += 1
        if code == 0x20:
            (word,) = struct.unpack_from("<I", call, k)
        elif code == 0x15:
            position += jump_true if word == k else jump_false
        elif code == 0x45:
            position += jump_true if word & k else jump_false
        else:
            assert code == 0x06
            return k


@pytest.mark.parametrize("executable_memory", [False, True])
def test_the_program_allows_what_is_listed_and_refuses_the_rest(executable_memory):
    lines = program("x86_64", CHANNEL, executable_memory=executable_memory)
    assert len(lines) // INSTRUCTION.size < 4096
    allowed = {number for number in range(1024) if verdict(lines, number) == ALLOW}
    assert allowed == {*CALLS.values(), *MEMORY_CALLS.values()}
    refused = {verdict(lines, number) for number in range(1024)} - {ALLOW}
    assert refused == {REFUSE}
    for number in CHANNEL_CALLS.values():
        assert verdict(lines, number, (CHANNEL, 0, 0, 0, 0, 0)) == ALLOW
        assert verdict(lines, number, (CHANNEL + 1, 0, 0, 0, 0, 0)) == REFUSE
    for number in MEMORY_CALLS.values():
        assert verdict(lines, number, (0, 4096, 3, 0, 0, 0)) == ALLOW
        executed = verdict(lines, number, (0, 4096, 7, 0, 0, 0))
        assert executed == (ALLOW if executable_memory else REFUSE)
    # The same numbers of another way of calling are other calls.
    assert verdict(lines, 0x40000000 | 202) == REFUSE
    assert verdict(lines, 202, architecture=0x40000003) == KILL_PROCESS
