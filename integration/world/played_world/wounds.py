"""Disks that lose or damage what they had, of one broker of a replica set: the others have it all.

A set relies on whoever is in sync; so only one of its brokers is wounded in a world, and only while
another one is in sync, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from played_world.steps import id_in_set, set_row

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from ariane_storage.testing.faulty_disk import FaultyDisk
    from played_world.fault import Fault
    from played_world.programs.stage import Role, Stage

LONG_S: Final = 11.0
"""Two leases, and a little: so long ago is what a store may go back to for others to notice."""

BOOT_S_MAX: Final = 8.0
"""How long a wounded broker is without power at most."""

LOG: Final = Path("/store/commitlog")
_PAGE_BYTES: Final = 4096


def take_back(stage: Stage, fault: Fault, role: Role) -> bool:
    """After a while, put the disk back to what it is now, as from a snapshot."""
    if not _may_wound(stage, role):
        return False
    snapshot = role.machine.content.copy()

    def put_back(content: FaultyDisk) -> FaultyDisk:
        del content
        return snapshot

    return _later(stage, fault, role, put_back)


def forget_flushes(stage: Stage, fault: Fault, role: Role) -> bool:
    """For a while, say that flushes are done, and do none; then lose power."""
    if not _may_wound(stage, role):
        return False
    role.machine.health.lies = True
    return _later(stage, fault, role, lambda content: content)


def rot(stage: Stage, fault: Fault, role: Role) -> bool:
    """Lose power, and find the log damaged: bits, zeros, other pages, unreadable ones, no file."""
    if not _may_wound(stage, role):
        return False
    _without_power(stage, fault, role, lambda content: _damage(content, role.machine.health.chance))
    return False  # It has counted itself.


def _later(
    stage: Stage, fault: Fault, role: Role, change: Callable[[FaultyDisk], FaultyDisk]
) -> bool:
    wait_s = LONG_S + fault.seconds * fault.amount
    stage.world.timeline.after(wait_s, _without_power, stage, fault, role, change)
    return False  # It counts once it is done.


def _without_power(
    stage: Stage, fault: Fault, role: Role, change: Callable[[FaultyDisk], FaultyDisk]
) -> None:
    """Lose power, change what is on the disk, and come back."""
    if not _is_spare(stage, role) or not stage.is_disturbed:
        stage.world.timeline.note(f"{role.name} is not wounded: the set needs it")
        role.machine.make_true()
        return
    role.machine.health.lies = False
    stage.befallen[fault.kind] += 1
    if role.machine.is_up:
        role.machine.lose_power()
    role.machine.content = change(role.machine.content)

    def boot() -> None:
        if not role.machine.is_up:
            role.machine.boot()
            role.start()

    stage.world.timeline.after(min(fault.seconds, BOOT_S_MAX), boot)


def _may_wound(stage: Stage, role: Role) -> bool:
    if stage.wounded not in (None, role) or not _is_spare(stage, role):
        return False
    stage.wounded = role
    return True


def _is_spare(stage: Stage, role: Role) -> bool:
    """Whether the set is in sync with another one, which has all."""
    row = set_row(stage)
    return row is not None and bool(set(row["in_sync"]) - {id_in_set(role)})


def _damage(content: FaultyDisk, chance: Random) -> FaultyDisk:
    """Damage a file of the log."""
    paths = [path for path in content.paths() if path.parent == LOG]
    if not paths:
        return content
    path = chance.choice(paths)
    try:
        octets = content.read(path)
    except OSError:
        return content  # It has been wounded before.
    written = len(octets.rstrip(b"\0"))
    if not written:
        return content
    kind = chance.choice(("bits", "zeros", "astray", "gone", "unreadable"))
    if kind == "gone":
        content.remove(path)
    elif kind == "unreadable":
        begin = chance.randrange(written)
        content.make_unreadable(path, begin, begin + 1)
    elif kind == "bits":
        for _ in range(2):
            content.flip_bit(path, chance.randrange(written), chance.randrange(8))
    else:
        begin = chance.randrange(written) // _PAGE_BYTES * _PAGE_BYTES
        other = chance.randrange(written) // _PAGE_BYTES * _PAGE_BYTES
        page = octets[other : other + _PAGE_BYTES] if kind == "astray" else bytes(_PAGE_BYTES)
        end = min(begin + _PAGE_BYTES, len(octets))
        content.write(path, octets[:begin] + page[: end - begin] + octets[end:])
    content.sync(files=[path] if kind != "gone" else [], folders=[LOG])
    return content
