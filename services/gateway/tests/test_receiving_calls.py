"""How long a receive is held."""

import pytest

from apache.rocketmq.v2 import service_pb2 as pb
from ariane_gateway.rpc.caller import Caller
from ariane_gateway.rpc.receiving_calls import _hold_s


@pytest.mark.parametrize(
    ("wanted_s", "deadline_s", "held_s"),
    [(5, 60, 5), (None, 60, 20), (5, 5, 4.5), (20, 20, 18), (2, 2, 1.5), (5, 0.2, 0)],
)
def test_the_answer_leaves_a_tenth_of_the_deadline_to_travel(wanted_s, deadline_s, held_s):
    request = pb.ReceiveMessageRequest()
    if wanted_s is not None:
        request.long_polling_timeout.FromSeconds(wanted_s)
    caller = Caller("c", "RUST", "5.0.0", "127.0.0.1", deadline_s)
    assert _hold_s(request, caller) == pytest.approx(held_s)
