from pathlib import Path

import pytest
from peer_bench.contenders.kafka import consumed_in, sent_in
from peer_bench.errors import DriverFailed

CAPTURED = Path(__file__).parent / "captured"


def test_the_producer_tool_says_count_and_rate_at_its_end():
    leg = sent_in((CAPTURED / "kafka-producer-tool.txt").read_text())
    assert leg.count == 400_000
    assert leg.rate == pytest.approx(181488.203267)
    assert leg.seconds == pytest.approx(2.204, abs=1e-3)


def test_the_consumer_tool_says_count_bytes_and_the_time_without_joining():
    leg, size_bytes = consumed_in((CAPTURED / "kafka-consumer-tool.txt").read_text())
    assert (leg.count, leg.seconds) == (100_000, 3.961)
    assert leg.rate == pytest.approx(25246.15, rel=1e-4)
    assert size_bytes == pytest.approx(100_000 * 1024, rel=1e-5)


@pytest.mark.parametrize("out", ["", "an error\n", "1, 2, 3, 4, x, 6, 7, 8, 9, 10\n"])
def test_text_that_is_no_figure_is_refused(out):
    with pytest.raises(DriverFailed):
        sent_in(out)
    with pytest.raises(DriverFailed):
        consumed_in(out)
