"""What the machine can do: every limit with a few messages."""

import pytest
from peer_bench.contenders import limits
from peer_bench.loads import Load

BATCHES = Load("batches", "t", 4000, 64, in_flight=4, batch=1000)
SINGLES = Load("singles", "t", 40, 64, in_flight=8)


@pytest.mark.parametrize("kind", ["copy", "loopback", "grpc"])
def test_bytes_are_sent_and_consumed_in_blocks(kind, tmp_path):
    with limits.running(tmp_path, kind=kind) as limit:
        assert limit.produce(BATCHES).count == 4000
        leg = limit.consume(BATCHES)
    assert (leg.count, leg.lost) == (4000, 0)
    assert leg.seconds > 0


def test_an_echo_brings_the_bytes_back(tmp_path):
    with limits.running(tmp_path, kind="echo") as limit:
        assert limit.produce(BATCHES).count == 4000


@pytest.mark.parametrize("kind", ["grpc", "stream"])
def test_calls_are_answered_one_by_one(kind, tmp_path):
    with limits.running(tmp_path, kind=kind) as limit:
        assert limit.produce(SINGLES).count == 40


def test_each_group_gets_a_stream_of_all(tmp_path):
    with limits.running(tmp_path, kind="grpc") as limit:
        leg = limit.consume(Load("listener", "t", 4000, 64, groups=4))
    assert (leg.count, leg.lost) == (16_000, 0)
