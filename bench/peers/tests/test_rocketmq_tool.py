from pathlib import Path

import pytest
from peer_bench.contenders.rocketmq.tool import ready_seconds, sent_in
from peer_bench.errors import DriverFailed

CAPTURED = Path(__file__).parent / "captured"


def test_the_tool_says_its_rate_and_what_failed_in_its_last_line():
    assert sent_in((CAPTURED / "rocketmq-batch-producer.txt").read_text()) == (12276, 1_471_000)


@pytest.mark.parametrize("out", ["", "Send MPS: ", "Send MPS: 0 | Send Message Failed: 7"])
def test_text_that_is_no_figure_is_refused(out):
    with pytest.raises(DriverFailed):
        sent_in(out)


@pytest.mark.parametrize(
    ("behind_before", "behind_after", "seconds"),
    [(0, 0, 10), (0, 800, 18), (200, 800, 16), (900, 800, 10)],
)
def test_what_is_behind_takes_its_part_of_the_time_until_nothing_is(
    behind_before, behind_after, seconds
):
    assert ready_seconds(10, 8, behind_before, behind_after) == pytest.approx(seconds)
