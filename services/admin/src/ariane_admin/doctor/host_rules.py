"""What the doctor finds in a machine: pure functions of its facts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ariane_admin.doctor.findings import Finding, Severity
from ariane_admin.doctor.host_facts import HostFacts

SWAPPINESS_MAX: Final = 10
OPEN_FILES_MIN: Final = 65_536
FLUSH_MS_MAX: Final = 20.0
"""A usual flush that is slower is reported."""

FLUSH_MS_MIN: Final = 0.01
"""A flush that is faster has not reached a disk."""

DIRTY_BYTES_MAX: Final = 4 << 30
"""How much may wait to be written before writers have to wait for it."""

_REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "virtiofs"})
_MEMORY: Final = frozenset({"tmpfs", "ramfs"})
_LAYERED: Final = frozenset({"overlay", "aufs"})
_NO_BARRIER: Final = frozenset({"nobarrier", "barrier=0"})


def diagnose_host(facts: HostFacts) -> list[Finding]:
    """All findings, the worst first."""
    order = list(Severity)
    found = [finding for rule in RULES for finding in rule(facts)]
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _file_system(facts: HostFacts) -> Iterator[Finding]:
    subject, kind = f"file system of {facts.path}", facts.file_system
    if kind in _MEMORY:
        yield Finding(
            Severity.ERROR,
            subject,
            f"{kind} is memory: a restart of the machine loses all messages",
            "put the store on a disk, with ext4 or xfs",
        )
    elif kind in _REMOTE:
        yield Finding(
            Severity.ERROR,
            subject,
            f"{kind} is on another machine: locks and flushes may not mean what they say",
            "put the store on a disk of this machine; replicas keep copies elsewhere",
        )
    elif kind in _LAYERED:
        yield Finding(
            Severity.WARNING,
            subject,
            f"{kind} is the layer of a container: it goes with the container, and is slow",
            "mount a volume for the store",
        )


def _mount(facts: HostFacts) -> Iterator[Finding]:
    subject = f"mount of {facts.mount_point}"
    if facts.mount_options & _NO_BARRIER:
        yield Finding(
            Severity.ERROR,
            subject,
            "is mounted without barriers: what is flushed may still be in the disk's memory, and a"
            " loss of power takes acknowledged messages",
            "remove nobarrier and barrier=0 from its options in /etc/fstab",
        )
    if "strictatime" in facts.mount_options:
        yield Finding(
            Severity.NOTE,
            subject,
            "writes down the time of each read (strictatime), so that reads write",
            "mount it with noatime",
        )


def _scheduler(facts: HostFacts) -> Iterator[Finding]:
    if facts.scheduler in {"bfq", "cfq"}:
        yield Finding(
            Severity.WARNING,
            f"I/O scheduler {facts.scheduler}",
            "shares the disk among processes by turns: flushes of the broker wait for others",
            "set none for an SSD or mq-deadline for a disk that turns, in"
            " /sys/block/DISK/queue/scheduler",
        )


def _memory(facts: HostFacts) -> Iterator[Finding]:
    vm = facts.vm
    if vm.get("swappiness", 0) > SWAPPINESS_MAX:
        yield Finding(
            Severity.WARNING,
            "vm.swappiness",
            f"is {vm['swappiness']}: the kernel moves memory of the broker to the disk to keep more"
            " of its files in memory, and calls wait until it is back",
            "sysctl vm.swappiness=1",
        )
    dirty = vm.get("dirty_bytes") or facts.memory_bytes * vm.get("dirty_ratio", 0) // 100
    if dirty > DIRTY_BYTES_MAX:
        yield Finding(
            Severity.NOTE,
            "vm.dirty_ratio",
            f"lets {dirty >> 20} MiB wait to be written: then all writers stand until the disk has"
            " them, and a loss of power takes as much under asynchronous flush",
            "sysctl vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824",
        )


def _limits(facts: HostFacts) -> Iterator[Finding]:
    if 0 <= facts.open_files < OPEN_FILES_MIN:
        yield Finding(
            Severity.WARNING,
            "open files",
            f"a process started from here may have {facts.open_files}: a broker needs one for each"
            " connection and for files of the store, and refuses clients without",
            f"set LimitNOFILE={OPEN_FILES_MIN} for the service, or ulimit -n",
        )


def _clock(facts: HostFacts) -> Iterator[Finding]:
    if facts.clock_disciplined is False:
        yield Finding(
            Severity.WARNING,
            "clock",
            "nothing keeps it right: delivery times, retention and look-up by time follow it",
            "run chronyd or systemd-timesyncd",
        )


def _disk(facts: HostFacts) -> Iterator[Finding]:
    subject = f"disk of {facts.path}"
    if facts.flush_error:
        yield Finding(
            Severity.ERROR,
            subject,
            f"cannot be written: {facts.flush_error}",
            "run this as the user of the broker, on the folder of the store",
        )
        return
    usual, slow = flush_times_ms(facts)
    measured = f"a small write takes {usual:.2f} ms to reach it, and 1 of 50 takes {slow:.2f} ms"
    if usual > FLUSH_MS_MAX:
        yield Finding(
            Severity.WARNING,
            subject,
            f"is slow: {measured}; each send waits for one under synchronous flush",
            "use an SSD with protection against loss of power, or asynchronous flush with replicas",
        )
    elif usual < FLUSH_MS_MIN and facts.file_system not in _MEMORY:
        yield Finding(
            Severity.WARNING,
            subject,
            f"answers before it can have written: {measured}; a loss of power may take messages"
            " that were acknowledged",
            "look whether the virtual disk ignores flushes (cache=unsafe)",
        )


def flush_times_ms(facts: HostFacts) -> tuple[float, float]:
    """A usual flush and a slow one, in milliseconds."""
    times = facts.flush_ms
    return times[len(times) // 2], times[-1]


RULES: Final = (_file_system, _mount, _scheduler, _memory, _limits, _clock, _disk)
