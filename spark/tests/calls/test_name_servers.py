"""Name servers from sources that are read again while a query runs."""

import pytest

from ariane_sdk.errors import NameServersUnreachable
from ariane_spark.calls.name_servers import REREAD_S, NameServers


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


def test_a_file_is_read_again(tmp_path, clock):
    path = tmp_path / "names"
    path.write_text("a:1, b:2\n")
    names = NameServers(f"n:9,file:{path}", clock)
    assert sorted(names.in_turn()) == ["a:1", "b:2", "n:9"]
    names.put_last("a:1")
    assert names.in_turn()[-1] == "a:1"
    path.write_text("a:1 c:3")
    assert "b:2" in names.in_turn()
    clock.now_s += REREAD_S
    assert sorted(names.in_turn()) == ["a:1", "c:3", "n:9"]
    # What cannot be read keeps what it had.
    path.unlink()
    clock.now_s += REREAD_S
    assert sorted(names.in_turn()) == ["a:1", "c:3", "n:9"]


async def test_a_source_that_tells_nothing_is_an_error_and_asked_again(tmp_path, clock):
    path = tmp_path / "names"
    names = NameServers(f"file:{path}", clock)
    with pytest.raises(NameServersUnreachable, match="No such file") as raised:
        names.in_turn()
    assert raised.value.retriable
    path.write_text("a:1")
    assert names.in_turn() == ("a:1",)


def test_nobody_answers_so_sources_are_read_at_once(tmp_path, clock):
    path = tmp_path / "names"
    path.write_text("a:1")
    names = NameServers(f"file:{path}", clock)
    assert names.in_turn() == ("a:1",)
    path.write_text("b:2")
    names.read_again()
    assert names.in_turn() == ("b:2",)


def test_fixed_addresses_are_asked_in_any_order_first():
    orders = {NameServers("a:1,b:2,c:3").in_turn() for _ in range(100)}
    assert len(orders) > 1
