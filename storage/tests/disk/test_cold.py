"""Reads that take only what is in memory, on the machine's own disk."""

import errno
import os
from threading import Thread

import pytest

from ariane_storage import OsDisk
from ariane_storage.disk.cold import IN_MEMORY, BytesCold, warm

CONTENT = b"".join(b"%07d\n" % number for number in range(4096))


class System:
    """Answers for the system what is in memory: all of a file, or all but some pages."""

    def __init__(self, preadv):
        self.preadv = preadv
        self.cold = set()
        self.forgets = self.refuses = False

    def __call__(self, descriptor, buffers, position, flags=0):
        pages = set(range(position // 4096, (position + len(buffers[0]) - 1) // 4096 + 1))
        if flags and self.refuses:
            raise OSError(errno.EOPNOTSUPP, "no")
        if flags and position // 4096 in self.cold:
            raise BlockingIOError
        if flags and self.cold & pages:
            room = min(self.cold & pages) * 4096 - position
            return self.preadv(descriptor, (buffers[0][:room],), position)
        if not flags and not self.forgets:
            self.cold -= pages
        return self.preadv(descriptor, buffers, position)


@pytest.fixture
def system(monkeypatch):
    system = System(os.preadv)
    monkeypatch.setattr(os, "preadv", system)
    return system


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    file = OsDisk().open(path, writable=False)
    yield file
    file.close()


def taken(read):
    with IN_MEMORY:
        return read()


@pytest.mark.parametrize("cold", [{0}, {3}, {1, 2}, {0, 7}])
def test_what_is_cold_is_said_and_there_after_a_fetch(file, system, cold):
    system.cold = set(cold)
    wanted = [(100, 9000), (12_000, 600), (30_000, 2768)]

    def gather():
        return file.gather(*zip(*wanted, strict=True))

    with pytest.raises(BytesCold) as raised:
        taken(gather)
    assert (raised.value.begin, raised.value.end) == (100, 32_768)
    raised.value.fetch(ahead_bytes=1 << 20)
    assert not system.cold
    assert taken(gather) == b"".join(CONTENT[at : at + size] for at, size in wanted)
    assert taken(lambda: file.read_at(32_000, 5000)) == CONTENT[32_000:]
    assert gather() == taken(gather)


def test_a_generator_says_what_it_lacks_and_goes_on(file, system):
    system.cold = {2}
    steps = warm(lambda: file.read_at(8192, 16))
    next(steps).fetch()
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value == CONTENT[8192:8208]
    assert not IN_MEMORY.only


def test_a_file_system_that_cannot_tell_reads_as_ever(file, system):
    system.refuses = True
    assert taken(lambda: file.read_at(8, 8)) == CONTENT[8:16]
    assert taken(lambda: file.gather([8, 24], [8, 8])) == CONTENT[8:16] + CONTENT[24:32]


def test_a_file_that_is_cold_again_after_each_fetch_is_waited_for(file, system):
    system.cold, system.forgets = {0}, True
    for _ in range(3):
        with pytest.raises(BytesCold) as raised:
            taken(lambda: file.read_at(8, 8))
        raised.value.fetch()
    assert taken(lambda: file.read_at(8, 8)) == CONTENT[8:16]


def test_what_cannot_be_fetched_is_found_by_the_reader(file, system, monkeypatch):
    system.cold = {0}
    with pytest.raises(BytesCold) as raised:
        taken(lambda: file.read_at(8, 8))

    def unreadable(*_):
        raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(os, "preadv", unreadable)
    raised.value.fetch()
    monkeypatch.setattr(os, "pread", unreadable)
    with pytest.raises(OSError, match="lost"):
        taken(lambda: file.read_at(8, 8))


def test_another_thread_still_waits_for_the_disk(file, system):
    system.cold = {0}
    found = []
    with IN_MEMORY:
        other = Thread(target=lambda: found.append(file.read_at(8, 8)))
        other.start()
        other.join()
    assert found == [CONTENT[8:16]]
