import pytest
from peer_bench.processes import memory

MEBIBYTE = 1 << 20


@pytest.fixture
def meminfo(tmp_path, monkeypatch):
    def says(*, total_mib, free_mib):
        path = tmp_path / "meminfo"
        path.write_text(f"MemTotal: {total_mib << 10} kB\nMemFree: {free_mib << 10} kB\n")
        monkeypatch.setattr(memory, "_MEMINFO", path)

    return says


def test_zeros_are_read_for_all_memory_at_most(meminfo, tmp_path):
    meminfo(total_mib=24, free_mib=4096)
    assert memory.use_all_memory(tmp_path) == 24 * MEBIBYTE
    assert (tmp_path / "zeros").stat().st_blocks == 0


def test_nothing_is_read_where_nothing_is_free(meminfo, tmp_path):
    meminfo(total_mib=24, free_mib=512)
    assert memory.use_all_memory(tmp_path) == 0
