"""What of a batch of failed messages its broker takes back, and what is tried again here."""

import random
from types import SimpleNamespace

import grpc
import pytest

from ariane.broker.v1.retry_service_pb2 import ReturnedMessage, ReturnMessagesResponse
from ariane_sdk import MessageQueue
from ariane_sdk.consumer.delivery.failed_messages import FailedMessages
from ariane_sdk.consumer.delivery.message_returns import MessageReturns
from ariane_sdk.routing.route import BrokerRoute
from ariane_sdk.runtime.clock import SystemClock

QUEUE = MessageQueue("orders", "broker-a", 0)
BROKER = BrokerRoute("c", "broker-a", {0: "127.0.0.1:1"}, 1, 1)
MESSAGES = [SimpleNamespace(queue_offset=each, commit_log_offset=100 + each) for each in range(3)]


@pytest.fixture
def send_back():
    """Send three messages back to a broker that answers so."""

    async def send_back(*results):
        async def answer(_request, **_options):
            return ReturnMessagesResponse(messages=results)

        connections = SimpleNamespace(
            retries=lambda _address: SimpleNamespace(ReturnMessages=answer)
        )
        returns = MessageReturns(
            lambda: connections,
            group="billing",
            broker_of=lambda _queue: BROKER,
            call_timeout_s=3.0,
            clock=SystemClock(),
            random=random.Random(1),
        )
        failed = FailedMessages(MESSAGES, "no account")
        return await returns.send_back(failed, QUEUE, return_id="r", local_attempts=0)

    return send_back


async def test_a_message_that_is_refused_by_itself_is_left_and_the_others_are_not(
    send_back, make_status, caplog
):
    refusal = make_status(grpc.StatusCode.INVALID_ARGUMENT, "MESSAGE_ILLEGAL")
    left = await send_back(
        ReturnedMessage(attempts=1), ReturnedMessage(error=refusal), ReturnedMessage(attempts=1)
    )
    assert left == [MESSAGES[1]]
    assert "1 message of" in caplog.text
    assert "from 1 on, cannot be sent back" in caplog.text


async def test_returned_messages_are_not_left_to_the_consumer(send_back):
    assert await send_back(*[ReturnedMessage(attempts=1)] * 3) == []


async def test_of_an_answer_with_too_few_results_nothing_is_believed(send_back, caplog):
    assert await send_back(ReturnedMessage(attempts=1)) == MESSAGES
    assert "1 results for 3 messages" in caplog.text
