"""What an append costs the broker beside its bytes: counted in calls of Python, never timed.

The figure is a bound for changes to come. Whoever makes it larger should know what for.
"""

import sys
from collections import Counter

from ariane_record import ProducerSequence
from ariane_testkit.append_rows import rows_request
from services.broker.tests.append_side import wire

OF_BROKER = ("ariane_broker/", "ariane_storage/", "ariane_servicekit/", "ariane_wire/server/")
CALLS_MAX = 125
SENDS = 20


class Counted:
    """Counts the calls of our functions, by package."""

    def __init__(self):
        self.calls = Counter()

    def __call__(self, frame, event, _):
        if event == "call":
            path = frame.f_code.co_filename
            self.calls.update(package for package in OF_BROKER if package in path)

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


async def test_a_lone_send_takes_few_calls_of_the_broker(broker):
    await broker.create_topic("orders")
    requests = [
        rows_request([wire("orders", 0, [b"x" * 1024], ProducerSequence(7, 0, number))])
        for number in range(2 * SENDS)
    ]
    for request in requests[:SENDS]:
        await broker.sends.AppendRecords(request)
    with Counted() as counted:
        for request in requests[SENDS:]:
            await broker.sends.AppendRecords(request)
    assert counted.calls.total() / SENDS < CALLS_MAX, counted.calls
