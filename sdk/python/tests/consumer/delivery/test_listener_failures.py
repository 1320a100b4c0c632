import logging
from types import SimpleNamespace

import pytest

from ariane_sdk import MessageQueue
from ariane_sdk.consumer.delivery.failed_messages import KNOWN_MAX, ListenerFailures
from ariane_sdk.errors import MessagesFailed

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def tell(caplog):
    """Tells of a function that fails with the messages 7 and 8; gives what was logged."""
    failures = ListenerFailures()
    messages = [SimpleNamespace(queue_offset=7), SimpleNamespace(queue_offset=8)]

    def tell(function, *arguments):
        caplog.clear()
        try:
            function(*arguments)
        except Exception as error:  # noqa: BLE001 - as a listener fails.
            failures.log(QUEUE, messages, messages, error)
        [record] = caplog.records
        assert (record.name, record.levelno) == ("ariane_sdk", logging.WARNING)
        return record

    return tell


def refuse(number):
    raise ValueError(f"no account {number}")


def refuse_otherwise():
    raise ValueError("closed")


def test_a_failure_has_its_trace_once_for_each_place_and_a_line_each_time(tell):
    first, second = tell(refuse, 1), tell(refuse, 2)
    assert first.exc_info is not None
    assert second.exc_info is None
    assert second.getMessage() == (
        "the listener failed with 2 of 2 messages of orders@broker-a#0 from 7 on:"
        " ValueError('no account 2')"
    )
    assert tell(refuse_otherwise).exc_info is not None
    assert tell(refuse, 3).exc_info is None


def test_the_log_has_the_text_of_a_listener_s_error(tell):
    def fail():
        raise MessagesFailed([], "not to my liking")

    told = tell(fail)
    assert told.getMessage().endswith("from 7 on: not to my liking")
    # It says what the application meant to say; a cause has a trace.
    assert told.exc_info is None

    def fail_for_a_cause():
        try:
            refuse(1)
        except ValueError as error:
            raise MessagesFailed([], "not to my liking") from error

    assert tell(fail_for_a_cause).exc_info is not None


def test_many_places_are_not_all_remembered(tell):
    for number in range(KNOWN_MAX + 1):
        code = compile("raise ValueError", f"place-{number}", "exec")
        assert tell(exec, code).exc_info is not None
    assert tell(refuse, 1).exc_info is not None
