"""Questions to clients whose stream has ended: nobody waits for an answer that cannot come."""

import asyncio
from dataclasses import replace
from itertools import count
from types import MappingProxyType

import pytest

from ariane_broker.clients.attached_client import AttachedClient
from ariane_broker.clients.client_questions import ClientQuestions
from ariane_broker.clients.outbox import ClientStateAsked
from ariane_servicekit.errors import ServiceError


@pytest.fixture
def client():
    return AttachedClient(
        client_id="a",
        language="PYTHON",
        sdk_version="0",
        producer_groups=(),
        memberships=MappingProxyType({}),
        address="",
        attach_time_ms=0,
        last_heard_ms=0,
        last_heard=0.0,
    )


@pytest.fixture
def questions():
    numbers = count()
    return ClientQuestions(new_id=lambda: f"{next(numbers)}")


def ask(questions, client):
    return questions.ask(
        client,
        lambda question_id: ClientStateAsked(question_id, with_stacks=False),
        600,
        wait_seconds_max=600,
        if_silent="it may be busy",
    )


async def test_a_question_to_one_whose_stream_has_ended_is_not_waited_for(questions, client):
    client.outbox.close()
    with pytest.raises(ServiceError, match="left before it answered"):
        await ask(questions, client)


async def test_the_end_of_a_stream_ends_its_questions_and_no_others(questions, client):
    waiting = asyncio.ensure_future(ask(questions, client))
    await client.outbox.take()
    questions.left(replace(client, client_id="b"))
    assert not waiting.done()
    questions.left(client)
    with pytest.raises(ServiceError, match="client 'a' left before it answered"):
        await waiting
    questions.answered(client, "0", "too late")
    questions.left(client)
