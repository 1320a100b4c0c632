from datetime import datetime

import pytest

from ariane_sdk import PushConsumer, errors


async def test_nobody_to_ask_is_an_error_at_once():
    consumer = PushConsumer(
        "127.0.0.1:1", group="lost", subscriptions={"nowhere": "*"}, listener=print
    )
    with pytest.raises(errors.NameServersUnreachable):
        await consumer.start()
    with pytest.raises(errors.ClientNotRunning):
        await consumer.start()


@pytest.mark.parametrize(
    "arguments",
    [
        {"group": "no good"},
        {"start": "yesterday"},
        {"start": datetime(2024, 1, 1)},  # noqa: DTZ001 - that is the mistake.
        {"batch_size": 0},
        {"ordered": True, "model": "broadcasting"},
        {"tags": "a ||"},
    ],
)
def test_nonsense_is_refused_before_anything_starts(arguments):
    tags = arguments.pop("tags", "*")
    options = {"group": "g", "listener": print} | arguments
    with pytest.raises(errors.IllegalArgument):
        PushConsumer("127.0.0.1:1", subscriptions={"orders": tags}, **options)
